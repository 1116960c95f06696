"""`assetsync explain`: print the state of a file and its reasons, as text or as JSON, from `path_state`."""

import time
from collections.abc import Iterator
from contextlib import closing

import click

from assetsync.cli.commands.files import as_object, more_of
from assetsync.cli.options import known_path, with_config, with_json
from assetsync.cli.output import write_data, write_json, write_parts
from assetsync.cli.path_state import PathState, Version, read_path_state
from assetsync.config import SiteConfig
from assetsync.errors import UnknownPath
from assetsync.ledger.metadata_drift import adopted_difference_of, drift_of
from assetsync.ledger.reports import view_ledger
from assetsync.ledger.rows import AttemptRow
from assetsync.model import State, Wanted
from assetsync.status.document import brake_object, hold_object
from assetsync.status.file_sentences import attempt_line, error_of, meaning_of, next_try_text
from assetsync.status.sentences import NOT_READ_BACK, about, next_step
from assetsync.text import amount, moment, path_keys, printable, runnable


@click.command("explain")
@with_config
@with_json("Print one object.")
@click.argument("path", metavar="PATH|ASSETID")
def command(config: SiteConfig, path: str, *, as_json: bool) -> None:
    """Show why a file is in its state: its mapping, rules, sidecars, versions and attempts, and what helps.

    For a folder, show its mapping and the number of its files by state. For both, show since when and until when the
    folder of the service is held. PATH is relative to the root, or absolute. A name with escaped characters may be
    written as `files` shows it. An ASSETID stands for the file whose asset it is, or was last. The command exits with 2
    if neither the ledger nor the tree knows the file.

    With --json, each sentence has its values beside it: `assetsync schema explain` describes them.

    \b
    Examples:
      assetsync explain --config hq.yaml photos/harbour.jpg
      assetsync explain --config hq.yaml /srv/media/photos/harbour.jpg
      assetsync explain --config hq.yaml D4E00E129DF54C2F8AA1A50653563CE1
      assetsync explain --config hq.yaml photos/harbour.jpg --json | jq '.versions[0].history'
    """
    state = read_path_state(config, known_path(config, path))
    if _is_unknown(state) and (owner := _owner_of(config, path)) is not None:
        state = read_path_state(config, owner)
    if as_json:
        write_json(_as_object(state))
    else:
        write_data(printable(state.path))
        for first, *more in _lines(state, config):
            write_parts(f"  {first}", *more, between=" ")
    if _is_unknown(state):
        # Only after the output: it names the rule or the mapping that would apply to the path.
        raise UnknownPath(printable(state.path))


def _is_unknown(state: PathState) -> bool:
    return not state.versions and state.below is None and state.disk.kind == "absent"


def _owner_of(config: SiteConfig, assetid: str) -> bytes | None:
    """Return the path of the file whose asset has this id, None if no version has or had it."""
    with closing(view_ledger(config.ledger, site=config.site)) as ledger:
        rows = ledger.reports.of_asset(assetid)
    return rows[0].path if rows else None


def _waits_for(state: PathState) -> str | None:
    brake = state.brake
    return state.paused if brake is None else f"brake {brake.id} is pulled: {printable(brake.detail)}"


def _as_object(state: PathState) -> dict[str, object]:
    """Return what `explain --json` prints."""
    disk, mapping, covered, brake, hold = state.disk, state.mapping, state.covered, state.brake, state.hold
    shown = {
        "on_disk": disk.detail,
        "disk": {"type": disk.kind, "size": disk.size, "mtime": moment(disk.mtime)},
        "mapping": covered.detail,
        "destfolderid": None if mapping is None else mapping.destfolderid,
        "reason": covered.reason,
        "detail": covered.detail,
        "rule": covered.rule,
        "waits_for": _waits_for(state),
        "brake": None if brake is None else brake_object(brake),
        "hold": None if mapping is None or hold is None else hold_object(mapping.destfolderid, hold),
        "files": state.below,
        "versions": [_version_object(state, version) for version in state.versions],
    }
    return path_keys(state.path) | state.report.as_object() | shown


def _version_object(state: PathState, version: Version) -> dict[str, object]:
    row, due = version.row, version.next_try
    needs_operator = row.state is State.BLOCKED and row.wanted in (Wanted.YES, Wanted.OUTSIDE)
    return (
        as_object(row, state.holds)
        | more_of(row)
        | {
            "id_from": row.id_from,
            "next_try": None if due is None else moment(due.at),
            "next_try_reason": None if due is None else due.reason,
            "next_try_detail": None if due is None else due.why,
            "most_before": None if due is None else due.most_before,
            "help": runnable(next_step(row)) if needs_operator else None,
            "history": [_attempt_object(attempt) for attempt in version.attempts],
        }
    )


def _attempt_object(attempt: AttemptRow) -> dict[str, object]:
    """Return an attempt as an object for JSON."""
    return {
        "sent_at": moment(attempt.started_at),
        "ended_at": moment(attempt.ended_at),
        "destfolderid": attempt.destfolderid,
        "sent_name": attempt.sent_name,
        "size": attempt.size,
        "bytes_left": attempt.bytes_sent,
        "open": attempt.closed_at is None,
        "result": attempt.result,
        "reason": attempt.why,
        "why": attempt.why,
        "looks": attempt.looks,
    }


def _lines(state: PathState, config: SiteConfig) -> Iterator[tuple[str, ...]]:
    """Yield the lines below the path, each in parts."""
    yield "on disk:", runnable(state.disk.detail)
    yield "mapping:", state.covered.detail
    for line in state.report.lines:
        what, _, known = line.partition(": ")
        yield f"{what}:", known
    waits = _waits_for(state)
    if waits is not None:
        yield "waits:", runnable(waits)
    hold, mapping = state.hold, state.mapping
    if hold is not None and mapping is not None:
        since = [f"since {moment(hold.since)},"] if hold.since else []
        # A listing that takes long has no known end.
        has_end = hold.until > (hold.since or 0.0)
        until = f"{f'at least until {moment(hold.until)}: ' if has_end else ''}{runnable(printable(hold.detail))}"
        yield f"held: nothing is sent to folder {printable(mapping.destfolderid)}", *since, until
    if state.below is not None:
        counts = [f"{count:,} {name.replace('_', ' ')}" for name, count in state.below.items()]
        yield (f"files below it: {', '.join(counts) or 'none known'}",)
    for version in state.versions:
        yield from _version(state, version, config)
    if state.prospect is not None:
        yield (state.prospect,)


def _version(state: PathState, version: Version, config: SiteConfig) -> Iterator[tuple[str, ...]]:
    row, due = version.row, version.next_try
    current = "" if row.wanted is Wanted.YES else f" ({row.wanted} on disk)"
    yield f"{row.state.words}{current}:", meaning_of(row, due)
    yield f"    {amount(row.size)}, MD5 {row.md5 or 'not known yet'},", f"written {moment(row.mtime_ns / 1e9)}"
    if row.assetid is not None:
        how = "found there and taken over" if row.id_from == "adopted" else "given by the service"
        yield f"    asset {row.assetid}", f"in folder {row.asset_folder or row.destfolderid},", how
    times = (("queued", row.queued_at), ("uploaded", row.uploaded_at), ("verified", row.verified_at))
    known = [f"{name} {moment(at)}" for name, at in times if at is not None]
    yield f"    {', '.join(known[:2])}{',' if known[2:] else ''}", *known[2:]
    # The line about the folder of the mapping has told already why it is held.
    named = None if state.mapping is None else state.mapping.destfolderid
    error = error_of(row, {folder: hold for folder, hold in state.holds.items() if folder != named})
    if error is not None:
        yield (f"    why: {runnable(about(row, error))}",)
    elif row.detail is not None and row.state is State.STORED:
        yield (f"    {runnable(about(row, row.detail))}",)
    for difference in filter(None, (drift_of(row), adopted_difference_of(row))):
        yield (f"    metadata: {printable(difference)}",)
    for attempt in version.attempts:
        first, *more = attempt_line(attempt)
        yield f"    {first}", *more
    if due is not None:
        yield (f"    next try: {runnable(about(row, next_try_text(due, time.time())))}",)
    elif row.state is State.STORED and row.wanted is Wanted.YES and not config.schedule.reads_back:
        yield (f"    {NOT_READ_BACK}; {runnable('`assetsync reconcile`')} reads it back",)
    if row.state is State.BLOCKED and row.wanted in (Wanted.YES, Wanted.OUTSIDE):
        yield (f"    what helps: {runnable(next_step(row))}",)

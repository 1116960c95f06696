"""`assetsync explain`: print the state of a file and its reasons, from the ledger, the configuration and the tree.

The output includes the sidecars of the file, the history of its attempts and the next automatic step. The service is
not asked.
"""

import stat
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import click

from assetsync.app import make_tree
from assetsync.cli.files import as_object, drift_of, error_of, more_of
from assetsync.cli.options import known_path, with_config, with_json
from assetsync.cli.output import write, write_json, write_parts
from assetsync.clock import SystemClock
from assetsync.config import SiteConfig, mappings
from assetsync.config.models import Schedule
from assetsync.core.doubt import MostDoubts
from assetsync.core.mapping import IgnoreRules, Mappings, Plan
from assetsync.core.metadata import FOLDER_SIDECAR, SUFFIX, folder_sidecars, is_sidecar_name, sidecar_for
from assetsync.core.settled import KEEPS_CHANGING
from assetsync.errors import FileUnreadable, RootMissing, SidecarError, TreeError, UnknownPath
from assetsync.ledger.database import holder_of
from assetsync.ledger.folders import Hold
from assetsync.ledger.ledger import Ledger, read_ledger
from assetsync.ledger.reports import Brake
from assetsync.ledger.rows import AttemptRow, FileRow
from assetsync.model import Mapping, SentExtent, State, Wanted
from assetsync.status.document import brake_object, hold_object
from assetsync.status.sentences import NOT_READ_BACK, next_step
from assetsync.sync.brakes import subject_of
from assetsync.sync.intake.sidecars import Sidecars
from assetsync.text import amount, decoded, moment, on_the_wall, path_keys, plural, printable, runnable
from assetsync.tree.safe_open import Tree


@dataclass
class Said:
    """The sidecars of a file and the metadata merged from all levels, or the first mistake in them.

    For a sidecar: the file or folder that it describes, and the fields that it sets. `lines` are the same for a person.
    """

    sidecars: list[bytes] | None = None
    metadata: dict[str, str] | None = None
    describes: bytes | None = None
    sets: list[str] | None = None
    mistake: str | None = None
    lines: list[str] = field(default_factory=list)

    def as_object(self) -> dict[str, object]:
        """Return the keys for JSON; `said` has the lines."""
        return {
            "said": self.lines,
            "sidecars": self.sidecars and [decoded(path) for path in self.sidecars],
            "metadata": self.metadata,
            "describes": None if self.describes is None else decoded(self.describes),
            "sets": self.sets,
            "sidecar_error": self.mistake,
        }


def said_of(config: SiteConfig, mapping: Mapping, path: bytes) -> Said:
    """Return what the sidecars say about a file, or what a sidecar says."""
    said = Said()
    tree = make_tree(config)
    sidecars = Sidecars(tree, SystemClock(), config.service.metadata_fields.table())
    try:
        if mapping.sidecars and is_sidecar_name(path.rpartition(b"/")[2]):
            _said_by(said, tree, sidecars, path, mapping)
            return said
        if mapping.sidecars:
            names = (*folder_sidecars(path), sidecar_for(path))
            said.sidecars = [name for name in names if tree.lstat(name) is not None]
            said.lines.append(f"sidecars: {', '.join(map(printable, said.sidecars)) or 'none'}")
        said.metadata = dict(sidecars.told(path, mapping).fields)
        said.lines += [f"metadata: {printable(name)} = {printable(value)}" for name, value in said.metadata.items()]
    except SidecarError as error:
        said.mistake = printable(str(error))
        said.lines.append(f"metadata: {said.mistake}")
    except (TreeError, RootMissing):
        # The tree cannot be read; `explain` reports this in its line "on disk".
        pass
    return said


def _said_by(said: Said, tree: Tree, sidecars: Sidecars, path: bytes, mapping: Mapping) -> None:
    folder, _, name = path.rpartition(b"/")
    if name == FOLDER_SIDECAR:
        said.describes = folder or b"."
        said.lines.append(f"describes: every file below {printable(said.describes)}")
    else:
        said.describes = path.removesuffix(SUFFIX)
        missing = "" if tree.lstat(said.describes) is not None else ", which is not there: it is not read"
        said.lines.append(f"describes: {printable(said.describes)}{missing}")
    level, _size = sidecars.read(path, mapping)
    if level is not None:
        said.sets = [key for key, value in asdict(level).items() if value not in (None, ())]
        said.lines.append(f"metadata: {', '.join(said.sets) or 'none'}")


def attempt_line(attempt: AttemptRow) -> tuple[str, ...]:
    """Return the parts of a line about an attempt: bytes sent, duration and result."""
    handed = "an unknown part" if attempt.handed is None else amount(attempt.handed)
    left = f"{handed} of {amount(attempt.size)} handed over"
    if attempt.left_part == SentExtent.NOTHING:
        # The bytes were read for a form that was never sent: leave out their number.
        left = "nothing left this machine"
    took = "" if attempt.ended_at is None else f" in {attempt.ended_at - attempt.started_at:.1f} s"
    became = printable(attempt.result or "open")
    became += f" ({printable(attempt.why)})" if attempt.why and attempt.why != attempt.result else ""
    looks = f", {plural(attempt.looks, 'look-up')}" if attempt.looks else ""
    sent_name = f"as {printable(attempt.sent_name)}:"
    return f"attempt {moment(attempt.started_at)}", sent_name, f"{left}{took}:", f"{became}{looks}"


def attempt_object(attempt: AttemptRow) -> dict[str, object]:
    """Return an attempt as an object for JSON."""
    return {
        "sent_at": moment(attempt.started_at),
        "ended_at": moment(attempt.ended_at),
        "destfolderid": attempt.destfolderid,
        "sent_name": attempt.sent_name,
        "size": attempt.size,
        "bytes_left": attempt.handed,
        "open": attempt.closed_at is None,
        "result": attempt.result,
        "reason": attempt.why,
        "why": attempt.why,
        "looks": attempt.looks,
    }


class NextTry(NamedTuple):
    """The time of the next automatic step for a version (seconds since the epoch), a word and a note about the wait."""

    at: float
    reason: str | None = None
    why: str | None = None


def next_try(ledger: Ledger, row: FileRow, config: SiteConfig) -> NextTry | None:
    """Return the next automatic step for a version; None if there is none."""
    if row.state is State.IN_DOUBT:
        attempt = ledger.doubts.of(row.id)
        return None if attempt is None else NextTry(attempt.look_at)
    if row.wanted is Wanted.YES and row.state is State.BLOCKED and row.reason == KEEPS_CHANGING:
        return NextTry(row.due_at, KEEPS_CHANGING, "if it does not change before")
    if row.wanted is not Wanted.YES or row.state not in (State.QUEUED, State.STORED):
        return None
    if row.state is State.STORED:
        return _read_back(ledger, row, config.schedule)
    window, now = config.upload.window, time.time()
    hold = ledger.reports.holds(now).get(row.destfolderid)
    due = row.due_at if hold is None else max(now, row.due_at, hold.until)
    opens = None if window is None else window.opens(max(now, due))
    if opens is not None:
        return NextTry(opens, "window", f"when upload.window opens ({on_the_wall(opens)})")
    if hold is None:
        return NextTry(due)
    return NextTry(due, hold.reason, f"when folder {printable(row.destfolderid)} is tried again")


def _read_back(ledger: Ledger, row: FileRow, times: Schedule) -> NextTry | None:
    """Return when a stored version is read back: at the next run of the index or the verify job after it is due."""
    from assetsync.daemon.schedule import next_run  # noqa: PLC0415 - slow to load, and rarely needed

    last = ledger.runs.last()
    runs = [
        next_run(when, last[job].at if job in last else None)
        for job, when in (("index", times.index), ("verify", times.verify))
    ]
    return NextTry(max(row.due_at, min(at for at in runs if at is not None))) if any(runs) else None


_ATTEMPTS = 20
_OF_A_MAPPING = ("destfolderid", "takeover")
_OF_THE_TREE = ("root", "twin")
_OF_WHAT_IS_GONE = (*_OF_THE_TREE, "emptied", "vanished")
_ON_DISK = {
    "absent": "no file",
    "folder": "a folder: `assetsync files` lists what is below it",
    "link": "a symbolic link: left out, see watch.follow_symlinks",
    "other": "neither a file nor a folder: left out",
    "outside": "no file of the tree: it was uploaded by hand",
}
_MEANS = {
    State.QUEUED: "it waits to be sent",
    State.SENDING: "it is on its way",
    State.IN_DOUBT: "its upload got no sound answer: it is looked up until it is clear whether it arrived",
    State.STORED: "the service gave an id; it is not read back yet",
    State.VERIFIED: "it was read back from the service as it was sent",
    State.BLOCKED: "an operator must act",
    State.SUPERSEDED: "a newer version has taken its place",
    State.GONE: "it is no longer in the tree",
}


@click.command("explain")
@with_config
@with_json("Print one object.")
@click.argument("path")
def command(config: SiteConfig, path: str, *, as_json: bool) -> None:
    """Show why a file is in its state: its mapping, rules, sidecars, versions and attempts, and what helps.

    For a folder, show its mapping and the number of its files by state. For both, show since when and until when the
    folder of the service is held. PATH is relative to the root, or absolute. A name with escaped characters may be
    written as `files` shows it. The command exits with 2 if neither the ledger nor the tree knows PATH.

    With --json, each sentence has its values beside it: `assetsync schema explain` describes them.

    \b
    Examples:
      assetsync explain --config hq.yaml photos/harbour.jpg
      assetsync explain --config hq.yaml /srv/media/photos/harbour.jpg
      assetsync explain --config hq.yaml photos/harbour.jpg --json | jq '.versions[0].history'
    """
    wanted = known_path(config, path)
    disk = _on_disk(config, wanted)
    is_folder = disk.kind == "folder"
    mapping = _mapping_of(config, wanted, is_folder=is_folder)
    covered = _covered(config, wanted, mapping, is_folder=is_folder)
    # A folder is not sent, so there is no metadata to print for it.
    said = Said() if is_folder or mapping is None else said_of(config, mapping, wanted)
    with closing(read_ledger(config.ledger, site=config.site)) as ledger:
        rows = ledger.reports.of_path(wanted)
        below = None if rows else _below(ledger, wanted, is_there=is_folder)
        holds = ledger.reports.holds(time.time())
        brake = None if mapping is None else _asking(ledger, mapping)
        asked = None if brake is None else f"brake {brake.id} is pulled: {printable(brake.detail)}"
        hold = None if mapping is None else holds.get(mapping.destfolderid)
        if as_json:
            shown = {
                "on_disk": disk.detail,
                "disk": {"type": disk.kind, "size": disk.size, "mtime": moment(disk.mtime)},
                "mapping": covered.detail,
                "destfolderid": None if mapping is None else mapping.destfolderid,
                "reason": covered.reason,
                "detail": covered.detail,
                "rule": covered.rule,
                "waits_for": asked,
                "brake": None if brake is None else brake_object(brake),
                "hold": None if hold is None or mapping is None else hold_object(mapping.destfolderid, hold),
                "files": below,
                "versions": [_version_object(config, ledger, row, holds) for row in rows],
            }
            write_json(path_keys(wanted) | said.as_object() | shown)
        else:
            write(printable(wanted))
            waits = [f"waits: {asked}"] if asked else []
            for line in (f"on disk: {disk.detail}", f"mapping: {covered.detail}", *said.lines, *waits):
                what, _, known = line.partition(": ")
                write_parts(f"  {what}:", known, between=" ")
            if hold is not None and mapping is not None:
                since = [f"since {moment(hold.since)},"] if hold.since else []
                until = f"at least until {moment(hold.until)}: {printable(hold.detail)}"
                folder = printable(mapping.destfolderid)
                write_parts(f"  held: nothing is sent to folder {folder}", *since, until, between=" ")
            if below is not None:
                known = ", ".join(f"{count:,} {state.replace('_', ' ')}" for state, count in below.items())
                write(f"  files below it: {known or 'none known'}")
            for first, *more in (parts for row in rows for parts in _version(config, ledger, row, holds)):
                write_parts(f"  {first}", *more, between=" ")
            if disk.kind in ("absent", "folder") and any(row.wanted is Wanted.YES for row in rows):
                brake = next((brake for brake in ledger.reports.brakes() if brake.kind in _OF_WHAT_IS_GONE), None)
                concluded = (
                    "the next scan notices"
                    if brake is None
                    else f"nothing is concluded from that before brake {brake.id} is released"
                )
                write(f"  it is gone from the tree: {concluded}")
            if not rows and covered.reason is None and disk.kind in ("file", "unreadable"):
                write(f"  {_unknown(config, ledger, wanted, disk)}")
    if not rows and below is None and disk.kind == "absent":
        # Only after the output: it names the rule or the mapping that would apply to the path.
        raise UnknownPath(printable(wanted))


def _below(ledger: Ledger, folder: bytes, *, is_there: bool) -> dict[str, int] | None:
    """Count the files below a folder by state; None if neither the tree nor the ledger has such a folder."""
    counts = Counter(row.state for row in ledger.reports.files(under=folder))
    if not counts and not is_there and next(ledger.reports.files(history=True, under=folder), None) is None:
        return None
    return {str(state): counts[state] for state in State if counts[state]}


class _Disk(NamedTuple):
    """What the tree has at a path: a key of `_ON_DISK`, `file` or `unreadable`, and the same for a person."""

    kind: str
    detail: str
    size: int | None = None
    mtime: float | None = None


def _on_disk(config: SiteConfig, path: bytes) -> _Disk:
    if path.startswith(b"/"):
        return _Disk("outside", _ON_DISK["outside"])
    tree = make_tree(config)
    try:
        found = tree.lstat(path)
        if found is None:
            kind = _kind(tree, path)
            return _Disk(kind, _ON_DISK[kind])
    except (FileUnreadable, RootMissing) as error:
        return _Disk("unreadable", printable(str(error)))
    mtime = found.mtime_ns / 1e9
    return _Disk("file", f"{amount(found.size)}, written {moment(mtime)}", found.size, mtime)


def _kind(tree: Tree, path: bytes) -> str:
    """Return what is at a path that is not a regular file."""
    try:
        mode = tree.look(path).st_mode
    except OSError:
        return "absent"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


class _Covered(NamedTuple):
    """What the configuration does with a path, for a person; the reason not to upload it, and the ignore rule."""

    detail: str
    reason: str | None = None
    rule: str | None = None


def _covered(config: SiteConfig, path: bytes, mapping: Mapping | None, *, is_folder: bool) -> _Covered:
    if path.startswith(b"/"):
        return _Covered(_ON_DISK["outside"], "outside")
    known = Mappings(mappings(config))
    is_sidecar = not is_folder and Plan(known, config.ignore).is_sidecar(path)
    if mapping is None:
        if is_sidecar:
            said = "no entry of `folders` covers it: it is read for the mapped folders below, not uploaded"
            return _Covered(said, "sidecar")
        return _Covered("no entry of `folders` covers it, so it is not uploaded", "unmapped")
    shown = printable(mapping.path) or "."
    if is_sidecar:
        return _Covered(f"{shown}, where *.yaml are sidecars: it is read, not uploaded", "sidecar")
    rules = IgnoreRules(known, config.ignore)
    found = rules.rule(path, is_dir=is_folder)
    if found is not None:
        said = f"{shown}, but it is left out: {rules.why(path, is_dir=is_folder)}"
        return _Covered(said, "ignored", printable(found[0].pattern))
    return _Covered(f"{shown} → folder {mapping.destfolderid}")


def _mapping_of(config: SiteConfig, path: bytes, *, is_folder: bool) -> Mapping | None:
    known = Mappings(mappings(config))
    position = known.for_directory(path if is_folder else path.rpartition(b"/")[0])
    return None if position is None else known.all[position]


def _asking(ledger: Ledger, mapping: Mapping) -> Brake | None:
    """Return the pulled brake that asks a person to confirm the folder of a mapping; None if there is none."""
    subject = subject_of(mapping)
    asking = (brake for brake in ledger.reports.brakes() if brake.kind in _OF_A_MAPPING and brake.subject == subject)
    return next(asking, None)


def _unknown(config: SiteConfig, ledger: Ledger, path: bytes, disk: _Disk) -> str:
    """Return when a file that the ledger does not know will be recorded."""
    if disk.kind == "unreadable":
        return "the ledger does not know it: it is recorded once it can be read"
    brake = next((brake for brake in ledger.reports.brakes() if brake.kind in _OF_THE_TREE), None)
    if brake is not None:
        return f"the ledger does not know it: nothing is looked at before brake {brake.id} is released"
    if not holder_of(ledger.store.path).sends:
        return "the ledger does not know it yet: the next run records it"
    mapping = _mapping_of(config, path, is_folder=False)
    settle = f"{config.watch.settle if mapping is None else mapping.settle:g} s"
    return f"the ledger does not know it yet: it is queued once it was unchanged for {settle}, or when a scan finds it"


def _version_object(config: SiteConfig, ledger: Ledger, row: FileRow, holds: dict[str, Hold]) -> dict[str, object]:
    due = next_try(ledger, row, config)
    reason, waits = (None, None) if due is None else _holds_up(config, ledger, row) or (due.reason, due.why)
    needs_operator = row.state is State.BLOCKED and row.wanted is Wanted.YES
    return (
        as_object(row, holds)
        | more_of(row)
        | {
            "id_from": row.id_from,
            "next_try": moment(None if due is None else due.at),
            "next_try_reason": reason,
            "next_try_detail": waits,
            "help": runnable(next_step(row)) if needs_operator else None,
            "history": [attempt_object(attempt) for attempt in ledger.doubts.attempts(row.id, _ATTEMPTS)],
        }
    )


def _version(config: SiteConfig, ledger: Ledger, row: FileRow, holds: dict[str, Hold]) -> Iterator[tuple[str, ...]]:
    """Yield the lines about a version, each in parts."""
    current = "" if row.wanted is Wanted.YES else f" ({row.wanted} on disk)"
    yield f"{row.state.replace('_', ' ')}{current}:", _MEANS[row.state]
    yield f"    {amount(row.size)}, MD5 {row.md5 or 'not known yet'},", f"written {moment(row.mtime_ns / 1e9)}"
    if row.assetid is not None:
        how = "found there and taken over" if row.id_from == "adopted" else "given by the service"
        yield f"    asset {row.assetid}", f"in folder {row.asset_folder or row.destfolderid},", how
    times = (("queued", row.queued_at), ("uploaded", row.uploaded_at), ("verified", row.verified_at))
    known = [f"{name} {moment(at)}" for name, at in times if at is not None]
    yield f"    {', '.join(known[:2])}{',' if known[2:] else ''}", *known[2:]
    error = error_of(row, holds)
    if error is not None:
        yield (f"    why: {printable(error)}",)
    elif row.detail is not None and row.state is State.STORED:
        yield (f"    {printable(row.detail)}",)
    drift = drift_of(row)
    if drift is not None:
        yield (f"    metadata: {printable(drift)}",)
    for attempt in ledger.doubts.attempts(row.id, _ATTEMPTS):
        first, *more = attempt_line(attempt)
        yield f"    {first}", *more
    due = next_try(ledger, row, config)
    if due is not None:
        when = f"{moment(due.at) if due.at > time.time() else 'now'}, where a process runs"
        if due.why is not None:
            when = f"{moment(due.at)}, {due.why}"
        held_up = _holds_up(config, ledger, row)
        yield (f"    next try: {when if held_up is None else held_up[1]}",)
    elif row.state is State.STORED and row.wanted is Wanted.YES and not config.schedule.reads_back:
        yield (f"    {NOT_READ_BACK}; assetsync reconcile reads it back",)
    if row.state is State.BLOCKED and row.wanted is Wanted.YES:
        yield (f"    what helps: {next_step(row)}",)


def _holds_up(config: SiteConfig, ledger: Ledger, row: FileRow) -> tuple[str, str] | None:
    """Return what the next upload waits for besides its time, in a word and a sentence; None if there is nothing."""
    if row.state is not State.QUEUED:
        return None
    brakes = ledger.reports.brakes()
    if brakes:
        return "brake", f"once brake {brakes[0].id} is released: assetsync status tells why it is pulled"
    pause = ledger.runs.pause_at_hand() if holder_of(ledger.store.path).sends else None
    if pause is not None:
        return pause.reason, f"once the service answers as it should: {printable(pause.detail)}"
    most = MostDoubts.of(config.upload.workers, len({folder.destfolderid for folder in config.folders}))
    if ledger.doubts.count() > most.in_all:
        return "doubts", "once some of the uploads in doubt are decided: assetsync doubt list"
    # Files that were tried before have the lower limit of a folder; the rest of the limit is for newly saved files.
    if row.destfolderid in ledger.doubts.crowded(most.waiting_in_one_folder if row.attempts else most.in_one_folder):
        into = f"into folder {row.destfolderid}"
        return "doubts", f"once some of the uploads in doubt {into} are decided: assetsync doubt list"
    return None

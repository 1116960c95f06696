"""Describe the status of a site in sentences: the headline, the remaining work with its causes, and the next steps.

Reading the status is left to `site_status`, printing to the commands and the page.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from assetsync.core.brakes import released_by
from assetsync.core.outcome import UPLOAD_ADDRESS_HELP
from assetsync.core.read_back import NEVER_PROCESSED
from assetsync.errors import OutOfResources
from assetsync.ledger.metadata_drift import drift_of
from assetsync.ledger.rows import FileRow
from assetsync.ledger.runs import Pause
from assetsync.model import State
from assetsync.status.site_status import NAMED, SiteStatus
from assetsync.text import amount, files, hour, moment, on_the_wall, plural, printable, span

_BY_HAND = "`assetsync upload` it again, or `assetsync doubt resolve {path} --absent`"
# The next step for a blocked file, by its reason; other files are retried once their reason is gone. The page shows
# what is in backticks as code; `next_step` leaves out those around commands.
_HELP = {
    "empty_file": "fill it (it is then sent by itself), leave it out by an `ignore` pattern, or delete it"
    " (the next scan notices)",
    "sidecar": "correct or delete the sidecar: assetsync then sends the file",
    "unreadable": "fix its permissions, or restore it from a backup if its disk fails (see `dmesg`): each scan tries it"
    " again, at once `assetsync retry {path}`",
    "unknown_folder": "correct destfolderid or create the folder: every run tries again",
    "keeps_changing": "it is sent by itself once unchanged for an hour: leave it out by an `ignore` pattern, or set a"
    " longer folders[].settle for its mapping; as it is: `assetsync retry --send-again {path}`",
    "unprocessed": "each scan tries again; if it is another file: `assetsync retry --send-again {path}`",
    "resembles": "`assetsync reconcile --adopt`, or `assetsync retry --send-again {path}`",
    "changed": "`assetsync retry --send-again {path}`",
    # The first command takes over an equal asset; the second uploads another asset beside it.
    "missing": "`assetsync retry {path}`, or `assetsync retry --send-again {path}` if that finds nothing",
    "unseen": "`assetsync retry {path}`, or `assetsync retry --send-again {path}` if nothing is left of it",
    "never_processed": "`assetsync retry --send-again {path}`; if the service processes it late, it goes on by itself",
    "absent": _BY_HAND,
    "damaged": _BY_HAND,
    "undecidable": "`assetsync doubt resolve {path} --asset ID`, or `--absent`",
    "refused_as_duplicate": "`assetsync doubt resolve {path} --asset ID`",
}
_RETRY = "assetsync retry {path}"
_COMMAND = re.compile("`((?:assetsync |--)[^`]*)`")
_EACH = 5
"""More files than this in one folder that are blocked for the same reason share one line."""
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%")

_PAUSES = {
    "key_refused": "the service refuses the API key",
    "unreachable": "the service cannot be reached",
    "unsent": "the service cannot be reached",
    "no_answer": "the service does not answer",
    OutOfResources.REASON: "the process lacks file descriptors or memory",
    "elsewhere": "the service has a new address and shows none of the known assets",
}
NOT_READ_BACK = "not read back: schedule.verify and schedule.index are off"
_NO_ANSWER = "the service returns no usable answer"
_WORK = (("verify", "read back"), ("index", "indexed"))


def headline(status: SiteStatus) -> str:
    """Return the status in one sentence, which shows whether an operator must act, and whether many files vanished."""
    urgency, gone = _urgency(status), status.vanished_lately
    if gone is None:
        return urgency
    lately = f"{files(gone.count)} vanished, {hour(gone.at, status.at)}"
    return f"{urgency} {lately}." if urgency.endswith(".") else f"{urgency}; {lately}"


def _urgency(status: SiteStatus) -> str:
    blocked, brakes = status.counts.of(State.BLOCKED), len(status.brakes)
    needs = [f"{blocked:,} blocked"] * bool(blocked)
    needs += [plural(brakes, "brake")] * bool(brakes)
    needs += [not_there(status.missing_folders)] * bool(status.missing_folders)
    needs += [f"{unread(status)} unreadable"] * (status.unreadable is not None)
    needs += ["ledger disk full"] * (status.without_room is not None)
    needs += ["indexing stopped"] * (status.index_stopped is not None)
    needs += ["wrong upload address"] * (status.wrong_address is not None)
    opens = sent_from(status)
    waits = "" if opens is None else f", sent {opens}"
    without_sidecar = status.counts.waiting_for_sidecar
    pending = status.pending - status.not_read_back - without_sidecar
    going = [f"{pending:,} pending{waits}"] * bool(pending)
    going += [f"{without_sidecar:,} waiting for {'its sidecar' if without_sidecar == 1 else 'their sidecars'}"] * bool(
        without_sidecar
    )
    going += [f"{status.in_doubt:,} in doubt"] * bool(status.in_doubt)
    going += [f"{plural(len(status.undecided), 'folder')} to be audited"] * bool(status.undecided)
    lies = [f"{status.not_read_back:,} stored, {NOT_READ_BACK}"] * bool(status.not_read_back)
    held_up = status.held_up
    if held_up is not None and not held_up.everything:
        going.append(f"{plural(len(held_up.folders), 'folder')} waiting for uploads in doubt")
    pause = status.paused or status.ended_by
    if pause is not None and pause.reason == "key_refused":
        needs.insert(0, _paused(status, pause))
        pause = None
    rest = ", ".join([*going, *lies])
    if pause is not None:
        paused = _paused(status, pause)
        rest = "; ".join(filter(None, (paused[0].upper() + paused[1:], rest)))
    elif held_up is not None and held_up.everything:
        rest = f"Stopped by uploads in doubt for {span(status.at - held_up.since)} ({_next_decision(status)}); {rest}"
    if needs:
        return f"Action needed: {', '.join(needs)}." + (f" {rest}." if rest else "")
    if pause is not None or (held_up is not None and held_up.everything):
        return f"{rest}."
    if status.in_sync:
        return f"in sync{_as_of(status)}: {files(status.counts.of(State.VERIFIED))} verified"
    if going:
        return f"{'In progress' if status.running else 'No process is running'}: {rest}."
    return f"{rest}." if rest else "No complete scan yet."


def _next_decision(status: SiteStatus) -> str:
    at = None if status.held_up is None else status.held_up.decided_at
    if at is None or at <= status.at:
        return "the next is decided once look-ups prove what became of it"
    return f"the next can be decided in {span(at - status.at)}"


def held_by_doubts(status: SiteStatus) -> str | None:
    """Return which queued files wait for uploads in doubt, since when and until when; None if none does."""
    found = status.held_up
    if found is None:
        return None
    folders = ", ".join(map(printable, found.folders[:_EACH])) + ", …" * (len(found.folders) > _EACH)
    into = "" if found.everything else f" into folder {folders}"
    since = moment(found.since)
    return f"nothing is sent{into} since {since}, until uploads in doubt are decided; {_next_decision(status)}"


def _as_of(status: SiteStatus) -> str:
    """Return the time of the last scan; return nothing while a process runs, which sees changes."""
    scan = status.last_scan
    if status.running or scan is None:
        return ""
    return f" at the last scan, {hour(scan.at, status.at)} ({span(status.at - scan.at)} ago)"


def unread(status: SiteStatus) -> str:
    """Return the number of files and folders that the last scan was not allowed to read, in words."""
    return plural(0 if status.last_scan is None else status.last_scan.unread, "path")


def sent_from(status: SiteStatus) -> str | None:
    """Return when `upload.window` opens, in words; None if no file waits for it."""
    opens = status.sends_from
    return None if opens is None else f"from {moment(opens)} on (upload.window: {on_the_wall(opens)})"


def why_paused(pause: Pause) -> str:
    """Return the reason of a pause, in words."""
    return _PAUSES.get(pause.reason, _NO_ANSWER)


def _paused(status: SiteStatus, pause: Pause) -> str:
    why = why_paused(pause)
    if status.paused is not None:
        return f"paused for {span(status.at - pause.since)} ({why})"
    ago = span(status.at - (pause.since if pause.ended is None else pause.ended))
    return f"the last run ended {ago} ago ({why})"


def not_there(names: Sequence[str]) -> str:
    """Return the number of missing mapped folders, in words."""
    return f"{plural(len(names), 'mapped folder')} {'is' if len(names) == 1 else 'are'} not there"


def missing_folders(names: Iterable[str]) -> Iterator[str]:
    """Yield a line for each missing mapped folder, with the next step."""
    for name in names:
        helps = "mount its disk, correct `path` below `folders`, or create it"
        yield f"missing: the mapped folder `{name}` is not there: {helps}"


def trouble(status: SiteStatus) -> str | None:
    """Return the pause of the running process, or the trouble that ended the last process; None if there is none."""
    pause = status.paused or status.ended_by
    if pause is None:
        return None
    if status.paused is not None:
        return f"paused since {moment(pause.since)}: {printable(pause.detail)}"
    ended = "" if pause.ended is None else f", given up {moment(pause.ended)}"
    whose = "the process" if pause.reason == OutOfResources.REASON else "the service"
    return f"{whose}, since {moment(pause.since)}{ended}: {printable(pause.detail)}"


def no_room(status: SiteStatus) -> Iterator[str]:
    """Yield a warning and the next step if the disk of the ledger is full."""
    if status.without_room is not None:
        yield f"ledger: {status.without_room}: no upload starts without a record"
        yield "    free space; nothing is lost, and sending resumes by itself"


def regular_work(status: SiteStatus) -> str:
    """Return when files were last read back and last indexed."""
    runs = status.last_runs
    said = [f"{name}: {moment(runs[job].at) if job in runs else 'not yet'}" for job, name in _WORK]
    return "last " + "; last ".join(said)


def unsettled(status: SiteStatus) -> Iterator[str]:
    """Yield the number of files that are not settled, if there are any."""
    found = status.unsettled
    if found.count or found.overflowed:
        more = " and more" if found.overflowed else ""
        yield f"not settled yet: {files(found.count)}{more}, sent once unchanged for watch.settle"


def step_for(reason: str | None) -> str:
    """Return the next step for files blocked for this reason, with `{path}` for the file and commands in backticks."""
    return _HELP.get(reason or "", f"`{_RETRY}`")


def next_step(row: FileRow) -> str:
    """Return the next step for a blocked file: a command or an instruction."""
    return _COMMAND.sub(r"\1", step_for(row.reason)).format(path=quoted(row.path))


def is_command(row: FileRow) -> bool:
    """Whether the next step for a blocked file is a single command that can be run unchanged."""
    step = step_for(row.reason)
    return _COMMAND.fullmatch(step) is not None and " ID" not in step


def quoted(path: bytes) -> str:
    """Return a path quoted for a shell command; a path that `printable` changes is for reading only."""
    text = printable(path)
    return "'" + text.replace("'", "'\\''") + "'" if set(text) - _PLAIN else text


def why_blocked(row: FileRow) -> str:
    """Return why a file is blocked."""
    return printable(row.detail or row.reason or "for no known reason")


def scanned(status: SiteStatus) -> str:
    """Return when the tree was last scanned, whether the scan was complete, and how many paths it could not read."""
    scan = status.last_scan
    if scan is None:
        return "last scan: none recorded"
    moved = scan.unreadable - scan.unread
    said = f", {moved:,} moved or replaced meanwhile" if moved else ""
    said += f", {scan.unread:,} unreadable: assetsync check lists them" if scan.unread else ""
    return f"last scan: {moment(scan.at)}{', complete' if scan.complete else ', not complete'}{said}"


def orphan_sidecars(status: SiteStatus) -> Iterator[str]:
    """Yield a line about orphan sidecars, if there are any."""
    scan = status.last_scan
    if scan is not None and scan.stray:
        others = f" and {scan.stray - 1:,} more" if scan.stray > 1 else ""
        yield f"sidecars without a matching file: {scan.first_stray}{others}: assetsync check lists them"


def adopted_differing(status: SiteStatus) -> Iterator[str]:
    """Yield a line about adopted files with other metadata in the service than in the sidecars, if there are any."""
    if status.adopted_differing:
        yield (
            f"adopted with other metadata than in the sidecars: {files(status.adopted_differing)}:"
            " assetsync drift list --adopted lists them"
        )


def vanished(status: SiteStatus) -> Iterator[str]:
    """Yield the files that vanished from the tree in the last week: how many, when, where, and the first of them."""
    if status.vanished:
        total = sum(each.count for each in status.vanished)
        yield f"vanished in the last 7 days: {files(total)}; assetsync orphans --all lists their assets"
        newest = status.vanished[-1]
        for each in status.vanished[: -_EACH - 1 : -1]:
            yield f"    {moment(each.at)}: {each}"
            if each is newest:
                yield from (f"        {name}" for name in each.names)
                yield from ["        …"] * (each.count > len(each.names))


def counted(status: SiteStatus) -> str:
    """Return the number of files in each state."""
    counts = status.counts
    shown = ", ".join(f"{counts.of(state):,} {state.words}" for state in State if counts.of(state))
    return f"files: {shown or 'none known'}; {amount(counts.bytes_verified)} verified"


def uploaded(status: SiteStatus) -> str:
    """Return the files and bytes uploaded in the last 24 hours."""
    done, size = sum(hour.uploads for hour in status.hours), sum(hour.bytes for hour in status.hours)
    return f"last 24 hours: {files(done)} uploaded, {amount(size)}"


def waiting(status: SiteStatus) -> str | None:
    """Return the file that has waited longest to be verified; None if no file waits."""
    row = status.oldest
    if row is None:
        return None
    state = row.state.words
    why = f": {printable(row.detail)}" if row.state is State.QUEUED and row.detail else ""
    return f"waiting longest: {printable(row.path)}, known for {span(status.oldest_age)}, {state}{why}"


def leftovers(status: SiteStatus) -> Iterator[str]:
    """Yield a line for each thing that keeps the site from being in sync, with its next step."""
    for brake in status.brakes:
        yield f"brake {brake.id}: {printable(brake.detail)}"
        since = moment(brake.pulled_at)
        yield f"    since {since}; {released_by(brake.kind)}: assetsync resume {brake.id}"
    if status.undecided and not any(brake.kind == "missing" for brake in status.brakes):
        named = ", ".join(map(printable, status.undecided))
        yield f"audit pending: many assets are missing in folder {named} of the service, and its brake was released"
        yield "    the daemon or the next assetsync reconcile audits it; at once: assetsync audit"
    for folder, hold in status.holds.items():
        yield f"held: folder {printable(folder)}: {printable(hold.detail)}"
    yield from _blocked(status)
    more = status.counts.of(State.BLOCKED) - NAMED
    if more > 0:
        yield f"and {more:,} more blocked: assetsync files --state blocked"
    if status.unreadable is not None:
        yield f"unreadable: {status.unreadable}: nothing in it is sent, and nothing in it counts as deleted"
        yield "    give assetsync's user read permission: assetsync check, run as that user, names all"
    yield from _wrong_address(status)
    yield from _without_sidecars(status)
    if status.in_doubt:
        yield (f"in doubt: {status.in_doubt:,}, assetsync looks each up until it is decided: assetsync doubt list")
    if status.not_read_back:
        yield f"stored: {status.not_read_back:,}, {NOT_READ_BACK}"
        yield "    switch one of them on; as it is, only assetsync reconcile reads back"
    yield from _drifted(status)
    if status.refused is not None:
        at, mistake = moment(status.refused.at), printable(status.refused.mistake)
        yield f"configuration rejected at {at}; the old one stays active: {mistake}"
        yield "    correct it, then reload (systemctl reload, or SIGHUP)"
    if status.index_stopped is not None:
        yield f"indexing stopped: {printable(status.index_stopped)}"


def _without_sidecars(status: SiteStatus) -> Iterator[str]:
    """Yield how many files wait for their own sidecars, with the next step."""
    if status.counts.waiting_for_sidecar:
        count = files(status.counts.waiting_for_sidecar)
        yield f"waiting for their own sidecars, which `sidecars: required` asks for: {count}"
        yield "    put YAML or XMP files beside them; without: assetsync retry --without-sidecar PATH"


def _wrong_address(status: SiteStatus) -> Iterator[str]:
    """Yield why the address for uploads is not the service's, if it is known, with the next step."""
    if status.wrong_address is not None:
        yield f"wrong upload address: {printable(status.wrong_address)}"
        yield f"    {UPLOAD_ADDRESS_HELP}"


def _drifted(status: SiteStatus) -> Iterator[str]:
    """Yield a line for each file with metadata drift, with the next step."""
    for row in status.drifted:
        yield f"metadata drift: {printable(row.path)}: {printable(drift_of(row) or '')}"
    more = status.drift_count - len(status.drifted)
    if more > 0:
        yield f"and {more:,} more with metadata drift"
    if status.drifted:
        yield "    assetsync drift list shows what to set in the service; then assetsync drift settle"


def _blocked(status: SiteStatus) -> Iterator[str]:
    """Yield the blocked files with their next steps; many of one folder with the same reason share one line."""
    groups = [(row.path.rpartition(b"/")[0] or b".", row.reason or "blocked") for row in status.blocked]
    counts = Counter(groups)
    # Blocked files beyond NAMED may belong to the same group.
    least = "at least " * (status.counts.of(State.BLOCKED) > len(groups))
    told = set()
    for row, group in zip(status.blocked, groups, strict=True):
        if counts[group] <= _EACH:
            yield f"blocked: {printable(row.path)}: {why_blocked(row)}"
            yield f"    {next_step(row)}"
        elif group not in told:
            told.add(group)
            folder, reason = group
            first, *others = steps_of_many(folder, reason)
            yield f"blocked: {printable(folder)}: {least}{counts[group]:,} {reason.replace('_', ' ')}: {first}"
            yield from (f"    {step}" for step in others)


def steps_of_many(folder: bytes, reason: str) -> Iterator[str]:
    """Yield the next steps for many blocked files of a folder.

    The step is the retry of the whole folder; for other reasons, the command that lists the files.
    """
    step = step_for(reason)
    if step.startswith(f"`{_RETRY}"):
        yield _RETRY.format(path=quoted(folder))
        if reason == "missing":
            yield f"if that finds nothing: assetsync retry --send-again --reason missing {quoted(folder)}"
        return
    if reason == NEVER_PROCESSED:
        yield f"assetsync retry --send-again --reason {reason} {quoted(folder)}"
        return
    yield f"assetsync files --state blocked --reason {reason} {quoted(folder)}"
    if "{path}" not in step:
        yield step

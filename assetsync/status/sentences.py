"""Describe the status of a site in sentences: the headline, the remaining work with its causes, and the next steps.

Reading the status is left to `site_status`, printing to the commands and the page.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from assetsync.config.values import Listen
from assetsync.core.brakes import cause_of, released_by
from assetsync.core.outcome import ANSWERS_LOST, HTTP_STATUS, REFUSED_BY_PROXY, UPLOAD_ADDRESS_HELP
from assetsync.core.pauses import OperatorPause
from assetsync.core.read_back import NEVER_PROCESSED
from assetsync.errors import OutOfResources
from assetsync.ledger.metadata_drift import drift_of
from assetsync.ledger.reports import BlockedGroup
from assetsync.ledger.rows import FileRow
from assetsync.ledger.runs import DAEMON, Pause, Run
from assetsync.model import State, Wanted
from assetsync.status.site_status import Progress, SiteStatus
from assetsync.text import (
    amount,
    files,
    hour,
    local_moment,
    moment,
    named_path,
    on_the_wall,
    plural,
    printable,
    quoted,
    span,
)

_BY_HAND = "`assetsync upload` it again, or `assetsync doubt resolve {path} --absent`"
# The next step for a blocked file, by its reason; other files are retried once their reason is gone. The page shows
# what is in backticks as code; `next_step` leaves out those around commands.
_HELP = {
    "empty_file": "fill it (it is then sent by itself), leave it out by an `ignore` pattern, or delete it"
    " (the next scan notices)",
    "sidecar": "correct or delete the sidecar: assetsync then sends the file",
    "unreadable": "fix its permissions, or restore it from a backup if its disk fails (see `dmesg`): it is tried"
    " again within a minute once it can be opened, at once `assetsync retry {path}`",
    "unknown_folder": "correct destfolderid and reload, or create the folder: the next waiting file tries it within ten"
    " minutes, and each start of assetsync tries all; at once `assetsync retry {path}`",
    "too_large_for_proxy": "raise the limit of the proxy (client_max_body_size in nginx), then `assetsync retry"
    " --reason too_large_for_proxy`; or leave such files out with upload.max_file_size",
    "keeps_changing": "it is sent by itself once unchanged for an hour: leave it out by an `ignore` pattern, or set a"
    " longer folders[].settle for its mapping; as it is: `assetsync retry --send-again {path}`",
    "unprocessed": "a scan looks again within schedule.rescan; if it is another file:"
    " `assetsync retry --send-again {path}`",
    "resembles": "`assetsync reconcile --adopt`, or `assetsync retry --send-again {path}`",
    "unconfirmed": "`assetsync retry --send-again {path}`",
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
_PLACE = re.compile("(`assetsync [^`]*)\\bPATH\\b")
_COMMAND = re.compile("`((?:assetsync |--)[^`]*)`")
_EACH = 5
"""More files than this that are blocked for the same reason, or have the same kind of drift, share one line."""
_BAR = 20
"""The width of the bar of an import, in characters."""

_LASTING = 15 * 60.0
"""Seconds after which an outage is reported, as for its message (`core.notices`), which is slow to load."""

_PAUSES = {
    "key_refused": "the service refuses the API key",
    "key_cached": "searches still refuse the API key, which uploads accept",
    "unreachable": "the service cannot be reached",
    "unsent": "the service cannot be reached",
    "no_answer": "the service does not answer",
    OutOfResources.REASON: "the process lacks file descriptors, memory or threads",
    "elsewhere": "the service has a new address and shows none of the known assets",
}
NOT_READ_BACK = "not read back: schedule.verify and schedule.index are off"
_NO_ANSWER = "the service returns no usable answer"
_WORK = (("verify", "read back"), ("index", "indexed"))


def headline(status: SiteStatus) -> str:
    """Return the status in one sentence, which shows whether an operator must act, and whether many files vanished."""
    urgency, gone = _urgency(status), status.vanished_lately
    if not gone:
        return urgency
    lately = f"{files(sum(each.count for each in gone))} vanished, {hour(gone[-1].at, status.at)}"
    return f"{urgency} {lately}." if urgency.endswith(".") else f"{urgency}; {lately}"


def _urgency(status: SiteStatus) -> str:
    needs, counts = [*_needs(status)], ", ".join(_counts(status))
    held_up = status.held_up
    pause = status.trouble
    if pause is not None and status.key_refused:
        needs.insert(0, _paused(status, pause))
        pause = None
    stopped = ""
    if pause is not None:
        paused = _paused(status, pause)
        stopped = paused[0].upper() + paused[1:]
    elif held_up is not None and held_up.everything:
        stopped = f"Stopped by uploads in doubt for {span(status.at - held_up.since)} ({_next_decision(status)})"
    stopped = "; ".join(filter(None, (stopped, paused_by(status))))
    if needs or status.counts.of(State.BLOCKED):
        first = f"Action needed: {', '.join(needs)}" * bool(needs)
        return f"{'. '.join(filter(None, (first, counts, stopped)))}."
    if status.in_sync:
        drifted = f", {status.drift_count:,} with metadata drift" * bool(status.drift_count)
        verified = files(status.counts.of(State.VERIFIED))
        by_person = f"; {stopped[0].lower()}{stopped[1:]}" if stopped else ""
        return f"{stopped}." if pause else f"in sync{_as_of(status)}: {verified} verified{drifted}{by_person}"
    if stopped:
        return f"{'; '.join(filter(None, (stopped, counts)))}."
    if status.pending > status.not_read_back or status.in_doubt or status.undecided or status.counts.checked_again:
        return f"{'In progress' if status.running else 'No process is running'}: {counts}."
    return f"{counts}." if status.not_read_back else "No complete scan yet."


def paused_by(status: SiteStatus) -> str:
    """Return who has paused what, until when and why, "" if nobody has; the pause of the site stands for all."""
    if not status.pauses:
        return ""
    pause = status.site_pause or status.pauses[0]
    more = f" and {plural(len(status.pauses) - 1, 'more path')}" * (len(status.pauses) > 1)
    what = f" for {named_path(pause.path)}{more}" * bool(pause.path)
    why = f" ({printable(pause.why)})" * bool(pause.why)
    return f"Paused by {printable(pause.who)} {pause_end(pause, status.at)}{what}{why}"


def pause_end(pause: OperatorPause, now: float) -> str:
    """Return when a pause ends, in words."""
    end = pause.ends_at(now)
    return "without an end" if end is None else f"until {local_moment(end)}"


def pause_command(pause: OperatorPause) -> str:
    """Return the command that ends a pause."""
    return f"assetsync resume --pause {quoted(pause.path) or '.'}"


def _pauses(status: SiteStatus) -> Iterator[str]:
    """Yield what persons have paused, and the commands that end it."""
    for pause in status.pauses:
        why = f": {printable(pause.why)}" * bool(pause.why)
        by = f"by {printable(pause.who)} since {moment(pause.since)}"
        yield f"paused: {named_path(pause.path)}, {by}, {pause_end(pause, status.at)}{why}"
        ends = "a person ends it" if pause.until is None else "it ends by itself; at once"
        yield f"    {ends}: {pause_command(pause)}"


def _needs(status: SiteStatus) -> Iterator[str]:
    """Yield what needs a person besides blocked files, as parts of a sentence."""
    if status.unseen is not None:
        yield "unknown whether it runs"
    if status.not_running_since is not None:
        said = "not running since" if _is_of_daemon(status) else "no pass since"
        yield f"{said} {hour(status.not_running_since, status.at)}"
    yield from _braked(status)
    if status.missing_folders:
        yield not_there(status.missing_folders)
    if status.unreadable is not None:
        yield f"{unread(status)} unreadable"
    yield from _full(status)
    if status.index_stopped is not None:
        yield "indexing stopped"
    if status.wrong_address is not None:
        yield "wrong upload address"


def failure(status: SiteStatus) -> str:
    """Return why nothing can be mirrored, "" if it can: the key, a brake, the ledger's disk, or an outage that lasts.

    No file and no folder is named. An outage lasts if messages report it, or if it ended a run.
    """
    pause = status.trouble
    lasts = pause is not None and (status.key_refused or status.paused is None or status.at - pause.since >= _LASTING)
    paused = [_paused(status, pause)] if pause is not None and lasts else []
    return ", ".join([*paused, *_braked(status), *_full(status)])


def _braked(status: SiteStatus) -> Iterator[str]:
    if status.brakes:
        kinds = dict.fromkeys(brake.kind for brake in status.brakes)
        yield f"uploads stopped ({'; '.join(_stopped_by(status, kind) for kind in kinds)})"


def _full(status: SiteStatus) -> Iterator[str]:
    if status.without_room is not None:
        yield "ledger disk full"


def _stopped_by(status: SiteStatus, kind: str) -> str:
    """Return the cause of the brakes of one kind; if files are missing, with their number, and since when.

    The missing files still count as verified.
    """
    if kind not in ("emptied", "vanished"):
        return cause_of(kind)
    pulled = [brake for brake in status.brakes if brake.kind == kind]
    # A brake of the whole site counts the files of all folders.
    amounts = [brake.amount for brake in pulled if brake.subject == "site"] or [brake.amount for brake in pulled]
    return f"{cause_of(kind)}: {files(sum(amounts))} missing since {hour(pulled[0].pulled_at, status.at)}"


def _counts(status: SiteStatus) -> Iterator[str]:
    """Yield the counts as parts of a sentence, such as `41 of 42 verified` and `1 needs you`."""
    blocked, without_sidecar = status.counts.of(State.BLOCKED), status.counts.waiting_for_sidecar
    pending = status.pending - status.not_read_back - without_sidecar - status.waiting_for_pauses
    opens, held_up = sent_from(status), status.held_up
    folders = 0 if held_up is None or held_up.everything else len(held_up.folders)
    parts = [
        (status.known, f"{status.counts.of(State.VERIFIED):,} of {status.known:,} verified"),
        (blocked, f"{blocked:,} need{'s' if blocked == 1 else ''} you"),
        (status.counts.checked_again, f"{status.counts.checked_again:,} being checked again"),
        (pending, f"{pending:,} pending" + ("" if opens is None else f", sent {opens}")),
        (status.waiting_for_pauses, f"{status.waiting_for_pauses:,} paused"),
        (
            without_sidecar,
            f"{without_sidecar:,} waiting for {'its sidecar' if without_sidecar == 1 else 'their sidecars'}",
        ),
        (status.in_doubt, f"{status.in_doubt:,} in doubt"),
        (len(status.undecided), f"{plural(len(status.undecided), 'folder')} to be audited"),
        (folders, f"{plural(folders, 'folder')} waiting for uploads in doubt"),
        (status.unanswered or 0, f"no upload answered for {span(status.unanswered or 0)}"),
        (status.not_read_back, f"{status.not_read_back:,} stored, {NOT_READ_BACK}"),
        (status.drift_count, f"{status.drift_count:,} with metadata drift"),
    ]
    return (text for count, text in parts if count)


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
    """Return the time of the last scan; return nothing once a process has scanned: while it runs, it sees changes."""
    scan = status.last_scan
    if status.has_scanned or scan is None:
        return ""
    return f" at the last scan, {hour(scan.at, status.at)} ({span(status.at - scan.at)} ago)"


def log_unread(status: SiteStatus) -> str | None:
    """Return since when and why the log is not read, and how many lines were dropped; None while it is read."""
    found = status.log_unread
    if found is None:
        return None
    dropped = f", {plural(found.dropped, 'line')} dropped" * bool(found.dropped)
    return f"behind since {moment(found.since)} ({found.detail}){dropped}"


def unread(status: SiteStatus) -> str:
    """Return the number of files and folders that the last scan was not allowed to read, in words."""
    return plural(0 if status.last_scan is None else status.last_scan.unread, "path")


def sent_from(status: SiteStatus) -> str | None:
    """Return when `upload.window` opens, in words; None if no file waits for it."""
    opens = status.sends_from
    return None if opens is None else f"from {moment(opens)} on (upload.window: {on_the_wall(opens)})"


def why_paused(pause: Pause) -> str:
    """Return the reason of a pause, in words."""
    if pause.reason in (HTTP_STATUS, REFUSED_BY_PROXY):
        return printable(pause.detail.partition(";")[0])
    return _PAUSES.get(pause.reason, _NO_ANSWER)


def _paused(status: SiteStatus, pause: Pause) -> str:
    why = why_paused(pause)
    if status.arrived is not None and pause.reason != REFUSED_BY_PROXY:
        why = ANSWERS_LOST + f"; {files(status.arrived)} arrived" * bool(status.arrived)
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
    pause = status.trouble
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
        yield "    free space; nothing is lost, and sending resumes by itself within seconds"


def page_address(status: SiteStatus) -> str | None:
    """Return the address of the running daemon's page, for a browser on this machine; None if it has none."""
    page = status.page
    if page is None or page.trouble:
        return None
    host = page.host if page.host not in ("0.0.0.0", "::") else "localhost"  # noqa: S104 - nothing is bound here
    return f"http://{Listen(host, page.port)}/"


def page_taken(status: SiteStatus) -> str | None:
    """Return why the page cannot be shown, in words; None if it is shown, or should not be."""
    page = status.page
    if page is None or not page.trouble:
        return None
    return f"no page: {Listen(page.host, page.port)}: {page.trouble}"


def page_line(status: SiteStatus) -> Iterator[str]:
    """Yield the address of the page, or why there is none and the next step."""
    address, taken = page_address(status), page_taken(status)
    if address is not None:
        yield f"page: {address}"
    if taken is not None:
        yield f"{taken}; files are mirrored all the same, and the address is tried again every minute"
        yield "    give each site a port of its own in status.listen, or write `auto` there"


def not_running(status: SiteStatus) -> Iterator[str]:
    """Yield why no process sends for the site, if so, with the next step; or that this is unknown."""
    since, holder = status.not_running_since, status.last_holder
    if status.unseen is not None:
        yield f"it is unknown whether a process sends for this site: {status.unseen}"
    elif since is not None and _is_of_daemon(status):
        yield f"not running since {moment(since)}: systemctl start assetsync@SITE"
    elif since is not None:
        expected = f"one is expected every {span(status.late_after)}"
        yield f"no pass since {moment(since)}, and {expected}: systemctl list-timers 'assetsync-reconcile@*'"
    elif not status.running and holder is not None and holder.timer is not None:
        yield f"no process sends for this site now; the timer's last pass ended {moment(holder.at)}"
    elif not status.running:
        yield "no process sends for this site now: systemctl start assetsync@SITE"


def _is_of_daemon(status: SiteStatus) -> bool:
    return status.last_holder is not None and status.last_holder.command == DAEMON


def regular_work(status: SiteStatus) -> str:
    """Return when files were last read back and last indexed."""
    runs = status.last_runs
    said = [f"{name}: {_last(runs.get(job))}" for job, name in _WORK]
    return "last " + "; last ".join(said)


def _last(run: Run | None) -> str:
    if run is None:
        return "not yet"
    return f"{moment(run.at)}{' (nothing was due)' * run.idle}"


def sending(status: SiteStatus) -> Iterator[str]:
    """Yield the progress of an import, and that no upload is answered, if that is so."""
    going = status.progress
    if going is not None:
        done = int(going.share * _BAR)
        yield f"importing: [{'#' * done}{'.' * (_BAR - done)}] {percent(going.share)} verified; {left_to_send(going)}"
    if status.unanswered is not None:
        yield f"no answer: {unanswered(status)}"


def left_to_send(going: Progress) -> str:
    """Return what is left to be sent, the rate, and the estimated time."""
    left = f"{files(going.files_to_send)} ({amount(going.bytes_to_send)}) left to send"
    if going.seconds_left is None:
        return left
    rate = f"{going.files_per_second:,.1f} files and {amount(going.bytes_per_second)} a second"
    return f"{left}, about {span(going.seconds_left)} at {rate}"


def percent(share: float) -> str:
    """Return a share in percent, rounded down: 100 % is all."""
    return f"{int(share * 100)} %"


def unanswered(status: SiteStatus) -> str:
    """Return how many uploads in flight wait for an answer, and since when."""
    since, waiting = moment(status.recent.unanswered_since), plural(status.recent.in_flight, "upload")
    return (
        f"{waiting} in flight, none answered since {since}: a large file may take that long; if the service hangs, each"
        " is looked up once service.read_timeout is over"
    )


def unsettled(status: SiteStatus) -> Iterator[str]:
    """Yield the number of files that are not settled, if there are any."""
    found = status.unsettled
    if found.count or found.overflowed:
        more = " and more" if found.overflowed else ""
        yield f"not settled yet: {files(found.count)}{more}, sent once unchanged for watch.settle"


def step_for(reason: str | None) -> str:
    """Return the next step for files blocked for this reason, with `{path}` for the file and commands in backticks."""
    return _HELP.get(reason or "", f"`{_RETRY}`")


def step_of(row: FileRow) -> str:
    """Return the next step for a blocked file, as `step_for` does; no retry sends an upload by hand."""
    step = step_for(row.reason)
    was_refused = row.wanted is Wanted.OUTSIDE and row.assetid is None and "doubt resolve" not in step
    return _BY_HAND if was_refused else step


def next_step(row: FileRow) -> str:
    """Return the next step for a blocked file: a command or an instruction."""
    step = step_of(row)
    return (step.strip("`") if _COMMAND.fullmatch(step) else step).format(path=quoted(row.path))


def step_of_each(reason: str | None) -> str:
    """Return the next step for each of many files that are blocked for this reason.

    One command retries all of them. Where each must be named, because it is sent again, PATH stands for the file.
    """
    return step_for(reason).replace(_RETRY, f"assetsync retry --reason {reason}").replace("{path}", "PATH")


def is_command(row: FileRow) -> bool:
    """Whether the next step for a blocked file is a single command that can be run unchanged."""
    step = step_of(row)
    return _COMMAND.fullmatch(step) is not None and " ID" not in step


def about(row: FileRow, text: str) -> str:
    """Return a text about a file for people; the commands in it name the file in place of PATH."""
    # A grave accent in the name would end the command.
    if b"`" in row.path:
        return printable(text)
    return _PLACE.sub(lambda found: found[1] + quoted(row.path), printable(text))


def why_blocked(row: FileRow) -> str:
    """Return why a file is blocked."""
    return about(row, row.detail or row.reason or "for no known reason")


def scanned(status: SiteStatus) -> str:
    """Return when the tree was last scanned, whether the scan was complete, and how many paths it could not read."""
    scan = status.last_scan
    if scan is None:
        return "last scan: none recorded"
    moved = scan.unreadable - scan.unread
    said = f", {moved:,} moved or replaced meanwhile" if moved else ""
    said += f", {scan.unread:,} unreadable: `assetsync check` lists them" if scan.unread else ""
    return f"last scan: {moment(scan.at)}{', complete' if scan.complete else ', not complete'}{said}"


def orphan_sidecars(status: SiteStatus) -> Iterator[str]:
    """Yield a line about orphan sidecars, if there are any."""
    scan = status.last_scan
    if scan is not None and scan.stray:
        others = f" and {scan.stray - 1:,} more" if scan.stray > 1 else ""
        yield f"sidecars without a matching file: {scan.first_stray}{others}: `assetsync check` lists them"


def adopted_differing(status: SiteStatus) -> Iterator[str]:
    """Yield a line about adopted files with other metadata in the service than in the sidecars, if there are any."""
    if status.adopted_differing:
        yield (
            f"adopted with other metadata than in the sidecars: {files(status.adopted_differing)}:"
            " `assetsync drift list --adopted` lists them"
        )


def vanished(status: SiteStatus) -> Iterator[str]:
    """Yield the files that vanished from the tree in the last week: how many, from which folders, and the newest."""
    if not status.vanished:
        return
    total, newest = sum(each.count for each in status.vanished), status.vanished[-1]
    yield f"vanished in the last 7 days: {files(total)}; `assetsync orphans --all` lists their assets"
    for folder, count in vanished_from(status):
        yield f"    {count:,} from {folder}"
    names = ", ".join(newest.names) + ", …" * (newest.count > len(newest.names))
    yield f"    the newest, {moment(newest.at)}: {newest.count:,} of {newest.known:,} files: {names}"


def vanished_from(status: SiteStatus) -> list[tuple[str, int]]:
    """Return from which folders files vanished in the last week, and how many; those with the most first."""
    counts: Counter[str] = Counter()
    for each in status.vanished:
        counts.update(each.folders)
    named = counts.most_common(_EACH)
    rest = sum(each.count for each in status.vanished) - sum(count for _, count in named)
    return [*named, *[("other folders", rest)] * bool(rest)]


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
    why = f": {about(row, row.detail)}" if row.state is State.QUEUED and row.detail else ""
    return f"waiting longest: {printable(row.path)}, known for {span(status.oldest_age)}, {state}{why}"


def leftovers(status: SiteStatus) -> Iterator[str]:
    """Yield a line for each thing that keeps the site from being in sync, with its next step."""
    for brake in status.brakes:
        yield f"brake {brake.id}: {printable(brake.detail)}"
        since = moment(brake.pulled_at)
        yield f"    since {since}; {released_by(brake.kind)}: assetsync resume {brake.id}"
    yield from _pauses(status)
    if status.undecided and not any(brake.kind == "missing" for brake in status.brakes):
        named = ", ".join(map(printable, status.undecided))
        yield f"audit pending: many assets are missing in folder {named} of the service, and its brake was released"
        yield "    the daemon or the next `assetsync reconcile` audits it; at once: assetsync audit"
    for folder, hold in status.holds.items():
        yield f"held: folder {printable(folder)}: {printable(hold.detail)}"
    for group in status.blocked_groups:
        yield from _blocked(group)
    if status.unreadable is not None:
        yield f"unreadable: {status.unreadable}: nothing in it is sent, and nothing in it counts as deleted"
        yield "    give assetsync's user read permission: `assetsync check`, run as that user, names all"
    yield from _wrong_address(status)
    yield from _without_sidecars(status)
    if status.in_doubt:
        yield (f"in doubt: {status.in_doubt:,}, assetsync looks each up until it is decided: assetsync doubt list")
    yield from _checked_again(status)
    if status.not_read_back:
        yield f"stored: {status.not_read_back:,}, {NOT_READ_BACK}"
        yield "    switch one of them on; as it is, only `assetsync reconcile` reads back"
    yield from _drifted(status)
    if status.refused is not None:
        at, mistake = moment(status.refused.at), printable(status.refused.mistake)
        yield f"configuration rejected at {at}; the old one stays active: {mistake}"
        yield "    correct it, then: systemctl reload assetsync@SITE"
    yield from _log_unread(status)
    if status.index_stopped is not None:
        yield f"indexing stopped: {printable(status.index_stopped)}"


def _checked_again(status: SiteStatus) -> Iterator[str]:
    """Yield how many verified files are read again, and what follows."""
    if again := status.counts.checked_again:
        yield f"being checked again: {files(again)}, whose ctime or inode changed, and not the size and time"
        yield "    each is read, outside upload.window too, and sent only if its content differs"


def _log_unread(status: SiteStatus) -> Iterator[str]:
    """Yield that the log is not read, if that is so, with the next step."""
    if (behind := log_unread(status)) is not None:
        yield f"log: {behind}"
        yield "    see to what reads the log, or to its disk; files are mirrored all the same"


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
    """Yield the files with metadata drift by kind, with the next step; many of one kind share one line."""
    sampled = sum(group.files for group in status.drift_groups)
    least = "at least " * (status.drift_count > sampled)
    for group in status.drift_groups:
        if group.files <= _EACH:
            yield from (
                f"metadata drift: {printable(row.path)}: {printable(drift_of(row) or '')}" for row in group.first
            )
        else:
            first = group.first[0]
            why = printable(drift_of(first) or "")
            yield f"metadata drift: {least}{files(group.files)}, such as {printable(first.path)}: {why}"
    if status.drift_groups:
        yield f"    `assetsync drift list` shows what to set in the service; then: {settled_by(status)}"


def settled_by(status: SiteStatus) -> str:
    """Return the command that records that the drifted files are set in the service: each path, or `.` for many."""
    paths = [quoted(row.path) for group in status.drift_groups for row in group.first]
    return f"assetsync drift settle {' '.join(paths) if status.drift_count == len(paths) <= _EACH else '.'}"


def _blocked(group: BlockedGroup) -> Iterator[str]:
    """Yield the files that are blocked for one reason, with their next steps; many share one line."""
    if group.files <= _EACH:
        for row in group.first:
            yield f"blocked: {printable(row.path)}: {why_blocked(row)}"
            yield f"    {next_step(row)}"
        return
    reason = group.reason or "blocked"
    first, *others = steps_of_many(group.folder, reason)
    yield f"blocked: {printable(group.folder)}: {group.files:,} {reason.replace('_', ' ')}: {first}"
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

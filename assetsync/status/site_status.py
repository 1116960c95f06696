"""Read the status of a site from the ledger into one value, without writing; what keeps it from being in sync.

The form is left to others: sentences to `sentences`, JSON to `document`, the page to `page`, metrics to `metrics`.
Values that only the running process knows (`Live`) come from `daemon.daemon`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from assetsync.config.outline import MappedFolder, Outline
from assetsync.core.pauses import SITE, OperatorPause
from assetsync.ledger.file.database import Holder, holder_of
from assetsync.ledger.file.ledger_files import without_room
from assetsync.ledger.folders import Hold
from assetsync.ledger.metadata_drift import reason_of
from assetsync.ledger.read_back import INDEX_STOPPED
from assetsync.ledger.reports import BlockedGroup, Brake, Counts, LedgerView, RecentUploads
from assetsync.ledger.rows import FileRow
from assetsync.ledger.runs import (
    DAEMON,
    DAY,
    HeldUp,
    Hour,
    LastHolder,
    LastScan,
    LogUnread,
    PageAddress,
    Pause,
    Refusal,
    Run,
    Unsettled,
    UploadAddress,
    Vanished,
)
from assetsync.model import State


class OutOfSync(NamedTuple):
    """Counts of files, brakes and folders that keep a site from being in sync.

    `pending` files need no operator: they are queued, in flight, stored but not verified yet, or not settled yet.
    `coming` files were found by a dry run and are not in the ledger. `checked_again` files are verified, and are read
    again because their ctime or inode changed. `complete` means that the scan found all mapped
    folders and read everything. `undecided` counts folders of the service whose last audit missed so many assets that
    it pulled a brake and concluded nothing; the next audit concludes it.
    """

    pending: int
    in_doubt: int
    blocked: int
    braked: int
    complete: bool
    coming: int = 0
    undecided: int = 0
    checked_again: int = 0

    @property
    def in_sync(self) -> bool:
        """Whether the scan was complete and every count is 0: all files are verified, and nothing needs an operator."""
        files = self.pending + self.coming + self.in_doubt + self.blocked + self.checked_again
        return self.complete and not (files or self.braked or self.undecided)


def what_is_out_of_sync(
    counts: Counts, unsettled: Unsettled, *, braked: int, complete: bool, coming: int = 0, undecided: int = 0
) -> OutOfSync:
    """Return the counts; `complete` is the last scan's, and False while more files are settling than can be counted."""
    return OutOfSync(
        pending=counts.of(State.QUEUED, State.SENDING, State.STORED) + unsettled.count,
        # Includes doubts about versions that the tree no longer has.
        in_doubt=counts.of(State.IN_DOUBT) + counts.unresolved_history,
        blocked=counts.of(State.BLOCKED),
        braked=braked,
        complete=complete and not unsettled.overflowed,
        coming=coming,
        undecided=undecided,
        checked_again=counts.checked_again,
    )


NAMED = 20
"""The most blocked files, files in doubt and drifted files that are named, of each."""

_CHART_HOURS = 24
_NAMED_OF_GROUP = 5
_DRIFT_SAMPLE = 1000
_IMPORT_FILES = 20
_IMPORT_SECONDS = 60.0
_SILENT_SECONDS = 60.0
_RESTART_SECONDS = 120.0
_SPARE_SECONDS = 2 * 3600.0
_LATE_SECONDS = 26 * 3600.0
"""As for the alert AssetsyncNoScan."""
_NO_UPLOADS = RecentUploads()


class Level(StrEnum):
    """The urgency: in sync, work goes on by itself, or an operator must act."""

    IN_SYNC = "in_sync"
    UNDER_WAY = "under_way"
    NEEDS_YOU = "needs_you"


class DriftGroup(NamedTuple):
    """Files that drifted in the same way: the word of `reason_of`, how many, and the first of them."""

    reason: str
    files: int
    first: tuple[FileRow, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an import: the share of the known files that is verified (0 to 1), and what is left to be sent.

    The rates are those of the last minutes, 0 if nothing was accepted. `seconds_left` is an estimate; None if nothing
    can be sent now, or nothing was accepted lately.
    """

    share: float
    files_to_send: int
    bytes_to_send: int
    files_per_second: float
    bytes_per_second: float
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """The status of a site at one time; `blocked`, `doubts` and `drifted` hold the first `NAMED` files.

    `running`: whether a process holds the ledger; a guess if `unseen` has the reason why that is unknown.
    `last_holder`: the command that mirrored the site last. `late_after`: the seconds after which a scan, or a pass of
    the timer, is late. `arrived`: how many uploads arrived since a pause began in which answers to uploads are lost.
    `has_scanned`: whether that process has scanned the tree since its
    start. `oldest`: the first queued of the versions that are queued, in
    flight, in doubt or stored. `paused`: why the running process sends nothing. `held_up`: the folders whose queued
    files wait until uploads in doubt are decided. `ended_by`: without a running process, the trouble that ended the
    last one. `undecided`: folders of the service whose last audit missed so many assets that it pulled a brake; the
    next audit concludes it. `without_room`: the ledger's disk is full, so that the ledger does
    not show the present. `sends_from`: when `upload.window` opens, while it is shut and files are queued. `reads_back`:
    whether the daemon's schedule reads stored files back. `refused`: the new configuration that the running process
    rejected. `vanished`: the scans of the last week that found files gone, the newest last. `blocked_groups`: blocked
    files by reason, each group with its first files. `drift_groups`: the first `_DRIFT_SAMPLE` drifted files, by kind
    of drift. `recent`: the uploads of the last minutes, while a process has files to send. `wrong_address`: why the
    address for uploads is not the service's. `adopted_differing`: how many adopted files have other metadata in the
    service than in the sidecars. `pauses`: what persons have paused; `waiting_for_pauses` queued files wait for it.
    `page`: where the running daemon's page listens, or why it cannot. `log_unread`: since when nobody reads the log of
    the running process. Times are in seconds since the epoch.
    """

    site: str
    at: float
    running: bool
    has_scanned: bool
    folders: tuple[MappedFolder, ...]
    counts: Counts
    brakes: tuple[Brake, ...]
    holds: dict[str, Hold]
    blocked: tuple[FileRow, ...]
    doubts: tuple[FileRow, ...]
    drifted: tuple[FileRow, ...]
    drift_count: int
    oldest: FileRow | None
    hours: tuple[Hour, ...]
    unsettled: Unsettled
    last_scan: LastScan | None
    last_runs: dict[str, Run]
    index_stopped: str | None
    paused: Pause | None
    ended_by: Pause | None
    undecided: tuple[str, ...] = ()
    without_room: str | None = None
    sends_from: float | None = None
    reads_back: bool = True
    refused: Refusal | None = None
    vanished: tuple[Vanished, ...] = ()
    blocked_groups: tuple[BlockedGroup, ...] = ()
    drift_groups: tuple[DriftGroup, ...] = ()
    recent: RecentUploads = _NO_UPLOADS
    held_up: HeldUp | None = None
    wrong_address: str | None = None
    adopted_differing: int = 0
    page: PageAddress | None = None
    unseen: str | None = None
    last_holder: LastHolder | None = None
    late_after: float = _LATE_SECONDS
    arrived: int | None = None
    log_unread: LogUnread | None = None
    pauses: tuple[OperatorPause, ...] = ()
    waiting_for_pauses: int = 0

    @property
    def not_running_since(self) -> float | None:
        """The last sign of life of a daemon that does not run, or of a timer whose pass is late; None otherwise."""
        holder = self.last_holder
        if holder is None or self.running or self.unseen is not None:
            return None
        if holder.command != DAEMON and holder.timer is None:
            return None
        limit = _RESTART_SECONDS if holder.command == DAEMON else self.late_after
        # The clock may have been set back since.
        return min(holder.at, self.at) if abs(self.at - holder.at) >= limit else None

    @property
    def is_watched(self) -> bool:
        """Whether changes are noticed: a process runs, is only restarting, or is not expected yet."""
        return self.not_running_since is None and self.unseen is None

    @property
    def vanished_lately(self) -> tuple[Vanished, ...]:
        """The scans of the last day that each found so many files gone that a person should look, the newest last."""
        return tuple(each for each in self.vanished if each.is_large and self.at - each.at < DAY)

    @property
    def left(self) -> OutOfSync:
        """The counts that keep the site from being in sync."""
        complete = self.last_scan is not None and self.last_scan.complete
        braked, undecided = len(self.brakes), len(self.undecided)
        return what_is_out_of_sync(self.counts, self.unsettled, braked=braked, complete=complete, undecided=undecided)

    @property
    def known(self) -> int:
        """The number of files that are verified, pending, in doubt or blocked; those that are not settled excepted."""
        left = self.left
        return self.counts.of(State.VERIFIED) + left.pending - self.unsettled.count + left.in_doubt + left.blocked

    @property
    def progress(self) -> Progress | None:
        """The progress of an import; None if few files are left to be sent, or no process sends."""
        left = self.counts.of(State.QUEUED, State.SENDING) - self.counts.waiting_for_sidecar
        recent = self.recent
        seconds_left = None
        if recent.accepted and not self._is_stopped:
            shares = left / recent.accepted, self.counts.bytes_to_send / max(1, recent.bytes)
            seconds_left = recent.seconds * max(shares)
        if not self.running or (left < _IMPORT_FILES and (seconds_left or 0.0) < _IMPORT_SECONDS):
            return None
        seconds = max(1.0, recent.seconds)
        return Progress(
            self.counts.of(State.VERIFIED) / self.known,
            left,
            self.counts.bytes_to_send,
            recent.accepted / seconds,
            recent.bytes / seconds,
            seconds_left,
        )

    @property
    def site_pause(self) -> OperatorPause | None:
        """The pause of the whole site by a person, None if there is none."""
        return next((pause for pause in self.pauses if pause.path == SITE), None)

    @property
    def _is_stopped(self) -> bool:
        """Whether no queued file can be sent now."""
        held_up = self.held_up is not None and self.held_up.everything
        stops = self.paused, self.site_pause, self.brakes, self.sends_from, held_up, self.unanswered
        return any(stops)

    @property
    def unanswered(self) -> float | None:
        """For how many seconds no upload in flight was answered; None if that is less than a minute."""
        since = self.recent.unanswered_since
        if since is None or self.paused is not None or self.at - since < _SILENT_SECONDS:
            return None
        return self.at - since

    @property
    def pending(self) -> int:
        """The number of files that are queued, in flight, stored but not verified, or not settled."""
        return self.left.pending

    @property
    def not_read_back(self) -> int:
        """The number of pending files that stay stored because the schedule reads nothing back."""
        return 0 if self.reads_back else self.counts.of(State.STORED)

    @property
    def in_doubt(self) -> int:
        """The number of doubts, including those about versions that the tree no longer has."""
        return self.left.in_doubt

    @property
    def in_sync(self) -> bool:
        """Whether nothing keeps the site from being in sync, the ledger's disk has room, and changes are noticed."""
        return self.left.in_sync and self.without_room is None and self.is_watched

    @property
    def scan_age(self) -> float | None:
        """The seconds since the last scan of the whole tree; None before the first."""
        return None if self.last_scan is None else max(0.0, self.at - self.last_scan.at)

    @property
    def missing_folders(self) -> tuple[str, ...]:
        """The mapped folders that the last scan did not find."""
        return () if self.last_scan is None else self.last_scan.missing

    @property
    def unreadable(self) -> str | None:
        """The first path that the last scan was not allowed to read, and why; None if there is none."""
        return None if self.last_scan is None else self.last_scan.first_unreadable or None

    @property
    def oldest_age(self) -> float:
        """The seconds since `oldest` was queued; 0 if there is none."""
        return 0.0 if self.oldest is None else max(0.0, self.at - self.oldest.queued_at)

    @property
    def trouble(self) -> Pause | None:
        """The pause of the running process, or the trouble that ended the last process; None if there is none."""
        return self.paused or self.ended_by

    @property
    def key_refused(self) -> bool:
        """Whether the service refuses the key."""
        return self.trouble is not None and self.trouble.reason == "key_refused"

    @property
    def level(self) -> Level:
        """The urgency of the status."""
        key_refused = self.key_refused
        asks = self.brakes, self.missing_folders, self.unreadable, key_refused, self.without_room, self.index_stopped
        is_asked = any(asks) or not self.is_watched or self.wrong_address is not None
        if self.counts.of(State.BLOCKED) or is_asked:
            return Level.NEEDS_YOU
        return Level.IN_SYNC if self.in_sync and self.trouble is None else Level.UNDER_WAY

    @property
    def badge(self) -> str:
        """The level, or `noted`: in sync, but with metadata drift or vanished files; it is not shown as plain green."""
        is_noted = self.level is Level.IN_SYNC and (self.drift_count or self.vanished_lately)
        return "noted" if is_noted else str(self.level)


def read_status(config: Outline, ledger: LedgerView, now: float, *, running: bool | None = None) -> SiteStatus:
    """Return the status of the site at `now` (seconds since the epoch). Raise LedgerError.

    Without `running`, the ledger's lock shows whether a process runs.
    """
    reports = ledger.reports
    if running is None and not ledger.store.holds_lock:
        holder = holder_of(ledger.store.path)
    else:
        holder = Holder(running is not False)
    running, last_holder = holder.sends, ledger.runs.recorded(LastHolder)
    counts, window = reports.counts(now), config.upload_window
    drifted = reports.drifted(_DRIFT_SAMPLE)
    pauses = ledger.pauses.shown(now)
    sends = running and counts.of(State.QUEUED, State.SENDING) > counts.waiting_for_sidecar
    return SiteStatus(
        site=config.site,
        at=now,
        running=running,
        has_scanned=running and ledger.runs.has_scanned(),
        folders=config.folders,
        counts=counts,
        brakes=tuple(reports.brakes()),
        holds=reports.holds(now),
        blocked=tuple(reports.blocked(NAMED)),
        doubts=tuple(reports.in_doubt(NAMED)),
        drifted=tuple(drifted[:NAMED]),
        drift_count=reports.count_drifted(),
        oldest=reports.waiting_longest(),
        hours=tuple(ledger.hourly_stats.last(_CHART_HOURS, now)),
        unsettled=ledger.runs.unsettled(),
        last_scan=ledger.runs.last_scan(),
        last_runs=ledger.runs.last(),
        index_stopped=reports.fact(INDEX_STOPPED),
        paused=ledger.runs.at_hand(Pause) if running else None,
        ended_by=None if running else ledger.runs.recorded(Pause),
        undecided=undecided_folders(config, ledger),
        without_room=without_room(ledger.store.path),
        sends_from=None if window is None or not counts.of(State.QUEUED) else window.opens(now),
        reads_back=config.reads_back,
        refused=ledger.runs.at_hand(Refusal) if running else None,
        vanished=ledger.runs.vanished(now),
        blocked_groups=tuple(reports.blocked_groups(_NAMED_OF_GROUP)),
        drift_groups=_grouped(drifted),
        recent=reports.recent_uploads(now) if sends else _NO_UPLOADS,
        held_up=ledger.runs.at_hand(HeldUp) if running and counts.of(State.QUEUED) else None,
        wrong_address=wrong_address(config, ledger),
        adopted_differing=reports.count_adopted(),
        page=ledger.runs.at_hand(PageAddress) if running else None,
        unseen=holder.unseen,
        last_holder=last_holder,
        late_after=_late_after(config, last_holder),
        arrived=ledger.arrived(ledger.runs.at_hand(Pause) if running else ledger.runs.recorded(Pause)),
        log_unread=ledger.runs.at_hand(LogUnread) if running else None,
        pauses=pauses,
        waiting_for_pauses=reports.count_paused([pause.path for pause in pauses]),
    )


def _late_after(config: Outline, holder: LastHolder | None) -> float:
    if holder is None or holder.timer is None:
        return _LATE_SECONDS
    return max(config.expected_every, holder.timer + _SPARE_SECONDS)


def _grouped(drifted: Sequence[FileRow]) -> tuple[DriftGroup, ...]:
    """Return the groups, the largest first."""
    groups: dict[str, list[FileRow]] = {}
    for row in drifted:
        groups.setdefault(reason_of(row), []).append(row)
    largest = sorted(groups.items(), key=lambda group: -len(group[1]))
    return tuple(DriftGroup(reason, len(rows), tuple(rows[:_NAMED_OF_GROUP])) for reason, rows in largest)


def wrong_address(config: Outline, ledger: LedgerView) -> str | None:
    """Return why the address for uploads is not the service's; None once an upload there was accepted."""
    known = ledger.runs.recorded(UploadAddress)
    if known is None or not known.detail or known.address != config.upload_url:
        return None
    return None if ledger.hourly_stats.total() > known.uploads else known.detail


def undecided_folders(config: Outline, ledger: LedgerView) -> tuple[str, ...]:
    """Return the mapped folders of the service whose last audit missed so many assets that it concluded nothing."""
    mapped = {folder.destfolderid for folder in config.folders}
    return tuple(folder for folder in ledger.runs.undecided_audits() if folder in mapped)


@dataclass(frozen=True, slots=True)
class Trust:
    """How far the watcher can be trusted; the fields are the keys of `watch` in `/status.json`.

    `watched` counts the folders that the kernel watches for this process, `folders` the folders of the mapped trees.
    Both are as of the last scan, None before the first. `limit` is fs.inotify.max_user_watches. With `polling` the tree
    is scanned every minute. `canary_at` is the last check that the watcher passed, in seconds since the epoch.
    """

    mode: str
    polling: bool = False
    watched: int | None = None
    folders: int | None = None
    limit: int | None = None
    overflows: int = 0
    made_anew: int = 0
    canary_at: float | None = None


@dataclass(frozen=True, slots=True)
class Live:
    """The state of the running process at one time.

    `next_runs` holds seconds since the epoch by job, without jobs that are off. `late` names the loops that missed
    their deadline. `settling` counts the files that are not settled yet, `adopted` those that got their asset without
    an upload. `sent` holds the sent bytes of the large files in flight by the ids of their versions.
    """

    version: str
    started_at: float
    trust: Trust
    next_runs: dict[str, float] = field(default_factory=dict)
    late: tuple[str, ...] = ()
    settling: int = 0
    adopted: int = 0
    sent: dict[int, int] = field(default_factory=dict)

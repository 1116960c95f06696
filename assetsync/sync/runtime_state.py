"""Record the state of a running process for readers of its ledger: what delays sending, unsettled files, an unread log.

Commits are kept few: while files are settling, their number is written every few seconds, and its start and end at the
next `note`. The end of a pause, and the begin and the end of a stop by uploads in doubt, are logged here. What a reader
makes of it is left to `status`.
"""

import threading
from collections.abc import Callable, Collection, Sequence

import structlog

from assetsync.core.gate import Closed
from assetsync.errors import OutOfResources
from assetsync.ledger.runs import HeldUp, LogUnread, Pause, Unsettled
from assetsync.log import redact, unread_log
from assetsync.sync.context import Context
from assetsync.sync.gates import Gates
from assetsync.sync.intake.settling import Settling
from assetsync.sync.lookup_gates import KEY_REFUSED
from assetsync.sync.upload.folder_listing import FolderListing
from assetsync.text import moment

log = structlog.get_logger(__name__)

_EVERY = 5.0
_QUIET = 30.0
"""Seconds without it after which a stop of sending is over: each decided doubt lets a file pass."""
_GOES_ON = 120.0
"""Seconds after the start within which a pause of the same reason goes on from the process before."""
_HELD_UP = {True: "uploads in doubt stop sending", False: "folders wait for their uploads in doubt"}
_ENDS = {OutOfResources.REASON: "sending resumed", KEY_REFUSED: "the service accepts the API key"}
"""What is logged at the end of a pause, by its reason."""
_NO_MORE = {True: "uploads in doubt no longer stop sending", False: "no folder waits for its uploads in doubt"}


class RuntimeState:
    """The runtime state of one site. One thread calls `note` and `end`; any thread calls the others."""

    def __init__(
        self,
        context: Context,
        gates: Gates,
        settling: Settling,
        folder_listing: FolderListing,
        *,
        may_send: Callable[[], bool],
    ) -> None:
        """Start with nothing recorded; `may_send` returns whether no brake, hour or person stops all uploads."""
        self._clock = context.clock
        self._ledger = context.ledger
        self._runs = context.ledger.runs
        self._start = context.ledger.start_no
        self._gates = gates
        self._settling = settling
        self._folder_listing = folder_listing
        self._may_send = may_send
        self._held_up: HeldUp | None = None
        # When it was looked for, and when it was last met (steady seconds).
        self._held_up_at = float("-inf")
        # By whether everything waits.
        self._met_at = {False: float("-inf"), True: float("-inf")}
        self._paused: tuple[float, str] | None = None
        # The reasons of closures whose end is not logged yet, and which of those that the gates still know are over.
        self._begun: dict[tuple[float, bool], str] = {}
        self._over: set[tuple[float, bool]] = set()
        self._began = self._clock.steady()
        # What an earlier process recorded is no pause of this process, but this process may meet the same trouble.
        self._inherited = self._runs.recorded(Pause)
        # Since when, on the wall clock, a pause goes on that began at a steady time.
        self._goes_on_since: tuple[float, float] | None = None
        # How many uploads were known to be stored when a pause, of which this is the begin, was first recorded.
        self._stored: tuple[float, int] | None = None
        self._log_unread: LogUnread | None = None
        self._unsettled: Unsettled | None = None
        self._unsettled_at = 0.0
        self._scanning = False
        self._had_overflowed = False
        self._lock = threading.Lock()

    def begin_scan(self) -> None:
        """Note that a scan begins: until it ends, it is unknown whether all unsettled files fit in memory."""
        self._scanning = True
        self._had_overflowed, self._settling.overflowed = self._settling.overflowed, False

    def end_scan(self, *, finished: bool) -> None:
        """Note that a scan ended; the number of unsettled files is known from the first `finished` scan on."""
        self._settling.overflowed |= self._had_overflowed and not finished
        self._scanning = False
        if finished and self._unsettled is None:
            self._unsettled = self._runs.unsettled()
        self._note_unsettled(at_once=True)

    def looked(self) -> None:
        """Record at once if no unsettled file is left, after files were looked at again. Raise as `note` does."""
        if not self._settling:
            self._note_unsettled(at_once=True)

    def note(self) -> None:
        """Record what has changed. Raise LedgerError; the next call then tries again."""
        if self._gates.awaits_trial and not (self._may_send() and self._queued()):
            self._gates.nothing_to_send()
        last, ongoing = self._gates.closures()
        self._note_pause(last, ongoing)
        self._folder_listing.report_slow()
        self._note_held_up()
        self._note_log()
        self._note_unsettled(at_once=False)

    def end(self) -> None:
        """Record the final state of the process, with the end of a current pause. Raise as `note` does."""
        # No trial POST follows: an answered health check is the end.
        pause = self._gates.closed
        self._note_pause(self._gates.closures()[0], [] if pause is None else [pause], is_end=True)
        if pause is not None:
            self._runs.record(Pause, self._recorded(pause, ended=self._clock.now()))
        self._note_unsettled(at_once=True)

    def _note_pause(self, last: Collection[Closed], ongoing: Sequence[Closed], *, is_end: bool = False) -> None:
        self._log_ends(last, ongoing)
        pause = next(iter(ongoing), None)
        before, found = self._paused, None if pause is None else (pause.since, pause.reason)
        inherited = self._inherited
        if inherited is not None and pause is not None and pause.reason == inherited.reason:
            self._goes_on_since = pause.since, inherited.since
        may_go_on = not is_end and self._clock.steady() - self._began < _GOES_ON
        if found == before and (inherited is None or may_go_on):
            return
        self._runs.record(Pause, None if pause is None else self._recorded(pause))
        self._paused, self._inherited = found, None

    def _log_ends(self, last: Collection[Closed], ongoing: Collection[Closed]) -> None:
        """Log the end of each closure once; one may have begun and ended since the last call."""
        seen, going_on = ({_key(each): each.reason for each in closures} for closures in (last, ongoing))
        for key, reason in (self._begun | seen).items():
            if key not in going_on and key not in self._over:
                end = _ENDS.get(reason, "the service answers again")
                log.warning(end, after=round(self._clock.steady() - key[0], 1))
        self._begun, self._over = going_on, seen.keys() - going_on.keys()

    def _recorded(self, pause: Closed, ended: float | None = None) -> Pause:
        since = self._clock.now() - (self._clock.steady() - pause.since)
        if self._goes_on_since is not None and self._goes_on_since[0] == pause.since:
            since = min(since, self._goes_on_since[1])
        if self._stored is None or self._stored[0] != pause.since:
            self._stored = pause.since, self._ledger.hourly_stats.total()
        uploads = self._stored[1] if pause.loses_answers else None
        return Pause(self._start, since, pause.reason, redact(pause.detail), ended, uploads)

    def _queued(self) -> set[str]:
        """Return the destination folders of the queued files that no person has paused."""
        return self._ledger.queue.folders(self._gates.paused())

    def _note_held_up(self) -> None:
        steady, before = self._clock.steady(), self._held_up
        if steady - self._held_up_at < _EVERY:
            return
        self._held_up_at = steady
        queued = self._queued()
        folders = queued & self._gates.held() if queued else set()
        if folders:
            self._met_at[False] = steady
        if folders and folders == queued:
            self._met_at[True] = steady
        if before is not None and not folders and steady - self._met_at[before.everything] < _QUIET:
            return
        everything = steady - self._met_at[True] < _QUIET
        found = self._found_held_up(folders, everything=everything) if folders or everything else None
        if found == before:
            return
        self._runs.record(HeldUp, found)
        self._held_up = found
        if before is not None and (found is None or found.everything is not before.everything):
            log.warning(_NO_MORE[before.everything], after=round(self._clock.now() - before.since, 1))
        if found is not None and (before is None or found.everything is not before.everything):
            next_decision = moment(found.decided_at)
            in_doubt = self._ledger.doubts.count()
            log.warning(
                _HELD_UP[found.everything], in_doubt=in_doubt, folders=len(found.folders), next_decision=next_decision
            )

    def _found_held_up(self, folders: set[str], *, everything: bool) -> HeldUp:
        """Return what is to be recorded; what changes all the time is recorded again once it is over."""
        now, before = self._clock.now(), self._held_up
        if before is None or before.everything is not everything:
            return HeldUp(self._start, now, tuple(sorted(folders)), everything, self._gates.doubts.decided_at())
        if before.decided_at is not None and before.decided_at > now:
            return before._replace(folders=tuple(sorted(folders)))
        return before._replace(folders=tuple(sorted(folders)), decided_at=self._gates.doubts.decided_at())

    def _note_log(self) -> None:
        unread, before = unread_log(), self._log_unread
        found = None
        if unread is not None:
            since = self._clock.now() - unread.seconds if before is None else before.since
            found = LogUnread(self._start, since, unread.dropped, unread.detail)
        if found != before:
            self._runs.record(LogUnread, found)
            self._log_unread = found

    def _note_unsettled(self, *, at_once: bool) -> None:
        with self._lock:
            noted, found = self._unsettled, Unsettled(len(self._settling), self._settling.overflowed)
            if noted is None or found == noted:
                return
            if self._scanning and noted.overflowed:
                # The scan has not yet reached the files that did not fit in memory.
                return
            goes_on = found.count and noted.count and found.overflowed == noted.overflowed
            if goes_on and not at_once and self._clock.steady() - self._unsettled_at < _EVERY:
                return
            self._runs.note_unsettled(found)
            self._unsettled, self._unsettled_at = found, self._clock.steady()


def _key(closed: Closed) -> tuple[float, bool]:
    """Return what is the same of a closure while its reason changes; that of the process is another."""
    return closed.since, closed.reason == OutOfResources.REASON

"""Look up the uploads whose answer was lost, and end each doubt.

A round handles all due doubts, folder by folder. The resolver first searches for new doubts by name, unless the folder
has several. If a due doubt is left, one listing of the folder serves it and all other doubts of the folder. The larger
a folder, the longer it is not listed again. Until then, searches by name find its doubts, or one that shows an asset of
ours continues their graces. An upload that its folder does not show after the grace is looked up in all folders before
the file is sent again. A look-up without an answer decides nothing and leaves a gap in the grace. Failed look-ups of
other doubts do not delay a doubt whose own look-ups were answered.

The judgement is left to `core.doubt`, the assets that look-ups show to `sync.doubts.candidates`, and the backoff of
folders whose look-ups fail to `sync.lookup_gates`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import structlog

from assetsync.core.backoff import WELL_WITHIN
from assetsync.core.doubt import Judgement, Verdict, judge, unanswered, unless_moved
from assetsync.core.doubt_grace import SLOW_GAP, Pace, Watch, longest_gap
from assetsync.core.names import printable
from assetsync.core.outcome import TOO_LARGE_FOR_PROXY
from assetsync.errors import BadAnswer, ServiceError
from assetsync.ledger.doubts import NOT_ARRIVED, OpenDoubt, looked_of
from assetsync.model import Asset, Wanted
from assetsync.sync.context import Context
from assetsync.sync.doubts.candidates import Candidates, Looking
from assetsync.sync.lookup_gates import Failure, HealthCheck, LookupGates, failure_of
from assetsync.sync.observer import InTurn, is_broad

log = structlog.get_logger(__name__)

_NEW_BY_NAME_AT_MOST = 3
_BY_NAME_AT_MOST = 20
"""Most doubts that are searched for by name in a folder whose last look-up failed: its listing may fail again."""
_BY_NAME_LOOKS = 3
"""Number of its look-ups in which a doubt is searched for by its own name while its folder is not listed."""
_LISTED_AGAIN = 40
"""A folder is listed again after so many times the seconds that its listing took, or after a part of the grace if that
is sooner."""
_LISTED_AGAIN_PART = 1 / 4
_SAMPLES = 3
_FAILED_IN_A_ROW = 2
_SLOWEST = 60.0
_SLOW_PART = 16
"""A round is slow above this fraction of the grace (1/16); at 1/8, look-ups would leave nothing but gaps."""
_LOOKED_UP_AGAIN = "they stay in doubt, and are looked up again after a pause that grows while this fails"
_EVERYWHERE_PART = 1 / 6
"""Part of the grace for which a round looks up doubts in all folders: more would leave gaps in other graces."""

_LEAST_PAUSE = 0.25
_FIRST_PAUSE = 0.5
_PAUSE_GROWTH = 4.0
_MOST_GROWTHS = 5
"""Number of look-ups after which the pause between them no longer grows."""


class Resolver:
    """Resolves open doubts; used by one thread at a time."""

    def __init__(
        self, context: Context, health_check: HealthCheck, *, grace: float, lag: float, read_timeout: float
    ) -> None:
        """Start without any measured look-up times; `grace`, `lag` and `read_timeout` are in seconds."""
        self._ledger = context.ledger
        self._service = context.service
        self._observer = context.observer
        self._clock = context.clock
        self._progress = context.progress
        self._meter = context.meter
        self._grace = grace
        self._lag = lag
        self._read_timeout = read_timeout
        self._is_begun = False
        # The doubts of this round, and the attempt of the control sample that the service showed: None before the
        # search for a sample, 0 if the service showed none.
        self._round: list[OpenDoubt] = []
        # Attempts of the round for which a folder is listed; the other doubts of the folder join them.
        self._due: set[int] = set()
        self._sample: int | None = None
        self._paces: dict[tuple[str, bool], Pace] = {}
        # Per folder: from when it may be listed again, in steady seconds.
        self._list_at: dict[str, float] = {}
        self._lookup_gates = LookupGates(health_check, grace=grace)
        self._candidates = Candidates(context)
        self._everywhere = InTurn(context.clock.steady, grace * _EVERYWHERE_PART)
        # Number of answered look-ups since the start, and the newest attempt before it.
        self._answers = 0
        self._before = context.ledger.doubts.newest_attempt()

    def step(self) -> None:
        """Look up every due doubt.

        Raise ServiceError if no look-up of the round was answered and the service answers for no other folder either.
        """
        now = self._clock.now()
        due = self._ledger.doubts.due(now)
        if due:
            if not self._is_begun:
                # Go on with the spans of the last process, if its look-ups were made in the same way. A gap may be as
                # long as the grace allows, which depends on the time-out, too.
                self._ledger.doubts.look_up_as(f"{self._service.account} {self._grace:g} {self._read_timeout:g}")
                self._is_begun = True
            self._forget_decided()
            due = self._in_one_round(due, now)
        self._round, self._sample = due, None
        self._everywhere.begin()
        folders = [(folder, list(group)) for folder, group in groupby(due, key=lambda d: d.attempt.destfolderid)]
        failed, before = False, self._answers
        # Folders that failed come last.
        for destfolderid, doubts in sorted(folders, key=lambda each: self._lookup_gates.count(each[0])):
            if failed and self._lookup_gates.keeps_failing(destfolderid):
                # `_put_off` has postponed it together with the folder that failed before.
                continue
            answers = self._answers
            looking, failure = self._folder(destfolderid, doubts)
            unanswered = [one.doubt for one in looking if not one.is_answered]
            if failure is None:
                self._lookup_gates.answered(destfolderid)
                continue
            is_partly = failure.is_passing and self._answers > answers
            self._put_off(destfolderid, unanswered, failure, partly=is_partly)
            if is_partly:
                continue
            failed = True
            # An answer in this round proves as much as an answered health check.
            if self._answers == before and not self._lookup_gates.others_are_answered():
                raise failure.error
            detail = str(failure.error)
            log.warning(
                "uploads in doubt cannot be looked up",
                destfolderid=destfolderid,
                doubts=len(unanswered),
                detail=detail,
                next=_LOOKED_UP_AGAIN,
            )

    def _in_one_round(self, due: Sequence[OpenDoubt], now: float) -> list[OpenDoubt]:
        """Return the due doubts, and those due soon in the same folders: one listing serves all doubts of a folder.

        A folder whose last look-up failed waits for its time.
        """
        slow = self._slow()
        longest = self._pause(_MOST_GROWTHS, longest_gap(self._grace, self._read_timeout))
        soon = self._ledger.doubts.due(now + longest + SLOW_GAP * slow)
        self._due = {doubt.attempt.id for doubt in due}
        # Take all doubts in one slow round: two rounds would wait for each other, and their durations would be unknown.
        is_slow = slow > self._grace / _SLOW_PART
        folders = {doubt.attempt.destfolderid for doubt in due}
        joint = {folder for folder in folders if folder not in self._lookup_gates}
        with_them = [one for one in soon if is_slow or one.attempt.destfolderid in joint]
        # A clock that was set back makes doubts due that are not due later.
        together = [*due, *(one for one in with_them if one.attempt.id not in self._due)]
        if is_slow:
            self._due.update(one.attempt.id for one in together)
        return sorted(together, key=lambda one: (one.attempt.destfolderid, one.attempt.id))

    def _put_off(self, destfolderid: str, doubts: Sequence[OpenDoubt], failure: Failure, *, partly: bool) -> None:
        """Postpone the look-ups of doubts that got no answer; only briefly if the folder was answered `partly`.

        If the folder keeps failing, postpone all other folders that keep failing to the same time. Time-outs at several
        different times would leave gaps in every grace of the folders that do get answers.
        """
        gates = self._lookup_gates
        wait = gates.partly(destfolderid) if partly else gates.failed(destfolderid, failure)
        look_at = self._clock.now() + min(wait, WELL_WITHIN)
        own = [doubt.attempt.id for doubt in doubts]
        undecided = self._ledger.doubts.open_ones() if gates.keeps_failing(destfolderid) else []
        failing = [attempt for attempt, folder in undecided if gates.keeps_failing(folder)]
        self._ledger.doubts.unanswered(own, failing, look_at, f"it cannot be looked up in the service: {failure.error}")

    def _forget_decided(self) -> None:
        undecided = self._ledger.doubts.open_ones()
        attempts, folders = {attempt for attempt, _ in undecided}, {folder for _, folder in undecided}
        self._candidates.forget_but(attempts)
        self._paces = {kind: pace for kind, pace in self._paces.items() if kind[0] in folders}
        self._list_at = {folder: at for folder, at in self._list_at.items() if folder in folders}
        self._lookup_gates.keep(folders)

    def _folder(self, destfolderid: str, doubts: Sequence[OpenDoubt]) -> tuple[list[Looking], Failure | None]:
        """Look up the doubts of a folder and judge the answered ones; return all doubts and the last failure."""
        looking = [self._candidates.begin(doubt) for doubt in doubts]
        answers = self._answers
        lists = self._listing_in(destfolderid) <= 0
        failure = self._by_name(destfolderid, self._to_search(destfolderid, looking, lists=lists))
        unseen = [one for one in looking if not one.by_name]
        if not any(one.doubt.attempt.id in self._due for one in unseen):
            # Searches by name found all due doubts: the others wait for a listing that is needed.
            unseen = []
        keeps_failing = self._lookup_gates.keeps_failing(destfolderid) and self._answers == answers
        continues = not lists and failure is None and self._shows_ours(destfolderid, unseen)
        if unseen and not continues and (failure is None or (failure.is_passing and not keeps_failing)):
            # A listing also shows the assets that a search by name shows.
            failure = self._by_listing(destfolderid, unseen)
            if failure is not None and failure.is_passing and self._answers == answers:
                # An answered search shows that the folder answers, so that it is looked up again soon.
                self._by_name(destfolderid, unseen[:_BY_NAME_AT_MOST])
        answered = [one for one in looking if one.is_answered]
        if answered:
            self._judge_all(destfolderid, answered)
        for one in unseen if continues else ():
            one.is_answered = True
            self._wait(one, replace(self._watch(one), by_name=True), counts=True)
        return looking, failure

    def _listing_in(self, destfolderid: str) -> float:
        """Return the seconds until a folder may be listed again; 0 or less for now."""
        return self._list_at.get(destfolderid, 0.0) - self._clock.steady()

    def _to_search(self, destfolderid: str, looking: Sequence[Looking], *, lists: bool) -> Sequence[Looking]:
        """Return the doubts to search for by name: a few new ones, or more if the folder may not be listed."""
        # A folder whose searches are answered while its listings fail is not in backoff.
        if self._lookup_gates.failed_last(destfolderid):
            return looking if len(looking) <= _BY_NAME_AT_MOST else ()
        most, looks = (_NEW_BY_NAME_AT_MOST, 1) if lists else (_BY_NAME_AT_MOST, _BY_NAME_LOOKS)
        attempts = ((one, one.doubt.attempt) for one in looking)
        # A search for a broad name may take as long as a listing.
        new = [one for one, each in attempts if each.looks < looks and not is_broad(each.sent_name)]
        return new if len(new) <= most else ()

    def _by_name(self, destfolderid: str, looking: Sequence[Looking]) -> Failure | None:
        """Look up each doubt by its name, and return the last failure.

        Stop after two failures in a row, after the first one in a folder that keeps failing, and after any failure that
        is not passing.
        """
        failure, in_a_row = None, 0
        most = 1 if self._lookup_gates.keeps_failing(destfolderid) else _FAILED_IN_A_ROW
        for one in looking:
            shown = self._observer.first_named_in(destfolderid, one.doubt.attempt.sent_name)
            failed = self._read([one], shown, destfolderid)
            if failed is None:
                in_a_row = 0
                one.by_name = one.is_answered = self._candidates.has_equal(one)
                continue
            failure, in_a_row = failed, in_a_row + 1
            if in_a_row == most or not failed.is_passing:
                break
        return failure

    def _shows_ours(self, destfolderid: str, unseen: Sequence[Looking]) -> bool:
        """Return whether a folder that is not listed now shows an asset of ours by its name, and none for the doubts.

        It answers then, and as truly as if it were listed: a database that is being restored may show nothing.
        """
        samples = self._ledger.control_samples.read_back_last(destfolderid, _SAMPLES)
        named = ((one.sent_name, one.assetid) for one in samples)
        name, assetid = next((each for each in named if each[0] and not is_broad(each[0])), (None, None))
        if name is None or not unseen or any(one.assets for one in unseen):
            return False
        shown = False

        def noting(assets: Iterator[Asset]) -> Iterator[Asset]:
            nonlocal shown
            for asset in assets:
                shown = shown or (asset.id, asset.folder_id) == (assetid, destfolderid)
                yield asset

        failure = self._read(unseen, noting(self._observer.first_named_in(destfolderid, name)), destfolderid)
        return failure is None and shown and not any(one.assets for one in unseen)

    def _by_listing(self, destfolderid: str, unseen: Sequence[Looking]) -> Failure | None:
        """Look up doubts in a listing of their folder; look up refused duplicates that it lacks in all folders."""
        # Search for the control sample before the listing, so that the listing is at least as current as the sample.
        # Search once a round. The sample is an upload that began after the attempts of the round were first watched.
        if self._sample is None and self._lag:
            boot, each = self._clock.boot(), [looked_of(doubt.attempt) for doubt in self._round]
            since = [looked.newest for looked in each if looked.watched.boot == boot]
            self._sample = self._observer.shown_sample(since)
        started = self._clock.steady()
        listing = self._observer.folder(destfolderid)
        failure = self._read(unseen, listing, destfolderid)
        if failure is not None:
            return failure
        took = self._clock.steady() - started
        again = min(_LISTED_AGAIN * took, _LISTED_AGAIN_PART * self._grace)
        self._list_at[destfolderid] = self._clock.steady() + again
        for one in unseen:
            one.is_answered = self._candidates.has_equal(one)
        rest = [one for one in unseen if not one.is_answered]
        if listing.incomplete is not None:
            return self._each_by_name(destfolderid, rest, listing.incomplete)
        for one in rest:
            one.is_answered = not one.facts.refused_as_duplicate
        elsewhere = [one for one in rest if not one.is_answered]
        failure = self._read(elsewhere, self._observer.everything(), None) if elsewhere else None
        for one in elsewhere:
            one.is_answered = failure is None
        return failure

    def _each_by_name(self, destfolderid: str, rest: Sequence[Looking], incomplete: str) -> Failure | None:
        """Search for each doubt by its name, because the listing of its folder does not show everything.

        That shows whether an upload arrived where uploads are known to keep their names, and only there.
        """
        failure = None
        for one in rest:
            if one.renames:
                failure = failure or Failure(BadAnswer(incomplete), is_passing=True)
                continue
            shown = self._observer.named_in(destfolderid, one.doubt.attempt.sent_name)
            failed = self._read([one], shown.all(), destfolderid)
            if failed is not None:
                return failed
            one.is_answered = True
        return failure

    def _judge_all(self, destfolderid: str, looking: Sequence[Looking]) -> None:
        """Judge the doubts of a folder whose look-ups were answered."""
        newest = self._ledger.doubts.newest_attempt()
        took = max(one.span[1] for one in looking) - min(one.span[0] for one in looking)
        # Measure rounds by name alone apart: they are quick, and say nothing about rounds that list the folder.
        kind = destfolderid, not all(one.by_name for one in looking)
        self._paces[kind] = self._paces.get(kind, Pace()).after(took)
        for one in looking:
            # Read all prefixes before any verdict: a verdict compares an asset with those of competing attempts, too.
            self._candidates.read_prefixes(one)
        over = [(one, watch) for one in looking if (watch := self._watch(one)).is_over()]
        absent = [one for one, watch in over if self._verdict(one, watch, newest).judgement is Judgement.ABSENT]
        if absent:
            self._look_everywhere(absent)
            # That look-up may have shown more assets of the folder.
            newest = self._ledger.doubts.newest_attempt()
        for one in looking:
            self._judge(one, newest)

    def _read(self, looking: Sequence[Looking], assets: Iterable[Asset], folder: str | None) -> Failure | None:
        """Add the shown assets to the doubts; return the failure if the answer was not complete."""
        started = self._clock.steady()
        try:
            self._candidates.keep(looking, assets, folder)
        except ServiceError as error:
            return failure_of(error, self._clock.steady() - started)
        ended = self._clock.steady()
        self._answers += 1
        for one in looking:
            # The span covers all look-ups of the round for this doubt, from the start of the first to the end of the
            # last.
            one.span = (one.span[0] or started, ended)
        return None

    def _look_everywhere(self, absent: Sequence[Looking]) -> None:
        """Look up doubts in all folders before their files are sent again, because people may move new assets.

        Each doubt is searched for by name. Doubts with broad names (`is_broad`) share one search.
        """
        broad = [one for one in absent if is_broad(one.doubt.attempt.sent_name)]
        groups = [[one] for one in absent if one not in broad] + [broad] * bool(broad)

        def look(group: Sequence[Looking]) -> None:
            names = [one.doubt.attempt.sent_name for one in group]
            self._candidates.keep_wider(group, self._observer.named(names))

        failed = self._everywhere.each({group[0].doubt.attempt.id: group for group in groups}, look)
        if failed is not None:
            # Only these doubts wait: other doubts of the folder need no look-up in all folders.
            log.warning(
                "uploads in doubt cannot be looked up in all folders",
                doubts=len(failed[0]),
                detail=str(failed[1]),
                next=_LOOKED_UP_AGAIN,
            )

    def _watch(self, one: Looking) -> Watch:
        """Return what the look-ups of a doubt prove, this round's included."""
        # Read the attempt again, because another verdict of this round may have restarted its grace.
        fresh, now = self._ledger.doubts.of(one.doubt.file.id), self._clock.now()
        attempt = fresh if fresh is not None and fresh.id == one.doubt.attempt.id else one.doubt.attempt
        return Watch(
            is_final=one.facts.is_final,
            took=attempt.took,
            answered=bool(attempt.answered),
            since_end=now - (attempt.ended_at or now),
            before=looked_of(attempt),
            span=one.span,
            boot=self._clock.boot(),
            slow=self._slow(),
            newest=self._ledger.doubts.newest_attempt(),
            sample=self._sample or 0,
            grace=self._grace,
            lag=self._lag,
            read_timeout=self._read_timeout,
        )

    def _verdict(self, one: Looking, watch: Watch, newest: int) -> Verdict:
        """Judge a doubt by the assets that its look-ups showed, and record those assets."""
        now = self._clock.now()
        candidates = self._candidates.of(one, newest)
        self._ledger.assets.record([s.asset for s in candidates if not s.owned], newest, now)
        return judge(one.facts, candidates, watch.counted, watch.needed, now)

    def _judge(self, one: Looking, newest: int) -> None:
        watch = self._watch(one)
        verdict = self._verdict(one, watch, newest)
        now = self._clock.now()
        if verdict.judgement is Judgement.ABSENT:
            verdict = self._unless_moved(one, verdict, now)
        self._ledger.doubts.decide(one.doubt, verdict, now)
        if verdict.judgement is Judgement.WAIT:
            self._wait(one, watch, counts=verdict.counts_for_grace)
        self._report(one, verdict)

    def _wait(self, one: Looking, watch: Watch, *, counts: bool) -> None:
        """Record an answered look-up that decided nothing, and when the next one is due."""
        attempt, looked = one.doubt.attempt, watch.looked(counts=counts)
        pause = self._pause(attempt.looks, watch.gap)
        listed = self._listing_in(attempt.destfolderid)
        if looked.grace.boot and not watch.is_over():
            pause = min(pause, max(_LEAST_PAUSE, listed, looked.grace.end(watch.needed) - self._clock.steady()))
        elif watch.by_name:
            # A listing begins the grace.
            pause = min(pause, max(_LEAST_PAUSE, listed))
        self._ledger.doubts.looked(attempt.id, looked, self._clock.now() + pause)

    def _unless_moved(self, one: Looking, absent: Verdict, now: float) -> Verdict:
        if one.wider is None:
            return unanswered(absent)
        newest = self._ledger.doubts.newest_attempt()
        here, elsewhere = self._candidates.wider(one, newest)
        verdict = unless_moved(absent, one.facts, here, elsewhere, now)
        if verdict is not absent:
            # Record when these assets were first seen: an asset that an operator rejects is not asked about again, and
            # the 24 hours of an unprocessed asset begin now.
            shown = [sight.asset for sight in (*here, *elsewhere) if not sight.owned]
            self._ledger.assets.record(shown, newest, now)
        return verdict

    def _slow(self) -> float:
        """Return the usual seconds of a round: the look-ups of all folders lie between two look-ups of a folder."""
        return sum(pace.least for pace in self._paces.values())

    def _pause(self, looks: int, gap: float) -> float:
        """Return the seconds until the next look-up of a doubt whose look-ups may have such a gap.

        The pause is short at first, because the service may only be slow. Later it is at most half the gap.
        """
        growth = _PAUSE_GROWTH ** min(looks, _MOST_GROWTHS)
        return min(max(_LEAST_PAUSE, gap / 2), _FIRST_PAUSE * growth, _SLOWEST)

    def _report(self, one: Looking, verdict: Verdict) -> None:
        bound = log.bind(path=printable(one.doubt.file.path), attempt=one.doubt.attempt.id)
        if verdict.judgement is not Judgement.WAIT:
            self._meter.decided(str(verdict.judgement))
        match verdict.judgement:
            case Judgement.DAMAGED | Judgement.ABSENT if one.doubt.file.wanted is Wanted.OUTSIDE:
                bound.error("blocked", detail=f"{verdict.reason}; {NOT_ARRIVED}")
            case Judgement.WAIT:
                bound.debug("still in doubt", detail=verdict.reason)
            case Judgement.FOUND:
                if one.doubt.attempt.id > self._before and not one.facts.refused_as_duplicate:
                    self._progress.uploaded(one.facts.size)
                else:
                    self._progress.adopted()
                bound.info("found in the service", assetid=verdict.assetid)
            case Judgement.DAMAGED:
                bound.warning("a damaged asset was found: the file is sent again", assetid=verdict.assetid)
            case Judgement.ABSENT if one.doubt.attempt.why == TOO_LARGE_FOR_PROXY:
                bound.warning("blocked", reason=TOO_LARGE_FOR_PROXY, size=one.facts.size)
            case Judgement.ABSENT:
                bound.info("did not arrive, sending again")
            case Judgement.UNDECIDABLE:
                bound.error("blocked", detail=verdict.reason)

"""Looks up what became of uploads whose answer was lost, and ends each doubt as `core.doubt` judges it.

One round takes all doubts that are due, folder by folder: first by name, and where no equal asset shows, by one
listing of the folder for all its doubts together. A look-up that was not answered decides nothing and leaves a gap in
the grace.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import structlog

from assetsync.core.doubt import SLOW_GAP, Doubt, Grace, Judgement, Pace, Sight, Verdict, is_damaged, is_equal, judge
from assetsync.core.names import printable
from assetsync.core.naming import may_be
from assetsync.errors import BadAnswer, ServiceError, TreeError
from assetsync.flow.edges import Edges
from assetsync.flow.failing import Failing
from assetsync.flow.probe import Probe
from assetsync.flow.rivals import claims
from assetsync.flow.witness import Witnessed
from assetsync.ledger.doubts import OpenDoubt, grace_of
from assetsync.model import Asset, FileStat, SearchRequest
from assetsync.service.multipart import closing
from assetsync.service.paging import every
from assetsync.service.query import like_pattern
from assetsync.tree.body import difference, digest, prefix_digests

log = structlog.get_logger(__name__)

_BY_NAME_AT_MOST = 20
_MOST_KEPT = 2_000_000
_SLOWEST = 60.0
_SLOW_PART = 16
"""A round that takes more than this part of the grace is slow: at twice that, look-ups would leave nothing but gaps."""
_SETTLED = 10
"""Look-ups after which the pause between them has its length."""


@dataclass(slots=True)
class _Looking:
    """One doubt in a round, with what the look-ups have shown so far."""

    doubt: OpenDoubt
    facts: Doubt
    span: tuple[float, float] = (0.0, 0.0)
    assets: dict[str, Asset] = field(default_factory=dict)
    prefixes: dict[int, str] = field(default_factory=dict)


class Resolver:
    """Resolves open doubts; used by one thread at a time."""

    def __init__(self, edges: Edges, prober: Probe, *, grace: float) -> None:
        """Begin with nothing known of how long look-ups take; `grace` in seconds."""
        self._ledger = edges.ledger
        self._service = edges.service
        self._tree = edges.tree
        self._clock = edges.clock
        self._tally = edges.tally
        self._meter = edges.meter
        self._tick = edges.tick
        self._grace = grace
        self._paces: dict[tuple[str, bool], Pace] = {}
        self._prefixes: dict[int, dict[int, str]] = {}
        # The same of those whose file is surely what was sent: only there a beginning that does not fit says something.
        self._beginnings: dict[int, dict[int, str]] = {}
        self._failing = Failing(prober, grace=grace)
        self._witnessed = Witnessed(edges)

    def step(self) -> int:
        """Look at every doubt that is due; gives how many were looked at with an answer.

        Raises ServiceError where the service answers for nothing else either.
        """
        now = self._clock.now()
        due = self._ledger.doubts.due(now)
        if due:
            self._forget_decided()
            slow = self._slow()
            if slow > self._grace / _SLOW_PART:
                # All in one round: those of two would wait for each other, and what they take would not be known.
                due = self._ledger.doubts.due(now + self._pause(_SETTLED) + SLOW_GAP * slow)
        folders = [(folder, list(group)) for folder, group in groupby(due, key=lambda d: d.attempt.destfolderid)]
        done, failed = 0, False
        # What failed is looked at last.
        for destfolderid, doubts in sorted(folders, key=lambda each: self._failing.count(each[0])):
            if failed and destfolderid in self._failing:
                # Put off with the one before.
                continue
            try:
                done += self._folder(destfolderid, doubts)
            except ServiceError as error:
                failed = True
                self._put_off(destfolderid, doubts, error)
                if not self._failing.are_alone():
                    raise
                log.warning("cannot be looked for", destfolderid=destfolderid, doubts=len(doubts), detail=str(error))
            else:
                self._failing.answered(destfolderid)
        return done

    def _put_off(self, destfolderid: str, doubts: Sequence[OpenDoubt], error: ServiceError) -> None:
        """Put a folder off that was not answered for, and with it all others that failed.

        What times out at several times would leave no span without a gap to the doubts of those that are answered for.
        """
        look_at = self._clock.now() + self._failing.failed(destfolderid, error)
        own = [doubt.attempt.id for doubt in doubts]
        failing = [attempt for attempt, folder in self._ledger.doubts.open_ones() if folder in self._failing]
        self._ledger.doubts.unanswered(own, failing, look_at, f"cannot be looked for in the service: {error}")

    def _forget_decided(self) -> None:
        undecided = self._ledger.doubts.open_ones()
        attempts, folders = {attempt for attempt, _ in undecided}, {folder for _, folder in undecided}
        self._prefixes = {attempt: kept for attempt, kept in self._prefixes.items() if attempt in attempts}
        self._beginnings = {attempt: kept for attempt, kept in self._beginnings.items() if attempt in attempts}
        self._paces = {kind: pace for kind, pace in self._paces.items() if kind[0] in folders}
        self._failing.keep(folders)

    def _folder(self, destfolderid: str, doubts: Sequence[OpenDoubt]) -> int:
        looking = [_Looking(doubt, self._facts(doubt)) for doubt in doubts]
        if len(looking) <= _BY_NAME_AT_MOST:
            for one in looking:
                pattern = like_pattern(one.doubt.attempt.sent_name)
                self._look([one], SearchRequest(searchfor=pattern, folderid=destfolderid, dbdirect=True))
        unseen = [one for one in looking if not self._has_equal(one)]
        # One that ends with the names is quick, and says nothing of those that list the folder.
        kind = destfolderid, bool(unseen)
        if unseen:
            self._read(unseen, self._witnessed.listing(destfolderid), destfolderid)
        unseen = [one for one in unseen if not self._has_equal(one)]
        if unseen:
            # Some releases show what is not processed yet only when it is asked for (interface section 4.1).
            self._look(unseen, SearchRequest(searchfor="%", folderid=destfolderid, dbdirect=True, available="0"))
        elsewhere = [one for one in unseen if one.facts.refused_as_duplicate and not self._has_equal(one)]
        if elsewhere:
            self._look(elsewhere, SearchRequest(searchfor="%", dbdirect=True))
        newest = self._ledger.doubts.newest_attempt()
        took = max(one.span[1] for one in looking) - min(one.span[0] for one in looking)
        self._paces[kind] = self._paces.get(kind, Pace()).after(took)
        for one in looking:
            # First of all: what is proven to be another's is no proof for one of them.
            self._read_prefixes(one)
        for one in looking:
            self._judge(one, newest)
        return len(looking)

    def _look(self, looking: Sequence[_Looking], request: SearchRequest) -> None:
        self._read(looking, every(self._service.search, request), request.folderid)

    def _read(self, looking: Sequence[_Looking], assets: Iterable[Asset], folder: str | None) -> None:
        started = self._clock.steady()
        self._keep(looking, assets, folder)
        ended = self._clock.steady()
        for one in looking:
            # The first look-up of a round opens its span, the last closes it: every part of the answer lies within.
            one.span = (one.span[0] or started, ended)

    def _keep(self, looking: Sequence[_Looking], assets: Iterable[Asset], folder: str | None) -> None:
        """Keep of a stream what any of the doubts may need: a folder may hold 100,000 assets.

        What lies in another folder than was asked for is no answer: a release may not know the parameter.
        """
        kept = sum(len(one.assets) for one in looking)
        digests = {one.facts.md5 for one in looking} - {None}
        sizes = {one.facts.size for one in looking}
        for shown in assets:
            if folder is not None and shown.folder_id not in (folder, ""):
                continue
            # Of its many columns none is needed here.
            asset = replace(shown, columns={})
            by_content = asset.md5 in digests or (asset.md5 is None and asset.size in sizes)
            for one in looking:
                if (by_content and asset.md5 in (None, one.facts.md5)) or may_be(
                    one.doubt.attempt.sent_name, asset.filename
                ):
                    one.assets[asset.id] = asset
                    kept += 1
            if kept > _MOST_KEPT:
                raise BadAnswer("the service shows more assets than could ever have been ours")

    def _has_equal(self, one: _Looking) -> bool:
        free = set(one.assets) - self._taken(one)
        return any(is_equal(one.facts, Sight(one.assets[i])) for i in free)

    def _taken(self, one: _Looking) -> set[str]:
        """Tell which of the assets are other versions', and not for this doubt to take.

        What lay there for a version at rest was there before the attempt, and is handed on by the queue, which knows to
        whom. Only what was refused as a copy of it may take it here, and by its digest alone: where the service gives
        none, the name and size of the past say nothing.
        """
        ids = list(one.assets)
        taken = self._ledger.doubts.owned(ids)
        md5 = one.facts.md5 if one.facts.refused_as_duplicate else None
        for assetid, digests in self._ledger.doubts.history(ids).items():
            if md5 is None or md5 not in digests | {one.assets[assetid].md5}:
                taken.add(assetid)
        return taken - {one.facts.accepted_id or ""}

    def _facts(self, doubt: OpenDoubt) -> Doubt:
        attempt = doubt.attempt
        return Doubt(
            size=attempt.size,
            md5=attempt.md5 or doubt.file.md5 or self._read_again(doubt),
            refused_as_duplicate=bool(attempt.is_duplicate),
            accepted_id=attempt.accepted_id,
            handed=attempt.handed,
            handed_md5=attempt.handed_md5,
            absences=doubt.file.absences,
            since=attempt.ended_at or attempt.started_at,
            looks=attempt.looks,
        )

    def _read_again(self, doubt: OpenDoubt) -> str | None:
        """Read the digest of what was sent from the file, if it is still that version."""
        attempt = doubt.attempt
        expected = FileStat(attempt.size, attempt.mtime_ns, doubt.file.ctime_ns, attempt.inode)
        try:
            with self._tree.open(doubt.file.path) as file:
                if difference(expected, file.stat):
                    return None
                md5 = digest(file, expected, stop=self._tick)
        except TreeError as error:
            log.debug("cannot be read again", path=printable(doubt.file.path), why=str(error))
            return None
        self._ledger.doubts.hashed(attempt.id, doubt.file.id, md5)
        return md5

    def _judge(self, one: _Looking, newest: int) -> None:
        ledger, attempt = self._ledger.doubts, one.doubt.attempt
        now = self._clock.now()
        sights = self._sights(one, newest)
        ledger.sight([s.asset for s in sights if not s.owned], newest, now)
        # Another verdict of this round may have begun it anew.
        fresh = ledger.of(one.doubt.file.id)
        before = grace_of(fresh) if fresh is not None and fresh.id == attempt.id else Grace()
        grace = before.answered(*one.span, self._clock.boot(), self._grace, slow=self._slow())
        verdict = judge(one.facts, sights, grace, self._grace, now)
        ledger.decide(one.doubt, verdict, now)
        if verdict.judgement is Judgement.WAIT:
            counted = grace if verdict.counts_for_grace else Grace()
            ledger.looked([(attempt.id, counted, now + self._pause(attempt.looks))])
        self._report(one, verdict)

    def _slow(self) -> float:
        """Give what a round takes as a matter of course: between two look-ups of one folder lie those of all others."""
        return sum(pace.least for pace in self._paces.values())

    def _pause(self, looks: int) -> float:
        """Look soon at first, for an answer that was only slow; then often enough that the grace has no gap."""
        return min(max(0.25, self._grace / 4), 0.5 * 2.0 ** min(looks, _SETTLED), _SLOWEST)

    def _sights(self, one: _Looking, newest: int) -> list[Sight]:
        attempt = one.doubt.attempt
        ids = list(one.assets)
        owned = self._taken(one)
        explained = self._ledger.doubts.recorded(ids)
        seen = self._ledger.doubts.first_seen(ids)
        rivals = self._ledger.doubts.rivals(attempt)
        sights = []
        for assetid, asset in sorted(one.assets.items()):
            seen_to, since = seen.get(assetid, (newest, None))
            sight = Sight(
                asset,
                owned=assetid in owned,
                # Only what a look-up showed that ended before the attempt began was there before it.
                before=seen_to < attempt.id or assetid in explained,
                named=may_be(attempt.sent_name, asset.filename),
                prefix=one.prefixes.get(asset.size or 0),
                since=since,
            )
            # Asked for what a verdict may rest on alone: there may be many assets of such a name, and many rivals.
            if not sight.owned and (is_equal(one.facts, sight) or is_damaged(one.facts, sight)):
                known = self._beginnings
                of_another = any(claims(r, asset, seen_to, attempt, known.get(r.attempt_id, {})) for r in rivals)
                sight = replace(sight, claimed=of_another)
            sights.append(sight)
        return sights

    def _read_prefixes(self, one: _Looking) -> None:
        """Hash as much of the file as each smaller asset of its name holds: the proof that a cut left it."""
        attempt = one.doubt.attempt
        tail = closing(attempt.boundary)
        lengths = {
            asset.size
            for asset in one.assets.values()
            if asset.size and asset.md5 and asset.size != attempt.size and asset.size <= attempt.size + len(tail)
        }
        # A large file is not read again for each look-up: that would take longer than the gap between them may be.
        one.prefixes = self._prefixes.setdefault(attempt.id, {}) if lengths else {}
        lengths -= one.prefixes.keys()
        if not lengths:
            return
        expected = FileStat(attempt.size, attempt.mtime_ns, one.doubt.file.ctime_ns, attempt.inode)
        try:
            with self._tree.open(one.doubt.file.path) as file:
                if difference(expected, file.stat):
                    return
                found = prefix_digests(file, sorted(lengths), tail=tail, stop=self._tick)
                one.prefixes.update(found)
                # What was rewritten and had its time set back shows in the ctime alone.
                if file.stat == expected == file.restat():
                    self._beginnings.setdefault(attempt.id, {}).update(found)
        except TreeError as error:
            log.debug("cannot be read again", path=printable(one.doubt.file.path), why=str(error))

    def _report(self, one: _Looking, verdict: Verdict) -> None:
        bound = log.bind(path=printable(one.doubt.file.path), attempt=one.doubt.attempt.id)
        if verdict.judgement is not Judgement.WAIT:
            self._meter.decided(str(verdict.judgement))
        match verdict.judgement:
            case Judgement.WAIT:
                bound.debug("still in doubt", detail=verdict.reason)
            case Judgement.FOUND:
                if one.doubt.attempt.start_no == self._ledger.start_no and not one.facts.refused_as_duplicate:
                    self._tally.uploaded(one.facts.size)
                else:
                    self._tally.adopted()
                bound.info("found in the service", assetid=verdict.assetid)
            case Judgement.DAMAGED:
                bound.warning("damaged asset found, sending again", assetid=verdict.assetid)
            case Judgement.ABSENT:
                bound.info("did not arrive, sending again")
            case Judgement.UNDECIDABLE:
                bound.error("blocked", detail=verdict.reason)

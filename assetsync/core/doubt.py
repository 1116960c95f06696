"""Decide an attempt whose answer was lost: found, damaged, still waiting, absent, or undecidable.

This rule ensures that no file is sent twice and none is lost. It is pure. `judge` decides. Before an absent file is
sent again, `unless_moved` also considers the assets in other folders. The look-ups, the hashing of prefixes and the
questions to the ledger are left to `sync.doubts.resolver` and `sync.doubts.candidates`. A `Candidate` is an asset that
a look-up shows, with the facts that the ledger has on it. A `Grace` records which look-ups were answered, and when. A
`Watch` decides whether a look-up counts for it. How many uploads may be in doubt is left to `core.doubt_limits`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from assetsync.model import Asset

UNPROCESSED_PATIENCE = 24 * 3600.0
"""Seconds that an asset may stay unprocessed before an operator must decide."""

_MANY_LOOKS = 100
"""Fewer look-ups than this do not count as a day of waiting: the program or the service was away."""

MAX_ABSENCES = 5
"""Times that a file version may be proven absent or damaged before an operator must decide whether to send it again."""

SLOW_GAP = 3
"""A gap may be longer by this multiple of the duration of a round of look-ups: it holds two rounds and one spare."""

SLOW_GRACE = 4 * SLOW_GAP
"""The grace is longer by this multiple of the duration of a slow round, so that at least two of the longest gaps are
needed to fill it."""

UPLOAD_TIMES = 5
"""A service may store a whole upload late, by this multiple of the time that the upload took."""

STORED_BY_NOW = 12 * 3600.0
"""Seconds after which a service has stored a whole upload or never does."""

ROUNDS = 5
"""Answered rounds of look-ups that are enough after STORED_BY_NOW, however far apart they were."""

ROUNDS_APART = 60.0
"""Seconds between two rounds that count, so that no single answer of a cache or of a disturbed service is all of them.
"""

MOST_NAMED = 3
"""Most assets that a message names."""


class Judgement(StrEnum):
    """The decision on an open doubt."""

    FOUND = "found"
    DAMAGED = "damaged"
    WAIT = "wait"
    ABSENT = "absent"
    UNDECIDABLE = "undecidable"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An asset that a look-up showed, with the facts that the ledger has on it.

    - `owned`: it belongs to a live row, or to a row at rest that may still hand it on.
    - `before`: it was seen before the attempt began, or is recorded already as a damaged asset.
    - `contested`: another attempt may have made it, or left it when that attempt was cut
      (`sync.doubts.candidates`).
    - `asked`: an operator must decide each attempt that claims it.
    - `named`: its name is one that the sent name may have become.
    - `unsure`: it has no MD5, and its name is only similar to the sent name, or also fits another undecided upload of
      the same size.
    - `renamed`: it has no MD5 (yet) and another name, and the service may rename uploads into its folder.
    - `prefix`: the MD5 of the first bytes that were sent, as many as the asset has, where it could be computed.
    - `since`: the wall-clock time in seconds when it was first seen; None for just now.
    """

    asset: Asset
    owned: bool = False
    before: bool = False
    contested: bool = False
    asked: bool = False
    named: bool = True
    unsure: bool = False
    renamed: bool = False
    prefix: str | None = None
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Doubt:
    """The facts on an attempt: its size, its MD5 if it was computed, its result, and the look-ups so far."""

    size: int
    md5: str | None
    refused_as_duplicate: bool = False
    accepted_id: str | None = None
    bytes_sent: int | None = None
    bytes_sent_md5: str | None = None
    absences: int = 0
    since: float = 0.0
    looks: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """The durations in seconds of look-ups of one kind in a folder: the last one, and the shorter of the last two."""

    last: float = 0.0
    least: float = 0.0

    def after(self, took: float) -> "Pace":
        """Return the pace after another look-up.

        A single slow look-up may have met a service that hangs; two slow ones in a row are normal for this service. If
        every second look-up is slow, the service counts as hanging again and again.
        """
        return Pace(took, min(self.last, took))


@dataclass(frozen=True, slots=True)
class Grace:
    """The span over which look-ups were answered without showing the asset, on the steady clock of one boot.

    The span may be of several processes. `slow`: the duration in seconds of the slowest round of look-ups for which a
    longer gap was accepted. `rounds`: how many rounds counted since the upload was stored or never will be, in any
    boot; `round_at`: the end of the last of them, 0 if it was before this boot.
    """

    boot: str = ""
    first: float = 0.0
    last: float = 0.0
    slow: float = 0.0
    rounds: int = 0
    round_at: float = 0.0

    def answered(
        self, started: float, ended: float, boot: str, grace: float, *, gap: float | None = None, slow: float = 0.0
    ) -> "Grace":
        """Return the grace after another answered look-up; too long a gap, or another boot, starts the span again.

        `gap` is in seconds; the default is half the grace. The span opens at the end of its first look-up and reaches
        to the start of its last: changes in the service while an answer is in transit do not count as seen. The gap
        reaches to the end of the new look-up: a look-up that waits while the service hangs must not bridge the hang.

        `slow` is the usual duration in seconds of a round of look-ups over all folders in question. Slow rounds alone
        would make every gap too long. Therefore a slow round allows longer gaps and makes the grace longer too.
        """
        length = ended - self.last
        most = grace / 2 if gap is None else gap
        if self.boot != boot or started < self.last or length > most + SLOW_GAP * slow:
            return Grace(boot, ended, ended, rounds=self.rounds, round_at=self.round_at if self.boot == boot else 0.0)
        return replace(self, last=max(self.last, started), slow=max(self.slow, slow) if length > most else self.slow)

    def after_round(self, started: float, ended: float) -> "Grace":
        """Return the grace after a completely answered round later than STORED_BY_NOW; it counts if it is apart."""
        if self.rounds and started - self.round_at < ROUNDS_APART:
            return self
        return replace(self, rounds=min(self.rounds + 1, ROUNDS), round_at=ended)

    def over(self, grace: float) -> bool:
        """Return whether look-ups were answered for long enough, or often enough.

        The span must be as long as the whole grace, which is longer if longer gaps were accepted.
        """
        return bool(self.boot) and (self.rounds >= ROUNDS or self.last - self.first >= grace + SLOW_GRACE * self.slow)


def grace_of_whole(seconds: float, read_timeout: float, took: float, age: float, *, answered: bool = False) -> float:
    """Return the grace in seconds of an attempt whose whole body may have left and that was not accepted.

    A proxy may give up while the service still stores the file. `took`: seconds from the first byte to the end of the
    attempt; `age`: as for `Watch.age`. `answered`: the application, or a gate before it, answered completely
    (`core.outcome`), so that `read_timeout` says nothing about it. A proxy may answer 500 too, for want of an answer
    from the application: such an answer comes late, and its upload is waited for by what it took. After half a day
    `seconds` is enough, so that a nightly run shorter than the grace decides such an attempt the next night.
    """
    longest = max(seconds, UPLOAD_TIMES * took, 0.0 if answered else read_timeout)
    return seconds if age >= max(STORED_BY_NOW, longest) else longest


def took_at_most(started_at: float, now: float) -> float:
    """Return the longest time in seconds that an upload took whose process ended unseen after `started_at`.

    The arguments are wall-clock seconds. The result is 0 if the clock was set back. If it was set forward, or the
    machine was off for days, the result is no more than makes the grace half a day.
    """
    return min(max(0.0, now - started_at), STORED_BY_NOW / UPLOAD_TIMES)


@dataclass(frozen=True, slots=True)
class Looked:
    """The answered look-ups of an attempt so far, as the ledger keeps them.

    `grace`: those that count for its absence · `watched`: the span of all that were answered without a gap, in which
    only `boot`, `first` and `last` are used · `newest`: the newest attempt when that span began · `since`: the first
    answered look-up on the steady clock of `boot`, which is empty if there was none; it is earlier, and may be
    negative, by the age that earlier boots account for.
    """

    grace: Grace = field(default_factory=Grace)
    watched: Grace = field(default_factory=Grace)
    newest: int = 0
    since: float = 0.0
    boot: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """An attempt in doubt at an answered look-up: what its look-ups up to this one prove if they show no asset.

    - `doubt`: the facts on the attempt.
    - `took`: seconds from its first byte to its end; None if only a part of the body left.
    - `answered`: the application, or a gate before it, answered completely (`core.outcome`).
    - `since_end`: seconds on the wall clock since it ended.
    - `before`: its look-ups before this one.
    - `span`: start and end of this look-up in seconds on the steady clock of `boot`.
    - `slow`: the usual seconds of a round of look-ups.
    - `newest`: the newest attempt now.
    - `sample`: the attempt of the control sample that the service showed before this look-up; 0 if it showed none.
    - `grace`, `lag`, `read_timeout`: the configured seconds. Look-ups may be out of date by `lag`.
    """

    doubt: Doubt
    took: float | None
    answered: bool
    since_end: float
    before: Looked
    span: tuple[float, float]
    boot: str
    slow: float
    newest: int
    sample: int
    grace: float
    lag: float
    read_timeout: float

    @property
    def age(self) -> float:
        """Return the seconds since the first answered look-up; 0 if there is none.

        If it was in an earlier boot, return the seconds since the attempt ended, or 0 for less than half a day: the
        wall clock may have been set, and half a day is far more than it is corrected by.
        """
        if self.before.boot == self.boot:
            return self.span[0] - self.before.since
        return self.since_end if self.before.boot and self.since_end >= STORED_BY_NOW else 0.0

    @property
    def needed(self) -> float:
        """Return the seconds of answered look-ups after which the attempt counts as absent."""
        if self.took is None or self._is_final():
            return self.grace
        return grace_of_whole(self.grace, self.read_timeout, self.took, self.age, answered=self.answered)

    @property
    def counted(self) -> Grace:
        """Return the grace after this look-up; empty if the look-up is not current."""
        if not self.is_current():
            return Grace()
        grace = self._extended(self.before.grace)
        # Half a day has passed, and five times what the upload took.
        is_late = self.age >= STORED_BY_NOW and self.needed <= self.grace
        return grace.after_round(*self.span) if is_late else grace

    def is_over(self) -> bool:
        """Return whether look-ups were answered for long enough, or often enough."""
        return self.counted.over(self.needed)

    def is_current(self) -> bool:
        """Return whether this look-up counts for the absence of an asset that it does not show.

        A replica or a cache may answer with a state from before the upload. The look-up counts once answers came
        without a gap for longer than look-ups lag, or if the service showed an upload that began after those answers.
        """
        if self._is_final():
            return True
        watched, newest = self._watched()
        seconds = max(0.0, self.span[0] - watched.first)
        return newest < self.sample or seconds >= self.lag or self.age >= STORED_BY_NOW

    def looked(self, *, counts: bool) -> Looked:
        """Return the look-ups including this one, to be recorded; the grace is empty unless it `counts`."""
        # In another boot the steady clock counts on from the age that earlier boots account for.
        since = self.before.since if self.before.boot == self.boot else self.span[1] - self.age
        return Looked(self.counted if counts else Grace(), *self._watched(), since, self.boot)

    def _is_final(self) -> bool:
        """Return whether no verdict sends the upload again, so that an old look-up does no harm."""
        return self.doubt.refused_as_duplicate or self.doubt.accepted_id is not None

    def _watched(self) -> tuple[Grace, int]:
        """Return the span over which answers came, and the newest attempt at its start.

        The span restarts after a gap, and whenever the grace restarts: if look-ups lag, what happened in a gap shows
        only later.
        """
        span = self._extended(self.before.watched)
        return span, self.before.newest if span.first == self.before.watched.first else self.newest

    def _extended(self, span: Grace) -> Grace:
        return span.answered(*self.span, self.boot, self.grace, slow=self.slow)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement, the asset that it rests on with folder and MD5, and other assets that the look-up showed."""

    judgement: Judgement
    assetid: str | None = None
    folder_id: str | None = None
    md5: str | None = field(default=None, compare=False)
    reason: str = ""
    suspected: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    counts_for_grace: bool = False


def is_equal(doubt: Doubt, sight: Candidate) -> bool:
    """Return whether an asset is the whole file: same MD5, or without MD5 the same size and name, and new.

    For an upload that was refused as a copy only the MD5 counts.
    """
    if not sight.asset.processed or sight.asset.size not in (doubt.size, None):
        return False
    if sight.asset.md5 is not None and doubt.md5 is not None:
        return sight.asset.md5 == doubt.md5
    return sight.named and not sight.unsure and _is_alike(doubt, sight)


def is_undecided(doubt: Doubt, sight: Candidate) -> bool:
    """Return whether an asset without MD5 may be the whole file although its name does not prove it.

    Such an asset is never adopted, and while it exists the upload is never judged absent: an operator decides.
    """
    fits = sight.unsure if sight.named else sight.renamed
    return sight.asset.processed and sight.asset.md5 is None and fits and _is_alike(doubt, sight)


def _is_alike(doubt: Doubt, sight: Candidate) -> bool:
    """Return whether an asset whose digest cannot be compared is new and has the size of the bytes sent."""
    # Without both digests, a same-sized asset that existed before the attempt is not its file. An upload that was
    # refused as a copy made no asset, and the asset that it copies existed before: an asset that appears later may be a
    # cut of any other file.
    made_one = not doubt.refused_as_duplicate
    # Only a part was sent of a version that can no longer be read: no asset holds all of it, and it is not sent
    # again.
    is_whole_nowhere = doubt.md5 is None and doubt.bytes_sent not in {None, doubt.size}
    return made_one and not is_whole_nowhere and sight.asset.size == doubt.size and not sight.before


def is_damaged(doubt: Doubt, sight: Candidate) -> bool:
    """Return whether an asset is proven to be a cut of this attempt: its bytes are the first bytes of the file."""
    asset = sight.asset
    if sight.before or not sight.named or not asset.processed or asset.md5 is None or asset.size == doubt.size:
        return False
    if asset.size == doubt.bytes_sent and asset.md5 == doubt.bytes_sent_md5:
        return True
    return sight.prefix is not None and asset.md5 == sight.prefix


def judge(doubt: Doubt, candidates: Sequence[Candidate], grace: Grace, seconds: float, now: float) -> Verdict:
    """Decide a doubt from an answered look-up; after ABSENT and DAMAGED the file is sent again.

    `grace` already counts this look-up; `seconds` is the required length of the grace. `now`, `doubt.since` and the
    `since` of a candidate are wall-clock seconds, used only for the 24 hours of an asset that is never processed.
    """
    free = [s for s in candidates if not s.owned]
    equal = [s for s in free if is_equal(doubt, s)]
    mine = [s for s in equal if not s.contested]
    if mine:
        # Prefer the asset that has the sent name, then an asset that did not exist before the attempt.
        best = min(mine, key=lambda s: (not s.named, s.before, s.asset.id))
        return Verdict(
            Judgement.FOUND,
            best.asset.id,
            best.asset.folder_id,
            best.asset.md5,
            doubled=tuple(s.asset.id for s in mine if s is not best and not s.before),
        )
    if equal:
        return _of_another(equal, grace.over(seconds))
    if doubt.refused_as_duplicate:
        return _judge_duplicate(doubt, candidates, grace, seconds)
    # An accepted upload arrived whole, so it left no damaged asset.
    accepted = doubt.accepted_id is not None
    damaged = [s for s in free if not accepted and not s.contested and is_damaged(doubt, s)]
    suspected = tuple(s.asset.id for s in free if _suspicious(doubt, s))
    unprocessed = [s for s in free if _unprocessed(s)]
    stuck = _never_processed(doubt, unprocessed, now)
    if unprocessed and not stuck:
        # The unprocessed asset may be the whole file, and the damaged asset may belong to another upload after all.
        return Verdict(Judgement.WAIT, reason="an asset of this name is not processed yet", suspected=suspected)
    if damaged:
        first = damaged[0]
        return _unless_too_often(doubt, Judgement.DAMAGED, first.asset.id, "the folder holds a damaged copy of it")
    if stuck:
        return Verdict(Judgement.UNDECIDABLE, reason=stuck, suspected=suspected)
    if grace.over(seconds):
        if doubt.accepted_id is not None:
            reason = f"the service accepted it as {doubt.accepted_id} but shows no such asset"
            return Verdict(Judgement.UNDECIDABLE, reason=reason, suspected=suspected)
        undecided = [s for s in free if is_undecided(doubt, s)]
        if undecided:
            return replace(_undecided(undecided), suspected=suspected)
        return replace(_unless_too_often(doubt, Judgement.ABSENT, None, "the file did not arrive"), suspected=suspected)
    reason = "looking for it in the service" if grace.boot else "the service may show an older state than the upload's"
    return Verdict(Judgement.WAIT, reason=reason, suspected=suspected, counts_for_grace=True)


def unless_moved(
    absent: Verdict, doubt: Doubt, here: Sequence[Candidate], elsewhere: Sequence[Candidate], now: float
) -> Verdict:
    """Return the verdict on an upload that its folder does not show, after a look-up by name in all folders.

    A user may have moved the asset after it was stored. If an equal, new asset without an owner shows elsewhere, an
    operator decides; an asset that is not processed yet is waited for. An asset that existed before, or that belongs to
    another version, changes nothing. `here`: candidates that came into the upload's own folder after the look-up there.
    """
    verdict = _moved(doubt, here, elsewhere, now)
    return absent if verdict is None else replace(verdict, suspected=absent.suspected)


def _moved(doubt: Doubt, here: Sequence[Candidate], elsewhere: Sequence[Candidate], now: float) -> Verdict | None:
    if any(_may_be_it(doubt, s) or _unprocessed(s) for s in here if not s.owned):
        return replace(_WAIT_ON, reason="the asset only now appeared in its folder")
    new = [s for s in elsewhere if s.named and not s.owned and not s.before]
    equal = [s for s in new if _may_be_it(doubt, s)]
    mine = [s for s in equal if not s.contested]
    if mine:
        asset = min(mine, key=lambda s: s.asset.id).asset
        reason = f"an equal asset, {asset.id}, is in folder {asset.folder_id}: somebody may have moved it there"
        return Verdict(Judgement.UNDECIDABLE, reason=reason)
    if equal:
        verdict = _of_another(equal, is_over=True)
        return replace(verdict, counts_for_grace=verdict.judgement is Judgement.WAIT)
    unprocessed = [s for s in new if _unprocessed(s)]
    stuck = _never_processed(doubt, unprocessed, now)
    if stuck:
        return Verdict(Judgement.UNDECIDABLE, reason=f"{stuck}, in another folder")
    if unprocessed:
        return replace(_WAIT_ON, reason="an asset of this name in another folder is not processed yet")
    return None


def _may_be_it(doubt: Doubt, sight: Candidate) -> bool:
    return is_equal(doubt, sight) or is_undecided(doubt, sight)


def unanswered(absent: Verdict) -> Verdict:
    """Return the verdict on an upload that its folder does not show while all folders cannot be searched."""
    return replace(
        _WAIT_ON, reason="not in its folder; the other folders cannot be searched", suspected=absent.suspected
    )


# Waiting for an asset elsewhere does not start the grace again: the upload's own folder was watched for long enough.
_WAIT_ON = Verdict(Judgement.WAIT, counts_for_grace=True)


def _of_another(equal: Sequence[Candidate], is_over: bool) -> Verdict:
    """Return the verdict if another upload may own the equal assets.

    Wait for the other upload; but if it needs an operator itself, do not wait longer than the grace.
    """
    if not all(sight.asked for sight in equal):
        return Verdict(Judgement.WAIT, reason="an equal asset may belong to another upload whose answer is pending")
    reason = f"an equal asset, {equal[0].asset.id}, may belong to another upload that an operator must decide"
    return Verdict(Judgement.UNDECIDABLE if is_over else Judgement.WAIT, reason=reason, counts_for_grace=not is_over)


def _undecided(undecided: Sequence[Candidate]) -> Verdict:
    """Return the verdict on assets that may be the file.

    An operator decides, unless other uploads may have made all of them.
    """
    mine = sorted(s.asset.id for s in undecided if not s.contested)
    if not mine:
        verdict = _of_another(undecided, is_over=True)
        return replace(verdict, counts_for_grace=verdict.judgement is Judgement.WAIT)
    ids = " or ".join(mine[:MOST_NAMED]) + f" or {len(mine) - MOST_NAMED:,} more" * (len(mine) > MOST_NAMED)
    return Verdict(
        Judgement.UNDECIDABLE,
        reason=f"{ids} in folder {undecided[0].asset.folder_id} may be this file: the size matches, the service returns"
        " no MD5, and the name is ambiguous",
    )


def _judge_duplicate(doubt: Doubt, candidates: Sequence[Candidate], grace: Grace, seconds: float) -> Verdict:
    """Decide an upload that was refused as already existing: nothing was stored, and it is never queued again."""
    for sight in candidates:
        if sight.owned and sight.asset.md5 is not None and sight.asset.md5 == doubt.md5:
            reason = (
                f"the service already has this content as {sight.asset.id} in folder {sight.asset.folder_id}"
                " and rejects copies"
            )
            return Verdict(Judgement.UNDECIDABLE, sight.asset.id, sight.asset.folder_id, reason=reason)
    if grace.over(seconds):
        reason = "the service reports this content as a duplicate and rejects copies, but lists no equal asset"
        return Verdict(Judgement.UNDECIDABLE, reason=reason)
    return Verdict(Judgement.WAIT, reason="looking for the copy in the service", counts_for_grace=True)


def _unless_too_often(doubt: Doubt, judgement: Judgement, assetid: str | None, why: str) -> Verdict:
    if doubt.absences + 1 >= MAX_ABSENCES:
        reason = f"{why}, for the {MAX_ABSENCES}th time: something between here and the service breaks this upload"
        return Verdict(Judgement.UNDECIDABLE, assetid, reason=reason)
    return Verdict(judgement, assetid, reason=why)


def _unprocessed(sight: Candidate) -> bool:
    return not sight.asset.processed and not sight.before and (sight.named or sight.renamed)


def _never_processed(doubt: Doubt, unprocessed: Sequence[Candidate], now: float) -> str:
    """Return why an unprocessed asset is no longer waited for; "" while it is, and if there is none."""
    if any(s.since is not None and now - s.since > UNPROCESSED_PATIENCE for s in unprocessed):
        return "the service has had an asset of this name for 24 hours without processing it"
    if unprocessed and doubt.looks >= _MANY_LOOKS and now - doubt.since > UNPROCESSED_PATIENCE:
        return "for 24 hours the service has had one asset or another of this name without processing it"
    return ""


def _suspicious(doubt: Doubt, sight: Candidate) -> bool:
    """Return whether an asset has a similar name and is new, but is not equal: it is reported, never acted on."""
    similar = sight.named and not sight.before and sight.asset.processed and not is_equal(doubt, sight)
    return similar or is_undecided(doubt, sight)

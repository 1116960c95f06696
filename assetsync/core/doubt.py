"""Decide an attempt whose answer was lost: found, damaged, still waiting, absent, or undecidable.

This rule ensures that no file is sent twice and none is lost. It is pure. `judge` decides. Before an absent file is
sent again, `unless_moved` also considers the assets in other folders. The look-ups, the hashing of prefixes and the
questions to the ledger are left to `sync.doubts.resolver` and `sync.doubts.candidates`. A `Candidate` is an asset that
a look-up shows, with the facts that the ledger has on it. How long an asset must be absent is left to
`core.doubt_grace`, and how many uploads may be in doubt to `core.gate`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from assetsync.core.doubt_grace import Grace
from assetsync.model import Asset

UNPROCESSED_PATIENCE = 24 * 3600.0
"""Seconds that an asset may stay unprocessed before an operator must decide."""

_MANY_LOOKS = 100
"""Fewer look-ups than this do not count as a day of waiting: the program or the service was away."""

MAX_ABSENCES = 5
"""Times that a file version may be proven absent or damaged before an operator must decide whether to send it again."""

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
    - `shown`: its name is a form of the sent name that services are known to return.
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
    shown: bool = True
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

    @property
    def is_final(self) -> bool:
        """Return whether no verdict sends the upload again."""
        return self.refused_as_duplicate or self.accepted_id is not None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement, the asset that it rests on with folder and MD5, and other assets that the look-up showed.

    `is_nowhere`: the service accepted the upload, and no look-up shows its asset.
    """

    judgement: Judgement
    assetid: str | None = None
    folder_id: str | None = None
    md5: str | None = field(default=None, compare=False)
    reason: str = ""
    suspected: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    counts_for_grace: bool = False
    is_nowhere: bool = False


def is_equal(doubt: Doubt, sight: Candidate) -> bool:
    """Return whether an asset is the whole file: same MD5, or without MD5 the same size and name, and new.

    An asset that existed before the attempt, under a name that services do not return for the sent one, is another
    file's: the ledger may have lost the row of that file. For an upload that was refused as a copy only the MD5 counts.
    """
    if not sight.asset.processed or sight.asset.size not in (doubt.size, None):
        return False
    if sight.asset.md5 is not None and doubt.md5 is not None:
        may_be_its_own = sight.shown or not sight.before or doubt.refused_as_duplicate
        return sight.asset.md5 == doubt.md5 and may_be_its_own
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
            return Verdict(Judgement.UNDECIDABLE, reason=reason, suspected=suspected, is_nowhere=True)
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

"""Decide an attempt whose answer was lost: found, damaged, still to wait for, absent, or undecidable.

By this rule nothing is sent twice and nothing is lost. It is pure: `sync.doubts.resolver` does the look-ups, hashes
prefixes and asks the ledger. An asset that a look-up shows is a `Candidate`, with what the ledger knows of it; the
look-ups that were answered, and when, are a `Grace`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from assetsync.model import Asset

UNPROCESSED_PATIENCE = 24 * 3600.0
"""Seconds that an asset may stay unprocessed before a person is asked."""

_MANY_LOOKS = 100
"""Fewer look-ups than that make no day: the program, or the service, was away."""

MAX_ABSENCES = 5
"""How often one file version may be proven absent before sending it again is a person's decision."""

SLOW_GAP = 3
"""By how many times what look-ups take a gap may be longer: it holds two of them, and one for good measure."""

SLOW_GRACE = 4 * SLOW_GAP
"""By how many times what look-ups take the grace is longer then: it takes at least two of the longest gaps to fill."""

UPLOAD_TIMES = 5
"""By how many times what a whole upload took the service may store it late."""

STORED_BY_NOW = 12 * 3600.0
"""Seconds after which a service has stored a whole upload or never does."""

_MOST_NAMED = 3
"""How many assets a sentence names."""

_PER_WORKER = 4


class Judgement(StrEnum):
    """What to do with an open doubt."""

    FOUND = "found"
    DAMAGED = "damaged"
    WAIT = "wait"
    ABSENT = "absent"
    UNDECIDABLE = "undecidable"


@dataclass(frozen=True, slots=True)
class MostDoubts:
    """How many uploads may be in doubt before no more are sent: in all, and into one folder of the service.

    Where there is more than one folder, one that takes no upload leaves the others what they need. Of what a folder may
    have, files that have waited may have `waiting_in_one_folder`: the rest is for what is saved just now.
    """

    in_all: int
    in_one_folder: int
    waiting_in_one_folder: int

    @classmethod
    def of(cls, workers: int, folders: int) -> "MostDoubts":
        """Give the most for so many workers and folders."""
        in_all = _PER_WORKER * workers
        in_one = in_all // 2 if folders > 1 else in_all + 1
        return cls(in_all, in_one, 3 * in_one // 4)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One asset that a look-up showed, beside what the ledger knows about it.

    `owned` by a live row, or by one at rest that may still hand it on · `before`: seen before the attempt began ·
    `claimed`: another attempt may have made it, or left it when it was cut (`sync.doubts.competing_attempts`) ·
    `asked`: and a person is asked about each such attempt · `named`: the name it came back with is one that the name
    sent may have become ·
    `unsure`: it has no MD5, and its name is only similar to the name sent, or fits another undecided upload of the same
    size as well · `renamed`: it has no MD5 (yet) and another name, and the service may rename uploads into its folder ·
    `prefix`: MD5 of as many bytes of what was sent as the asset has, where that could be computed · `since`: when it
    was first seen, in wall-clock seconds, None for just now.
    """

    asset: Asset
    owned: bool = False
    before: bool = False
    claimed: bool = False
    asked: bool = False
    named: bool = True
    unsure: bool = False
    renamed: bool = False
    prefix: str | None = None
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Doubt:
    """What is known of the attempt: its size, its MD5 if it was taken, what became of it, and look-ups so far."""

    size: int
    md5: str | None
    refused_as_duplicate: bool = False
    accepted_id: str | None = None
    handed: int | None = None
    handed_md5: str | None = None
    absences: int = 0
    since: float = 0.0
    looks: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """How long look-ups of one kind take in a folder, in seconds: the last one, and the quicker of the last two."""

    last: float = 0.0
    least: float = 0.0

    def after(self, took: float) -> "Pace":
        """Count one more.

        A single one that takes long may have met a service that hangs; two in a row are its way. Where every other one
        takes long, it is taken for a service that hangs again and again.
        """
        return Pace(took, min(self.last, took))


@dataclass(frozen=True, slots=True)
class Grace:
    """The span over which look-ups were answered without showing the asset, on the steady clock of one boot.

    `slow`: seconds of the slowest look-ups for whose sake a longer gap was let pass.
    """

    boot: str = ""
    first: float = 0.0
    last: float = 0.0
    slow: float = 0.0

    def answered(
        self, started: float, ended: float, boot: str, grace: float, *, gap: float | None = None, slow: float = 0.0
    ) -> "Grace":
        """Count one answered look-up; a gap (half the grace unless told), or another boot, begins the span anew.

        The span opens at the end of its first look-up and reaches to the start of its last: what the service did while
        an answer was on its way is not counted as seen. The gap reaches to the end of the new one: a look-up that waits
        while the service hangs must not bridge the hang. Where a round of look-ups, of all folders in question, takes
        `slow` seconds as a matter of course, it would leave nothing but gaps: then they may be longer, and so is the
        grace.
        """
        length = ended - self.last
        most = grace / 2 if gap is None else gap
        if self.boot != boot or started < self.last or length > most + SLOW_GAP * slow:
            return Grace(boot, ended, ended)
        return replace(self, last=max(self.last, started), slow=max(self.slow, slow) if length > most else self.slow)

    def over(self, grace: float) -> bool:
        """Whether look-ups have been answered over the whole grace, a longer one where longer gaps were let pass."""
        return bool(self.boot) and self.last - self.first >= grace + SLOW_GRACE * self.slow


def is_current(watched: float, age: float, lag: float, *, newer: bool) -> bool:
    """Return whether a look-up that shows no such asset counts for its absence.

    A replica or a cache may answer as things stood before the upload. `newer`: the service showed, before this look-up,
    an upload that began since it is watched · `watched`: seconds for which this process has got answers about the
    attempt without a gap · `age`: seconds since the first of all answers about it, on the steady clock of one boot ·
    `lag`: seconds by which the service's look-ups may be old.
    """
    return newer or watched >= lag or age >= STORED_BY_NOW


def grace_of_whole(seconds: float, read_timeout: float, took: float, age: float) -> float:
    """Return the grace in seconds of an attempt whose whole body may have left, and that got no sound answer.

    A proxy gives up while the service goes on storing. `took`: seconds from the first byte to the end of the attempt ·
    `age`: as for `is_current`. After half a day `seconds` are enough: a nightly run that is shorter than the grace
    decides such an attempt the next night.
    """
    longest = max(seconds, read_timeout, UPLOAD_TIMES * took)
    return seconds if age >= max(STORED_BY_NOW, longest) else longest


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement, the asset it rests on with its folder and MD5, and what else the look-up brought to light."""

    judgement: Judgement
    assetid: str | None = None
    folder_id: str | None = None
    md5: str | None = field(default=None, compare=False)
    reason: str = ""
    suspected: tuple[str, ...] = ()
    doubled: tuple[str, ...] = ()
    counts_for_grace: bool = False


def is_equal(doubt: Doubt, sight: Candidate) -> bool:
    """Whether an asset is the whole file: same MD5, or where the service gives none, same size and name, and new.

    What was refused as a copy is told by its MD5 alone.
    """
    if not sight.asset.processed or sight.asset.size not in (doubt.size, None):
        return False
    if sight.asset.md5 is not None and doubt.md5 is not None:
        return sight.asset.md5 == doubt.md5
    return sight.named and not sight.unsure and _is_alike(doubt, sight)


def is_undecided(doubt: Doubt, sight: Candidate) -> bool:
    """Return whether an asset without MD5 may be the whole file although its name does not prove that.

    Such an asset is never adopted, and the upload is never called absent because of it: a person decides.
    """
    fits = sight.unsure if sight.named else sight.renamed
    return sight.asset.processed and sight.asset.md5 is None and fits and _is_alike(doubt, sight)


def _is_alike(doubt: Doubt, sight: Candidate) -> bool:
    """Return whether an asset of which no digest can be compared has the size of what this attempt sent, and is new."""
    # Without both digests a same-sized asset that was there before is somebody else's. What was refused as a copy made
    # none, and the one that it is a copy of was there: what shows after it may be a cut of any other file.
    made_one = not doubt.refused_as_duplicate
    # Of a version that nobody can read any more a part was handed over: it is whole nowhere, and not sent again either.
    is_whole_nowhere = doubt.md5 is None and doubt.handed not in {None, doubt.size}
    return made_one and not is_whole_nowhere and sight.asset.size == doubt.size and not sight.before


def is_damaged(doubt: Doubt, sight: Candidate) -> bool:
    """Whether an asset is proven to be what a cut of this attempt left: its bytes begin what was sent."""
    asset = sight.asset
    if sight.before or not sight.named or not asset.processed or asset.md5 is None or asset.size == doubt.size:
        return False
    if asset.size == doubt.handed and asset.md5 == doubt.handed_md5:
        return True
    return sight.prefix is not None and asset.md5 == sight.prefix


def judge(doubt: Doubt, candidates: Sequence[Candidate], grace: Grace, seconds: float, now: float) -> Verdict:
    """Decide one doubt from one answered look-up.

    `grace` already counts this look-up; `seconds` is how long it has to be; `now`, `doubt.since` and the `since`
    of a sight are wall-clock seconds, used only for the 24 hours of an asset that is never processed.
    """
    free = [s for s in candidates if not s.owned]
    equal = [s for s in free if is_equal(doubt, s)]
    mine = [s for s in equal if not s.claimed]
    if mine:
        # The one with the name that was sent, then the one that was not there before, is likelier ours.
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
    # What was accepted came whole: a beginning of it is not what it left.
    accepted = doubt.accepted_id is not None
    damaged = [s for s in free if not accepted and not s.claimed and is_damaged(doubt, s)]
    suspected = tuple(s.asset.id for s in free if _suspicious(doubt, s))
    unprocessed = [s for s in free if _unprocessed(s)]
    stuck = _never_processed(doubt, unprocessed, now)
    if unprocessed and not stuck:
        # It may be ours whole, and what is taken for proof another's after all.
        return Verdict(Judgement.WAIT, reason="an asset of this name is not processed yet", suspected=suspected)
    if damaged:
        first = damaged[0]
        return _send_again(doubt, Judgement.DAMAGED, first.asset.id, "a damaged copy of it lies in the folder")
    if stuck:
        return Verdict(Judgement.UNDECIDABLE, reason=stuck, suspected=suspected)
    if grace.over(seconds):
        if doubt.accepted_id is not None:
            reason = f"the service accepted it as {doubt.accepted_id} but shows no such asset"
            return Verdict(Judgement.UNDECIDABLE, reason=reason, suspected=suspected)
        undecided = [s for s in free if is_undecided(doubt, s)]
        if undecided:
            return replace(_undecided(undecided), suspected=suspected)
        return replace(_send_again(doubt, Judgement.ABSENT, None, "it did not arrive"), suspected=suspected)
    reason = "looking for it in the service" if grace.boot else "the service may show an older state than the upload's"
    return Verdict(Judgement.WAIT, reason=reason, suspected=suspected, counts_for_grace=True)


def unless_moved(
    absent: Verdict, doubt: Doubt, here: Sequence[Candidate], elsewhere: Sequence[Candidate], now: float
) -> Verdict:
    """Give the verdict on what its folder did not show by what all folders show under such a name.

    Somebody may have moved it since it was stored: what is equal, new and nobody's is a person's matter, and what is
    not processed yet is waited for. What was there before, or is another version's, changes nothing. `here`: what has
    come into its own folder since that was looked at.
    """
    verdict = _moved(doubt, here, elsewhere, now)
    return absent if verdict is None else replace(verdict, suspected=absent.suspected)


def _moved(doubt: Doubt, here: Sequence[Candidate], elsewhere: Sequence[Candidate], now: float) -> Verdict | None:
    if any(_may_be_it(doubt, s) or _unprocessed(s) for s in here if not s.owned):
        return replace(_WAIT_ON, reason="it has come to its folder just now")
    new = [s for s in elsewhere if s.named and not s.owned and not s.before]
    equal = [s for s in new if _may_be_it(doubt, s)]
    mine = [s for s in equal if not s.claimed]
    if mine:
        asset = min(mine, key=lambda s: s.asset.id).asset
        reason = f"an equal asset, {asset.id}, lies in folder {asset.folder_id}: somebody may have moved it there"
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
    """Give the verdict on what its folder does not show while all folders cannot be looked into."""
    return replace(_WAIT_ON, reason="not in its folder; all folders cannot be looked into", suspected=absent.suspected)


# What is waited for elsewhere does not begin the grace anew: its own folder has been looked at for long enough.
_WAIT_ON = Verdict(Judgement.WAIT, counts_for_grace=True)


def _of_another(equal: Sequence[Candidate], is_over: bool) -> Verdict:
    """Wait for another upload whose asset it may be, but not for ever for one that waits for a person itself."""
    if not all(sight.asked for sight in equal):
        return Verdict(Judgement.WAIT, reason="an equal asset may belong to another upload that is not answered yet")
    reason = f"an equal asset, {equal[0].asset.id}, may belong to another upload that a person is asked about"
    return Verdict(Judgement.UNDECIDABLE if is_over else Judgement.WAIT, reason=reason, counts_for_grace=not is_over)


def _undecided(undecided: Sequence[Candidate]) -> Verdict:
    """Ask a person about assets that may be the file, once no other upload in flight may have made all of them."""
    mine = sorted(s.asset.id for s in undecided if not s.claimed)
    if not mine:
        verdict = _of_another(undecided, is_over=True)
        return replace(verdict, counts_for_grace=verdict.judgement is Judgement.WAIT)
    ids = " or ".join(mine[:_MOST_NAMED]) + f" or {len(mine) - _MOST_NAMED:,} more" * (len(mine) > _MOST_NAMED)
    return Verdict(
        Judgement.UNDECIDABLE,
        reason=f"{ids} in folder {undecided[0].asset.folder_id} may be it: the size is equal, the service gives no MD5,"
        " and the name does not tell",
    )


def _judge_duplicate(doubt: Doubt, candidates: Sequence[Candidate], grace: Grace, seconds: float) -> Verdict:
    """Decide an upload that was refused as existing already: nothing was stored, and it is never queued again."""
    for sight in candidates:
        if sight.owned and sight.asset.md5 is not None and sight.asset.md5 == doubt.md5:
            reason = (
                f"the service already has this content as {sight.asset.id} in folder {sight.asset.folder_id}"
                " and refuses copies"
            )
            return Verdict(Judgement.UNDECIDABLE, sight.asset.id, sight.asset.folder_id, reason=reason)
    if grace.over(seconds):
        reason = "the service says that it already has this content and refuses copies, but shows no equal asset"
        return Verdict(Judgement.UNDECIDABLE, reason=reason)
    return Verdict(Judgement.WAIT, reason="looking for the copy that the service has", counts_for_grace=True)


def _send_again(doubt: Doubt, judgement: Judgement, assetid: str | None, why: str) -> Verdict:
    if doubt.absences + 1 >= MAX_ABSENCES:
        reason = f"{why}, the {MAX_ABSENCES}th time: something on the way breaks this upload"
        return Verdict(Judgement.UNDECIDABLE, assetid, reason=reason)
    return Verdict(judgement, assetid, reason=why)


def _unprocessed(sight: Candidate) -> bool:
    return not sight.asset.processed and not sight.before and (sight.named or sight.renamed)


def _never_processed(doubt: Doubt, unprocessed: Sequence[Candidate], now: float) -> str:
    """Say why what is not processed is waited for no longer; "" while it is, and where there is none."""
    if any(s.since is not None and now - s.since > UNPROCESSED_PATIENCE for s in unprocessed):
        return "the service has had an asset of this name for 24 hours without processing it"
    if unprocessed and doubt.looks >= _MANY_LOOKS and now - doubt.since > UNPROCESSED_PATIENCE:
        return "for 24 hours the service has had one asset or another of this name without processing it"
    return ""


def _suspicious(doubt: Doubt, sight: Candidate) -> bool:
    """Named like ours and new, but neither equal nor provably cut: shown to a person, never acted on."""
    similar = sight.named and not sight.before and sight.asset.processed and not is_equal(doubt, sight)
    return similar or is_undecided(doubt, sight)

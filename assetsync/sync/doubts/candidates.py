"""Collect the assets that may be an upload in doubt, with what the ledger and the tree know about them.

An asset that a competing attempt may have made must not be taken for a doubt, and is no proof of a cut. A name never
proves which attempt made an asset, because the service may return several names in the same form. The look-ups are left
to `sync.doubts.resolver`, the judgement to `core.doubt`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from assetsync.core.doubt import Candidate, Doubt, is_damaged, is_equal, is_undecided
from assetsync.core.names import PossibleNames, ShownNames, is_exactly, is_others, is_shown_as, may_be, printable
from assetsync.errors import BadAnswer, TreeError
from assetsync.ledger.doubts import COMES_LATE, CompetingAttempt, OpenDoubt
from assetsync.ledger.rows import AttemptRow
from assetsync.model import Asset, SentExtent
from assetsync.service.multipart import closing
from assetsync.sync.context import Context
from assetsync.tree.body import difference, digest, prefix_digests

log = structlog.get_logger(__name__)


def claims(
    rival: CompetingAttempt, asset: Asset, seen_to: int, attempt: AttemptRow, beginnings: Mapping[int, str]
) -> bool:
    """Return whether the competing attempt `rival` may have made an asset, or left it when it was cut.

    `seen_to`: the newest attempt when a look-up first showed the asset · `beginnings`: the known MD5s of the first
    bytes that the rival sent, by length.
    """
    if rival.refused:
        # A refused attempt made nothing, and may wait for an operator for ever.
        return False
    if _may_have_begun(rival, asset, seen_to, attempt, beginnings.get(asset.size or 0)):
        return True
    return not rival.waived and _may_have_made(rival, asset, seen_to, attempt)


def is_unsure(competing_attempts: Iterable[CompetingAttempt], asset: Asset, seen_to: int, attempt: AttemptRow) -> bool:
    """Return whether the name of an asset without MD5 fails to prove that this attempt made it.

    The name fails if it is only similar to the sent name. It also fails if the service may show another undecided
    upload of equal size and other content under the same name.
    """
    if asset.md5 is not None or is_exactly(attempt.sent_name, asset.filename):
        return False
    return not is_shown_as(attempt.sent_name, asset.filename) or any(
        rival.attempt_id <= seen_to
        and (rival.folder_id, rival.size) == (attempt.destfolderid, attempt.size)
        and not (rival.waived or rival.refused or rival.md5 == attempt.md5 is not None)
        and is_shown_as(rival.sent_name, asset.filename)
        for rival in competing_attempts
    )


def is_renamed(names_of_others: ShownNames, asset: Asset, attempt: AttemptRow) -> bool:
    """Return whether an asset under another name may be this upload, renamed by the service.

    An asset with an MD5 is never such an asset, because its MD5 decides. Nor is an asset under the name of another open
    upload.
    """
    if asset.md5 is not None or asset.folder_id not in (attempt.destfolderid, ""):
        return False
    return asset.filename not in names_of_others


def _may_have_begun(
    rival: CompetingAttempt, asset: Asset, seen_to: int, attempt: AttemptRow, beginning: str | None
) -> bool:
    """Return whether a cut of the rival may have left an asset, so that it is no proof of a cut of this attempt.

    Two files may begin alike, and the service may show one name for both. `beginning` is the MD5 of the rival's first
    bytes up to the size of the asset, if known. A rival that was judged absent or ended by an operator counts as well,
    because that decision rested on what was visible then. So does an earlier upload of the same file.
    """
    # An asset without a size is not known to be a part of a file. Its folder proves nothing: it may have been moved.
    if asset.size in (attempt.size, None) or rival.attempt_id > seen_to:
        return False
    return may_be(rival.sent_name, asset.filename) and beginning in (None, asset.md5)


def _may_have_made(rival: CompetingAttempt, asset: Asset, seen_to: int, attempt: AttemptRow) -> bool:
    """Return whether another open attempt may have made an asset whole, or whether the asset has the rival's name."""
    # An attempt that began after a look-up showed the asset cannot have made it.
    may_have = rival.attempt_id <= seen_to and rival.size == asset.size
    may_have = may_have and (rival.md5 is None or asset.md5 is None or rival.md5 == asset.md5)
    if rival.folder_id != attempt.destfolderid or asset.size != attempt.size:
        # An asset that another upload may have made whole is neither the copy in question nor a part left by a cut.
        whole = may_have and rival.folder_id == asset.folder_id
    else:
        # If two attempts sent the same content, the first to look may take the asset once the rival is not in flight.
        whole = may_have and (rival.in_flight or _is_likelier(rival, asset, attempt))
    same_folder = rival.folder_id == attempt.destfolderid
    return whole or (same_folder and is_others(attempt.sent_name, rival.sent_name, asset.filename))


def _is_likelier(rival: CompetingAttempt, asset: Asset, attempt: AttemptRow) -> bool:
    """Return whether of two attempts that sent the same content, the rival is likelier to have made a whole asset.

    It is if only this attempt was cut: the asset has the metadata that the rival sent. An asset whose name points to
    this attempt is its own, since a cut may come after the last byte of the file. A rival that waits for an operator
    holds up no other attempt.
    """
    is_cut_alone = attempt.left_part == SentExtent.PART and not rival.cut
    return is_cut_alone and not rival.asked and not is_others(rival.sent_name, attempt.sent_name, asset.filename)


_MOST_KEPT = 2_000_000


@dataclass(slots=True)
class Looking:
    """A doubt in a round, with the assets that look-ups have shown so far.

    `span`: start of the first look-up and end of the last, in seconds on the steady clock · `wider`: candidates in all
    folders, None if there was no such look-up or no answer · `renames`: the service may rename uploads into the folder
    · `is_answered`: every look-up that the verdict rests on was answered · `by_name`: the search by name showed an
    equal asset, so that the folder is not listed for this doubt · `prefixes`: MD5 of the first bytes of the file, by
    length.
    """

    doubt: OpenDoubt
    facts: Doubt
    renames: bool = False
    span: tuple[float, float] = (0.0, 0.0)
    is_answered: bool = False
    by_name: bool = False
    assets: dict[str, Asset] = field(default_factory=dict)
    wider: dict[str, Asset] | None = None
    prefixes: dict[int, str] = field(default_factory=dict)


class Candidates:
    """Collector of the assets that look-ups show and that may be doubts; used by one thread at a time."""

    def __init__(self, context: Context) -> None:
        self._doubts = context.ledger.doubts
        self._assets = context.ledger.assets
        self._tree = context.tree
        self._tick = context.heartbeat.tick
        self._prefixes: dict[int, dict[int, str]] = {}
        # The same, only of files proven to be unchanged since they were sent: only of these does a prefix that differs
        # prove anything.
        self._beginnings: dict[int, dict[int, str]] = {}

    def begin(self, doubt: OpenDoubt) -> Looking:
        """Return a doubt for a new round, without any shown asset."""
        attempt = doubt.attempt
        facts = Doubt(
            size=attempt.size,
            md5=attempt.md5 or doubt.file.md5 or self._read_again(doubt),
            refused_as_duplicate=bool(attempt.is_duplicate),
            accepted_id=doubt.file.assetid,
            bytes_sent=attempt.bytes_sent,
            bytes_sent_md5=attempt.bytes_sent_md5,
            absences=doubt.file.absences,
            since=attempt.ended_at or attempt.started_at,
            looks=attempt.looks,
        )
        return Looking(doubt, facts, self._doubts.may_rename(attempt))

    def forget_but(self, attempts: Collection[int]) -> None:
        """Drop the prefixes of all other attempts."""
        self._prefixes = {attempt: kept for attempt, kept in self._prefixes.items() if attempt in attempts}
        self._beginnings = {attempt: kept for attempt, kept in self._beginnings.items() if attempt in attempts}

    def keep(self, looking: Sequence[Looking], assets: Iterable[Asset], folder: str | None) -> None:
        """Keep the assets that any of the doubts may need, because a folder may hold 100,000 assets.

        Skip assets outside the requested folder, because a release of the service may ignore the parameter. Raises
        BadAnswer if there are more than 2,000,000 to keep.
        """
        kept = sum(len(one.assets) for one in looking)
        wanted = _Wanted(looking)
        for shown in assets:
            if (folder is not None and shown.folder_id not in (folder, "")) or shown not in wanted:
                continue
            asset = shown.bare()
            for one in looking:
                if _is_wanted(one, asset) or may_be(one.doubt.attempt.sent_name, asset.filename):
                    # Several look-ups may show the same asset.
                    kept += asset.id not in one.assets
                    one.assets[asset.id] = asset
            if kept > _MOST_KEPT:
                raise BadAnswer("the service shows more assets than could ever have been ours")

    def keep_wider(self, looking: Sequence[Looking], assets: Iterable[Asset]) -> None:
        """Keep the assets of all folders that may be one of the doubts, because there may be millions of assets."""
        found: list[dict[str, Asset]] = [{} for _ in looking]
        names = PossibleNames(one.doubt.attempt.sent_name for one in looking)
        for shown in assets:
            if shown.filename not in names:
                continue
            asset = shown.bare()
            for one, wider in zip(looking, found, strict=True):
                may_be_equal = is_equal(one.facts, Candidate(asset)) or not asset.processed
                if may_be_equal and may_be(one.doubt.attempt.sent_name, asset.filename):
                    wider[asset.id] = asset
                    if asset.folder_id == one.doubt.attempt.destfolderid:
                        # The listing of the folder may not show it for long.
                        one.assets[asset.id] = asset
        for one, wider in zip(looking, found, strict=True):
            one.wider = wider

    def wider(self, one: Looking, newest: int) -> tuple[list[Candidate], list[Candidate]]:
        """Return the candidates that all folders show: those in the doubt's own folder, and those in others.

        Leave out assets that another upload into their folder may have made or left: nobody moved them there. An asset
        whose folder is not shown may have come into the doubt's own folder; the next listing of that folder shows it.
        """
        seen = self._assets.first_seen(list(one.wider or ()))
        here, elsewhere = [], []
        for sight in self.of(replace(one, assets=one.wider or {}), newest):
            asset = sight.asset
            may_have_come = not asset.folder_id and asset.id not in seen
            if may_have_come or asset.folder_id == one.doubt.attempt.destfolderid:
                here.append(sight)
            elif not self._is_left(asset, seen.get(asset.id, (newest, 0.0))[0], one.doubt.attempt.started_at):
                elsewhere.append(sight)
        return here, elsewhere

    def _is_left(self, asset: Asset, seen_to: int, began: float) -> bool:
        """Return whether another upload into the asset's folder, begun before the first sight, may have made the asset.

        An asset counts only if it may be the whole of the other file: if an equal asset counted as the beginning of
        another file, the file in doubt would be sent twice. An unprocessed asset does not count, because it will show
        later what it is. A late asset appears within days of its upload. `began` is the start of the attempt in doubt,
        in seconds since 1970.
        """
        return asset.processed and any(
            by.attempt_id <= seen_to and _may_be_whole(by, asset)
            for by in self._doubts.left_in(asset.folder_id, began - COMES_LATE)
            if may_be(by.sent_name, asset.filename)
        )

    def has_equal(self, one: Looking) -> bool:
        """Return whether a look-up showed an equal asset that belongs to no other version.

        An asset without MD5 must be new and have the sent name, and an asset with MD5 must be new or have it. After any
        other asset, the folder has to be listed.
        """
        attempt = one.doubt.attempt
        free = set(one.assets) - self._taken(one)
        seen, explained = self._assets.first_seen(free), self._assets.explained(free, "damaged")
        for asset in map(one.assets.__getitem__, free):
            is_shown = is_shown_as(attempt.sent_name, asset.filename)
            sight = Candidate(
                asset,
                before=asset.id in explained or (asset.id in seen and seen[asset.id][0] < attempt.id),
                named=may_be(attempt.sent_name, asset.filename),
                shown=is_shown,
                unsure=asset.md5 is None and not is_shown,
            )
            if is_equal(one.facts, sight):
                return True
        return False

    def of(self, one: Looking, newest: int) -> list[Candidate]:
        """Return the shown assets as candidates, with the claims of other attempts; `newest` is the newest attempt."""
        attempt = one.doubt.attempt
        ids = list(one.assets)
        owned = self._taken(one)
        explained = self._assets.explained(ids, "damaged")
        seen = self._assets.first_seen(ids)
        competing_attempts = self._doubts.competing_attempts(attempt)
        # There may be hundreds of open uploads and as many assets under other names, for each of hundreds of doubts.
        names_of_others = ShownNames(r.sent_name for r in competing_attempts if one.renames and not r.waived)
        candidates = []
        for assetid, asset in sorted(one.assets.items()):
            seen_to, since = seen.get(assetid, (newest, None))
            is_named = may_be(attempt.sent_name, asset.filename)
            sight = Candidate(
                asset,
                owned=assetid in owned,
                # An asset was there before the attempt only if a look-up that ended before the attempt showed it.
                before=seen_to < attempt.id or assetid in explained,
                named=is_named,
                shown=is_named and is_shown_as(attempt.sent_name, asset.filename),
                unsure=is_named and asset.processed and is_unsure(competing_attempts, asset, seen_to, attempt),
                renamed=one.renames and not is_named and is_renamed(names_of_others, asset, attempt),
                prefix=one.prefixes.get(asset.size or 0),
                since=since,
            )
            # Compare only assets that a verdict may rest on: there may be many assets of the name, and many competing
            # attempts.
            rests_on_it = (rests(one.facts, sight) for rests in (is_equal, is_damaged, is_undecided))
            if not sight.owned and any(rests_on_it):
                known = self._beginnings
                others = [
                    r for r in competing_attempts if claims(r, asset, seen_to, attempt, known.get(r.attempt_id, {}))
                ]
                sight = replace(sight, contested=bool(others), asked=all(rival.asked for rival in others))
            candidates.append(sight)
        return candidates

    def read_prefixes(self, one: Looking) -> None:
        """Hash the beginning of the file at the length of each asset of another size: a match proves a cut upload."""
        attempt = one.doubt.attempt
        tail = closing(attempt.boundary)
        lengths = {
            asset.size
            for asset in one.assets.values()
            if asset.size and asset.md5 and asset.size != attempt.size and asset.size <= attempt.size + len(tail)
        }
        # Do not read a large file for each look-up: that would take longer than the gap between look-ups may be.
        one.prefixes = self._prefixes.setdefault(attempt.id, {}) if lengths else {}
        lengths -= one.prefixes.keys()
        if not lengths:
            return
        expected = one.doubt.file.stat
        try:
            with self._tree.open(one.doubt.file.path) as file:
                if difference(expected, file.stat):
                    return
                found = prefix_digests(file, sorted(lengths), tail=tail, stop=self._tick)
                one.prefixes.update(found)
                # Only the ctime shows that a file was rewritten and its mtime set back.
                if file.stat == expected == file.restat():
                    self._beginnings.setdefault(attempt.id, {}).update(found)
        except TreeError as error:
            log.debug("cannot be read again", path=printable(one.doubt.file.path), why=str(error))

    def _taken(self, one: Looking) -> set[str]:
        """Return the assets that belong to other versions, so that this doubt must not take them.

        An asset of a version at rest was there before the attempt; the queue passes it on, and knows to which version.
        An asset that an operator had replaced is not wanted any more. Only an upload that was refused as a copy may
        take such an asset here, and only by its digest: without MD5, the name and size of an old version prove nothing.
        """
        ids = list(one.assets)
        taken = self._doubts.owned(ids)
        md5 = one.facts.md5 if one.facts.refused_as_duplicate else None
        for assetid, digests in self._assets.history(ids).items():
            if md5 is None or md5 not in digests | {one.assets[assetid].md5}:
                taken.add(assetid)
        return taken - {one.facts.accepted_id or ""}

    def _read_again(self, doubt: OpenDoubt) -> str | None:
        """Return the MD5 of the file if it is still the version that was sent, else None; record it in the ledger."""
        attempt, expected = doubt.attempt, doubt.file.stat
        try:
            with self._tree.open(doubt.file.path) as file:
                if difference(expected, file.stat):
                    return None
                md5 = digest(file, expected, stop=self._tick)
        except TreeError as error:
            log.debug("cannot be read again", path=printable(doubt.file.path), why=str(error))
            return None
        self._doubts.hashed(attempt.id, doubt.file.id, md5)
        return md5


class _Wanted:
    """The assets that any of many doubts may need: one comparison for all doubts, since a listing shows 100,000 assets.

    It has every asset that `_is_wanted` or `may_be` accepts for one of them, and a few more.
    """

    def __init__(self, looking: Sequence[Looking]) -> None:
        self._names = PossibleNames(one.doubt.attempt.sent_name for one in looking)
        self._digests = {one.facts.md5 for one in looking} - {None}
        self._renames = any(one.renames for one in looking)

    def __contains__(self, asset: Asset) -> bool:
        if asset.filename in self._names:
            return True
        return self._renames if asset.md5 is None else asset.md5 in self._digests


def _is_wanted(one: Looking, asset: Asset) -> bool:
    """Return whether a doubt needs an asset under any name: the MD5 is equal, or the service may have renamed it."""
    if asset.md5 is not None:
        return asset.md5 == one.facts.md5
    return one.renames and (not asset.processed or asset.size == one.facts.size)


def may_be_file(by: CompetingAttempt, asset: Asset) -> bool:
    """Return whether an asset may be the whole file of an upload: by its MD5, or else by its size and its name."""
    is_same = by.md5 is not None and by.md5 == asset.md5
    return is_same or (_may_be_whole(by, asset) and may_be(by.sent_name, asset.filename))


def _may_be_whole(by: CompetingAttempt, asset: Asset) -> bool:
    """Return whether an asset may be the whole file of an upload."""
    both = by.md5 is not None and asset.md5 is not None
    return by.md5 == asset.md5 if both else by.size == asset.size

"""What look-ups have shown for an upload in doubt, beside what the ledger and the tree know of it; judges nothing.

Asking the service is `sync.doubts.resolver`'s, the verdict `core.doubt`'s.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import structlog

from assetsync.core.doubt import Candidate, Doubt, is_damaged, is_equal, is_undecided
from assetsync.core.names import is_shown_as, may_be, printable
from assetsync.errors import BadAnswer, TreeError
from assetsync.ledger.doubts import LeftBy, OpenDoubt
from assetsync.model import Asset, FileStat
from assetsync.service.multipart import closing
from assetsync.sync.context import Context
from assetsync.sync.doubts.competing_attempts import claims, is_renamed, is_unsure
from assetsync.tree.body import difference, digest, prefix_digests

log = structlog.get_logger(__name__)

_COMES_LATE = 7 * 86_400.0
_MOST_KEPT = 2_000_000


@dataclass(slots=True)
class Looking:
    """One doubt in a round, with what the look-ups have shown so far.

    `span`: when the first of them began and the last ended, on the steady clock in seconds · `wider`: what all folders
    show that may be it, None where that was not asked, or not answered · `renames`: whether the service may rename what
    is uploaded into its folder · `is_answered`: every look-up that its verdict rests on was answered · `by_name`: it
    showed by its name, so that the folder was not listed for it.
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
    """Keeps what is shown, and says whose it may be; used by one thread at a time."""

    def __init__(self, context: Context) -> None:
        """Begin with no file read."""
        self._doubts = context.ledger.doubts
        self._tree = context.tree
        self._tick = context.tick
        self._prefixes: dict[int, dict[int, str]] = {}
        # The same of those whose file is surely what was sent: only there a beginning that does not fit says something.
        self._beginnings: dict[int, dict[int, str]] = {}

    def begin(self, doubt: OpenDoubt) -> Looking:
        """Give a doubt of which nothing has been shown yet."""
        return Looking(doubt, self._facts(doubt), self._doubts.may_rename(doubt.attempt.destfolderid))

    def forget_but(self, attempts: Collection[int]) -> None:
        """Forget what was read of files for other attempts."""
        self._prefixes = {attempt: kept for attempt, kept in self._prefixes.items() if attempt in attempts}
        self._beginnings = {attempt: kept for attempt, kept in self._beginnings.items() if attempt in attempts}

    def keep(self, looking: Sequence[Looking], assets: Iterable[Asset], folder: str | None) -> None:
        """Keep of a stream what any of the doubts may need: a folder may hold 100,000 assets.

        What lies in another folder than was asked for is no answer: a release may not know the parameter.
        """
        kept = sum(len(one.assets) for one in looking)
        for shown in assets:
            if folder is not None and shown.folder_id not in (folder, ""):
                continue
            # Of its many columns none is needed here.
            asset = replace(shown, columns={})
            for one in looking:
                if _is_wanted(one, asset) or may_be(one.doubt.attempt.sent_name, asset.filename):
                    # Several look-ups may show it.
                    kept += asset.id not in one.assets
                    one.assets[asset.id] = asset
            if kept > _MOST_KEPT:
                raise BadAnswer("the service shows more assets than could ever have been ours")

    def keep_wider(self, looking: Sequence[Looking], assets: Iterable[Asset]) -> None:
        """Keep what may be one of the doubts, of what all folders show: there may be millions of assets."""
        for one in looking:
            one.wider = {}
        for shown in assets:
            asset = replace(shown, columns={})
            for one in looking:
                may_be_equal = is_equal(one.facts, Candidate(asset)) or not asset.processed
                if may_be_equal and one.wider is not None and may_be(one.doubt.attempt.sent_name, asset.filename):
                    one.wider[asset.id] = asset

    def wider(self, one: Looking, newest: int) -> tuple[list[Candidate], list[Candidate]]:
        """Give what all folders show that may be the doubt's: in its own folder, and in others.

        What another upload into that folder may have made or left is not what was moved there.
        """
        seen = self._doubts.first_seen(list(one.wider or ()))
        here, elsewhere = [], []
        for sight in self.of(replace(one, assets=one.wider or {}), newest):
            asset = sight.asset
            if asset.folder_id in (one.doubt.attempt.destfolderid, ""):
                here.append(sight)
            elif not self._is_left(asset, seen.get(asset.id, (newest, 0.0))[0], one.doubt.attempt.started_at):
                elsewhere.append(sight)
        return here, elsewhere

    def _is_left(self, asset: Asset, seen_to: int, began: float) -> bool:
        """Whether another upload into an asset's folder, begun before it was first seen, may have made or left it.

        What is equal to ours is not taken for the beginning of another file: it would be sent twice for that. Nor is
        what is not processed yet, which will show what it is. What comes late does so within days of the upload;
        `began`: when ours did, in seconds since 1970.
        """
        return asset.processed and any(
            by.attempt_id <= seen_to and _may_be_whole(by, asset)
            for by in self._doubts.left_in(asset.folder_id, began - _COMES_LATE)
            if may_be(by.sent_name, asset.filename)
        )

    def has_equal(self, one: Looking) -> bool:
        """Return whether an equal asset was shown that is no other version's.

        Without MD5 it must have the name that was sent, and be new: after others the folder has to be listed.
        """
        attempt = one.doubt.attempt
        free = set(one.assets) - self._taken(one)
        seen = self._doubts.first_seen([i for i in free if one.assets[i].md5 is None])
        return any(
            is_equal(
                one.facts,
                Candidate(
                    one.assets[i],
                    before=i in seen and seen[i][0] < attempt.id,
                    unsure=one.assets[i].md5 is None and not is_shown_as(attempt.sent_name, one.assets[i].filename),
                ),
            )
            for i in free
        )

    def of(self, one: Looking, newest: int) -> list[Candidate]:
        """Give what was shown, with whose it may be; `newest` is the newest attempt by now."""
        attempt = one.doubt.attempt
        ids = list(one.assets)
        owned = self._taken(one)
        explained = self._doubts.recorded(ids)
        seen = self._doubts.first_seen(ids)
        competing_attempts = self._doubts.competing_attempts(attempt)
        candidates = []
        for assetid, asset in sorted(one.assets.items()):
            seen_to, since = seen.get(assetid, (newest, None))
            is_named = may_be(attempt.sent_name, asset.filename)
            sight = Candidate(
                asset,
                owned=assetid in owned,
                # Only what a look-up showed that ended before the attempt began was there before it.
                before=seen_to < attempt.id or assetid in explained,
                named=is_named,
                unsure=is_named and asset.processed and is_unsure(competing_attempts, asset, seen_to, attempt),
                renamed=one.renames and not is_named and is_renamed(competing_attempts, asset, attempt),
                prefix=one.prefixes.get(asset.size or 0),
                since=since,
            )
            # Asked for what a verdict may rest on alone: there may be many assets of such a name, and many rivals.
            rests_on_it = (rests(one.facts, sight) for rests in (is_equal, is_damaged, is_undecided))
            if not sight.owned and any(rests_on_it):
                known = self._beginnings
                others = [
                    r for r in competing_attempts if claims(r, asset, seen_to, attempt, known.get(r.attempt_id, {}))
                ]
                sight = replace(sight, claimed=bool(others), asked=all(rival.asked for rival in others))
            candidates.append(sight)
        return candidates

    def read_prefixes(self, one: Looking) -> None:
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

    def _taken(self, one: Looking) -> set[str]:
        """Tell which of the assets are other versions', and not for this doubt to take.

        What lay there for a version at rest was there before the attempt, and is handed on by the queue, which knows to
        whom; in place of what a person had replaced, another is wanted. Only what was refused as a copy of it may take
        it here, and by its digest alone: where the service gives none, the name and size of the past say nothing.
        """
        ids = list(one.assets)
        taken = self._doubts.owned(ids)
        md5 = one.facts.md5 if one.facts.refused_as_duplicate else None
        for assetid, digests in self._doubts.history(ids).items():
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
        self._doubts.hashed(attempt.id, doubt.file.id, md5)
        return md5


def _is_wanted(one: Looking, asset: Asset) -> bool:
    """Return whether a doubt needs an asset whatever its name is: by its MD5, or because it may have been renamed."""
    if asset.md5 is not None:
        return asset.md5 == one.facts.md5
    return one.renames and (not asset.processed or asset.size == one.facts.size)


def _may_be_whole(by: LeftBy, asset: Asset) -> bool:
    """Whether an asset may be all of what an upload sent."""
    both = by.md5 is not None and asset.md5 is not None
    return by.md5 == asset.md5 if both else by.size == asset.size

"""Limit the uploads in doubt: how many there may be at once, and which folders take no more uploads because of them.

This rule keeps uploads that may have been stored from piling up. It is pure: the doubts and the accepted uploads are
counted by `sync.upload.limits`. How a doubt ends is left to `core.doubt`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

MOST_DOUBTS = 1000
"""Most uploads in doubt at once: a look-up compares a doubt with all open attempts."""

_PER_WORKER = 4
_ACCEPTED_WITHIN = 600.0


@dataclass(frozen=True, slots=True)
class DoubtLimits:
    """The limits on uploads in doubt, and the destination folders that take no more uploads because of them.

    - Folders that accepted an upload lately share `most` doubts. If there are several, none has more than half of them.
    - A folder that accepted nothing lately, while others did, takes no upload while one of its own is in doubt. All
      such folders together may have four doubts for each worker. These do not count for the accepting folders. Further
      doubts of such folders may take up half of the shared limit.
    - While no folder has accepted anything, as in the first seconds of a site, all folders share the limit.

    `held` folders take no upload. `held_for_waiting` folders take only files that were saved just now, for which a
    quarter of a folder's limit is reserved. `accepting` folders accepted an upload lately. `one_at_a_time` folders take
    one upload after the other, so that a folder that fails has one doubt and not one of each worker. With `is_full` no
    folder takes any upload.
    """

    most: int
    held: frozenset[str] = frozenset()
    held_for_waiting: frozenset[str] = frozenset()
    accepting: frozenset[str] = frozenset()
    one_at_a_time: frozenset[str] = frozenset()
    is_full: bool = False

    @classmethod
    def of(
        cls,
        doubts: Mapping[str, int],
        accepted: Mapping[str, int],
        folders: Collection[str],
        *,
        failing: Collection[str],
        workers: int,
    ) -> "DoubtLimits":
        """Return the limits for the mapped `folders`.

        `doubts` counts the open doubts by destination folder, `accepted` the uploads that each folder accepted within
        `accepted_within`, and `failing` are the folders whose newest doubt began within that time. An older doubt alone
        holds no folder: the service may work on that asset for hours.
        """
        apart = _PER_WORKER * workers
        most = min(MOST_DOUBTS, max(apart, sum(accepted.values()) // 2))
        known = {*folders, *doubts}
        accepting = frozenset(folder for folder in known if accepted.get(folder))
        sharing = accepting or known
        in_sharing = sum(doubts.get(folder, 0) for folder in sharing)
        in_others = sum(doubts.values()) - in_sharing
        beyond = max(0, in_others - apart)
        in_one = most // 2 if len(sharing) > 1 else most
        at_limit = in_sharing + beyond >= most
        at_maximum = in_sharing + in_others >= MOST_DOUBTS

        def is_held(folder: str, limit: int) -> bool:
            if folder in sharing:
                return at_maximum or at_limit or doubts.get(folder, 0) >= limit
            others_at_limit = in_others >= apart and (at_limit or beyond >= most // 2)
            return at_maximum or others_at_limit or folder in failing

        held = frozenset(folder for folder in folders if is_held(folder, in_one))
        waiting = frozenset(folder for folder in folders if is_held(folder, 3 * in_one // 4))
        one_at_a_time = frozenset(folders) - sharing
        return cls(most, held, waiting, accepting, one_at_a_time, is_full=len(held) == len(set(folders)))


def accepted_within(longest_grace: float) -> float:
    """Return the seconds within which accepted uploads count for the limits; `longest_grace`: of the open doubts.

    Half of the uploads accepted within two graces may be in doubt. So occasional failures, each decided after its
    grace, do not stop the others.
    """
    return max(_ACCEPTED_WITHIN, 2 * longest_grace)

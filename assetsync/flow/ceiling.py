"""The size from which on uploads fail: learned from what fails, and forgotten with the first that gets through.

A limit or a time-out on the way (a proxy's, say) takes all small files and no large one. What is smaller goes first
then, and of the large ones one at a time: else each would shut the gate, and a folder of videos would keep every photo
waiting for hours.
"""

import threading
from collections.abc import Collection, Sequence

import structlog

from assetsync.errors import LedgerDamaged, LedgerError
from assetsync.flow.edges import Edges
from assetsync.flow.feed import Choice
from assetsync.ledger.holds import FAILS_FROM
from assetsync.ledger.queue import Sizes

log = structlog.get_logger(__name__)

_TRY_EVERY = 300.0
"""Seconds after which a large one is tried, though smaller ones are still to be sent."""


class Ceiling:
    """Shared by all workers. What is known of it survives a restart."""

    def __init__(self, edges: Edges) -> None:
        self._ledger = edges.ledger
        self._steady = edges.clock.steady
        self._lock = threading.Lock()
        told = self._ledger.reports.fact(FAILS_FROM)
        self._least = self._told = None if told is None else int(told)
        self._tried_at = self._steady()

    @property
    def least(self) -> int | None:
        """The size, in bytes, of the smallest upload that failed since one of at least that size got through."""
        return self._least

    def choices(self, apart_from: Collection[str], doubtful: Collection[str], *, may_doubt: bool) -> Sequence[Choice]:
        """Give what may go now, that first which goes first.

        Of what fails nothing goes into the `doubtful` folders, into which many uploads of it are in doubt already; and
        nothing at all without `may_doubt`.
        """
        least, told = self._least, self._told
        if least is None:
            return (Choice(apart_from),)
        small = Choice(apart_from, Sizes(below=least))
        if told is None:
            # Perhaps the service takes nothing at all, or nothing into one folder: a small one shows it.
            return (small, Choice(apart_from))
        if not may_doubt:
            return (small,)
        large = Choice((*apart_from, *doubtful), Sizes(least), alone=True)
        # However many small ones come: whether it is over is known only by trying.
        is_time = self._steady() - self._tried_at >= _TRY_EVERY
        return (large, small) if is_time else (small, large)

    def failed(self, size: int) -> bool:
        """Hear that an upload was lost by the service's fault, or by what lies between; gives whether it was expected.

        That it is where smaller ones are known to get through: then the service is not to blame for all. One that is
        smaller than what was known to fail leaves that open again. Raises LedgerDamaged.
        """
        with self._lock:
            self._tried_at = self._steady()
            self._least = min(size, self._least or size)
            before = self._told
            is_expected = before is not None and size >= before
            self._told = before if is_expected else None
        self._tell(before, before if is_expected else None)
        return is_expected

    def worked(self, size: int) -> None:
        """Hear that an upload was answered in the interface's form. Raises LedgerDamaged."""
        least = self._least
        if least is None:
            return
        with self._lock:
            least = self._least
            if least is not None and size >= least:
                least = self._least = None
            before, self._told = self._told, least
        self._tell(before, least)
        if before is not None and least is None:
            log.warning("large files get through again", size=size)
        elif least is not None and least != before:
            log.warning("large files fail and smaller ones get through: these go first", size=least)

    def _tell(self, before: int | None, told: int | None) -> None:
        """Write down what is known, for people and the next start; what goes first is decided by what is kept here."""
        if told == before:
            return
        try:
            self._ledger.set_fact(FAILS_FROM, None if told is None else str(told))
        except LedgerDamaged:
            raise
        except LedgerError as error:
            log.warning("which uploads fail cannot be written down", detail=str(error))

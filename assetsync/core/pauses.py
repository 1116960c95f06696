"""A pause by a person: nothing is sent from a path of the tree until its time, or until a person ends it.

A pause ends at its time on the wall clock, or once its seconds have passed on the clock that does not jump, whichever
is first: a clock set back does not lengthen it. That clock starts anew at a boot; a pause then has what it had left
when it was last counted. Recording is left to `ledger.pauses`, holding files back to `sync.upload.queue`.
"""

from typing import NamedTuple, Self

SITE = b""
"""The path of a pause of the whole site."""


class OperatorPause(NamedTuple):
    """A pause of the files at a path of the tree and below it, by whom, why, and since when on the wall clock.

    `until` is None if it has no end. `left` are the seconds until the end, as counted at `steady` in a `boot`.
    """

    path: bytes
    who: str
    why: str
    since: float
    until: float | None = None
    left: float = 0.0
    boot: str = ""
    steady: float = 0.0

    def covers(self, path: bytes) -> bool:
        """Return whether a file of the tree waits for this pause."""
        return self.path in (SITE, path) or path.startswith(self.path + b"/")

    def counted(self, now: float, steady: float, boot: str) -> Self:
        """Return the pause with what it has left now."""
        if self.until is None:
            return self
        left = self.left - (steady - self.steady) if boot == self.boot else min(self.left, self.until - now)
        return self._replace(left=left, boot=boot, steady=steady)

    def is_over(self, now: float) -> bool:
        """Return whether its time has come, or nothing was left when it was counted."""
        return self.until is not None and (self.left <= 0 or now >= self.until)

    def ends_at(self, now: float) -> float | None:
        """Return when it ends on the wall clock, which may have been set back since; None if it has no end."""
        return None if self.until is None else min(self.until, now + self.left)

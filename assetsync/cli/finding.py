"""What `assetsync check` has to say of one thing that it looked at."""

from dataclasses import dataclass
from enum import StrEnum

from assetsync.errors import AssetsyncError

NAMED = 10
"""Of things of a kind so many are named."""


class Level(StrEnum):
    """How bad a finding is; with an error a run cannot begin."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Where(StrEnum):
    """On which side a finding is to be mended: here, or at the service."""

    HERE = "here"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: `what` in a word, the sentence, and what mends it where that says no such thing."""

    what: str
    level: Level
    message: str
    fix: str | None = None
    where: Where = Where.HERE


def of_error(what: str, error: AssetsyncError, level: Level = Level.ERROR) -> Finding:
    """Make one of an error, with its hint for what mends it."""
    return Finding(what, level, error.message, error.hint or None)

"""A finding of `assetsync check`. The checks are in `check`, `check_tree` and `check_ledger`."""

from dataclasses import dataclass
from enum import StrEnum

from assetsync.errors import AssetsyncError

NAMED = 10
"""The most items of one kind that findings name."""


class Level(StrEnum):
    """The severity of a finding; a run cannot start with an error."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Where(StrEnum):
    """The side on which to fix the problem: here, or at the service."""

    HERE = "here"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check: its subject in a word, the message, and the fix if the message does not include it."""

    what: str
    level: Level
    message: str
    fix: str | None = None
    where: Where = Where.HERE


def of_error(what: str, error: AssetsyncError, level: Level = Level.ERROR) -> Finding:
    """Return the finding for an error, with the error's hint as the fix."""
    return Finding(what, level, error.message, error.hint or None)

"""The base of all requests, and the file that an operator means by a path.

A request is checked against the ledger, then run in the process that holds the ledger's lock.
"""

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, TypeAdapter

from assetsync.config.document.fields import HexPath
from assetsync.core.names import printable
from assetsync.errors import UnknownPath
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.rows import FileRow
from assetsync.model import Clock, Searches, State, Wanted

Argument = dict[str, object]
"""The argument of a request as the ledger keeps it, in JSON: the fields of its class by name."""


def _each_once(paths: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(dict.fromkeys(paths))


HexPaths = Annotated[tuple[HexPath, ...], AfterValidator(_each_once)]

REFUSED = "refused: "
"""The prefix of an answer by which the holder refuses a request."""

UNANSWERED = "the service: "
"""The prefix of an answer after the service had to be asked and did not answer; nothing was done."""


class OperatorRequest(ABC):
    """A request of an operator, a dataclass. `verb` names its class in the ledger's table of requests."""

    verb: ClassVar[str]

    @classmethod
    def of(cls, argument: Argument) -> Self:
        """Return the request that has this argument. Raise ValueError for a malformed one."""
        return TypeAdapter(cls).validate_python(argument)

    def argument(self) -> Argument:
        """Return the argument from which `of` makes an equal request."""
        argument: Argument = TypeAdapter(type(self)).dump_python(self, mode="json", by_alias=True)
        return argument

    @property
    def may_send_again(self) -> bool:
        """Whether a file may be sent again: such a request runs at most once, even if the process ends in between."""
        return False

    def as_seen(self, _ledger: Ledger) -> "OperatorRequest":
        """Return the request limited to what the operator can see in the ledger now."""
        return self

    def check(self, ledger: Ledger) -> None:  # noqa: B027 - most states of a ledger exclude no request
        """Raise UsageError if the state of the ledger excludes the request; change nothing and send nothing."""

    @abstractmethod
    def run(self, ledger: Ledger, service: Searches, now: float) -> str:
        """Carry out a checked request, and return a sentence about the result.

        Raise UsageError if it cannot be carried out, and ServiceError if the service had to be asked and failed.
        """

    def carry_out(self, ledger: Ledger, service: Searches, clock: Clock) -> str:
        """Check and run the request; raise as `check` and `run` do."""
        self.check(ledger)
        return self.run(ledger, service, clock.now())


def current_row(ledger: Ledger, path: bytes) -> FileRow:
    """Return the row that is most likely meant by a path. Raise UnknownPath."""
    row = likeliest_row(ledger, path)
    if row is None:
        raise UnknownPath(printable(path))
    return row


def likeliest_row(ledger: Ledger, path: bytes) -> FileRow | None:
    """Return the row that is most likely meant by a path, None without one.

    Several uploads by hand may share a path: those in doubt come first, then those that are blocked.
    """

    def rank(row: FileRow) -> int:
        if row.wanted is not Wanted.OUTSIDE or row.state not in (State.IN_DOUBT, State.BLOCKED):
            return 2
        return 0 if ledger.doubts.of(row.id) is not None else 1

    return min(ledger.reports.of_path(path), key=rank, default=None)

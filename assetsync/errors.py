"""Define every error that assetsync raises on purpose.

    AssetsyncError
    ├── UsageError                 the command line asks for something that cannot be done
    │   └── UnknownPath            the ledger has no row for a path
    ├── ConfigError                the configuration has mistakes, all of them listed
    ├── SidecarError               a sidecar cannot be used
    ├── TreeError                  the local tree cannot be read as needed
    │   ├── RootMissing            the root of the site does not exist
    │   ├── RootElsewhere          the root is another folder than the ledger knows, and no operator has agreed to it
    │   ├── FileUnreadable         a file cannot be opened or read
    │   ├── FileChanged            a file is not the expected version
    │   ├── NotRegular             the path is not a regular file
    │   └── ReadStopped            a file was not read to its end because the program is to stop
    ├── OutOfResources             the process lacks file descriptors, memory or threads
    ├── OutputError                the output of a command cannot be written
    ├── LedgerError                the ledger cannot be used
    │   ├── LedgerUnwritable       its disk is full or fails
    │   ├── LedgerMissing          it does not exist, and this command does not create it
    │   ├── LedgerDenied           another user owns it, and this one has no access
    │   ├── LedgerBusy             another process sends for it
    │   ├── LedgerOfAnother        it belongs to another site
    │   ├── LedgerNewer            it was written by a newer release
    │   ├── LedgerDamaged          SQLite finds it corrupt
    │   │   └── LedgerDetached     its files were deleted or replaced while they were open
    │   └── RowUnfit               a row is gone or changed, so that a write does not apply
    │       └── IllegalTransition  an event that the table of states does not allow
    └── ServiceError               a call to the service got no usable answer
        ├── ServiceUnreachable     no answer: connection, TLS, name or time
        ├── KeyRefused             the service answered that the key is not valid
        │   └── KeyRefusalCached   searches do, although the upload operation accepts the key
        ├── ServiceElsewhere       the service has a new address and shows none of the assets read back before
        ├── BadAnswer              an answer that is not in a form of the interface
        └── ServiceRefused         an error answer in the interface's form

Unusable is none of them: it is a ValueError, as pydantic expects, about a single value of a document.

A message is a sentence that names the thing at fault; `hint` describes how to fix it. Foreign exceptions are turned
into these errors where they arise, with `raise … from`. Logging them is left to the callers that handle them.
"""

import errno
from collections.abc import Sequence
from http import HTTPStatus
from typing import Self

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_NO_THREAD = "can't start new thread"
"""The text of the RuntimeError that Python raises, too, where the limit of tasks or the memory allows no thread."""


class AssetsyncError(Exception):
    """Base of every error above; str() returns the message followed by the hint."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}: {self.hint}" if self.hint else self.message


class UsageError(AssetsyncError):
    """The command line asks for something that cannot be done."""


class UnknownPath(UsageError):
    """A command names a path for which the ledger has no row; `path` is in readable form."""

    def __init__(self, path: str) -> None:
        self.path = path
        hint = "give it relative to the root, or absolute; `assetsync files` lists what it knows"
        super().__init__(f"the ledger knows no file {path}", hint=hint)


class ConfigError(AssetsyncError):
    """A configuration with mistakes; `mistakes` holds a complete sentence for each."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(self.mistakes))


class SidecarError(AssetsyncError):
    """A sidecar that cannot be used; `path` is relative to the root, line and column count from 1 (0 = whole file)."""

    def __init__(self, path: str, problem: str, *, line: int = 0, column: int = 0, hint: str = "") -> None:
        self.path = path
        self.line = line
        self.column = column
        where = f"{path}, line {line}, column {column}" if line else path
        super().__init__(f"{where}: {problem}", hint=hint)


class TreeError(AssetsyncError):
    """The local tree cannot be read as needed."""


class RootMissing(TreeError):
    """The root of the site does not exist or is no directory."""


class RootElsewhere(TreeError):
    """The root is another folder than the one that filled the ledger; a brake asks whether it is intended."""


class FileUnreadable(TreeError):
    """A file cannot be opened or read; `vanished` if nothing exists at its path."""

    def __init__(self, message: str, *, vanished: bool = False, hint: str = "") -> None:
        self.vanished = vanished
        super().__init__(message, hint=hint)


class FileChanged(TreeError):
    """A file is not, or no longer, the expected version."""


class NotRegular(TreeError):
    """The path is a link, a pipe, a socket, a device or a directory."""


class ReadStopped(TreeError):
    """A file was not read to its end because the program was asked to stop."""


class OutOfResources(AssetsyncError):
    """The process or the machine lacks file descriptors, memory or threads; this shows nothing about files or service.

    A gate closes after it (`sync.gates`), and the loops of the daemon repeat their step.
    """

    REASON = "out_of_resources"
    """The reason of the pause that follows."""

    @classmethod
    def of(cls, error: BaseException | None) -> Self | None:
        """Return the error if one of this kind caused `error`, at any depth; else None."""
        while error is not None:
            if isinstance(error, OSError) and error.errno in _EXHAUSTED:
                return cls(
                    f"the process cannot open more files ({error.strerror})",
                    hint="raise its limit (LimitNOFILE= of the unit, `ulimit -n`) or lower upload.workers",
                )
            if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
                return cls(
                    "the process cannot start a thread",
                    hint="raise its limit of tasks (TasksMax= of the unit, `ulimit -u`) or lower upload.workers",
                )
            error = error.__cause__ or error.__context__
        return None


class OutputError(AssetsyncError):
    """The output of a command cannot be written to its destination."""


class LedgerError(AssetsyncError):
    """The ledger cannot be used."""


class LedgerUnwritable(LedgerError):
    """The disk of the ledger is full or fails; the next try may succeed."""


class LedgerMissing(LedgerError):
    """The ledger does not exist, and the current command does not create it."""


class LedgerDenied(LedgerError):
    """Another user owns the ledger, and this user has no access to it; `owner` is the id of the owner."""

    def __init__(self, message: str, owner: int, *, hint: str = "") -> None:
        self.owner = owner
        super().__init__(message, hint=hint)


class LedgerBusy(LedgerError):
    """Another process holds the lock and sends for this ledger."""


class LedgerOfAnother(LedgerError):
    """The ledger belongs to another site than the configuration's."""


class LedgerNewer(LedgerError):
    """The ledger was written by a newer release."""


class LedgerDamaged(LedgerError):
    """SQLite reports the ledger as corrupt, or it is no ledger."""


class LedgerDetached(LedgerDamaged):
    """The database or its -wal was deleted or replaced while this process had it open; a restart can continue."""


class RowUnfit(LedgerError):
    """A row no longer exists or was changed: a write does not apply to it, now or later."""


class IllegalTransition(RowUnfit):
    """An event arrived in a state that the table does not allow; nothing was changed."""


class ServiceError(AssetsyncError):
    """A call to the service got no usable answer."""


class ServiceUnreachable(ServiceError):
    """No answer: refused, reset, TLS, name or time."""


class KeyRefused(ServiceError):
    """The service answered that the API key is not valid (interface section 5)."""


class KeyRefusalCached(KeyRefused):
    """Searches refuse a key that the upload operation accepts: the service keeps an older refusal for up to a day."""


class ServiceElsewhere(ServiceError):
    """The service has another address than before and shows none of our assets; a brake asks whether it is intended.

    The service answers, so this is no outage: pending work waits for an operator, not for the service.
    """


class BadAnswer(ServiceError):
    """An answer that is not in a form of the interface: a login page, a proxy, a cut answer, too many bytes.

    `status` is the HTTP status if it alone was the cause, `retry_after` the seconds that the service asked to wait.
    """

    def __init__(
        self, message: str, *, hint: str = "", retry_after: float | None = None, status: int | None = None
    ) -> None:
        self.retry_after = retry_after
        self.status = status
        super().__init__(message, hint=hint)

    @property
    def is_of_server(self) -> bool:
        """Whether the HTTP status reports a failure of the server."""
        return self.status is not None and self.status >= HTTPStatus.INTERNAL_SERVER_ERROR


class ServiceRefused(ServiceError):
    """An error answer in the interface's form; `code` is the service's, as text."""

    def __init__(self, message: str, *, code: str = "", hint: str = "") -> None:
        self.code = code
        super().__init__(message, hint=hint)


def ends_for_good(error: BaseException) -> bool:
    """Return whether a process that this error ended fails again until a person acts; then its exit code is 2.

    systemd does not restart it. Another process that holds the ledger, a service without a usable answer, a ledger that
    was replaced, and a lack of descriptors, memory or threads show no mistake: the next start can continue.
    """
    passing = (LedgerBusy, LedgerDetached, OutOfResources, ServiceError)
    return isinstance(error, AssetsyncError) and not isinstance(error, passing) and OutOfResources.of(error) is None


class Unusable(ValueError):
    """A value that cannot be used; pydantic collects these errors, `document.problems` turns them into sentences."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(f"{problem}; {hint}")
        self.problem = problem
        self.hint = hint

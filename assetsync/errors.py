"""Every error that assetsync raises on purpose.

    AssetsyncError
    ├── UsageError                 the command line asks for something that cannot be
    ├── ConfigError                the configuration has mistakes, all of them listed
    ├── SidecarError               a metadata file cannot be used
    ├── TreeError                  the local tree cannot be read as needed
    │   ├── RootMissing            the root of the site is not there
    │   ├── RootElsewhere          the root is another folder than the ledger knows, and nobody has agreed to it
    │   ├── FileUnreadable         one file cannot be opened or read
    │   ├── FileChanged            a file is not the version that was promised
    │   ├── NotRegular             what stands at a path is no regular file
    │   └── ReadStopped            a file was not read to its end because the program is to stop
    ├── LedgerError                the ledger cannot be used
    │   ├── LedgerMissing          there is none, and this command creates none
    │   ├── LedgerBusy             another process sends for it
    │   ├── LedgerOfAnother        it belongs to another site
    │   ├── LedgerNewer            it was written by a newer release
    │   ├── LedgerDamaged          SQLite finds it corrupt
    │   │   └── LedgerDetached     its files were deleted or replaced while they were open
    │   └── IllegalTransition      an event that the table of states does not allow
    └── ServiceError               a call to the service gave no usable answer
        ├── ServiceUnreachable     nothing answered: connection, TLS, name or time
        ├── KeyRefused             the service answered that the key is not valid
        ├── ServiceElsewhere       at another address than before, nothing is shown of what was read back
        ├── BadAnswer              something answered, but not in a form of the interface
        └── ServiceRefused         an error answer in the interface's form

A message is one sentence that names the thing at fault; `hint` says what to do about it. Foreign exceptions are turned
into these where they arise, with `raise … from`.
"""

from collections.abc import Sequence


class AssetsyncError(Exception):
    """Base of every error above; str() gives the message followed by the hint."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}: {self.hint}" if self.hint else self.message


class UsageError(AssetsyncError):
    """The command line asks for something that cannot be done."""


class UnknownPath(UsageError):
    """A command names a path that the ledger holds nothing of; `path` is written for a person."""

    def __init__(self, path: str) -> None:
        self.path = path
        hint = "give it relative to the root, or absolute; `assetsync files` lists what it knows"
        super().__init__(f"the ledger knows no file {path}", hint=hint)


class ConfigError(AssetsyncError):
    """A configuration with mistakes; `mistakes` holds one finished sentence each."""

    def __init__(self, source: str, mistakes: Sequence[str]) -> None:
        self.source = source
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
    """The root of the site is not there or is no directory."""


class RootElsewhere(TreeError):
    """The root is another folder than the one that the ledger was filled from; a brake asks whether that is meant."""


class FileUnreadable(TreeError):
    """A file cannot be opened or read; `vanished` when there is nothing at its path."""

    def __init__(self, message: str, *, vanished: bool = False, hint: str = "") -> None:
        self.vanished = vanished
        super().__init__(message, hint=hint)


class FileChanged(TreeError):
    """A file is not, or no longer, the version that was promised."""


class NotRegular(TreeError):
    """What stands at the path is a link, a pipe, a socket, a device or a directory."""


class ReadStopped(TreeError):
    """A file was not read to its end because the program was asked to stop."""


class OutputError(AssetsyncError):
    """What a command has to say cannot be written where it was sent."""


class LedgerError(AssetsyncError):
    """The ledger cannot be used."""


class LedgerUnwritable(LedgerError):
    """The disk of the ledger is full or fails, which may be over at the next try."""


class LedgerMissing(LedgerError):
    """There is no ledger, and the command at hand does not create one."""


class LedgerBusy(LedgerError):
    """Another process holds the lock and sends for this ledger."""


class LedgerOfAnother(LedgerError):
    """The ledger belongs to another site than the configuration's."""


class LedgerNewer(LedgerError):
    """The ledger was written by a newer release."""


class LedgerDamaged(LedgerError):
    """SQLite reports the ledger as corrupt, or it is no ledger."""


class LedgerDetached(LedgerDamaged):
    """The database or its -wal was deleted or replaced while this process had it open; a restart can go on."""


class RowUnfit(LedgerError):
    """A row is not there any more, or not as it was: what was to be written does not fit it, now or later."""


class IllegalTransition(RowUnfit):
    """An event arrived in a state that the table does not allow; nothing was changed."""


class ServiceError(AssetsyncError):
    """A call to the service gave no usable answer."""


class ServiceUnreachable(ServiceError):
    """Nothing answered: refused, reset, TLS, name or time; `retry_after` in seconds where the service named one."""

    def __init__(self, message: str, *, hint: str = "", retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message, hint=hint)


class KeyRefused(ServiceError):
    """The service says that the API key is not valid (interface section 5)."""


class ServiceElsewhere(ServiceError):
    """The service is at another address than before and shows nothing of ours; a brake asks whether that is meant.

    It answers, so that this is no outage: what is begun waits for a person, and not for the service.
    """


class BadAnswer(ServiceError):
    """Something answered, but not in a form of the interface: a login page, a proxy, a cut answer, too many bytes.

    `status` is the HTTP status where that alone was the matter.
    """

    def __init__(
        self, message: str, *, hint: str = "", retry_after: float | None = None, status: int | None = None
    ) -> None:
        self.retry_after = retry_after
        self.status = status
        super().__init__(message, hint=hint)


class ServiceRefused(ServiceError):
    """An error answer in the interface's form; `code` is the service's, as text."""

    def __init__(self, message: str, *, code: str = "", hint: str = "") -> None:
        self.code = code
        super().__init__(message, hint=hint)

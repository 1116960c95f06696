"""The values that travel between the parts, and the narrow seams through which the flow acts.

Nothing here decides and nothing here acts. Paths are bytes relative to the site's root, with `/` between components;
sizes are bytes; wall-clock times are seconds since the epoch, steady times seconds of a clock that does not jump.
"""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as AnyMapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol


class State(StrEnum):
    """What the service knows of a file version; the rules are in `core.states`."""

    QUEUED = "queued"
    SENDING = "sending"
    IN_DOUBT = "in_doubt"
    STORED = "stored"
    VERIFIED = "verified"
    BLOCKED = "blocked"
    SUPERSEDED = "superseded"
    GONE = "gone"


class Wanted(StrEnum):
    """What the tree says of a file version; OUTSIDE is no file of the tree, and was uploaded by hand."""

    YES = "yes"
    REPLACED = "replaced"
    GONE = "gone"
    UNMAPPED = "unmapped"
    OUTSIDE = "outside"


class FileStat(NamedTuple):
    """The facts of a file by which a version is told from another without reading it; times in nanoseconds."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


NOWHERE = -1
"""The position of no mapping."""


class Seen(NamedTuple):
    """One file as the scan met it, in byte order of whole paths.

    `mapping` is the position of its mapping in the configuration, NOWHERE for the sidecar of a folder that merely leads
    to a mapped one; a sidecar is a file of its own kind.
    """

    path: bytes
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    mapping: int
    is_sidecar: bool


class Quiet(NamedTuple):
    """A folder whose own files were all as the ledger has them when their names and facts gave this digest.

    `folder` ends in `/` (b"" is the root). `files`, `sidecars` and `ignored` count what is directly in it; the ledger
    has a current row for each of the `files` and for nothing else there.
    """

    folder: bytes
    digest: bytes
    files: int
    sidecars: int
    ignored: int


class UploadOptions(NamedTuple):
    """The optional parameters of an upload that a mapping or a sidecar may set (interface section 4.3)."""

    zip_extract: bool = False
    skip_event: tuple[str, ...] = ()
    upl_template: str | None = None
    debug: bool = False
    emailto: str | None = None
    redirectto: str | None = None
    redirecttoparams: str | None = None


@dataclass(frozen=True, slots=True)
class Metadata:
    """What is said of a file, every value a text; None means that nothing was said."""

    description: str | None = None
    keywords: tuple[str, ...] | str | None = None
    location: str | None = None
    language: str | None = None
    meta: tuple[tuple[str, str], ...] = ()
    zip_extract: bool | None = None
    skip_event: tuple[str, ...] | None = None
    upl_template: str | None = None


class Mapping(NamedTuple):
    """One entry of `folders`: what stands below `path` goes into the service's folder `destfolderid`.

    `settle`: the seconds for which a file of it must rest unchanged before it is sent.
    """

    path: bytes
    destfolderid: str
    ignore: tuple[str, ...] = ()
    metadata: Metadata = Metadata()
    upload: UploadOptions = UploadOptions()
    sidecars: bool = True
    settle: float = 5.0


class UploadRequest(NamedTuple):
    """The form of one upload, ready to be framed (interface section 4.3); `meta` holds (name without meta_, value)."""

    destfolderid: str
    filename: str
    boundary: str
    meta: tuple[tuple[str, str], ...] = ()
    language: str = "1"
    options: UploadOptions = UploadOptions()


class Body(Protocol):
    """The bytes of one file on their way out; knows itself what was handed to the transport."""

    @property
    def size(self) -> int:
        """Bytes that will be handed over if nothing goes wrong."""

    @property
    def handed(self) -> int:
        """Bytes handed over so far."""

    @property
    def md5(self) -> str:
        """MD5 of the bytes handed over so far, upper-case hex."""

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes once, in order; the last chunk only after the file was found unchanged.

        Raises FileChanged or FileUnreadable in place of the last chunk, so that an unsound body is never completed.
        """


class SentExtent(StrEnum):
    """How much of a request left this machine, as the body reader knows it."""

    NOTHING = "nothing"
    PART = "part"
    ALL = "all"


class Answer(StrEnum):
    """What the answer to an upload means, before the ledger is asked."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    DUPLICATE = "duplicate"
    UNSENT = "unsent"
    DOUBT = "doubt"


class Fault(StrEnum):
    """Whose matter a refusal or an unsent body is: it decides what waits for it to be mended."""

    FILE = "file"
    FOLDER = "folder"
    KEY = "key"
    SERVICE = "service"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on one POST; `reason` is a short stable word, `detail` the sentence for a person."""

    answer: Answer
    reason: str = ""
    detail: str = ""
    fault: Fault = Fault.NONE
    assetid: str | None = None
    filetype: str | None = None
    responsecode: str | None = None
    message: str | None = None
    renamefilebody: str | None = None
    comingfrom: str | None = None
    retry_after: float | None = None


class Sent(NamedTuple):
    """What is known after one POST: the verdict, what left, and the MD5 of the file bytes that were handed over.

    `took`: seconds from its first byte to its end on the steady clock, 0 where they were not measured.
    """

    outcome: Outcome
    left: SentExtent
    handed: int
    md5: str
    took: float = 0.0


@dataclass(frozen=True, slots=True)
class Asset:
    """One row of a search answer (interface section 2); `columns` holds every column by lower-case name.

    `size` and `md5` (upper-case hex) are None where the service did not give them. An asset that was accepted but not
    yet processed shows size 0 and no MD5 (observed).
    """

    id: str
    folder_id: str
    filename: str
    size: int | None
    md5: str | None
    kind: str
    columns: AnyMapping[str, object] = field(default_factory=dict, compare=False, repr=False)

    def bare(self) -> "Asset":
        """Give the asset without its columns, which hold a whole row."""
        return Asset(self.id, self.folder_id, self.filename, self.size, self.md5, self.kind)

    @property
    def processed(self) -> bool:
        """Whether size and MD5 can be believed yet."""
        return not (self.md5 is None and not self.size)


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The parameters of one searchassets call (interface section 4.1); None leaves a parameter out."""

    searchfor: str
    folderid: str | None = None
    dbdirect: bool = False
    show: str | None = None
    doctype: str | None = None
    datecreate: str | None = None
    datechange: str | None = None
    datecreaterange: str | None = None
    datechangerange: str | None = None
    sortby: str | None = None
    available: str | None = None
    startrow: int | None = None
    maxrows: int | None = None
    showrenditions: bool | None = None
    datecreateparam: str | None = None
    datecreatestart: str | None = None
    datecreatestop: str | None = None
    datechangeparam: str | None = None
    datechangestart: str | None = None
    datechangestop: str | None = None


class Underway(Protocol):
    """An upload that was sent and whose answer was not read yet."""

    @property
    def end(self) -> Callable[[], Sent]:
        """Wait for the answer: to be called once."""

    def is_ready(self) -> bool:
        """Whether there is nothing to wait for; reads what has come of the answer."""

    def fileno(self) -> int | None:
        """Give the descriptor that can be read when something of the answer has come.

        None where it can only be waited for, or is there already.
        """


class Service(Protocol):
    """The three operations of the interface, as the flow sees them."""

    def upload(self, request: UploadRequest, body: Body) -> Sent:
        """Post one file; never raises for anything that the network or the service does."""

    def start(self, request: UploadRequest, body: Body) -> Underway:
        """Send one file, as `upload` does, whose answer is read later."""

    def search(self, request: SearchRequest) -> AbstractContextManager[Iterator[Asset]]:
        """Open one search; the rows are read as a stream inside the block.

        Raises ServiceUnreachable, KeyRefused, BadAnswer or ServiceRefused, on entry or while rows are read: an answer
        is complete only when the iterator ended by itself.
        """

    def index(self, assetids: Sequence[str]) -> str:
        """Ask for indexing of the ids (interface section 4.2); gives the service's message, raises as search does."""

    def close(self) -> None:
        """Close every connection; what other threads have on its way ends as unanswered."""


class Meter(Protocol):
    """Told what the flow does, for whoever counts it; called from any thread, and never raises."""

    def attempted(self, sent: Sent, *, again: bool) -> None:
        """One POST is over and written down; `again` when the file had an earlier one."""

    def doubted(self, count: int = 1) -> None:
        """So many uploads or assets are in doubt from now on."""

    def decided(self, how: str) -> None:
        """One doubt ended: found, damaged, absent, undecidable, or by_hand."""

    def findable(self, seconds: float) -> None:
        """Say how long after its file had settled an upload was first seen through the service's index."""

    def ran(self, job: str, seconds: float) -> None:
        """Regular work came to its end: rescan, index, verify or audit."""


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> float:
        """Seconds since the epoch; may jump."""

    def steady(self) -> float:
        """Seconds of a clock that never jumps and runs on through suspend; comparable within one `boot`."""

    def boot(self) -> str:
        """Name the boot of the machine within which steady times can be compared."""

    def wait(self, seconds: float) -> bool:
        """Sleep for so long or until the program is asked to stop; True when it is."""

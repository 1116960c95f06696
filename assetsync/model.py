"""Define the values that travel between the parts, and the narrow interfaces through which `sync` acts.

Decisions and actions are left to others. Paths are bytes relative to the site's root, with `/` between components;
sizes are bytes; wall-clock times are seconds since the epoch, steady times are seconds of a clock that does not jump.
"""

from collections.abc import Generator, Iterator, Sequence
from collections.abc import Mapping as AnyMapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

LONGEST_NAME = 190
"""Characters to which the name of a file is cut by default: the service keeps 200, and appends `.jpg` for videos
(observed)."""

LEAST_LONGEST, MAX_SENT = 64, 240
"""The least and the most that may be configured; earlier releases cut to the most."""


class State(StrEnum):
    """What the service is known to have of a file version; the rules are in `core.states`."""

    QUEUED = "queued"
    SENDING = "sending"
    IN_DOUBT = "in_doubt"
    STORED = "stored"
    VERIFIED = "verified"
    BLOCKED = "blocked"
    SUPERSEDED = "superseded"
    GONE = "gone"

    @property
    def words(self) -> str:
        """The state as people read it, such as `in doubt`."""
        return self.replace("_", " ")


class Wanted(StrEnum):
    """Whether the tree has a file version; OUTSIDE is not a file of the tree and was uploaded by hand."""

    YES = "yes"
    REPLACED = "replaced"
    GONE = "gone"
    UNMAPPED = "unmapped"
    OUTSIDE = "outside"


class NextTry(NamedTuple):
    """The next automatic step for a version: its earliest time (seconds since the epoch), and what it waits for.

    `reason` is a word and `why` a sentence, both None if it only waits for its time. `is_timed` is False if nobody
    knows when the wait ends. `most_before` is the maximum number of files that are sent before it
    (`QueueFolders.most_before`), None if it waits for more than its turn.
    """

    at: float
    reason: str | None = None
    why: str | None = None
    is_timed: bool = True
    most_before: int | None = None


class FileStat(NamedTuple):
    """The facts of a file that distinguish its versions without reading it; times in nanoseconds."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


NOWHERE = -1
"""The position of a mapping where there is none."""


class Seen(NamedTuple):
    """A file as the scan saw it, in byte order of whole paths.

    `mapping` is the position of its mapping in the configuration; NOWHERE for the sidecar of a folder that only leads
    to a mapped folder. A sidecar is a file too, with `is_sidecar` set.
    """

    path: bytes
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    mapping: int
    is_sidecar: bool

    @property
    def stat(self) -> tuple[int, int, int, int]:
        """The values of its FileStat; to make a FileStat of each file would double the cost of a comparison."""
        return self[1:5]


class CachedFolder(NamedTuple):
    """A folder of the folder cache: its own files matched the ledger when their names and facts had this digest.

    `folder` ends in `/` (b"" is the root). `files`, `sidecars` and `ignored` count the entries directly in it. The
    ledger has a current row for each of the `files` and for nothing else in the folder.
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
    """The metadata of a file, every value a text; None means that it is not set.

    `custom` has the values of custom fields by the names of `service.custom_fields`.
    """

    description: str | None = None
    keywords: tuple[str, ...] | str | None = None
    location: str | None = None
    language: str | None = None
    meta: tuple[tuple[str, str], ...] = ()
    custom: tuple[tuple[str, str], ...] = ()
    zip_extract: bool | None = None
    skip_event: tuple[str, ...] | None = None
    upl_template: str | None = None


class Mapping(NamedTuple):
    """An entry of `folders`: files below `path` are sent into the service's folder `destfolderid`.

    `settle` is the number of seconds for which a file of the mapping must rest unchanged before it is sent. `xmp`:
    whether XMP files are sidecars; `sends_xmp`: they are not, because the ignore rules take them back as files.
    `needs_sidecar`: a file without a sidecar of its own is not sent.
    """

    path: bytes
    destfolderid: str
    ignore: tuple[str, ...] = ()
    metadata: Metadata = Metadata()
    upload: UploadOptions = UploadOptions()
    sidecars: bool = True
    settle: float = 5.0
    xmp: bool = True
    sends_xmp: bool = False
    needs_sidecar: bool = False


class UploadRequest(NamedTuple):
    """The form of an upload, ready to be framed (interface section 4.3); `meta` holds (name without meta_, value)."""

    destfolderid: str
    filename: str
    boundary: str
    meta: tuple[tuple[str, str], ...] = ()
    language: str = "1"
    options: UploadOptions = UploadOptions()


class Body(Protocol):
    """The bytes of a file while they are sent; a body itself counts the bytes that the transport received."""

    @property
    def size(self) -> int:
        """Bytes that will be sent if nothing goes wrong."""

    @property
    def bytes_sent(self) -> int:
        """Bytes sent so far."""

    @property
    def md5(self) -> str:
        """MD5 of the bytes sent so far, upper-case hex."""

    def chunks(self) -> Generator[bytes, None, None]:
        """Yield the bytes once, in order; the last chunk only after the file was found unchanged.

        Raise FileChanged or FileUnreadable in place of the last chunk, so that an unsound body is never completed.
        """


class SentExtent(StrEnum):
    """How much of a request left this machine, as counted by the reader of its body."""

    NOTHING = "nothing"
    PART = "part"
    ALL = "all"


class Answer(StrEnum):
    """The meaning of the answer to an upload, before the ledger is consulted."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    DUPLICATE = "duplicate"
    UNSENT = "unsent"
    DOUBT = "doubt"


class Fault(StrEnum):
    """The cause of a refusal or of an unsent body; it decides which uploads wait until the cause is fixed."""

    FILE = "file"
    FOLDER = "folder"
    KEY = "key"
    SERVICE = "service"
    NONE = "none"


class Outcome(NamedTuple):
    """The result of a POST; `reason` is a short stable word, `detail` the sentence for a person.

    `answered`: the whole request left, and the application or a gate before it answered completely, so that nothing
    works on the request any more (`core.outcome`). `retry_after` is in seconds.
    """

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
    answered: bool = False


class Sent(NamedTuple):
    """The facts after a POST: the outcome, how much of the request left, and the MD5 of the `bytes_sent` of the file.

    `took` is the number of seconds from its first byte to its end on the steady clock, 0 if they were not measured.
    """

    outcome: Outcome
    left: SentExtent
    bytes_sent: int
    md5: str
    took: float = 0.0


@dataclass(frozen=True, slots=True)
class Asset:
    """A row of a search answer (interface section 2); `columns` holds every column by lower-case name.

    `size` and `md5` (upper-case hex) are None if the service did not return them. An asset that was accepted but is not
    processed yet shows size 0 and no MD5 (observed). `is_alias`: the row shows the asset in a folder to which people
    linked it. It lies in another one, for which there is a row with the same id.
    """

    id: str
    folder_id: str
    filename: str
    size: int | None
    md5: str | None
    kind: str
    columns: AnyMapping[str, object] = field(default_factory=dict, compare=False, repr=False)
    is_alias: bool = False

    def bare(self) -> "Asset":
        """Return the asset without its columns, which hold a whole row."""
        return Asset(self.id, self.folder_id, self.filename, self.size, self.md5, self.kind)

    @property
    def processed(self) -> bool:
        """Whether size and MD5 can be believed yet."""
        return not (self.md5 is None and not self.size)


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The parameters of a searchassets call (interface section 4.1); None leaves a parameter out.

    `patience` is no parameter: seconds to wait for each part of the answer, None for as long as the service is waited
    for otherwise.
    """

    searchfor: str
    folderid: str | None = None
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
    dbdirect: bool = False
    patience: float | None = None


@dataclass(frozen=True, slots=True)
class AddressProbe:
    """What a form without a file showed of an address for uploads.

    `is_right` is True if the upload operation answered, False if something else did, and None if nothing is proven.
    `detail` is a sentence about the answer that proves an address wrong, or about the key if it was refused.
    """

    is_right: bool | None = None
    detail: str = ""
    key_refused: bool = False


class Searches(Protocol):
    """A service as far as it searches."""

    def search(self, request: SearchRequest) -> AbstractContextManager[Iterator[Asset]]:
        """Open a search; the rows are read as a stream inside the block.

        Raise ServiceUnreachable, KeyRefused, BadAnswer or ServiceRefused, on entry or while rows are read: an answer is
        complete only if the iterator ended by itself.
        """


class Service(Searches, Protocol):
    """The three operations of the interface, as `sync` uses them."""

    @property
    def account(self) -> str:
        """A short digest of the service's address and of the key, from which neither can be derived.

        With another account a search may show another service, or other folders of it.
        """

    def upload(self, request: UploadRequest, body: Body) -> Sent:
        """Post a file; no failure of the network or the service raises."""

    def close_kept(self) -> None:
        """Close the connections that wait for a further upload; no upload may be in flight."""

    def probe_uploads(self) -> AddressProbe:
        """Post a form without a file to the address for uploads; no failure of the network or the service raises.

        It can store nothing (observed).
        """

    def index(self, assetids: Sequence[str]) -> str:
        """Ask for indexing of the ids (interface section 4.2); return the service's message, raise as `search` does."""

    def close(self) -> None:
        """Close every connection; requests of other threads that are in flight end as unanswered."""


class Meter(Protocol):
    """A receiver of counts and durations, which `sync` reports as it works; called from any thread, never raises."""

    def attempted(self, sent: Sent, *, again: bool) -> None:
        """Count a POST that is over and recorded; `again` if the file had an earlier POST."""

    def doubted(self, count: int = 1) -> None:
        """Count uploads or assets that are in doubt from now on."""

    def decided(self, how: str) -> None:
        """Count a doubt that ended: found, damaged, absent, undecidable, or by_hand."""

    def findable(self, seconds: float) -> None:
        """Record the seconds from when a file had settled until the service's index first showed its upload."""

    def ran(self, job: str, seconds: float) -> None:
        """Record the end of regular work: rescan, index, verify or audit."""


class Clock(Protocol):
    """The source of the time."""

    def now(self) -> float:
        """Return the seconds since the epoch; they may jump."""

    def steady(self) -> float:
        """Return the seconds of a clock that never jumps and runs during suspend: at most those since the boot.

        They are comparable within the same `boot`.
        """

    def boot(self) -> str:
        """Return the name of the machine's boot within which steady times can be compared."""

    def wait(self, seconds: float) -> bool:
        """Sleep for so many seconds or until the program is asked to stop; return True if it is."""

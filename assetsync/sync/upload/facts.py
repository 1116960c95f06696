"""What can be known of a queued file before it is sent, as values.

`gather` fills them in, `decide` reads them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from assetsync.core.settled import PastUpload
from assetsync.ledger.equal_content import Sighted
from assetsync.ledger.rows import FileRow
from assetsync.model import FileStat, Mapping
from assetsync.sync.intake.sidecars import FileMetadata


class Fact(StrEnum):
    """A fact that `decide` may need, in the order of their cost."""

    PAST_UPLOADS = "past uploads"
    LISTING = "listing"
    HAS_SIDECAR = "has sidecar"
    KIND = "kind"
    DISK = "disk"
    CONTENT = "content"
    EQUAL = "equal"
    METADATA = "metadata"
    NEW_FIELD = "new field"


@dataclass(frozen=True, slots=True)
class Listing:
    """What the listing of the destination folder shows of a file.

    `unprocessed` is an asset of the file's name that the service has not processed yet. It was first seen at `since`,
    in seconds since the epoch. With `is_running` nothing is known yet: another worker is listing the folder, or an
    upload in doubt shows whether its empty listing can be believed. `unsure` states why the folder may hold the file
    although nothing shows it.
    """

    unprocessed: str | None = None
    since: float | None = None
    is_running: bool = False
    unsure: str | None = None


@dataclass(frozen=True, slots=True)
class KindShown:
    """The file of the same ending whose upload is to show the kind, by its path; None if this file need not wait."""

    by: bytes | None = None


@dataclass(frozen=True, slots=True)
class FieldShown:
    """A metadata field with which the service has processed nothing yet, and the files that were sent with it.

    `is_tried`: the service has processed none of two files. Without a `name` this file need not wait.
    """

    name: str | None = None
    by: Sequence[bytes] = ()
    is_tried: bool = False


class Absent(Enum):
    """What is at the path of a file that is not there: the file alone is gone, or its whole mapped folder."""

    FILE = auto()
    FOLDER = auto()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The file, or one that may have been moved to its path, cannot be read; `detail` is the error as a sentence."""

    detail: str


@dataclass(frozen=True, slots=True)
class Content:
    """The MD5 of the file as upper-case hex; None for a large file if the service cannot have an equal one."""

    md5: str | None


@dataclass(frozen=True, slots=True)
class Requeue:
    """The file changed while it was read: the path holds another version now, which is queued in place of this one."""

    found: FileStat


@dataclass(frozen=True, slots=True)
class MayBeUploadOf:
    """The undecided upload of another version may have stored the same content."""

    other: FileRow


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The path of the equal version `old` holds another file now, or none: `old` takes the path of this file.

    `md5` is the content of both; the asset of `old` comes with it.
    """

    old: FileRow
    md5: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """An asset of equal content that no row owns: it becomes the asset of the file with this `md5`.

    `by_name`: only its name and size show that it is equal.
    """

    assetid: str
    md5: str
    by_name: bool = False


@dataclass(frozen=True, slots=True)
class Resembles:
    """Assets of the file's size and name whose content is unknown, most likely first; an operator decides.

    `upload_of` is a version whose undecided upload may have made the first one.
    """

    assets: Sequence[Sighted]
    upload_of: FileRow | None = None


@dataclass(frozen=True, slots=True)
class ListedAgain:
    """The folder was just listed again, because its newest audit did not show an asset that seemed to be the file.

    Everything that is known of the file may have changed with that listing.
    """

    assetid: str


@dataclass(frozen=True, slots=True)
class MayBeAnothers:
    """An equal asset has another name, and may belong to a file that the first scan of the tree did not reach yet."""

    assetid: str


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """An equal asset of which the person who asked to send the file again may not have known."""

    assetid: str


class NothingEqual:
    """The service has no equal content that this file could use."""


Equal = (
    TakeOver | Adopt | MayBeAnothers | MayBeUploadOf | Resembles | Unreadable | ListedAgain | Unconfirmed | NothingEqual
)


@dataclass(frozen=True, slots=True)
class SidecarState:
    """The merged metadata of a file, or the mistake in its sidecars.

    `settles_in`: seconds until a sidecar that may still be written is settled; 0 if there is none.
    """

    metadata: FileMetadata | None
    mistake: str = ""
    settles_in: float = 0.0

    @property
    def has_own(self) -> bool:
        """Whether the file has a sidecar of its own, or one with a mistake.

        An empty one does not count: it was opened and not written yet.
        """
        return self.metadata is None or (bool(self.metadata.own) and not self.metadata.own_is_empty)


@dataclass(frozen=True, slots=True)
class Rules:
    """The configured rules for sending: `settle`, `settles` and `sidecar_wait` in seconds, `max_file_size` in bytes.

    `settles` holds the settle time of each mapping, in the order of the mappings; `settle` applies to sidecars.
    """

    settle: float
    settles: Sequence[float]
    sidecar_wait: float = 0.0
    max_file_size: int | None = None
    resend_changed: bool = True


@dataclass(slots=True)
class Facts:
    """What is known of a queued file at `now` (seconds since the epoch); None for a fact that was not gathered yet.

    `mapping` is the mapping of its path, with its `settle` time in seconds; None if the path is not mapped.
    `replaces` is the asset of an earlier version of the path; it comes with `equal`. `refused_size` is the smallest
    size in bytes that a proxy refused, if the file is no smaller.
    """

    row: FileRow
    rules: Rules
    now: float
    mapping: Mapping | None
    settle: float
    past_uploads: Sequence[PastUpload] | None = None
    listing: Listing | None = None
    has_sidecar: bool | None = None
    kind: KindShown | None = None
    disk: FileStat | Absent | Unreadable | None = None
    content: Content | Requeue | MayBeUploadOf | Unreadable | None = None
    equal: Equal | None = None
    replaces: str | None = None
    sidecars: SidecarState | None = None
    refused_size: int | None = None
    new_field: FieldShown | None = None

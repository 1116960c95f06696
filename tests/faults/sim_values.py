"""What the simulated service is made of: plans for uploads, uploads, assets and habits."""

from dataclasses import dataclass, field

GRACE = 20.0
LATEST = 0.9 * GRACE
"""Seconds after which nothing of a request that is over is stored any more."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens to one upload: a word, a number of bytes for cuts, seconds until it is stored, and a choice."""

    kind: str = "accept"
    at: int = 0
    late: float = 0.0
    flag: bool = False


@dataclass(slots=True)
class Stored:
    """One asset; `post` is the boundary of our upload that made it, None for a person's, `said` what came with it.

    `curated`: people have moved or renamed it.
    """

    id: str
    folder: str
    name: str
    content: bytes
    shown_from: float
    processed_from: float
    indexed_from: float | None
    made_at: float
    post: str | None = None
    whole: bool = True
    said: dict[str, str] = field(default_factory=dict)
    curated: bool = False
    made_in: str = ""

    def __post_init__(self) -> None:
        self.made_in = self.folder


@dataclass(slots=True)
class Post:
    """One upload as it came in; `content` grows, `ended` when the client has gone."""

    boundary: str
    folder: str
    name: str
    size: int
    plan: Plan
    content: bytes = b""
    closed: bool = False
    stored: bool = False
    said: dict[str, str] = field(default_factory=dict)
    meta: dict[str, str] = field(default_factory=dict)
    """All metadata fields of the form, by their names there."""


@dataclass(frozen=True, slots=True)
class Lies:
    """What searches in the database of this installation show falsely, until a quiet time ends what holds files up.

    Folder ids are shown as `folder_id` says: rightly (""), in the other `case`, `empty`, or `missing` as a column. With
    `lists_unknown` a search in a folder that does not exist shows all assets. With `is_paged` an answer has 25 rows
    from `startrow` on; with `is_unordered` equal names come in another order each time; with `shifts` so many strangers
    are deleted between two pages now and then; with `ignores_sort` all answers are sorted by name. Of a listing only
    the first `cap` rows are ever shown, 0 is no cap. Each row states the total if `states_total`, else 0. With `blinds`
    a folder shows nothing, or another folder's rows, for a while after the ledger was lost or put back. The key's user
    has no right to the folder `hides`. So many `strangers` lie in each folder from the start.
    """

    folder_id: str = ""
    lists_unknown: bool = False
    is_paged: bool = False
    is_unordered: bool = False
    shifts: int = 0
    ignores_sort: bool = False
    cap: int = 0
    states_total: bool = True
    blinds: bool = False
    hides: str = ""
    strangers: int = 0


@dataclass(slots=True)
class Habits:
    """How this installation is, whatever is asked of it; a look-up in its database takes `look_takes` seconds.

    With `renames` a workflow gives each upload a name of its own.
    Files of more than `limit` bytes get an error page, until all is quiet; 0 is none. It shows what was stored `lag`
    seconds ago. Of its searches this share fails (`failing`), or each of so many (`failing_each`, 0 is none), until all
    is at rest. An upload takes `upload_takes` seconds. Each of so many (`refusing_each`, 0 is none), or all into a
    folder (`refusing`), are answered by 500 and not stored, until all is at rest. With `keeps_own` it shows metadata,
    and that of files with these letters in their names is their own: it is empty.
    """

    gives_md5: bool = True
    refuses_copies: bool = False
    reads_latin: bool = True
    renames: bool = False
    processing: float = 0.0
    index_lag: float = 0.0
    index_call: str = "adds"
    pages: bool = False
    look_takes: float = 0.0
    limit: int = 0
    lag: float = 0.0
    failing: float = 0.0
    failing_each: int = 0
    upload_takes: float = 0.0
    refusing_each: int = 0
    refusing: str = ""
    # Not among what the random numbers of an installation are drawn from: those of earlier seeds stay.
    keeps_own: str = field(default="", repr=False)
    lies: Lies = field(default=Lies(), repr=False)
    lacks: str = field(default="", repr=False)
    """The id of a custom field that it does not have: it never processes what is sent with it, nor with long names."""

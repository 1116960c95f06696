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
    lacks: str = field(default="", repr=False)
    """The id of a custom field that it does not have: it never processes what is sent with it, nor with long names."""

"""The values of the model's world, and how one becomes the next: no rule stands here."""

from dataclasses import dataclass
from typing import NamedTuple

from assetsync.core.states import Event, Facts, transition
from assetsync.model import State

GRACE = 4
GAP = GRACE // 2 + 1
"""Ticks of the shortest gap that must be noticed, and of the shortest hang."""

TAIL = "~"
"""What the closing boundary adds when a request is cut behind the file."""


@dataclass(frozen=True)
class Scenario:
    """The files (content and name), what a person may do, how far to go, and the rule that is taken away.

    `shows`: the one name under which the service shows all of them, where it is not the name sent · `renames`: it is
    known that uploads may come back under other names · `waits`: ticks after which a look-up is given up · `processes`:
    assets may show before they are processed · `lags`: ticks by which look-ups are old, as the configuration says ·
    `late`: ticks within which a request that ended is stored, 0 for the grace · `answers`: the application may answer
    that it failed, after which it stores within the grace or never · `by_name`: searches by name, which show another
    asset of ours, are answered beside the look-ups · `half`: ticks after the first answered look-up
    from which rounds count, 0 where they do not · `keys`: assetsync may be started with another key, which shows
    nothing, for less than a grace.
    """

    contents: tuple[str, ...]
    names: tuple[str, ...]
    person: tuple[str, ...] = ()
    posts: int = 2
    faults: int = 2
    gives_md5: bool = True
    shows: str = ""
    renames: bool = False
    absences: int = 0
    retries: bool = False
    crashes: bool = True
    hangs: bool = True
    cuts: bool = True
    waits: int = 0
    processes: bool = True
    lags: int = 0
    late: int = 0
    answers: bool = False
    by_name: bool = False
    half: int = 0
    keys: bool = False
    without: str = ""


class Broken(Exception):
    """A step that breaks an invariant by itself."""


class Row(NamedTuple):
    state: State = State.QUEUED
    asset: int = -1
    adopted: bool = False
    absences: int = 0
    last: int = 0


class Attempt(NamedTuple):
    """An open attempt; `stored` is its asset while it flies, the grace is (boot, age of its last look-up, span,
    how slow look-ups it was made longer for).

    `age`: ticks since the span of all its answered look-ups began, None before it · `newer`: whether the control sample
    is newer · `answered`: whether the application answered that it failed · `old`: ticks since its first answered
    look-up, None before it · `rounds`: those that count, and how many ticks the last one is `apart`.
    """

    no: int
    file: int
    flies: bool = True
    stored: int = -1
    handed: int = -1
    name_released: bool = False
    grace: tuple[str, int, int, int] | None = None
    age: int | None = None
    newer: bool = False
    answered: bool = False
    old: int | None = None
    rounds: int = 0
    apart: int = 0


class Pending(NamedTuple):
    """A request that is over here and not there: stored within `left` ticks, or never."""

    no: int
    file: int
    content: str
    left: int = GRACE


class Made(NamedTuple):
    """An asset; `seen` holds the newest attempts when the look-up that first showed it began and ended.

    `age`: ticks since it was stored, as far as look-ups are old.
    """

    name: str
    content: str
    file: int = -1
    no: int = 0
    processed: bool = True
    seen: tuple[int, int] | None = None
    explained: bool = False
    age: int = 0


class Look(NamedTuple):
    """A look-up under way: its age, the doubts it is for, the newest attempt and the assets when it began."""

    age: int
    doubts: tuple[int, ...]
    began: int
    shown: tuple[bool, ...]


class World(NamedTuple):
    rows: tuple[Row, ...]
    attempts: tuple[Attempt, ...] = ()
    pending: tuple[Pending, ...] = ()
    assets: tuple[Made, ...] = ()
    look: Look | None = None
    hung: int = -1
    posts: int = 0
    faults: int = 0
    pace: tuple[int, int] = (0, 0)
    sample: int | None = None
    """Ticks since the last upload of another file was accepted."""
    other: int = -1
    """Ticks since assetsync was started with another key, -1 where it has its own."""


Step = tuple[str, World]


def label(f: int) -> str:
    """The letter of a file."""
    return "AB"[f]


def equal_contents(s: Scenario) -> bool:
    """Whether the files are of one content."""
    return len(s.contents) == 2 and len(set(s.contents)) == 1


def owners(w: World, asset: int) -> list[int]:
    return [f for f, row in enumerate(w.rows) if row.asset == asset]


def with_row(w: World, f: int, row: Row) -> World:
    return w._replace(rows=(*w.rows[:f], row, *w.rows[f + 1 :]))


def with_asset(w: World, i: int, made: Made) -> World:
    return w._replace(assets=(*w.assets[:i], made, *w.assets[i + 1 :]))


def with_attempt(w: World, a: Attempt | None, no: int) -> World:
    """Put an attempt in the place of number `no`, or take that one away."""
    rest = [other for other in w.attempts if other.no != no]
    return w._replace(attempts=tuple(sorted([*rest, a] if a else rest)))


def happen(w: World, f: int, event: Event, **changes: object) -> World:
    """Apply one event of the real table to a row."""
    row = w.rows[f]._replace(**changes)  # type: ignore[arg-type]
    facts = Facts(has_id=row.asset >= 0, open_attempt=any(a.file == f for a in w.attempts))
    return with_row(w, f, row._replace(state=transition(row.state, event, facts)))


def fault(w: World) -> World:
    """Count one thing that goes wrong beside the requests themselves: a crash, a hang, what a person does."""
    return w._replace(faults=w.faults + 1)

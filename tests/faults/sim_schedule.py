"""Schedules: what a seed stands for, as a list of actions that can be run again, and made smaller when one fails."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from .sim_lies import HONEST, lies_of
from .sim_tree import PATHS, PLAIN
from .sim_values import LATEST, Habits, Lies


class Action(NamedTuple):
    """One thing that happens; `values` are all it needs, so that a list without others runs too."""

    name: str
    values: tuple = ()

    def __str__(self) -> str:
        return f"{self.name} {' '.join(str(value) for value in self.values)}".strip()


@dataclass(frozen=True, slots=True)
class Variant:
    """What stays the same in one run: the installation's habits, the configuration, and who else is about."""

    settle: int = 0
    sidecar_wait: int = 0
    one_shot: bool = False
    persons: bool = False
    gives_md5: bool = True
    reads_latin: bool = True
    renames: bool = False
    refuses_copies: bool = False
    processing: float = 0.0
    index_lag: float = 0.0
    index_call: str = "adds"
    pages: bool = False
    look_takes: float = 0.0
    limit: int = 0
    lag: float = 0.0
    unsteady: float = 0.0
    """The share of looks into the tree for which its root is not there, or an error."""
    curated: bool = False
    """Whether people delete, move and rename assets in the service, which is audited."""
    resends: bool = False
    together: bool = False
    """Whether answers come at once, so that a sender takes several files together."""
    failing: float = 0.0
    """The share of searches that fail at random, also in the quiet time."""
    failing_each: int = 0
    """One search in so many fails, in step with the rounds of look-ups; 0 is none."""
    upload_takes: float = 0.0
    refusing_each: int = 0
    """One upload in so many is answered by 500 and not stored, also in the quiet time; 0 is none."""
    refusing: str = ""
    """The folder of the service into which every upload is."""
    default_limits: bool = False
    """Whether grace, time-out and workers are those of the default configuration."""
    requires_sidecars: bool = False
    keeps_own: str = ""
    """Letters in the names of files that keep their own metadata; without them no metadata is shown."""
    limit_is_raised: bool = False
    """Whether the limit of a proxy is raised in the quiet time without a person, and only a daily trial shows it."""
    refuses: bool = False
    """Whether the service never processes a document with a field or a character that it cannot hold."""
    lacks: str = ""
    """The id of a custom field that the service does not have; with one, names are cut to 240 until the upgrade."""
    unprocessed_after: int = 0
    """Seconds after which an asset counts as never processed; 0 is the default of the configuration."""
    # Not among what random numbers are drawn from: those of earlier seeds stay.
    lies: Lies = field(default=HONEST, repr=False)

    def habits(self) -> Habits:
        return Habits(
            gives_md5=self.gives_md5,
            refuses_copies=self.refuses_copies,
            reads_latin=self.reads_latin,
            renames=self.renames,
            processing=self.processing,
            index_lag=self.index_lag,
            index_call=self.index_call,
            pages=self.pages,
            look_takes=self.look_takes,
            limit=self.limit,
            lag=self.lag,
            failing=self.failing,
            failing_each=self.failing_each,
            upload_takes=self.upload_takes,
            refusing_each=self.refusing_each,
            refusing=self.refusing,
            keeps_own=self.keeps_own,
            lies=self.lies,
            lacks=self.lacks,
        )


class Schedule(NamedTuple):
    """One seed's run."""

    variant: Variant
    actions: tuple[Action, ...]


_KINDS = (
    "lost_before", "lost_after", "lost_after", "cut", "cut", "cut", "success_of_part", "page_before", "page_after",
    "gateway_before", "gateway_after", "error_at_line", "half_answer", "unsound_id", "phantom", "used_id",
    "unreachable", "accept", "accept",
)  # fmt: skip


def variant_of(rng: random.Random) -> Variant:
    """Draw an installation and a configuration; no two rare things that only together cannot be told apart."""
    gives_md5 = rng.random() < 0.85
    return Variant(
        settle=rng.choice((0, 0, 5)),
        sidecar_wait=rng.choice((0, 0, 0, 10)),
        one_shot=rng.random() < 0.5,
        # `model`, assumptions 4 and 5: what nothing could tell from a late cut of ours does not come meanwhile.
        persons=gives_md5 and rng.random() < 0.3,
        gives_md5=gives_md5,
        reads_latin=not gives_md5 or rng.random() < 0.7,
        refuses_copies=rng.random() < 0.15,
        processing=rng.choice((0.0, 0.0, 0.5, 4.0, 40.0)),
        index_lag=rng.choice((0.0, 2.0, 70.0)),
        index_call=rng.choice(("adds", "noop", "wipes")),
        pages=rng.random() < 0.2,
    )


def schedule_of(seed: int, *, length: int = 70, equal_names: bool = False) -> Schedule:
    """Draw the schedule of a seed; with `equal_names` two files of one name in one folder, and little else."""
    rng = random.Random(seed)
    # Drawn by itself: all else stays as it was for the seed.
    takes = random.Random(f"look-ups of {seed}").choice((0.0,) * 12 + (0.5, 2.0, 7.0))
    limit = random.Random(f"limit of {seed}").choice((0,) * 8 + (10, 120))
    variant = replace(variant_of(rng), look_takes=takes, limit=limit, lies=lies_of(seed))
    # Without digests only the names tell assets apart: then each comes back as it was sent.
    paths = rng.sample(PATHS if variant.gives_md5 else PLAIN, rng.choice((2, 3, 5, len(PLAIN))))
    contents: Sequence[int] = range(7)
    if equal_names or rng.random() < 0.1:
        paths, contents = ["a/x.txt", "b/x.txt"], rng.choice(((0, 2), (4, 6), (2,), (6,)))
        if not equal_names and not variant.gives_md5:
            # `model`, assumption 5: a cut of the one, its boundary included, may have the size of the other.
            contents = contents[-1:]
    draw = _Drawing(rng, variant, paths, contents)
    actions = [Action("file", ("write", path, rng.choice(contents))) for path in paths if rng.random() < 0.7]
    actions.append(Action("scan", (1_000_000,)))
    while len(actions) < length:
        actions += draw.some()
    return Schedule(variant, tuple(actions))


_FAULTS = {
    "answers lost before or after storing, or stored late": {"lost_before", "lost_after", "late"},
    "cut uploads, or a success for a part": {"cut", "success_of_part"},
    "error pages, half answers, ids that are unsound, never stored or another file's": {
        *("page_before", "page_after", "gateway_before", "gateway_after", "error_at_line", "half_answer"),
        *("unsound_id", "phantom", "used_id"),
    },
    "crashes at any step or commit, and restarts of the machine": {"crash"},
    "a full disk under the ledger": {"disk_full"},
    "a service that is down, hangs, refuses the key or answers look-ups with noise": {
        *("unreachable", "silence", "key", "break_searches"),
    },
    "look-ups that take long": {"slow"},
    "uploads that all fail from some size on": {"limit"},
    "listings that leave out what is there, or show folders otherwise": {"lies"},
    "clocks that jump": {"jump"},
    "files renamed, moved, copied, linked, replaced by others of the same size, grown, restored": {
        *("append", "replace", "rename", "link", "copy", "restore"),
    },
}


def interspersed(
    actions: Iterable[Action], rng: random.Random, share: float, more: Callable[[], Iterable[Action]]
) -> Iterator[Action]:
    """Yield the actions, and after a `share` of them what `more` gives."""
    for action in actions:
        yield action
        if rng.random() < share:
            yield from more()


def faults_of(schedule: Schedule) -> set[str]:
    """Name the kinds of faults that a schedule holds, as the guide counts them."""
    found = {"slow"} if schedule.variant.look_takes else set()
    found |= {"limit"} if schedule.variant.limit else set()
    found |= {"lies"} if schedule.variant.lies != HONEST else set()
    for action in schedule.actions:
        found.add(action.name)
        if action.name in ("plan", "file"):
            found.add(action.values[0])
        if action.name == "plan" and action.values[2]:
            found.add("late")
    return {said for said, names in _FAULTS.items() if names & found}


class _Drawing:
    """Draws actions; some come as a small group that makes sense together."""

    def __init__(self, rng: random.Random, variant: Variant, paths: list[str], contents: Sequence[int]) -> None:
        self._rng = rng
        self._contents = contents
        self._variant = variant
        self._paths = paths

    def some(self) -> list[Action]:
        rng = self._rng
        choice = rng.choices(
            (
                "send", "go", "read_back", "file", "plan", "scan", "hint", "wait", "live", "crash", "trouble", "person",
                "doubt",
            ),
            (20, 18, 12, 12, 14, 6, 5, 5, 5, 4, 4, 3, 2),
        )[0]  # fmt: skip
        match choice:
            case "send":
                return [Action("send", (self._marks(),))]
            case "go":
                return [Action("go", (rng.randrange(4), self._marks()))]
            case "read_back":
                return [Action(rng.choice(("read_back",) * 7 + ("audit",)), (self._marks(),))]
            case "scan":
                return [Action("scan", (rng.choice((2, 1_000_000, 1_000_000)),))]
            case "hint":
                return [Action("hint")]
            case "wait":
                return [Action("wait", (rng.choice((0.3, 2.0, 5.0, 9.0, 30.0)),))]
            case "live":
                return [Action("live", (rng.choice((1, 3, 12, 25)),))]
            case "crash":
                return [Action("crash", (rng.randrange(8), rng.random() < 0.3))]
        rest = {"file": self._file, "plan": self._plan, "trouble": self._trouble, "person": self._person}
        return {**rest, "doubt": self._doubt}[choice]()

    def _marks(self) -> int:
        return self._rng.choice((0, 1, 1, 2, 3, 5, 1_000))

    def _file(self) -> list[Action]:
        rng = self._rng
        verb = rng.choice((
            "write", "write", "append", "replace", "touch", "rename", "rename", "link", "copy", "delete", "restore",
            "sidecar",
        ))  # fmt: skip
        path = rng.choice(self._paths)
        value: object = None
        if verb == "write":
            value = rng.choice(self._contents)
        elif verb in ("rename", "link", "copy"):
            value = rng.choice(self._paths)
        elif verb == "sidecar":
            value = rng.randrange(5)
        group = [Action("file", (verb, path, value))]
        if rng.random() < 0.5:
            group.append(Action("hint"))
        return group

    def _plan(self) -> list[Action]:
        if self._rng.random() < 0.2:
            # Two that go wrong one right after the other.
            return [*self._one_plan(), *self._one_plan(), Action("send", (1_000,)), Action("live", (1,))]
        return self._one_plan()

    def _one_plan(self) -> list[Action]:
        rng = self._rng
        late = rng.choice((0.0, 0.0, 1.0, 5.0, 12.0, LATEST))
        kind = rng.choice(_KINDS)
        if self._variant.persons and kind in ("cut", "success_of_part"):
            late = 0.0
        return [
            Action("plan", (kind, rng.choice((0, 1, 2, 5, 8, 20, 50, 100, 101, 110, 170)), late, rng.random() < 0.5))
        ]

    def _doubt(self) -> list[Action]:
        """Lose an answer for long, and let something happen to the grace while it runs."""
        rng = self._rng
        pause = Action("wait", (rng.choice((3.0, 12.0, 25.0)),))
        disturbance = rng.choice((
            [Action("silence", (True,)), pause, Action("speak")],
            [Action("crash", (0, True)), pause],
            [Action("jump", (rng.choice((-3_600.0, 60.0, 3_600.0)),))],
            [pause],
        ))  # fmt: skip
        late = rng.choice((12.0, LATEST, LATEST))
        return [
            Action("plan", ("lost_after", 0, late, False)),
            Action("send", (1_000,)),
            Action("live", (rng.choice((1, 3, 6)),)),
            *disturbance,
            Action("live", (12,)),
        ]

    def _trouble(self) -> list[Action]:
        rng = self._rng
        kind = rng.choice(("jump", "disk_full", "silence", "silence", "speak", "key", "key_back", "break_searches"))
        match kind:
            case "jump":
                return [Action("jump", (rng.choice((-86_400.0, -3_600.0, -60.0, 60.0, 3_600.0, 86_400.0)),))]
            case "disk_full":
                return [Action("disk_full", (rng.randrange(1, 6),))]
            case "silence":
                group = [Action("silence", (rng.random() < 0.5,))]
                return [*group, Action("wait", (rng.choice((3.0, 25.0)),)), Action("speak")][: rng.choice((1, 3, 3))]
            case "speak":
                return [Action("speak")]
            case "key":
                return [Action("key", (True,))]
            case "key_back":
                return [Action("key", (False,))]
        return [Action("break_searches", (rng.randrange(1, 4),))]

    def _person(self) -> list[Action]:
        rng = self._rng
        path = rng.choice(self._paths)
        kinds = ["resume", "retry", "settle_doubt"]
        if self._variant.persons:
            kinds += ["upload_by_hand", "upload_by_hand", "send_again"]
        match rng.choice(kinds):
            case "upload_by_hand":
                return [Action("upload_by_hand", (path, rng.random() < 0.6))]
            case "send_again":
                return [Action("send_again", (path,))]
            case "settle_doubt":
                return [Action("settle_doubt", (path,))]
            case "retry":
                return [Action("retry")]
        return [Action("resume")]

"""Decide which notices people receive: one when a kind of problem begins, one for new items, and one when it ends.

The current problems go in, the due notices come out. A new problem waits until related items have gathered, and a kind
has at most one such notice in APART seconds. An end is reported at once; for kinds that may begin again a moment later,
once they have stayed away. Reading the problems and delivering the notices are left to `notify`.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pydantic import TypeAdapter, ValidationError

from assetsync.core.outcome import ANSWERS_LOST

APART = 15 * 60.0
"""Seconds between two notices about the begin or the growth of a kind."""

KEPT = 1000
"""Most items of a kind that are tracked by key; items beyond that are only counted."""

NAMED = 5
"""Most items that a notice names."""

_MINUTE = 60.0


class Kind(StrEnum):
    """The subject of a notice; `event` in the delivered object."""

    BLOCKED = "blocked"
    BRAKE = "brake"
    OUTAGE = "outage"
    KEY_REFUSED = "key_refused"
    DOUBTS = "doubts"
    INDEX_STOPPED = "index_stopped"
    TREE = "tree"
    SIDECARS = "sidecars"
    VANISHED = "vanished"
    PAUSE = "paused"
    LEDGER = "ledger"
    ENDED = "ended"
    TEST = "test"


_RECURRING = frozenset({Kind.OUTAGE, Kind.KEY_REFUSED, Kind.DOUBTS, Kind.LEDGER, Kind.ENDED})
"""The kinds that may begin again a moment after they ended. The others end by a scan or by a person's act."""


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds that a new item waits for others, that a gone item must stay away, and that an outage must last.

    The end of a kind that does not recur is reported without a wait. Doubts must stop sending for as long as a gone
    item must stay away.
    """

    gather: float = 5.0
    quiet: float = 60.0
    outage: float = 15 * 60.0


DELAYS = Delays()
AT_ONCE = Delays(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Problem:
    """The current items of a kind, each a sentence by a stable key; without items the kind is in order.

    `count` may exceed the number of `items`. `since` maps a key to the begin of its item in steady seconds, if known.
    """

    kind: Kind
    items: Mapping[str, str] = field(default_factory=dict)
    count: int = 0
    since: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice: `count` items exist, `new` of them were not reported before; `names` are the first new ones."""

    site: str
    kind: Kind
    is_over: bool
    text: str
    count: int
    new: int
    names: tuple[str, ...]
    at: float


@dataclass(frozen=True, slots=True)
class _Reported:
    """The reported items of a kind; `at`: the last notice of its begin or growth, `since`: the begin of the problem."""

    keys: tuple[str, ...] = ()
    count: int = 0
    at: float = float("-inf")
    since: float = 0.0

    def narrowed(self, problem: Problem, over: Iterable[str]) -> "_Reported":
        """Return this without the items that are over.

        If more items were counted than named, an item that is named now was counted before, and the highest count
        stays until all items are named.
        """
        is_counted = self.count > len(self.keys)
        keys = [key for key in self.keys if key not in over]
        if is_counted:
            keys = [*problem.items, *(key for key in keys if key not in problem.items)]
        if not keys:
            # The last items stay until the end of the problem is reported.
            return self
        are_named = problem.count <= len(problem.items) and (not is_counted or len(keys) == len(problem.items))
        return replace(self, keys=tuple(keys), count=len(keys) if are_named else self.count)


_SAVED = TypeAdapter(dict[Kind, _Reported])


class NoticeTracker:
    """The reported problems of a site; they survive a restart through `saved` and `load`."""

    def __init__(self, site: str) -> None:
        self._site = site
        self._reported: dict[Kind, _Reported] = {}
        # In steady seconds: the begin of each current item, and since when a reported item is gone.
        self._began: dict[Kind, dict[str, float]] = {}
        self._gone: dict[Kind, dict[str, float]] = {}

    def keys(self, kind: Kind) -> tuple[str, ...]:
        """Return the keys of the reported items of a kind."""
        return self._reported.get(kind, _Reported()).keys

    def saved(self) -> str:
        """Return the reported problems as JSON."""
        return _SAVED.dump_json(dict(sorted(self._reported.items()))).decode()

    def load(self, saved: str | None) -> None:
        """Add the problems that an earlier process reported; a value that cannot be read counts as none."""
        # If another release or a person wrote the value, at worst a notice is repeated.
        with suppress(ValidationError):
            self._reported = _SAVED.validate_json(saved or "{}") | self._reported

    def step(self, problems: Iterable[Problem], now: float, steady: float, delays: Delays = DELAYS) -> list[Notice]:
        """Return the due notices; a kind that is not among `problems` is unknown, and nothing changes for it."""
        notices = (self._notice(problem, now, steady, delays) for problem in problems)
        return [notice for notice in notices if notice is not None]

    def _notice(self, problem: Problem, now: float, steady: float, delays: Delays) -> Notice | None:
        kind = problem.kind
        reported = self._reported.get(kind, _Reported())
        # A clock that was set back must not hold a notice back.
        may_send = not 0 <= now - reported.at < APART
        began, gone = self._began.get(kind, {}), self._gone.get(kind, {})
        began = {key: problem.since.get(key, began.get(key, steady)) for key in problem.items}
        gone = {key: gone.get(key, steady) for key in reported.keys if key not in began}
        self._began[kind], self._gone[kind] = began, gone
        over = {key for key, since in gone.items() if steady - since >= delays.quiet}
        if not problem.items:
            is_over = reported.keys and (kind not in _RECURRING or over.issuperset(reported.keys))
            return self._end(kind, reported, now) if is_over else None
        if reported.keys:
            reported = self._reported[kind] = reported.narrowed(problem, over)
        lasts = {Kind.OUTAGE: delays.outage, Kind.DOUBTS: delays.quiet}.get(kind)
        if lasts is not None:
            lasting = {key: text for key, text in problem.items.items() if steady - began[key] >= lasts}
            problem = replace(problem, items=lasting, count=len(lasting))
        known = set(reported.keys)
        new = [key for key in problem.items if key not in known]
        fresh = max(len(new), problem.count - reported.count)
        longest = max((steady - began[key] for key in new), default=delays.gather)
        if fresh <= 0 or longest < delays.gather or not may_send:
            return None
        since = reported.since if known else now - longest
        keys = (*problem.items, *(key for key in reported.keys if key not in problem.items))
        self._reported[kind] = _Reported(keys[:KEPT], problem.count, now, since)
        names = tuple(problem.items[key] for key in new[:NAMED])
        text = f"{self._site}: {_sentence(problem, fresh, names, now - since)}"
        return Notice(self._site, kind, is_over=False, text=text, count=problem.count, new=fresh, names=names, at=now)

    def _end(self, kind: Kind, reported: _Reported, now: float) -> Notice:
        self._reported[kind] = _Reported(at=reported.at, since=now)
        text = f"{self._site}: {_OVER[kind].format(after=_span(now - reported.since))}"
        return Notice(self._site, kind, is_over=True, text=text, count=0, new=0, names=(), at=now)


def trial_notice(site: str, now: float) -> Notice:
    """Return the message that `check --notify` sends."""
    text = f"{site}: this is a test of assetsync's messages; nothing is wrong"
    return Notice(site, Kind.TEST, is_over=False, text=text, count=0, new=0, names=(), at=now)


_OVER = {
    Kind.BLOCKED: "no file is blocked any longer",
    Kind.BRAKE: "uploads are no longer stopped by a brake",
    Kind.OUTAGE: "the service answers again, after {after}",
    Kind.KEY_REFUSED: "the service accepts the API key, after {after}",
    Kind.DOUBTS: "uploads in doubt no longer stop sending, after {after}",
    Kind.INDEX_STOPPED: "indexing is no longer stopped: it is switched off, or is tried again",
    Kind.SIDECARS: "no file has waited long for its sidecar",
    Kind.TREE: "the whole tree can be read again",
    Kind.VANISHED: "no large number of files has vanished for a day",
    Kind.PAUSE: "no pause without an end lasts for more than a day",
    Kind.LEDGER: "the ledger can be used again, and sending resumes",
    Kind.ENDED: "assetsync runs again",
}


_TRIED_AGAIN = "tried again at least every minute, and sending then resumes"


_BEGUN = {
    Kind.KEY_REFUSED: "nothing is sent: {}",
    Kind.DOUBTS: "uploads in doubt stop sending: {} (assetsync doubt list)",
    Kind.INDEX_STOPPED: "indexing has stopped: {}",
}
"""The sentences about kinds that have a single item."""


def _sentence(problem: Problem, new: int, names: tuple[str, ...], lasted: float) -> str:
    first = "; ".join(names)
    more = f"; and {new - len(names):,} more" if new > len(names) else ""
    named = f": {first}{more}" if names else ""
    fresh = f", {new:,} of them new" if new != problem.count else ""
    if problem.kind in _BEGUN:
        return _BEGUN[problem.kind].format(first)
    match problem.kind:
        case Kind.BLOCKED:
            noun = "file is" if problem.count == 1 else "files are"
            return f"{problem.count:,} {noun} blocked{fresh}{named} (assetsync status)"
        case Kind.BRAKE:
            return f"a brake stops all uploads: {first}{more} (`assetsync status` shows what ends it)"
        case Kind.OUTAGE:
            long = f" for {_span(lasted)}" if lasted >= _MINUTE else ""
            what = ANSWERS_LOST if ANSWERS_LOST in problem.items else "nothing is sent"
            return f"{what}{long}: {first}; {_TRIED_AGAIN} (assetsync check)"
        case Kind.TREE:
            noun = "path" if problem.count == 1 else "paths"
            again = "tried again every minute"
            return f"{problem.count:,} {noun} of the tree cannot be read{fresh}{named}; {again} (assetsync check)"
        case Kind.SIDECARS:
            noun = "file waits" if problem.count == 1 else "files wait"
            return (
                f"{problem.count:,} {noun} for metadata of their own{fresh}{named}"
                " (`assetsync retry --without-sidecar PATH` sends them without)"
            )
        case Kind.VANISHED:
            return f"files have vanished from the tree: {first}{more} (`assetsync orphans --all` lists their assets)"
        case Kind.PAUSE:
            return f"uploads are still paused, without an end: {first}{more} (assetsync resume --pause)"
        case Kind.LEDGER:
            again = "tried again, and sending then resumes"
            return f"nothing is sent, because the ledger cannot be used: {first}; {again}"
        case _:
            return f"assetsync has ended because of an error: {first} (systemctl status shows whether it runs again)"


def _span(seconds: float) -> str:
    minutes = max(0, round(seconds / 60))
    if minutes < 1:
        return "less than a minute"
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [f"{days} d" * bool(days), f"{hours} h" * bool(hours), f"{minutes} min" * bool(minutes and not days)]
    return " ".join(part for part in parts if part)

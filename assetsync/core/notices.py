"""Decide which messages people receive and when: few messages that sum up, not a message for each file.

The current troubles go in, the messages that are due come out; the result of earlier messages is kept. A message waits
until related trouble has gathered, comes at most every APART seconds for a kind of trouble, and names only new items.
The end of a trouble is reported too. Reading the facts and delivering messages are left to `notify`.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

APART = 15 * 60.0
"""Seconds between two messages of a kind."""

GATHER = 5.0
"""Seconds that new trouble waits for more of its kind."""

QUIET = 60.0
"""Seconds that a trouble must be gone before its end is reported: a scan tries blocked files again and again."""

KEPT = 1000
"""Most items of a kind that are tracked by key; items beyond that are only counted."""

_MINUTE = 60.0

NAMED = 5
"""Most items that a message names."""


class Kind(StrEnum):
    """The subject of a message; `event` in the delivered message."""

    BLOCKED = "blocked"
    BRAKE = "brake"
    OUTAGE = "outage"
    INDEX_STOPPED = "index_stopped"
    TREE = "tree"
    LEDGER = "ledger"
    ENDED = "ended"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Trouble:
    """The current trouble of a kind: up to KEPT items by a stable key, each with its sentence, and the total count.

    Without `items` there is no trouble. `lingering` are keys of earlier items that may be back in a moment.
    """

    kind: Kind
    items: Mapping[str, str] = field(default_factory=dict)
    count: int = 0
    since: float | None = None
    lingering: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Reported:
    """The last report of a kind: `at` is its wall-clock time, `since` is when the trouble began."""

    keys: tuple[str, ...]
    count: int
    at: float
    since: float


@dataclass(frozen=True, slots=True)
class Notice:
    """A message: `count` items exist, `new` of them were not reported before; `names` are the first new ones."""

    site: str
    kind: Kind
    is_over: bool
    text: str
    count: int
    new: int
    names: tuple[str, ...]
    at: float


class Teller:
    """The decisions on the messages of a site; the state of earlier messages survives a restart through `kept`."""

    def __init__(self, site: str, kept: str | None = None) -> None:
        """Begin with the value that `kept` returned; None or an unreadable value counts as no earlier messages."""
        self._site = site
        self._told = _read(kept)
        self._noticed: dict[Kind, float] = {}
        self._away: dict[Kind, float] = {}
        self._fewer: dict[Kind, float] = {}

    def keys(self, kind: Kind) -> tuple[str, ...]:
        """Return the keys of the items of a kind that were reported and are not over."""
        told = self._told.get(kind)
        return told.keys if told else ()

    def kept(self) -> str:
        """Return the state of earlier messages as JSON."""
        return json.dumps(
            {
                str(kind): {"keys": told.keys, "count": told.count, "at": told.at, "since": told.since}
                for kind, told in sorted(self._told.items())
            }
        )

    def step(
        self, troubles: Iterable[Trouble], now: float, steady: float, *, gather: float = GATHER, quiet: float = QUIET
    ) -> list[Notice]:
        """Return the messages that are due; a kind that is not among `troubles` is unknown at the moment."""
        notices = (self._of(trouble, now, steady, gather, quiet) for trouble in troubles)
        return [notice for notice in notices if notice is not None]

    def _of(self, trouble: Trouble, now: float, steady: float, gather: float, quiet: float) -> Notice | None:
        kind = trouble.kind
        told = self._told.get(kind)
        # Otherwise a clock that was set back would hold messages back for the same span.
        may_tell = told is None or not 0 <= now - told.at < APART
        if not trouble.items:
            self._noticed.pop(kind, None)
            self._fewer.pop(kind, None)
            return self._end(trouble, told, now, steady, quiet if may_tell else float("inf"))
        self._away.pop(kind, None)
        known, before = (set(told.keys), told.count) if told else (set(), 0)
        new = [key for key in trouble.items if key not in known]
        if before > KEPT:
            # An item that moves up into the tracked ones was counted before.
            new = []
        # Without an earlier report all items are new. Beyond KEPT the count decides.
        counts = not known or max(before, trouble.count) > KEPT
        fresh = max(len(new), trouble.count - before if counts else 0)
        if not fresh:
            self._noticed.pop(kind, None)
            self._forget(trouble, told, steady, quiet)
            return None
        if steady - self._noticed.setdefault(kind, steady) < gather or not may_tell:
            return None
        self._noticed.pop(kind, None)
        since = told.since if told and told.keys else now if trouble.since is None else trouble.since
        standing = known & set(trouble.lingering)
        self._told[kind] = Reported(
            (*trouble.items, *sorted(standing - set(trouble.items)))[:KEPT], trouble.count, now, since
        )
        names = tuple(trouble.items[key] for key in new[:NAMED])
        text = f"{self._site}: {_sentence(trouble, fresh, names, now - since)}"
        return Notice(self._site, kind, is_over=False, text=text, count=trouble.count, new=fresh, names=names, at=now)

    def _end(self, trouble: Trouble, told: Reported | None, now: float, steady: float, quiet: float) -> Notice | None:
        kind = trouble.kind
        if told is None or not told.keys:
            return None
        if set(told.keys) & set(trouble.lingering):
            self._away.pop(kind, None)
            return None
        if steady - self._away.setdefault(kind, steady) < quiet:
            return None
        self._away.pop(kind, None)
        self._told[kind] = Reported((), 0, now, now)
        text = f"{self._site}: {_OVER[kind].format(after=_span(now - told.since))}"
        return Notice(self._site, kind, is_over=True, text=text, count=0, new=0, names=(), at=now)

    def _forget(self, trouble: Trouble, told: Reported | None, steady: float, quiet: float) -> None:
        """Forget items that are over while others of their kind remain: an item that comes back is new.

        Beyond KEPT items only the count is known: a lower count is taken over once it has lasted for `quiet` seconds.
        """
        kind = trouble.kind
        if told is None:
            return
        if told.count <= KEPT:
            stands = {*trouble.items, *trouble.lingering}
            keys = tuple(key for key in told.keys if key in stands)
            self._told[kind] = replace(told, keys=keys, count=len(keys))
        elif trouble.count == told.count:
            self._fewer.pop(kind, None)
        elif steady - self._fewer.setdefault(kind, steady) >= quiet:
            del self._fewer[kind]
            self._told[kind] = replace(told, keys=tuple(trouble.items), count=trouble.count)


def trial_notice(site: str, now: float) -> Notice:
    """Return the message that `check --notify` sends."""
    text = f"{site}: this is a test of assetsync's messages; nothing is wrong"
    return Notice(site, Kind.TEST, is_over=False, text=text, count=0, new=0, names=(), at=now)


_OVER = {
    Kind.BLOCKED: "what was blocked is not any more",
    Kind.BRAKE: "no brake holds any more",
    Kind.OUTAGE: "the service answers again, after {after}",
    Kind.INDEX_STOPPED: "indexing is switched off, or may be tried again",
    Kind.TREE: "all of the tree can be read again",
    Kind.LEDGER: "the ledger can be used again",
    Kind.ENDED: "assetsync runs again",
}


def _sentence(trouble: Trouble, new: int, names: tuple[str, ...], lasted: float) -> str:
    first = "; ".join(names)
    more = f"; and {new - len(names):,} more" if new > len(names) else ""
    named = f": {first}{more}" if names else ""
    fresh = f", {new:,} of them new" if new != trouble.count else ""
    match trouble.kind:
        case Kind.BLOCKED:
            noun = "file is" if trouble.count == 1 else "files are"
            return f"{trouble.count:,} {noun} blocked{fresh}{named} (assetsync status)"
        case Kind.BRAKE:
            return f"a brake stops all sending: {first}{more} (assetsync status tells what ends it)"
        case Kind.OUTAGE:
            long = f" for {_span(lasted)}" if lasted >= _MINUTE else ""
            return f"nothing is sent{long}: {first} (assetsync check)"
        case Kind.INDEX_STOPPED:
            return f"indexing has stopped: {first}"
        case Kind.TREE:
            noun = "path" if trouble.count == 1 else "paths"
            return f"{trouble.count:,} {noun} of the tree cannot be read{fresh}{named} (assetsync check)"
        case Kind.LEDGER:
            return f"the ledger cannot be used, everything waits for it: {first}"
        case _:
            return f"assetsync has ended because of an error: {first}"


def _span(seconds: float) -> str:
    minutes = max(0, round(seconds / 60))
    if minutes < 1:
        return "less than a minute"
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [f"{days} d" * bool(days), f"{hours} h" * bool(hours), f"{minutes} min" * bool(minutes and not days)]
    return " ".join(part for part in parts if part)


def _read(kept: str | None) -> dict[Kind, Reported]:
    try:
        said = json.loads(kept or "{}")
        return {
            Kind(kind): Reported(
                tuple(map(str, told["keys"])), int(told["count"]), float(told["at"]), float(told["since"])
            )
            for kind, told in said.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        # The state is from another release or was changed by hand: at worst a message is repeated.
        return {}

"""The faults that can be switched on, and which of them hit the next request.

`FaultBoard.take` returns them; `app` and the operations themselves carry them out.
"""

import math
import random
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum

from assetsync.errors import UsageError

_STATUSES = range(200, 600)


class Operation(StrEnum):
    """The three operations of the interface (section 4)."""

    UPLOAD = "upload"
    SEARCH = "search"
    INDEX = "index"


class FaultKind(StrEnum):
    """All faults; `seconds`, `status` and `stored` in the comments are fields of the rule."""

    LATENCY = "latency"  # every answer comes `seconds` later
    HANG = "hang"  # the request is read, then nothing happens for `seconds`; an upload is stored after that
    STATUS = "status"  # `status` (503) before the upload is stored or, with `stored`, after it
    HTML = "html"  # an HTML page with 200 instead of the answer; `stored` as above
    TOO_MANY = "too_many"  # 429 with Retry-After: `seconds`, before anything is stored
    ANSWER_LOST = "answer_lost"  # the work is done, then the connection is closed without an answer
    ANSWER_CUT = "answer_cut"  # the work is done, then the connection is closed in the middle of the answer
    KEY_REFUSED = "key_refused"  # the valid key is refused like a wrong key
    SEARCH_DOWN = "search_down"  # HTML with 200 for each search through the index: the search server is down
    DATABASE_DOWN = "database_down"  # uploads and searches fail in their own ways, searchIndex reports success
    INDEX_WIPES = "index_wipes"  # searchIndex deletes the whole index before it adds assets
    NAMES_LOST = "names_lost"  # the upload is stored under its own id instead of the name sent
    INVISIBLE = "invisible"  # the upload is stored, but no search shows it for `seconds`


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """One fault: its kind, operation (None: all), number of times (None: until switched off) and probability.

    Raise UsageError for a number out of range.
    """

    kind: FaultKind
    operation: Operation | None = None
    times: int | None = None
    probability: float = 1.0
    seconds: float = 1.0
    status: int = 503
    stored: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError for a number that would crash the sandbox when the fault hits."""
        for name, value, fits, said in (
            ("times", self.times, self.times is None or self.times >= 0, "0 or more"),
            ("probability", self.probability, 0 <= self.probability <= 1, "from 0 to 1"),
            ("seconds", self.seconds, 0 <= self.seconds < math.inf, "0 or more"),
            ("status", self.status, self.status in _STATUSES, "from 200 to 599"),
        ):
            if not fits:
                raise UsageError(f"A fault cannot have {name} {value}", hint=f"give {said}")


Active = Mapping[FaultKind, FaultRule]


class FaultBoard:
    """The rules that are switched on, and the count of requests; the server's thread and other threads share it.

    The random numbers for probabilities come from one seeded generator, so that a run can be repeated.
    """

    def __init__(self, seed: int) -> None:
        self._lock = threading.Lock()
        self._random = random.Random(seed)  # noqa: S311 - a repeatable sequence is the purpose
        self._rules: list[FaultRule] = []
        self.requests: Counter[Operation] = Counter()

    def replace(self, rules: Iterable[FaultRule], seed: int | None = None) -> None:
        """Switch on exactly these rules; a seed restarts the random numbers."""
        with self._lock:
            self._rules = list(rules)
            if seed is not None:
                self._random.seed(seed)

    def take(self, operation: Operation) -> Active:
        """Count a request; return the faults that hit it, and count them down."""
        active: dict[FaultKind, FaultRule] = {}
        with self._lock:
            self.requests[operation] += 1
            for position, rule in enumerate(self._rules):
                if rule.times == 0 or rule.operation not in (None, operation):
                    continue
                if rule.probability < 1 and self._random.random() >= rule.probability:
                    continue
                if rule.times is not None:
                    self._rules[position] = replace(rule, times=rule.times - 1)
                active[rule.kind] = rule
        return active

    def listing(self) -> list[dict[str, object]]:
        """Return the rules that can still hit a request, as JSON values; `times` is the number of hits left."""
        with self._lock:
            return [asdict(rule) for rule in self._rules if rule.times != 0]


def fault_rule(given: Mapping[str, object]) -> FaultRule:
    """Return a rule built from JSON values; raise UsageError that names the mistake."""
    known = {each.name for each in fields(FaultRule)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise UsageError(f"A fault has no field {unknown[0]!r}", hint=f"it has {', '.join(sorted(known))}")
    try:
        operation = given.get("operation")
        times = given.get("times")
        return FaultRule(
            kind=FaultKind(str(given.get("kind"))),
            operation=None if operation is None else Operation(str(operation)),
            times=None if times is None else int(str(times)),
            probability=float(str(given.get("probability", 1.0))),
            seconds=float(str(given.get("seconds", 1.0))),
            status=int(str(given.get("status", 503))),
            stored=given.get("stored", False) is True,
        )
    except ValueError as exc:
        kinds = ", ".join(FaultKind)
        raise UsageError(f"This is no fault: {exc}", hint=f"the kinds are {kinds}") from exc

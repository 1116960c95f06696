"""The faults that can be switched on, and which of them hit the next request.

`FaultBoard.take` returns them; `app` and the operations themselves carry them out.
"""

import random
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from assetsync.errors import UsageError


class Operation(StrEnum):
    """The three operations of the interface (section 4)."""

    UPLOAD = "upload"
    SEARCH = "search"
    INDEX = "index"


class FaultKind(StrEnum):
    """All faults; `seconds`, `status`, `stored` and `rows` in the comments are fields of the rule."""

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
    NEVER_PROCESSED = "never_processed"  # the upload is stored and accepted, but nothing ever processes it
    FOLDER_CASE = "folder_case"  # folder ids are accepted in any case, and shown in the other one
    FOLDER_EMPTY = "folder_empty"  # the rows of a search have an empty folder id
    FOLDER_MISSING = "folder_missing"  # the rows of a search have no column `folder_id`
    PAGED = "paged"  # a search in the database honours startrow and maxrows, and returns at most `rows` rows
    UNORDERED = "unordered"  # assets with equal sort keys come in another order in each answer of the database
    SHIFTED = "shifted"  # with `paged`, pages after the second skip `rows` rows, as if earlier ones were deleted
    CAPPED = "capped"  # a search in the database returns its first `rows` rows; each states the true total
    CAPPED_UNSTATED = "capped_unstated"  # as `capped`, but the total is 0
    SORT_IGNORED = "sort_ignored"  # `sortby` changes nothing
    NO_RIGHT = "no_right"  # searches return no rows, as if the key's user had no right on any folder
    OTHER_FOLDER = "other_folder"  # a search in a folder returns the assets of all other folders
    UNKNOWN_FOLDER_LISTED = "unknown_folder_listed"  # a search in a folder that does not exist returns all assets


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class FaultRule:
    """One fault: its kind, operation (None: all), number of times (None: until switched off) and probability.

    `every` 5 means each fifth request. With `folder` only uploads into that folder are hit.
    """

    kind: FaultKind
    operation: Operation | None = None
    folder: str | None = None
    times: Annotated[int, Field(ge=0)] | None = None
    every: Annotated[int, Field(ge=1)] = 1
    probability: Annotated[float, Field(ge=0, le=1)] = 1.0
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    status: Annotated[int, Field(ge=200, lt=600)] = 503
    rows: Annotated[int, Field(ge=1)] = 25
    stored: bool = False


Active = Mapping[FaultKind, FaultRule]


class FaultBoard:
    """The rules that are switched on, and the count of requests; the server's thread and other threads share it.

    The random numbers for probabilities come from one seeded generator, so that a run can be repeated.
    """

    def __init__(self, seed: int) -> None:
        self._lock = threading.Lock()
        self._random = random.Random(seed)  # noqa: S311 - a repeatable sequence is the purpose
        self._rules: list[FaultRule] = []
        self._met: list[int] = []  # requests that each rule was asked about
        self.requests: Counter[Operation] = Counter()

    def replace(self, rules: Iterable[FaultRule], seed: int | None = None) -> None:
        """Switch on exactly these rules; a seed restarts the random numbers."""
        with self._lock:
            self._rules = list(rules)
            self._met = [0] * len(self._rules)
            if seed is not None:
                self._random.seed(seed)

    @property
    def names_folders(self) -> bool:
        """Whether a fault is switched on for the uploads into one folder."""
        return any(rule.folder is not None for rule in self._rules)

    def take(self, operation: Operation) -> Active:
        """Count a request; return the faults that hit it, and count them down."""
        with self._lock:
            self.requests[operation] += 1
            return self._hitting(operation, None)

    def constant(self, operation: Operation) -> Active:
        """Return the faults that hit every request for an operation until they are switched off; count nothing."""
        with self._lock:
            return {
                rule.kind: rule
                for rule in self._rules
                if rule.operation in (None, operation)
                and (rule.folder, rule.times, rule.every) == (None, None, 1)
                and rule.probability == 1
            }

    def take_for(self, folder: str) -> Active:
        """Return the faults that hit the upload into a folder besides those of `take`, and count them down."""
        with self._lock:
            return self._hitting(Operation.UPLOAD, folder)

    def _hitting(self, operation: Operation, folder: str | None) -> Active:
        active: dict[FaultKind, FaultRule] = {}
        for position, rule in enumerate(self._rules):
            if rule.times == 0 or rule.operation not in (None, operation) or rule.folder != folder:
                continue
            self._met[position] += 1
            if self._met[position] % rule.every:
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
    """Return a rule built from JSON values; raise UsageError that names the first mistake."""
    try:
        return TypeAdapter(FaultRule).validate_python(given)
    except ValidationError as exc:
        mistake = exc.errors(include_url=False)[0]
        name = str(mistake["loc"][0])
        known = ", ".join(field.name for field in fields(FaultRule))
        raise UsageError(
            f"A fault cannot have {name} {given.get(name)!r}", hint=f"{mistake['msg']}; its fields are {known}"
        ) from exc

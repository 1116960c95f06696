"""Keep what the service shows of kinds and metadata fields, and let one file of a new ending or field go first.

The first answer for an ending shows whether the guess of `core.kinds` holds. Until then, the other files of the ending
that send a description or keywords wait (the rule is in `decide`), because the names of these fields depend on the
kind, and an asset cannot be changed.

A file of another kind than a picture is never processed if it is sent with a field that the service does not have
(observed). So one such file with a new field goes alone until it is processed.
"""

import json
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from enum import Enum, auto
from typing import NamedTuple

import structlog

from assetsync.config.document.metadata import CUSTOM_FIELD
from assetsync.config.models import Service
from assetsync.core.kinds import PATIENCE, PAUSE, Ending, ending_of, guess_kind_of
from assetsync.core.names import printable
from assetsync.core.read_back import NEVER_PROCESSED, UNSEEN_PATIENCE
from assetsync.ledger.assets import Shown
from assetsync.ledger.file.facts import KINDS, NEW_FIELDS
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.rows import FileRow
from assetsync.model import Clock, State
from assetsync.sync.upload.facts import FieldShown

log = structlog.get_logger(__name__)

_MOST = 1000
"""The number of endings of which something is kept; `a.0001`, `a.0002` may be an ending each."""

_LONGEST = 32
"""The number of characters up to which the text after the last dot counts as an ending."""


class _First(NamedTuple):
    """The file of an ending that goes first, and since when one does (steady seconds).

    `asked` is when a file of the ending was prepared last.
    """

    id: int
    path: bytes
    since: float
    asked: float


class Kinds:
    """The kinds of files by ending: as configured, else as learned, else as guessed; shared by all threads."""

    def __init__(
        self, ledger: Ledger, clock: Clock, service: Service, *, is_leased: Callable[[int], bool] = lambda _id: False
    ) -> None:
        """Start with what the ledger keeps of this service; `is_leased` tells whether a row is with a worker."""
        self._ledger = ledger
        self._clock = clock
        self._is_leased = is_leased
        self._address = service.base_url
        self._configured = service.kinds
        self._fields_table = service.metadata_fields.table()
        self._lock = threading.Lock()
        kept = json.loads(ledger.reports.fact(KINDS) or "{}")
        # What was learned from another service says nothing about this one.
        endings = kept.get("endings", {}) if kept.get("address") == self._address else {}
        self._endings = {ending: Ending(**known) for ending, known in endings.items()}
        self._first: dict[str, _First] = {}
        self._unnamed: set[str] = set()  # endings whose last answer named no kind
        self._warned: set[str] = set()
        self._waits_until = 0.0

    def of(self, path: bytes) -> str:
        """Return the kind whose field names a file is sent with."""
        return self._rule(ending_of(path))

    def source_of(self, path: bytes) -> str:
        """Return where the kind of a file is from: `configured`, `learned` or `guessed`."""
        ending = ending_of(path)
        if ending in self._configured:
            return "configured"
        return "guessed" if self._own_rule(ending) is None else "learned"

    def may_misname(self, path: bytes, kind: str) -> bool:
        """Return whether a file that the service took for `kind` may have been sent with the names of another kind.

        If its ending has a rule of its own, the file may have been sent before that rule or after it.
        """
        table, ending = self._fields_table, ending_of(path)
        return kind in table and (self._own_rule(ending) is not None or table[kind] != table[guess_kind_of(ending)])

    def is_settled(self, path: bytes) -> bool:
        """Return whether no file of the ending has to go first."""
        ending = ending_of(path)
        if ending in self._configured or ending in self._unnamed or not self._is_learned(ending):
            return True
        return ending in self._endings and self._endings[ending].is_settled

    def first_before(self, row: FileRow) -> bytes | None:
        """Return the path of the file that goes before this one and shows its kind; None if this one may go.

        A file goes first while a worker has it. So another one takes its place once it is blocked, waits or fails.
        Without a first file, this one becomes it. None also if files of the ending have waited for `PATIENCE` seconds.
        """
        ending, now = ending_of(row.path), self._clock.steady()
        with self._lock:
            first = self._first.get(ending)
            if first is None or now - first.asked > PATIENCE:
                first = _First(row.id, row.path, now, now)
            elif first.id != row.id and not self._is_leased(first.id):
                first = _First(row.id, row.path, first.since, now)
            if len(self._first) >= _MOST:
                self._first.clear()
            self._first[ending] = first._replace(asked=now)
            if first.id == row.id or now - first.since >= PATIENCE:
                return None
            self._waits_until = now + PAUSE
            return first.path

    def has_waiting(self) -> bool:
        """Return whether files wait for a first one, and are looked at again within `PAUSE` seconds."""
        return self._clock.steady() < self._waits_until

    def answered(self, path: bytes, kind: str | None, *, depends_on_kind: bool) -> bool:
        """Learn from the kind in the answer to an accepted upload; None if the answer has none. Does not block.

        Return whether files of the ending have another kind from now on.
        `depends_on_kind`: the file was sent with fields whose names depend on its kind.
        """
        ending, table = ending_of(path), self._fields_table
        with self._lock:
            self._first.pop(ending, None)
            if kind not in table:
                if len(self._unnamed) < _MOST:
                    self._unnamed.add(ending)
                return False
            self._unnamed.discard(ending)
            rule = self._rule(ending)
            is_wrong = depends_on_kind and table[kind] != table[rule] and ending not in self._warned
            if is_wrong and len(self._warned) < _MOST:
                self._warned.add(ending)
            before = self._endings.get(ending, Ending())
            after = before
            if ending not in self._configured and self._is_learned(ending):
                after = before.answered(kind, rule, table)
            if after != before:
                self._endings[ending] = after
                self._keep()
        shown = printable(ending)
        if is_wrong:
            detail = (
                f"the service took it for {kind}, and its description and keywords have the field names of {rule}: if"
                f" it takes all .{shown} files for {kind}, set `kinds: {{{shown}: {kind}}}` in `service` of the"
                " configuration"
            )
            log.warning("another kind of asset", path=printable(path), ending=shown, kind=kind, detail=detail)
        if after.kind != before.kind:
            log.info("kind learned", ending=shown, kind=kind, was=rule)
        return after.kind != before.kind

    def _rule(self, ending: str) -> str:
        """Return the configured, learned or guessed kind of an ending."""
        return self._own_rule(ending) or guess_kind_of(ending)

    def _own_rule(self, ending: str) -> str | None:
        """Return the configured or learned kind of an ending, None if its kind is guessed."""
        known = self._endings.get(ending)
        return self._configured.get(ending) or (None if known is None else known.kind)

    def _is_learned(self, ending: str) -> bool:
        """Return whether anything is kept of an ending."""
        has_room = ending in self._endings or len(self._endings) < _MOST
        return 0 < len(ending) <= _LONGEST and has_room

    def _keep(self) -> None:
        """Queue the fact for the next commit. If that fails, only the next process has to learn it again."""
        endings = {ending: asdict(known) for ending, known in sorted(self._endings.items())}
        self._ledger.submit_fact(KINDS, json.dumps({"address": self._address, "endings": endings}))


_TRIES = 2
"""The number of files with a new field that may stay unprocessed before all others wait."""


class _Became(Enum):
    """What the upload of a file with a new field has shown."""

    PROCESSED = auto()
    UNPROCESSED = auto()
    OPEN = auto()
    NOTHING = auto()


class NewFields:
    """The fields with which the service has processed a file of a kind, and the files that try others; for all threads.

    Only custom fields and the fields in `names` may be new. A picture tries none, because it is processed with any.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        service: Service,
        kinds: Kinds,
        names: Collection[str] = (),
        *,
        is_leased: Callable[[int], bool] = lambda _id: False,
    ) -> None:
        """Start with what the ledger keeps of this service; `is_leased` tells whether a row is with a worker."""
        self._ledger = ledger
        self._clock = clock
        self._address = service.base_url
        self.kinds = kinds
        self._names = names
        self._is_leased = is_leased
        self._lock = threading.Lock()
        self._warned: set[str] = set()
        kept = json.loads(ledger.reports.fact(NEW_FIELDS) or "{}")
        is_same = kept.get("address") == self._address
        self._known: set[str] = set(kept["known"]) if is_same else set()
        # By field: the ids of the rows that try it, with the digest of the metadata that each was sent with.
        self._tried: dict[str, dict[int, str]] = {}
        for field, row_id, digest in kept["tried"] if is_same else ():
            self._tried.setdefault(field, {})[row_id] = digest

    def of(self, path: bytes, fields: Iterable[str]) -> list[str]:
        """Return those of a file's fields with which nothing of its kind was processed yet; none of a picture."""
        kind = self._kind_of(path)
        may_be_new = (name for name in fields if name.startswith(CUSTOM_FIELD) or name in self._names)
        return [] if kind == "img" else [name for name in may_be_new if f"{kind}:{name}" not in self._known]

    def first_before(self, row: FileRow, fields: Iterable[str], digest: str) -> FieldShown:
        """Return a new field of a file that others try, and these; without a name if this one may go, and try it.

        `digest` is that of the file's metadata.
        """
        new = self.of(row.path, fields)
        if not new:
            return FieldShown()
        with self._lock:
            before = self._record()
            shown = [self._shown(f"{self._kind_of(row.path)}:{name}", name, row.id) for name in new]
            waits = next((one for one in shown if one is not None), FieldShown())
            if waits.name is None:
                for field in [f"{self._kind_of(row.path)}:{name}" for name in self.of(row.path, new)]:
                    self._tried.setdefault(field, {})[row.id] = digest
            if (record := self._record()) != before:
                # It is on the disk with the intent at the latest.
                self._ledger.submit_fact(NEW_FIELDS, record)
        return waits

    def _kind_of(self, path: bytes) -> str:
        kind = self.kinds.of(path)
        return "doc" if kind == "other" else kind

    def _shown(self, field: str, name: str, row_id: int) -> FieldShown | None:
        """Return which other files a file has to wait for; None if it may try the field, or the field is known now."""
        became: dict[_Became, list[bytes]] = {each: [] for each in _Became}
        for other, digest in [*self._tried.get(field, {}).items()]:
            row = self._ledger.queue.version(other)
            if row is None or (what := self._became(row, digest)) is _Became.NOTHING:
                del self._tried[field][other]
            elif other != row_id or what is _Became.PROCESSED:
                became[what].append(row.path)
        if became[_Became.PROCESSED]:
            self._known.add(field)
            del self._tried[field]
            log.info("field known", field=name, path=printable(became[_Became.PROCESSED][0]))
        elif became[_Became.OPEN]:
            return FieldShown(name, became[_Became.OPEN])
        elif len(became[_Became.UNPROCESSED]) >= _TRIES:
            waits = FieldShown(name, became[_Became.UNPROCESSED], is_tried=True)
            if field not in self._warned:
                self._warned.add(field)
                by, after = [*map(printable, waits.by)], "files with this field wait; `assetsync explain` one of them"
                log.warning("nothing was processed with a field", field=name, by=by, next=after)
            return waits
        return None

    def _became(self, row: FileRow, digest: str) -> _Became:
        """Return what the upload of a row has shown of its fields."""
        if self._is_leased(row.id) and row.state is State.QUEUED:
            return _Became.OPEN
        if row.meta_digest != digest or row.state is State.QUEUED:
            # It is sent again, or was sent with other metadata since.
            return _Became.NOTHING
        if self._ledger.assets.shown([row]).get(row.assetid or "", Shown()).is_processed:
            return _Became.PROCESSED
        if row.state is State.BLOCKED and row.reason == NEVER_PROCESSED:
            return _Became.UNPROCESSED
        if row.state in (State.SENDING, State.IN_DOUBT):
            return _Became.OPEN
        if row.state is State.STORED:
            is_late = self._clock.now() - (row.uploaded_at or row.queued_at) >= UNSEEN_PATIENCE
            return _Became.UNPROCESSED if is_late and self._ledger.queue.is_overtaken(row.id) else _Became.OPEN
        return _Became.NOTHING

    def _record(self) -> str:
        tried = [(field, *each) for field, rows in sorted(self._tried.items()) for each in rows.items()]
        return json.dumps({"address": self._address, "known": sorted(self._known), "tried": tried})

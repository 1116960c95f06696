"""Keep what the answers of the service show of the kinds of its assets, and let one file of a new ending go first.

The first answer for an ending shows whether the guess of `core.kinds` holds. Until then, the other files of the ending
that send a description or keywords wait (the rule is in `decide`), because the names of these fields depend on the
kind, and an asset cannot be changed.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import NamedTuple

import structlog

from assetsync.config.models import Service
from assetsync.core.kinds import PATIENCE, PAUSE, Ending, ending_of, guess_kind_of
from assetsync.core.names import printable
from assetsync.ledger.file.facts import KINDS
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.rows import FileRow
from assetsync.model import Clock

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

"""Foresee what becomes of a file: the decision of `decide`, on what the ledger, the tree and its sidecars show.

The service is not asked, no file is read, and nothing is written. So the decision may be to gather the content first.
"""

from contextlib import suppress

from assetsync.core.mapping import Mappings
from assetsync.errors import FileUnreadable, RootMissing
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.rows import FileRow
from assetsync.model import Clock, FileStat, Mapping
from assetsync.sync.intake.sidecars import Sidecars
from assetsync.sync.upload.decide import Decision, Gather, decide
from assetsync.sync.upload.facts import (
    Absent,
    Content,
    Fact,
    Facts,
    FieldShown,
    KindShown,
    Listing,
    NothingEqual,
    Rules,
    Unreadable,
)
from assetsync.sync.upload.gather import SidecarStates, absent_at, facts_of
from assetsync.sync.upload.limits import SizeLimit
from assetsync.tree.safe_open import Tree


class Preview:
    """The decisions on files, without acting on them."""

    def __init__(
        self, ledger: Ledger, tree: Tree, clock: Clock, mappings: Mappings, sidecars: Sidecars, *, rules: Rules
    ) -> None:
        self._ledger = ledger
        self._tree = tree
        self._clock = clock
        self._mappings = mappings
        self._rules = rules
        self._sidecar_states = SidecarStates(tree, clock, sidecars, ledger.versions, rules.settle)

    def of(self, row: FileRow) -> Decision | Gather:
        """Return the decision on a file; Gather if its content decides whether it is sent."""
        facts = facts_of(row, self._mappings, self._rules, self._clock.now())
        facts.refused_size = SizeLimit(self._ledger, self._clock).refused(row.size)
        # Only the service, or the process that sends, knows the other answers.
        facts.listing, facts.kind, facts.new_field = Listing(), KindShown(), FieldShown()
        while isinstance(decision := decide(facts), Gather) and self._gather(decision.fact, facts):
            pass
        return decision

    def of_new(self, path: bytes, destfolderid: str) -> Decision | Gather:
        """Return the decision on a file that the ledger does not have; Gather as for `of`."""
        stat = FileStat(0, 0, 0, 0)
        with suppress(FileUnreadable, RootMissing):
            # The decision itself finds that the file is not there.
            stat = self._tree.lstat(path) or stat
        return self.of(FileRow.unsaved(path, stat, destfolderid, self._clock.now()))

    def _gather(self, fact: Fact, facts: Facts) -> bool:
        """Add a fact; return False if it would have to be read from the file or the service."""
        row, mapping = facts.row, facts.mapping
        assert mapping is not None, "no fact is needed on a file without a mapping"
        try:
            match fact:
                case Fact.PAST_UPLOADS:
                    facts.past_uploads = self._ledger.queue.uploads_of(row)
                case Fact.HAS_SIDECAR:
                    facts.has_sidecar = self._sidecar_states.of(row.path, mapping).has_own
                case Fact.DISK:
                    facts.disk = self._look(row, mapping)
                case Fact.CONTENT:
                    if self._ledger.equal_content.has_size(row.id, row.destfolderid, row.size):
                        return False
                    facts.content = Content(None)
                case Fact.EQUAL:
                    facts.equal = NothingEqual()
                    facts.replaces = self._ledger.reports.asset_before(row)
                case Fact.METADATA:
                    facts.sidecars = self._sidecar_states.of(row.path, mapping)
                case _:
                    raise AssertionError(f"{fact} is set from the start")
        except RootMissing:
            facts.disk = Absent.FOLDER
        return True

    def _look(self, row: FileRow, mapping: Mapping) -> FileStat | Absent | Unreadable:
        try:
            found = self._tree.lstat(row.path)
        except FileUnreadable as error:
            return Unreadable(str(error))
        if found is not None:
            return found
        return absent_at(self._tree, mapping.path)

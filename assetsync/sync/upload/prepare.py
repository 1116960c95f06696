"""Prepare a due file for its upload: have the facts gathered that `decide` asks for, and act on its decision.

Most files leave this module as `Ready`. The rules are left to `decide`, gathering facts to `gather`, the POST and its
result to `worker`.
"""

from collections.abc import Callable

import structlog

from assetsync.core.backoff import WELL_WITHIN
from assetsync.core.kinds import guess_kind
from assetsync.core.mapping import Mappings
from assetsync.core.names import is_cut_of, may_be_cut, printable
from assetsync.errors import ReadStopped, RootMissing, SidecarError
from assetsync.ledger.rows import FileRow
from assetsync.ledger.versions import NewVersion
from assetsync.model import Mapping
from assetsync.sync.context import Context
from assetsync.sync.intake.sidecars import Sidecars
from assetsync.sync.upload.decide import Block, Decision, Gather, Send, Vanished, Wait, decide
from assetsync.sync.upload.dedupe import Dedupe
from assetsync.sync.upload.facts import Adopt, Facts, Requeue, Rules, TakeOver
from assetsync.sync.upload.folder_listing import FolderListing
from assetsync.sync.upload.gather import Gathering, Ready, SidecarStates, Sources, facts_of
from assetsync.sync.upload.kinds import NewFields
from assetsync.sync.upload.limits import SizeLimit

log = structlog.get_logger(__name__)


class Preparer:
    """Preparation of one file after another; shared by all workers."""

    def __init__(
        self,
        context: Context,
        mappings: Mappings,
        sidecars: Sidecars,
        folder_listing: FolderListing,
        rules: Rules,
        *,
        new_fields: NewFields,
        size_limit: SizeLimit,
    ) -> None:
        self._context = context
        self._ledger = context.ledger
        self._clock = context.clock
        self._mappings = mappings
        self._sidecars = sidecars
        self._folder_listing = folder_listing
        self._rules = rules
        self._size_limit = size_limit
        self.dedupe = Dedupe(context, folder_listing)
        sidecar_states = SidecarStates(context.tree, context.clock, sidecars, context.ledger.versions, rules.settle)
        self._sources = Sources(context, sidecars, folder_listing, self.dedupe, new_fields, sidecar_states)

    def prepare(self, row: FileRow, before_wait: Callable[[], None] = lambda: None) -> Ready | None:
        """Return the file ready to be sent, or None if it waits, is blocked, or needs no upload.

        `before_wait` is called before each step that may take long. Raise ServiceError if the service does not answer,
        OutOfResources, and Unlisted while the folder still has to be listed before the first POST into it.
        """
        name = self._name_of(row)
        if name.casefold() != row.folded_name:
            # It was cut to another length when it was queued. No two files of a folder are sent under one name at once.
            self._ledger.queue.name(row.id, name)
            return None
        facts = facts_of(row, self._mappings, self._rules, self._clock.now())
        facts.refused_size = self._size_limit.refused(row.size)
        gathering = Gathering(self._sources, facts, name, before_wait)
        decision: Decision | Gather | None = None
        try:
            with self._folder_listing.announcing(before_wait):
                while isinstance(decision := decide(facts), Gather):
                    gathering.gather(decision.fact)
            if isinstance(decision, Send):
                return gathering.ready()
            self._act(facts, decision)
        except (ReadStopped, RootMissing):
            # The program stops, or the root was lost since the file was read: nothing is decided.
            decision = None
        finally:
            if not isinstance(decision, Send):
                gathering.close()
        return None

    def sidecars_changed(self, ready: Ready) -> bool:
        """Return whether any sidecar has changed since the metadata of the file was read."""
        return self._sidecars.cache.changes != ready.sidecar_changes

    def _name_of(self, row: FileRow) -> str:
        """Return the name to send: cut as it was for an asset of the path that the service has processed."""
        name, file_name = self._context.names_of_path(row.path)[0], row.path.rpartition(b"/")[2]
        kept = self._ledger.queue.verified_name(row.path) if may_be_cut(file_name) else None
        return name if kept is None or not is_cut_of(file_name, kept) else kept

    def _act(self, facts: Facts, decision: Decision) -> None:
        """Act on a decision other than Send; the ledger changes nothing if the row is no longer as it was read."""
        row, now, queue = facts.row, self._clock.now(), self._ledger.queue
        bound = log.bind(path=printable(row.path))
        match decision:
            case Wait(until, why, behind) if behind is not None:
                queue.postpone_behind(row, behind, now, until - now, why)
            case Wait(until, why, reason=reason):
                queue.postpone(row.id, until, why, reason)
                bound.debug("waits", why=why)
            case Block(reason, detail, due_at):
                queue.block(row.id, reason, detail, now, due_at=due_at)
                bound.warning("blocked", reason=reason, detail=detail)
            case TakeOver(old, md5):
                state = queue.take_over(row, old, md5, now)
                if state is not None:
                    self._context.progress.adopted()
                    bound.info("taken over", was=printable(old.path), assetid=old.assetid, state=state)
            case Adopt(assetid, md5, by_name):
                if queue.adopt(row, assetid, md5, self._metadata_digest(row, facts.mapping), now):
                    self._context.progress.adopted()
                    event = "adopted by name and size" if by_name else "adopted"
                    bound.info(event, assetid=assetid, destfolderid=row.destfolderid)
            case Requeue(found):
                version = NewVersion(row.path, found, row.destfolderid, row.folded_name, row.id)
                self._ledger.versions.enqueue([version], now, due_at=now + min(facts.settle, WELL_WITHIN))
                bound.debug("changed before it was sent")
            case Vanished():
                queue.vanished(row.id, now)
                bound.info("gone before it was sent")

    def _metadata_digest(self, row: FileRow, mapping: Mapping | None) -> str:
        """Return the metadata digest of a file that needs no upload; "" if its metadata cannot be read.

        No field is sent, so that the kind only has to stay the same: what is learned later must be no drift.
        """
        try:
            return "" if mapping is None else self._sidecars.metadata_of(row.path, mapping, guess_kind(row.path)).digest
        except SidecarError as error:
            after = "the file is adopted without a record of its metadata"
            log.warning("metadata cannot be read", path=printable(row.path), detail=str(error), next=after)
            return ""

"""Build all parts of a site from its configuration.

Driving them, in which order and for how long, is left to `reconcile`, the daemon and the simulation of the tests.
"""

import random
from dataclasses import dataclass, field
from functools import partial

import structlog

from assetsync.config.models import SiteConfig
from assetsync.config.schedule import Interval
from assetsync.core.backoff import WELL_WITHIN
from assetsync.core.mapping import Plan
from assetsync.core.read_back import INDEX_LAG, ReadBackWaits
from assetsync.core.settled import HOUR, KEEPS_CHANGING
from assetsync.ledger.file.facts import OUTLINE
from assetsync.ledger.ledger import Ledger
from assetsync.model import Clock, Meter, Service
from assetsync.parts import claim_of, make_plan, make_rules, make_tree
from assetsync.sync.awaited import AwaitedPaths
from assetsync.sync.brakes import Brakes
from assetsync.sync.context import Context, Heartbeat, NullMeter
from assetsync.sync.doubts.resolver import Resolver
from assetsync.sync.duplicate_sites import DuplicateSites
from assetsync.sync.gates import Gates
from assetsync.sync.intake.intake import Intake, IntakeRules
from assetsync.sync.intake.settling import Settling
from assetsync.sync.intake.sidecars import Recorded, SidecarCache, Sidecars, note_sidecar, processed_uploads
from assetsync.sync.lookup_gates import HealthCheck
from assetsync.sync.readback.archive_members import Members
from assetsync.sync.readback.auditor import Auditor, PendingAudits
from assetsync.sync.readback.budget import Budget
from assetsync.sync.readback.drift import Drift
from assetsync.sync.readback.indexer import Indexer
from assetsync.sync.readback.missing import MissingAssets
from assetsync.sync.readback.sent_metadata import SentMetadata
from assetsync.sync.readback.verifier import Verifier
from assetsync.sync.rescan import Rescan
from assetsync.sync.root_identity import RootIdentity
from assetsync.sync.runtime_state import RuntimeState
from assetsync.sync.service_identity import ServiceIdentity
from assetsync.sync.upload.folder_listing import FolderListing
from assetsync.sync.upload.kinds import Kinds, NewFields
from assetsync.sync.upload.limits import RateLimiter, SizeLimit
from assetsync.sync.upload.prepare import Preparer
from assetsync.sync.upload.queue import Selection, UploadQueue
from assetsync.sync.upload.results import ResultRecorder
from assetsync.sync.upload.uploader import Uploader
from assetsync.sync.upload.worker import UploadContext
from assetsync.sync.upload_address import UploadAddressCheck
from assetsync.text import printable

log = structlog.get_logger(__name__)

_SENT_AGAIN = ("unreadable", "sidecar")
"""Reasons for a block whose end no scan notices: these files are tried again at a scan or a start. A sidecar may have
been a folder or a pipe."""
_LOOKED_FOR_AGAIN = ("unprocessed",)
"""Reasons for a block that are looked up again: after a day the asset may be processed, or deleted."""
_MISSING_KEPT = 10_000
_LISTED = "each folder of the service is listed once before a file is sent into it, so that nothing is sent twice"


@dataclass(slots=True)
class Site:
    """The active parts of a site, ready to be driven."""

    config: SiteConfig
    context: Context
    service_identity: ServiceIdentity
    upload_address_check: UploadAddressCheck
    plan: Plan
    settling: Settling
    intake: Intake
    single_looks: Intake
    root_identity: RootIdentity
    brakes: Brakes
    folder_listing: FolderListing
    preparer: Preparer
    gates: Gates
    size_limit: SizeLimit
    upload_queue: UploadQueue
    uploads: UploadContext
    uploader: Uploader
    health_check: HealthCheck
    resolver: Resolver
    verifier: Verifier
    indexer: Indexer
    budget: Budget
    auditor: Auditor
    pending_audits: PendingAudits
    drift: Drift
    runtime_state: RuntimeState
    rescan: Rescan
    sidecars: Sidecars = field(repr=False)
    _waited: bool = field(default=False, init=False, repr=False)

    def begin(self) -> None:
        """Recover what the last process left unfinished; may be repeated if the ledger failed."""
        ledger, now = self.context.ledger, self.context.clock.now()
        record = self.config.outline_record
        if record != ledger.reports.fact(OUTLINE):
            ledger.set_fact(OUTLINE, record)
        ledger.folder_listings.spell(self.config.spelling)
        lost = ledger.attempt_results.recover(now)
        if lost:
            self.context.meter.doubted(lost)
            log.warning("in doubt after an unclean stop", files=lost, next="each is looked up before it is sent again")
        ledger.queue.release_folders(now)
        ledger.queue.sidecars_may_be_optional(now)
        self.indexer.begin()
        self.count_pauses()
        self.try_again()
        if ledger.restored:
            why = "it was restored from a backup, rolled back with its disk, copied here, or given another owner"
            log.warning("the ledger is an older copy, or was moved", why=why, next=_LISTED)
        elif ledger.unconfirmed:
            why = "the record of the last stop, which is kept outside of its disk, is missing or is another"
            log.info("the ledger may be an older copy", why=why, next=_LISTED)

    def try_again(self, *, only_due: bool = False) -> None:
        """Retry blocked files whose cause may be gone; with `only_due`, skip those that were tried just now.

        A file whose retry needs an upload stays blocked while nothing may be sent. Otherwise nothing would show whether
        it is still to be blocked, and no operator would see it in the meantime. `try_what_waited` retries it later.
        """
        reasons = list(_LOOKED_FOR_AGAIN)
        self._waited = not self._may_send()
        if not self._waited:
            reasons += _SENT_AGAIN
            # The current policy uploads changes that an earlier policy only reported.
            reasons += ["changed"] if self.config.policy.on_change == "upload" else []
        for reason in reasons:
            self.context.ledger.queue.retry_blocked(reason, self.context.clock.now(), only_due=only_due)

    def try_what_waited(self) -> bool:
        """Retry files that waited until sending is possible, or until they have rested.

        Return True if any were retried.
        """
        queue, now = self.context.ledger.queue, self.context.clock.now()
        has_rested = queue.has_blocked(KEEPS_CHANGING, now, longest=HOUR)
        is_limited = self.size_limit.certain is not None
        waited = self._waited or has_rested
        if not (waited or is_limited) or not self._may_send():
            return False
        is_tried = self.size_limit.retry_blocked()
        if has_rested:
            queue.retry_blocked(KEEPS_CHANGING, now, only_due=True, longest=HOUR)
        if self._waited:
            self.try_again(only_due=True)
        return is_tried or waited

    def retry_opened(self) -> None:
        """Retry files that could not be opened and can be now, while files can be sent."""
        if self._may_send():
            self.rescan.awaited.retry_opened()

    def count_pauses(self) -> bool:
        """Count the pauses by a person down; return whether any has ended."""
        over = self.context.ledger.pauses.count(self.context.clock)
        for pause in over:
            log.info("pause ended", path=printable(pause.path) or ".", who=pause.who)
        if over:
            self.upload_queue.clear()
        return bool(over)

    def _may_send(self) -> bool:
        """Return whether files can be sent: no outage, brake or person stops them, and the upload window is open."""
        return self.gates.closed is None and self.gates.may_send() and not self.brakes.pulled()

    def can_send(self) -> bool:
        """Return whether a file is being sent, or may be sent now."""
        return self._may_send() and not self.gates.is_full() and not self.uploads.selection.is_idle()

    def ran(self, job: str, began: float, *, idle: bool = False) -> None:
        """Record the end of regular work (index, verify or audit) that began at `began` (steady seconds).

        `idle`: nothing was due, so that the service was not asked.
        """
        seconds = self.context.clock.steady() - began
        self.context.ledger.runs.ended(job, self.context.clock.now(), seconds, idle=idle)
        self.context.meter.ran(job, seconds)


def build(
    config: SiteConfig,
    ledger: Ledger,
    service: Service,
    clock: Clock,
    chance: random.Random,
    *,
    heartbeat: Heartbeat | None = None,
    meter: Meter | None = None,
) -> Site:
    """Return a site with all its parts; `heartbeat` and `meter` receive signs of life and measurements if set."""
    plan = make_plan(config)
    folders = list(dict.fromkeys(mapping.destfolderid for mapping in plan.mappings.all))
    heartbeat = heartbeat or Heartbeat()
    service_identity = ServiceIdentity(service, ledger, clock, config.service.base_url, folders)
    context = Context(
        *(ledger, service_identity, make_tree(config), clock, chance),
        heartbeat=heartbeat,
        meter=meter or NullMeter(),
        longest_name=config.service.longest_name,
    )
    health_check = HealthCheck(service_identity, folders)
    workers = config.upload.workers
    most_long = workers - 1 if workers > 1 else None
    size_limit = SizeLimit(ledger, clock)
    upload_queue = UploadQueue(
        ledger, clock, plan.mappings.all, most_long=most_long, certain_size=lambda: size_limit.certain
    )
    folder_listing = FolderListing(
        context, health_check, service_identity.make_sure, upload_queue.is_leased, grace=config.upload.doubt_grace
    )
    kinds = Kinds(ledger, clock, config.service, is_leased=upload_queue.is_leased)
    new_fields = NewFields(
        ledger, clock, config.service, kinds, config.service.meta_fields, is_leased=upload_queue.is_leased
    )
    sidecar_cache = SidecarCache(context.heartbeat.tick)
    met = partial(note_sidecar, context, plan, sidecar_cache)
    field_names = config.service.field_names
    sidecars = Sidecars(
        *(context.tree, clock, field_names),
        kind_of=kinds.of,
        cache=sidecar_cache,
        met=met,
        recorded=Recorded(ledger.versions.xmp_endings, partial(processed_uploads, ledger, plan.mappings)),
    )

    # What the tree says becomes rows.
    brake, resend_moved = config.brake, config.policy.on_move == "upload"
    brakes = Brakes(context, plan, brake, resend_moved=resend_moved)
    sending = make_rules(config)
    settling = Settling()
    # Missing files above the limit are kept too: they are recorded after `resume`.
    rules = IntakeRules(sending.settles, resend_moved, max(brake.max_vanished, _MISSING_KEPT))
    # Scans and looks at single paths use separate intakes: they run side by side and meet in the ledger.
    intake, single_looks = (
        Intake(context, plan, settling, rules, guard=brakes, sidecar_cache=sidecar_cache) for _ in range(2)
    )

    # Queued files are sent.
    preparer = Preparer(
        *(context, plan.mappings, sidecars, folder_listing, sending), new_fields=new_fields, size_limit=size_limit
    )
    gates = Gates(config, context, health_check, folder_listing.closed)
    selection = Selection(upload_queue, gates, has_waiting=kinds.has_waiting)
    uploads = UploadContext(
        context,
        gates,
        preparer,
        selection,
        ResultRecorder(context, gates, selection, kinds, size_limit),
        None if config.upload.rate is None else RateLimiter(config.upload.rate, clock, heartbeat.tick),
    )

    # Stored files are read back.
    index, verify = config.schedule.index, config.schedule.verify
    indexes = index is not None and config.policy.verified_when == "findable"
    # A cron line defines when the daemon's job runs; whatever is due by then has waited for at least a minute.
    interval = (index.seconds if isinstance(index, Interval) else 60.0) if indexes else None
    refuses_index = service_identity.everywhere.refuses_index
    indexer = Indexer(context, interval=interval, refuses=refuses_index)
    drift = Drift(context, plan, sidecars, resend_moved=resend_moved)
    sent_metadata = SentMetadata(context, plan, sidecars, new_fields.of)

    root_identity = RootIdentity(context, plan, DuplicateSites(ledger, clock, config.ledger, claim_of(config)))
    runtime_state = RuntimeState(
        context,
        gates,
        settling,
        folder_listing,
        may_send=lambda: gates.may_send() and not brakes.pulled(),
    )
    return Site(
        config=config,
        context=context,
        service_identity=service_identity,
        upload_address_check=UploadAddressCheck(service_identity, ledger, clock, config.service.upload_url),
        plan=plan,
        settling=settling,
        intake=intake,
        single_looks=single_looks,
        root_identity=root_identity,
        brakes=brakes,
        folder_listing=folder_listing,
        preparer=preparer,
        gates=gates,
        size_limit=size_limit,
        upload_queue=upload_queue,
        uploads=uploads,
        uploader=Uploader(uploads, workers=workers),
        health_check=health_check,
        resolver=Resolver(
            context,
            health_check,
            grace=config.upload.doubt_grace,
            lag=config.upload.longest_lag,
            read_timeout=config.service.read_timeout,
        ),
        verifier=Verifier(
            context,
            health_check,
            waits=ReadBackWaits(
                longest=min(verify.seconds, WELL_WITHIN) if isinstance(verify, Interval) else 300.0,
                # The indexer asks for an asset only after the database has shown it.
                index_lag=min(INDEX_LAG, indexer.interval or INDEX_LAG),
                unprocessed_after=config.policy.unprocessed_after,
            ),
            needs_index=lambda: indexes and not indexer.stopped and not refuses_index(),
            misnames=kinds.may_misname,
            sent_metadata=sent_metadata,
        ),
        indexer=indexer,
        budget=Budget(clock.steady),
        auditor=Auditor(
            context,
            Members(context, plan.mappings, sidecars),
            MissingAssets(
                context,
                resend=config.policy.on_remote_missing == "upload",
                mapped={mapping.destfolderid for mapping in plan.mappings.all},
            ),
            sent_metadata,
        ),
        pending_audits=PendingAudits(ledger, clock, folders),
        drift=drift,
        runtime_state=runtime_state,
        rescan=Rescan(
            context,
            plan,
            intake,
            single_looks,
            root_identity,
            brakes,
            runtime_state,
            drift,
            AwaitedPaths(context, plan, single_looks.unexamined),
            config.ledger.parent,
        ),
        sidecars=sidecars,
    )

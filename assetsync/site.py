"""One site put together: every part of the flow, built from a configuration and the edges.

Who drives them, in which order and for how long, is left to `reconcile`, the daemon and the simulation of the tests.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog
from pydantic import SecretStr

from assetsync.config.models import SiteConfig, mappings
from assetsync.config.schedule import Interval
from assetsync.core.backoff import WELL_WITHIN
from assetsync.core.decide import HOUR, KEEPS_CHANGING
from assetsync.core.doubt import MostDoubts
from assetsync.core.mapping import Mappings
from assetsync.errors import ServiceElsewhere, ServiceError
from assetsync.flow.audit import Auditor
from assetsync.flow.beside import note_sidecar
from assetsync.flow.brake import Brakes, Limits
from assetsync.flow.contact import Contact
from assetsync.flow.crew import Crew
from assetsync.flow.drift import Drift
from assetsync.flow.edges import Edges
from assetsync.flow.feed import Feed
from assetsync.flow.gate import Gate
from assetsync.flow.index import Indexer
from assetsync.flow.installation import Installation
from assetsync.flow.intake import Intake
from assetsync.flow.members import Members
from assetsync.flow.missing import Missing
from assetsync.flow.noting import Noting
from assetsync.flow.owed import Owed
from assetsync.flow.pace import Throttle
from assetsync.flow.place import Place
from assetsync.flow.plan import Plan
from assetsync.flow.prepare import Preparer, Rules
from assetsync.flow.probe import Probe
from assetsync.flow.rescan import Rescan
from assetsync.flow.resolve import Resolver
from assetsync.flow.send import Sender
from assetsync.flow.settle import Settling
from assetsync.flow.told import Sidecars
from assetsync.flow.trouble import describe
from assetsync.flow.twins import Twins, make_claim
from assetsync.flow.unmetered import Unmetered
from assetsync.flow.verify import Verifier
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.neighbours import Claim
from assetsync.model import Clock, Meter, Service
from assetsync.service.client import HttpService, ServiceSettings
from assetsync.tree.opening import Tree
from assetsync.tree.place import is_network_filesystem, network_mounts

log = structlog.get_logger(__name__)

_SENT_AGAIN = ("unreadable", "sidecar")
"""What blocks a file until something changes that no scan takes note of: these are tried again, at a scan or a start.

A sidecar may have been a folder or a pipe.
"""
_LOOKED_FOR_AGAIN = ("unprocessed",)
"""So is what may be processed, or taken away, after a day."""
_NETWORK_SETTLE = 60.0
_MISSING_KEPT = 10_000


@dataclass(slots=True)
class Site:
    """The parts of one site that act, ready to be driven."""

    config: SiteConfig
    edges: Edges
    installation: Installation
    plan: Plan
    settling: Settling
    intake: Intake
    looking: Intake
    place: Place
    brakes: Brakes
    contact: Contact
    preparer: Preparer
    gate: Gate
    feed: Feed
    sender: Sender
    prober: Probe
    resolver: Resolver
    verifier: Verifier
    indexer: Indexer
    auditor: Auditor
    owed: Owed
    drift: Drift
    noting: Noting
    rescan: Rescan
    sidecars: Sidecars = field(repr=False)
    _waited: bool = field(default=False, init=False, repr=False)

    def begin(self) -> None:
        """Settle what the last process left behind; may be repeated where the ledger failed."""
        ledger, now = self.edges.ledger, self.edges.clock.now()
        lost = ledger.outcomes.recover(now)
        if lost:
            self.edges.meter.doubted(lost)
            log.warning("in doubt after an unclean stop", files=lost)
        ledger.queue.release_folders(now)
        self.indexer.begin()
        self.try_again()
        if ledger.restored:
            log.warning(
                "the ledger is not as its last start left it: put back from a backup, rolled back with its disk, copied"
                " here, or given another owner? every folder is listed once"
            )
        elif ledger.unconfirmed:
            log.info("nothing outside the ledger's disk confirms its last clean stop: every folder is listed once")

    def try_again(self, *, only_due: bool = False) -> None:
        """Let files go on that may not be blocked any more; `only_due` leaves those that were tried just now.

        What would have to be sent for that stays blocked while nothing may be sent: nobody would find out that it is
        still to be blocked, and a person is not told of it meanwhile. `try_what_waited` lets it go on.
        """
        reasons = list(_LOOKED_FOR_AGAIN)
        self._waited = not self._may_send()
        if not self._waited:
            reasons += _SENT_AGAIN
            # What was only reported by the policy that was, another sends.
            reasons += ["changed"] if self.config.policy.on_change == "upload" else []
        for reason in reasons:
            self.edges.ledger.queue.retry_blocked(reason, self.edges.clock.now(), only_due=only_due)

    def try_what_waited(self) -> bool:
        """Let go on what waited to be tried again until something may be sent, or has rested; True when it went on."""
        queue, now = self.edges.ledger.queue, self.edges.clock.now()
        has_rested = queue.has_blocked(KEEPS_CHANGING, now, longest=HOUR)
        if not (self._waited or has_rested) or not self._may_send():
            return False
        if has_rested:
            queue.retry_blocked(KEEPS_CHANGING, now, only_due=True, longest=HOUR)
        if self._waited:
            self.try_again(only_due=True)
        return True

    def _may_send(self) -> bool:
        """Whether nothing keeps files from being sent: a pause, a brake, or a window that is shut."""
        return self.gate.pause is None and self.sender.poster.may_send() and not self.brakes.pulled()

    def ran(self, job: str, began: float) -> None:
        """Write down that regular work which `began` then (steady seconds) came to its end: index, verify or audit."""
        seconds = self.edges.clock.steady() - began
        self.edges.ledger.runs.ended(job, self.edges.clock.now(), seconds)
        self.edges.meter.ran(job, seconds)

    def probe(self) -> bool:
        """Ask the service for next to nothing, to see whether it answers; during a pause this ends or prolongs it."""
        try:
            self.prober.ask()
        except ServiceElsewhere:
            # It answers: what is waited for is a person.
            self.gate.answered()
            return True
        except ServiceError as error:
            reason, retry_after = describe(error)
            self.gate.trouble(reason, str(error), retry_after, probed=True)
            return False
        self.gate.answered()
        return True


def make_service(config: SiteConfig, key: SecretStr) -> HttpService:
    """Make the client for a configuration."""
    service = config.service
    return HttpService(
        ServiceSettings(
            base_url=service.base_url,
            upload_url=service.upload_url,
            api_key=key,
            credential=service.credential,
            ca_file=str(service.ca_file) if service.ca_file else None,
            proxy=service.proxy,
            connect_timeout=service.connect_timeout,
            read_timeout=service.read_timeout,
        )
    )


def service_address(config: SiteConfig) -> str:
    """Give the address by which the ledger knows the service."""
    return config.service.base_url.rstrip("/")


def claim_of(config: SiteConfig) -> Claim:
    """Give what a configuration says the site mirrors."""
    folders = {mapping.path: mapping.destfolderid for mapping in mappings(config)}
    return make_claim(bytes(config.root), service_address(config), folders, config.ledger)


def make_tree(config: SiteConfig) -> Tree:
    """Make the tree of a configuration; the root need not be there."""
    return Tree(bytes(config.root), follow_symlinks=config.watch.follow_symlinks)


def make_plan(config: SiteConfig) -> Plan:
    """Make the plan of what is mapped and ignored."""
    return Plan(Mappings(mappings(config)), config.ignore)


def settle_of(config: SiteConfig) -> float:
    """Give the seconds for which a file must rest; more on network file systems, whose times and events lag."""
    return _settle_there(config, [config.watch.settle])[0]


def _settle_there(config: SiteConfig, settles: Iterable[float]) -> list[float]:
    root = bytes(config.root)
    remote = is_network_filesystem(root) or bool(network_mounts(root))
    return [max(settle, _NETWORK_SETTLE) if settle and remote else settle for settle in settles]


def build(
    config: SiteConfig,
    ledger: Ledger,
    service: Service,
    clock: Clock,
    chance: random.Random,
    *,
    tick: Callable[[], bool] = lambda: False,
    meter: Meter | None = None,
) -> Site:
    """Put a site together; `tick` as in `Edges`, `meter` where somebody measures."""
    plan = make_plan(config)
    folders = list(dict.fromkeys(mapping.destfolderid for mapping in plan.mappings.all))
    installation = Installation(service, ledger, clock, service_address(config), folders)
    edges = Edges(ledger, installation, make_tree(config), clock, chance, tick=tick, meter=meter or Unmetered())
    settle, *settles = _settle_there(config, [config.watch.settle, *(mapping.settle for mapping in plan.mappings.all)])
    settling = Settling(settle)
    gate = Gate(clock.steady, chance.random)
    prober = Probe(installation, folders)
    contact = Contact(edges, prober, installation.make_sure)
    workers = config.upload.workers
    feed = Feed(ledger, clock, most_long=workers - 1 if workers > 1 else None)
    sidecars = Sidecars(edges.tree, clock, config.service.metadata_fields.table())
    sidecars.met = lambda path: note_sidecar(edges, plan, sidecars, path)
    preparer = Preparer(
        edges,
        plan.mappings,
        sidecars,
        contact,
        Rules(
            settle=settle,
            settles=settles,
            sidecar_wait=config.watch.sidecar_wait,
            max_file_size=config.upload.max_file_size,
            resend_changed=config.policy.on_change == "upload",
        ),
    )

    resend_moved = config.policy.on_move == "upload"
    limits = Limits(config.brake.max_new_files, config.brake.max_vanished, resend_moved)
    brakes = Brakes(edges, plan, limits, contact.list_again)

    def make_intake() -> Intake:
        made = Intake(
            edges,
            plan,
            settling,
            settles=settles,
            resend_moved=resend_moved,
            # Above the limit too: after `resume` they are to be recorded.
            most_missing=max(config.brake.max_vanished, _MISSING_KEPT),
            forget=sidecars.forget,
        )
        made.allows_takeover = brakes.allows_takeover
        return made

    index, verify = config.schedule.index, config.schedule.verify
    indexes = index is not None and config.policy.verified_when == "findable"
    window = config.upload.window
    # A cron line says when the daemon's job runs; what is due by then has waited a minute at least.
    indexer = Indexer(edges, interval=(index.seconds if isinstance(index, Interval) else 60.0) if indexes else None)
    # One for scans and one for single looks: they go on side by side, and meet in the ledger.
    intake, looking = make_intake(), make_intake()
    place = Place(edges, plan, Twins(ledger, clock, config.ledger, claim_of(config)))
    noting = Noting(edges, gate, settling)
    drift = Drift(edges, plan, sidecars, resend_moved=resend_moved)
    sender = Sender(
        edges,
        preparer,
        gate,
        feed,
        Crew(workers, clock.steady, together=config.upload.rate is None),
        most_doubts=MostDoubts.of(config.upload.workers, len(folders)),
        throttle=None if config.upload.rate is None else Throttle(config.upload.rate, clock, tick),
    )
    sender.poster.may_send = lambda: window is None or window.opens(clock.now()) is None
    return Site(
        config=config,
        edges=edges,
        installation=installation,
        plan=plan,
        settling=settling,
        intake=intake,
        looking=looking,
        place=place,
        brakes=brakes,
        contact=contact,
        preparer=preparer,
        gate=gate,
        feed=feed,
        sender=sender,
        prober=prober,
        resolver=Resolver(
            edges,
            prober,
            grace=config.upload.doubt_grace,
            lag=config.upload.longest_lag,
            read_timeout=config.service.read_timeout,
        ),
        verifier=Verifier(
            edges,
            prober,
            longest=min(verify.seconds, WELL_WITHIN) if isinstance(verify, Interval) else 300.0,
            needs_index=lambda: indexes and not indexer.stopped,
            misnames=sidecars.misnames,
        ),
        indexer=indexer,
        auditor=Auditor(
            edges,
            Members(edges, plan.mappings, sidecars),
            Missing(
                edges,
                brakes,
                resend=config.policy.on_remote_missing == "upload",
                mapped={mapping.destfolderid for mapping in plan.mappings.all},
            ),
        ),
        owed=Owed(ledger, clock, folders),
        drift=drift,
        noting=noting,
        rescan=Rescan(edges, plan, intake, looking, place, brakes, noting, drift, config.ledger.parent),
        sidecars=sidecars,
    )

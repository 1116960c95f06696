"""Send the messages of one site through the configured channels.

The ledger records the sent messages, only once no message waits for delivery: after a crash a message may be delivered
twice, but none is lost. Reading the trouble is left to `facts`, the choice of messages to `core.notices`, delivery to
`channel`.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import structlog
from pydantic import SecretStr

from assetsync.app import Site
from assetsync.config.models import SiteConfig
from assetsync.core.names import printable
from assetsync.core.notices import Kind, Notice, Teller, Trouble
from assetsync.errors import LedgerDamaged, LedgerError, ServiceError
from assetsync.ledger.ledger import Ledger
from assetsync.log import register_password, register_secret
from assetsync.model import Clock
from assetsync.notify.channel import Channel, Undelivered
from assetsync.notify.command import Command, encoded
from assetsync.notify.facts import Facts
from assetsync.service.webhook import Webhook

log = structlog.get_logger(__name__)

TOLD = "told"
"""The name of the ledger metadata that holds the state of `Teller`: the trouble already reported."""

EVERY = 2.0
"""Seconds between two reads of the current trouble."""

# A shorter path may be a word (`/assetsync`, `/blocked`) that the page and its JSON contain themselves.
_LEAST_SECRET = 16
_PATIENCE = 40.0  # longer than a command or an answer may take


class Way(Protocol):
    """A receiver of messages outside."""

    def __call__(self, notice: Notice) -> None:
        """Deliver a message. Raises Undelivered."""

    def cut(self) -> None:
        """End anything that a delivery started and that would outlive this process; any thread may call this."""


def senders(config: SiteConfig, environ: Mapping[str, str]) -> dict[str, Way]:
    """Return the configured receivers, by their keys below `notify`. Raises ConfigError."""
    found: dict[str, Way] = {}
    if config.notify.webhook is not None:
        for secret in _secrets_of(config.notify.webhook):
            register_secret(SecretStr(secret))
        register_password(config.notify.webhook)
        ca_file = str(config.service.ca_file) if config.service.ca_file else None
        found["webhook"] = _Posting(Webhook(config.notify.webhook, ca_file=ca_file, proxy=config.service.proxy))
    if config.notify.command:
        found["command"] = Command(config.notify.command, environ)
    return found


def _secrets_of(address: str) -> Iterator[str]:
    """Yield the secret parts of a webhook's address: anyone who knows them may post there.

    A traceback of the transport may contain them.
    """
    if len(address) >= _LEAST_SECRET:
        yield address
    path = address.partition("://")[2].partition("/")[2]
    if len(path) >= _LEAST_SECRET:
        yield path


class _Posting:
    def __init__(self, webhook: Webhook) -> None:
        self._webhook = webhook

    def __call__(self, notice: Notice) -> None:
        try:
            self._webhook.post(encoded(notice))
        except ServiceError as error:
            raise Undelivered(f"notify.webhook: {error.message}") from error

    def cut(self) -> None:
        """Do nothing: no part of a connection outlives this process."""


class Outlet:
    """The channels of a site, each with its own thread; without channels nothing is sent."""

    def __init__(self, ways: Mapping[str, Way], *, failed: Callable[[BaseException], None], **how: Any) -> None:
        """Start a thread for each receiver; `how` are further arguments of `Channel`."""
        self._ways = ways
        self._channels = [Channel(name, send, failed=failed, **how) for name, send in ways.items()]
        for channel in self._channels:
            channel.start()

    def __bool__(self) -> bool:
        """Whether there is a channel."""
        return bool(self._channels)

    @property
    def idle(self) -> bool:
        """Whether no message waits for delivery."""
        return all(channel.idle for channel in self._channels)

    def post(self, notice: Notice) -> None:
        """Queue a message in every channel."""
        log.info("telling", about=str(notice.kind), over=notice.is_over, text=notice.text)
        for channel in self._channels:
            channel.post(notice)

    def ended(self, teller: Teller, error: BaseException, clock: Clock) -> None:
        """Report that an error ends the program, unless `teller` reported that shortly before."""
        what = {type(error).__name__: printable(str(error)) or type(error).__name__}
        for notice in teller.step([Trouble(Kind.ENDED, what, 1)], clock.now(), clock.steady(), gather=0.0):
            self.post(notice)

    def waits(self, teller: Teller, why: str | None, clock: Clock) -> None:
        """Report that the start waits for the ledger, before it can record messages; with None, that this is over."""
        if not self:
            return
        items = {} if why is None else {"ledger": printable(why)}
        for notice in teller.step([Trouble(Kind.LEDGER, items, len(items))], clock.now(), clock.steady(), quiet=0.0):
            self.post(notice)

    def close(self, patience: float) -> bool:
        """Deliver the waiting messages within `patience` seconds; return False if messages are left.

        A program of `notify.command` that still runs then is killed.
        """
        until = time.monotonic() + patience
        for channel in self._channels:
            channel.finish()
        for channel in self._channels:
            channel.join(max(0.0, until - time.monotonic()))
        left = not self.idle
        for way in self._ways.values():
            way.cut()
        return not left


class News:
    """The messages of one site while this process holds its ledger."""

    def __init__(self, site: str, ledger: Ledger, clock: Clock, facts: Facts, outlet: Outlet) -> None:
        self._ledger = ledger
        self._clock = clock
        self._facts = facts
        self._outlet = outlet
        self._kept = ledger.reports.fact(TOLD)
        self._teller = Teller(site, self._kept)

    def step(self) -> float:
        """Read the trouble, send due messages and return the seconds until the next step. Raises LedgerDamaged."""
        self._tell({})
        return EVERY

    def last(self) -> None:
        """Report the current trouble at once: after a single run no further step follows. Raises LedgerDamaged."""
        self._tell({"gather": 0.0, "quiet": 0.0})

    def ended(self, error: BaseException) -> None:
        """Report that an error ends the program."""
        self._outlet.ended(self._teller, error, self._clock)

    def keep(self) -> None:
        """Record the reported trouble, if every message was delivered or given up. Raises LedgerDamaged.

        If the ledger cannot be written, the next call retries.
        """
        kept = self._teller.kept()
        if kept == self._kept or not self._outlet.idle:
            return
        try:
            self._ledger.set_fact(TOLD, kept)
        except LedgerDamaged:
            raise
        except LedgerError as error:
            log.debug("what was told is not written down yet", detail=str(error))
            return
        self._kept = kept

    def _tell(self, patience: dict[str, float]) -> None:
        troubles = self._facts.look(self._teller.keys(Kind.BLOCKED))
        for notice in self._teller.step(troubles, self._clock.now(), self._clock.steady(), **patience):
            self._outlet.post(notice)
        self.keep()


def tell_once(site: Site, environ: Mapping[str, str], *, patience: float = _PATIENCE) -> bool:
    """Report the current trouble at the end of a single run; return False if messages are left.

    Delivery takes at most `patience` seconds. A pause that ended the run counts as an outage at once, because the next
    run may be an hour away. Raises LedgerDamaged, and ConfigError as `senders` does.
    """
    context = site.context
    outlet = Outlet(senders(site.config, environ), failed=_log_failure)
    if not outlet:
        return True
    facts = Facts(
        context.ledger, context.clock, pause=lambda: site.circuit_breaker.pause, waiting=lambda: None, outage=0.0
    )
    news = News(site.config.site, context.ledger, context.clock, facts, outlet)
    news.last()
    delivered = outlet.close(patience)
    if not delivered:
        log.warning("messages are left undelivered: the next run tells them")
    news.keep()
    return delivered


def _log_failure(error: BaseException) -> None:
    log.error("a channel of messages ends because of an unforeseen error", exc_info=error)

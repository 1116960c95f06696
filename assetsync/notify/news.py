"""The messages of one site: the configured channels, and the step that leaves what is to be told with them.

What was told is a fact of the ledger, written only once nothing waits for its delivery: after a crash a message may be
delivered twice, and none is forgotten.
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
"""The ledger's fact that holds what was told."""

EVERY = 2.0
"""Seconds between two looks at what stands."""

# A shorter path is a word (`/assetsync`, `/blocked`) that the page and its JSON need themselves.
_LEAST_SECRET = 16
_PATIENCE = 40.0  # longer than a command or an answer may take


class Way(Protocol):
    """A way to the outside."""

    def __call__(self, notice: Notice) -> None:
        """Deliver a message; raises Undelivered."""

    def cut(self) -> None:
        """Let go of what a delivery has begun and would outlive this process; any thread may call it."""


def senders(config: SiteConfig, environ: Mapping[str, str]) -> dict[str, Way]:
    """Give the ways to the outside that are configured, by their keys below `notify`. Raises ConfigError."""
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
    """Give what of a webhook's address must not be shown: whoever knows it may post there.

    A traceback of the transport could hold it.
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
        """Nothing of a connection outlives this process."""


class Outlet:
    """The channels of a site, each on its thread; without any, nothing is told and nothing costs."""

    def __init__(self, ways: Mapping[str, Way], *, failed: Callable[[BaseException], None], **how: Any) -> None:
        """Start a thread for each way; `how` goes to the channels."""
        self._ways = ways
        self._channels = [Channel(name, send, failed=failed, **how) for name, send in ways.items()]
        for channel in self._channels:
            channel.start()

    def __bool__(self) -> bool:
        """Whether anyone is told anything."""
        return bool(self._channels)

    @property
    def idle(self) -> bool:
        """Whether nothing waits for its delivery."""
        return all(channel.idle for channel in self._channels)

    def post(self, notice: Notice) -> None:
        """Leave a message with every channel."""
        log.info("telling", about=str(notice.kind), over=notice.is_over, text=notice.text)
        for channel in self._channels:
            channel.post(notice)

    def ended(self, teller: Teller, error: BaseException, clock: Clock) -> None:
        """Tell that the program ends because of an error, unless it was told a moment ago."""
        what = {type(error).__name__: printable(str(error)) or type(error).__name__}
        for notice in teller.step([Trouble(Kind.ENDED, what, 1)], clock.now(), clock.steady(), gather=0.0):
            self.post(notice)

    def waits(self, teller: Teller, why: str | None, clock: Clock) -> None:
        """Tell that all waits for the ledger, before there is one to remember it; None says that this is over."""
        if not self:
            return
        items = {} if why is None else {"ledger": printable(why)}
        for notice in teller.step([Trouble(Kind.LEDGER, items, len(items))], clock.now(), clock.steady(), quiet=0.0):
            self.post(notice)

    def close(self, patience: float) -> bool:
        """Deliver what waits within so many seconds, each channel by itself; False when something was left.

        A program that still runs then is killed.
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
    """Tells of one site while its ledger is held."""

    def __init__(self, site: str, ledger: Ledger, clock: Clock, facts: Facts, outlet: Outlet) -> None:
        self._ledger = ledger
        self._clock = clock
        self._facts = facts
        self._outlet = outlet
        self._kept = ledger.reports.fact(TOLD)
        self._teller = Teller(site, self._kept)

    def step(self) -> float:
        """Look, tell what is due, and give the seconds until the next look. Raises LedgerDamaged."""
        self._tell({})
        return EVERY

    def last(self) -> None:
        """Tell at once what stands, at the end of a run that will not come back to it. Raises LedgerDamaged."""
        self._tell({"gather": 0.0, "quiet": 0.0})

    def ended(self, error: BaseException) -> None:
        """Tell that the program ends because of an error."""
        self._outlet.ended(self._teller, error, self._clock)

    def keep(self) -> None:
        """Write down what was told, if all of it was delivered. Raises LedgerDamaged."""
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
    """Tell at the end of a single run what stands, waiting no longer than `patience` seconds; False if that was short.

    What the run gave up on counts as an outage at once: the next run may be an hour away. Raises LedgerDamaged, and
    ConfigError as `senders` does.
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

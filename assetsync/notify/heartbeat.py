"""Send heartbeats to a monitor, which reports a machine that died because they stay away (`notify.heartbeat`).

Nothing waits for the monitor: a heartbeat that cannot be sent is logged once until one can be sent again, and the next
is sent at its time. No message names a file. The address is a secret. Judging the site is left to the callers.
"""

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import structlog
from pydantic import SecretStr

from assetsync.config.key import read_heartbeat
from assetsync.config.models import SiteConfig
from assetsync.errors import ServiceError
from assetsync.log import redact, register_address
from assetsync.model import Clock
from assetsync.notify.channel import Undelivered
from assetsync.service.webhook import Webhook

log = structlog.get_logger(__name__)

LEDGER = "the ledger cannot be used"
"""The failure of a site whose ledger cannot be read or written."""

_FIRST = 60.0
"""Seconds until the first heartbeat at most: a daemon that ends soon after each of its starts sends none."""

_PATIENCE = 10.0
_LONGEST = 200


class Vitals(NamedTuple):
    """Whether the site lives, and why it cannot mirror although it may live, "" if it can."""

    lives: bool
    failure: str = ""


class Ping(NamedTuple):
    """One heartbeat as a request: a GET, or a POST if there is a text."""

    url: str
    text: str = ""


def ping_of(style: str, url: str, vitals: Vitals, site: str) -> Ping | None:
    """Return the ping that reports the vitals in a `notify.heartbeat_style`, None if nothing is to be sent."""
    text = f"{site}: {redact(vitals.failure)}"
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    if vitals.failure and style == "healthchecks":
        return Ping(_below(url, "fail"), text)
    if vitals.failure and style == "kuma":
        return Ping(_with_query(url, status="down", msg=text))
    return _sign_of_life(style, url) if vitals.lives else None


def _sign_of_life(style: str, url: str) -> Ping:
    return Ping(_with_query(url, status="up", msg="OK") if style == "kuma" else url)


def _below(url: str, word: str) -> str:
    parts = urlsplit(url)
    return parts._replace(path=f"{parts.path.rstrip('/')}/{word}").geturl()


def _with_query(url: str, **fields: str) -> str:
    return urlsplit(url)._replace(query=urlencode(fields | {"ping": ""})).geturl()


class Monitor:
    """The monitor of one site: a daemon sends heartbeats by `start`, a single run by `begin` and `end`."""

    def __init__(self, config: SiteConfig, address: SecretStr) -> None:
        """Open no connection yet. Raise ConfigError."""
        url = address.get_secret_value()
        register_address(url)
        proxy, ca_file = config.service.proxy, str(config.service.ca_file) if config.service.ca_file else None
        self._webhook = Webhook(url, "notify.heartbeat", ca_file=ca_file, proxy=proxy, patience=_PATIENCE)
        self._url, self._site = url, config.site
        self._style, self._every = config.notify.heartbeat_style, config.notify.heartbeat_every
        self._begun: threading.Thread | None = None
        self._fails = False

    def start(self, look: Callable[[], Vitals], clock: Clock) -> None:
        """Send what `look` returns again and again, in a thread of its own, until the clock's stop."""
        _in_thread(partial(self._repeat, look, clock))

    def _repeat(self, look: Callable[[], Vitals], clock: Clock) -> None:
        pause = min(_FIRST, self._every)
        while not clock.wait(pause):
            vitals = look()
            # During a stop the vitals are those of a site that ends.
            if not clock.wait(0):
                self._send(ping_of(self._style, self._url, vitals, self._site))
            pause = self._every

    def begin(self) -> None:
        """Report that a run begins, if the style can, in a thread of its own."""
        if self._style == "healthchecks":
            self._begun = _in_thread(partial(self._send, Ping(_below(self._url, "start"))))

    def end(self, *, lives: bool, failure: str) -> None:
        """Report how a run ended, after its begin; the arguments are those of Vitals."""
        if self._begun is not None:
            self._begun.join()
        self._send(ping_of(self._style, self._url, Vitals(lives, failure), self._site))

    def try_it(self) -> None:
        """Send what a healthy site sends. Raise Undelivered."""
        self._deliver(_sign_of_life(self._style, self._url))

    def _send(self, ping: Ping | None) -> None:
        if ping is None:
            return
        try:
            self._deliver(ping)
        except Undelivered as error:
            if not self._fails:
                log.warning("the heartbeat cannot be sent", detail=str(error), next="the next one is sent at its time")
            self._fails = True
        else:
            if self._fails:
                log.warning("the heartbeat can be sent again")
            self._fails = False

    def _deliver(self, ping: Ping) -> None:
        try:
            self._webhook.send(ping.text.encode(), kind="text/plain", url=ping.url)
        except (ServiceError, RuntimeError) as error:
            # A RuntimeError: no thread can be started.
            detail = error.message if isinstance(error, ServiceError) else str(error)
            raise Undelivered(f"notify.heartbeat: {detail}") from error


def _in_thread(work: Callable[[], None]) -> threading.Thread | None:
    """Start a thread and return it; log and return None if the system starts none: the work goes on without it."""
    thread = threading.Thread(target=work, name="heartbeat", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        log.warning("no heartbeat is sent", detail=str(error), next="the next start of assetsync tries it again")
        return None
    return thread


def heartbeat_of(config: SiteConfig, environ: Mapping[str, str]) -> Monitor | None:
    """Return the monitor that gets the heartbeats of a site, None if it has none. Raise ConfigError."""
    address = read_heartbeat(config, environ)
    return None if address is None else Monitor(config, address)

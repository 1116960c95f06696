"""Carrying out what a person decides: by this process if nobody holds the ledger, else as a request to the holder.

What the decisions mean is `sync.requests`'s. Looking at a ledger is here too, as every command does it the same way.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass

from pydantic import SecretStr

from assetsync.app import make_service
from assetsync.cli.output import write, write_json
from assetsync.clock import SystemClock
from assetsync.config import SiteConfig, read_api_key
from assetsync.errors import LedgerBusy, ServiceError, UsageError
from assetsync.ledger.ledger import Ledger, open_ledger, read_ledger
from assetsync.log import configure_logging, register_password, register_secret
from assetsync.model import Asset, Body, Clock, SearchRequest, Sent, Service, Underway, UploadRequest
from assetsync.process import keep_from_dumps
from assetsync.service.client import HttpService
from assetsync.sync.requests import REFUSED, UNASKED, asked_of, carry_out, refuse

PATIENCE = 5.0
"""Seconds in which the holder of the ledger may answer a request; a daemon at work takes one."""

_LOOK_EVERY = 0.1


def read_key(config: SiteConfig) -> SecretStr:
    """Read the key, and keep it and the proxy's password out of the log and of core dumps; raises ConfigError."""
    keep_from_dumps()
    key = read_api_key(config, os.environ)
    register_secret(key)
    register_password(config.service.proxy or "")
    return key


@contextmanager
def open_service(config: SiteConfig) -> Iterator[HttpService]:
    """Read the key as `read_key` does, and give the client; raises ConfigError."""
    with closing(make_service(config, read_key(config))) as service:
        yield service


class ServiceWhenAsked:
    """The service of `model.Service`, its key read when the first call is made: most decisions need none."""

    def __init__(self, config: SiteConfig) -> None:
        self._config = config
        self._opened: AbstractContextManager[HttpService] | None = None
        self._service: HttpService | None = None

    def upload(self, request: UploadRequest, body: Body) -> Sent:
        """Post one file."""
        return self._made().upload(request, body)

    def start(self, request: UploadRequest, body: Body) -> Underway:
        """Send one file, whose answer is read later."""
        return self._made().start(request, body)

    def search(self, request: SearchRequest) -> AbstractContextManager[Iterator[Asset]]:
        """Open one search."""
        return self._made().search(request)

    def index(self, assetids: Sequence[str]) -> str:
        """Ask for indexing."""
        return self._made().index(assetids)

    def close(self) -> None:
        """Close the client if there is one."""
        if self._opened is not None:
            self._opened.__exit__(None, None, None)
            self._opened = self._service = None

    def _made(self) -> Service:
        if self._service is None:
            self._opened = open_service(self._config)
            self._service = self._opened.__enter__()
        return self._service


@dataclass(frozen=True, slots=True)
class Acted:
    """What came of a decision: the sentence, and the number of the request that was left for the ledger's holder."""

    message: str
    request: int | None = None
    done: bool = True

    def show(self, *, as_json: bool) -> None:
        """Print it."""
        if as_json:
            write_json({"done": self.done, "request": self.request, "message": self.message})
        else:
            write(self.message)


def act(config: SiteConfig, verb: str, argument: dict[str, object]) -> Acted:
    """Carry a decision out, or leave it for the holder of the ledger and wait a moment for what comes of it.

    Raises as `sync.requests.carry_out` and `open_ledger` do, LedgerBusy excepted; what the holder refused too.
    """
    configure_logging(config.log.format, "warning")
    clock = SystemClock()
    try:
        ledger = open_ledger(config.ledger, site=config.site, create=False)
    except LedgerBusy:
        with closing(read_ledger(config.ledger, site=config.site, writable=True)) as beside:
            refuse(beside, verb, argument)
            number = beside.ask(verb, asked_of(beside, verb, argument), clock.now())
            return _told(beside, number, clock)
    with closing(ledger), closing(ServiceWhenAsked(config)) as service:
        return Acted(carry_out(ledger, service, clock, verb, argument))


def _told(beside: Ledger, number: int, clock: Clock) -> Acted:
    """Wait for the holder's answer to a request; raises UsageError or ServiceError where it could not be done."""
    soon(lambda: beside.answered(number) is not None, clock)
    answer = beside.answered(number)
    if answer is None:
        left = f"another process holds the ledger: it will do that as soon as it can (request {number})"
        return Acted(left, number, done=False)
    return Acted(_done(answer), number)


def _done(answer: str) -> str:
    """Return the holder's answer; raises UsageError or ServiceError where the holder could not do it."""
    if answer.startswith(REFUSED):
        raise UsageError(answer.removeprefix(REFUSED))
    if answer.startswith(UNASKED):
        raise ServiceError(answer.removeprefix(UNASKED))
    return answer


def carried_out(config: SiteConfig, verb: str, argument: dict[str, object], go_on: Callable[[], bool]) -> str | None:
    """Have a request carried out by the holder of the ledger, or by this process once nobody holds it.

    Carrying the request out twice must be the same as once. Returns the answer, None where `go_on` ended the wait
    before there was one. Raises as `act` does.
    """
    clock = SystemClock()
    number: int | None = None
    while True:
        try:
            ledger = open_ledger(config.ledger, site=config.site, create=False)
        except LedgerBusy:
            with closing(read_ledger(config.ledger, site=config.site, writable=True)) as beside:
                number = beside.ask(verb, argument, clock.now()) if number is None else number
                answer = _answer_in_time(beside, number, go_on)
            if answer is not None:
                return _done(answer)
            if not go_on():
                return None
            continue
        with closing(ledger), closing(ServiceWhenAsked(config)) as service:
            answer = None if number is None else ledger.answered(number)
            if answer is None:
                answer = carry_out(ledger, service, clock, verb, argument)
                if number is not None:
                    ledger.answer(number, answer, clock.now())
            return _done(answer)


def _answer_in_time(beside: Ledger, number: int, go_on: Callable[[], bool]) -> str | None:
    soon(lambda: beside.answered(number) is not None or not go_on(), SystemClock())
    return beside.answered(number)


def soon(is_so: Callable[[], bool], clock: Clock) -> bool:
    """Whether something comes to be so within a moment that the ledger's holder may take for it."""
    until = clock.steady() + PATIENCE
    while not (found := is_so()) and clock.steady() < until:
        clock.wait(_LOOK_EVERY)
    return found

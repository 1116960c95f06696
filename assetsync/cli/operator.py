"""Carry out what an operator decides: in this process if no other holds the ledger, else by a request to the holder.

Reading the key and opening the service are here too, for all commands that need them. The decisions themselves are left
to `sync.requests`.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from pydantic import SecretStr

from assetsync.cli.output import write, write_json
from assetsync.clock import SystemClock
from assetsync.config import SiteConfig, read_api_key
from assetsync.config.key import keep_from_dumps
from assetsync.errors import LedgerBusy, ServiceError, UsageError
from assetsync.ledger.ledger import Ledger, open_ledger, read_ledger
from assetsync.log import configure_logging, register_password, register_secret
from assetsync.model import Asset, Clock, SearchRequest
from assetsync.parts import make_service
from assetsync.sync.requests.request import REFUSED, UNANSWERED, OperatorRequest

if TYPE_CHECKING:
    from assetsync.service.client import HttpService

PATIENCE = 5.0
"""Seconds to wait for the ledger's holder to answer a request; a busy daemon takes about one."""

_LOOK_EVERY = 0.1


def read_key(config: SiteConfig) -> SecretStr:
    """Return the key; keep the key and the proxy's password out of logs and core dumps. Raise ConfigError."""
    keep_from_dumps()
    key = read_api_key(config, os.environ)
    register_secret(key)
    register_password(config.service.proxy or "")
    return key


@contextmanager
def open_service(config: SiteConfig) -> Iterator["HttpService"]:
    """Read the key as `read_key` does, yield the client and close it. Raise ConfigError."""
    with closing(make_service(config, read_key(config))) as service:
        yield service


class LazySearches:
    """The searches of a service (`model.Searches`) whose key is read at the first: most decisions search nothing."""

    def __init__(self, config: SiteConfig) -> None:
        self._config = config

    @cached_property
    def _service(self) -> "HttpService":
        return make_service(self._config, read_key(self._config))

    def search(self, request: SearchRequest) -> AbstractContextManager[Iterator[Asset]]:
        """Start one search."""
        return self._service.search(request)

    def close(self) -> None:
        """Close the client, if it was opened."""
        if "_service" in vars(self):
            self._service.close()


def act(config: SiteConfig, asked: OperatorRequest, *, as_json: bool) -> None:
    """Carry out a request and print the result, a sentence.

    If another process holds the ledger, leave it as a request, wait up to `PATIENCE` for the answer, and print the
    request's number too. Raise as `OperatorRequest.carry_out` and `open_ledger` do, except LedgerBusy; UsageError if
    the holder refuses.
    """
    configure_logging(config.log.format, "warning")
    clock = SystemClock()
    number: int | None = None
    done = True
    try:
        ledger = open_ledger(config.ledger, site=config.site, create=False)
    except LedgerBusy:
        with closing(read_ledger(config.ledger, site=config.site, writable=True)) as beside:
            asked.check(beside)
            number = beside.add_request(asked.verb, asked.as_seen(beside).argument(), clock.now())
            answer = _answer_in_time(beside, number, lambda: True)
        done = answer is not None
        left = f"another process holds the ledger: it, or the next `run` or `reconcile`, does that (request {number})"
        message = left if answer is None else _done(answer)
    else:
        with closing(ledger), closing(LazySearches(config)) as service:
            message = asked.carry_out(ledger, service, clock)
    if as_json:
        # `message` is the older name of `detail`.
        write_json({"done": done, "request": number, "detail": message, "message": message})
    else:
        write(message)


def _done(answer: str) -> str:
    """Return the holder's answer; raise UsageError or ServiceError if the holder could not carry out the request."""
    if answer.startswith(REFUSED):
        raise UsageError(answer.removeprefix(REFUSED))
    if answer.startswith(UNANSWERED):
        raise ServiceError(answer.removeprefix(UNANSWERED))
    return answer


def carry_out_in_time(config: SiteConfig, asked: OperatorRequest, go_on: Callable[[], bool]) -> str | None:
    """Have a request carried out by the ledger's holder, or by this process once the ledger is free.

    The request must be idempotent. Return the answer, or None if `go_on` ended the wait before the answer came. Raise
    as `act` does.
    """
    clock = SystemClock()
    number: int | None = None
    while True:
        try:
            ledger = open_ledger(config.ledger, site=config.site, create=False)
        except LedgerBusy:
            with closing(read_ledger(config.ledger, site=config.site, writable=True)) as beside:
                number = beside.add_request(asked.verb, asked.argument(), clock.now()) if number is None else number
                answer = _answer_in_time(beside, number, go_on)
            if answer is not None:
                return _done(answer)
            if not go_on():
                return None
            continue
        with closing(ledger), closing(LazySearches(config)) as service:
            answer = None if number is None else ledger.answer_to(number)
            if answer is None:
                answer = asked.carry_out(ledger, service, clock)
                if number is not None:
                    ledger.answer_request(number, answer, clock.now())
            return _done(answer)


def _answer_in_time(beside: Ledger, number: int, go_on: Callable[[], bool]) -> str | None:
    wait_until(lambda: beside.answer_to(number) is not None or not go_on(), SystemClock())
    return beside.answer_to(number)


def wait_until(is_so: Callable[[], bool], clock: Clock) -> bool:
    """Return whether `is_so` becomes true within `PATIENCE` seconds, the time that the ledger's holder may take."""
    until = clock.steady() + PATIENCE
    while not (found := is_so()) and clock.steady() < until:
        clock.wait(_LOOK_EVERY)
    return found

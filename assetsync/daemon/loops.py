"""Repeat a step in a thread, with heartbeats; an unexpected error ends the program.

Trouble with the ledger's disk does not end the program: the loop logs it once, retries, and logs once that it is over.
The steps are in `work` and `readback`.

The progress of each service call counts as a heartbeat of the loop that waits for it: a body that takes hours to send
and a listing that takes minutes are no hang. Silence beyond the read timeout is a hang.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import structlog

from assetsync.errors import LedgerDamaged, LedgerError, OutOfResources
from assetsync.model import AddressProbe, Asset, Body, Clock, SearchRequest, Sent, Service, UploadRequest
from assetsync.tree.body import TappedBody


class Bell:
    """A counter of rings to wait for.

    A ring wakes every waiting thread, and every thread that read the counter before the ring.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._rings = 0

    def ring(self) -> None:
        """Wake all waiting threads."""
        with self._condition:
            self._rings += 1
            self._condition.notify_all()

    def heard(self) -> int:
        """Return the number of rings so far, the argument of `wait`."""
        return self._rings

    def wait(self, heard: int, patience: float) -> None:
        """Return at the first ring after `heard`, or after `patience` seconds."""
        with self._condition:
            self._condition.wait_for(lambda: self._rings != heard, patience)


log = structlog.get_logger(__name__)

_LEDGER_PAUSE = 5.0


class Pulse:
    """The deadline of each thread's next heartbeat; the watchdog is fed only while no thread is late."""

    def __init__(self, clock: Clock, limit: float) -> None:
        self._clock = clock
        self._limit = limit
        self._lock = threading.Lock()
        self._until: dict[str, float] = {}

    @contextmanager
    def expect(self) -> Iterator[None]:
        """Expect heartbeats of the calling thread until the block ends."""
        name = threading.current_thread().name
        with self._lock:
            self._until[name] = self._clock.steady() + self._limit
        try:
            yield
        finally:
            with self._lock:
                self._until.pop(name, None)

    def beat(self, within: float = 0.0) -> None:
        """Record a heartbeat of the calling thread; do nothing if none is expected of it.

        The next is due within the limit or `within` seconds, whichever is longer: a call may be silent for longer than
        the limit.
        """
        name = threading.current_thread().name
        with self._lock:
            if name in self._until:
                self._until[name] = self._clock.steady() + max(self._limit, within)

    def put_off(self, seconds: float) -> None:
        """Move all deadlines: for so long no thread could run, because the process was halted or the machine slept."""
        with self._lock:
            self._until = {name: until + seconds for name, until in self._until.items()}

    def late(self) -> list[str]:
        """Return the names of the threads that missed their deadline."""
        now = self._clock.steady()
        with self._lock:
            return sorted(name for name, until in self._until.items() if now > until)


class Loop(threading.Thread):
    """A thread that calls `step` until the clock's stop; `step` returns the seconds to wait before the next call.

    A step that cannot use the ledger, or that lacks descriptors, memory or threads, is repeated after a pause;
    `out_of_resources` is called in the latter case. `failed` receives an unexpected exception and must end the program.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], float],
        *,
        clock: Clock,
        pulse: Pulse,
        failed: Callable[[BaseException], None],
        out_of_resources: Callable[[OutOfResources], None],
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._step = step
        self._clock = clock
        self._pulse = pulse
        self._failed = failed
        self._out_of_resources = out_of_resources
        self.ledger_trouble: str | None = None
        """Why the loop waits for the ledger; None if it does not wait."""

    def run(self) -> None:
        """Repeat the step until the stop."""
        pause = 0.0
        try:
            with self._pulse.expect():
                while not self._clock.wait(pause):
                    self._pulse.beat()
                    pause = self._guarded()
                    self._pulse.beat(2 * pause)
        except BaseException as error:  # noqa: BLE001 - passed to the main thread, which ends the program with it
            self._failed(error)

    def _guarded(self) -> float:
        try:
            pause = self._step()
        except LedgerDamaged:
            raise
        except LedgerError as error:
            if self.ledger_trouble is None:
                again = f"tried again every {_LEDGER_PAUSE:.0f} s"
                log.warning("waiting for the ledger", loop=self.name, detail=str(error), next=again)
            self.ledger_trouble = str(error)
            return _LEDGER_PAUSE
        except (OutOfResources, OSError, RuntimeError) as error:
            lack = error if isinstance(error, OutOfResources) else OutOfResources.of(error)
            if lack is None:
                raise
            self._out_of_resources(lack)
            return _LEDGER_PAUSE
        if self.ledger_trouble is not None:
            log.warning("the ledger can be used again", loop=self.name)
            self.ledger_trouble = None
        return pause


_ROWS = 500


class HeartbeatService:
    """A service that forwards every call, and calls `alive` at each sign that a call goes on."""

    def __init__(self, service: Service, alive: Callable[[], None]) -> None:
        self._service = service
        self._alive = alive

    @property
    def account(self) -> str:
        """The account of the service."""
        return self._service.account

    def upload(self, request: UploadRequest, body: Body) -> Sent:
        """Post one file; each chunk sent is a heartbeat."""
        self._alive()
        return self._service.upload(request, TappedBody(body, lambda _length: self._alive()))

    def close_kept(self) -> None:
        """Close the connections that wait for a further upload."""
        self._service.close_kept()

    def probe_uploads(self) -> AddressProbe:
        """Probe the address for uploads; the call is a heartbeat."""
        self._alive()
        return self._service.probe_uploads()

    @contextmanager
    def search(self, request: SearchRequest) -> Iterator[Iterator[Asset]]:
        """Open one search; the call and every `_ROWS`-th row are heartbeats."""
        self._alive()

        def beating(assets: Iterator[Asset]) -> Iterator[Asset]:
            for number, asset in enumerate(assets):
                if number % _ROWS == 0:
                    self._alive()
                yield asset

        with self._service.search(request) as assets:
            yield beating(assets)

    def index(self, assetids: Sequence[str]) -> str:
        """Request indexing; the call is a heartbeat."""
        self._alive()
        return self._service.index(assetids)

    def close(self) -> None:
        """Close every connection."""
        self._service.close()

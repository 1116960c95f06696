"""The connections that stay open between two requests: those by which an upload was accepted.

httpcore's own pool looks at all of its connections before and after each request, and with 64 workers that is half of
what an upload costs. What it is needed for is not needed here: no request waits for a connection, because the threads
that make requests are counted already.
"""

import threading
from collections.abc import Callable

import httpcore


class Kept:
    """Connections in nobody's use. A request has its connection to itself, from `take` until its answer was read."""

    def __init__(self, make: Callable[[httpcore.Origin], httpcore.ConnectionInterface]) -> None:
        """Begin with none; `make` gives one that is opened by its first request."""
        self._make = make
        self._lock = threading.Lock()
        self._idle: list[httpcore.ConnectionInterface] = []  # in the order in which they came back
        self._closed = False

    def take(self, origin: httpcore.Origin) -> httpcore.ConnectionInterface:
        """Give the connection to `origin` that was used last and is still open, or a new one.

        Raises httpcore.ConnectError once all are closed.
        """
        while (connection := self._last(origin)) is not None:
            if not connection.has_expired():
                return connection
            connection.close()
        return self._make(origin)

    def give_back(self, connection: httpcore.ConnectionInterface) -> None:
        """Keep a connection for the next request where it can carry one, and close what has waited too long."""
        with self._lock:
            if connection.is_idle() and not self._closed:
                self._idle.append(connection)
            else:
                connection.close()
            # Who came back first expires first; this one has just been used.
            while len(self._idle) > 1 and self._idle[0].has_expired():
                self._idle.pop(0).close()

    def close(self) -> None:
        """Close all of them, and each that comes back later; none is given any more."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()

    def _last(self, origin: httpcore.Origin) -> httpcore.ConnectionInterface | None:
        with self._lock:
            if self._closed:
                raise httpcore.ConnectError("the client was closed")
            for at in reversed(range(len(self._idle))):
                if self._idle[at].can_handle_request(origin):
                    return self._idle.pop(at)
        return None

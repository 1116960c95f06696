"""Sockets to the service: the head of a request leaves with its body, and no part of an answer is waited for for ever.

Over httpcore's own streams, which know TLS and the limits of single waits.
"""

import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any, cast
from weakref import WeakSet

import httpcore

from assetsync.turn import TURN

_HEAD_LIMIT = 64 * 1024
_ROOM = 32 * 1024
_STAYING = nullcontext()


class Stream(httpcore.NetworkStream):
    """One connection, over the stream that does the work; used by one request at a time.

    The head of a request waits for the first piece of its body and leaves with it in one write. The head of an answer
    must have come `patience` seconds after it was first waited for, and so must each piece of its body: `part_came`
    begins that time anew. Bytes that drip in meanwhile do not (announcements, sizes of chunks, trailers).
    """

    def __init__(self, under: httpcore.NetworkStream, patience: float, born: Callable[["Stream"], None]) -> None:
        self._under = under
        self._patience = patience
        self._born = born
        self._held = b""
        self._sending = False
        self._part_until: float | None = None
        self._shut = False
        born(self)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of it, or keep the head of a request for the write that follows."""
        if not self._sending:
            self._sending = True
            self._part_until = None
            if len(buffer) < _HEAD_LIMIT:
                self._held = buffer
                return
        if self._held:
            buffer, self._held = self._held + buffer, b""
        if buffer:
            # What is small fits into the kernel's buffer, and there is nothing to wait for.
            with _STAYING if len(buffer) <= _ROOM else TURN.left():
                self._under.write(buffer, timeout)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Receive some bytes; none at the end that the other side has made.

        Raises httpcore.ReadTimeout also for a part of the answer that takes too long in all, and ReadError at the end
        that `shut` has made.
        """
        self._turn_to_reading(timeout)
        if self._part_until is not None:
            left = self._part_until - time.monotonic()
            if left <= 0:
                raise httpcore.ReadTimeout("a part of the answer took too long")
            timeout = left if timeout is None else min(timeout, left)
        with TURN.left():
            received = self._under.read(max_bytes, timeout)
        self._acknowledge()
        if not received and self._shut:
            # An answer without a length ends with its connection: this one was cut.
            raise httpcore.ReadError("the client was closed")
        return received

    def read_now(self, max_bytes: int) -> bytes | None:
        """Receive what is there; none at the end, None where nothing is there yet.

        Raises as `read` does, and as late.
        """
        self._turn_to_reading(0.0)
        sock = self._under.get_extra_info("socket")
        sock.settimeout(0)
        try:
            received = cast("bytes", sock.recv(max_bytes))
        except (BlockingIOError, ssl.SSLWantReadError) as exc:
            if self._part_until is not None and time.monotonic() > self._part_until:
                raise httpcore.ReadTimeout("a part of the answer took too long") from exc
            return None
        except OSError as exc:
            raise httpcore.ReadError(str(exc)) from exc
        self._acknowledge()
        if not received and self._shut:
            raise httpcore.ReadError("the client was closed")
        return received

    def _acknowledge(self) -> None:
        """Acknowledge at once what was received.

        The other side may hold back until then what it says without having been asked; with the next request it would
        be taken for the answer to that.
        """
        with suppress(OSError):
            socket.socket.setsockopt(self._under.get_extra_info("socket"), socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def fileno(self) -> int:
        """Give the socket's descriptor."""
        return cast("int", self._under.get_extra_info("socket").fileno())

    def _turn_to_reading(self, timeout: float | None) -> None:
        """Have the head of a request leave that has no body, and begin to wait for the head of the answer."""
        if self._sending:
            self._sending = False
            self._part_until = time.monotonic() + self._patience
            if self._held:
                held, self._held = self._held, b""
                self._under.write(held, timeout)

    def part_came(self) -> None:
        """Begin to wait for the next piece of an answer's body."""
        self._part_until = time.monotonic() + self._patience

    def close(self) -> None:
        """Close the connection."""
        self._under.close()

    def shut(self) -> None:
        """End the connection from another thread; what has come of an answer is not taken for the whole of it."""
        self._shut = True
        # Closing a socket does not wake the thread that reads from it, shutting it down does.
        with suppress(OSError):
            socket.socket.shutdown(self._under.get_extra_info("socket"), socket.SHUT_RDWR)

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> "Stream":
        """Go on under TLS."""
        with TURN.left():
            secured = self._under.start_tls(ssl_context, server_hostname, timeout)
        return Stream(secured, self._patience, self._born)

    def get_extra_info(self, info: str) -> Any:
        """Tell what the stream under it knows."""
        return self._under.get_extra_info(info)


class Backend(httpcore.SyncBackend):
    """Connects over TCP, and keeps each connection in mind as long as it lives."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._streams: WeakSet[Stream] = WeakSet()
        self._closed = False

    def connect_tcp(self, *args: Any, **kwargs: Any) -> Stream:
        """Open one connection."""
        with TURN.left():
            connected = super().connect_tcp(*args, **kwargs)
        return Stream(connected, self._patience, self._born)

    def shut(self) -> None:
        """End all connections, and each at once that is just being made."""
        with self._lock:
            self._closed = True
            streams = list(self._streams)
        for stream in streams:
            stream.shut()

    def _born(self, stream: Stream) -> None:
        with self._lock:
            if not self._closed:
                self._streams.add(stream)
                return
        stream.close()
        raise httpcore.ConnectError("the client was closed")

"""A connection straight to the service: writes requests as they are, and reads answers by a parser in C.

It stands beside httpcore's own connection, which reads in Python and costs as much for each answer as all that is done
with it; by a proxy that one is used. How bytes travel, and how long is waited for them, is for `stream`; which
connection a request goes by, for `kept`.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Protocol

import httpcore
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

_PIECE = 64 * 1024
_MOST_FRAMING = 100 * 1024
"""Bytes of a head, or of what else is no body, that are read in a row."""

_MOST_HELD = 1024 * 1024
"""Bytes of a body that are read before anybody asks for them."""

_MOST_READS = 256
"""Reads in a row of what is there."""

_FIRST, _SWITCHING, _FIRST_FINAL = 100, 101, 200
LENGTHS = frozenset({b"content-length", b"transfer-encoding"})
"""Headers that say where an answer ends; in small letters."""


class Bytes(Protocol):
    """One open connection as bytes; the errors are httpcore's."""

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of it."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Wait for some bytes; none at the end."""

    def read_now(self, max_bytes: int) -> bytes | None:
        """Give what is there, without waiting; none at the end, None where nothing is there."""

    def fileno(self) -> int:
        """Give the descriptor that can be read when something is there."""

    def get_extra_info(self, info: str) -> Any:
        """Tell what is known of the connection."""

    def close(self) -> None:
        """Close it."""


class Direct(httpcore.ConnectionInterface):
    """One connection, opened by its first request; carries one request at a time."""

    def __init__(
        self,
        origin: httpcore.Origin,
        opened: Callable[[], Bytes],
        patience: float,
        expiry: float,
    ) -> None:
        """Wait for the first request: `opened` connects, each wait ends after `patience`, each rest after `expiry`."""
        self._origin = origin
        self._opened = opened
        self._patience = patience
        self._expiry = expiry
        self._stream: Bytes | None = None
        self._answer: Incoming | None = None
        self._has_sent_all = False
        self._idle_until: float | None = None
        self._closed = False

    def send(self, head: bytes, body: Iterable[bytes]) -> None:
        """Send a request; raises the errors of httpcore, and what its body raises.

        Where a write fails, the answer that may have come early is still there to be read.
        """
        if self._stream is None:
            self._stream = self._opened()
        self._idle_until = None
        self._has_sent_all = False
        with suppress(httpcore.WriteError):
            self._stream.write(head, self._patience)
            for piece in body:
                self._stream.write(piece, self._patience)
            self._has_sent_all = True
        self._answer = Incoming(self._stream, self._patience, self._ended)

    def fileno(self) -> int:
        """Give the descriptor that can be read once something of the answer has come."""
        assert self._stream is not None, "nothing was sent yet"
        return self._stream.fileno()

    def is_ready(self) -> bool:
        """Read what has come of the answer, and give whether all of it has, or what keeps it from coming."""
        assert self._answer is not None, "there is no answer without a request"
        return self._answer.read_what_is_there()

    def receive(self) -> "Incoming":
        """Read the head of the answer to what was sent; raises the errors of httpcore."""
        assert self._answer is not None, "there is no answer without a request"
        self._answer.read_head()
        return self._answer

    def can_handle_request(self, origin: httpcore.Origin) -> bool:
        """Whether it leads there."""
        return origin == self._origin

    def is_available(self) -> bool:
        """Whether it waits for a request."""
        return self.is_idle()

    def is_idle(self) -> bool:
        """Whether its last answer was read to an end after which there may be another."""
        return self._idle_until is not None and not self._closed

    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def has_expired(self) -> bool:
        """Whether nothing should be sent by it any more: for too long, or because the other side has said something."""
        if self._closed or self._idle_until is None or self._stream is None:
            return self._closed
        return time.monotonic() > self._idle_until or bool(self._stream.get_extra_info("is_readable"))

    def close(self) -> None:
        """Close it."""
        self._closed = True
        if self._stream is not None:
            self._stream.close()

    def _ended(self, answer: "Incoming") -> None:
        """Hear that nobody reads an answer any more."""
        # Behind half a request the next one would be its other half.
        if answer.can_be_followed and self._has_sent_all:
            self._idle_until = time.monotonic() + self._expiry
        else:
            self.close()


class Incoming:
    """An answer on its way in: its head, then its body as an iterable. The parser calls what begins with `on_`."""

    def __init__(self, stream: Bytes, patience: float, ended: Callable[["Incoming"], None]) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.has_more = False
        """Whether bytes came behind its end, which would be read as the answer to the next request."""
        self.under = stream
        """The connection's bytes."""
        self._patience = patience
        self._ended = ended
        self._parser = HttpResponseParser(self)
        # Lines without a carriage return, and the padded sizes of older servers, are understood by everybody else, too.
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)
        self._pieces: list[bytes] = []
        self._failure: Exception | None = None
        self._held = 0
        self._framing = 0
        self._is_whole = False
        self._keeps = False

    @property
    def can_be_followed(self) -> bool:
        """Whether the connection may carry another answer after this one."""
        return self._is_whole and self._keeps and not self.has_more

    def read_what_is_there(self) -> bool:
        """Read without waiting; gives whether there is nothing to wait for any more.

        All has come then, or so much that what comes next may be read as it comes, or an error that is told to who
        reads it.
        """
        try:
            # What never ends, and has no body that could be held, is left to who reads with a limit of time.
            for _ in range(_MOST_READS):
                if self._is_whole or self._held >= _MOST_HELD:
                    break
                data = self.under.read_now(_PIECE)
                if data is None:
                    return False
                self._take(data)
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            self._failure = error
        return True

    def read_head(self) -> None:
        """Read until the head is there; raises RemoteProtocolError for what is none, ReadError and ReadTimeout."""
        while not self.status:
            self._receive()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the body piece by piece, an empty one where a read brought none of it; raises as `read_head` does."""
        while True:
            pieces, self._pieces = self._pieces, []
            yield b"".join(pieces)
            if self._is_whole:
                return
            self._receive()

    def close(self) -> None:
        """Say that no more of it is wanted."""
        self._ended(self)

    def _receive(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._take(self.under.read(_PIECE, self._patience))

    def _take(self, data: bytes) -> None:
        if not data:
            self._at_the_end()
            return
        known = len(self._pieces)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            # Also of an answer that changes the protocol, and of what comes behind one that ends its connection.
            if not self._is_whole:
                raise httpcore.RemoteProtocolError(str(error)) from error
            self.has_more = True
        if len(self._pieces) > known:
            self._framing = 0
        elif not self._is_whole:
            self._framing += len(data)
            if self._framing > _MOST_FRAMING:
                raise httpcore.RemoteProtocolError("the answer has too long a head")

    def _at_the_end(self) -> None:
        if not self.status:
            raise httpcore.RemoteProtocolError("the connection ended without an answer")
        if any(name.lower() in LENGTHS for name, _value in self.headers):
            raise httpcore.RemoteProtocolError("the connection ended in the middle of the answer")
        self._is_whole = True

    def on_message_begin(self) -> None:
        """Hear of the first byte of an answer."""
        self.has_more = self._is_whole

    def on_header(self, name: bytes, value: bytes) -> None:
        """Hear of a line of the head, or of the trailer of a chunked body."""
        if not self.status:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Hear of the end of the head, which may be one that only announces another."""
        status = self._parser.get_status_code()
        if self._is_whole:
            return
        if status < _FIRST_FINAL and status != _SWITCHING:
            if status < _FIRST or any(name.lower() in LENGTHS for name, _value in self.headers):
                raise httpcore.RemoteProtocolError("what only announces an answer has a body")
            self.headers.clear()
        else:
            self.status = status

    def on_body(self, piece: bytes) -> None:
        """Hear of a piece of the body."""
        if not self._is_whole:
            self._pieces.append(piece)
            self._held += len(piece)

    def on_message_complete(self) -> None:
        """Hear of the end of an answer."""
        if self.status and not self._is_whole:
            self._is_whole = True
            keeps = self._parser.should_keep_alive() and self._parser.get_http_version() == "1.1"
            self._keeps = keeps and self.status != _SWITCHING


def head(verb: str, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Give the head of a request; raises LocalProtocolError for one of which a part holds the end of a line."""
    lines = [b"%b %b HTTP/1.1" % (verb.encode("ascii"), target), *(b"%b: %b" % header for header in headers), b"", b""]
    whole = b"\r\n".join(lines)
    if whole.count(b"\n") != len(lines) - 1 or whole.count(b"\r") != len(lines) - 1:
        raise httpcore.LocalProtocolError("the head of the request cannot be sent")
    return whole

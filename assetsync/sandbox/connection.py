"""One connection of the server: extend uvicorn's protocol for bodies that are cut.

uvicorn drops the received bytes when the client disconnects, and closes at once when the client closes its half. The
live service stores what came and answers (observed). So this module keeps the bytes and can still write an answer. All
else of HTTP is left to uvicorn.
"""

from collections.abc import MutableMapping
from typing import Any, cast

from starlette.types import Receive, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

_CONNECTION = "sandbox.connection"
_LEFTOVER = "sandbox.leftover"
_REFUSED = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class SandboxProtocol(H11Protocol):
    """An HTTP/1.1 connection that passes itself and every byte of a cut body to the application."""

    def handle_events(self) -> None:
        """Read requests; put the connection into the state of each request's scope."""
        super().handle_events()
        state = self._state()
        if state is not None:
            state[_CONNECTION] = self

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """End the body when the client closes its half; the answer of an open request is still written."""
        if self._state() is None or self.cycle.response_complete:
            return None
        self.cycle.more_body = False
        self.cycle.message_event.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Keep the received part of the body for the request that reads it, because the client is gone."""
        state = self._state()
        if state is not None:
            state[_LEFTOVER] = bytes(self.cycle.body)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the service sends no reason (observed)
        """Refuse a request that is not HTTP with 400 and no body (`index-url-too-long`)."""
        self.transport.write(_REFUSED)
        self.transport.close()

    def _state(self) -> MutableMapping[str, Any] | None:
        # uvicorn declares `scope` as never None, but it is None before the first request.
        scope = cast("Scope | None", self.scope)
        return None if scope is None else cast("MutableMapping[str, Any]", scope["state"])


async def drop(scope: Scope, receive: Receive) -> None:
    """Close the connection without another byte and wait until it is closed; otherwise uvicorn would write a 500."""
    _connection(scope).transport.abort()
    await _gone(receive)


async def close(scope: Scope, receive: Receive) -> None:
    """Close the connection after the bytes written so far, and wait until it is closed."""
    _connection(scope).transport.close()
    await _gone(receive)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


def _connection(scope: Scope) -> SandboxProtocol:
    return cast("SandboxProtocol", scope["state"][_CONNECTION])


async def read_chunk(scope: Scope, receive: Receive) -> tuple[bytes, bool]:
    """Return the next bytes of the body and whether more may come, also those received before a disconnect."""
    message = await receive()
    if message["type"] == "http.disconnect":
        return cast("bytes", scope["state"].get(_LEFTOVER, b"")), False
    return message.get("body", b""), message.get("more_body", False)

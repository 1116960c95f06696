"""One connection of the server: what uvicorn's own protocol leaves out for bodies that are cut.

uvicorn drops the bytes that had come when the client goes away, and closes at once when the client closes its half. The
live service stores what came and answers (observed), so here the bytes are kept and an answer can still be written.
"""

from collections.abc import MutableMapping
from typing import Any, cast

from starlette.types import Receive, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

_CONNECTION = "sandbox.connection"
_LEFTOVER = "sandbox.leftover"
_REFUSED = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class SandboxProtocol(H11Protocol):
    """An HTTP/1.1 connection that hands the application itself and every byte of a cut body."""

    def handle_events(self) -> None:
        """Read requests; each finds its connection in the state of its scope."""
        super().handle_events()
        state = self._state()
        if state is not None:
            state[_CONNECTION] = self

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """End the body where the client sends no more; while a request is open, its answer is still written."""
        if self._state() is None or self.cycle.response_complete:
            return None
        self.cycle.more_body = False
        self.cycle.message_event.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Keep what came of the body for the request that reads it: the client is gone."""
        state = self._state()
        if state is not None:
            state[_LEFTOVER] = bytes(self.cycle.body)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the service tells no reason (observed)
        """Refuse what is no HTTP: 400 without a body (`index-url-too-long`)."""
        self.transport.write(_REFUSED)
        self.transport.close()

    def _state(self) -> MutableMapping[str, Any] | None:
        # uvicorn declares the scope as always there; before the first request it is None.
        scope = cast("Scope | None", self.scope)
        return None if scope is None else cast("MutableMapping[str, Any]", scope["state"])


async def drop(scope: Scope, receive: Receive) -> None:
    """Close the connection without another byte, and see it closed: uvicorn would write a 500 otherwise."""
    _connection(scope).transport.abort()
    await _gone(receive)


async def close(scope: Scope, receive: Receive) -> None:
    """Close the connection after what was written so far, and see it closed."""
    _connection(scope).transport.close()
    await _gone(receive)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


def _connection(scope: Scope) -> SandboxProtocol:
    return cast("SandboxProtocol", scope["state"][_CONNECTION])


async def read_chunk(scope: Scope, receive: Receive) -> tuple[bytes, bool]:
    """Give the next bytes of the body and whether more may come; what a lost connection had brought is among them."""
    message = await receive()
    if message["type"] == "http.disconnect":
        return cast("bytes", scope["state"].get(_LEFTOVER, b"")), False
    return message.get("body", b""), message.get("more_body", False)

"""Run uvicorn in a thread of its own, with a protocol that keeps bodies that are cut.

uvicorn drops the received bytes when the client disconnects, and closes at once when the client closes its half. The
live service stores what came and answers (observed). So this module keeps the bytes and can still write an answer. The
server has no signal handlers and no logs, and stops at once. The application is left to `app`.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator
from typing import Final, cast

import uvicorn
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from assetsync.errors import UsageError

_CONNECTION: Final = "sandbox.connection"
_LAST_ANSWERS: Final = 0.2  # seconds
_START: Final = 10.0  # seconds


class SandboxProtocol(H11Protocol):
    """An HTTP/1.1 connection that is in the state of its requests, and keeps the bytes of a cut body in `leftover`."""

    leftover = b""

    @property
    def _request(self) -> RequestResponseCycle | None:
        # uvicorn declares `cycle` as never None, but it is None before the first request.
        return self.cycle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put the connection into the state of each of its requests."""
        self.app_state = {_CONNECTION: self}
        super().connection_made(transport)

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """End the body when the client closes its half; the answer of an open request is still written."""
        request = self._request
        if request is None or request.response_complete:
            return None
        request.more_body = False
        request.message_event.set()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Keep the received part of the body for the request that reads it, because the client is gone."""
        if self._request is not None:
            self.leftover = bytes(self._request.body)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the service sends no reason (observed)
        """Refuse a request that is not HTTP with 400 and no body (`index-url-too-long`)."""
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        self.transport.close()


def _connection(scope: Scope) -> SandboxProtocol:
    return cast("SandboxProtocol", scope["state"][_CONNECTION])


async def close(scope: Scope, receive: Receive) -> None:
    """Close the connection after the bytes written so far, and wait until it is closed.

    An answer that ended before that would get its missing bytes, or a 500, from uvicorn.
    """
    _connection(scope).transport.close()
    while (await receive())["type"] != "http.disconnect":
        continue


async def body_of(request: Request) -> AsyncIterator[bytes]:
    """Yield the bytes of the body to its end or to the cut, also those received before a disconnect."""
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            message = {"body": _connection(request.scope).leftover}
        yield message.get("body", b"")
        more = message.get("more_body", False)


class Running(uvicorn.Server):
    """A running application; `stop` ends it. It waits for an event to stop instead of polling."""

    def __init__(self, app: ASGIApp, listening: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=SandboxProtocol,
                ws="none",
                lifespan="off",
                loop="asyncio",
                log_config=None,
                log_level="error",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
            )
        )
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._serve_on, args=(listening,), name="sandbox", daemon=True)
        self._thread.start()
        if not self._ready.wait(_START) or not self.started:
            raise UsageError("The sandbox did not start", hint="see the log for the reason")

    def _serve_on(self, listening: socket.socket) -> None:
        try:
            asyncio.run(self.serve(sockets=[listening]))
        finally:
            self._ready.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections, then end the wait of the constructor."""
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self._ready.set()

    async def main_loop(self) -> None:
        """Wait until `stop` is called."""
        await self._stop.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Give requests that still run `_LAST_ANSWERS` seconds, then cancel them."""
        for server in self.servers:
            server.close()
        for listening in sockets or []:
            listening.close()
        # Below, requests that hang on purpose are cancelled; uvicorn would log this as an error of the application.
        running = set(self.server_state.tasks)
        if running:
            await asyncio.wait(running, timeout=_LAST_ANSWERS)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)
        # Abort the connections before the tasks end: then no task answers 500, and none takes its body for cut.
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for task in running:
            task.cancel()
        await asyncio.gather(asyncio.sleep(0), *running, return_exceptions=True)

    def stop(self) -> None:
        """Stop answering; any thread may call this."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, port 0 for a free port; raise UsageError if the address is unavailable."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=256)
    except (OSError, UnicodeError) as exc:
        # `create_server` appends the address, which the message below names already.
        reason = (getattr(exc, "strerror", None) or str(exc)).partition(" (while attempting")[0]
        raise UsageError(
            f"The sandbox cannot listen on {host}:{port}: {reason}", hint="choose another address or port"
        ) from exc
    # uvicorn writes headers and body separately: without TCP_NODELAY each answer on a kept connection waits 40 ms for
    # an ACK. asyncio sets it only for sockets that name their protocol. On Linux accepted sockets inherit it from this
    # socket.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening

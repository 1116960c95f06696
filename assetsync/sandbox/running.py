"""Run uvicorn in a thread of its own, without signal handlers and logs, so that it stops at once.

This module is imported only when a sandbox starts, because it needs the extra `sandbox`. The application is left to
`app`.
"""

import asyncio
import logging
import socket
import threading

import uvicorn
from starlette.types import ASGIApp

from assetsync.errors import UsageError
from assetsync.sandbox.connection import SandboxProtocol

_LAST_ANSWERS = 0.2
_START = 10.0


class _Server(uvicorn.Server):
    """A server that sets `ready` once it accepts connections, and waits for an event to stop instead of polling."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self.ready.set()

    async def main_loop(self) -> None:
        await self._stop.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
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

    def ask_to_stop(self) -> None:
        """Start to stop; any thread may call this."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)


class Running:
    """A running application; `stop` ends it."""

    def __init__(self, app: ASGIApp, listening: socket.socket) -> None:
        self._server = _Server(
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
        self._thread = threading.Thread(target=self._run, args=(listening,), name="sandbox", daemon=True)
        self._thread.start()
        if not self._server.ready.wait(_START) or not self._server.started:
            raise UsageError("The sandbox did not start", hint="see the log for the reason")

    def _run(self, listening: socket.socket) -> None:
        try:
            asyncio.run(self._server.serve(sockets=[listening]))
        finally:
            self._server.ready.set()

    def stop(self) -> None:
        """Stop answering; cancel requests that still run after `_LAST_ANSWERS` seconds."""
        self._server.ask_to_stop()
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

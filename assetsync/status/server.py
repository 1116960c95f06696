"""Serves finished answers over HTTP, to whoever can reach the address: GET and HEAD, nothing else.

A handful of threads, however many ask: what is beyond them waits in a short queue, then is turned away. A connection
carries one request and has a few seconds for it. What the answers are is `board`'s.
"""

import contextlib
import queue
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

import structlog

from assetsync.config.units import Listen
from assetsync.errors import LedgerError
from assetsync.status.board import Reply
from assetsync.status.hosts import Hosts

log = structlog.get_logger(__name__)

_WORKERS = 4
_WAITING = 16
_PATIENCE = 10.0
_SILENCE = 5.0
_POLL = 0.2
_STOP_PATIENCE = 2.0
_FIRST_TRY = 2.0
_PLAIN = "text/plain; charset=utf-8"

Answers = Mapping[str, Callable[[], Reply]]


class Server:
    """The page's thread: binds the address, tries again while it is taken, and serves until it is stopped.

    That the page cannot be shown is no reason not to mirror: it is said, and tried again every `again` seconds.
    """

    def __init__(self, listen: Listen, answers: Answers, *, again: float = 60.0) -> None:
        self._listen = listen
        self._answers = answers
        self._again = again
        self._stop = threading.Event()
        self._tried = threading.Event()
        self._bound: _Bound | None = None
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    @property
    def port(self) -> int | None:
        """The port that is listened on; None while there is none."""
        return None if self._bound is None else int(self._bound.server_address[1])

    def start(self) -> None:
        """Begin to serve; waits for the address no longer than a moment, for a name may take long to look up."""
        self._thread.start()
        self._tried.wait(_FIRST_TRY)

    def stop(self) -> None:
        """End it, so that the address is free; what hangs is left to the end of the process."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_PATIENCE)

    def _run(self) -> None:
        trouble = self._bind()
        self._tried.set()
        if trouble is not None:
            log.error(
                "the status page cannot be shown",
                listen=f"{self._listen.host}:{self._listen.port}",
                detail=trouble,
                fix=f"free the address or change status.listen; tried again every {self._again:.0f} s",
            )
        while self._bound is None:
            if self._stop.wait(self._again):
                return
            self._bind()
        bound = self._bound
        while not self._stop.is_set():
            bound.serve_some()
        bound.end()

    def _bind(self) -> str | None:
        """Bind the address; gives what is in the way."""
        try:
            self._bound = _Bound(self._listen, self._answers)
        except OSError as error:
            return error.strerror or str(error)
        except UnicodeError:
            return "no such name can be looked up"
        log.info("status page", listen=self._listen.host, port=self.port)
        return None


class _Bound(socketserver.TCPServer):
    """A bound address and the threads behind it."""

    allow_reuse_address = True
    request_queue_size = _WAITING
    timeout = _POLL

    def __init__(self, listen: Listen, answers: Answers) -> None:
        family, _, _, _, address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        self.address_family = family
        self.answers = answers
        self.hosts = Hosts(listen.host)
        self._waiting: queue.Queue[tuple[socket.socket, Any] | None] = queue.Queue(_WAITING)
        self._open: dict[socket.socket, float] = {}
        self._open_lock = threading.Lock()
        super().__init__(address, _Handler)  # type: ignore[arg-type]
        self._workers = [
            threading.Thread(target=self._work, name=f"status-{number}", daemon=True) for number in range(_WORKERS)
        ]
        for worker in self._workers:
            worker.start()

    def serve_some(self) -> None:
        """Take what has come, and cut what takes too long."""
        self.handle_request()
        now = time.monotonic()
        with self._open_lock:
            late = [request for request, since in self._open.items() if now - since > _PATIENCE]
        for request in late:
            # Its thread notices, whatever it waits for: each byte in time is no way to keep it for ever.
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Free the address and let the threads go."""
        self.server_close()
        with self._open_lock:
            for request in self._open:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)
        until = time.monotonic() + _STOP_PATIENCE
        for _worker in self._workers:
            with contextlib.suppress(queue.Full):
                self._waiting.put(None, timeout=max(0.0, until - time.monotonic()))
        for worker in self._workers:
            worker.join(max(0.0, until - time.monotonic()))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand a connection to a thread, or turn it away."""
        with self._open_lock:
            self._open[request] = time.monotonic()
        try:
            self._waiting.put_nowait((request, client_address))
        except queue.Full:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection and forget it."""
        with self._open_lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def _work(self) -> None:
        while (one := self._waiting.get()) is not None:
            request, client_address = one
            try:
                self.finish_request(request, client_address)
            except OSError as error:
                log.debug("a reader of the status page went away", detail=str(error))
            except Exception:
                # The mirror goes on, and so does the thread.
                log.exception("the status page could not answer", client=str(client_address[0]))
            finally:
                self.shutdown_request(request)


class _Handler(BaseHTTPRequestHandler):
    """Answers one request, and closes."""

    server: _Bound
    server_version = "assetsync"
    sys_version = ""
    timeout = _SILENCE

    def do_GET(self) -> None:
        """Answer, with a body."""
        self._answer()

    def do_HEAD(self) -> None:
        """Answer, without the body."""
        self._answer()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Answer what http.server itself refuses: without a word of what was sent."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._send(_sentence(HTTPStatus.METHOD_NOT_ALLOWED, "this page is only read: GET or HEAD"))
            return
        self._send(_sentence(HTTPStatus(code), "this is no request that can be answered"))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
        """Log nothing: a page that refreshes itself would fill the journal."""

    def _answer(self) -> None:
        local = str(self.connection.getsockname()[0])
        if not self.server.hosts.are(self.headers.get_all("Host", []), local):
            text = "this host name is not mine: use this machine's address, localhost, or a name set as status.listen"
            self._send(_sentence(HTTPStatus.MISDIRECTED_REQUEST, text))
            return
        make = self.server.answers.get(self.path.partition("?")[0])
        if make is None:
            known = ", ".join(self.server.answers)
            self._send(_sentence(HTTPStatus.NOT_FOUND, f"there is no such page; there are {known}"))
            return
        try:
            reply = make()
        except LedgerError:
            # Said in the log by the loops, which need it too: once, and not with every refresh.
            reply = _sentence(HTTPStatus.SERVICE_UNAVAILABLE, "the ledger cannot be read now: see the log")
        self._send(reply)

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in (
            ("Content-Type", reply.kind),
            ("Content-Length", str(len(reply.body))),
            ("Content-Security-Policy", reply.policy),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
            ("Connection", "close"),
        ):
            self.send_header(name, value)
        if reply.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)
        self.close_connection = True


def _sentence(status: HTTPStatus, text: str) -> Reply:
    return Reply(status, _PLAIN, f"{text}\n".encode())

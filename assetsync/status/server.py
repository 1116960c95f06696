"""Serve finished answers over HTTP; only GET and HEAD are allowed, and there is no login.

A fixed number of threads serves all requests. More connections wait in a short queue; beyond it they are closed. A
connection carries one request and has `_PATIENCE` seconds for it. The `Host` field must name this machine: a page on
the web must not read what is served on loopback. The content of the answers is left to `board`.
"""

import contextlib
import ipaddress
import queue
import re
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

import structlog

from assetsync.config.units import Listen
from assetsync.errors import LedgerError
from assetsync.status.board import Reply

_ASK_AGAIN = 60.0
_LOCAL = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")


class Hosts:
    """The accepted host names for the listening address `listen`."""

    def __init__(self, listen: str) -> None:
        self._names = {*_LOCAL, listen.casefold()}
        self._own: str | None = None
        self._full = ""
        self._again = 0.0
        self._asking = threading.Lock()
        if not _is_loopback(listen):
            own = socket.gethostname().casefold()
            self._own = own.partition(".")[0]
            self._names |= {own, self._own, f"{own}.local"}

    def are(self, said: Sequence[str], local: str) -> bool:
        """Whether the `Host` fields of a request (`said`) name this machine.

        `local` is the local address of the connection. Any port is accepted: behind `ssh -L` the port differs.
        """
        found = _HOST.fullmatch(said[0].strip()) if len(said) == 1 else None
        if found is None:
            return False
        name = found[1].strip("[]").casefold().removesuffix(".")
        if name in self._names or name == local.removeprefix("::ffff:").casefold():
            return True
        # Look the full name up only if it may match: a name server that is down blocks the look-up for seconds.
        return name.partition(".")[0] == self._own and name == self._found()

    def _found(self) -> str:
        """Return this machine's full name as the system finds it; a name with another domain may be another machine's.

        A name without a domain means that no name server answered, as while a machine starts. It is looked up again
        after `_ASK_AGAIN` seconds.
        """
        with self._asking:
            if "." not in self._full and time.monotonic() >= self._again:
                self._full = socket.getfqdn().casefold()
                self._again = time.monotonic() + _ASK_AGAIN
            return self._full


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.casefold() == "localhost"


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
    """The page's thread: binds the address, and serves until it is stopped.

    If the address cannot be bound, the daemon mirrors without the page: the thread logs it once and retries every
    `again` seconds.
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
        """The port; None until the address is bound."""
        return None if self._bound is None else int(self._bound.server_address[1])

    def start(self) -> None:
        """Start to serve; wait at most `_FIRST_TRY` seconds for the address, whose name may take long to look up."""
        self._thread.start()
        self._tried.wait(_FIRST_TRY)

    def stop(self) -> None:
        """Stop, so that the address is free; threads that hang end with the process."""
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
        """Bind the address; return the reason if that fails, else None."""
        try:
            self._bound = _Bound(self._listen, self._answers)
        except OSError as error:
            return error.strerror or str(error)
        except UnicodeError:
            return "no such name can be looked up"
        log.info("status page", listen=self._listen.host, port=self.port)
        return None


class _Bound(socketserver.TCPServer):
    """A bound address and its worker threads."""

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
        """Accept a waiting connection, and cut the connections that take longer than `_PATIENCE` seconds."""
        self.handle_request()
        now = time.monotonic()
        with self._open_lock:
            late = [request for request, since in self._open.items() if now - since > _PATIENCE]
        for request in late:
            # The shutdown ends any wait of its thread, so that a client which sends single bytes cannot hold it.
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Free the address, cut open connections and stop the threads."""
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
        """Queue a connection for the threads, or close it if the queue is full."""
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
                # An error of the page must end neither the daemon nor this thread.
                log.exception("the status page could not answer", client=str(client_address[0]))
            finally:
                self.shutdown_request(request)


class _Handler(BaseHTTPRequestHandler):
    """The handler of one request; the connection closes after the answer."""

    server: _Bound
    server_version = "assetsync"
    sys_version = ""
    timeout = _SILENCE

    def do_GET(self) -> None:
        """Answer with a body."""
        self._answer()

    def do_HEAD(self) -> None:
        """Answer without the body."""
        self._answer()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Answer a request that http.server refuses; the answer contains nothing of the request."""
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
            # Not logged here, at every refresh: the loops need the ledger too and log it once.
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

"""Serve finished answers over HTTP; only GET and HEAD are allowed, and there is no login.

Each connection has a thread and carries one request. At most `_CONNECTIONS` are open: a further one replaces the
oldest that waits for its client, so that idle and slow clients cannot block the page; if the answers of all are being
made, it is closed. A client has `_DEADLINE` seconds for its whole request, and as many to read the answer. The `Host`
field must name this machine: a page on the web must not read what is served on loopback. The content of the answers is
left to `board`.
"""

import contextlib
import errno
import re
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any

import structlog

from assetsync.config.values import Listen, is_loopback
from assetsync.errors import LedgerError
from assetsync.status.board import Reply

log = structlog.get_logger(__name__)

_CONNECTIONS = 16
_SILENCE = 5.0
_DEADLINE = 10.0
_POLL = 0.2
_FREE_PORTS = range(9564, 9664)
"""The ports that are tried for `status.listen: auto`: not those that `init` and people count up from 9464."""

_STOP_PATIENCE = 2.0
_FIRST_TRY = 2.0
_PLAIN = "text/plain; charset=utf-8"
_LOCAL = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")

Answers = Mapping[str, Callable[[], Reply]]
Questions = Mapping[str, Callable[[str], Reply]]
"""The answers, by path, that depend on the query of the address: what follows `?`, not decoded."""
_NONE: Questions = {}


class Hosts:
    """The accepted host names for the listening address `listen`."""

    def __init__(self, listen: str) -> None:
        self._names = {*_LOCAL, listen.casefold()}
        self._own: str | None = None
        if not is_loopback(listen):
            own = socket.gethostname().casefold()
            self._own = own.partition(".")[0]
            self._names |= {own, self._own, f"{own}.local"}

    def accept(self, fields: Sequence[str], local: str) -> bool:
        """Whether the `Host` fields of a request name this machine.

        `local` is the local address of the connection. Any port is accepted: behind `ssh -L` the port differs.
        """
        found = _HOST.fullmatch(fields[0].strip()) if len(fields) == 1 else None
        if found is None:
            return False
        name = found[1].strip("[]").casefold().removesuffix(".")
        if name in self._names or name == local.removeprefix("::ffff:").casefold():
            return True
        # Look the full name up only if it may match: a name server that is down blocks the look-up for seconds. The
        # same name in another domain may be another machine's.
        return name.partition(".")[0] == self._own and name == socket.getfqdn().casefold()


class Server:
    """The page's thread: binds the address, and serves until it is stopped.

    If the address cannot be bound, the daemon mirrors without the page: the thread logs it once and retries every
    `again` seconds. Port 0 takes the port `kept`, which the site had before, or another one that is free; a port that
    `status.listen` named before may belong to another site, and is not kept.
    """

    def __init__(
        self, listen: Listen, answers: Answers, questions: Questions = _NONE, *, again: float = 60.0, kept: int = 0
    ) -> None:
        self.trouble: str | None = None
        """Why the address cannot be bound; None if it is bound, or was not tried yet."""
        self._listen = listen
        self._answers = answers
        self._questions = questions
        self._again = again
        self._ports = [listen.port] if listen.port else [*([kept] if kept in _FREE_PORTS else []), *_FREE_PORTS, 0]
        self._stop = threading.Event()
        self._tried = threading.Event()
        self._bound: _Bound | None = None
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)

    @property
    def port(self) -> int | None:
        """The port; None until the address is bound."""
        return None if self._bound is None else int(self._bound.server_address[1])

    @property
    def was_tried(self) -> bool:
        """Whether the address was tried, so that it has a port or a trouble."""
        return self._tried.is_set()

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
        while (trouble := self._bind()) is not None:
            self.trouble = trouble
            if not self._tried.is_set():
                log.error(
                    "the status page cannot be shown",
                    listen=str(self._listen),
                    detail=trouble,
                    fix=f"free the address or change status.listen; tried again every {self._again:.0f} s",
                )
            self._tried.set()
            if self._stop.wait(self._again):
                return
        self.trouble = None
        self._tried.set()
        assert self._bound is not None, "an address without trouble is bound"
        while not self._stop.is_set():
            self._bound.handle_request()
            self._bound.cut_late()
        self._bound.end()

    def _bind(self) -> str | None:
        """Bind the address; return the reason if that fails, else None."""
        trouble = ""
        for port in self._ports:
            try:
                self._bound = _Bound(Listen(self._listen.host, port), self._answers, self._questions)
            except OSError as error:
                trouble = error.strerror or str(error)
                if error.errno != errno.EADDRINUSE:
                    break
            except UnicodeError:
                return "no such name can be looked up"
            else:
                log.info("status page", listen=self._listen.host, port=self.port)
                return None
        return trouble


class _Bound(socketserver.ThreadingTCPServer):
    """A bound address and its open connections."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128
    timeout = _POLL

    def __init__(self, listen: Listen, answers: Answers, questions: Questions) -> None:
        family, _, _, _, address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        self.address_family = family
        self.answers = answers
        self.questions = questions
        self.hosts = Hosts(listen.host)
        # Oldest first; the value is since when it waits for its client, None while its answer is being made.
        self._open: dict[socket.socket, float | None] = {}
        self._changed = threading.Condition()
        super().__init__(address, _Handler)  # type: ignore[arg-type]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start the thread of a connection, or close the connection if all others are busy."""
        with self._changed:
            idle = [other for other, since in self._open.items() if since is not None]
            if idle and len(self._open) >= _CONNECTIONS:
                _cut(idle[0])
                self._changed.wait_for(lambda: len(self._open) < _CONNECTIONS, _POLL)
            has_room = len(self._open) < _CONNECTIONS
            if has_room:
                self._open[request] = time.monotonic()
        if has_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def set_busy(self, request: socket.socket, *, is_busy: bool) -> None:
        """Record whether the answer of a connection is being made: a busy connection is not replaced."""
        with self._changed:
            self._open[request] = None if is_busy else time.monotonic()

    def cut_late(self) -> None:
        """Cut the connections whose client is late: the time limit of a socket starts again with each byte."""
        with self._changed:
            for request, since in self._open.items():
                if since is not None and time.monotonic() - since > _DEADLINE:
                    _cut(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection and forget it."""
        super().shutdown_request(request)
        with self._changed:
            self._open.pop(request, None)
            self._changed.notify_all()

    def handle_error(self, _request: Any, client_address: Any) -> None:
        """Log an error: it must end neither the daemon nor the server."""
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            log.debug("a reader of the status page went away", detail=str(error))
        else:
            log.error("the status page could not answer", client=str(client_address[0]), exc_info=error)

    def end(self) -> None:
        """Free the address, cut the idle connections and wait for the busy ones."""
        self.server_close()
        with self._changed:
            for request, since in self._open.items():
                if since is not None:
                    _cut(request)
            self._changed.wait_for(lambda: not self._open, _STOP_PATIENCE)


def _cut(request: socket.socket) -> None:
    """End every wait of the connection's thread."""
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """The handler of one request; the connection closes after the answer."""

    server: _Bound
    server_version = "assetsync"
    sys_version = ""
    timeout = _SILENCE

    def do_GET(self) -> None:
        """Answer GET, and HEAD without the body."""
        self.server.set_busy(self.connection, is_busy=True)
        reply = self._reply()
        self.server.set_busy(self.connection, is_busy=False)
        self._send(reply)

    do_HEAD = do_GET  # noqa: N815 - the name is http.server's

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Answer a request that http.server refuses; the answer contains nothing of the request."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._send(_sentence(HTTPStatus.METHOD_NOT_ALLOWED, "this page is only read: GET or HEAD"))
            return
        self._send(_sentence(HTTPStatus(code), "this request cannot be answered"))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
        """Log nothing: a page that refreshes itself would fill the journal."""

    def _reply(self) -> Reply:
        local = str(self.connection.getsockname()[0])
        if not self.server.hosts.accept(self.headers.get_all("Host", []), local):
            text = "this host name is not accepted: use the address, localhost, or the name in status.listen"
            return _sentence(HTTPStatus.MISDIRECTED_REQUEST, text)
        path, _, query = self.path.partition("?")
        ask = self.server.questions.get(path)
        make = self.server.answers.get(path) if ask is None else partial(ask, query)
        if make is None:
            return _sentence(HTTPStatus.NOT_FOUND, "there is no such page; / has links to all others")
        try:
            return make()
        except LedgerError:
            # Not logged here, at every refresh: the loops need the ledger too and log it once.
            return _sentence(HTTPStatus.SERVICE_UNAVAILABLE, "the ledger cannot be read now: see the log")

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

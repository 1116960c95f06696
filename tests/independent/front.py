"""The service's socket: requests in, answers out, kept, closed or chunked as the dialect says."""

import time
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from .service import Answer, Service

LONGEST_HEAD = 8192
MIDWAY = 1 << 20


class Front(BaseHTTPRequestHandler):
    """One connection; subclasses name the service."""

    service: "Service"
    timeout = 60

    def log_message(self, *_: object) -> None:
        """Say nothing: the tests look at the service's lists."""

    def do_GET(self) -> None:
        self._operation(self._query())

    def do_POST(self) -> None:
        if self.headers.get("Content-Length") is None:
            self.service.complain("a POST without Content-Length")
        if urlsplit(self.path).path.endswith("/index.cfm"):
            self._upload()
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        if self.service.dialect.reads == "get":
            self._send(405, "text/html", b"<h1>Method Not Allowed</h1>")
        else:
            self._operation(self._query() | (_pairs(body) if self.service.dialect.reads == "both" else {}))

    def _query(self) -> dict[str, str]:
        return _pairs(urlsplit(self.path).query)

    def _operation(self, said: dict[str, str]) -> None:
        if len(self.raw_requestline) + len(self.headers.as_bytes()) > LONGEST_HEAD:
            self._send(400, "", b"")
        elif not urlsplit(self.path).path.endswith("/global/api2/search.cfc"):
            self._send(404, "text/html", b"<h1>Not Found</h1>")
        else:
            self._answer(self.service.operate(said))

    def _upload(self) -> None:
        service, length = self.service, int(self.headers.get("Content-Length") or 0)
        if self.headers.get("Content-Type") == "application/x-www-form-urlencoded":
            self._answer(service.form_without_file(_pairs(self.rfile.read(length).decode())))
            return
        if service.dialect.refuses_early and service.exceeds(length):
            self.close_connection = True
            self._answer(service.too_large())
            return
        body = bytearray()
        try:
            while len(body) < length and (piece := self.rfile.read1(min(65536, length - len(body)))):
                body += piece
                if len(body) > MIDWAY:
                    service.midway.set()
                    time.sleep(service.slow)
        except ConnectionError:
            self.close_connection = True
        self._answer(service.upload(self.headers.get("Content-Type", ""), bytes(body), whole=len(body) == length))

    def _answer(self, answer: "Answer") -> None:
        self._send(answer.status, answer.kind, answer.body)

    def _send(self, status: int, kind: str, body: bytes) -> None:
        how = self.service.dialect.connection
        self.close_connection = self.close_connection or how in {"close", "http/1.0"}
        try:
            self.send_response(status)
            if kind:
                self.send_header("Content-Type", kind)
            if how == "close":
                self.send_header("Connection", "close")
            elif how == "keep-alive":
                self.send_header("Content-Length", str(len(body)))
            elif how == "chunked":
                self.send_header("Transfer-Encoding", "chunked")
                pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
                body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in [*pieces, b""])
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True


def _pairs(text: str) -> dict[str, str]:
    return dict(parse_qsl(text, keep_blank_values=True))

"""A service made of a raw socket that does what a test scripts, bodies from memory, and the recorded answers."""

import hashlib
import shutil
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pydantic import SecretStr

from assetsync.model import UploadOptions, UploadRequest
from assetsync.service.client import HttpService, ServiceSettings

WIRE = Path(__file__).parent.parent / "wire"
KEY = "K3Y+of/this=test"
Script = Callable[[socket.socket], None]


class Recorded(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


@pytest.fixture
def recorded() -> Callable[[str], Recorded]:
    def read(name: str) -> Recorded:
        head, _, body = (WIRE / f"{name}.http").read_bytes().partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines if line)
        return Recorded(int(status.split()[1]), {key.lower(): value for key, value in headers.items()}, body)

    return read


class MemoryBody:
    """A body from memory; `fail` is raised in place of the chunk after `fail_after` bytes."""

    def __init__(self, data: bytes, *, chunk: int = 64 * 1024, fail: Exception | None = None, fail_after: int = 0):
        self.size = len(data)
        self.bytes_sent = 0
        self._data, self._chunk, self._fail, self._fail_after = data, chunk, fail, fail_after
        self._md5 = hashlib.md5(usedforsecurity=False)

    @property
    def md5(self) -> str:
        return self._md5.hexdigest().upper()

    def chunks(self) -> Generator[bytes, None, None]:
        for start in range(0, len(self._data), self._chunk):
            if self._fail is not None and start >= self._fail_after:
                raise self._fail
            piece = self._data[start : start + self._chunk]
            self.bytes_sent += len(piece)
            self._md5.update(piece)
            yield piece


@pytest.fixture
def make_body() -> type[MemoryBody]:
    return MemoryBody


@pytest.fixture
def make_request() -> Callable[..., UploadRequest]:
    def make(filename: str = "a.txt", **changes) -> UploadRequest:
        values = {"destfolderid": "F1", "filename": filename, "boundary": "b0undary", "options": UploadOptions()}
        return UploadRequest(**(values | changes))

    return make


def read_head(conn: socket.socket) -> tuple[bytes, bytes]:
    """Read the request's head; gives it and what came of the body."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = conn.recv(65536)
        if not piece:
            return data, b""
        data += piece
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def read_request(conn: socket.socket) -> tuple[bytes, bytes]:
    """Read one whole request by its Content-Length."""
    head, body = read_head(conn)
    # A GET has none.
    lengths = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    length = lengths[0] if lengths else 0
    whole = bytearray(body)
    while len(whole) < length and (piece := conn.recv(65536)):
        whole += piece
    return head, bytes(whole)


def reset(conn: socket.socket) -> None:
    """Close so that the other side sees a reset."""
    conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    conn.close()


def http(
    body: bytes, content_type: str = "application/xml;charset=UTF-8", status: str = "200 OK", *extra: str
) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join([*lines, *extra, "", ""]).encode() + body


class ScriptedServer:
    """Runs one script per connection, each in a thread; `errors` holds what went wrong in them."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.errors: list[Exception] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def _accept(self) -> None:
        while True:
            try:
                conn, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._run, args=(conn,))
            self._threads.append(thread)
            thread.start()

    def _run(self, conn: socket.socket) -> None:
        with conn:
            conn.settimeout(60)
            try:
                self.script(conn)
            except OSError as exc:
                self.errors.append(exc)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(10)
        for thread in self._threads:
            thread.join(10)


@pytest.fixture
def serve() -> Iterator[Callable[[Script], ScriptedServer]]:
    servers: list[ScriptedServer] = []

    def start(script: Script) -> ScriptedServer:
        servers.append(ScriptedServer(script))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


class TlsServer(NamedTuple):
    """What a server of 127.0.0.1 speaks TLS with, and the file of the authority that vouches for it."""

    context: ssl.SSLContext
    ca_file: str


@pytest.fixture(scope="session")
def tls_server(tmp_path_factory) -> TlsServer:
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "cert.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*request, "-addext", "subjectAltName=IP:127.0.0.1", *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return TlsServer(context, str(certificate))


@pytest.fixture
def connect() -> Iterator[Callable[..., HttpService]]:
    services: list[HttpService] = []

    def make(port: int, **changes) -> HttpService:
        scheme = changes.pop("scheme", "http")
        values = {
            "base_url": f"{scheme}://127.0.0.1:{port}/razuna",
            "upload_url": f"{scheme}://127.0.0.1:{port}/razuna/raz1/dam/index.cfm",
            "api_key": SecretStr(KEY),
            "connect_timeout": 20.0,
            "read_timeout": 20.0,
        }
        services.append(HttpService(ServiceSettings(**(values | changes))))
        return services[-1]

    yield make
    for service in services:
        service.close()


@pytest.fixture
def wire_tools():
    """The functions that scripts are made of (test modules are not importable from one another)."""

    class Tools:
        key = KEY
        head = staticmethod(read_head)
        request = staticmethod(read_request)
        reset = staticmethod(reset)
        http = staticmethod(http)

    return Tools

"""A service of raw sockets that answers as a hostile one would, and a site that is pointed at it."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from assetsync.cli.entry import run

# With everything in it that some encoding escapes.
KEY = "C4n4ry+K3y/x&y<z%"
FOLDER = "A6CE649FAA5F434EB513CA15656AB5AA"
COLUMNS = ("id", "filename", "folder_id", "size", "md5hash", "kind", "responsecode")


class Request(NamedTuple):
    kind: str
    head: bytes
    body: bytes


def http(body: str | bytes, content_type: str = "application/json;charset=UTF-8", status: str = "200 OK") -> bytes:
    data = body.encode("utf-8") if isinstance(body, str) else body
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(data)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + data


def rows(*assets: tuple[object, ...]) -> bytes:
    return http(json.dumps({"COLUMNS": COLUMNS, "DATA": [list(asset) for asset in assets]}))


def accepted(assetid: str, message: str = "success") -> bytes:
    fields = f"<responsecode>0</responsecode><message>{message}</message><assetid>{assetid}</assetid>"
    return http(f"<Response>{fields}<filetype>img</filetype></Response>", "text/xml")


class Hostile:
    """Gives each request to `answer`, which returns bytes, or None to say nothing; keeps every request."""

    def __init__(self, answer: Callable[[Request], bytes | None]) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self.over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def posts(self) -> list[Request]:
        return [request for request in self.requests if request.kind == "upload"]

    def _accept(self) -> None:
        while True:
            try:
                conn, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._serve, args=(conn,)))
            self._threads[-1].start()

    def _serve(self, conn: socket.socket) -> None:
        with conn:
            conn.settimeout(10)
            try:
                data = b""
                while b"\r\n\r\n" not in data:
                    if not (piece := conn.recv(65536)):
                        return
                    data += piece
                head, _, body = data.partition(b"\r\n\r\n")
                length = int(re.search(rb"(?i)content-length: *(\d+)", head)[1])
                while len(body) < length:
                    if not (piece := conn.recv(1 << 20)):
                        break
                    body += piece
                first = head.split(b"\r\n", 1)[0]
                kind = "upload" if b"search.cfc" not in first else "index" if b"searchIndex" in first else "search"
                self.requests.append(Request(kind, head, body))
                answer = self.answer(self.requests[-1])
                if answer is None:
                    self.over.wait(30)
                else:
                    conn.sendall(answer)
            except OSError:
                # What assetsync cuts short is its right.
                return

    def close(self) -> None:
        self.over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)


class Result(NamedTuple):
    code: int
    out: str
    err: str


class Site:
    """A tree, a key and a configuration in one folder; every output of every command is kept."""

    def __init__(self, folder: Path, port: int, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.photos = folder / "tree" / "photos"
        self.photos.mkdir(parents=True)
        self.ledger = folder / "site.db"
        self.key_file = folder / "key"
        self.config = folder / "site.yaml"
        self.shown = ""
        self._port = port
        self._capture = capture
        self.configure()

    def configure(self, *, key: str = KEY, key_file: Path | None = None, ledger: Path | None = None) -> None:
        key_file = key_file or self.key_file
        key_file.touch(0o600)
        key_file.write_text(key)
        service = f"http://127.0.0.1:{self._port}"
        self.config.write_text(
            f"site: hq\nroot: {self.folder}/tree\nledger: {ledger or self.ledger}\n"
            f"service: {{base_url: {service}/razuna, upload_url: {service}/index.cfm, api_key_file: {key_file},"
            " connect_timeout: 2s, read_timeout: 10s}\n"
            f'folders: [{{path: photos, destfolderid: "{FOLDER}"}}]\n'
            "watch: {settle: 0s}\nupload: {workers: 2, doubt_grace: 2s, lookup_lag: 0s}\n"
        )

    def write(self, name: str | bytes, content: bytes = b"some bytes") -> Path:
        path = self.photos / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def run(self, command: str, *arguments: str) -> Result:
        """Run a command in this process."""
        self._capture.readouterr()
        code = run([*command.split(), "--config", str(self.config), *arguments])
        out, err = self._capture.readouterr()
        self.shown += out + err
        return Result(code, out, err)

    def start(self, command: str, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a command as a process of its own."""
        words = [sys.executable, "-m", "assetsync", command, "--config", str(self.config), *arguments]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def states(self) -> dict[str, str]:
        found = (json.loads(line) for line in self.run("files", "--json").out.splitlines())
        return {row["path"]: row["state"] for row in found}


@pytest.fixture
def hostile() -> Iterator[Callable[[Callable[[Request], bytes | None]], Hostile]]:
    servers: list[Hostile] = []

    def start(answer: Callable[[Request], bytes | None]) -> Hostile:
        servers.append(Hostile(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def make_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[Hostile], Site]:
    return lambda server: Site(tmp_path / f"site-{server.port}", server.port, capsys)


class Tools(NamedTuple):
    """What tests answer with (test modules are not importable from one another)."""

    key: str = KEY
    folder: str = FOLDER
    http: Callable[..., bytes] = http
    rows: Callable[..., bytes] = rows
    accepted: Callable[..., bytes] = accepted


@pytest.fixture
def tools() -> Tools:
    return Tools()


@pytest.fixture
def obliging(tools: Tools) -> Callable[[Request], bytes]:
    """A service that accepts every upload and shows none, only a stranger's asset in the folder."""
    numbers = iter(range(1, 1_000_000))

    def answer(request: Request) -> bytes:
        if request.kind == "upload":
            return tools.accepted(f"A{next(numbers)}")
        stranger = ("B1", "a stranger.jpg", FOLDER, "7", None, "img", 0)
        return tools.rows(stranger) if request.kind == "search" else tools.http('{"responsecode":0,"message":"ok"}')

    return answer


@pytest.fixture
def within() -> Callable[..., object]:
    """Do something that must end in time: a regression is a failure then, and not a suite that hangs."""

    def do(seconds: float, work: Callable[[], object]) -> object:
        results: list[object] = []

        def target() -> None:
            try:
                results.append(work())
            except Exception as error:  # noqa: BLE001 - given to the one who asked
                results.append(error)

        thread = threading.Thread(target=target, daemon=True)
        thread.start()
        thread.join(seconds)
        assert results, f"it did not end within {seconds} s"
        return results[0]

    return do

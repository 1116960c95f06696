"""A site on a real disk beside the sandbox, with a front of raw sockets between them that a test scripts."""

import json
import os
import random
import re
import socket
import ssl
import struct
import subprocess
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from assetsync.app import build
from assetsync.clock import SystemClock
from assetsync.config import load_config, read_api_key
from assetsync.ledger.ledger import Ledger, open_ledger, read_ledger
from assetsync.ledger.reports import Finding
from assetsync.model import State
from assetsync.parts import make_service
from assetsync.reconcile import Reconciler, Report
from assetsync.sandbox import Sandbox, SandboxSettings
from tests.forks import call

FOLDER = "0A1B2C3D"
KEY = "faults-key"
PIECE = 65536


class Exchange:
    """One request as the front has it: its head is read, its body is still to come."""

    def __init__(self, conn: socket.socket, head: bytes, rest: bytes, backend: tuple[str, int]) -> None:
        self.conn = conn
        self.head = head
        self.rest = rest
        self._backend = backend
        lines = head.lower().split(b"\r\n")
        self.length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:"))

    def body(self, most: int | None = None) -> bytes:
        """Read the body, or `most` bytes of it."""
        most = self.length if most is None else min(most, self.length)
        while len(self.rest) < most and (piece := self.conn.recv(PIECE)):
            self.rest += piece
        return self.rest[:most]

    def pass_on(self, most: int | None = None) -> bytes:
        """Hand the request to the service and give its answer; with `most`, that much of the body, and no answer."""
        body = self.body(most)
        with socket.create_connection(self._backend, 10) as backend:
            backend.sendall(self.head + b"\r\n\r\n" + body)
            if most is not None:
                # The service is given time to take what came, and sees the end of it.
                backend.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := backend.recv(PIECE):
                answer += piece
        return answer

    def reset(self) -> None:
        """Close so that the other side sees a reset."""
        self.conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.conn.close()

    def hang_up(self, seconds: float = 10.0) -> None:
        """Wait until the other side closes; what it still sends is read."""
        self.conn.settimeout(seconds)
        while self.conn.recv(PIECE):
            pass


Script = Callable[[Exchange], None]


class Front:
    """Passes requests on to the service; the next uploads and look-ups go to the scripts, one each, while there are."""

    def __init__(self, backend: tuple[str, int], tls: ssl.SSLContext | None = None) -> None:
        self.uploads: deque[Script] = deque()
        self.lookups: deque[Script] = deque()
        self.seen: list[str] = []
        self.errors: list[Exception] = []
        self._backend = backend
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                conn, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(conn,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, conn: socket.socket) -> None:
        conn.settimeout(10)
        try:
            if self._tls is not None:
                conn = self._tls.wrap_socket(conn, server_side=True)
            with conn:
                self._exchange(conn)
        except OSError:
            # The other side gave up, as many of the faults make it do; what the test asks is how the site ends.
            conn.close()
        except Exception as error:  # noqa: BLE001 - compared by the test
            self.errors.append(error)

    def _exchange(self, conn: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = conn.recv(PIECE)
            if not piece:
                return
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        # A proxy is asked with whole addresses, a service with paths.
        head = re.sub(rb" http://[^/ ]+", b" ", head, count=1)
        exchange = Exchange(conn, head, rest, self._backend)
        upload = b"index.cfm" in head.split(b"\r\n", 1)[0]
        if upload and b"multipart/form-data" not in head:
            # The probe of the address for uploads, which holds no file.
            conn.sendall(exchange.pass_on())
            return
        self.seen.append("upload" if upload else "lookup")
        scripts = self.uploads if upload else self.lookups
        if scripts:
            scripts.popleft()(exchange)
        else:
            conn.sendall(exchange.pass_on())

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(15)


class QuickClock(SystemClock):
    """The machine's clock, many times as fast: what waits for time does not hold a test up."""

    def __init__(self, speed: float) -> None:
        super().__init__()
        self._speed = speed
        self._began = super().now(), super().steady()

    def now(self) -> float:
        return self._began[0] + (super().steady() - self._began[1]) * self._speed

    def steady(self) -> float:
        return self._began[1] + (super().steady() - self._began[1]) * self._speed

    def wait(self, seconds: float) -> bool:
        return super().wait(seconds / self._speed)


class CachedFolder:
    """Progress that tells nobody."""

    def phase(self, name: str, total: int | None = None) -> None:
        pass

    def at(self, done: float, bytes_done: int = 0, bytes_hashed: int = 0) -> None:
        pass


class Place:
    """A tree, a configuration and a ledger of its own for each test."""

    def __init__(self, folder: Path, sandbox: Sandbox) -> None:
        self.folder = folder
        self.sandbox = sandbox
        self.tree = folder / "tree"
        self.tree.mkdir(parents=True)
        self.ledger = folder / "site.db"
        self.config = folder / "site.yaml"
        self.grace = "10s"
        self.speed = 20.0
        self.point(sandbox.address)

    def point(self, address: str, **service: object) -> None:
        """Say where the service is, and what else the section says."""
        key = self.folder / "key"
        key.touch(0o600)
        key.write_text(KEY)
        said = {
            "site": "faults",
            "root": str(self.tree),
            "ledger": str(self.ledger),
            "service": {
                "base_url": f"{address}/razuna",
                "upload_url": f"{address}/razuna/raz1/dam/index.cfm",
                "api_key_file": str(key),
                "connect_timeout": "10s",
                "read_timeout": "10s",
                **service,
            },
            "folders": [{"path": ".", "destfolderid": FOLDER}],
            "watch": {"settle": "0s"},
            "upload": {"workers": "1", "doubt_grace": self.grace, "lookup_lag": "0s"},
            "schedule": {"index": "off"},
        }
        self.config.write_text(json.dumps(said))

    def write(self, name: str, content: bytes = b"some bytes") -> Path:
        path = self.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def reconcile(self, *, wait: float = 600.0, adopt: bool = False) -> Report:
        """Do what the command does, in this process and with a quick clock, by which `wait` counts."""
        config = load_config(self.config, {})
        service = make_service(config, read_api_key(config, {}))
        ledger = open_ledger(config.ledger)
        try:
            site = build(config, ledger, service, QuickClock(self.speed), random.Random(7))
            return Reconciler(site, wait=wait, adopt=adopt, progress=CachedFolder()).run()
        finally:
            service.close()
            ledger.close()

    def call(self, words: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command as a process of its own."""
        return call([*words.split(), "--config", str(self.config), *arguments])

    def command(self, words: str, *arguments: str) -> dict[str, Any]:
        """Run a command that must succeed; gives the one object that it prints with --json."""
        done = self.call(words, *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if "--json" in arguments else {}

    def read(self) -> Ledger:
        return read_ledger(self.ledger)

    def states(self) -> dict[str, State]:
        ledger = self.read()
        try:
            return {os.fsdecode(row.path): row.state for row in ledger.reports.files()}
        finally:
            ledger.close()

    def orphans(self) -> list[Finding]:
        ledger = self.read()
        try:
            return list(ledger.reports.orphans(0.0))
        finally:
            ledger.close()

    def copies(self) -> dict[str, int]:
        """How many assets hold the content that each file has now."""
        stored = Counter(self.sandbox.content(asset.id) for asset in self.sandbox.assets())
        files = [path for path in sorted(self.tree.rglob("*")) if path.is_file()]
        return {str(path.relative_to(self.tree)): stored[path.read_bytes()] for path in files}

    def strangers(self) -> set[str]:
        """The ids of assets whose content is no file's."""
        files = {path.read_bytes() for path in self.tree.rglob("*") if path.is_file()}
        return {asset.id for asset in self.sandbox.assets() if self.sandbox.content(asset.id) not in files}


@pytest.fixture
def make_place(tmp_path: Path) -> Iterator[Callable[..., Place]]:
    """Make a site beside a sandbox of its own; keywords are the sandbox's settings."""
    running: list[Sandbox] = []

    def make(**settings: object) -> Place:
        said = {"api_key": KEY, "folders": {FOLDER: "faults"}, "latency": 0.0, **settings}
        sandbox = Sandbox(SandboxSettings(**{"dialect": "observed"} | said))
        sandbox.start()
        running.append(sandbox)
        return Place(tmp_path / f"place-{len(running)}", sandbox)

    yield make
    for sandbox in running:
        sandbox.stop()


@pytest.fixture
def place(make_place: Callable[..., Place]) -> Place:
    return make_place()


@pytest.fixture
def make_front() -> Iterator[Callable[..., Front]]:
    """Put a front before a place's sandbox, and point the place to it."""
    fronts: list[Front] = []

    def make(place: Place, *, tls: ssl.SSLContext | None = None, name: str = "127.0.0.1", **service: object) -> Front:
        front = Front(("127.0.0.1", place.sandbox.port), tls)
        fronts.append(front)
        place.point(f"{'https' if tls else 'http'}://{name}:{front.port}", **service)
        return front

    yield make
    for front in fronts:
        front.close()
    assert [error for front in fronts for error in front.errors] == []

import json
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from assetsync.sandbox import Sandbox, SandboxSettings

KEY = "a-test-key"
FOLDER = "3611993CB28146DE89202A1992B99EE9"
BOUNDARY = "----------------------------assetsync"
WIRE = Path(__file__).parent.parent / "wire"


class Sample(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.seconds = 1_795_228_000.0

    def __call__(self) -> float:
        return self.seconds


class Caller:
    """Speaks to one sandbox as any client would: by HTTP, or by bytes on a socket."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.http = httpx.Client(trust_env=False, verify=False, timeout=10)
        self.search_url = f"{sandbox.base_url}/global/api2/search.cfc"

    def upload(self, name="note.txt", content=b"some bytes of a file...", *, headers=None, url="", **fields):
        given = {"fa": "c.apiupload", "api_key": KEY, "destfolderid": FOLDER} | fields
        given = {key: value for key, value in given.items() if value is not None}
        files = None if name is None else {"filedata": (name, content)}
        return self.http.post(self.sandbox.upload_url + url, data=given, files=files, headers=headers)

    def uploaded(self, name="note.txt", content=b"some bytes of a file...", **fields) -> str:
        answer = self.upload(name, content, **fields)
        return re.search("<assetid>([0-9A-F]{32})</assetid>", answer.text)[1]

    def search(self, searchfor=None, **params):
        given = {"method": "searchassets", "api_key": KEY, "searchfor": searchfor} | params
        return self.http.get(self.search_url, params={key: value for key, value in given.items() if value is not None})

    def found(self, searchfor, **params) -> list[dict[str, object]]:
        answer = json.loads(self.search(searchfor, **params).text)
        names, rows = (answer[key] for key in (("COLUMNS", "DATA") if "DATA" in answer else ("columns", "data")))
        return [dict(zip(names, row, strict=True)) for row in rows]

    def names(self, searchfor, **params) -> list[object]:
        return [row["filename"] for row in self.found(searchfor, **params)]

    def index(self, *assetids: str, **params):
        given = {"method": "searchIndex", "api_key": KEY, "assetid": ",".join(assetids)} | params
        return self.http.post(self.search_url, data=given)

    def connect(self) -> socket.socket:
        return socket.create_connection((self.sandbox.settings.host, self.sandbox.port), timeout=10)

    def head(self, length: int) -> bytes:
        return (
            "POST /razuna/raz1/dam/index.cfm HTTP/1.1\r\nHost: sandbox\r\n"
            f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\nContent-Length: {length}\r\n\r\n"
        ).encode()

    def fields(self, **fields: str) -> bytes:
        given = {"fa": "c.apiupload", "api_key": KEY, "destfolderid": FOLDER} | fields
        return "".join(
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in given.items()
        ).encode()

    def file_header(self, name="note.txt") -> bytes:
        disposition = f'Content-Disposition: form-data; name="filedata"; filename="{name}"'
        return f"--{BOUNDARY}\r\n{disposition}\r\nContent-Type: application/octet-stream\r\n\r\n".encode()

    @property
    def closing(self) -> bytes:
        return f"\r\n--{BOUNDARY}--\r\n".encode()

    def raw(self, body: bytes, length: int | None = None) -> bytes:
        """Send a body, close the sending half, and give everything that is answered."""
        with self.connect() as connection:
            connection.sendall(self.head(len(body) if length is None else length) + body)
            connection.shutdown(socket.SHUT_WR)
            return self.read_all(connection)

    def read_all(self, connection: socket.socket) -> bytes:
        answer = b""
        while data := connection.recv(65536):
            answer += data
        return answer


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_caller() -> Iterator[Callable[..., Caller]]:
    callers: list[Caller] = []

    def make(*, clock=None, **settings) -> Caller:
        given = {"api_key": KEY, "folders": {FOLDER: "SyncA"}} | settings
        made = Sandbox(SandboxSettings(**{"dialect": "observed"} | given), **({"clock": clock} if clock else {}))
        made.start()
        callers.append(Caller(made))
        return callers[-1]

    yield make
    for caller in callers:
        caller.http.close()
        caller.sandbox.stop()


@pytest.fixture
def caller(make_caller) -> Caller:
    return make_caller()


@pytest.fixture
def folder() -> str:
    return FOLDER


@pytest.fixture
def sample() -> Callable[[str], Sample]:
    def read(name: str) -> Sample:
        head, _, body = (WIRE / f"{name}.http").read_bytes().partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {line.partition(":")[0].lower(): line.partition(": ")[2] for line in lines[1:]}
        return Sample(int(lines[0].split()[1]), headers, body)

    return read


@pytest.fixture
def picture() -> Callable[[int, int, int], bytes]:
    """The first bytes of a PNG of so many pixels, filled up to a size."""

    def make(width: int, height: int, size: int) -> bytes:
        head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + width.to_bytes(4) + height.to_bytes(4)
        return head.ljust(size, b".")

    return make


@pytest.fixture
def eventually() -> Callable[..., None]:
    """Wait for what another thread of the sandbox is about to do; fails after a minute."""
    import time

    def wait(happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not happened():
            assert time.monotonic() < deadline, "it did not happen within a minute"
            time.sleep(0.005)

    return wait

"""A site of the fake service, with its board and a server on a free port."""

import http.client
import socket
from typing import NamedTuple

import pytest

from assetsync.config.values import Listen
from assetsync.model import NextTry
from assetsync.status.board import Board
from assetsync.status.metrics import Metrics
from assetsync.status.server import Server
from assetsync.status.site_status import Live, Trust, read_status

TRUST = Trust("inotify", watched=3, folders=2, limit=8192, overflows=1, canary_at=1_700_000_000.0)


ANYWHERE = Listen("127.0.0.1", 0)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Shown:
    """What is to be seen of a world; `live` is what its process would say of itself, `due` of a file."""

    def __init__(self, world):
        self.world = world
        self.metrics = world.meter = Metrics("test")
        self.live = Live("9.8.7", 1_700_000_000.0, TRUST, {"rescan": 4_000_000_000.0})
        self.due: NextTry | None = None
        self.board = Board(
            world.config(), world.ledger, world.clock, self.metrics, lambda: self.live, next_try=lambda _row: self.due
        )
        self.board_of_now()

    def board_of_now(self):
        """Forget what was counted, as time would."""
        self.board._kept = None

    def get(self, path: str):
        self.board_of_now()
        return self.board.answers()[path]()

    def page(self) -> str:
        return self.get("/").body.decode()

    def status(self):
        return read_status(self.world.config().outline, self.world.ledger, self.world.clock.now())


@pytest.fixture
def shown(world):
    return Shown(world)


@pytest.fixture
def serve():
    """Serve answers by path; the address is 127.0.0.1 and a free port unless it is given."""
    servers = []

    def start(answers, listen=ANYWHERE, again=60.0, questions=None):
        servers.append(Server(listen, answers, questions or {}, again=again))
        servers[-1].start()
        # On a busy machine `start` returns before the address is tried.
        assert servers[-1]._tried.wait(60)
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def ask():
    """Ask a server of this machine; `host` stands in `Host`."""

    def get(port: int, path: str = "/", method: str = "GET", host: str | None = None, address: str = "127.0.0.1"):
        connection = http.client.HTTPConnection(address, port, timeout=10)
        connection.request(method, path, headers={} if host is None else {"Host": host})
        answer = connection.getresponse()
        found = Answer(answer.status, dict(answer.getheaders()), answer.read())
        connection.close()
        return found

    return get


@pytest.fixture
def talk():
    """Send bytes to a port and give all that comes back."""

    def exchange(port: int, data: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=15) as connection:
            connection.sendall(data)
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
        return b"".join(parts)

    return exchange

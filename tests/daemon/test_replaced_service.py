"""Another installation takes the place of the service, at the same address, while a daemon sends to it."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from assetsync.sandbox import Sandbox, SandboxSettings
from tests.running import FOLDER, KEY, Running, daemons


class Installations:
    """Installations that answer at one address, one at a time; each keeps its assets."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self._running = ExitStack()
        self._port = port
        self.sandbox = self.switch("ours")

    def switch(self, name: str) -> Sandbox:
        self._running.close()
        data = self._folder / name
        data.mkdir(exist_ok=True)
        settings = SandboxSettings(
            dialect="observed", api_key=KEY, folders={FOLDER: "photos"}, port=self._port, data_dir=data, self_index=True
        )
        self.sandbox = self._running.enter_context(Sandbox(settings))
        return self.sandbox

    def end(self) -> None:
        self._running.close()

    def names(self) -> set[str]:
        return {asset.filename for asset in self.sandbox.assets()}


@pytest.fixture
def installations(tmp_path: Path, reserved_port: int) -> Iterator[Installations]:
    made = Installations(tmp_path, reserved_port)
    yield made
    made.end()


@pytest.fixture
def running(tmp_path: Path, installations: Installations) -> Iterator[Running]:
    """A daemon that has verified twelve files in our installation."""
    with daemons(tmp_path, installations.sandbox) as make:
        running = make()
        save(running, range(12))
        running.start()
        running.until_verified(12)
        yield running


def save(running: Running, numbers: range) -> None:
    for number in numbers:
        (running.tree / "photos" / str(number)).write_bytes(b"content %d" % number)


def test_daemon_stops_for_a_replaced_service(running, installations):
    installations.switch("theirs")
    save(running, range(100, 101))
    running.until(lambda: running.events("brake pulled"))
    assert running.events("none of the known assets is shown: an audit is due")
    save(running, range(200, 205))
    running.until(lambda: list(running.states().values()).count("queued") == 5)
    assert installations.names() == {"100"}

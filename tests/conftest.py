"""Options of the whole suite."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assetsync.sandbox import Sandbox
from assetsync.text import name_configuration

from .running import Running, alone, daemons, make_sandbox
from .world import ManualClock, World


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", default=False, help="explore further and simulate longer")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: is run with --long only")
    # A suite that a script runs in the background inherits these ignored, and hands that on to what it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)

    # Outside the disk of every ledger, as systemd's RuntimeDirectory is, and not in the machine's own /run.
    os.environ["RUNTIME_DIRECTORY"] = tempfile.mkdtemp(prefix="assetsync-runtime-")


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ.pop("RUNTIME_DIRECTORY"), ignore_errors=True)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("long") is not None and not item.config.getoption("--long"):
        pytest.skip("run with --long only")


@pytest.fixture(autouse=True)
def _own_configuration() -> Iterator[None]:
    """A test that runs a command must not change the commands that a later one shows."""
    yield
    name_configuration("")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(time.time() + 86_400)


@pytest.fixture
def make_world(tmp_path: Path, clock: ManualClock) -> Iterator[Callable[..., World]]:
    """Make a site; keywords are sections of its configuration. Each call is another site."""
    worlds: list[World] = []

    def make(base: Path | None = None, **said) -> World:
        base = base or tmp_path / f"site-{len(worlds)}"
        base.mkdir(exist_ok=True)
        worlds.append(World(base, clock, **said))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()


@pytest.fixture
def daemon_sandbox() -> Iterator[Sandbox]:
    with make_sandbox() as running:
        yield running


@pytest.fixture
def make_daemon(tmp_path: Path, daemon_sandbox: Sandbox) -> Iterator[Callable[..., Running]]:
    """Make a daemon as a process; keywords are sections of its configuration."""
    with daemons(tmp_path, daemon_sandbox) as make:
        yield make


@pytest.fixture(scope="module")
def make_lasting_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Running]]:
    """Make a daemon that all tests of a module look at, with a sandbox of its own."""
    with make_sandbox() as sandbox, daemons(tmp_path_factory.mktemp("daemon"), sandbox) as make:
        yield make


@pytest.fixture
def name_spaces() -> None:
    """Skip where an ordinary user may not make name spaces of their own."""
    tried = subprocess.run([*alone(""), "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no name spaces of one's own here: {tried.stderr.strip()}")

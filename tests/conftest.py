"""Options of the whole suite."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from assetsync.ledger.file import integrity
from assetsync.sandbox import Sandbox
from assetsync.service import client

from .empty_ledger import copying
from .process import left_as_it_was
from .quick import LONG_PLACES, is_slow
from .running import Running, alone, daemons, make_sandbox
from .slices import name_slices
from .world import ManualClock, World

MEMORY = Path("/dev/shm")
_NEEDED = 2 * 1024**3
"""Bytes of memory that must be free: more than the files of five workers ever take at once."""
_made: list[str] = []

_FIRST = (
    "tests/soak/test_soak.py::test_nothing_grows",
    "tests/faults/test_hardship.py",
    "tests/faults/test_simulation.py",
    "tests/systemd/test_debian.py",
    "tests/independent/test_kill.py",
    "tests/daemon/test_limits.py::test_few_descriptors_block_no_file",
    "tests/test_readme_commands.py",
)
"""The longest tests, in this order: if they came last, the other workers would be idle."""

_WAITING = (
    "tests/browser/",
    "tests/cli/commands/test_audit.py",
    "tests/cli/commands/test_files.py",
    "tests/cli/commands/test_upload.py",
    "tests/cli/test_entry.py",
    "tests/cli/test_operator.py",
    "tests/cli/test_terminal.py",
    "tests/daemon/",
    "tests/faults/test_crash_points.py",
    "tests/faults/test_first_contact.py",
    "tests/faults/test_hardship.py",
    "tests/faults/test_kill.py",
    "tests/faults/test_lying_listings.py",
    "tests/faults/test_sockets.py",
    "tests/faults/test_watch_fuzz.py",
    "tests/independent/",
    "tests/interface/test_kinds.py",
    "tests/interface/test_upload_parameters.py",
    "tests/notify/test_processes.py",
    "tests/service/test_connection.py",
    "tests/soak/",
    "tests/status/test_server.py",
    "tests/systemd/",
    "tests/test_demo.py",
    "tests/test_packaging.py",
    "tests/test_readme_commands.py",
    "tests/test_reconcile.py",
)
"""Folders and files of tests that wait for processes and intervals. The others compute most of the time."""

_ONE_WORKER = (
    "tests/browser/test_files_page.py",
    "tests/browser/test_page.py",
    "tests/independent/test_mirror.py",
    "tests/systemd/test_boot.py",
    "tests/systemd/test_debian.py",
    "tests/test_demo.py",
    "tests/test_packaging.py",
)
"""Files of `_WAITING` whose tests share what takes long to make.

pytest-xdist 3.8 ignores its own groups under pytest 9.2.
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", default=False, help="explore further and simulate longer")
    parser.addoption("--quick", action="store_true", default=False, help="leave out what takes long (`tests/quick.py`)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: is run with --long only")
    # A suite that a script runs in the background inherits these ignored, and hands that on to what it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)

    # A slow example is a busy machine, not a wrong result.
    examples = 1000 if config.getoption("--long") else 50
    settings.register_profile(
        "tests", max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("tests")

    _keep_files_in_memory()

    # Outside the disk of every ledger, as systemd's RuntimeDirectory is, and not in the machine's own /run.
    os.environ["RUNTIME_DIRECTORY"] = tempfile.mkdtemp(prefix="assetsync-runtime-")


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ.pop("RUNTIME_DIRECTORY"), ignore_errors=True)
    if _made:
        shutil.rmtree(_made.pop(), ignore_errors=True)
        del os.environ["TMPDIR"]
        tempfile.tempdir = None


def _keep_files_in_memory() -> None:
    """Make temporary files in memory, unless $TMPDIR names a place: on a disk, tests mostly wait for its fsync.

    Workers and processes inherit the place. It lets other users in and programs run, as /tmp does.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    room = os.statvfs(MEMORY)
    if room.f_bavail * room.f_frsize < _NEEDED or room.f_flag & os.ST_NOEXEC:
        return
    _made.append(tempfile.mkdtemp(prefix="assetsync-tests-", dir=MEMORY))
    os.chmod(_made[0], 0o755)
    os.environ["TMPDIR"] = tempfile.tempdir = _made[0]


class _Scheduling(LoadScopeScheduling):
    """Hand out whole files, but the tests that wait one by one.

    Four of six workers begin with the tests that wait, and two with those that compute: as many as CI has cores.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return nodeid if nodeid.startswith(_WAITING) and file not in _ONE_WORKER else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        waits = self.nodes.index(node) % 3 != 1

        def rank(scope: str) -> tuple[bool, int]:
            place = next((place for place, first in enumerate(_FIRST) if scope.startswith(first)), len(_FIRST))
            return scope.startswith(_WAITING) != waits, place

        self.workqueue.move_to_end(min(self.workqueue, key=rank), last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    named = [*_FIRST, *_WAITING, *_ONE_WORKER]
    assert [name for name in named if not (config.rootpath / name.partition("::")[0]).exists()] == []
    return _Scheduling(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the long folders and files out of `--quick`; None leaves the decision to other hooks."""
    is_long = collection_path.parent == Path(__file__).parent and collection_path.name in LONG_PLACES
    return True if is_long and config.getoption("--quick") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        left_out = {item for item in items if isinstance(item, pytest.Function) and is_slow(item)}
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("long") is not None and not item.config.getoption("--long"):
        pytest.skip("run with --long only")


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    name_slices(terminalreporter)


@pytest.fixture(autouse=True)
def _process_as_it_was() -> Iterator[None]:
    """Undo what a command sets up for a process of its own, or the next test depends on which test ran before it."""
    # A patch of its own: the test's must be undone before its folders are removed.
    with pytest.MonkeyPatch.context() as patch, left_as_it_was(patch):
        yield


@pytest.fixture(scope="session", autouse=True)
def _copy_new_ledgers() -> Iterator[None]:
    with copying() as migrate, pytest.MonkeyPatch.context() as patch:
        patch.setattr(integrity, "migrate", migrate)
        yield


@pytest.fixture(scope="session", autouse=True)
def _digest_keys_quickly() -> Iterator[None]:
    """Digest keys in one round: the keys of tests are no secrets. Processes that tests start take all rounds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "ROUNDS", 1)
        yield


@pytest.fixture
def clock() -> ManualClock:
    # From a full five minutes on, or pauses that end at multiples of seconds would be other ones in each run.
    return ManualClock((time.time() // 300 + 1) * 300 + 86_400)


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
def other_disk(tmp_path: Path) -> Iterator[Path]:
    """Make a folder on another file system than that of the other files; skip where there is none."""
    for place in (MEMORY, Path("/var/tmp")):
        if os.access(place, os.W_OK) and place.stat().st_dev != tmp_path.stat().st_dev:
            with tempfile.TemporaryDirectory(dir=place, prefix="assetsync-disk-") as folder:
                yield Path(folder)
            return
    pytest.skip("there is no second file system to be written to")


@pytest.fixture
def reserved_port() -> Iterator[int]:
    """Reserve a port of 127.0.0.1: the kernel gives it to nobody else, and a server may listen there and stop again.

    The socket that holds the port does not listen, so that connections are refused while no server does. Whoever
    listens there has to set SO_REUSEADDR, as servers do.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@pytest.fixture
def name_spaces() -> None:
    """Skip where an ordinary user may not make name spaces of their own."""
    tried = subprocess.run([*alone(""), "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no name spaces of one's own here: {tried.stderr.strip()}")

"""The sandbox as a Python object: start and stop it, create folders, switch faults and read what is stored.

The libraries that serve it are imported only at the start, so that a missing one is reported in one sentence. Answering
requests is left to `app`.
"""

import contextlib
import fcntl
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from assetsync.errors import UsageError
from assetsync.sandbox.faults import FaultBoard, FaultRule
from assetsync.sandbox.settings import SandboxSettings
from assetsync.sandbox.store import DATABASE, FILES, INCOMING, Store, StoredAsset

_LOCK: Final = "sandbox.lock"


class Sandbox:
    """A local service that implements the interface; `clock` returns the time in seconds that its delays use."""

    def __init__(self, settings: SandboxSettings, *, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self._clock = clock
        self._board = FaultBoard(settings.seed)
        self._held = ExitStack()
        self._store: Store | None = None
        self._port = settings.port

    def start(self) -> None:
        """Start to answer; raise UsageError if the extra is not installed, or the port or the folder is unavailable."""
        if self._store is not None:
            raise UsageError("The sandbox is already running", hint="stop it first")
        try:
            # Imported here, because only a sandbox that starts needs the extra.
            from assetsync.sandbox.app import make_app  # noqa: PLC0415
            from assetsync.sandbox.connection import Running, listen  # noqa: PLC0415
        except ModuleNotFoundError as exc:
            raise UsageError(
                f"The sandbox needs the library {exc.name}, which is not installed",
                hint="in a clone of assetsync: pip install '.[sandbox]'",
            ) from exc
        with ExitStack() as held:
            listening = held.enter_context(listen(self.settings.host, self._port))
            data_dir = self.settings.data_dir or Path(held.enter_context(_temporary()))
            held.enter_context(_taken(data_dir))
            store = Store(data_dir, self.settings, self._clock)
            held.callback(store.close)
            held.callback(Running(make_app(self.settings, store, self._board), listening).stop)
            self._port, self._store = listening.getsockname()[1], store
            self._held = held.pop_all()

    def stop(self) -> None:
        """Stop answering; remove the stored data if the settings name no data folder."""
        self._held.close()
        self._store = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _stored(self) -> Store:
        if self._store is None:
            raise UsageError("The sandbox is not running", hint="start it first")
        return self._store

    @property
    def port(self) -> int:
        """The port; 0 in the settings becomes the real port at the start."""
        return self._port

    @property
    def address(self) -> str:
        """Scheme, host and port; this is also the address of the page."""
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        return f"http://{host}:{self._port}"

    @property
    def base_url(self) -> str:
        """The base address of the search operations (interface section 1)."""
        return f"{self.address}/razuna"

    @property
    def upload_url(self) -> str:
        """The address of the upload operation (interface section 1)."""
        return f"{self.address}/razuna/raz1/dam/index.cfm"

    def assets(self) -> list[StoredAsset]:
        """Return all stored assets in the order of arrival, also those that no search shows."""
        return self._stored.assets()

    def content(self, assetid: str) -> bytes:
        """Return the bytes of an asset."""
        return self._stored.content(assetid).read_bytes()

    def create_folder(self, name: str, identifier: str | None = None) -> str:
        """Create a folder and return its identifier."""
        return self._stored.create_folder(name, identifier)

    def set_faults(self, *rules: FaultRule, seed: int | None = None) -> None:
        """Switch on exactly these faults, or none; a seed restarts the random numbers."""
        self._board.replace(rules, seed)


def _temporary() -> AbstractContextManager[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="assetsync-sandbox-")
    except OSError as exc:
        raise UsageError(
            f"The sandbox has no room for its data ({exc.strerror})", hint="name a folder for it, or set $TMPDIR"
        ) from exc


def serve(settings: SandboxSettings, *, started: Callable[[Sandbox], None] | None = None) -> None:
    """Run a sandbox until SIGINT or SIGTERM; call `started` with it once it answers.

    Call this from the main thread. The previous signal handlers are restored. Raise as `Sandbox.start` does.
    """
    ended = threading.Event()
    previous = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with Sandbox(settings) as sandbox:
            if started is not None:
                started(sandbox)
            ended.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _taken(folder: Path) -> Iterator[None]:
    """Hold the lock of the folder; create the folder if it is missing.

    Raise UsageError if another sandbox holds the folder, if it has subfolders with a sandbox's names but no database,
    or if it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = [name for name in (FILES, INCOMING) if os.path.lexists(folder / name)]
        if others and not (folder / DATABASE).exists():
            raise UsageError(
                f"{folder / others[0]} is not a sandbox's",
                hint="choose a folder that is not there yet, or an empty one",
            )
        fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as exc:
        raise UsageError(
            f"The folder {folder} cannot be used ({exc.strerror})", hint="choose another, or make room there"
        ) from exc
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise UsageError(
                f"Another sandbox uses the folder {folder}", hint="stop it first, or choose another folder"
            ) from exc
        yield
    finally:
        os.close(fd)

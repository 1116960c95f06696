"""The sandbox as a Python object: started and stopped, filled, disturbed and looked into.

The libraries that serve it are imported when it starts: without them, that is one clear sentence.
"""

import signal
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from assetsync.errors import UsageError
from assetsync.sandbox.faults import FaultBoard, FaultRule
from assetsync.sandbox.folder import taken
from assetsync.sandbox.settings import SandboxSettings
from assetsync.sandbox.store import Store, StoredAsset

if TYPE_CHECKING:
    from assetsync.sandbox.running import Running


class Sandbox:
    """A local service that implements the interface; `clock` gives the seconds by which its delays are measured."""

    def __init__(self, settings: SandboxSettings, *, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self._clock = clock
        self._board = FaultBoard(settings.seed)
        self._held = ExitStack()
        self._store: Store | None = None
        self._running: Running | None = None
        self._port = settings.port

    def start(self) -> None:
        """Begin to answer; raises UsageError when the extra is not installed, or port or folder cannot be had."""
        if self._running is not None:
            raise UsageError("The sandbox is already running", hint="stop it first")
        try:
            # Here and not above: the extra is needed only by whoever starts a sandbox.
            from assetsync.sandbox.app import make_app  # noqa: PLC0415
            from assetsync.sandbox.running import Running, listen  # noqa: PLC0415
        except ModuleNotFoundError as exc:
            raise UsageError(
                f"The sandbox needs the library {exc.name}, which is not installed",
                hint="in a clone of assetsync: pip install '.[sandbox]'",
            ) from exc
        with ExitStack() as held:
            listening = held.enter_context(listen(self.settings.host, self._port))
            data_dir = self.settings.data_dir
            if data_dir is None:
                data_dir = Path(held.enter_context(_temporary()))
            held.enter_context(taken(data_dir))
            try:
                store = Store(data_dir, self.settings, self._clock)
            except sqlite3.Error as exc:
                raise UsageError(
                    f"The sandbox cannot keep its data in {data_dir}: {exc}", hint="name a folder of its own"
                ) from exc
            held.callback(store.close)
            self._running = Running(make_app(self.settings, store, self._board), listening)
            self._port, self._store = listening.getsockname()[1], store
            self._held = held.pop_all()

    def stop(self) -> None:
        """Stop answering; without a data folder of its own, what was stored is gone with it."""
        if self._running is not None:
            self._running.stop()
            self._running = None
        self._store = None
        self._held.close()

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
        """The port; known after the start where 0 was asked for."""
        return self._port

    @property
    def address(self) -> str:
        """Scheme, host and port; the page is there."""
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
        """Give everything stored, in the order of arrival, whatever a search would show."""
        return self._stored.assets()

    def content(self, assetid: str) -> bytes:
        """Give the bytes of an asset."""
        return self._stored.content(assetid).read_bytes()

    def create_folder(self, name: str, identifier: str | None = None) -> str:
        """Create a folder; gives its identifier."""
        return self._stored.create_folder(name, identifier)

    def set_faults(self, *rules: FaultRule, seed: int | None = None) -> None:
        """Switch on exactly these faults, none to switch all off; a seed begins the random numbers anew."""
        self._board.replace(rules, seed)


def _temporary() -> AbstractContextManager[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="assetsync-sandbox-")
    except OSError as exc:
        raise UsageError(
            f"The sandbox has no room for its data ({exc.strerror})", hint="give a folder for it, or see to $TMPDIR"
        ) from exc


def serve(settings: SandboxSettings, *, started: Callable[[Sandbox], None] | None = None) -> None:
    """Run a sandbox until SIGINT or SIGTERM; `started` is called with it once it answers.

    For the main thread of a program; the handlers that were installed before are put back. Raises as `Sandbox.start`.
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

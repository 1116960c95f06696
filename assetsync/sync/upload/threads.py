"""Run in threads what may block for long. The event loop writes what they commit, and reads small files on a fast disk.

All are daemon threads: one that hangs in a dead network file system keeps no process from ending.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar, cast

from assetsync.errors import OutOfResources

T = TypeVar("T")

_OTHERS_FOLLOW = 0.002
"""Seconds for which a commit waits for the submissions of others that will probably follow."""


class Blocking(Protocol):
    """A way to run blocking work for coroutines."""

    is_committing: bool
    """Whether a thread waits for the disk: the event loop has time until it is False again."""

    async def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, or raise what it raises."""

    async def commit(self, *, others_follow: bool) -> None:
        """Return once everything that was submitted to the ledger is committed, or has failed.

        `others_follow`: other coroutines will probably submit something within a moment.
        """

    def close(self) -> None:
        """Start nothing more; threads end once their work has ended."""


class Threads:
    """Threads for the coroutines of the running event loop, as many as there is work, and the commits they share."""

    def __init__(
        self,
        write_queued: Callable[[], Callable[[], None] | None],
        alive: Callable[[], AbstractContextManager[object]],
        committers: Callable[[], int],
        commit_began: Callable[[], None],
        out_of_resources: Callable[[OutOfResources], None],
    ) -> None:
        """`write_queued` is that of the ledger; `alive` surrounds each piece of work.

        `committers` returns how many coroutines may wait for a commit at the same time. `commit_began` is called in the
        event loop once a thread commits, `out_of_resources` each time no further thread can be started. Raise
        RuntimeError if not even the first two can: after that all work is done, though it may wait for a thread.
        """
        self.is_committing = False
        self._write_queued = write_queued
        self._alive = alive
        self._out_of_resources = out_of_resources
        # The thread that was used last is used first: it has the ledger's pages in its cache.
        self._idle: asyncio.LifoQueue[_Thread] = asyncio.LifoQueue()
        # They exist before anything is written: what was written must be committed, and each result recorded.
        self._committer = _Thread("upload-commit", alive)
        self._started = [self._committer]
        try:
            self._start_thread()
        except RuntimeError:
            self._committer.close()
            raise
        self._loop = asyncio.get_running_loop()
        self._waiting: list[asyncio.Future[None]] = []
        self._timer: asyncio.Handle | None = None
        self._committers = committers
        self._commit_began = commit_began
        self._is_closed = False

    async def run(self, work: Callable[[], T]) -> T:
        """See `Blocking`."""
        if self._idle.empty():
            try:
                self._start_thread()
            except RuntimeError as error:
                if (lack := OutOfResources.of(error)) is None:
                    raise
                self._out_of_resources(lack)
        thread, ended = await self._idle.get(), self._loop.create_future()
        thread.start(work, partial(self._ended, thread, ended))
        return cast("T", await ended)

    def _start_thread(self) -> None:
        self._started.append(_Thread(f"upload-{len(self._started)}", self._alive))
        self._idle.put_nowait(self._started[-1])

    def _ended(self, thread: "_Thread", ended: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
        self._idle.put_nowait(thread)
        _set_all([ended], result, error)

    async def commit(self, *, others_follow: bool) -> None:
        """See `Blocking`; all who wait at the same time share one commit.

        The event loop writes, because two threads would wait for the interpreter's lock at each statement. A thread
        waits for the disk.
        """
        waiting = self._loop.create_future()
        self._waiting.append(waiting)
        if len(self._waiting) >= self._committers():
            self._commit_now()
        elif self._timer is None:
            # With a delay of 0 the loop still reads the answers that have already arrived: they share this commit.
            self._timer = self._loop.call_later(_OTHERS_FOLLOW if others_follow else 0, self._commit_now)
        await waiting

    def _commit_now(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_closed:
            # No thread would commit what is written. The run has failed, and those who wait are cancelled.
            return
        if self.is_committing:
            # Those who wait share the next commit, which begins when this one has ended.
            return
        waiting, self._waiting = self._waiting, []
        commit, failure = None, None
        try:
            commit = self._write_queued()
        except BaseException as error:  # noqa: BLE001 - raised in the coroutines that wait
            failure = error
        if commit is None:
            _set_all(waiting, None, failure)
            return
        self.is_committing = True
        self._committer.start(partial(self._commit_in_thread, commit), partial(self._committed, waiting))
        self._commit_began()

    def _commit_in_thread(self, commit: Callable[[], None]) -> None:
        try:
            commit()
        finally:
            self.is_committing = False

    def _committed(self, waiting: "list[asyncio.Future[None]]", _result: None, error: BaseException | None) -> None:
        _set_all(waiting, None, error)
        if self._waiting and self._timer is None:
            # First those who have waited go on, and the answers that have already arrived are read.
            self._timer = self._loop.call_later(0, self._commit_now)

    def close(self) -> None:
        """See `Blocking`."""
        self._is_closed = True
        for thread in self._started:
            thread.close()


def _set_all(futures: "Iterable[asyncio.Future[Any]]", result: Any, error: BaseException | None) -> None:
    for future in futures:
        if future.cancelled():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


class _Thread:
    """A daemon thread that does one piece of work after the other."""

    def __init__(self, name: str, alive: Callable[[], AbstractContextManager[object]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._alive = alive
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]] | None]
        self._jobs = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def start(self, work: Callable[[], T], ended: Callable[[T | None, BaseException | None], None]) -> None:
        """Let the thread do the work; `ended` gets in the event loop what it returned and what it raised."""
        self._jobs.put((work, ended))

    def close(self) -> None:
        """End the thread once its work has ended."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, ended = job
            result, error = None, None
            try:
                with self._alive():
                    result = work()
            except BaseException as raised:  # noqa: BLE001 - raised in the coroutine that waits
                error = raised
            with suppress(RuntimeError):  # the loop was closed by an error that ends the program: nobody waits
                self._loop.call_soon_threadsafe(ended, result, error)
            # Keep no file or body alive while waiting for the next job.
            del job, work, ended, result, error


class InPlace:
    """Blocking work in the calling thread, one piece after the other: for a single step, and for simulations."""

    def __init__(self, commit: Callable[[], None]) -> None:
        self._commit = commit
        self.is_committing = False

    async def run(self, work: Callable[[], T]) -> T:
        """See `Blocking`."""
        return work()

    async def commit(self, *, others_follow: bool) -> None:  # noqa: ARG002 - no commit waits for others here
        """See `Blocking`."""
        # Other coroutines may submit their work to this commit first.
        await asyncio.sleep(0)
        self._commit()

    def close(self) -> None:
        """See `Blocking`."""

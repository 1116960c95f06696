"""Draws from an iterator in a thread of its own, a few items ahead of whoever uses them.

What an item is and what happens to it is no matter here. Reading and hashing leave Python's lock, and so does sending:
a large file is read and hashed while the piece before is on its way.
"""

import threading
from collections.abc import Generator, Iterator
from queue import SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")


class _End:
    """The iterator ended, by itself or with an error."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def ahead(items: Iterator[Item], *, depth: int) -> Generator[Item, None, None]:
    """Yield what `items` yields, in order, with at most `depth` items drawn and not yet taken.

    Raises what `items` raises, after the items before it. The thread has ended when the iterator has, also when it was
    closed early; an item that is being drawn then is waited for.
    """
    free = threading.Semaphore(depth)
    drawn: SimpleQueue[Item | _End] = SimpleQueue()
    closed = threading.Event()

    def draw() -> None:
        error: BaseException | None = None
        try:
            while free.acquire() and not closed.is_set():
                drawn.put(next(items))
        except StopIteration:
            pass
        except BaseException as exc:  # noqa: BLE001 - raised again by the one who draws from the queue
            error = exc
        drawn.put(_End(error))

    thread = threading.Thread(target=draw, name="read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item = drawn.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            free.release()
            yield item
    finally:
        closed.set()
        free.release()
        thread.join()

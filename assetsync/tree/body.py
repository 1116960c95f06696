"""Read and hash the bytes of one file, and never complete a body whose file changed during the upload.

A small file is read whole and checked before its first byte is yielded. For a larger file the last chunk is held back
until the file was checked again. A thread of its own reads and hashes large files a few chunks ahead, while the chunk
before is on its way. `safe_open` opens the file; the sender handles a body that is aborted.
"""

import hashlib
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from assetsync.errors import FileChanged, ReadStopped
from assetsync.model import Body, FileStat
from assetsync.tree.safe_open import OpenFile, shown

if TYPE_CHECKING:
    from hashlib import _Hash

Item = TypeVar("Item")


def ahead(items: Iterator[Item], *, depth: int) -> Generator[Item, None, None]:
    """Yield what `items` yields, in order, with at most `depth` items drawn and not yet taken; none without a thread.

    Raises what `items` raises, after the items before it. The thread has ended when the iterator has, also when it was
    closed early; an item that is being drawn then is waited for.
    """
    free = threading.Semaphore(depth)
    # What ended the iterator comes last; it is StopIteration where no error did.
    drawn: SimpleQueue[tuple[Item] | BaseException] = SimpleQueue()
    closed = threading.Event()

    def draw() -> None:
        try:
            while free.acquire() and not closed.is_set():
                drawn.put((next(items),))
        except BaseException as exc:  # noqa: BLE001 - raised again by the one who draws from the queue
            drawn.put(exc)

    thread = threading.Thread(target=draw, name="read-ahead", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # No thread can be started: none of the items is drawn ahead.
        yield from items
        return
    try:
        while True:
            item = drawn.get()
            if isinstance(item, StopIteration):
                return
            if isinstance(item, BaseException):
                raise item
            free.release()
            yield item[0]
    finally:
        closed.set()
        free.release()
        thread.join()


# Files of up to this many bytes are read whole before they are sent.
SMALL = 8 * 2**20
CHUNK = 2**20
# Chunks of a large file that are read and hashed while an earlier chunk is sent.
AHEAD = 2


def difference(expected: FileStat, found: FileStat) -> str:
    """Return how a file differs from the expected version, for a message; "" if it does not differ.

    ctime is not compared: a chmod or a new hard link changes it and no byte. A rewrite whose mtime was reset on purpose
    is not detected here, but does no harm: the recorded MD5 is that of the bytes sent, and the next scan sees the new
    ctime and reads the file again.
    """
    if found.inode != expected.inode:
        return "another file replaced it"
    if found.size != expected.size:
        return f"its size went from {expected.size:,} to {found.size:,} bytes"
    if found.mtime_ns != expected.mtime_ns:
        return "it was written to"
    return ""


class FileBody:
    """The body of one upload, read from one file version (`model.Body`); the caller closes the open file."""

    def __init__(self, open_file: OpenFile, expected: FileStat) -> None:
        self._file = open_file
        self._expected = expected
        self._content: bytes | None = None
        self._whole = ""
        self._bytes_sent = 0
        self._md5 = _OF_NOTHING

    @property
    def size(self) -> int:
        """Bytes that a complete body yields."""
        return self._expected.size

    @property
    def bytes_sent(self) -> int:
        """Bytes yielded so far; a chunk is counted just before it is yielded."""
        return self._bytes_sent

    @property
    def md5(self) -> str:
        """MD5 of the bytes yielded so far, upper-case hex."""
        return self._md5

    def load(self) -> str | None:
        """Read a small file whole and return its MD5 before a byte is sent; return None for a large file.

        A second call does not read again. Raise FileChanged, FileUnreadable.
        """
        if self.size > SMALL:
            return None
        if self._content is None:
            content = self._file.read(self.size + 1, 0)
            _check(self._file, self._expected, len(content))
            self._content = content
            self._whole = _hexdigest(_hasher(content))
        return self._whole

    def chunks(self) -> Generator[bytes, None, None]:
        """Yield the bytes once, in order: a small file as one chunk, a larger file in chunks of 1 MiB.

        A large file is checked before the first chunk and before the last; a small file once, after it was read. Raises
        FileChanged or FileUnreadable in place of the chunk that would have completed an unsound body.
        """
        self.load()
        content = self._content
        if content is None:
            # Checked before the thread starts, so that a file that has already changed costs nothing.
            _check(self._file, self._expected, self.size)
            with closing(ahead(_hashed(self._file, self._expected), depth=AHEAD)) as pieces:
                for piece, md5 in pieces:
                    self._bytes_sent += len(piece)
                    self._md5 = md5
                    yield piece
        elif content:
            self._bytes_sent, self._md5 = self.size, self._whole
            yield content


class TappedBody:
    """A body that splits chunks into pieces and calls `tap` with the length of each piece before it yields the piece.

    It implements `model.Body`. `piece` returns the largest length of the next piece in bytes. `bytes_sent` counts whole
    chunks.
    """

    def __init__(self, body: Body, tap: Callable[[int], None], *, piece: Callable[[], int] = lambda: CHUNK) -> None:
        self._body = body
        self._tap = tap
        self._piece = piece

    @property
    def size(self) -> int:
        """Bytes that a complete body yields."""
        return self._body.size

    @property
    def bytes_sent(self) -> int:
        """Bytes of the chunks read so far, yielded or about to be."""
        return self._body.bytes_sent

    @property
    def md5(self) -> str:
        """MD5 of the chunks read so far, upper-case hex."""
        return self._body.md5

    def chunks(self) -> Generator[bytes, None, None]:
        """Yield the body's bytes in pieces, each after its call of `tap`."""
        for chunk in self._body.chunks():
            start = 0
            while start < len(chunk):
                most = self._piece()
                piece = chunk[start : start + most] if start or len(chunk) > most else chunk
                start += len(piece)
                self._tap(len(piece))
                yield piece


def digest(
    open_file: OpenFile,
    expected: FileStat,
    *,
    stop: Callable[[], bool] = lambda: False,
    tap: Callable[[int], None] = lambda _length: None,
) -> str:
    """Return the MD5 of the whole file, upper-case hex; `tap` is called with the length of each chunk.

    Raise FileChanged if the file is not the expected version before or after reading, FileUnreadable, and ReadStopped
    if `stop`, which is called for every chunk, returns True.
    """
    _check(open_file, expected, expected.size)
    hasher = _hasher()
    for chunk in _read(open_file, expected):
        if stop():
            raise ReadStopped(f"{shown(open_file.path)} was not read to the end")
        hasher.update(chunk)
        tap(len(chunk))
    return _hexdigest(hasher)


def prefix_digests(
    open_file: OpenFile, lengths: Sequence[int], *, tail: bytes = b"", stop: Callable[[], bool] = lambda: False
) -> dict[int, str]:
    """Return the MD5 of the first n bytes of file plus `tail`, for each n in `lengths`, in one pass over the file.

    `tail` is the closing boundary of the body in which the file was sent. Lengths beyond file and tail are missing from
    the result. The file need not be the version that was sent: a matching prefix is proof in itself. Raise
    FileUnreadable, and ReadStopped as `digest` does.
    """
    hasher = _hasher()
    found: dict[int, str] = {}
    at = 0
    size = open_file.stat.size
    for length in sorted(length for length in set(lengths) if 0 <= length <= size + len(tail)):
        while at < length:
            if stop():
                raise ReadStopped(f"{shown(open_file.path)} was not read to the end")
            if at < size:
                chunk = open_file.read(min(CHUNK, min(length, size) - at), at)
            else:
                chunk = tail[at - size : length - size]
            if not chunk:
                # The file was truncated after it was opened; the bytes beyond its new end are unknown.
                return found
            hasher.update(chunk)
            at += len(chunk)
        found[length] = _hexdigest(hasher)
    return found


def _hashed(file: OpenFile, expected: FileStat) -> Iterator[tuple[bytes, str]]:
    hasher = _hasher()
    for chunk in _read(file, expected):
        hasher.update(chunk)
        yield chunk, _hexdigest(hasher)


def _read(file: OpenFile, expected: FileStat) -> Iterator[bytes]:
    """Yield the bytes of the file, the last chunk only after a check that the file is still the expected version."""
    file.expect_sequence()
    at = 0
    while at < expected.size:
        length = min(CHUNK, expected.size - at)
        # Ask for one byte beyond the expected end, to detect a file that grew.
        last = at + length == expected.size
        chunk = file.read(length + last, at)
        at += len(chunk)
        if last or len(chunk) < length:
            _check(file, expected, at)
        yield chunk
    if not expected.size:
        _check(file, expected, len(file.read(1, 0)))


def _check(file: OpenFile, expected: FileStat, got: int) -> None:
    """Compare an open file, and the number of bytes read from it, with the expected version; raises FileChanged."""
    changed = difference(expected, file.restat())
    if not changed and got != expected.size:
        changed = f"it gave {got:,} bytes of {expected.size:,}"
    if changed:
        raise FileChanged(f"{shown(file.path)} changed while it was read: {changed}")


def _hasher(content: bytes = b"") -> "_Hash":
    # The service reports MD5s of its assets; the digest is compared with them and protects nothing.
    return hashlib.md5(content, usedforsecurity=False)


def _hexdigest(hasher: "_Hash") -> str:
    return hasher.hexdigest().upper()


_OF_NOTHING = _hexdigest(_hasher())

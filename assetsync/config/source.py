"""Reads a file that a person names, or a pipe: no more than was to be expected, and never for ever.

What is in it, and what is said where it cannot be read, is left to the caller.
"""

import errno
import os
import select
import stat
import time
from pathlib import Path

_PIPE_PATIENCE = 5.0
"""Seconds within which somebody must open the other end of a pipe."""

_WRITER = 30.0
"""Seconds that a writer may take in all: what decrypts it may ask far away."""


def read_source(path: Path, most: int) -> bytes:
    """Give the bytes of a file or a pipe; of what is longer than `most`, one byte more, so that it shows.

    Raises OSError, also where nobody opens the other end of a pipe within seconds, or where it does not end in time.
    """
    # Nobody may ever open the other end of a pipe.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            return _from_pipe(fd, most + 1)
        # A terminal is waited for, as `cat` does.
        os.set_blocking(fd, True)
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(most + 1)
    finally:
        os.close(fd)


def _from_pipe(fd: int, most: int) -> bytes:
    data, came = b"", False
    began = time.monotonic()
    while len(data) < most:
        try:
            more = os.read(fd, most - len(data))
        except BlockingIOError:
            # Somebody has it open and has yet to write; where nobody has, it is at its end at once.
            came = True
        else:
            if came and not more:
                break
            data, came = data + more, came or bool(more)
        left = began + (_WRITER if came else _PIPE_PATIENCE) - time.monotonic()
        if left <= 0:
            what = "what is written into this pipe does not end" if came else "nobody writes into this pipe"
            raise TimeoutError(errno.ETIMEDOUT, what)
        came = bool(select.select([fd], [], [], left)[0]) or came
    return data

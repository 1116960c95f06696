"""Read a file or a pipe that a person names, with a limit on its bytes and on the time for a pipe.

Interpreting the content is left to the caller.
"""

import errno
import os
import select
import stat
import time
from pathlib import Path

from assetsync.errors import ConfigError

KEY_VARIABLE = "ASSETSYNC_API_KEY"
"""The variable of the environment that may hold the API key."""

MOST_BYTES = 4 * 1024 * 1024
"""The most bytes of a configuration."""

_PIPE_PATIENCE = 5.0
"""Seconds within which the other end of a pipe must be opened."""

_WRITER = 30.0
"""Most seconds for a writer in total: the program that decrypts the content may ask a remote service."""


def read_configuration(path: Path) -> bytes:
    """Return the bytes of a configuration, as `read_source` does for `MOST_BYTES`. Raise ConfigError."""
    try:
        return read_source(path, MOST_BYTES)
    except OSError as exc:
        reason = exc.strerror or type(exc).__name__
        mistake = f"{path}: the configuration cannot be read ({reason}): name an existing file with --config"
        raise ConfigError([mistake]) from exc


def read_source(path: Path, most: int) -> bytes:
    """Return the bytes of a file or a pipe; if it is longer than `most`, `most` + 1 bytes, so that the caller notices.

    Raise OSError, also if the other end of a pipe is not opened within seconds, or if a pipe does not end in time.
    """
    # The other end of a pipe may never be opened.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            return _from_pipe(fd, most + 1)
        # A read from a terminal blocks, as in `cat`.
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
            # A writer has the pipe open but has not written yet; without a writer, a read returns the end at once.
            came = True
        else:
            if came and not more:
                break
            data, came = data + more, came or bool(more)
        left = began + (_WRITER if came else _PIPE_PATIENCE) - time.monotonic()
        if left <= 0:
            what = "this pipe was not closed in time" if came else "nothing writes to this pipe"
            raise TimeoutError(errno.ETIMEDOUT, what)
        came = bool(select.select([fd], [], [], left)[0]) or came
    return data

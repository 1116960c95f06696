"""Reads a file that a person names, or a pipe: no more than was to be expected, and never for ever.

What is in it, and what is said where it cannot be read, is left to the caller.
"""

import errno
import os
import select
import stat
from pathlib import Path

_PIPE_PATIENCE = 5.0


def read_source(path: Path, most: int) -> bytes:
    """Give the bytes of a file or a pipe; of what is longer than `most`, one byte more, so that it shows.

    Raises OSError, also where nobody writes into the pipe within seconds.
    """
    # Nobody may ever open the other end of a pipe.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            if not select.select([file], [], [], _PIPE_PATIENCE)[0]:
                raise TimeoutError(errno.ETIMEDOUT, "nobody writes into this pipe")
            os.set_blocking(file.fileno(), True)
        return file.read(most + 1)

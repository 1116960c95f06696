"""Systemd's journal as the reader of stderr: it takes a priority in front of each line (sd-daemon(3))."""

import os
from typing import TextIO


def in_journal(out: TextIO) -> bool:
    """Return whether the stream is connected to systemd's journal, which reads a priority in front of each line."""
    try:
        status = os.fstat(out.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"

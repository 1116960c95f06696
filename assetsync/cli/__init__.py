"""The commands: read the command line, call the parts, print the results and set the exit code.

There is one module for each command in `commands`. It is loaded when the command is called, so that a fast command does
not load what a slow one needs. The work itself is left to the layers below.
"""

import os
import signal
import sys
from types import FrameType

from assetsync import INTERRUPTED


def main() -> int:
    """Run the command line of this process and return the exit code."""
    try:
        if sys.argv[1:2] == ["run"]:
            # Loading the daemon takes a second on a busy machine. It reads the configuration after that, and takes the
            # signals over before (`daemon.systemd.Signals`).
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, _end)
        from assetsync.cli import entry  # noqa: PLC0415 - slow to load
    except KeyboardInterrupt:
        return INTERRUPTED
    return entry.main()


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)

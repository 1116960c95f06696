"""The commands: read the command line, call the parts, print the results and set the exit code.

There is one module for each command. It is loaded when the command is called, so that a fast command does not load what
a slow one needs. The work itself is left to the layers below.
"""

from assetsync.cli.entry import main

__all__ = ["main"]

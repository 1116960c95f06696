"""The commands: they read the command line, call the parts, render what came of it and set the exit code.

One module a command, loaded when it is called, so that a quick command does not pay for a slow one. What a command
does is left to the layers below.
"""

from assetsync.cli.entry import main

__all__ = ["main"]

"""The demonstration: a sample tree, a sandbox to send it to, and the same run that a site gets.

`sample` makes the tree, `stage` holds everything together. Printing what happens is the command's.
"""

from assetsync.demo.stage import Stage

__all__ = ["Stage"]

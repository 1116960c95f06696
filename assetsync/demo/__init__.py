"""The demonstration: a sample tree, a sandbox as the service, and the same run as for any site.

`sample` makes the tree, `stage` runs the parts. Printing is left to the command.
"""

from assetsync.demo.stage import Stage

__all__ = ["Stage"]

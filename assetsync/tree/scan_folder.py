"""One folder on the stack of a scan: its descriptor, its listing and its cached state; `scan` does the walking."""

import os

from assetsync.model import Quiet
from assetsync.tree.folder_digest import Signature
from assetsync.tree.listing import NOTHING


class Frame:
    """A folder on the stack of a scan.

    `outer` is the length of the parent's path. `fd` is -1 while the folder is closed to save descriptors.
    """

    __slots__ = (
        *("covered", "fd", "hidden", "identity", "last", "linked", "listing", "mapping", "outer", "quiet"),
        *("signature", "spooled"),
    )

    def __init__(self, fd: int, outer: int, covered: int | None, *, hidden: bool, linked: bool) -> None:
        self.fd = fd
        self.outer = outer
        self.identity = identity_of(fd)
        self.covered = covered
        self.mapping = None if hidden else covered
        self.hidden = hidden
        self.linked = linked
        self.spooled = 0
        self.last = b""
        self.listing = NOTHING
        self.quiet: Quiet | None = None
        self.signature: Signature | None = None


def identity_of(fd: int) -> tuple[int, int]:
    """Return device and inode of an open folder; raises OSError."""
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def close(frame: Frame) -> None:
    """Close the folder's descriptor; a second call does nothing."""
    fd, frame.fd = frame.fd, -1
    if fd >= 0:
        os.close(fd)

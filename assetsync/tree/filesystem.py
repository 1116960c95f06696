"""Tells on what kind of file system a path lies, from the kernel's table of mounts.

It matters for two things: a file system that others write to without this kernel seeing it gives no events, and its
times come from another clock. What follows from that is for whoever watches and settles.
"""

import os
import re
from typing import NamedTuple

MOUNTS = "/proc/self/mountinfo"

# Written to by other machines, or by the host of this virtual one.
NETWORK = frozenset(
    {
        "9p", "acfs", "afs", "autofs", "beegfs", "ceph", "cifs", "coda", "drvfs", "fuse", "gfs2", "glusterfs", "gpfs",
        "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "prl_fs", "pvfs2", "shfs", "smb2", "smb3", "smbfs",
        "vboxsf", "virtiofs", "vmhgfs",
    }
)  # fmt: skip

_OCTAL = re.compile(rb"\\([0-7]{3})")
# "36 35 98:0 /in/the/device /where/mounted rw,noatime shared:1 - ext4 /dev/sda1 rw" (proc_pid_mountinfo(5)).
_MOUNTED_AT = 4


class Mount(NamedTuple):
    """One line of the table: where it is mounted, an absolute path, and the type of file system."""

    point: bytes
    kind: str

    @property
    def is_network(self) -> bool:
        """Whether others can write there unseen; every FUSE file system is taken to be one that can."""
        return self.kind in NETWORK or self.kind.startswith("fuse.")


def mounts(table: bytes) -> list[Mount]:
    """Read a table in the form of mountinfo, in its order; lines that are no mounts are passed over."""
    found = []
    for line in table.split(b"\n"):
        # How many fields stand before the dash differs from line to line; the type is the first behind it.
        head, dash, rest = line.partition(b" - ")
        fields = head.split(b" ")
        if dash and len(fields) > _MOUNTED_AT:
            kind = rest.split(b" ", 1)[0].decode("ascii", "backslashreplace")
            found.append(Mount(_OCTAL.sub(_byte, fields[_MOUNTED_AT]), kind))
    return found


def mount_of(path: bytes, table: list[Mount]) -> Mount | None:
    """Give the mount that an absolute, link-free path lies on: the longest that holds it, of equals the last."""
    best = None
    for mount in table:
        if _holds(mount.point, path) and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def is_network_filesystem(path: bytes) -> bool:
    """Tell whether others can write to the file system under `path` without this kernel seeing it; raises OSError."""
    mount = mount_of(os.path.realpath(path), _table())
    return mount is not None and mount.is_network


def network_mounts(root: bytes) -> list[bytes]:
    """Give the mount points below `root`, relative to it, on which others can write unseen.

    b"" stands for the root, when it lies on one itself. Raises OSError when the table cannot be read.
    """
    real = os.path.realpath(root)
    table = _table()
    points = [b""] if (own := mount_of(real, table)) and own.is_network else []
    for point in sorted({mount.point for mount in table}):
        mount = mount_of(point, table)
        if point != real and _holds(real, point) and mount is not None and mount.is_network:
            points.append(point[len(real.rstrip(b"/")) + 1 :])
    return points


def file_system(fd: int) -> str:
    """Name the file system of an open folder: by the id that it was made with, where its kind has one.

    Else by the number of its device, which the next mount may change. Raises OSError.
    """
    made = os.fstatvfs(fd).f_fsid
    return f"{made:x}" if made else f"device {os.fstat(fd).st_dev:x}"


def _table() -> list[Mount]:
    with open(MOUNTS, "rb") as file:
        return mounts(file.read())


def _holds(folder: bytes, path: bytes) -> bool:
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")


def _byte(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 8) & 0xFF])

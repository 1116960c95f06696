"""Determine the file system of a path from the kernel's table of mounts.

The kind matters for two reasons: if other machines write to a file system, this kernel sends no events for their
changes, and the file times come from another clock. The callers that watch and settle draw the conclusions.
"""

import os
import re
from typing import NamedTuple

MOUNTS = "/proc/self/mountinfo"

# File systems that other machines, or the host of this virtual machine, may write to.
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
    """One line of the table: the mount point, an absolute path, and the type of the file system."""

    point: bytes
    kind: str

    @property
    def is_network(self) -> bool:
        """Whether other machines can write there unseen by this kernel; assumed for every FUSE file system."""
        return self.kind in NETWORK or self.kind.startswith("fuse.")


def mounts(table: bytes) -> list[Mount]:
    """Return the mounts of a table in mountinfo format, in the table's order; other lines are skipped."""
    found = []
    for line in table.split(b"\n"):
        # The number of fields before the dash varies; the type is the first field after the dash.
        head, dash, rest = line.partition(b" - ")
        fields = head.split(b" ")
        if dash and len(fields) > _MOUNTED_AT:
            kind = rest.split(b" ", 1)[0].decode("ascii", "backslashreplace")
            found.append(Mount(_OCTAL.sub(lambda octal: bytes([int(octal[1], 8) & 0xFF]), fields[_MOUNTED_AT]), kind))
    return found


def mount_of(path: bytes, table: list[Mount]) -> Mount | None:
    """Return the mount of an absolute, link-free path: the longest mount point above it, the last among equals."""
    above = [mount for mount in reversed(table) if _holds(mount.point, path)]
    return max(above, key=lambda mount: len(mount.point), default=None)


def network_mounts(root: bytes) -> list[bytes]:
    """Return the mount points below `root`, relative to it, where others can write unseen by this kernel.

    b"" is the root, if its own file system is of this kind. Raise OSError if the table cannot be read.
    """
    real = os.path.realpath(root)
    table = mounts(_read())
    points = [b""] if (own := mount_of(real, table)) and own.is_network else []
    for point in sorted({mount.point for mount in table}):
        mount = mount_of(point, table)
        if point != real and _holds(real, point) and mount is not None and mount.is_network:
            points.append(point[len(real.rstrip(b"/")) + 1 :])
    return points


def mount_lines(real: bytes) -> frozenset[bytes]:
    """Return the lines of the table for what is mounted above, at and below the path `real`; raise OSError.

    The set changes whenever something is mounted or unmounted there. The path has no link in it, and is not looked at:
    its file system may hang.
    """
    lines = {line: mounts(line) for line in _read().split(b"\n")}
    return frozenset(
        line for line, found in lines.items() if any(_holds(m.point, real) or _holds(real, m.point) for m in found)
    )


def file_system(fd: int) -> str:
    """Return an identifier of an open folder's file system: its file system id, if it has an id.

    Otherwise return its device number, which may change with the next mount. Raise OSError.
    """
    made = os.fstatvfs(fd).f_fsid
    return f"{made:x}" if made else f"device {os.fstat(fd).st_dev:x}"


def _read() -> bytes:
    with open(MOUNTS, "rb") as file:
        return file.read()


def _holds(folder: bytes, path: bytes) -> bool:
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")

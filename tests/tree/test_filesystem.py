import os
from pathlib import Path

import pytest

from assetsync.tree import filesystem
from assetsync.tree.filesystem import Mount, mount_lines, mount_of, mounts, network_mounts

TABLE = b"""\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:21 / /proc rw - proc proc rw
30 22 0:40 / /srv/media rw,relatime shared:7 master:2 - nfs4 filer:/media rw,vers=4.2
31 30 8:17 / /srv/media/local\\040disk rw - xfs /dev/sdb1 rw
32 22 0:41 / /mnt/a\\011b\\134c\\012d rw - fuse.sshfs host:/ rw
33 22 0:42 / /mnt/auto rw - autofs map rw
34 33 0:43 / /mnt/auto rw - tmpfs tmpfs rw

garbage
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (b"/", "ext4"),
        (b"/srv", "ext4"),
        (b"/srv/media", "nfs4"),
        (b"/srv/media/photos/a.jpg", "nfs4"),
        (b"/srv/media2", "ext4"),
        (b"/srv/media/local disk/x", "xfs"),
        (b"/mnt/a\tb\\c\nd/x", "fuse.sshfs"),
        (b"/mnt/auto/x", "tmpfs"),
    ],
)
def test_path_is_on_longest_and_latest_mount(path: bytes, kind: str):
    found = mount_of(path, mounts(TABLE))
    assert found is not None
    assert found.kind == kind


def test_no_table_means_no_mount():
    assert mount_of(b"/srv", mounts(b"")) is None


@pytest.mark.parametrize(
    ("kind", "network"),
    [(k, True) for k in ("nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "fuse", "9p", "ceph", "glusterfs", "virtiofs")]
    + [(k, False) for k in ("ext4", "xfs", "btrfs", "zfs", "tmpfs", "fuseblk", "overlay", "")],
)
def test_shared_file_system_is_known_by_type(kind: str, network: bool):
    assert Mount(b"/", kind).is_network is network


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in which tmp_path/net is on NFS, a disk is mounted below it, and a share below the disk."""
    for folder in ("net/disk/share", "plain"):
        (tmp_path / folder).mkdir(parents=True)
    at = os.fsencode(tmp_path.resolve())
    lines = [b"1 0 8:1 / / rw - ext4 d rw"]
    for sub, kind in ((b"net", b"nfs"), (b"net/disk", b"ext4"), (b"net/disk/share", b"cifs")):
        lines.append(b"2 1 0:2 / %s/%s rw - %s d rw" % (at, sub, kind))
    table = tmp_path / "mountinfo"
    table.write_bytes(b"\n".join(lines))
    monkeypatch.setattr(filesystem, "MOUNTS", str(table))
    return tmp_path


@pytest.mark.parametrize(
    ("path", "network"), [("net", True), ("net/disk", False), ("net/disk/share", True), ("plain", False)]
)
def test_the_table_of_the_kernel_is_asked(mounted: Path, path: str, network: bool):
    assert (b"" in network_mounts(os.fsencode(mounted / path))) is network


def test_a_link_is_judged_by_where_it_leads(mounted: Path):
    (mounted / "link").symlink_to(mounted / "net")
    assert b"" in network_mounts(os.fsencode(mounted / "link"))


@pytest.mark.parametrize(
    ("root", "found"),
    [("net", [b"", b"disk/share"]), ("net/disk", [b"share"]), ("plain", []), ("", [b"net", b"net/disk/share"])],
)
def test_network_mounts_below_root_are_found(mounted: Path, root: str, found: list[bytes]):
    assert network_mounts(os.fsencode(mounted / root)) == found


@pytest.mark.parametrize(("root", "count"), [("net/disk", 4), ("plain", 1), ("", 4)])
def test_mounts_of_other_places_are_left_out(mounted: Path, root: str, count: int):
    assert len(mount_lines(os.path.realpath(os.fsencode(mounted / root)))) == count


def test_the_real_table_is_understood():
    mount = mount_of(b"/proc", mounts(Path(filesystem.MOUNTS).read_bytes()))
    assert mount is not None
    assert mount.kind == "proc"
    assert b"" not in network_mounts(b"/proc/self")

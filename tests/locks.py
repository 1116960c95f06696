"""The locks of a process, as the kernel lists them, and small disks that a test may mount."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SHARED_FIRST = 0x40000000 + 2
"""SQLite's file format: the first byte of the range that a connection in WAL mode keeps locked while it is open."""


def holds_shared(pid: int, path: Path) -> bool:
    """Return whether the kernel lists the process as a reader of the database: only this keeps its -wal in place.

    The list is read in pieces: while others lock and unlock files, a line may be left out, but hardly ten times.
    """
    return any(
        kind == "POSIX" and int(holder) == pid and int(where.rpartition(":")[2]) == path.stat().st_ino
        for _ in range(10)
        for kind, holder, where, first in _listed()
        if int(first) == _SHARED_FIRST
    )


def deleted_but_open(pid: int, path: Path) -> list[str]:
    """Return the files of the ledger that the process has open and that no name leads to any more."""
    links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()]
    return [link for link in links if link.startswith(str(path)) and link.endswith(" (deleted)")]


def open_and_close(path: Path) -> None:
    """Let another SQLite program that may write open the ledger, read it and close it, as the `sqlite3` shell does."""
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM facts').fetchall(); c.close()"
    )
    subprocess.run(["python3", "-c", code, str(path)], check=True, timeout=60)


@contextmanager
def small_disk(kind: str, folder: Path) -> Iterator[Path]:
    """Mount a disk of 24 MB at the folder, which is made; skip the test where that is not allowed."""
    folder.mkdir()
    if kind == "ext4":
        image = _image_of(folder)
        image.touch()
        os.truncate(image, 24 * 1024 * 1024)
        _try(["mkfs.ext4", "-q", "-m", "0", str(image)])
        _try(["mount", "-o", "loop", str(image), str(folder)])
    else:
        _try(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)])
    try:
        yield folder
    finally:
        _unmount(folder)


def snapshot(disk: Path) -> Callable[[], None]:
    """Take a snapshot of a small ext4 disk; return what rolls the disk back to it, inodes and times included."""
    image, kept = _image_of(disk), _image_of(disk).with_suffix(".snapshot")

    def copy(source: Path, target: Path) -> None:
        _unmount(disk)
        shutil.copyfile(source, target)
        _try(["mount", "-o", "loop", str(image), str(disk)])

    copy(image, kept)
    return lambda: copy(kept, image)


def fill(disk: Path) -> Path:
    """Take all room on a disk; return the file that takes it."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                pass
    return filler


def _image_of(disk: Path) -> Path:
    return disk.with_name(f"{disk.name}.img")


def _unmount(folder: Path) -> None:
    for _ in range(50):
        # A process that was killed a moment ago may keep it busy.
        if subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _try(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        pytest.skip(f"{command[0]} is not here: {error}")
    if done.returncode:
        pytest.skip(f"this process may not mount a disk: {done.stderr.strip()}")


def _listed() -> Iterator[tuple[str, str, str, str]]:
    for line in Path("/proc/locks").read_text("ascii").splitlines():
        words = line.split()
        if words[1] != "->":
            yield words[1], words[4], words[5], words[6]

"""Unpack a ZIP: write its members to files, and compute their size and MD5.

The name of a member never becomes part of a path on disk. Storing the members is left to `upload`.
"""

import hashlib
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_MOST_MEMBERS: Final = 10_000
_MOST_BYTES: Final = 4 * 1024 * 1024 * 1024
_CHUNK: Final = 256 * 1024
_HEAD: Final = 64 * 1024


class Member(NamedTuple):
    """One file of an archive; its bytes are in the file `content`, and `md5` is upper-case hex."""

    folders: tuple[str, ...]
    name: str
    content: Path
    size: int
    md5: str
    head: bytes


def members(archive: Path, into: Path) -> Iterator[Member]:
    """Yield the files of an archive, unpacked below `into`; nothing if it is not a ZIP.

    Stop at the first damaged file. Skip folders, empty and encrypted files, and files beyond the limits of this module.
    """
    total = 0
    try:
        opened = zipfile.ZipFile(archive)
    except zipfile.BadZipFile:
        return
    with opened:
        for number, info in enumerate(opened.infolist()[:_MOST_MEMBERS]):
            total += info.file_size
            parts = [part for part in info.filename.split("/") if part not in ("", ".", "..")]
            if info.is_dir() or not parts or info.file_size == 0 or info.flag_bits & 1 or total > _MOST_BYTES:
                continue
            target = into / f"{archive.name}.{number}"
            try:
                yield Member(tuple(parts[:-1]), parts[-1], target, *_unpack(opened, info, target))
            except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
                target.unlink(missing_ok=True)
                return


def _unpack(opened: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path) -> tuple[int, str, bytes]:
    digest = hashlib.md5(usedforsecurity=False)
    size = 0
    head = b""
    with opened.open(info) as source, target.open("wb") as stream:
        while chunk := source.read(_CHUNK):
            head = head or chunk[:_HEAD]
            size += len(chunk)
            digest.update(chunk)
            stream.write(chunk)
    return size, digest.hexdigest().upper(), head

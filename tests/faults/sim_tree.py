"""The simulated users: what they do to a real small tree, and which content stood where, and how often at once."""

import os
import re
import time
from collections import Counter
from pathlib import Path

from .sim_clock import SimClock

FOLDERS = {"a": "F1", "b": "F1", "c": "F2"}
"""Mappings and their folders of the service: two of one name may go into one of them."""

PATHS = ("a/x.txt", "a/y.txt", "a/日.txt", "a/月.txt", "b/x.txt", "b/y.txt", "c/x.txt", "c/y.txt")
PLAIN = tuple(path for path in PATHS if path.isascii())

_LONG = bytes(range(32, 127)) * 2
# Some begin others, some are of one size, some are longer than what the simulation reads whole (`SMALL`).
CONTENTS = (b"alpha", b"bravo", b"alphabet", b"", _LONG[:100], _LONG[50:150], _LONG[:170])
BEGINS = {0: 2, 4: 6}
TWIN = {0: 1, 1: 0, 4: 5, 5: 4}
SMALL, CHUNK = 32, 40


def anchor_of(folder: str) -> bytes:
    """Return the content of the file of a folder that nobody touches."""
    return f"anchor of {folder}".encode()


LACKING, HELD = "0000-1", "0000-2"
"""The ids of a custom field that the service may not have, and of one that it has."""

Said = dict[str, str]
SIDECARS: dict[int, tuple[str, Said | None]] = {
    0: ("description: fine\n", {"desc": "fine"}),
    1: ("description: [broken\n", None),
    2: ("unknown: key\n", None),
    3: ("keywords: [a, b]\n", {"keywords": "a,b"}),
    5: ("description: other\n", {"desc": "other"}),
    6: ("description: fine\nkeywords: [c]\n", {"desc": "fine", "keywords": "c"}),
    7: ("", {}),
    8: ("description: fine\nmeta: {img_headline: x}\n", None),
    9: ("description: wa\N{WATER WAVE}ve\n", {"desc": "wa\N{WATER WAVE}ve"}),
    10: ("description: fine\nlocation: Oslo\nmeta: {headline: x}\n", {"desc": "fine", "location": "Oslo"}),
    11: ("keywords: [\N{WATER WAVE}, a]\nmeta: {vid_title: x}\n", {"keywords": "\N{WATER WAVE},a"}),
    12: ("meta: {file_name: x.txt}\n", None),
    13: ("description: fine\ncustom: {Lacking: x}\n", {"desc": "fine", LACKING: "x"}),
    14: ("custom: {Held: y}\n", {HELD: "y"}),
}
"""What may stand in a sidecar, and what it says; None is a mistake. Without a number (4) there is none."""

_TEXTS = ("desc", "keywords")
"""The fields that the service has of a document, beside custom ones."""


def held_of(said: Said) -> Said:
    """Return what the service can hold of what is said: its fields, without characters outside the BMP."""
    known = (*_TEXTS, LACKING, HELD)
    held = {key: re.sub("[\U00010000-\U0010ffff]", "", text) for key, text in said.items() if key in known}
    return {key: ",".join(filter(None, text.split(","))) if key == "keywords" else text for key, text in held.items()}


_RDF = (
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:photoshop="http://ns.adobe.com/photoshop/1.0/"'
    ' xmlns:crs="http://ns.adobe.com/camera-raw-settings/1.0/" {}>{}</rdf:Description></rdf:RDF>'
)
_WORDS = "<dc:subject><rdf:Bag><rdf:li>a</rdf:li><rdf:li>b</rdf:li></rdf:Bag></dc:subject>"
XMP: dict[int, tuple[str, Said | None]] = {
    0: (_RDF.format('dc:description="fine"', ""), {"desc": "fine"}),
    1: (_RDF.format('dc:description="fine"', "")[:-20], None),
    2: ("", None),
    3: (_RDF.format('crs:Exposure="+1.00" dc:description="fine"', ""), {"desc": "fine"}),
    4: (_RDF.format('dc:description="other"', _WORDS), {"desc": "other", "keywords": "a,b"}),
    5: (_RDF.format("", ""), {}),
    6: (_RDF.format('photoshop:SidecarForExtension="doc" dc:description="other"', ""), {"desc": "other"}),
}
"""What may stand in an XMP file, and what it says; None is a mistake. Without a number (7) there is none."""
_FOR_DOC = 6
_EMPTY = 7


class Files:
    """The tree as its users know it; `most` counts how many paths held a content at once, for each folder."""

    def __init__(self, root: Path, clock: SimClock) -> None:
        self.root = root
        self._clock = clock
        self._serial = 0
        self.held: dict[str, bytes] = {}
        self.most: Counter[tuple[str, bytes]] = Counter()
        self._lost: dict[str, tuple[bytes, int]] = {}
        self._sidecars: dict[str, int] = {}
        self.xmp_files: dict[str, int] = {}
        """By path without `.xmp`: what stands in each, the number of none included once there was one."""
        self.described: set[str] = set()
        """The paths, and stems, that had a sidecar of their own at any time."""
        for folder in FOLDERS:
            (root / folder).mkdir()
        # Never touched: a mapped folder that is suddenly empty pulls the brake, which is to happen in one of them.
        for folder in ("a", "c"):
            self.write(f"{folder}/anchor.txt", anchor_of(folder))

    def write(self, path: str, content: bytes) -> None:
        """Write in place: the inode stays."""
        self._age(path)
        full = self.root / path
        full.write_bytes(content)
        self._stamp(full)
        self._changed(path, content)

    def append(self, path: str) -> bool:
        """Let a file grow by what stands behind it in a longer content."""
        longer = {CONTENTS[a]: CONTENTS[b] for a, b in BEGINS.items()}.get(self.held.get(path, b"-"))
        if longer is None:
            return False
        self.write(path, longer)
        return True

    def replace(self, path: str) -> bool:
        """Put another file of the same size in its place."""
        other = {CONTENTS[a]: CONTENTS[b] for a, b in TWIN.items()}.get(self.held.get(path, b"-"))
        if other is None:
            return False
        full = self.root / path
        beside = full.with_name(".new.part")
        beside.write_bytes(other)
        self._stamp(beside)
        self._age(path)
        beside.replace(full)
        self._changed(path, other)
        return True

    def touch(self, path: str) -> bool:
        if path not in self.held:
            return False
        self._age(path)
        self._stamp(self.root / path)
        return True

    def rename(self, path: str, to: str) -> bool:
        if path not in self.held or to == path:
            return False
        self._age(path)
        self._age(to)
        if path in self.held and to in self.held and (self.root / path).samefile(self.root / to):
            return False
        (self.root / path).rename(self.root / to)
        self._changed(to, self.held.pop(path))
        return True

    def link(self, path: str, to: str) -> bool:
        if path not in self.held or to in self.held:
            return False
        self._age(path)
        (self.root / to).hardlink_to(self.root / path)
        self._changed(to, self.held[path])
        return True

    def copy(self, path: str, to: str) -> bool:
        if path not in self.held or to == path:
            return False
        if to in self.held and (self.root / path).samefile(self.root / to):
            return False
        self.write(to, self.held[path])
        return True

    def delete(self, path: str) -> bool:
        if path not in self.held:
            return False
        self._age(path)
        full = self.root / path
        self._lost[path] = (self.held.pop(path), full.stat().st_mtime_ns)
        full.unlink()
        return True

    def restore(self, path: str) -> bool:
        """Bring back what was deleted last, with its old time, as from a backup."""
        if path not in self._lost or path in self.held:
            return False
        content, mtime = self._lost[path]
        self.write(path, content)
        self._age(path)
        os.utime(self.root / path, ns=(mtime, mtime))
        return True

    def sidecar(self, path: str, kind: int) -> bool:
        """Let a sidecar come, change, or (4) go."""
        full = self.root / f"{path}.yaml"
        if kind in SIDECARS:
            self.described.add(path)
            self._sidecars[path] = kind
            full.write_text(SIDECARS[kind][0])
            self._stamp(full)
            return True
        if self._sidecars.pop(path, None) is None:
            return False
        full.unlink()
        return True

    def xmp(self, path: str, kind: int) -> bool:
        """Let an XMP file come, change, or (7) go; `path` is that of a file, or of a stem."""
        full = self.root / f"{path}.xmp"
        if kind not in XMP and not full.exists():
            return False
        self.described.add(path)
        self.xmp_files[path] = kind
        if kind in XMP:
            full.write_text(XMP[kind][0])
            self._stamp(full)
        else:
            full.unlink()
        return True

    def _xmp_of(self, path: str) -> Said | None:
        """Give what the XMP file of a file says: of the two that it may have, the one of its whole name counts."""
        stem = path.rpartition(".")[0]
        kind = next((kind for name in (path, stem) if (kind := self.xmp_files.get(name)) in XMP), None)
        is_of_stem = self.xmp_files.get(path) not in XMP
        if kind is None or (is_of_stem and kind == _FOR_DOC and not path.endswith(".doc")):
            return {}
        return XMP[kind][1]

    def has_own(self, path: str) -> bool:
        """Return whether a file has metadata of its own, YAML or XMP."""
        stem = path.rpartition(".")[0]
        has_other = self.xmp_files.get(path) not in XMP and self.xmp_files.get(stem) == _FOR_DOC
        has_xmp = any(self.xmp_files.get(name) in XMP for name in (path, stem))
        return self._sidecars.get(path) not in (None, _EMPTY) or (
            has_xmp and not (has_other and not path.endswith(".doc"))
        )

    def said_of(self, path: str) -> Said | None:
        """Give what the sidecars say of a file, None where one of them has a mistake."""
        said: Said = {}
        of_folder, own = (
            SIDECARS[self._sidecars[sidecar]][1] if sidecar in self._sidecars else {}
            for sidecar in (f"{path[0]}/_folder", path)
        )
        for level in (of_folder, self._xmp_of(path), own):
            if level is None:
                return None
            said |= level
        return said

    def _stamp(self, full: Path) -> None:
        self._serial += 1
        mtime = int(self._clock.now() * 1000) * 1_000_000 + self._serial
        os.utime(full, ns=(mtime, mtime))

    def _age(self, path: str) -> None:
        """Wait until the disk's clock has moved on since the file's last change, so that the next one shows."""
        try:
            last = (self.root / path).stat().st_ctime_ns
        except OSError:
            return
        probe = self.root.with_name("probe")
        probe.touch()
        while probe.stat().st_ctime_ns <= last:
            time.sleep(0.001)
            probe.touch()

    def _changed(self, path: str, content: bytes) -> None:
        self.held[path] = content
        same = {other for other in self.held if other != path and (self.root / other).samefile(self.root / path)}
        for other in same:
            self.held[other] = content
        now = Counter((FOLDERS[p[0]], c) for p, c in self.held.items())
        for key, count in now.items():
            self.most[key] = max(self.most[key], count)

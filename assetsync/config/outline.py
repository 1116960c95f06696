"""What a reader of the ledger needs of a configuration, and the form in which the ledger records it.

Loading pydantic and checking a configuration takes as long as all else that `status` does. The process that holds the
ledger has checked it, and records these values together with a digest of the file. A reader of the same file takes them
from the record. Opening the ledger is left to the callers.
"""

import json
import os
import re
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, Self

from assetsync import __version__
from assetsync.config.source import KEY_VARIABLE
from assetsync.config.timetable import Timetable, window

_SITE = re.compile(rb"""^site:[ \t]+["']?([a-z0-9-]+)""", re.MULTILINE)
_LEDGER = re.compile(rb"""^ledger:[ \t]+["']?(/[^\s"'#\0]+)""", re.MULTILINE)


class MappedFolder(NamedTuple):
    """A folder relative to the root, `.` for the root itself, and the folder of the service that its files go to."""

    path: str
    destfolderid: str


class Outline(NamedTuple):
    """The values of a configuration that a reader of the ledger needs; `models` describes each."""

    site: str
    root: Path
    ledger: Path
    folders: tuple[MappedFolder, ...]
    upload_url: str
    upload_window: Timetable | None
    reads_back: bool
    expected_every: float

    def record(self, digest: str) -> str:
        """Return the record of a configuration with this digest, as JSON."""
        hours = None if self.upload_window is None else self.upload_window.text
        values = self._asdict() | {"root": str(self.root), "ledger": str(self.ledger), "upload_window": hours}
        return json.dumps({"digest": digest, "values": values})

    @classmethod
    def recorded(cls, record: str, digest: str | None) -> Self | None:
        """Return the values of a record; None if it was made from other bytes, or by another release.

        Without a `digest`, the bytes may be any.
        """
        found = json.loads(record)
        if digest not in (None, found["digest"]) or found["values"].keys() != set(cls._fields):
            return None
        values = found["values"]
        hours = values["upload_window"] and window(values["upload_window"])
        places = {name: Path(values[name]) for name in ("root", "ledger")}
        folders = tuple(MappedFolder(*folder) for folder in values["folders"])
        return cls(**values | places | {"folders": folders, "upload_window": hours})


def digest_of(data: bytes) -> str:
    """Return the digest of a configuration, which depends on the release, too: another may read it differently."""
    release = f"{__version__} {' '.join(Outline._fields)}\n"
    return blake2b(release.encode() + data, digest_size=16).hexdigest()


def ledger_named(data: bytes) -> Path | None:
    """Return the ledger that a configuration seems to name, without reading its YAML; None if it seems to name none.

    A wrong guess is harmless: only a record of the same bytes is used, and it is the same in every ledger.
    """
    ledger, site = _LEDGER.search(data), _SITE.search(data)
    if ledger is not None:
        return Path(os.fsdecode(ledger[1]))
    return None if site is None else usual_ledger(site[1].decode())


def usual_ledger(site: str) -> Path:
    """Return the ledger of a site whose configuration names none."""
    return Path(f"/var/lib/assetsync/{site}.db")


def may_hold_key(data: bytes, environ: Mapping[str, str]) -> bool:
    """Return whether a configuration may hold the key of the environment, perhaps written with escapes of YAML."""
    key = environ.get(KEY_VARIABLE, "").strip()
    return bool(key) and (b"\\" in data or os.fsencode(key) in data)

"""The columns of a search answer and their values for one asset (interface section 2, and more as observed).

Pure: no I/O. Writing columns and rows is left to `answers`.
"""

import hashlib
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

Value = str | int | datetime | None

OBSERVED_COLUMNS: Final = (
    "id",
    "filename",
    "folder_id",
    "folder_name",
    "extension",
    "video_image",
    "filename_org",
    "kind",
    "extension_thumb",
    "path_to_asset",
    "cloud_url",
    "cloud_url_org",
    "size",
    "size_num",
    "width",
    "height",
    "isalias",
    "description",
    "keywords",
    "dateadd",
    "datechange",
    "expiry_date_actual",
    "local_url_org",
    "local_url_thumb",
    "colid",
    "colorspace",
    "xdpi",
    "ydpi",
    "unit",
    "md5hash",
    "filename_forsort",
    "cnt",
    "date_create",
    "date_change",
    "file_type",
    "responsecode",
    "totalassetscount",
    "calledwith",
)

# The interface does not show the names of the two date columns; these are the observed ones.
DOCUMENTED_COLUMNS: Final = (
    "id",
    "filename",
    "folder_id",
    "extension",
    "video_image",
    "filename_org",
    "kind",
    "extension_thumb",
    "path_to_asset",
    "cloud_url",
    "cloud_url_org",
    "size",
    "width",
    "height",
    "description",
    "keywords",
    "rowtotal",
    "local_url_org",
    "local_url_thumb",
    "responsecode",
    "totalassetscount",
    "calledwith",
    "colid",
    "date_create",
    "date_change",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The values of a call that every row repeats: its term and its totals.

    `origin` is scheme, host and port of the service. Without `md5` the column `md5hash` is null.
    """

    calledwith: str
    total: int
    counts: Mapping[str, int]
    origin: str
    now: float
    documented: bool
    md5: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the answer."""
        return DOCUMENTED_COLUMNS if self.documented else OBSERVED_COLUMNS


def row_values(asset: sqlite3.Row, question: Question) -> list[Value]:
    """Return the values of one asset in the order of the question's columns."""
    processed = asset["processed_at"] <= question.now
    values = _processed(asset, question) if processed else _not_processed(asset)
    values |= {
        "responsecode": 0,
        "totalassetscount": question.total,
        "rowtotal": question.total,
        "calledwith": question.calledwith,
        "cnt": str(question.counts.get(asset["kind"], 0)),
    }
    if not question.md5:
        values["md5hash"] = None
    return [values.get(column) for column in question.columns]


def rendition_values(asset: sqlite3.Row, question: Question) -> list[Value]:
    """Return the row of a picture's rendition: half as wide and high, with an id, a name and an MD5 of its own."""
    name = f"{asset['filename'].rpartition('.')[0] or asset['filename']}_rendition.jpg"
    # Derived from the asset, so that every answer shows the same values.
    derived = hashlib.md5(f"rendition of {asset['id']}".encode(), usedforsecurity=False).hexdigest().upper()
    own = {
        "id": derived[::-1],
        "filename": name,
        "filename_org": name,
        "filename_forsort": name,
        "extension": "jpg",
        "size": str(asset["size"] // 2),
        "size_num": asset["size"] // 2,
        "width": asset["width"] // 2,
        "height": asset["height"] // 2,
        "md5hash": derived if question.md5 else None,
        "file_type": "rendition",
    }
    values = zip(question.columns, row_values(asset, question), strict=True)
    return [own.get(column, value) for column, value in values]


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def _common(asset: sqlite3.Row) -> dict[str, Value]:
    added = _moment(asset["stored_at"])
    return {
        "id": asset["id"],
        "filename": asset["filename"],
        "folder_id": asset["folder_id"],
        "folder_name": asset["folder_name"],
        "video_image": "dummy",
        "kind": asset["kind"],
        "isalias": "0",
        "dateadd": added,
        "date_create": added,
        "filename_forsort": asset["filename"],
        "file_type": "original" if asset["kind"] == "img" else "",
    }


def _not_processed(asset: sqlite3.Row) -> dict[str, Value]:
    """Return a row with size "0" and nearly all else null: this means "not yet", not "different" (observed)."""
    return _common(asset) | {"size": "0"}


def _processed(asset: sqlite3.Row, question: Question) -> dict[str, Value]:
    picture = asset["kind"] == "img"
    place = f"{asset['folder_id']}/{asset['kind']}/{asset['id']}"
    # The service writes the double slash, too (observed).
    url = f"{question.origin}//razuna/assets/1/{place}"
    changed = _moment(asset["stored_at"])
    unsaid = "" if picture or asset["extension"] == "pdf" else None
    resolution = "1" if picture else ""
    return _common(asset) | {
        "extension": asset["extension"],
        "filename_org": asset["filename_org"],
        "kind": asset["filetype"] if question.documented else asset["kind"],
        "extension_thumb": "jpg" if picture else asset["extension"],
        "path_to_asset": place,
        "size": str(asset["size"]),
        "size_num": asset["size"],
        "width": asset["width"],
        "height": asset["height"],
        "description": asset["description"] if asset["description"] is not None else unsaid,
        "keywords": asset["keywords"] if asset["keywords"] is not None else unsaid,
        "datechange": changed,
        "date_change": changed,
        "local_url_org": f"{url}/{asset['filename_org']}",
        "local_url_thumb": f"{url}/thumb_{asset['id']}.jpg" if picture else "0",
        "colorspace": "",
        "xdpi": resolution,
        "ydpi": resolution,
        "unit": "None" if picture else "",
        "md5hash": asset["md5"],
    }

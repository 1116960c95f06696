"""The data of the sandbox: folders and assets in SQLite, the bytes of each asset in a file below the data folder.

There is no background work: an asset is processed or indexed if the time in its row has passed. `query` and `search`
interpret queries, `answers` writes the answers.
"""

import hashlib
import json
import math
import re
import shutil
import sqlite3
import threading
import unicodedata
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assetsync.errors import UsageError
from assetsync.sandbox.query import Condition, indexed_text, said_of
from assetsync.sandbox.settings import SandboxSettings

DATABASE: Final = "sandbox.db"
INCOMING: Final = "incoming"
FILES: Final = "files"
_HEAD: Final = 64 * 1024  # enough to find the size of a picture
_TYPES: Final = {
    "img": "ai bmp cr2 dng eps gif heic jpe jpeg jpg nef png psd svg tga tif tiff webp",
    "vid": "3gp avi flv m4v mkv mov mp4 mpeg mpg mxf ogv webm wmv",
    "aud": "aac aif aiff flac m4a mp3 oga ogg wav wma",
    "doc": "csv doc docx html htm md odp ods odt pdf ppt pptx rtf txt xls xlsx xml",
}
_TYPE_OF: Final = {extension: kind for kind, names in _TYPES.items() for extension in names.split()}
_BEYOND_BMP: Final = re.compile("[\U00010000-\U0010ffff]")
_PNG: Final = b"\x89PNG\r\n\x1a\n"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS folders (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, parent TEXT
);
CREATE TABLE IF NOT EXISTS assets (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, folder_id TEXT NOT NULL, folder_name TEXT NOT NULL,
    filename TEXT NOT NULL, name_key TEXT NOT NULL, filename_org TEXT NOT NULL, extension TEXT NOT NULL,
    kind TEXT NOT NULL, filetype TEXT NOT NULL, size INTEGER NOT NULL, md5 TEXT NOT NULL,
    width INTEGER NOT NULL, height INTEGER NOT NULL, description TEXT, keywords TEXT, fields TEXT NOT NULL,
    damaged INTEGER NOT NULL, stored_at REAL NOT NULL, visible_at REAL NOT NULL, processed_at REAL NOT NULL,
    indexed_at REAL, t_any TEXT NOT NULL, t_name TEXT NOT NULL, t_description TEXT NOT NULL,
    t_keywords TEXT NOT NULL, t_labels TEXT NOT NULL, t_custom TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS assets_folder ON assets (folder_id, name_key);
CREATE INDEX IF NOT EXISTS assets_md5 ON assets (md5);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAsset:
    """An asset to store; `content` yields its bytes.

    `fields` maps the names of the form fields of its upload to their values, without the credential. No search shows
    the asset for `hidden_for` seconds. An asset that is `never_processed` stays unprocessed until `process`.
    """

    id: str
    folder_id: str
    filename: str
    content: Iterable[bytes | memoryview]
    fields: Mapping[str, str]
    damaged: bool = False
    hidden_for: float = 0.0
    never_processed: bool = False


_AS_STORED: Final = "id folder_id folder_name filename filename_org extension filetype size md5 stored_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAsset:
    """One asset as stored, also if no search shows it; times are in seconds since the epoch.

    `md5` is upper-case hex. `metadata` holds the form fields of the upload without the credential.
    """

    id: str
    folder_id: str
    folder_name: str
    filename: str
    filename_org: str
    extension: str
    filetype: str
    size: int
    md5: str
    metadata: dict[str, str]
    damaged: bool
    processed: bool
    indexed: bool
    visible: bool
    stored_at: float


def new_id() -> str:
    """Return a new identifier: 32 upper-case hex digits, as the service makes them (observed)."""
    return uuid.uuid4().hex.upper()


class Store:
    """The assets and folders of one data folder; any thread may call every method.

    The caller holds the folder (`server` locks it). Raise UsageError for a folder that cannot be used.
    """

    def __init__(self, data_dir: Path, settings: SandboxSettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._files = data_dir / FILES
        self.incoming = data_dir / INCOMING
        self._database = data_dir / DATABASE
        self._lock = threading.RLock()
        try:
            # First, so that a database that is not a sandbox's is refused before the subfolders change.
            self._writer = self._open()
            self._files.mkdir(exist_ok=True)
            # Bodies that were incomplete when the last sandbox ended; no client got an answer for them.
            shutil.rmtree(self.incoming, ignore_errors=True)
            self.incoming.mkdir()
            for identifier, name in settings.folders.items():
                self.create_folder(name, identifier)
        except (OSError, sqlite3.Error) as exc:
            raise UsageError(
                f"The folder {data_dir} cannot be used for a sandbox ({exc})", hint="choose another, or make room there"
            ) from exc

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._database, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        return connection

    def _open(self) -> sqlite3.Connection:
        connection = self._connect()
        try:
            connection.execute("PRAGMA synchronous = OFF")
            self._expect_own(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def _expect_own(self, connection: sqlite3.Connection) -> None:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and "assets" not in tables:
            raise UsageError(
                f"{self._database} is not a sandbox's", hint="choose a folder that is not there yet, or an empty one"
            )

    def close(self) -> None:
        """Close the database; the data stays on disk."""
        with self._lock:
            self._writer.close()

    @property
    def now(self) -> float:
        """The current time of the clock that decides which assets are processed, indexed and visible."""
        return self._clock()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
            except BaseException:
                self._writer.execute("ROLLBACK")
                raise
            self._writer.execute("COMMIT")

    def _first(self, query: str, *values: object) -> sqlite3.Row | None:
        with self._lock:
            row: sqlite3.Row | None = self._writer.execute(query, values).fetchone()
            return row

    def create_folder(self, name: str, identifier: str | None = None, parent: str | None = None) -> str:
        """Create a folder, unless the identifier exists; return the identifier."""
        identifier = identifier or new_id()
        with self._lock:
            self._writer.execute("INSERT OR IGNORE INTO folders VALUES (?, ?, ?)", (identifier, name, parent))
        return identifier

    def subfolder(self, parent: str, name: str) -> str:
        """Return the identifier of the folder of this name below `parent`; create it if it is missing."""
        with self._lock:
            found = self._first("SELECT id FROM folders WHERE parent = ? AND name = ?", parent, name)
            return str(found["id"]) if found else self.create_folder(name, parent=parent)

    def folders(self) -> dict[str, str]:
        """Return the names of all folders by identifier."""
        with self._lock:
            return {row["id"]: row["name"] for row in self._writer.execute("SELECT id, name FROM folders")}

    def has_folder(self, identifier: str) -> bool:
        """Return whether uploads into this folder are accepted; with `auto_folders`, create a missing one."""
        if self._first("SELECT 1 FROM folders WHERE id = ?", identifier):
            return True
        if self._settings.auto_folders and identifier:
            self.create_folder(identifier, identifier)
            return True
        return False

    def content(self, assetid: str) -> Path:
        """Return the path of the file with the bytes of an asset."""
        return self._files / assetid

    def has_content(self, md5: str) -> bool:
        """Return whether a processed asset on the whole host has this content; duplicate checks see all (observed)."""
        return self._first("SELECT 1 FROM assets WHERE md5 = ? AND processed_at <= ?", md5, self.now) is not None

    def add(self, asset: NewAsset) -> None:
        """Store an asset; leave no file of it if this fails."""
        path = self.incoming / asset.id
        digest = hashlib.md5(usedforsecurity=False)
        size, head = 0, b""
        try:
            with path.open("wb") as stream:
                for piece in asset.content:
                    stream.write(piece)
                    digest.update(piece)
                    size += len(piece)
                    head += piece[: _HEAD - len(head)]
            path = path.replace(self.content(asset.id))
            self._insert(asset, size, digest.hexdigest().upper(), head)
        except BaseException:
            # The disk is full, for example. Without a row, nothing would ever delete this file.
            path.unlink(missing_ok=True)
            raise

    def _insert(self, asset: NewAsset, size: int, md5: str, head: bytes) -> None:
        now = self.now
        processed_at = math.inf if asset.never_processed else now + self._settings.processing_delay
        extension = extension_of(asset.filename)
        filetype = filetype_of(extension, self._settings.file_kinds)
        width, height = picture_size(head) if filetype == "img" else (0, 0)
        description, keywords = said_of(filetype, asset.fields)
        if self._settings.pdf_keeps_own and extension == "pdf":
            description, keywords = (pdf_text(head, name) for name in (b"Subject", b"Keywords"))
            if self._settings.bmp_only:
                # The text is cut at the character (observed).
                description, keywords = (_BEYOND_BMP.split(text)[0] for text in (description, keywords))
        if self._settings.one_language and not is_english(asset.fields):
            description, keywords = None, None
        values = {
            "id": asset.id,
            "folder_id": asset.folder_id,
            "filename": asset.filename,
            "name_key": asset.filename.lower(),
            "filename_org": rewritten(asset.filename),
            "extension": extension,
            # A search shows `other` as kind doc (observed); `filetype` keeps the word of the upload's answer.
            "kind": "doc" if filetype == "other" else filetype,
            "filetype": filetype,
            "size": size,
            "md5": md5,
            "width": width,
            "height": height,
            "description": description,
            "keywords": keywords,
            "fields": json.dumps(dict(asset.fields), ensure_ascii=False),
            "damaged": asset.damaged,
            "stored_at": now,
            "visible_at": now + asset.hidden_for,
            "processed_at": processed_at,
            "indexed_at": processed_at + self._settings.index_delay if self._settings.self_index else None,
            **indexed_text(asset.filename, description, keywords, asset.fields),
        }
        with self._lock:
            columns, marks = ", ".join(values), ", ".join(f":{name}" for name in values)
            folder_name = "(SELECT name FROM folders WHERE id = :folder_id)"
            insert = f"INSERT INTO assets ({columns}, folder_name) VALUES ({marks}, {folder_name})"  # noqa: S608 - names above
            self._writer.execute(insert, values)

    def delete(self, assetid: str) -> bool:
        """Delete an asset, as a person does in a DAM; return False if there is no such identifier."""
        with self._lock:
            found = self._writer.execute("DELETE FROM assets WHERE id = ?", (assetid,)).rowcount > 0
        if found:
            self.content(assetid).unlink(missing_ok=True)
        return found

    def alter(self, assetid: str, *, folder: str | None = None, name: str | None = None) -> bool:
        """Move an asset to an existing folder, rename it, or both; return False if there is no such identifier."""
        with self._transaction() as connection:
            row = connection.execute("SELECT * FROM assets WHERE id = ?", (assetid,)).fetchone()
            if row is None:
                return False
            if folder is not None:
                moved = "UPDATE assets SET folder_id = :to, folder_name = (SELECT name FROM folders WHERE id = :to)"
                connection.execute(f"{moved} WHERE id = :id", {"to": folder, "id": assetid})
            if name is not None:
                text = indexed_text(name, row["description"], row["keywords"], json.loads(row["fields"]))
                renamed = "UPDATE assets SET filename = ?, name_key = ?, t_any = ?, t_name = ? WHERE id = ?"
                connection.execute(renamed, (name, name.lower(), text["t_any"], text["t_name"], assetid))
        return True

    def replace(self, assetid: str, content: bytes) -> bool:
        """Store a new version of an asset, which keeps its id and name (observed); return False without such an id."""
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest().upper()
        with self._lock:
            update = "UPDATE assets SET size = ?, md5 = ? WHERE id = ?"
            is_there = self._writer.execute(update, (len(content), digest, assetid)).rowcount > 0
        if is_there:
            self.content(assetid).write_bytes(content)
        return is_there

    def process(self, assetid: str) -> bool:
        """Process an asset now, as an installation that finishes late; return False if there is no such identifier."""
        now = self.now
        due = now + self._settings.index_delay if self._settings.self_index else None
        update = "UPDATE assets SET processed_at = MIN(processed_at, ?), indexed_at = MIN(indexed_at, ?) WHERE id = ?"
        with self._lock:
            return self._writer.execute(update, (now, due, assetid)).rowcount > 0

    def index(self, assetids: Sequence[str] | None, *, wipe: bool) -> None:
        """Put assets (None: all) into the index `index_delay` from now; with `wipe`, empty the index first."""
        now = self.now
        due = now + self._settings.index_delay
        with self._transaction() as connection:
            if wipe:
                # Keep times in the future: the installation still indexes these assets.
                connection.execute("UPDATE assets SET indexed_at = NULL WHERE indexed_at <= ?", (now,))
            update = "UPDATE assets SET indexed_at = ? WHERE (indexed_at IS NULL OR indexed_at > ?)"
            if assetids is None:
                connection.execute(update, (due, due))
            else:
                connection.executemany(f"{update} AND id = ?", [(due, due, each) for each in assetids])

    def counts(self, where: Condition) -> dict[str, int]:
        """Count the assets that match a condition, by kind."""
        query = f"SELECT kind, count(*) AS number FROM assets WHERE {where.sql} GROUP BY kind"  # noqa: S608 - built by `query` only
        with self._lock:
            return {row["kind"]: row["number"] for row in self._writer.execute(query, where.values)}

    def select(self, where: Condition, tail: str = "") -> Iterator[sqlite3.Row]:
        """Yield the assets that match a condition, in one consistent view and without holding the lock."""
        with closing(self._connect()) as connection:
            yield from connection.execute(f"SELECT * FROM assets WHERE {where.sql} {tail}", where.values)  # noqa: S608 - as above

    def assets(self, *, newest_first: bool = False, limit: int = -1, offset: int = 0) -> list[StoredAsset]:
        """Return the stored assets in the order of arrival or newest first, also those that no search shows."""
        now = self.now
        order = "DESC" if newest_first else "ASC"
        rows = self.select(Condition("1", (limit, offset)), f"ORDER BY seq {order} LIMIT ? OFFSET ?")
        return [_stored_asset(row, now) for row in rows]

    def asset(self, assetid: str) -> StoredAsset | None:
        """Return the asset of this identifier, None if there is none."""
        now = self.now
        return next((_stored_asset(row, now) for row in self.select(Condition("id = ?", (assetid,)))), None)


def _stored_asset(row: sqlite3.Row, now: float) -> StoredAsset:
    processed = row["processed_at"] <= now
    return StoredAsset(
        **{name: row[name] for name in _AS_STORED.split()},
        metadata=json.loads(row["fields"]),
        damaged=bool(row["damaged"]),
        processed=processed,
        indexed=processed and row["indexed_at"] is not None and row["indexed_at"] <= now,
        visible=row["visible_at"] <= now,
    )


def rewritten(name: str) -> str:
    """Return the name for `filename_org`: blanks become `_`, accents are folded, others are dropped (observed)."""
    folded = unicodedata.normalize("NFKD", name.replace(" ", "_"))
    return re.sub(r"[^A-Za-z0-9._-]", "", folded)


def extension_of(name: str) -> str:
    """Return the text after the last dot in lower case; empty without a dot."""
    return name.rpartition(".")[2].lower() if "." in name else ""


def filetype_of(extension: str, file_kinds: Mapping[str, str]) -> str:
    """Return img, vid, aud, doc or other (interface section 4.3); `file_kinds` takes precedence over the usual kind."""
    return file_kinds.get(extension) or _TYPE_OF.get(extension, "other")


def pdf_text(head: bytes, name: bytes) -> str:
    """Return a plain text from the document information in the first bytes of a PDF; empty without it."""
    found = re.search(rb"/" + name + rb"\s*\(([^()\\]*)\)", head)
    if found is None:
        return ""
    try:
        return found[1].decode()
    except UnicodeDecodeError:
        return found[1].decode("latin-1")


def is_english(fields: Mapping[str, str]) -> bool:
    """Return whether the texts of an upload are in the language that searches show."""
    return fields.get("meta_lang_id_r", "1") == "1"


def picture_size(head: bytes) -> tuple[int, int]:
    """Return width and height of a PNG, GIF or JPEG from its first bytes; (0, 0) if they do not contain them."""
    if head.startswith(_PNG) and len(head) >= 24:  # noqa: PLR2004 - the IHDR chunk is at a fixed offset
        return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
    if head.startswith((b"GIF87a", b"GIF89a")) and len(head) >= 10:  # noqa: PLR2004
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head.startswith(b"\xff\xd8"):
        return _jpeg_size(head)
    return 0, 0


def _jpeg_size(head: bytes) -> tuple[int, int]:
    """Walk the segments up to the frame header, which holds height and width."""
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:  # noqa: PLR2004
        marker = head[at + 1]
        # SOF0 to SOF15, without DHT (C4), JPG (C8) and DAC (CC), whose markers are in the same range.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # noqa: PLR2004
            return int.from_bytes(head[at + 7 : at + 9]), int.from_bytes(head[at + 5 : at + 7])
        at += 2 + int.from_bytes(head[at + 2 : at + 4])
    return 0, 0

"""Record and settle drift: differences between the tree or configuration and the service.

A version that may have changed is marked as unread; `sync.readback.drift` reads it and records the drift here.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from assetsync.core.sent_texts import NOT_COMPARED, SentTexts
from assetsync.ledger.file.database import ANY_OF, Database, below
from assetsync.ledger.file.handle import Handle
from assetsync.ledger.rows import FILE_COLUMNS, SENT_WITH_XMP, WHOSE_ASSET, FileRow, file_row, files_where
from assetsync.model import Asset, FileStat, Wanted

AWAY = "away"
"""Stored in place of a drift if the file was not there to be read; `back` marks it as unread."""

NOT_REPORTED = ("unread", AWAY)
"""Values of `drift` that report no drift."""

DRIFTED = f"drift <> 'unread' AND drift <> '{AWAY}' AND wanted = 'yes'"
"""SQL condition for files with drift; versions of history are left out because nothing is to be done about them."""

ELSEWHERE = "it lies in another folder of the service: "
"""The drift of a file whose asset was moved to another folder; the folder is appended."""

UNREADABLE = "its metadata can no longer be read, fix the sidecar: "
"""The drift of a file with an unusable sidecar; the error is appended."""

_MOST_PROCESSED = 1000
OPTIONS = (
    "the options of its upload (zip_extract, skip_event, upl_template) are others now: only a new upload takes them"
)
"""The drift of a file that was sent with other options; its metadata is as it was sent."""

_READ_BY = ("path", "destfolderid", "asset_folder", "agreed_folder", "filetype", "meta_digest")
"""The columns that the drift of a version depends on, besides its sidecars."""

_IS_THERE = "asset_folder = ? AND state IN ('stored', 'verified')"

NOT_AS_SENT = "not_as_sent"
"""The word for metadata in the service that differs from what was sent."""

_IS_NOT_AS_SENT = "differs IS NOT NULL AND uploaded_at IS NOT NULL AND wanted = 'yes'"

COUNT_REPORTED = (
    f"SELECT (SELECT COUNT(*) FROM files WHERE {DRIFTED}) + (SELECT COUNT(*) FROM files WHERE {_IS_NOT_AS_SENT}"
    f" AND COALESCE(drift, 'unread') IN ('unread', '{AWAY}'))"
)
"""SQL statement that counts the files that `reported` finds; most of it needs an index alone."""

ADOPTED = "adopted"
"""The word for an adopted asset with other metadata than the sidecars, which is no drift."""

_ADOPTED_DIFFERS = "differs IS NOT NULL AND uploaded_at IS NULL AND wanted = 'yes'"

COUNT_ADOPTED = f"SELECT COUNT(*) FROM files WHERE {_ADOPTED_DIFFERS}"
"""SQL statement that counts the files that `MetadataDrift.adopted` finds; it needs an index alone."""


def reported(limit: str, more: str = "") -> str:
    """Return the SQL condition for the first files with drift, or with other metadata than was sent.

    `limit` and `more` are SQL: how many, and a further condition. Each of the two kinds has an index, and is read to
    the limit only, because there may be a million.
    """
    kinds = (
        f"SELECT id FROM files WHERE {kind}{more} ORDER BY id LIMIT {limit}" for kind in (DRIFTED, _IS_NOT_AS_SENT)
    )
    return f"id IN ({' UNION ALL '.join(f'SELECT id FROM ({kind})' for kind in kinds)})"


def drift_of(row: FileRow) -> str | None:
    """Return how the service differs from the tree, or from what was sent; None of a version of history."""
    if row.wanted is not Wanted.YES:
        return None
    drift = None if row.drift in NOT_REPORTED else row.drift
    return "; ".join(filter(None, (drift, row.not_as_sent))) or None


def adopted_difference_of(row: FileRow) -> str | None:
    """Return how the metadata of an adopted asset differs from the sidecars; None of a version of history."""
    return row.differs if row.wanted is Wanted.YES and row.uploaded_at is None else None


def reason_of(row: FileRow) -> str:
    """Return a word for the drift.

    It is `sidecar` (unusable), `metadata`, `options` (of the upload), `elsewhere` (its folder), or `not_as_sent`.
    """
    if row.drift is None or row.drift in NOT_REPORTED:
        return NOT_AS_SENT
    if (row.drift or "").startswith(UNREADABLE):
        return "sidecar"
    if row.drift.startswith(OPTIONS):
        return "options"
    return "metadata" if row.metadata_differs else "elsewhere"


class Found(NamedTuple):
    """The drift found for a version (None: the service lacks nothing), and the digest of its current metadata."""

    drift: str | None
    drift_digest: str | None
    row: FileRow


class SentUpload(NamedTuple):
    """An upload whose metadata is to be compared with the service's: its version, and digests of what was sent."""

    row: FileRow
    attempt_id: int
    digest: str | None
    sent: SentTexts


class MetadataDrift:
    """The ledger's part for drift."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def unread(self) -> list[FileRow]:
        """Return up to 500 versions that are marked as unread, so that their drift is read."""
        # While a version is being sent or in doubt, it is open which of its uploads will count.
        settled = "state IN ('stored', 'verified', 'blocked')"
        return files_where(self._store, f"drift = 'unread' AND {settled} ORDER BY id LIMIT 500")

    def processed(self, kind: str, without: Collection[str]) -> list[FileRow]:
        """Return the last files of a kind that were sent with metadata and read back; `without` has digests of none.

        Documents are of two kinds.
        """
        kinds = json.dumps(["doc", "other"] if kind in ("doc", "other") else [kind])
        where = (
            f"state = 'verified' AND id_from = 'answer' AND filetype {ANY_OF}"
            f" AND NOT meta_digest {ANY_OF} ORDER BY id DESC LIMIT {_MOST_PROCESSED}"
        )
        return files_where(self._store, where, kinds, json.dumps([*without]))

    def mark_unread(self, file_id: int) -> None:
        """Mark a version as unread: its metadata may have changed since it was sent."""
        self._store.change("UPDATE files SET drift = 'unread' WHERE id = ?", file_id)

    def back(self) -> None:
        """Mark files that were away as unread: they may be there again."""
        if self._store.rows(f"SELECT 1 FROM files WHERE drift = '{AWAY}' LIMIT 1"):
            self._store.change(f"UPDATE files SET drift = 'unread' WHERE drift = '{AWAY}'")

    def unreadable(self) -> list[FileRow]:
        """Return one file for each error that makes sidecars unreadable, however many files it affects."""
        where = f"id IN (SELECT MIN(id) FROM files WHERE {DRIFTED} AND drift LIKE '{UNREADABLE}%' GROUP BY drift)"
        return files_where(self._store, where)

    def read_alike(self, drift: str) -> None:
        """Mark all files with this drift as unread, because it no longer holds."""
        self._store.change(f"UPDATE files SET drift = 'unread' WHERE {DRIFTED} AND drift = ?", drift)

    def read_anew(self) -> None:
        """Mark all files with drift as unread, because the mappings changed."""
        self._store.change(f"UPDATE files SET drift = 'unread' WHERE {DRIFTED}")

    def read(self, found: Sequence[Found], *, still: Callable[[], bool]) -> None:
        """Record the drift found for versions that were unread.

        Nothing is recorded unless `still` returns True in the transaction. A version is skipped, and read again, if its
        file was moved or one of the columns in `_READ_BY` changed since.
        """
        values = []
        for drift, digest, row in found:
            # "" if the metadata cannot be read.
            known = digest or (None if drift in (None, AWAY) else "")
            values.append((drift, digest, known, row.id, *(getattr(row, name) for name in _READ_BY)))
        # Files taken over by an earlier release have no digest: compare with the `known` one from now on.
        since = "CASE WHEN assetid IS NULL THEN meta_digest ELSE COALESCE(meta_digest, ?) END"
        sql = (
            f"UPDATE files SET drift = ?, drift_digest = ?, meta_digest = {since}"
            f" WHERE id = ? AND drift = 'unread' AND {' AND '.join(f'{name} IS ?' for name in _READ_BY)}"
        )
        self._store.write(lambda conn: conn.execute_each(sql, values) if still() else None)

    def was_sent_without(self, row: FileRow, xmp: bytes, stat: FileStat) -> bool:
        """Return whether a release without XMP files sent a version, and its XMP file has not changed since.

        The file counts as unchanged while it is as the first scan of a release that reads XMP files recorded it.
        """
        sql = (
            "SELECT EXISTS (SELECT 1 FROM sidecars WHERE path = ? AND is_first AND (size, mtime_ns, ctime_ns, inode)"
            f" = (?, ?, ?, ?)) AND EXISTS (SELECT 1 FROM files WHERE id = ? AND NOT {SENT_WITH_XMP})"
        )
        return bool(self._store.value(sql, xmp, *stat, row.id))

    def sent_fields(self, row: FileRow) -> str | None:
        """Return `core.metadata.sent_fields` of the newest upload of a version; None if that is unknown.

        It is also unknown if the upload's metadata is not what the asset has: a person may have named another asset.
        """
        sql = (
            "SELECT json_extract(metadata, '$.fields') FROM attempts"
            " WHERE file_id = ? AND json_extract(metadata, '$.digest') = ? ORDER BY id DESC LIMIT 1"
        )
        found: str | None = self._store.value(sql, row.id, row.meta_digest) if row.uploaded_at is not None else None
        return found

    def drifted(self, path: bytes = b"") -> Iterator[FileRow]:
        """Yield the files with drift: at a path, or below it; all files if it is empty."""
        found = reported("?5", " AND (path = ?1 OR path >= ?2 AND path < ?3) AND id > ?4")
        sql = f"SELECT {FILE_COLUMNS} FROM files WHERE {found} ORDER BY id LIMIT ?5"
        return map(file_row, self._store.pages(sql, "id", (0,), path, *below(path)))

    def settle(self, rows: Iterable[FileRow]) -> int:
        """Record an operator's word that the service now has the metadata of versions, and that they may stay in place.

        Returns the number of versions settled; versions whose drift changed meanwhile are left out. The settled
        versions are read again, and drift that cannot be settled is reported again.
        """
        sql = (
            "UPDATE files SET meta_digest = COALESCE(drift_digest, meta_digest), drift = 'unread',"
            " agreed_folder = CASE WHEN asset_folder <> destfolderid THEN asset_folder END"
            " WHERE id = ? AND drift = ? AND drift_digest IS ?"
        )
        return self._store.change_each(sql, [(row.id, row.drift, row.drift_digest) for row in rows])

    def to_compare(self, rows: Sequence[FileRow]) -> dict[str, SentUpload]:
        """Return, by asset, the uploads of these versions that named the asset and were not compared yet."""
        known = {row.id: row for row in rows if row.id_from == "answer" and row.assetid is not None}
        if not known:
            return {}
        sql = (
            "SELECT a.file_id, a.id, a.metadata FROM attempts a CROSS JOIN files f ON f.id = a.file_id"
            f" WHERE a.file_id {ANY_OF} AND a.result = 'accepted' AND f.uploaded_at = a.ended_at"
        )
        uploads = {}
        for file_id, attempt_id, metadata in self._store.rows(sql, json.dumps([*known])):
            row, sent = known[file_id], json.loads(metadata)
            texts = SentTexts(*map(sent.get, SentTexts._fields))
            if texts != NOT_COMPARED:
                uploads[str(row.assetid)] = SentUpload(row, attempt_id, sent.get("digest"), texts)
        return uploads

    def compared(self, found: Sequence[tuple[SentUpload, str | None]]) -> None:
        """Record for uploads how the service's metadata differs, None if it does not; they are not compared again."""

        def work(conn: Handle) -> None:
            for upload, difference in found:
                sql = "UPDATE attempts SET metadata = json_remove(metadata, '$.description', '$.keywords') WHERE id = ?"
                conn.execute(sql, (upload.attempt_id,))
                if difference is not None:
                    sql = "UPDATE files SET differs = ? WHERE id = ? AND assetid = ?"
                    conn.execute(sql, (difference, upload.row.id, upload.row.assetid))

        self._store.write(work)

    def adopted(self, path: bytes = b"") -> Iterator[FileRow]:
        """Yield the adopted files with other metadata than the sidecars; `path` limits them as in `drifted`."""
        sql = (
            f"SELECT {FILE_COLUMNS} FROM files WHERE {_ADOPTED_DIFFERS}"
            " AND (path = ?1 OR path >= ?2 AND path < ?3) AND id > ?4 ORDER BY id LIMIT ?5"
        )
        return map(file_row, self._store.pages(sql, "id", (0,), path, *below(path)))

    def settle_asset(self, rows: Iterable[FileRow]) -> int:
        """Record an operator's word that the metadata of assets is as it should be; return the number settled.

        Versions that were compared again meanwhile are left out.
        """
        sql = "UPDATE files SET differs = NULL WHERE id = ? AND differs = ?"
        return self._store.change_each(sql, [(row.id, row.differs) for row in rows])

    def lies_in(self, file_id: int, folder: str) -> bool:
        """Return whether a version's asset was last seen in that folder of the service, wherever it was sent."""
        sql = f"SELECT EXISTS (SELECT 1 FROM files WHERE id = ? AND {_IS_THERE})"
        return bool(self._store.value(sql, file_id, folder))

    def met(self, folder: str, assets: Collection[Asset]) -> list[bytes]:
        """Record that a listing of a folder shows these assets in it; return the paths of those that were moved.

        History is included: its assets may be equal to a file that is to be sent there. An asset that was never read
        back counts only if its digest matches.
        """
        if not assets:
            return []
        digests = {asset.id: asset.md5 for asset in assets}
        ids = json.dumps([*digests])
        sql = (
            "SELECT id, path, assetid, md5,"
            " verified_at IS NOT NULL OR state IN ('blocked', 'superseded', 'gone') AS known"
            f" FROM files WHERE {WHOSE_ASSET.format(ANY_OF)} AND asset_folder <> ?"
        )
        rows = self._store.rows(sql, ids, ids, folder)
        moved = [row for row in rows if row["known"] or row["md5"] == (digests[row["assetid"]] or "")]
        if moved:
            sql = (
                "UPDATE files SET asset_folder = ?, drift = CASE wanted WHEN 'yes' THEN 'unread' ELSE drift END"
                " WHERE id = ?"
            )

            def work(conn: Handle) -> None:
                conn.execute_each(sql, [(folder, row["id"]) for row in moved])
                # A later version would look for it in the old folder.
                seen = "UPDATE assets SET folder_id = ? WHERE assetid = ?"
                conn.execute_each(seen, [(folder, row["assetid"]) for row in moved])

            self._store.write(work)
        return [row["path"] for row in moved]

    def remapped(self, rows: Sequence[tuple[int, str]]) -> None:
        """Record for each (row id, folder) that the row's mapping points to that folder now.

        If the asset was moved to that folder in the service, the version counts as sent there. Otherwise the difference
        is reported as drift.
        """

        def work(conn: Handle) -> None:
            for file_id, folder in rows:
                conn.execute(
                    "UPDATE files SET destfolderid = ?, agreed_folder = NULL, drift = 'unread'"
                    f" WHERE id = ? AND {_IS_THERE}",
                    (folder, file_id, folder),
                )
                # Mark it only if it has no drift yet: each scan finds the row again, and `read_anew` covers changed
                # mappings.
                conn.execute("UPDATE files SET drift = 'unread' WHERE id = ? AND drift IS NULL", (file_id,))

        if rows:
            self._store.write(work)

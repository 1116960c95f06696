"""List what to read back and to index, record the results, and choose control samples.

A control sample is an asset that the service should hold; it is searched for before a listing that shows nothing is
believed. Reading back is left to `sync.readback`, the meaning of what it shows to `core.read_back`, searching for
samples to `sync.observer`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from assetsync.core.backoff import LONGEST
from assetsync.core.read_back import LOOK_AGAIN, NEVER_PROCESSED
from assetsync.core.states import Event
from assetsync.ledger.assets import Shown, own, read_anew
from assetsync.ledger.file.database import Database
from assetsync.ledger.file.handle import Handle
from assetsync.ledger.rows import (
    MISSING,
    FileRow,
    apply,
    close_attempts,
    current_row,
    files_where,
    move,
    reopen,
)


class Change(NamedTuple):
    """The result of reading back a row: the row as it was read, the event, if any, and what to write.

    `columns` are those of the row; `shown` is what is known of its asset from now on, None if that is unchanged.
    """

    row: FileRow
    event: Event | None
    columns: dict[str, Any]
    shown: Shown | None = None


INDEX_STOPPED = "index_stopped"
"""The fact that explains to the operator why searchIndex is no longer called."""

_LOOKED_AT = 100
_SAMPLE = "path, (SELECT sent_name FROM attempts a WHERE a.file_id = f.id ORDER BY a.id DESC LIMIT 1), assetid"


class ReadBack:
    """The ledger's part for verifying and indexing."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def to_verify(self, now: float, limit: int = 100, *, folder: str | None = None) -> list[FileRow]:
        """Return stored assets that are due to be read back: all, or those in one folder of the service."""
        where = (
            f"state = 'stored' AND (due_at <= ?1 OR due_at > ?1 + {LONGEST})"
            " AND (?3 IS NULL OR asset_folder = ?3) ORDER BY due_at, id LIMIT ?2"
        )
        return files_where(self._store, where, now, limit, folder)

    def never_processed(self, now: float, limit: int) -> list[FileRow]:
        """Return files blocked for an asset that was never processed, which are due to be read back."""
        where = (
            f"state = 'blocked' AND reason = '{NEVER_PROCESSED}' AND (due_at <= ?1 OR due_at > ?1 + {LOOK_AGAIN})"
            " ORDER BY due_at, id LIMIT ?2"
        )
        return files_where(self._store, where, now, limit)

    def to_index(self, now: float, uploaded_before: float, asked_before: float, limit: int = 500) -> list[FileRow]:
        """Return assets that the database shows and the index does not, long enough after upload and last request.

        A time after `now` was set by a clock that has since been set back; it counts as long enough ago.
        """
        where = (
            "state = 'stored'"
            " AND EXISTS (SELECT 1 FROM assets WHERE assetid = files.assetid AND shown_at IS NOT NULL"
            "   AND findable_at IS NULL AND (index_asked_at IS NULL OR index_asked_at NOT BETWEEN ?3 AND ?1))"
            " AND COALESCE(uploaded_at, queued_at) NOT BETWEEN ?2 AND ?1 ORDER BY due_at, id LIMIT ?4"
        )
        return files_where(self._store, where, now, uploaded_before, asked_before, limit)

    def findable_sample(self, limit: int) -> list[str]:
        """Return ids of assets that the index showed when last read, newest first."""
        sql = (
            "SELECT f.assetid FROM files f CROSS JOIN assets USING (assetid)"
            " WHERE state = 'verified' AND findable_at IS NOT NULL ORDER BY id DESC LIMIT ?"
        )
        return self._store.column(sql, limit)

    def asked(self, assetids: Sequence[str], now: float) -> None:
        """Record that the service was asked to index these assets."""
        self._store.change_each("UPDATE assets SET index_asked_at = ? WHERE assetid = ?", [(now, i) for i in assetids])

    def apply_all(self, found: Sequence[Change], now: float) -> None:
        """Record the results of reading back, in one commit.

        A row that was replaced, disputed or decided by hand while the service answered is skipped.
        """

        def work(conn: Handle) -> None:
            for each in found:
                if _apply(conn, each, now) and each.shown is not None:
                    own(conn, each.row.assetid, each.shown)

        if found:
            self._store.write(work)


def _apply(conn: Handle, change: Change, now: float) -> bool:
    """Write the columns of a row, with the event; return False, changing nothing, if the row is not as it was read."""
    row, event, columns, _ = change
    current = current_row(conn, row.id, columns)
    if current is None or (current["state"], current["assetid"]) != (row.state, row.assetid):
        return False
    is_open = bool(current["open"])
    if is_open and event in (Event.CONFIRMED, Event.NEVER_PROCESSED):
        # The attempt was reopened when the asset was not shown; nothing else would close it.
        close_attempts(conn, row.id, "found", now)
        is_open = False
    if event is Event.RETRIED:
        read_anew(conn, row.assetid)
    if event is Event.UNSEEN:
        _doubt(conn, row, columns, now)
    elif event is not None:
        move(conn, current, event, now, open_attempt=is_open, **columns)
    elif columns:
        names = ", ".join(f"{name} = ?" for name in columns)
        conn.execute(f"UPDATE files SET {names} WHERE id = ?", (*columns.values(), row.id))
    return True


def _doubt(conn: Handle, row: FileRow, changes: dict[str, Any], now: float) -> None:
    """Put a row in doubt because the service does not show its id; reopen its last attempt."""
    # What was verified once was removed since; an audit lists it as missing.
    reason = MISSING if row.reason == MISSING or row.verified_at is not None else "unseen"
    last = conn.execute("SELECT MAX(id) FROM attempts WHERE file_id = ?", (row.id,)).fetchone()[0]
    if last is not None:
        reopen(conn, last, now, why="unseen")
    apply(conn, row.id, Event.MISSING if last is None else Event.UNSEEN, now, reason=reason, **changes)


class KnownAsset(NamedTuple):
    """A version whose asset was seen in the service; `sent_name` is None if the asset was adopted."""

    path: bytes
    sent_name: str | None
    assetid: str


class ControlSamples:
    """The ledger's part for believing the service; reads only."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def read_back_last(self, destfolderid: str, limit: int) -> list[KnownAsset]:
        """Return the newest versions that were read back from a folder of the service."""
        sql = (
            # The inner query uses the index that has the versions in this order. It is named because the planner would
            # choose the index by content, and there may be a million versions.
            f"SELECT {_SAMPLE}"
            " FROM files f WHERE asset_folder = ?1 AND id IN (SELECT id FROM files INDEXED BY files_standing"
            "   WHERE size >= 0 AND wanted = 'yes' AND state = 'verified' AND destfolderid = ?1"
            "   ORDER BY id DESC LIMIT ?3) ORDER BY id DESC LIMIT ?2"
        )
        rows = self._store.rows(sql, destfolderid, limit, _LOOKED_AT)
        return [KnownAsset._make(row) for row in rows]

    def sent_after(self, attempt_id: int, limit: int, *, newest: bool = False) -> list[tuple[int, KnownAsset]]:
        """Return accepted uploads that began after an attempt, into any folder: the first, or the newest.

        Each comes with its attempt: a look-up that shows the asset is newer than the start of that.
        A version that was missing, and took over an older asset since, is left out.
        """
        sql = (
            # Join from the attempts in their order, so that the query stops at the limit: there may be a million.
            "SELECT a.id, f.path, a.sent_name, f.assetid FROM attempts a CROSS JOIN files f ON f.id = a.file_id"
            " WHERE a.id > ? AND a.result = 'accepted' AND f.id_from = 'answer' AND f.state IN ('stored', 'verified')"
            " AND f.uploaded_at = a.ended_at"
            f" ORDER BY a.id {'DESC' if newest else ''} LIMIT ?"
        )
        rows = self._store.rows(sql, attempt_id, limit)
        return [(row[0], KnownAsset(*row[1:])) for row in rows]

    def of_all(self, most: int) -> list[KnownAsset]:
        """Return verified versions from all folders: half of them the newest, half the oldest.

        If there are fewer than `most`, other versions that were seen in the service are added.
        """
        verified = "SELECT id FROM files WHERE wanted = 'yes' AND state = 'verified' ORDER BY id {} LIMIT {}"
        seen = "SELECT id FROM files CROSS JOIN assets USING (assetid) WHERE shown_at NOTNULL ORDER BY id DESC LIMIT {}"
        rows = self._store.rows(
            f"SELECT {_SAMPLE} FROM files f WHERE id IN (SELECT * FROM ({verified.format('DESC', most - most // 2)}))"
            f" OR id IN (SELECT * FROM ({verified.format('', most // 2)})) ORDER BY id DESC"
        )
        if len(rows) < most:
            rows += self._store.rows(f"SELECT {_SAMPLE} FROM files f WHERE id IN (SELECT * FROM ({seen.format(most)}))")
        known = {row["assetid"]: KnownAsset._make(row) for row in reversed(rows)}
        return list(known.values())[-most:]

    def has_begun(self) -> bool:
        """Return whether anything was uploaded, or may have been."""
        sql = (
            "SELECT EXISTS (SELECT 1 FROM files WHERE assetid IS NOT NULL AND state NOT IN ('superseded', 'gone'))"
            " OR EXISTS (SELECT 1 FROM files WHERE assetid IS NOT NULL AND state IN ('superseded', 'gone'))"
            " OR EXISTS (SELECT 1 FROM attempts WHERE closed_at IS NULL)"
        )
        return bool(self._store.value(sql))

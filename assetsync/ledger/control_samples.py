"""Control samples: assets that the service should hold, searched for before a listing that shows nothing is believed.

Searching for them is left to `sync.lookups`.
"""

from typing import NamedTuple

from assetsync.ledger.database import Database

_LOOKED_AT = 100
_WITNESS = "path, (SELECT sent_name FROM attempts a WHERE a.file_id = f.id ORDER BY a.id DESC LIMIT 1), assetid"


class KnownAsset(NamedTuple):
    """A version whose asset was seen in the service; `sent_name` is None if the asset was adopted."""

    path: bytes
    sent_name: str | None
    assetid: str


class ControlSample(NamedTuple):
    """An accepted upload and its asset: a look-up that shows the asset is newer than the start of the attempt."""

    attempt_id: int
    asset: KnownAsset


class ControlSamples:
    """The ledger's part for believing the service; reads only."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def read_back_last(self, destfolderid: str, limit: int) -> list[KnownAsset]:
        """Return the newest versions that were read back from a folder of the service."""
        rows = self._store.rows(
            # The inner query uses the index that has the versions in this order. It is named because the planner would
            # choose the index by content, and there may be a million versions.
            f"SELECT {_WITNESS}"
            " FROM files f WHERE asset_folder = ?1 AND id IN (SELECT id FROM files INDEXED BY files_standing"
            "   WHERE size >= 0 AND wanted = 'yes' AND state = 'verified' AND destfolderid = ?1"
            "   ORDER BY id DESC LIMIT ?3) ORDER BY id DESC LIMIT ?2",
            destfolderid,
            limit,
            _LOOKED_AT,
        )
        return [KnownAsset._make(row) for row in rows]

    def sent_after(self, attempt_id: int, limit: int, *, newest: bool = False) -> list[ControlSample]:
        """Return accepted uploads that began after an attempt, into any folder: the first, or the newest.

        A version that was missing, and took over an older asset since, is left out.
        """
        rows = self._store.rows(
            # Join from the attempts in their order, so that the query stops at the limit: there may be a million.
            "SELECT a.id, f.path, a.sent_name, f.assetid FROM attempts a CROSS JOIN files f ON f.id = a.file_id"
            " WHERE a.id > ? AND a.result = 'accepted' AND f.id_from = 'answer' AND f.state IN ('stored', 'verified')"
            " AND f.uploaded_at = a.ended_at"
            f" ORDER BY a.id {'DESC' if newest else ''} LIMIT ?",
            attempt_id,
            limit,
        )
        return [ControlSample(row[0], KnownAsset(*row[1:])) for row in rows]

    def of_all(self, most: int) -> list[KnownAsset]:
        """Return verified versions from all folders: half of them the newest, half the oldest.

        If there are fewer than `most`, other versions that were seen in the service are added.
        """
        verified = "SELECT id FROM files WHERE wanted = 'yes' AND state = 'verified' ORDER BY id {} LIMIT {}"
        seen = "SELECT id FROM files WHERE assetid IS NOT NULL AND seen_at IS NOT NULL ORDER BY id DESC LIMIT {}"
        rows = self._store.rows(
            f"SELECT {_WITNESS} FROM files f WHERE id IN (SELECT * FROM ({verified.format('DESC', most - most // 2)}))"
            f" OR id IN (SELECT * FROM ({verified.format('', most // 2)})) ORDER BY id DESC"
        )
        if len(rows) < most:
            rows += self._store.rows(
                f"SELECT {_WITNESS} FROM files f WHERE id IN (SELECT * FROM ({seen.format(most)}))"
            )
        known = {row["assetid"]: KnownAsset._make(row) for row in reversed(rows)}
        return list(known.values())[-most:]

    def has_begun(self) -> bool:
        """Return whether anything was uploaded, or may have been."""
        sql = (
            "SELECT EXISTS (SELECT 1 FROM files WHERE assetid IS NOT NULL AND state NOT IN ('superseded', 'gone'))"
            " OR EXISTS (SELECT 1 FROM files WHERE assetid IS NOT NULL AND state IN ('superseded', 'gone'))"
            " OR EXISTS (SELECT 1 FROM attempts WHERE closed_at IS NULL)"
        )
        return bool(self._store.rows(sql)[0][0])

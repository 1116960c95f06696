"""Audits of a folder: what an audit compares the service with, and what it found.

Listing the folder is left to `sync.readback.auditor`.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from assetsync.ledger.file.database import ANY_OF, Database
from assetsync.ledger.file.facts import set_fact
from assetsync.ledger.rows import FILE_COLUMNS, WHOSE_ASSET, FileRow, file_row, files_where
from assetsync.ledger.runs import AUDITED
from assetsync.model import Asset, Clock

TAKEN_AWAY = (
    f"EXISTS (SELECT 1 FROM facts t WHERE t.name = '{AUDITED}' || {{0}} AND json_extract(t.value, '$.at') > {{1}})"
)
"""SQL condition: the newest audit of a folder did not show an asset; takes the folder and when it was last seen.

Somebody has removed the asset. The condition compares times, and a clock may be set back: before anything is sent in
its place, the folder is listed (`sync.upload.folder_listing`).
"""

SIGHTED = "COALESCE({0}.met_at, {0}.first_seen)"
"""SQL expression: when an asset without a version was last seen."""

MET_AT = "COALESCE((SELECT met_at FROM assets WHERE assetid = {0}.assetid), 0)"
"""SQL expression: when an audit last met the asset of a version, or a look-up showed it without a version."""


@dataclass(frozen=True, slots=True)
class Unmet:
    """The versions that an audit of a folder should have met but did not: their assets were last seen there.

    With `away_from`: the versions that were sent to the folder and last seen in a folder not in `away_from`.
    """

    folder: str
    away_from: Collection[str] | None = None

    def sql(self, what: str, *, by_id: bool = False) -> tuple[str, list[str]]:
        """Return the statement that selects `what` of these versions, to be continued with AND, and its values.

        If the continuation selects by ids, `by_id` makes SQLite use the index by id: the folder may hold far more
        versions.
        """
        plus = "+" if by_id else ""
        if self.away_from is None:
            return f"SELECT {what} FROM files WHERE {plus}asset_folder = ? AND {_VERIFIED}", [self.folder]
        # The index is named because the planner would read every version ever sent to the folder.
        index = "" if by_id else "INDEXED BY files_elsewhere "
        moved = f"asset_folder <> destfolderid AND {plus}destfolderid = ? AND asset_folder NOT {ANY_OF}"
        values = [self.folder, json.dumps([*self.away_from])]
        return f"SELECT {what} FROM files {index}WHERE {moved} AND {_VERIFIED}", values


_VERIFIED = "state = 'verified'"
_LIVE = "state NOT IN ('superseded', 'gone')"  # redundant beside _VERIFIED; makes SQLite use the index by asset
_BEFORE = "verified_at NOT BETWEEN ? AND ?"
_UNMET = f"{_BEFORE} AND {MET_AT.format('files')} <> ?"
_SLACK = 900.0


@dataclass(frozen=True, slots=True)
class RunningAudit:
    """An audit in progress, begun `at` by the wall clock and at `steady` by the steady clock.

    An asset verified during the audit may be missing from the audit's listing, and must not be reported as missing.
    """

    clock: Clock
    at: float
    steady: float

    def meanwhile(self) -> tuple[float, float]:
        """Return the first and the last wall-clock time that the clock may have shown during the audit.

        A later time was set by a clock that had been set back before, and is long ago; if it was set back by less than
        the slack, the row is left to a later audit. A clock that is set back during the audit has shown times of both
        its settings.
        """
        now, took = self.clock.now(), self.clock.steady() - self.steady
        return min(self.at, now - took), max(now, self.at + took) + _SLACK


def begin(clock: Clock) -> RunningAudit:
    """Begin an audit now."""
    return RunningAudit(clock, clock.now(), clock.steady())


class Audits:
    """The ledger's part for auditing."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def last_at(self, folder: str) -> float | None:
        """Return when the newest completed audit of the folder began, in seconds since the epoch."""
        result = self.last(folder)
        return None if result is None else float(str(result["at"]))

    def last(self, folder: str) -> dict[str, object] | None:
        """Return the counts of the folder's newest completed audit, with `at`, when it began."""
        result = self._store.fact(AUDITED + folder)
        return None if result is None else dict(json.loads(result))

    def done(self, folder: str, at: float, found: Mapping[str, object]) -> None:
        """Record the counts of an audit of the folder that began `at`."""
        value = json.dumps({"at": at, **found})
        self._store.write(lambda conn: set_fact(conn, AUDITED + folder, value))

    def live(self, assetids: Sequence[str]) -> dict[str, FileRow]:
        """Return the live rows of these ids, by id."""
        rows = files_where(self._store, f"{_LIVE} AND assetid {ANY_OF}", json.dumps(assetids))
        return {str(row.assetid): row for row in rows}

    def history(self, assetids: Sequence[str]) -> set[str]:
        """Return the ids that belong to versions at rest."""
        sql = f"SELECT assetid FROM files WHERE state IN ('superseded', 'gone') AND assetid {ANY_OF}"
        return set(self._store.column(sql, json.dumps(assetids)))

    def equal_content(self, folder: str, assets: Collection[Asset]) -> dict[str, FileRow]:
        """Return, by id of an asset that no row owns, a live row of the same content in the folder."""
        found = {}
        for asset in assets:
            if asset.md5 is None or asset.size is None:
                continue
            where = "destfolderid = ? AND size = ? AND md5 = ? AND state IN ('stored', 'verified') LIMIT 1"
            for row in files_where(self._store, where, folder, asset.size, asset.md5):
                found[asset.id] = row
        return found

    def archives(self, folder: str) -> list[bytes]:
        """Return the paths of the ZIP archives stored in the folder."""
        sql = (
            "SELECT path FROM files WHERE destfolderid = ? AND wanted = 'yes' AND state IN ('stored', 'verified')"
            " AND folded_name LIKE '%.zip' ORDER BY path"
        )
        return self._store.column(sql, folder)

    def sent_as(self, folder: str, name: str) -> FileRow | None:
        """Return a file that was sent into the folder under this name in an attempt that was in doubt."""
        sql = (
            "SELECT file_id FROM attempts WHERE destfolderid = ? AND folded_name = ? AND why IS NOT NULL"
            " AND result IN ('absent', 'damaged', 'found', 'resolved') ORDER BY id DESC LIMIT 1"
        )
        sent = self._store.value(sql, folder, name.casefold())
        return next(iter(files_where(self._store, "id = ?", sent)), None)

    def met(self, assetids: Iterable[str], at: float) -> None:
        """Record that an audit begun `at` met those of the assets that belong to a version, live or at rest."""
        sql = (
            "INSERT INTO assets (assetid, why, met_at) SELECT ?1, 'owned', ?2 FROM files"
            f" WHERE {WHOSE_ASSET.format('= ?1')} LIMIT 1 ON CONFLICT (assetid) DO UPDATE SET met_at = excluded.met_at"
        )
        self._store.change_each(sql, [(assetid, at) for assetid in assetids])

    def verified(self, unmet: Unmet, audit: RunningAudit) -> int:
        """Return the number of versions that the audit should meet; those verified since its start do not count."""
        sql, values = unmet.sql("COUNT(*)")
        return int(self._store.value(f"{sql} AND {_BEFORE}", *values, *audit.meanwhile()))

    def count(self, unmet: Unmet, audit: RunningAudit) -> int:
        """Return the number of verified versions that the audit has not met."""
        sql, values = unmet.sql("COUNT(*)")
        return int(self._store.value(f"{sql} AND {_UNMET}", *values, *audit.meanwhile(), audit.at))

    def unmet(self, unmet: Unmet, audit: RunningAudit, limit: int, *, after: int = 0) -> list[FileRow]:
        """Return verified versions that the audit has not met, ordered by id, after the id `after`."""
        sql, values = unmet.sql(FILE_COLUMNS)
        rows = self._store.rows(
            f"{sql} AND {_UNMET} AND id > ? ORDER BY id LIMIT ?", *values, *audit.meanwhile(), audit.at, after, limit
        )
        return [file_row(row) for row in rows]

    def unmet_of(self, unmet: Unmet, assetids: Sequence[str], audit: RunningAudit) -> list[FileRow]:
        """Return the verified versions of these assets that the audit has not met."""
        sql, values = unmet.sql(FILE_COLUMNS, by_id=True)
        sql = f"{sql} AND {_UNMET} AND {_LIVE} AND assetid {ANY_OF}"
        rows = self._store.rows(sql, *values, *audit.meanwhile(), audit.at, json.dumps(assetids))
        return [file_row(row) for row in rows]

    def explain(self, found: Sequence[tuple[str, str, FileRow | None]]) -> None:
        """Record the audit's explanation of assets without a version: (asset id, why, the file concerned)."""
        self._store.change_each(
            "UPDATE assets SET why = ?, file_id = ?, path = ? WHERE assetid = ? AND why IN ('', 'unknown')",
            [(why, row.id if row else None, row.path if row else None, assetid) for assetid, why, row in found],
        )

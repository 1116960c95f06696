"""What an audit of a folder compares with, and what it found."""

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from assetsync.ledger.database import Database
from assetsync.ledger.ledger_metadata import fact, set_fact
from assetsync.ledger.rows import FILE_COLUMNS, FileRow, file_row
from assetsync.ledger.runs import AUDITED
from assetsync.model import Asset, Clock

TAKEN_AWAY = (
    f"EXISTS (SELECT 1 FROM facts t WHERE t.name = '{AUDITED}' || {{0}} AND json_extract(t.value, '$.at') > {{1}})"
)
"""The condition of SQL for what the newest audit of a folder did not meet: the folder, and when it was met last.

Somebody has taken it away. Times are compared, and a clock may be set back: before anything is sent for it, the folder
is listed (`sync.upload.folder_listing`).
"""

SIGHTED = (
    "MAX(COALESCE({0}.met_at, {0}.first_seen), COALESCE((SELECT MAX(audited_at) FROM files WHERE assetid = {0}.assetid"
    " AND state IN ('superseded', 'gone')), 0))"
)
"""When a sighted asset was met last: of what is history an audit notes that with the version (`met_history`)."""


@dataclass(frozen=True, slots=True)
class Unmet:
    """What an audit of a folder of the service should have met and did not: what lay in it when last seen.

    With `away_from`, what was sent there and was last seen in a folder that is none of these.
    """

    folder: str
    away_from: Collection[str] | None = None

    def sql(self, what: str, *, by_id: bool = False) -> tuple[str, list[str]]:
        """Give the statement that selects `what` of these versions, to go on with AND, and its values.

        Where it goes on with ids, the planner is kept `by_id`: there may be many more in the folder.
        """
        plus = "+" if by_id else ""
        if self.away_from is None:
            return f"SELECT {what} FROM files WHERE {plus}asset_folder = ? AND {_VERIFIED}", [self.folder]
        # Named, because the planner would go through all that was ever sent there.
        index = "" if by_id else "INDEXED BY files_elsewhere "
        others = ", ".join("?" * len(self.away_from))
        moved = f"asset_folder <> destfolderid AND {plus}destfolderid = ? AND asset_folder NOT IN ({others})"
        return f"SELECT {what} FROM files {index}WHERE {moved} AND {_VERIFIED}", [self.folder, *self.away_from]


_VERIFIED = "state = 'verified'"
_LIVE = "state NOT IN ('superseded', 'gone')"  # said beside it, for the index by asset
_BEFORE = "verified_at NOT BETWEEN ? AND ?"
_UNMET = f"{_BEFORE} AND audited_at IS NOT ?"
_SLACK = 900.0


@dataclass(frozen=True, slots=True)
class RunningAudit:
    """An audit under way, begun `at` by the wall clock and at `steady`.

    What is verified meanwhile may be in no listing of it, and must not be called missing for that.
    """

    clock: Clock
    at: float
    steady: float

    def meanwhile(self) -> tuple[float, float]:
        """Give the first and the last wall-clock time that meanwhile can have been told.

        A time after them was told by a clock that had been set back before, and is long ago; one by less than the slack
        is left to a later audit. A clock that is set back now has told times by both of its settings.
        """
        now, took = self.clock.now(), self.clock.steady() - self.steady
        return min(self.at, now - took), max(now, self.at + took) + _SLACK


def begin(clock: Clock) -> RunningAudit:
    """Begin an audit now."""
    return RunningAudit(clock, clock.now(), clock.steady())


class Audits:
    """The ledger's side of auditing."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def last_at(self, folder: str) -> float | None:
        """Give when the folder's newest audit that came to its end began, in seconds since the epoch."""
        said = self.last(folder)
        return None if said is None else float(str(said["at"]))

    def last(self, folder: str) -> dict[str, object] | None:
        """Give what the folder's newest audit that came to its end found in numbers, and `at`, when it began."""
        said = fact(self._store, AUDITED + folder)
        return None if said is None else dict(json.loads(said))

    def done(self, folder: str, at: float, found: Mapping[str, object]) -> None:
        """Keep what an audit of the folder, begun `at`, found in numbers."""
        value = json.dumps({"at": at, **found})
        self._store.write(lambda conn: set_fact(conn, AUDITED + folder, value))

    def live(self, assetids: Sequence[str]) -> dict[str, FileRow]:
        """Give the live rows of these ids."""
        marks = ", ".join("?" * len(assetids))
        sql = f"SELECT {FILE_COLUMNS} FROM files WHERE state NOT IN ('superseded', 'gone') AND assetid IN ({marks})"
        return {str(row["assetid"]): file_row(row) for row in self._store.rows(sql, *assetids)}

    def history(self, assetids: Sequence[str]) -> set[str]:
        """Tell which of these ids belong to versions that are no longer wanted."""
        marks = ", ".join("?" * len(assetids))
        sql = f"SELECT assetid FROM files WHERE state IN ('superseded', 'gone') AND assetid IN ({marks})"
        return {str(row[0]) for row in self._store.rows(sql, *assetids)}

    def replaced(self, assetids: Sequence[str]) -> set[str]:
        """Tell in which of these assets' place a person had another uploaded."""
        marks = ", ".join("?" * len(assetids))
        sql = f"SELECT assetid FROM sightings WHERE why = 'replaced' AND assetid IN ({marks})"
        return {str(row[0]) for row in self._store.rows(sql, *assetids)}

    def equal_content(self, folder: str, assets: Collection[Asset]) -> dict[str, FileRow]:
        """Give, for assets that no row owns, a live row of the same content in the folder."""
        found = {}
        for asset in assets:
            if asset.md5 is None or asset.size is None:
                continue
            rows = self._store.rows(
                f"SELECT {FILE_COLUMNS} FROM files WHERE destfolderid = ? AND size = ? AND md5 = ?"
                " AND state IN ('stored', 'verified') LIMIT 1",
                folder,
                asset.size,
                asset.md5,
            )
            if rows:
                found[asset.id] = file_row(rows[0])
        return found

    def archives(self, folder: str) -> list[bytes]:
        """Give the paths of the ZIP archives that are stored in the folder."""
        sql = (
            "SELECT path FROM files WHERE destfolderid = ? AND wanted = 'yes' AND state IN ('stored', 'verified')"
            " AND folded_name LIKE '%.zip' ORDER BY path"
        )
        return [row[0] for row in self._store.rows(sql, folder)]

    def sent_as(self, folder: str, name: str) -> FileRow | None:
        """Give a file that was sent into the folder under this name, in an attempt that ended in doubt."""
        rows = self._store.rows(
            "SELECT file_id FROM attempts WHERE destfolderid = ? AND folded_name = ? AND why IS NOT NULL"
            " AND result IN ('absent', 'damaged', 'found', 'resolved') ORDER BY id DESC LIMIT 1",
            folder,
            name.casefold(),
        )
        if not rows:
            return None
        found = self._store.rows(f"SELECT {FILE_COLUMNS} FROM files WHERE id = ?", rows[0][0])
        return file_row(found[0]) if found else None

    def met(self, file_ids: Sequence[int], at: float) -> None:
        """Record that an audit begun `at` met these rows' assets."""
        self._store.write(
            lambda conn: conn.executemany("UPDATE files SET audited_at = ? WHERE id = ?", [(at, i) for i in file_ids])
        )

    def met_history(self, assetids: Collection[str], at: float) -> None:
        """Record that an audit begun `at` met these assets of versions at rest: they can be listed for removal."""
        sql = "UPDATE files SET audited_at = ? WHERE assetid = ? AND state IN ('superseded', 'gone')"
        if assetids:
            self._store.write(lambda conn: conn.executemany(sql, [(at, assetid) for assetid in assetids]))

    def met_ids(self, assetids: Collection[str], at: float) -> None:
        """Record that an audit begun `at` met these assets, whosever they are."""
        sql = f"UPDATE files SET audited_at = ? WHERE assetid = ? AND {_VERIFIED} AND {_LIVE}"
        if assetids:
            self._store.write(lambda conn: conn.executemany(sql, [(at, assetid) for assetid in assetids]))

    def verified(self, unmet: Unmet, audit: RunningAudit) -> int:
        """Count what the audit should meet, met or not; what was verified since does not count."""
        sql, values = unmet.sql("COUNT(*)")
        return int(self._store.rows(f"{sql} AND {_BEFORE}", *values, *audit.meanwhile())[0][0])

    def count(self, unmet: Unmet, audit: RunningAudit) -> int:
        """Count the verified versions that the audit has not met."""
        sql, values = unmet.sql("COUNT(*)")
        return int(self._store.rows(f"{sql} AND {_UNMET}", *values, *audit.meanwhile(), audit.at)[0][0])

    def unmet(self, unmet: Unmet, audit: RunningAudit, limit: int, *, after: int = 0) -> list[FileRow]:
        """Give verified versions that the audit has not met, in the order of their rows, from one on."""
        sql, values = unmet.sql(FILE_COLUMNS)
        rows = self._store.rows(
            f"{sql} AND {_UNMET} AND id > ? ORDER BY id LIMIT ?", *values, *audit.meanwhile(), audit.at, after, limit
        )
        return [file_row(row) for row in rows]

    def unmet_of(self, unmet: Unmet, assetids: Sequence[str], audit: RunningAudit) -> list[FileRow]:
        """Give those of these assets that the audit has not met."""
        marks = ", ".join("?" * len(assetids))
        sql, values = unmet.sql(FILE_COLUMNS, by_id=True)
        rows = self._store.rows(
            f"{sql} AND {_UNMET} AND {_LIVE} AND assetid IN ({marks})", *values, *audit.meanwhile(), audit.at, *assetids
        )
        return [file_row(row) for row in rows]

    def explain(self, found: Sequence[tuple[str, str, FileRow | None]]) -> None:
        """Say of sighted assets what the audit takes them for: (id, why, the file it is about)."""

        def work(conn: sqlite3.Connection) -> None:
            conn.executemany(
                "UPDATE sightings SET why = ?, file_id = ?, path = ? WHERE assetid = ? AND why IN ('', 'unknown')",
                [(why, row.id if row else None, row.path if row else None, assetid) for assetid, why, row in found],
            )

        if found:
            self._store.write(work)

"""The read-only view of a ledger: reports for people and machines (counts, files, orphans) and the results of runs.

A command that only reads does not load the modules that send, which take longer to load than reading takes. Everything
else of a ledger is left to `ledger`.
"""

import json
import os
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from assetsync.core.read_back import NEVER_PROCESSED
from assetsync.ledger.audits import MET_AT, SIGHTED, TAKEN_AWAY
from assetsync.ledger.equal_content import OWNED
from assetsync.ledger.file.database import ANY_OF, Database, below, open_beside
from assetsync.ledger.file.facts import SERVICE
from assetsync.ledger.folders import HELD, PASSING, UNLISTED, Hold
from assetsync.ledger.metadata_drift import COUNT_ADOPTED, COUNT_REPORTED, ELSEWHERE, reported
from assetsync.ledger.pauses import Pauses, paused
from assetsync.ledger.rows import (
    CHECKED_AGAIN,
    FILE_COLUMNS,
    NO_SIDECAR,
    THEIRS,
    WAITS_FOR_SIDECAR,
    FileRow,
    file_row,
    files_where,
)
from assetsync.ledger.runs import HourlyStats, Pause, Runs
from assetsync.model import State, Wanted
from assetsync.text import path_keys

_NOT_OWNED = "NOT " + OWNED.format("{0}.assetid")
# An open attempt of the same content, or of the same size if a digest is missing.
_DOUBTED = (
    "EXISTS (SELECT 1 FROM attempts a WHERE a.closed_at IS NULL AND a.destfolderid = {0}"
    " AND (a.md5 = {1}.md5 OR (a.md5 IS NULL OR {1}.md5 IS NULL) AND a.size = {1}.size))"
)
_FOLDER = "COALESCE({0}.asset_folder, {0}.destfolderid)"
_LAST_KNOWN = f"MAX({MET_AT}, COALESCE({{0}}.verified_at, {{0}}.uploaded_at, {{0}}.queued_at))"
_SHOWN_AT = "(SELECT shown_at FROM assets WHERE assetid = {0}.assetid)"
# A version whose asset exists as far as is known. A version that still has to be read back again may have no asset.
_HAS_ASSET = (
    "({0}.assetid IS NOT NULL AND {0}.state IN ('stored', 'verified', 'superseded', 'gone')"
    f" AND {_SHOWN_AT} IS NOT NULL AND NOT {THEIRS} AND NOT "
    + TAKEN_AWAY.format(_FOLDER, f"MAX(COALESCE({{0}}.verified_at, {_SHOWN_AT}), {MET_AT})")
    + ")"
)
# The versions that a sighted asset may be a copy of: the version recorded with the asset, and all of equal content.
_LIKE_IT = (
    "SELECT s.file_id UNION ALL SELECT id FROM files WHERE destfolderid = s.folder_id AND size = s.size AND md5 = s.md5"
)
_UNREAD_LIKE_IT = "SELECT id FROM files WHERE destfolderid = s.folder_id AND size = s.size AND md5 IS NULL"
# A copy is surplus if another copy exists and no file lacks an asset: otherwise it is the last copy, and about to be
# adopted.
_IS_TOO_MANY = (
    f"(EXISTS (SELECT 1 FROM files f WHERE f.id IN ({_LIKE_IT}) AND {_HAS_ASSET.format('f')})"
    f" AND NOT EXISTS (SELECT 1 FROM files f WHERE f.id IN ({_LIKE_IT} UNION ALL {_UNREAD_LIKE_IT})"
    f" AND f.wanted IN ('yes', 'unmapped') AND NOT {_HAS_ASSET.format('f')}))"
)
_HAS_QUEUED = (
    "EXISTS (SELECT 1 FROM counted WHERE wanted = 'yes' AND state = 'queued' AND destfolderid = folders.destfolderid"
    " AND files > 0)"
)
_BLOCKED = "state = 'blocked' AND wanted <> 'unmapped'"
_MOVED = "state IN ('stored', 'verified') AND asset_folder <> destfolderid AND asset_folder"
# Files with a wrong asset: missing, different, never processed, elsewhere.
_NOT_AS_SENT = (
    "state = 'blocked' AND reason = 'missing'",
    "state = 'blocked' AND reason = 'different'",
    f"state = 'blocked' AND reason = '{NEVER_PROCESSED}'",
    f"{_MOVED} IS NOT agreed_folder",
)

_RECENT = 1000
_RECENT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of current files in each state, and other reasons why a site is not in sync.

    `waiting_for_sidecar` files are queued, too. `bytes_to_send` is the size of the files that are queued or being sent,
    without those. `checked_again` files are verified, and are read again because their ctime or inode changed.
    `folders` counts by destfolderid.
    """

    states: dict[State, int]
    bytes_verified: int = 0
    bytes_to_send: int = 0
    held: int = 0
    unresolved_history: int = 0
    folders: dict[str, dict[State, int]] = field(default_factory=dict)
    waiting_for_sidecar: int = 0
    checked_again: int = 0

    def of(self, *states: State) -> int:
        """Return the sum of the counts of these states."""
        return sum(self.states.get(state, 0) for state in states)


class Finding(NamedTuple):
    """A file of the ledger, an asset, or both, with a word and a sentence for what there is to report.

    `why` is "" if there is nothing to report. `state` is None for an asset of no version. `name` is the service's name
    of a sighted asset; an asset that was sent has the path of its file. `since` is when the version of an orphan was
    replaced or deleted, in seconds since the epoch.
    """

    why: str
    assetid: str | None
    path: bytes | None
    destfolderid: str
    size: int | None
    md5: str | None
    state: State | None = None
    detail: str | None = None
    name: str | None = None
    since: float | None = None

    @classmethod
    def of(cls, row: FileRow, why: str | None, detail: str | None) -> Self:
        """Return the finding about a version, in the folder that holds its asset, else in that of its mapping."""
        folder = row.asset_folder or row.destfolderid
        return cls(why or "", row.assetid, row.path, folder, row.size, row.md5, row.state, detail)

    def as_object(self) -> dict[str, object]:
        """Return the keys that all `--json` outputs share."""
        return path_keys(self.path) | {
            "state": self.state,
            "assetid": self.assetid,
            "destfolderid": self.destfolderid,
            "size": self.size,
            "md5": self.md5,
            "reason": self.why or None,
            "detail": self.detail,
        }


class BlockedGroup(NamedTuple):
    """The files that are blocked for one reason: how many, the first of them, and the lowest folder above them all."""

    reason: str | None
    files: int
    first: tuple[FileRow, ...]
    folder: bytes


class RecentUploads(NamedTuple):
    """The uploads of the last minutes: how many were accepted, their bytes, and in how many seconds.

    `in_flight` uploads have not ended, and none has ended since `unanswered_since` (seconds since the epoch; None if
    none is in flight).
    """

    accepted: int = 0
    bytes: int = 0
    seconds: float = 0.0
    in_flight: int = 0
    unanswered_since: float | None = None


class Brake(NamedTuple):
    """A brake that waits for an operator."""

    id: int
    kind: str
    subject: str
    detail: str
    amount: int
    pulled_at: float


class Reports:
    """Queries for reports."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def counts(self, now: float) -> Counts:
        """Count the current files by state; the cost does not depend on their number."""
        states: Counter[State] = Counter()
        folders: dict[str, dict[State, int]] = {}
        sizes: Counter[State] = Counter()
        unresolved_history = 0
        sql = "SELECT destfolderid, wanted, state, files, bytes FROM counted WHERE files > 0"
        for folder, wanted, state, count, size in self._store.rows(sql):
            if wanted == Wanted.YES:
                states[State(state)] += count
                folders.setdefault(folder, {})[State(state)] = count
                sizes[State(state)] += size
            elif wanted != Wanted.UNMAPPED:
                # An undecidable doubt needs an operator even after its file was replaced or deleted.
                states[State.BLOCKED] += count if state == State.BLOCKED else 0
                unresolved_history += count if state in (State.SENDING, State.IN_DOUBT) else 0
        # Only the folders that need an operator: after other holds the next try may succeed.
        rows = self._store.rows_where("folders", f"{HELD} AND hold_reason NOT IN {PASSING}", now)
        held = sum(folders.get(row["destfolderid"], {}).get(State.QUEUED, 0) for row in rows)
        found = {state: count for state, count in states.items() if count}
        waiting, waiting_bytes = self.count_waiting_for_sidecar() if states[State.QUEUED] else (0, 0)
        return Counts(
            found,
            bytes_verified=sizes[State.VERIFIED],
            bytes_to_send=sizes[State.QUEUED] + sizes[State.SENDING] - waiting_bytes,
            held=held,
            unresolved_history=unresolved_history,
            folders=folders,
            waiting_for_sidecar=waiting,
            checked_again=self.count_checked_again() if states[State.VERIFIED] else 0,
        )

    def count_checked_again(self) -> int:
        """Return the number of verified files that are read again."""
        return int(self._store.value(f"SELECT COUNT(*) FROM files WHERE {CHECKED_AGAIN}"))

    def count_waiting_for_sidecar(self) -> tuple[int, int]:
        """Return the number and the size in bytes of the queued files that wait for their own sidecars."""
        ((count, size),) = self._store.rows(
            f"SELECT COUNT(*), COALESCE(SUM(size), 0) FROM files WHERE {WAITS_FOR_SIDECAR}"
        )
        return count, size

    def count_paused(self, paths: Collection[bytes]) -> int:
        """Return the number of queued files at these paths and below them, without those that wait for a sidecar."""
        if not paths:
            return 0
        queued = f"state = 'queued' AND wanted = 'yes' AND ({WAITS_FOR_SIDECAR}) IS NOT 1"
        return int(self._store.value(f"SELECT COUNT(*) FROM files WHERE {queued} AND {paused(paths)}"))

    def waiting_for_sidecar(self, before: float, limit: int) -> list[FileRow]:
        """Return the files that have waited longest for their own sidecars, of those queued before that time."""
        where = f"{WAITS_FOR_SIDECAR} AND queued_at <= ? ORDER BY queued_at, id LIMIT ?"
        return files_where(self._store, where, before, limit)

    def files(
        self, state: State | None = None, *, history: bool = False, under: bytes | None = None
    ) -> Iterator[FileRow]:
        """Yield the current row of every path in byte order, or all rows with `history`.

        `under` limits the result to one file, or to all files below one folder.
        """
        where = ""
        values: list[object] = []
        if under is not None:
            # Names such as `a-b` sort between `a` and `a/b`.
            first, after = below(under)
            where += "(path = ? OR path >= ?) AND path < ? AND "
            values += [under, first, after]
        if state is not None:
            where += "state = ? AND "
            values.append(state)
        if not history:
            where += "wanted = 'yes' AND "
        sql = f"SELECT {FILE_COLUMNS} FROM files WHERE {where}(path, id) > (?, ?) ORDER BY path, id LIMIT ?"
        return (file_row(row) for row in self._store.pages(sql, "path, id", (under or b"", 0), *values))

    def of_path(self, path: bytes, limit: int = -1) -> list[FileRow]:
        """Return up to `limit` versions of a path (negative: all), the current version first."""
        return files_where(self._store, "path = ? ORDER BY wanted = 'yes' DESC, id DESC LIMIT ?", path, limit)

    def of_asset(self, assetid: str) -> list[FileRow]:
        """Return the versions with an asset, the live version first; the versions at rest from the newest on.

        A person may type the id in small letters: services show theirs in capitals.
        """
        rests = "assetid = ? AND state IN ('superseded', 'gone') ORDER BY id DESC"
        for each in dict.fromkeys((assetid, assetid.upper())):
            live = files_where(self._store, "assetid = ? AND state NOT IN ('superseded', 'gone')", each)
            if rows := [*live, *files_where(self._store, rests, each)]:
                return rows
        return []

    def asset_before(self, row: FileRow) -> str | None:
        """Return the asset of an earlier version of a row's path, None without one."""
        older = (old.assetid for old in self.of_path(row.path) if old.id != row.id)
        return next((assetid for assetid in older if assetid is not None), None)

    def blocked(self, limit: int) -> list[FileRow]:
        """Return up to `limit` blocked files, ordered by id."""
        return files_where(self._store, f"{_BLOCKED} ORDER BY id LIMIT ?", limit)

    def blocked_groups(self, named: int) -> list[BlockedGroup]:
        """Return the blocked files by reason, the largest group first, each with its first `named` files.

        The order in a group is that of an index. The cost grows with the number of blocked files.
        """
        groups = self._store.rows(
            f"SELECT reason, COUNT(*), MIN(path), MAX(path) FROM files WHERE {_BLOCKED}"
            " GROUP BY reason ORDER BY COUNT(*) DESC, reason"
        )
        of_reason = f"{_BLOCKED} AND reason IS ? ORDER BY destfolderid, id LIMIT ?"
        return [
            BlockedGroup(
                reason,
                files,
                tuple(files_where(self._store, of_reason, reason, named)),
                # What the least and the greatest path share, all paths between them share too.
                os.path.commonpath([least, greatest]) or b".",
            )
            for reason, files, least, greatest in groups
        ]

    def count_blocked(self) -> int:
        """Return the number of rows that `blocked` returns without a limit."""
        return int(self._store.value(f"SELECT COALESCE(SUM(files), 0) FROM counted WHERE {_BLOCKED}"))

    def recent_uploads(self, now: float) -> RecentUploads:
        """Return the uploads of the last minutes, from the newest `_RECENT` attempts: their times have no index."""
        newest = self._store.rows(
            "SELECT started_at, ended_at, size, result FROM attempts ORDER BY id DESC LIMIT ?", _RECENT
        )
        accepted = [row for row in newest if row["result"] == "accepted" and row["ended_at"] > now - _RECENT_SECONDS]
        began = min((row["started_at"] for row in accepted), default=now)
        in_flight = "SELECT COUNT(*), MIN(started_at) FROM attempts WHERE closed_at IS NULL AND ended_at IS NULL"
        ((waiting, oldest),) = self._store.rows(in_flight)
        ended = max((row["ended_at"] or 0.0 for row in newest), default=0.0)
        return RecentUploads(
            len(accepted),
            sum(row["size"] for row in accepted),
            now - began,
            waiting,
            max(oldest, ended) if waiting else None,
        )

    def trying(self, ids: Collection[int]) -> set[int]:
        """Return the ids of those rows that are queued or being sent again."""
        sql = f"SELECT id FROM files WHERE id {ANY_OF} AND state IN ('queued', 'sending') AND wanted = 'yes'"
        return set(self._store.column(sql, json.dumps([*ids])))

    def in_doubt(self, limit: int) -> list[FileRow]:
        """Return up to `limit` versions in doubt, ordered by id, including versions that the tree no longer has."""
        return files_where(self._store, "state = 'in_doubt' ORDER BY id LIMIT ?", limit)

    def waiting_longest(self) -> FileRow | None:
        """Return the unverified current version that was queued first.

        Blocked files are left out, and those that wait for a sidecar of their own.
        """
        first = (
            "SELECT MIN(id) FROM files f WHERE size >= 0 AND wanted = 'yes' AND f.destfolderid = c.destfolderid"
            f" AND f.state = c.state AND f.reason IS NOT '{NO_SIDECAR}'"
        )
        where = (
            f"id IN (SELECT ({first}) FROM counted c WHERE wanted = 'yes'"
            " AND state IN ('queued', 'sending', 'in_doubt', 'stored') AND files > 0) ORDER BY queued_at, id LIMIT 1"
        )
        return next(iter(files_where(self._store, where)), None)

    def drifted(self, limit: int) -> list[FileRow]:
        """Return up to `limit` files with drift, ordered by id."""
        return files_where(self._store, f"{reported('?1')} ORDER BY id LIMIT ?1", limit)

    def count_drifted(self) -> int:
        """Return the number of files that `drifted` returns without a limit."""
        return int(self._store.value(COUNT_REPORTED))

    def count_adopted(self) -> int:
        """Return the number of adopted files whose metadata in the service differs from the sidecars."""
        return int(self._store.value(COUNT_ADOPTED))

    def holds(self, now: float) -> dict[str, Hold]:
        """Return the folders that are held, and how; a folder that cannot be listed only if `unlisted` has it."""
        where = f"{HELD} AND hold_reason <> ?2 OR hold_reason = ?2 AND {_HAS_QUEUED}"
        rows = self._store.rows_where("folders", where, now, UNLISTED)
        return {row["destfolderid"]: Hold(*(row[f"hold_{name}"] for name in Hold._fields)) for row in rows}

    def unlisted(self) -> dict[str, str]:
        """Return the folders that cannot be listed while a file is queued for them, and why."""
        rows = self._store.rows_where("folders", f"hold_reason = ? AND {_HAS_QUEUED}", UNLISTED)
        return {row["destfolderid"]: row["hold_detail"] for row in rows}

    def brakes(self) -> list[Brake]:
        """Return the brakes that wait for an operator."""
        columns = ", ".join(Brake._fields)
        rows = self._store.rows_where("brakes", "resumed_at IS NULL", order_by="id", select=columns)
        return [Brake(**row) for row in rows]

    def orphans(self, gone_before: float) -> Iterator[Finding]:
        """Yield assets without a live file: history (deleted files only if gone before then), and explained assets.

        Left out are assets that a live row owns, that an open doubt may need, that an audit no longer found, that hold
        somebody else's work, or that are the last copy of a file.
        """
        history = self._store.pages(
            f"SELECT {FILE_COLUMNS} FROM files f"
            " WHERE state IN ('superseded', 'gone') AND assetid IS NOT NULL"
            " AND (state = 'superseded' OR rested_at < ?)"
            # Until its successor is stored, the old asset is the only asset of the file in the service.
            " AND NOT EXISTS (SELECT 1 FROM files n WHERE n.path = f.path AND n.wanted = 'yes'"
            "   AND n.state NOT IN ('stored', 'verified'))"
            # While a brake is pulled, replaced or deleted files may be the mistake that pulled it.
            " AND NOT EXISTS (SELECT 1 FROM brakes WHERE resumed_at IS NULL)"
            f" AND {_NOT_OWNED.format('f')}"
            f" AND NOT {_DOUBTED.format(_FOLDER.format('f'), 'f')}"
            f" AND NOT {TAKEN_AWAY.format(_FOLDER.format('f'), _LAST_KNOWN.format('f'))}"
            f" AND NOT {THEIRS.format('f')}"
            # Only an audit that meets the asset later shows that it is back.
            f" AND NOT (f.reason IS 'missing' AND {MET_AT.format('f')} <= COALESCE(f.rested_at, 0))"
            " AND id > ? ORDER BY id LIMIT ?",
            "id",
            (0,),
            gone_before,
        )
        for row in map(file_row, history):
            why = "replaced" if row.state is State.SUPERSEDED else "deleted"
            yield Finding.of(row, why, None)._replace(since=row.rested_at)
        yield from self._sighted()

    def _sighted(self) -> Iterator[Finding]:
        """Yield the orphans among the sighted assets, those that an operator had replaced included."""
        assets = self._store.pages(
            # In the order of the fields of Finding.
            "SELECT why, assetid, path, folder_id, size, md5, NULL, NULL, name, NULL FROM unowned s WHERE why <> ''"
            f" AND {_NOT_OWNED.format('s')}"
            f" AND NOT (why <> 'damaged' AND {_DOUBTED.format('s.folder_id', 's')})"
            f" AND NOT {TAKEN_AWAY.format('s.folder_id', SIGHTED.format('s'))} AND {SIGHTED.format('s')} > 0"
            f" AND (why <> 'doubled' OR {_IS_TOO_MANY})"
            " AND assetid > ? ORDER BY assetid LIMIT ?",
            "assetid",
            ("",),
        )
        return map(Finding._make, assets)

    def findings(self) -> Iterator[Finding]:
        """Yield differences in the service: files first, then orphans other than replaced and deleted assets."""
        for where in _NOT_AS_SENT:
            sql = f"SELECT {FILE_COLUMNS} FROM files WHERE wanted = 'yes' AND {where} AND id > ? ORDER BY id LIMIT ?"
            for row in map(file_row, self._store.pages(sql, "id", (0,))):
                if row.state is State.BLOCKED:
                    yield Finding.of(row, row.reason, row.detail)
                else:
                    yield Finding.of(row, "elsewhere", f"{ELSEWHERE}{row.asset_folder}")
        yield from (orphan for orphan in self._sighted() if orphan.why != "replaced")

    def settled_elsewhere(self) -> int:
        """Return the number of files whose assets were moved in the service and may stay there."""
        sql = f"SELECT COUNT(*) FROM files WHERE wanted = 'yes' AND {_MOVED} IS agreed_folder"
        return int(self._store.value(sql))

    def replenished(self) -> int:
        """Return the number of files that are queued again because an audit missed their assets."""
        sql = "SELECT COUNT(*) FROM files WHERE state = 'queued' AND wanted = 'yes' AND reason = 'missing'"
        return int(self._store.value(sql))

    def fact(self, name: str) -> str | None:
        """Return one fact of the whole ledger."""
        return self._store.fact(name)


class LedgerView:
    """A ledger that is only read (`view_ledger`), or the readable part of a ledger that is sent for."""

    def __init__(self, store: Database) -> None:
        self.store = store
        self.reports = Reports(store)
        self.hourly_stats = HourlyStats(store)
        self.runs = Runs(store)
        self.pauses = Pauses(store)

    def has_sent_to(self, base_url: str) -> bool:
        """Return whether the service at this address has stored uploads."""
        return self.reports.fact(SERVICE) == base_url and self.hourly_stats.total() > 0

    def arrived(self, pause: Pause | None) -> int | None:
        """Return how many uploads arrived since the pause began; None unless it is one in which answers are lost."""
        return None if pause is None or pause.uploads is None else self.hourly_stats.total() - pause.uploads

    def close(self) -> None:
        """Close the connections."""
        self.store.close()


def view_ledger(path: Path, *, site: str | None = None) -> LedgerView:
    """Open a ledger beside its holder, to read it; creates nothing. Raises as `database.open_beside` does."""
    return LedgerView(open_beside(path, site=site))

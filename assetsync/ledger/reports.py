"""What the ledger tells people and machines: counts, files, orphans. Reads only."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from assetsync.ledger.audits import SIGHTED, TAKEN_AWAY
from assetsync.ledger.database import Database
from assetsync.ledger.equal_content import OWNED
from assetsync.ledger.folder_holds import HELD, UNLISTED
from assetsync.ledger.ledger_metadata import fact
from assetsync.ledger.metadata_drift import DRIFTED, ELSEWHERE
from assetsync.ledger.rows import FILE_COLUMNS, THEIRS, FileRow, file_row
from assetsync.model import State, Wanted

_AFTER_SLASH = bytes([ord("/") + 1])
_NOT_OWNED = "NOT " + OWNED.format("{0}.assetid")
# An open attempt of the same content, or of the same size where a digest is missing.
_DOUBTED = (
    "EXISTS (SELECT 1 FROM attempts a WHERE a.closed_at IS NULL AND a.destfolderid = {0}"
    " AND (a.md5 = {1}.md5 OR (a.md5 IS NULL OR {1}.md5 IS NULL) AND a.size = {1}.size))"
)
_FOLDER = "COALESCE({0}.asset_folder, {0}.destfolderid)"
_LAST_KNOWN = "MAX(COALESCE({0}.audited_at, 0), COALESCE({0}.uploaded_at, {0}.queued_at))"
# A version whose asset is there as far as is known. One that is only to be read back again may have none.
_HAS_ASSET = (
    "({0}.assetid IS NOT NULL AND {0}.state IN ('stored', 'verified', 'superseded', 'gone')"
    " AND {0}.seen_at IS NOT NULL AND NOT "
    + THEIRS
    + " AND NOT "
    + TAKEN_AWAY.format(_FOLDER, "MAX(COALESCE({0}.verified_at, {0}.seen_at), COALESCE({0}.audited_at, 0))")
    + ")"
)
# The versions of which a sighted asset may be a copy: the one that was said to be its like, and all of its content.
_LIKE_IT = (
    "SELECT s.file_id UNION ALL SELECT id FROM files WHERE destfolderid = s.folder_id AND size = s.size AND md5 = s.md5"
)
_UNREAD_LIKE_IT = "SELECT id FROM files WHERE destfolderid = s.folder_id AND size = s.size AND md5 IS NULL"
# A copy is one too many where another is there, and no file lacks one: else it is the last, and about to be adopted.
_IS_TOO_MANY = (
    f"(EXISTS (SELECT 1 FROM files f WHERE f.id IN ({_LIKE_IT}) AND {_HAS_ASSET.format('f')})"
    f" AND NOT EXISTS (SELECT 1 FROM files f WHERE f.id IN ({_LIKE_IT} UNION ALL {_UNREAD_LIKE_IT})"
    f" AND f.wanted IN ('yes', 'unmapped') AND NOT {_HAS_ASSET.format('f')}))"
)
# Files whose assets are not what they should be: the word for it, how they stand, and where it is said.
_NOT_AS_SENT = (
    ("missing", "state = 'blocked' AND reason = 'missing'", "detail"),
    ("different", "state = 'blocked' AND reason = 'different'", "detail"),
    (
        "elsewhere",
        "state IN ('stored', 'verified') AND asset_folder <> destfolderid AND asset_folder IS NOT agreed_folder",
        f"'{ELSEWHERE}' || asset_folder",
    ),
)


@dataclass(frozen=True, slots=True)
class Counts:
    """How many current files stand in each state, and what else keeps a site from being in sync.

    `folders` counts by destfolderid.
    """

    states: dict[State, int]
    bytes_verified: int = 0
    held: int = 0
    unresolved_history: int = 0
    folders: dict[str, dict[State, int]] = field(default_factory=dict)
    bytes_queued: int = 0

    def of(self, *states: State) -> int:
        """Add up some states."""
        return sum(self.states.get(state, 0) for state in states)


class Orphan(NamedTuple):
    """An asset in the service that no live file stands behind, and why.

    `name` is the service's, of what was only seen there; what was sent has its path.
    """

    assetid: str
    path: bytes | None
    destfolderid: str
    size: int | None
    md5: str | None
    why: str
    name: str | None = None


class Finding(NamedTuple):
    """What differs between the ledger and the service: a word for it, and the asset, the file, or both.

    `name` as in `Orphan`.
    """

    why: str
    assetid: str | None
    path: bytes | None
    folder: str
    size: int | None
    md5: str | None
    detail: str | None
    name: str | None = None


class Brake(NamedTuple):
    """A pause that waits for a person."""

    id: int
    kind: str
    subject: str
    detail: str
    amount: int
    pulled_at: float


class Reports:
    """Views of the ledger."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def counts(self, now: float) -> Counts:
        """Count the current files by state; how many there are does not matter."""
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
                # A doubt that nobody could decide is a person's matter, also when its file is replaced or gone by now.
                states[State.BLOCKED] += count if state == State.BLOCKED else 0
                unresolved_history += count if state in (State.SENDING, State.IN_DOUBT) else 0
        # What cannot be listed may be in a moment, without a person.
        sql = f"SELECT destfolderid FROM folders WHERE {HELD} AND hold_reason <> ?2"
        held = sum(folders.get(row[0], {}).get(State.QUEUED, 0) for row in self._store.rows(sql, now, UNLISTED))
        found = {state: count for state, count in states.items() if count}
        return Counts(found, sizes[State.VERIFIED], held, unresolved_history, folders, sizes[State.QUEUED])

    def files(
        self, state: State | None = None, *, history: bool = False, under: bytes | None = None
    ) -> Iterator[FileRow]:
        """Give the current row of every path in byte order, or all rows with `history`.

        `under` leaves those of one file, or of all below one folder.
        """
        where = ["(path, id) > (?, ?)"]
        values: list[object] = []
        if not history:
            where.insert(0, "wanted = 'yes'")
        if state is not None:
            where.insert(0, "state = ?")
            values.append(state)
        if under is not None:
            # Among what is read are names that begin alike, such as `a-b` beside `a/b`.
            where[:0] = ["path < ?", "(path = ? OR substr(path, 1, ?) = ?)"]
            values[:0] = [under + _AFTER_SLASH, under, len(under) + 1, under + b"/"]
        sql = f"SELECT {FILE_COLUMNS} FROM files WHERE {' AND '.join(where)} ORDER BY path, id LIMIT ?"
        return (file_row(row) for row in self._store.pages(sql, "path, id", (under or b"", 0), *values))

    def of_path(self, path: bytes) -> list[FileRow]:
        """Give all versions of one path, the current one first."""
        sql = f"SELECT {FILE_COLUMNS} FROM files WHERE path = ? ORDER BY wanted = 'yes' DESC, id DESC"
        return [file_row(row) for row in self._store.rows(sql, path)]

    def blocked(self, limit: int) -> list[FileRow]:
        """Give some of the blocked files, the first by id."""
        sql = f"SELECT {FILE_COLUMNS} FROM files WHERE state = 'blocked' AND wanted <> 'unmapped' ORDER BY id LIMIT ?"
        return [file_row(row) for row in self._store.rows(sql, limit)]

    def count_blocked(self) -> int:
        """Count what `blocked` gives without a limit."""
        sql = "SELECT COALESCE(SUM(files), 0) FROM counted WHERE state = 'blocked' AND wanted <> 'unmapped'"
        return int(self._store.rows(sql)[0][0])

    def trying(self, ids: Collection[int]) -> set[int]:
        """Give those of these rows that are queued or on their way again."""
        marks = ", ".join("?" * len(ids))
        sql = f"SELECT id FROM files WHERE id IN ({marks}) AND state IN ('queued', 'sending') AND wanted = 'yes'"
        return {int(row[0]) for row in self._store.rows(sql, *ids)}

    def in_doubt(self, limit: int) -> list[FileRow]:
        """Give some of the versions in doubt, the first by id, those that the tree no longer has included."""
        sql = f"SELECT {FILE_COLUMNS} FROM files WHERE state = 'in_doubt' ORDER BY id LIMIT ?"
        return [file_row(row) for row in self._store.rows(sql, limit)]

    def waiting_longest(self) -> FileRow | None:
        """Give, of what is under way to the service, the version that was queued first."""
        first = (
            "SELECT MIN(id) FROM files f WHERE size >= 0 AND wanted = 'yes' AND f.destfolderid = c.destfolderid"
            " AND f.state = c.state"
        )
        rows = self._store.rows(
            f"SELECT {FILE_COLUMNS} FROM files WHERE id IN (SELECT ({first}) FROM counted c WHERE wanted = 'yes'"
            " AND state IN ('queued', 'sending', 'in_doubt', 'stored') AND files > 0) ORDER BY queued_at, id LIMIT 1"
        )
        return file_row(rows[0]) if rows else None

    def drifted(self, limit: int) -> list[FileRow]:
        """Give some of the files whose sidecar or mapping says what the service does not."""
        sql = f"SELECT {FILE_COLUMNS} FROM files WHERE {DRIFTED} ORDER BY id LIMIT ?"
        return [file_row(row) for row in self._store.rows(sql, limit)]

    def count_drifted(self) -> int:
        """Count what `drifted` gives without a limit."""
        return int(self._store.rows(f"SELECT COUNT(*) FROM files WHERE {DRIFTED}")[0][0])

    def holds(self, now: float) -> dict[str, str]:
        """Give the folders that are held back, with the sentence that says why."""
        sql = f"SELECT destfolderid, hold_detail FROM folders WHERE {HELD} AND hold_reason <> ?2"
        return {row[0]: row[1] for row in self._store.rows(sql, now, UNLISTED)} | self.unlisted()

    def unlisted(self) -> dict[str, str]:
        """Give the folders that cannot be listed while a file waits for it, as `holds` does."""
        rows = self._store.rows(
            "SELECT destfolderid, hold_detail FROM folders WHERE hold_reason = ? AND EXISTS (SELECT 1 FROM counted"
            " WHERE wanted = 'yes' AND state = 'queued' AND destfolderid = folders.destfolderid AND files > 0)",
            UNLISTED,
        )
        return {row[0]: row[1] for row in rows}

    def brakes(self) -> list[Brake]:
        """Give the brakes that wait for a person."""
        rows = self._store.rows(
            "SELECT id, kind, subject, detail, amount, pulled_at FROM brakes WHERE resumed_at IS NULL ORDER BY id"
        )
        return [Brake(*row) for row in rows]

    def orphans(self, gone_before: float) -> Iterator[Orphan]:
        """Give assets without a live file: history (deleted ones only if gone before then) and unexplained sightings.

        Never one that a live row owns, or that a doubt which is still open may turn out to need, nor one that an audit
        did not find any more, one that holds somebody else's work, or the last copy of a file.
        """
        history = self._store.pages(
            "SELECT id, assetid, path, asset_folder, destfolderid, size, md5, state FROM files f"
            " WHERE state IN ('superseded', 'gone') AND assetid IS NOT NULL"
            " AND (state = 'superseded' OR rested_at < ?)"
            # Until its successor is stored, the old asset is the only one that the DAM has of the file.
            " AND NOT EXISTS (SELECT 1 FROM files n WHERE n.path = f.path AND n.wanted = 'yes'"
            "   AND n.state NOT IN ('stored', 'verified'))"
            # While a brake is pulled, what was replaced or is gone may be the mistake that it was pulled for.
            " AND NOT EXISTS (SELECT 1 FROM brakes WHERE resumed_at IS NULL)"
            f" AND {_NOT_OWNED.format('f')}"
            f" AND NOT {_DOUBTED.format(_FOLDER.format('f'), 'f')}"
            f" AND NOT {TAKEN_AWAY.format(_FOLDER.format('f'), _LAST_KNOWN.format('f'))}"
            f" AND NOT {THEIRS.format('f')}"
            " AND id > ? ORDER BY id LIMIT ?",
            "id",
            (0,),
            gone_before,
        )
        for row in history:
            why = "replaced" if row["state"] == State.SUPERSEDED else "deleted"
            folder = row["asset_folder"] or row["destfolderid"]
            yield Orphan(row["assetid"], row["path"], folder, row["size"], row["md5"], why)
        sightings = self._store.pages(
            "SELECT assetid, path, folder_id, size, md5, why, name FROM sightings s WHERE why <> ''"
            f" AND {_NOT_OWNED.format('s')}"
            f" AND NOT (why <> 'damaged' AND {_DOUBTED.format('s.folder_id', 's')})"
            f" AND NOT {TAKEN_AWAY.format('s.folder_id', SIGHTED.format('s'))}"
            f" AND (why <> 'doubled' OR {_IS_TOO_MANY})"
            " AND assetid > ? ORDER BY assetid LIMIT ?",
            "assetid",
            ("",),
        )
        for row in sightings:
            yield Orphan(*(row[name] for name in ("assetid", "path", "folder_id", "size", "md5", "why", "name")))

    def findings(self) -> Iterator[Finding]:
        """Give what stands different in the service: files first, then assets of ours or of nobody's."""
        for why, where, said in _NOT_AS_SENT:
            rows = self._store.pages(
                "SELECT id, assetid, path, COALESCE(asset_folder, destfolderid) AS folder, size, md5,"
                f" {said} AS said FROM files WHERE wanted = 'yes' AND {where} AND id > ? ORDER BY id LIMIT ?",
                "id",
                (0,),
            )
            for row in rows:
                yield Finding(why, row["assetid"], row["path"], row["folder"], row["size"], row["md5"], row["said"])
        for orphan in self.orphans(0.0):
            if orphan.why not in ("replaced", "deleted"):
                folder, size, md5 = orphan.destfolderid, orphan.size, orphan.md5
                yield Finding(orphan.why, orphan.assetid, orphan.path, folder, size, md5, None, orphan.name)

    def settled_elsewhere(self) -> int:
        """Count the files whose assets were moved in the service, and may stay where they are."""
        sql = "SELECT COUNT(*) FROM files WHERE wanted = 'yes' AND asset_folder <> destfolderid AND state IN"
        return int(self._store.rows(f"{sql} ('stored', 'verified') AND asset_folder IS agreed_folder")[0][0])

    def replenished(self) -> int:
        """Count the files that are queued again because an audit missed their assets."""
        sql = "SELECT COUNT(*) FROM files WHERE state = 'queued' AND wanted = 'yes' AND reason = 'missing'"
        return int(self._store.rows(sql)[0][0])

    def fact(self, name: str) -> str | None:
        """Give one of the facts that concern the whole ledger."""
        return fact(self._store, name)

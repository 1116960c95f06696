"""The queue: due files, files taken over or blocked, and the intent that is committed before a body leaves.

Finding equal content that makes an upload unnecessary is left to `equal_content`.
"""

import json
from collections.abc import Collection
from typing import NamedTuple

from assetsync.core.backoff import LONGEST
from assetsync.core.outcome import UNREADABLE_WHILE_SENT
from assetsync.core.settled import PastUpload
from assetsync.core.states import Event
from assetsync.ledger.assets import Shown, own
from assetsync.ledger.equal_content import OWNED
from assetsync.ledger.file.database import Database, below
from assetsync.ledger.file.group_commit import Pending
from assetsync.ledger.file.handle import Handle, IntegrityError
from assetsync.ledger.folders import (
    ASKED_TO_WAIT,
    HELD,
    NOT_HELD,
    UNLISTED,
    Hold,
    hold_folder,
    note_names,
    release_folder,
)
from assetsync.ledger.pauses import outside
from assetsync.ledger.rows import (
    FILE_COLUMNS,
    NEW_FIELD,
    WAITS_FOR_SIDECAR,
    WITHOUT_METADATA,
    FileRow,
    apply,
    current_row,
    file_row,
    files_where,
    move,
    read_file,
    retry_where,
)
from assetsync.model import FileStat, SentExtent, State, Wanted

_DUE = "(due_at <= ?1 OR due_at > ?1 + ?2)"
# Not `_DUE`: its second condition would return as newest the rows with due times of a clock that was set back.
_NEWEST_DUE = "due_at <= ?1 AND +attempts = 0"
_IS_QUEUED = "SELECT queued_at FROM files WHERE id = ? AND state = 'queued' AND wanted IN ('yes', 'outside')"
_CUT_OFF = "changed_while_sent"
_PAST = 64
"""Maximum number of versions of a path, and of its uploads, that `uploads_of` reads."""
_QUEUED = "FROM counted WHERE wanted = 'yes' AND state = 'queued' AND files > 0"
_IS_HELD = f"destfolderid IN (SELECT destfolderid FROM folders WHERE {HELD})"
_CLAIMS = ("destfolderid", "md5", "meta_digest", "drift", "reason", "detail", "attempts")


class Intent(NamedTuple):
    """The record of an attempt, committed before its first byte leaves; `md5` is set if the file was read whole before.

    `by_hand`: `assetsync upload` sends the file, not the process that holds the ledger. `metadata` is recorded beside
    its digest; None by hand. It holds `fields` (`core.metadata.sent_fields`), `left_out` (in words), and the
    `SentTexts` to compare once the asset is read back.
    """

    file_id: int
    destfolderid: str
    sent_name: str
    boundary: str
    stat: FileStat
    md5: str | None
    meta_digest: str
    by_hand: bool = False
    metadata: dict[str, str] | None = None


class Choice(NamedTuple):
    """Which rows to take: the oldest that are due, or with `newest` the newest that were never tried.

    Folders in `apart_from`, and files at the paths in `pauses` and below them, are left out.
    """

    apart_from: Collection[str] = ()
    newest: bool = False
    pauses: tuple[bytes, ...] = ()


ALL = Choice()
"""The oldest of all that are due."""


class NameBusy(Exception):
    """Another attempt of the same name into the same folder is open: not an error, the file waits for its turn."""


class Outdated(Exception):
    """The version was replaced, moved or decided since it was read: not an error, there is nothing to send."""


# A file waits while an earlier version of its path, or another file of its name in its folder, is undecided.
_OF_ITS_PATH = "o.path = f.path AND o.id <> f.id AND o.state IN ('sending', 'in_doubt')"
_OF_ITS_NAME = (
    "a.destfolderid = f.destfolderid AND a.folded_name = f.folded_name AND a.closed_at IS NULL AND a.name_released = 0"
)


class Queue:
    """The ledger's part for sending."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def due(
        self,
        now: float,
        limit: int,
        skip: Collection[int] = (),
        choice: Choice = ALL,
        *,
        below: int | None = None,
        among: Collection[int] | None = None,
    ) -> list[FileRow]:
        """Return up to `limit` versions of a choice that may be sent now.

        Versions in `skip`, versions of `below` bytes or more, and all that are not `among` these ids are left out.
        """
        if self._all_are_held(now):
            return []
        others = ",".join(f"?{number}" for number in range(4, 4 + len(choice.apart_from)))
        # The plus makes SQLite keep to the index in queue order.
        short = "" if below is None else f" AND +size < {below:d}"
        named = "" if among is None else f" AND f.id IN ({','.join(map(str, among))})"
        sql = (
            f"SELECT {FILE_COLUMNS} FROM files f WHERE state = 'queued' AND wanted = 'yes'"
            f" AND {_NEWEST_DUE if choice.newest else _DUE}{short}{named}"
            f" AND NOT {_IS_HELD}"
            f" AND destfolderid NOT IN ({others}){outside(choice.pauses)}"
            f" AND NOT EXISTS (SELECT 1 FROM files o WHERE {_OF_ITS_PATH})"
            f" AND NOT EXISTS (SELECT 1 FROM attempts a WHERE {_OF_ITS_NAME})"
            f" ORDER BY {'due_at DESC, id DESC' if choice.newest else 'due_at, id'} LIMIT ?3"
        )
        rows = self._store.rows(sql, now, LONGEST, limit + len(skip), *choice.apart_from)
        return [file_row(row) for row in rows if row["id"] not in skip][:limit]

    def behind(self, row: FileRow) -> FileRow | None:
        """Return the version whose undecided upload a queued version waits for: of its path, or of its name."""
        sql = (
            f"SELECT (SELECT o.id FROM files o WHERE {_OF_ITS_PATH} LIMIT 1) AS of_path,"
            f" (SELECT a.file_id FROM attempts a WHERE {_OF_ITS_NAME} LIMIT 1) AS of_name FROM files f WHERE f.id = ?"
        )
        found = next((row["of_path"] or row["of_name"] for row in self._store.rows(sql, row.id)), None)
        return next(iter(files_where(self._store, "id = ?", found)), None)

    def _all_are_held(self, now: float) -> bool:
        """Return whether a folder is held and all queued files are for held folders; does not read each file."""
        if not self._store.rows(f"SELECT 1 FROM folders WHERE {HELD} LIMIT 1", now):
            return False
        return not self._store.rows(f"SELECT 1 {_QUEUED} AND NOT {_IS_HELD} LIMIT 1", now)

    def next_due(self) -> float | None:
        """Return the earliest due time of the queue."""
        sql = "SELECT MIN(due_at) FROM files WHERE state = 'queued' AND wanted = 'yes'"
        due: float | None = self._store.value(sql)
        return due

    def take_over(self, row: FileRow, old: FileRow, md5: str, now: float) -> State | None:
        """Let the older version take the place of this one, with its asset and attempts; the new row is merged into it.

        The version counts as sent to the new row's folder, because its asset may have been moved there. Return None and
        change nothing, if either row changed since it was read.
        """

        def work(conn: Handle) -> State | None:
            current = read_file(conn, old.id)
            if (current.state, current.path, current.assetid) != (old.state, old.path, old.assetid):
                return None
            if not _is_queued(conn, row.id) or (_rests(old) and _is_owned(conn, old.assetid)):
                return None
            conn.execute("UPDATE attempts SET file_id = ? WHERE file_id = ?", (old.id, row.id))
            conn.execute("DELETE FROM files WHERE id = ?", (row.id,))
            # A listing may have shown the asset while no live row owned it, and the index may have dropped it since.
            conn.execute(
                "UPDATE assets SET why = 'owned', first_seen = NULL, seen_to = NULL, file_id = NULL, path = NULL,"
                " findable_at = IIF(?, NULL, findable_at) WHERE assetid = ?",
                (_rests(old), current.assetid),
            )
            is_there = current.destfolderid == row.destfolderid
            return apply(
                conn, old.id, Event.MOVED, now,
                agreed_folder=current.agreed_folder if is_there else None, path=row.path, destfolderid=row.destfolderid,
                size=row.size, mtime_ns=row.mtime_ns, ctime_ns=row.ctime_ns, inode=row.inode,
                md5=md5, folded_name=row.folded_name, due_at=now, drift="unread",
                **({"reason": None, "detail": None} if current.state is State.VERIFIED else {}),
            )  # fmt: skip

        state = self._store.write(work)
        if state is not None:
            self._store.moved.append(old.id)
        return state

    def adopt(self, row: FileRow, assetid: str, md5: str, meta_digest: str, now: float) -> bool:
        """Record an asset of equal content that no live row owns, and that is in the folder without an upload.

        `meta_digest` is the digest of the file's current metadata, "" if it cannot be read: any later change of the
        metadata is then reported as drift, even a change between reading it and this commit. Returns False, and changes
        nothing, if another file took the asset first or the version is no longer queued.
        """

        def work(conn: Handle) -> bool:
            if not _is_queued(conn, row.id) or _is_owned(conn, assetid):
                return False
            apply(
                conn, row.id, Event.ADOPTED, now,
                assetid=assetid, id_from="adopted", asset_folder=row.destfolderid, md5=md5, due_at=now,
                reason=None, detail=None, uploaded_at=None, meta_digest=meta_digest,
                drift="unread",
            )  # fmt: skip
            name = conn.execute("SELECT name FROM unowned WHERE assetid = ?", (assetid,)).fetchone()
            own(conn, assetid, Shown())
            if name is not None and name[0].casefold() == row.folded_name:
                note_names(conn, row.destfolderid, kept=True)
            return True

        return self._store.write(work)

    def begin(self, intent: Intent, now: float) -> int:
        """Commit the attempt and return its id; the body may leave once this returns. Raise NameBusy, Outdated."""
        return self.submit_begin(intent, now).result()

    def submit_begin(self, intent: Intent, now: float) -> Pending[int]:
        """Queue the attempt for the next commit; the body may leave once the Pending has returned its result.

        The result raises as `begin` does.
        """
        sent = json.dumps({"digest": intent.meta_digest, **(intent.metadata or {})})

        def work(conn: Handle) -> int:
            try:
                cursor = conn.execute(
                    "INSERT INTO attempts (file_id, destfolderid, sent_name, boundary, folded_name, size, md5,"
                    " started_at, by_hand, metadata) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*intent[:4], intent.sent_name.casefold(), intent.stat.size, intent.md5, now, intent.by_hand, sent),
                )
            except IntegrityError as error:
                raise NameBusy from error
            attempt = int(cursor.lastrowid or 0)
            row = current_row(conn, intent.file_id, _CLAIMS)
            wanted = (Wanted.YES, Wanted.OUTSIDE) if intent.by_hand else (Wanted.YES,)
            if row is None or row["state"] != State.QUEUED or row["wanted"] not in wanted:
                raise Outdated
            if row["destfolderid"] != intent.destfolderid:
                raise Outdated  # the mapping changed after the file was read
            move(
                conn, row, Event.BEGUN, now, open_attempt=True,
                md5=intent.md5, meta_digest=intent.meta_digest, drift=None, reason=None, detail=None,
                attempts=row["attempts"] + 1,
            )  # fmt: skip
            return attempt

        return self._store.submit(work)

    def may_have_left(self, file_id: int) -> bool:
        """Return whether a byte of any attempt of the version may have left."""
        sql = "SELECT EXISTS (SELECT 1 FROM attempts WHERE file_id = ? AND left_part IS NOT ?)"
        return bool(self._store.value(sql, file_id, SentExtent.NOTHING))

    def uploads_of(self, row: FileRow) -> list[PastUpload]:
        """Return the newest uploads of a version's path, oldest first.

        Includes each upload that was cut off by a change of the file, and one upload for each other version that may
        have arrived whole.
        """
        # Most files are new, and this is asked for each file that is sent.
        others = "SELECT 1 FROM files WHERE path = ? AND id <> ? LIMIT 1"
        if not row.attempts and not self._store.rows(others, row.path, row.id):
            return []
        sql = (
            "SELECT MAX(COALESCE(a.ended_at, a.started_at)) AS at, a.why IS ?3 AS cut FROM"
            " (SELECT id FROM files WHERE path = ?1 ORDER BY id DESC LIMIT ?4) AS f"
            " CROSS JOIN attempts a ON a.file_id = f.id WHERE a.why IS ?3"
            "   OR f.id <> ?2 AND COALESCE(a.result, '') NOT IN ('refused', 'unsent', 'absent', 'damaged')"
            " GROUP BY f.id, CASE WHEN a.why IS ?3 THEN a.id END ORDER BY MAX(a.id) DESC LIMIT ?4"
        )
        rows = self._store.rows(sql, row.path, row.id, _CUT_OFF, _PAST)
        return [PastUpload(found["at"], bool(found["cut"])) for found in reversed(rows)]

    def was_unreadable(self, row: FileRow) -> bool:
        """Return whether an upload of this version was cut because the file could not be read to the end."""
        sql = "SELECT EXISTS (SELECT 1 FROM attempts WHERE file_id = ? AND why = ?)"
        # Most files are new, and this is asked for each large file that is sent.
        return row.attempts > 0 and bool(self._store.value(sql, row.id, UNREADABLE_WHILE_SENT))

    def name(self, file_id: int, name: str) -> None:
        """Change the name under which a queued version will be sent."""
        sql = "UPDATE files SET folded_name = ? WHERE id = ? AND state = 'queued'"
        self._store.change(sql, name.casefold(), file_id)

    def version(self, file_id: int) -> FileRow | None:
        """Return a version by its id, None if it was forgotten or merged into another."""
        return next(iter(files_where(self._store, "id = ?", file_id)), None)

    def is_overtaken(self, file_id: int) -> bool:
        """Return whether the service has processed an upload that was accepted after that of a version."""
        sql = (
            "SELECT EXISTS (SELECT 1 FROM attempts a JOIN files f ON f.id = a.file_id JOIN assets s USING (assetid)"
            " WHERE a.id > (SELECT MAX(id) FROM attempts WHERE file_id = ?) AND a.result = 'accepted'"
            " AND s.shown_at IS NOT NULL AND s.unprocessed_since IS NULL)"
        )
        return bool(self._store.value(sql, file_id))

    def verified_name(self, path: bytes) -> str | None:
        """Return the name under which the newest verified version of a path was sent, None without one."""
        sql = (
            "SELECT a.sent_name FROM files f CROSS JOIN attempts a ON a.file_id = f.id WHERE f.path = ?"
            " AND f.verified_at IS NOT NULL AND a.result IN ('accepted', 'found') ORDER BY a.id DESC LIMIT 1"
        )
        return next(iter(self._store.column(sql, path)), None)

    def block(self, file_id: int, reason: str, detail: str, now: float, *, due_at: float | None = None) -> None:
        """Block a version that must not be sent as it is; skip it if it is no longer queued.

        If the block is retried automatically, it is due at `due_at`. Without `due_at` the delay is the time since the
        version was queued, at most `LONGEST`.
        """

        def work(conn: Handle) -> None:
            queued = conn.execute(_IS_QUEUED, (file_id,)).fetchone()
            if queued is not None:
                due = now + min(now - queued["queued_at"], LONGEST) if due_at is None else due_at
                apply(conn, file_id, Event.BLOCKED, now, reason=reason, detail=detail, due_at=due)

        self._store.write(work)

    def postpone(self, file_id: int, due_at: float, detail: str, reason: str | None = None) -> None:
        """Delay a queued version without counting a failure; `detail` is what it waits for, `reason` a word for it."""
        sql = "UPDATE files SET due_at = ?, reason = ?, detail = ? WHERE id = ? AND state = 'queued'"
        self._store.write(lambda conn: conn.execute(sql, (due_at, reason, detail, file_id)))

    def sidecars_may_be_optional(self, now: float) -> None:
        """Make the files due that wait for their own sidecars: their mapping may no longer require one."""
        sql = f"UPDATE files SET due_at = ? WHERE {WAITS_FOR_SIDECAR} AND due_at > ?"
        if self._store.rows(f"SELECT 1 FROM files WHERE {WAITS_FOR_SIDECAR} LIMIT 1"):
            self._store.change(sql, now, now)

    def without_sidecar(self, path: bytes, now: float) -> int:
        """Let files at a path and below it be sent that wait for their own sidecars; return their number."""
        sql = (
            "UPDATE files SET without_sidecar = 1, due_at = ?, reason = NULL, detail = NULL"
            f" WHERE (path = ? OR path >= ? AND path < ?) AND {WAITS_FOR_SIDECAR}"
        )
        return self._store.change(sql, now, path, *below(path))

    def without_metadata(self, path: bytes, now: float) -> int:
        """Let files at a path and below it be sent without metadata that wait for a new field; return their number."""
        sql = (
            "UPDATE files SET without_sidecar = ?, due_at = ?, reason = NULL, detail = NULL"
            " WHERE (path = ? OR path >= ? AND path < ?) AND state = 'queued' AND wanted = 'yes' AND reason = ?"
        )
        return self._store.change(sql, WITHOUT_METADATA, now, path, *below(path), NEW_FIELD)

    def postpone_behind(self, row: FileRow, undecided: FileRow, now: float, pause: float, detail: str) -> None:
        """Delay a version, and later ones of its folder and size, behind an upload: see `EqualContent.unread`."""
        put_off = "SELECT 1 FROM files WHERE id = ?1 AND due_at > ?2 AND due_at <= ?2 + ?3"
        if self._store.rows(put_off, row.id, now, LONGEST):
            # The version was read ahead of its turn, and has been postponed together with another one since.
            return
        sql = (
            "UPDATE files SET due_at = ?1 + ?2, reason = NULL, detail = ?3 WHERE destfolderid = ?4 AND size = ?5"
            " AND state = 'queued' AND wanted = 'yes' AND send_again = 0"
            " AND (due_at < ?1 + ?2 OR due_at > ?1 + ?9) AND id > ?6 AND NOT (inode = ?7 AND mtime_ns = ?8)"
        )
        values = (row.destfolderid, row.size, undecided.id, undecided.inode, undecided.mtime_ns, LONGEST)
        self._store.write(lambda conn: conn.execute(sql, (now, pause, detail, *values)))

    def vanished(self, file_id: int, now: float) -> None:
        """Record that a file was missing when it was to be sent."""

        def work(conn: Handle) -> None:
            if _is_queued(conn, file_id):
                apply(conn, file_id, Event.VANISHED, now)

        self._store.write(work)

    def has_blocked(self, reason: str, now: float, *, longest: float = LONGEST) -> bool:
        """Return whether `retry_blocked` with `only_due` would retry any file."""
        sql = f"SELECT 1 FROM files WHERE state = 'blocked' AND reason = ?3 AND {_DUE} LIMIT 1"
        return bool(self._store.rows(sql, now, longest, reason))

    def blocked_paths(self, reason: str, limit: int) -> list[bytes]:
        """Return up to `limit` paths of the tree whose files are blocked for a reason."""
        sql = "SELECT path FROM files WHERE state = 'blocked' AND reason = ? AND wanted = 'yes' LIMIT ?"
        return self._store.column(sql, reason, limit)

    def retry_blocked(self, reason: str, now: float, *, only_due: bool = False, longest: float = LONGEST) -> int:
        """Retry all files blocked for one reason, or only those that are due; return their number.

        A due time more than `longest` seconds ahead was set by a clock that has since been set back; it counts as due.
        """
        due = f" AND {_DUE}" if only_due else ""

        values = (now, longest, reason)
        return self._store.write(lambda conn: retry_where(conn, f"reason = ?3{due}", values, now))

    def retry_smallest(self, reason: str, now: float) -> int | None:
        """Retry the smallest file blocked for a reason, and return its size in bytes; None if there is none."""
        sql = (
            "SELECT id, size FROM files WHERE state = 'blocked' AND reason = ? AND wanted = 'yes' ORDER BY size LIMIT 1"
        )
        smallest = next(iter(self._store.rows(sql, reason)), None)
        if smallest is None:
            return None
        self._store.write(lambda conn: retry_where(conn, "id = ? AND reason = ?", (smallest["id"], reason), now))
        return int(smallest["size"])

    def largest_accepted(self, below: int) -> int:
        """Return the size in bytes of the largest accepted upload `below` a size, 0 without one; reads all attempts."""
        sql = "SELECT COALESCE(MAX(size), 0) FROM attempts WHERE result = 'accepted' AND size < ?"
        return int(self._store.value(sql, below))

    def counts(self, now: float) -> tuple[int, int]:
        """Return the number of queued wanted files, and how many of them wait for a held folder."""
        rows = self._store.rows(f"SELECT files, {_IS_HELD} {_QUEUED}", now)
        return sum(row[0] for row in rows), sum(row[0] for row in rows if row[1])

    def folders(self, pauses: Collection[bytes] = ()) -> set[str]:
        """Return the destination folders for which wanted files are queued, at none of the paths in `pauses`."""
        waiting = f"FROM files WHERE state = 'queued' AND wanted = 'yes'{outside(pauses)}" if pauses else _QUEUED
        return set(self._store.column(f"SELECT DISTINCT destfolderid {waiting}"))

    def hold_folder(self, destfolderid: str, hold: Hold) -> None:
        """Hold a destination folder, and with it the files queued for it."""
        self._store.write(lambda conn: hold_folder(conn, destfolderid, hold))

    def release_unlisted(self, destfolderid: str) -> None:
        """Release a folder that was held because it could not be listed."""
        self._store.update_where("folders", NOT_HELD, "destfolderid = ? AND hold_reason = ?", destfolderid, UNLISTED)

    def release_folders(self, now: float) -> None:
        """Release all held folders, and retry the files that their trouble blocked.

        A folder for which the service asked to wait stays held for that time.
        """

        def work(conn: Handle) -> None:
            held = f"hold_until IS NOT NULL AND NOT (hold_reason = ?2 AND {HELD})"
            for folder in list(conn.table("folders").rows_where(held, (now, ASKED_TO_WAIT))):
                release_folder(conn, folder["destfolderid"], now)

        self._store.write(work)


def _is_queued(conn: Handle, file_id: int) -> bool:
    """Return whether a row read earlier is still to be sent: it may have been replaced or merged meanwhile."""
    return conn.execute(_IS_QUEUED, (file_id,)).fetchone() is not None


def _rests(row: FileRow) -> bool:
    return row.state in (State.SUPERSEDED, State.GONE)


def _is_owned(conn: Handle, assetid: str | None) -> bool:
    return bool(conn.execute(f"SELECT {OWNED.format('?')}", (assetid,)).fetchone()[0])

"""Hold destination folders and release them. Why a folder is held, and for how long, is left to the caller."""

import sqlite3

from assetsync.core.states import Event
from assetsync.ledger.rows import apply

UNLISTED = "unlisted"
"""The hold reason of a folder that cannot be listed; kept until a listing succeeds, also while one is tried."""

HELD = "(hold_until > ?1 AND hold_until <= ?1 + 3600)"
"""SQL condition: a folder is held; `now` is the first value. A time further ahead was set by a clock that was set back
since."""


def hold_folder(conn: sqlite3.Connection, destfolderid: str, reason: str, detail: str, until: float) -> None:
    """Hold a whole destination folder, because the cause is not in its files."""
    # UNLISTED does not replace another reason: the other reason is needed later to release the files that it blocked.
    stays = "excluded.hold_reason = ?5 AND hold_reason <> ?5"
    conn.execute(
        "INSERT INTO folders (destfolderid, hold_reason, hold_detail, hold_until) VALUES (?1, ?2, ?3, ?4)"
        " ON CONFLICT (destfolderid) DO UPDATE SET"
        f" hold_reason = CASE WHEN {stays} THEN hold_reason ELSE excluded.hold_reason END,"
        f" hold_detail = CASE WHEN {stays} THEN hold_detail ELSE excluded.hold_detail END,"
        " hold_until = excluded.hold_until",
        (destfolderid, reason, detail, until, UNLISTED),
    )


def release_folder(conn: sqlite3.Connection, destfolderid: str, now: float) -> None:
    """Release a folder that was held, or that accepted a file again, and retry the files that its trouble blocked."""
    sql = "SELECT hold_reason FROM folders WHERE destfolderid = ? AND hold_until IS NOT NULL"
    held = conn.execute(sql, (destfolderid,)).fetchone()
    if held is None:
        return
    blocked = conn.execute(
        "SELECT id FROM files WHERE state = 'blocked' AND reason = ? AND destfolderid = ?", (held[0], destfolderid)
    ).fetchall()
    for row in blocked:
        apply(conn, row["id"], Event.RETRIED, now, reason=None, detail=None, due_at=now)
    conn.execute(
        "UPDATE folders SET hold_reason = NULL, hold_detail = NULL, hold_until = NULL WHERE destfolderid = ?",
        (destfolderid,),
    )

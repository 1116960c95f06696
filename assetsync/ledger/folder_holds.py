"""Folders of the service that are held back and let go again. Why one is held, and for how long, is the caller's."""

import sqlite3

from assetsync.core.states import Event
from assetsync.ledger.rows import apply

UNLISTED = "unlisted"
"""Why a folder is held that cannot be listed: the word stands until it can, also while that is tried."""

HELD = "(hold_until > ?1 AND hold_until <= ?1 + 3600)"
"""Whether a folder is held, `now` being the first value; what is further away was set by a clock since set back."""


def hold_folder(conn: sqlite3.Connection, destfolderid: str, reason: str, detail: str, until: float) -> None:
    """Hold a whole folder back: what is wrong with it is not the matter of its files."""
    # That it cannot be listed takes the place of no other reason: by that, blocked files are let go later.
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
    """Let a folder be sent to again that was held, or took a file again, with the files that its trouble blocked."""
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

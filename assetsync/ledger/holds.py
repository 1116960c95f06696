"""Folders of the service that are held back, let go again. Who holds one, and for how long, is `queue`'s."""

import sqlite3

from assetsync.core.states import Event
from assetsync.ledger.rows import apply


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

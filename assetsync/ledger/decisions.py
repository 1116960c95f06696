"""An operator's decisions on a file: retry it, send it again, or state whether an asset is the file.

Reading the request, and looking at the service for it, are left to `sync.requests`.
"""

from assetsync.core.names import sent_names
from assetsync.core.states import Event, allowed
from assetsync.ledger.assets import Shown, own, read_anew, shown_of
from assetsync.ledger.equal_content import OWNED, may_be_copies
from assetsync.ledger.file.database import Database
from assetsync.ledger.file.handle import Handle
from assetsync.ledger.rows import (
    GOES_ON,
    MISSING,
    WITHOUT_METADATA,
    FileRow,
    apply,
    close_attempts,
    hold_name,
    read_file,
)
from assetsync.model import Asset, State

_MAY_LET_GO = (
    "SELECT EXISTS (SELECT 1 FROM files f WHERE id = ? AND assetid = ? AND state = 'blocked' AND wanted = 'yes'"
    " AND reason IN ('unseen', 'missing') AND id_from = 'adopted' AND asset_folder = destfolderid"
    " AND NOT EXISTS (SELECT 1 FROM attempts WHERE file_id = f.id))"
)


class Decisions:
    """The ledger's part for `retry` and `doubt resolve`."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def may_let_go(self, row: FileRow) -> bool:
        """Return whether a blocked file may take another equal asset of its folder in place of its adopted asset.

        It may if its asset was adopted in its destination folder and is no longer there, and nothing of the file was
        ever sent.
        """
        return bool(self._store.value(_MAY_LET_GO, row.id, row.assetid))

    def let_go(self, row: FileRow, kept: str, now: float) -> State:
        """Assign another equal asset of the folder to a file that `may_let_go`; it is read back, nothing is sent."""

        def work(conn: Handle) -> State:
            owned = conn.execute(f"SELECT {OWNED.format('?')}", (kept,)).fetchone()[0]
            if owned or not conn.execute(_MAY_LET_GO, (row.id, row.assetid)).fetchone()[0]:
                # Another file took the asset first, or this file was decided otherwise.
                return read_file(conn, row.id).state
            conn.execute("DELETE FROM assets WHERE assetid = ?", (row.assetid,))
            own(conn, kept, Shown())
            return apply(conn, row.id, Event.RETRIED, now, due_at=now, assetid=kept, verified_at=None, **GOES_ON)

        return self._store.write(work)

    def retry(self, row: FileRow, now: float) -> State:
        """Resume a blocked file in the state that its facts lead to, and make the look-up of a doubt due now."""

        def work(conn: Handle) -> State:
            current = read_file(conn, row.id)
            resumes = allowed(current.state, Event.RETRIED)
            if resumes or current.state is State.IN_DOUBT:
                conn.execute("UPDATE attempts SET look_at = ? WHERE file_id = ? AND closed_at IS NULL", (now, row.id))
            if not resumes:
                return current.state
            still_open = "SELECT id FROM attempts WHERE file_id = ? AND closed_at IS NULL"
            for attempt in conn.execute(still_open, (row.id,)).fetchall():
                hold_name(conn, attempt["id"])
            # A missing asset stays `missing` until it is found; if it is not, the operator gets the same message again.
            missing = {"reason": MISSING} if current.reason == MISSING else {}
            read_anew(conn, current.assetid)
            return apply(conn, row.id, Event.RETRIED, now, due_at=now, **(GOES_ON | missing))

        return self._store.write(work)

    def send_again(self, row: FileRow, now: float, *, without_metadata: bool = False) -> State:
        """Queue a file although an asset of it is known or may exist; record the known asset as replaced.

        A missing asset is recorded as not there, so that `orphans` lists it only once it is back. An asset that the
        service has not processed is recorded without size and MD5, so that no other file adopts it. An asset that holds
        somebody else's content is not recorded: it is their work, and the next audit reports it as unknown. Copies of
        the file that are known by now are recorded as replaced, too: an older copy of the ledger does not know those
        that were sent since, and they then need another decision.
        """

        def work(conn: Handle) -> State:
            current = read_file(conn, row.id)
            close_attempts(conn, row.id, "sent_again", now)
            copies, values = may_be_copies(
                current.destfolderid, current.size, current.md5, sent_names(current.path.rpartition(b"/")[2])
            )
            conn.execute(
                "UPDATE assets SET why = 'replaced', file_id = ?, path = ?"
                f" WHERE {copies} AND why <> 'owned' AND why NOT IN ('replaced', 'damaged')",
                (current.id, current.path, *values),
            )
            is_processed = shown_of(conn, current.assetid).unprocessed is None
            state = apply(
                conn, row.id, Event.SENT_AGAIN, now,
                assetid=None, agreed_folder=None, send_again=1, due_at=now, reason=None, detail=None, failures=0,
                absences=0, uploaded_at=None, verified_at=None,
                without_sidecar=WITHOUT_METADATA if without_metadata else min(current.without_sidecar, 1),
            )  # fmt: skip
            if current.assetid is not None and not current.is_theirs:
                conn.execute(
                    "INSERT INTO assets (assetid, folder_id, name, size, md5, first_seen, seen_to, why,"
                    " file_id, path, met_at) SELECT ?, ?, ?, ?, ?, ?, 0, 'replaced', ?, ?, ?"
                    " ON CONFLICT (assetid) DO UPDATE SET why = 'replaced', met_at = COALESCE(excluded.met_at, met_at)",
                    (
                        current.assetid, current.asset_folder or current.destfolderid, current.folded_name,
                        *((current.size, current.md5) if is_processed else (None, None)),
                        now, current.id, current.path, 0 if current.reason == MISSING else None,
                    ),
                )  # fmt: skip
            return state

        return self._store.write(work)

    def resolve_as_asset(self, row: FileRow, asset: Asset, now: float) -> State:
        """Record an operator's decision that this asset, just seen in the service, is the file; read it back next."""

        def work(conn: Handle) -> State:
            close_attempts(conn, row.id, "resolved", now)
            own(conn, asset.id, Shown())
            return apply(
                conn, row.id, Event.SETTLED_BY_HAND, now,
                assetid=asset.id, id_from="adopted", asset_folder=asset.folder_id, agreed_folder=asset.folder_id,
                reason=None, detail=None, due_at=now, uploaded_at=now, verified_at=None,
                drift="unread", differs=None,
            )  # fmt: skip

        return self._store.write(work)

    def resolve_as_absent(self, row: FileRow, now: float) -> State:
        """Record an operator's decision that nothing of the file is in the service: it is sent again."""

        def work(conn: Handle) -> State:
            close_attempts(conn, row.id, "resolved", now)
            return apply(
                conn, row.id, Event.SETTLED_BY_HAND, now,
                assetid=None, agreed_folder=None, reason=None, detail=None, due_at=now, absences=0,
            )  # fmt: skip

        return self._store.write(work)

"""Record the result of an attempt that `queue.begin` has recorded, and recover attempts after a crash.

What an answer means is left to `core.outcome`; look-ups and the decision of doubts are left to `doubts`.
"""

import json
from functools import lru_cache
from operator import attrgetter

from assetsync.core.doubt_grace import took_at_most
from assetsync.core.states import Event, Facts
from assetsync.ledger.assets import Shown, own
from assetsync.ledger.file.database import Database, is_sent_by_hand
from assetsync.ledger.file.group_commit import Pending
from assetsync.ledger.file.handle import Handle, Row
from assetsync.ledger.folders import ASKED_TO_WAIT, PASSING, Hold, hold_folder, note_names, release_folder
from assetsync.ledger.rows import WHOSE_ASSET, Usual, apply, current_row, move, reopen, row_missing
from assetsync.ledger.runs import count_upload
from assetsync.model import Answer, Sent, SentExtent, State

MAX_CRASHES = 5
"""A file is blocked for an operator after so many unclean stops during its uploads, and after as many more."""

# In the statements about an accepted upload, ?1 is the version, ?2 the attempt, ?3 the asset id, ?4 the time, ?5 the
# kind of asset, and ?6 the MD5.
_FOLDER = "(SELECT destfolderid FROM attempts WHERE id = ?2)"
# An upload that began before the service asked to wait does not end the wait.
_LATER = f"hold_reason = '{ASKED_TO_WAIT}' AND hold_since < (SELECT started_at FROM attempts WHERE id = ?2)"
_MAY_RELEASE = f"hold_until IS NOT NULL AND (hold_reason NOT IN {PASSING} OR hold_until <= ?4 OR {_LATER})"
_EXCEPTIONS = {
    "another": "EXISTS (SELECT 1 FROM attempts WHERE file_id = ?1 AND closed_at IS NULL AND id <> ?2)",
    "known": f"EXISTS (SELECT 1 FROM files WHERE {WHOSE_ASSET.format('= ?3')} AND id <> ?1)",
    "shown": "EXISTS (SELECT 1 FROM assets WHERE assetid = ?3)",
    "held": f"EXISTS (SELECT 1 FROM folders WHERE destfolderid = {_FOLDER} AND {_MAY_RELEASE})",
}
"""What has to be looked at first: the version has another open attempt, another row has or had the id, a look-up showed
it, or the folder is held and may be released."""

_NEW = {
    "assetid": "?3", "filetype": "?5", "uploaded_at": "?4", "due_at": "?4", "asset_folder": _FOLDER,
    "id_from": "'answer'",
}  # fmt: skip
"""Columns that an accepted upload changes, and their values."""

_MOSTLY_SET = {"md5": "?6", "failures": "0", "send_again": "0"} | dict.fromkeys(
    ("reason", "detail", "verified_at"), "NULL"
)
"""Columns that an accepted upload sets, and their values. Nearly every row has these values already, and SQLite updates
the indexes of each column that a statement writes."""

_ACCEPT = Usual(
    State.SENDING, Event.ACCEPTED, Facts(has_id=True), _NEW,
    " AND ".join(f"{name} IS {value}" for name, value in _MOSTLY_SET.items())
    + "".join(f" AND NOT {exception}" for exception in _EXCEPTIONS.values()),
)  # fmt: skip
_FOUND_FIRST = ", ".join(f"{sql} AS {name}" for name, sql in {"folder": _FOLDER, **_EXCEPTIONS}.items())
_VALUES = "SELECT " + ", ".join(f"{sql} AS {name}" for name, sql in {**_NEW, **_MOSTLY_SET}.items())

_CRASHES = "SELECT COUNT(*) FROM attempts WHERE file_id = ? AND why = 'unclean_stop'"

_KEPT = ("responsecode", "message", "filetype", "renamefilebody", "comingfrom")
"""The fields of an answer that are kept beside the id, such as a workflow's rename and the referrer (interface 4.3)."""
_kept_values = attrgetter(*_KEPT)


class AttemptResults:
    """The ledger's part for the end of a POST."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def accepted(self, attempt_id: int, file_id: int, sent: Sent, now: float) -> State:
        """Record an accepted upload.

        If another row had adopted the id, the id belongs to this answer and the adopter is in doubt again. The id is
        not believed, and this upload becomes a doubt, if another answer gave the id before, or if its asset was found
        to be of another size or in another folder. The same holds for the id of a version at rest that had other
        content: that version may be revived, and would find its asset assigned to another row.
        """
        return self.submit_accepted(attempt_id, file_id, sent, now).result()

    def submit_accepted(self, attempt_id: int, file_id: int, sent: Sent, now: float) -> Pending[State]:
        """Queue the record of an accepted upload for the next commit."""
        outcome = sent.outcome
        assetid = outcome.assetid
        assert assetid is not None, "an accepted upload has an id"

        values = (file_id, attempt_id, assetid, now, outcome.filetype, sent.md5)

        def work(conn: Handle) -> State:
            if _ACCEPT.try_apply(conn, *values):
                _end_accepted(conn, attempt_id, sent, now)
                return _ACCEPT.after
            row = current_row(conn, file_id, (*_NEW, *_MOSTLY_SET, "size"), _FOUND_FIRST, values[1:4])
            if row is None:
                raise row_missing(file_id)
            owner = _owner(conn, assetid, file_id) if row["known"] else None
            if owner is not None and not _may_be_given(owner, row, sent.md5):
                detail = f"the service answered with {assetid}, which is already the id of another file"
                _end(conn, attempt_id, sent, "id_taken", now)
                return apply(conn, file_id, Event.LOST, now, reason="id_taken", detail=detail, md5=sent.md5)
            _end_accepted(conn, attempt_id, sent, now)
            if owner is not None and not owner["rests"]:
                _dispute(conn, owner["id"], now)
            if row["shown"]:
                own(conn, assetid, Shown())
            if row["held"]:
                release_folder(conn, row["folder"], now)
            changes = dict(conn.execute(_VALUES, values).fetchone())
            return move(conn, row, Event.ACCEPTED, now, open_attempt=bool(row["another"]), **changes)

        return self._store.submit(work)

    def refused(
        self, attempt_id: int, file_id: int, sent: Sent, now: float, *, hold_until: float | None = None
    ) -> None:
        """Record an explicit refusal before anything was stored; `hold_until` is set if the cause is the folder."""

        def work(conn: Handle) -> None:
            _end(conn, attempt_id, sent, sent.outcome.reason, now, result="refused")
            apply(conn, file_id, Event.REFUSED, now, reason=sent.outcome.reason, detail=sent.outcome.detail)
            if hold_until is not None:
                hold = Hold(sent.outcome.reason, sent.outcome.detail, now, hold_until)
                hold_folder(conn, _folder_of(conn, attempt_id), hold)

        self._store.write(work)

    def unsent(
        self,
        attempt_id: int,
        file_id: int,
        sent: Sent,
        now: float,
        due_at: float,
        *,
        counts: bool = False,
        taken_back: bool = False,
    ) -> None:
        """Record that nothing was stored and the file is sent later; `counts`: it is a failure of the file itself.

        `taken_back`: the attempt was given up before anything was sent, so the file counts as never tried by it.
        """

        def work(conn: Handle) -> None:
            _end(conn, attempt_id, sent, sent.outcome.reason, now, result="unsent")
            apply(
                conn, file_id, Event.UNSENT, now,
                reason=sent.outcome.reason, detail=sent.outcome.detail, due_at=due_at,
            )  # fmt: skip
            conn.execute(
                "UPDATE files SET failures = failures + ?, attempts = attempts - ? WHERE id = ?",
                (int(counts), int(taken_back), file_id),
            )

        self._store.write(work)

    def lost(self, attempt_id: int, file_id: int, sent: Sent, now: float) -> None:
        """Record that the service may have stored the upload, or that it refused the upload as a duplicate.

        If an answer asked to wait, the folder of the upload is held for that long.
        """
        outcome = sent.outcome
        event = Event.DUPLICATE if outcome.answer is Answer.DUPLICATE else Event.LOST

        def work(conn: Handle) -> None:
            _end(conn, attempt_id, sent, outcome.reason, now)
            changes: dict[str, object] = {"reason": outcome.reason, "detail": outcome.detail}
            if sent.left == "all" and sent.md5:
                changes["md5"] = sent.md5
            apply(conn, file_id, event, now, **changes)
            if outcome.answered and outcome.retry_after:
                detail = f"the service asks to wait for {outcome.retry_after:.0f} s before the next upload"
                hold = Hold(ASKED_TO_WAIT, detail, now, now + outcome.retry_after)
                hold_folder(conn, _folder_of(conn, attempt_id), hold)

        self._store.write(work)

    def recover(self, now: float, *, by_hand: bool = False) -> int:
        """Put every attempt in doubt that an ended process left in flight; return their number.

        At a start this includes every attempt in flight except those that a running `assetsync upload` sends, and those
        whose outcome `assetsync upload` left as a request. With `by_hand` it includes only attempts that an ended
        `assetsync upload` left.
        """
        mine = "SELECT a.boundary FROM files f JOIN attempts a ON a.file_id = f.id AND a.closed_at IS NULL"
        known = {row[0] for row in self._store.rows(f"{mine} WHERE f.state = 'sending' AND a.by_hand")}
        # Check the locks before the transaction: a process leaves its outcome before it releases its lock.
        ended = {boundary for boundary in known if not is_sent_by_hand(self._store.path, boundary)}
        if by_hand and not ended:
            return 0
        none_left = (
            "NOT EXISTS (SELECT 1 FROM requests WHERE done_at IS NULL AND verb = 'uploaded'"
            " AND json_valid(argument) AND json_extract(argument, '$.boundary') = a.boundary)"
        )

        def work(conn: Handle) -> int:
            found = conn.execute(
                "SELECT f.id, a.id AS attempt, a.boundary, a.by_hand, a.started_at FROM files f"
                " JOIN attempts a ON a.file_id = f.id AND a.closed_at IS NULL WHERE f.state = 'sending'"
                f" AND (NOT a.by_hand OR {none_left})"
            ).fetchall()
            in_flight = [row for row in found if (row["boundary"] in ended if row["by_hand"] else not by_hand)]
            for row in in_flight:
                conn.execute(
                    "UPDATE attempts SET ended_at = ?, why = 'unclean_stop', look_at = ?, took = ? WHERE id = ?",
                    (now, now, took_at_most(row["started_at"], now), row["attempt"]),
                )
                detail = "assetsync stopped during the upload"
                apply(conn, row["id"], Event.LOST, now, reason="unclean_stop", detail=detail)
                crashes = conn.execute(_CRASHES, (row["id"],)).fetchone()[0]
                if crashes % MAX_CRASHES == 0:
                    detail = f"assetsync died {crashes} times during the upload: find the cause, then `retry` it"
                    conn.execute("UPDATE attempts SET name_released = 1 WHERE id = ?", (row["attempt"],))
                    apply(conn, row["id"], Event.UNDECIDABLE, now, reason="crashes", detail=detail)
            return len(in_flight)

        return self._store.write(work)


def _owner(conn: Handle, assetid: str, file_id: int) -> Row:
    """Return another row that has the id; a live row comes before rows at rest."""
    row: Row = conn.execute(
        "SELECT id, id_from, size, md5, asset_folder, state IN ('superseded', 'gone') AS rests FROM files"
        f" WHERE {WHOSE_ASSET.format('= ?1')} AND id <> ?2 ORDER BY rests, id DESC LIMIT 1",
        (assetid, file_id),
    ).fetchone()
    return row


def _may_be_given(owner: Row, row: Row, md5: str | None) -> bool:
    """Return whether the asset of another row, live or at rest, may be what this version's upload stored."""
    same = owner["size"] == row["size"] and owner["asset_folder"] in (None, "", row["folder"])
    if owner["rests"]:
        return bool(same and (md5 is None or owner["md5"] in (None, md5)))
    return bool(same and owner["id_from"] != "answer")


def _end_accepted(conn: Handle, attempt_id: int, sent: Sent, now: float) -> None:
    """Record the end of an accepted POST, and whether a workflow renamed the upload (interface section 4.3)."""
    _end(conn, attempt_id, sent, None, now, result="accepted")
    count_upload(conn, sent.bytes_sent, now)
    if sent.outcome.renamefilebody:
        note_names(conn, _folder_of(conn, attempt_id), kept=False)


def _folder_of(conn: Handle, attempt_id: int) -> str:
    folder: str = conn.execute("SELECT destfolderid FROM attempts WHERE id = ?", (attempt_id,)).fetchone()[0]
    return folder


def _end(conn: Handle, attempt_id: int, sent: Sent, why: str | None, now: float, *, result: str | None = None) -> None:
    """Record the end of a POST; with a `result` the attempt is decided."""
    outcome, is_cut = sent.outcome, sent.left is SentExtent.PART
    conn.execute(
        "UPDATE attempts SET ended_at = ?1, look_at = ?1, closed_at = IIF(?2 IS NULL, NULL, ?1), result = ?2, why = ?3,"
        " left_part = ?4, bytes_sent = ?5, bytes_sent_md5 = ?6, took = ?7, answered = ?8, is_duplicate = ?9,"
        " answer = ?10 WHERE id = ?11",
        (
            *(now, result, why, sent.left, sent.bytes_sent, sent.md5 or None, None if is_cut else sent.took),
            *(outcome.answered and not is_cut, outcome.answer is Answer.DUPLICATE, _answer(_kept_values(outcome))),
            attempt_id,
        ),
    )


@lru_cache(maxsize=16)
def _answer(values: tuple[str | None, ...]) -> str | None:
    """Return the values of `_KEPT` as JSON; cached, because nearly all uploads of a kind have the same values."""
    kept = {name: value for name, value in zip(_KEPT, values, strict=True) if value is not None}
    return json.dumps(kept) if kept else None


def _dispute(conn: Handle, file_id: int, now: float) -> None:
    """Put a row in doubt again because its adopted asset belongs to another upload."""
    last = conn.execute("SELECT MAX(id) FROM attempts WHERE file_id = ?", (file_id,)).fetchone()[0]
    if last is not None:
        reopen(conn, last, now, why="disputed")
    detail = "its asset belongs to another upload"
    if conn.execute("SELECT state FROM files WHERE id = ?", (file_id,)).fetchone()[0] == State.IN_DOUBT:
        # The row was in doubt already (unseen): its look-ups continue without the id.
        sql = "UPDATE files SET assetid = NULL, id_from = NULL, asset_folder = NULL, differs = NULL, detail = ?"
        conn.execute(f"{sql} WHERE id = ?", (detail, file_id))
        return
    changes = {"assetid": None, "verified_at": None, "reason": "disputed", "detail": detail, "due_at": now}
    apply(conn, file_id, Event.DISPUTED, now, **changes)

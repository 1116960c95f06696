"""Open doubts: list the look-ups that are due, record what a look-up showed, and end a doubt.

The decision is left to `core.doubt`; sending the look-ups is left to `sync.doubts`. The assets that look-ups show are
recorded by `ledger.assets`.
"""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from assetsync.core.backoff import LONGEST
from assetsync.core.doubt import Judgement, Verdict
from assetsync.core.doubt_grace import Grace, Looked
from assetsync.core.outcome import (
    HTTP_STATUS,
    REFUSED_BY_PROXY,
    TOO_LARGE_FOR_PROXY,
    UNREADABLE_WHILE_SENT,
    too_large_for_proxy,
)
from assetsync.core.read_back import NEVER_PROCESSED, Suspects
from assetsync.core.states import Event
from assetsync.ledger.assets import Shown, explain, own, shown_of
from assetsync.ledger.file.database import ANY_OF, Database
from assetsync.ledger.file.facts import ACCOUNT, set_fact
from assetsync.ledger.file.handle import Handle
from assetsync.ledger.rows import (
    ATTEMPT_COLUMNS,
    MISSING,
    NEW_SPAN,
    AttemptRow,
    FileRow,
    apply,
    files_where,
    read_file,
)
from assetsync.ledger.runs import count_upload
from assetsync.model import SentExtent, Wanted

# The same words as in the condition of the index `attempts_waived`, so that SQLite uses it.
_WAIVED = "{0}.result <> 'accepted' AND {0}.result IN ('absent', 'resolved', 'sent_again')"
_READ_BACK_AT_MOST = 100
COMES_LATE = 7 * 86_400.0
"""Seconds after its upload within which an asset that comes late has appeared."""

_WAIVED_AT_MOST = 1000
"""Maximum number of waived attempts read. The remains of a cut upload appear soon or never, so the newest of a long
outage are enough."""

_MAY_BE_REPLACED = f"reason IS NOT '{UNREADABLE_WHILE_SENT}'"
"""SQL condition: the detail of a file may be replaced. The detail of a file whose disk failed names the error until the
doubt is decided."""

_LOOKED_UP = (
    f"IIF(reason IN ('{HTTP_STATUS}', '{REFUSED_BY_PROXY}', '{TOO_LARGE_FOR_PROXY}'),"
    " substr(detail, 1, instr(detail || ';', ';') - 1) || '; ' || ?1, ?1)"
)
"""SQL expression: the detail of a file in doubt after a look-up; the status that its upload got stays the beginning."""

_ACCEPTED_AT_MOST = 100_000

NOT_ARRIVED = "did not arrive: `assetsync upload` it again"
"""The end of the detail of an upload by hand that was proven absent or damaged."""


@dataclass(frozen=True, slots=True)
class OpenDoubt:
    """A file version in doubt, and its open attempt."""

    file: FileRow
    attempt: AttemptRow


@dataclass(frozen=True, slots=True)
class CompetingAttempt:
    """Another attempt that may own an asset in its folder.

    A `refused` attempt created no asset. A `waived` attempt was decided as absent, or ended by an operator; remains of
    its cut upload may appear later. All others are open. `asked` marks attempts that look-ups cannot decide and an
    operator must, `cut` those whose requests did not leave whole.
    """

    attempt_id: int
    folder_id: str
    sent_name: str
    size: int
    md5: str | None
    in_flight: bool
    refused: bool
    asked: bool = False
    cut: bool = False
    waived: bool = False


class FolderDoubts(NamedTuple):
    """The number of open doubts of a destination folder, and the longest duration of their uploads in seconds.

    `answered`: each of the uploads was answered completely (`Outcome.answered`).
    """

    doubts: int
    took: float
    answered: bool
    newest_at: float


_UNDECIDED = (
    "closed_at IS NULL AND ended_at IS NOT NULL AND (SELECT state FROM files WHERE id = a.file_id) = 'in_doubt'"
)


def looked_of(attempt: AttemptRow) -> Looked:
    """Return the answered look-ups of an attempt so far; both spans are empty if they begin anew."""
    kept = json.loads(attempt.looked or "{}")
    spans = {name: Grace(**kept.get(name, {})) for name in ("grace", "watched")}
    return Looked(**(kept | spans))


class Doubts:
    """The ledger's part for resolving doubts."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def count(self) -> int:
        """Return the number of versions in doubt."""
        return int(self._store.value("SELECT COUNT(*) FROM files WHERE state = 'in_doubt'"))

    def by_folder(self) -> dict[str, FolderDoubts]:
        """Return the open doubts of each destination folder that has any.

        Uploads that a proxy refused for their size show nothing of a folder, and do not count.
        """
        # The plus prevents SQLite from reading all attempts in folder order.
        sql = (
            "SELECT destfolderid, COUNT(*), COALESCE(MAX(took), 0), MIN(answered), MAX(started_at) FROM attempts a"
            f" WHERE {_UNDECIDED} AND why IS NOT '{TOO_LARGE_FOR_PROXY}' GROUP BY +destfolderid"
        )
        return {row[0]: FolderDoubts(row[1], row[2], bool(row[3]), row[4]) for row in self._store.rows(sql)}

    def ended(self) -> list[tuple[float, float, bool]]:
        """Return for each open doubt when its upload ended, the seconds that it took, and whether it was answered.

        The time is in seconds since the epoch. An upload whose body left in part took 0 s and counts as answered.
        """
        columns = "ended_at, COALESCE(took, 0), answered OR took IS NULL"
        rows = self._store.rows(f"SELECT {columns} FROM attempts a WHERE {_UNDECIDED}")
        return [(row[0], row[1], bool(row[2])) for row in rows]

    def accepted_since(self, at: float) -> Counter[str]:
        """Return how many uploads each destination folder accepted since then, in seconds since the epoch.

        Uploads before the newest `_ACCEPTED_AT_MOST` attempts are left out.
        """
        # By number, because an index by time would cost every upload.
        sql = (
            "SELECT destfolderid, COUNT(*) FROM attempts WHERE id > ? AND result = 'accepted' AND ended_at >= ?"
            " GROUP BY +destfolderid"
        )
        rows = self._store.rows(sql, self.newest_attempt() - _ACCEPTED_AT_MOST, at)
        return Counter({row[0]: row[1] for row in rows})

    def due(self, now: float, limit: int = 500) -> list[OpenDoubt]:
        """Return up to `limit` doubts whose next look-up is due, longest due first, then grouped by folder."""
        sql = (
            f"SELECT {ATTEMPT_COLUMNS} FROM attempts a WHERE {_UNDECIDED}"
            " AND (look_at <= ?1 OR look_at > ?1 + ?3) ORDER BY look_at, id LIMIT ?2"
        )
        rows = self._store.rows(sql, now, limit, LONGEST)
        together = sorted(rows, key=lambda row: (row["destfolderid"], row["id"]))
        return [OpenDoubt(self.file_of(attempt), attempt) for attempt in map(AttemptRow._make, together)]

    def open_ones(self) -> list[tuple[int, str]]:
        """Return attempt id and destination folder of each undecided doubt."""
        rows = self._store.rows(f"SELECT id, destfolderid FROM attempts a WHERE {_UNDECIDED}")
        return [(row[0], row[1]) for row in rows]

    def of(self, file_id: int) -> AttemptRow | None:
        """Return the open attempt of a version."""
        sql = f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE file_id = ? AND closed_at IS NULL ORDER BY id DESC"
        return next(map(AttemptRow._make, self._store.rows(sql, file_id)), None)

    def in_flight(self, boundary: str) -> AttemptRow | None:
        """Return the attempt by hand with this boundary if it has no outcome yet."""
        # Search only the open attempts, which are few.
        sql = f"SELECT {ATTEMPT_COLUMNS} FROM attempts INDEXED BY attempts_open_file WHERE closed_at IS NULL"
        rows = self._store.rows(f"{sql} AND ended_at IS NULL AND by_hand AND boundary = ?", boundary)
        return next(map(AttemptRow._make, rows), None)

    def file_of(self, attempt: AttemptRow) -> FileRow:
        """Return the version of an attempt."""
        return files_where(self._store, "id = ?", attempt.file_id)[0]

    def attempts(self, file_id: int, limit: int) -> list[AttemptRow]:
        """Return up to `limit` of the newest attempts of a version, open or decided, oldest first."""
        sql = f"SELECT {ATTEMPT_COLUMNS} FROM attempts WHERE file_id = ? ORDER BY id DESC LIMIT ?"
        return [*map(AttemptRow._make, reversed(self._store.rows(sql, file_id, limit)))]

    def next_look(self) -> float | None:
        """Return when the next look-up is due."""
        due: float | None = self._store.value(f"SELECT MIN(look_at) FROM attempts a WHERE {_UNDECIDED}")
        return due

    def competing_attempts(self, attempt: AttemptRow) -> list[CompetingAttempt]:
        """Return the other open attempts, and the newest waived ones, of any file and into any folder.

        A duplicate's original may be in any folder, and a person may have moved the remains of a cut upload. Attempts
        into other folders that were waived long before this attempt are left out.
        """
        since = attempt.started_at - COMES_LATE
        waived = "a.id <> ?1 AND (a.destfolderid = ?2 OR a.closed_at >= ?3)"
        return self._competing("a.id <> ?1", waived, attempt.id, attempt.destfolderid, since)

    def left_in(self, folder: str, since: float) -> list[CompetingAttempt]:
        """Return the uploads into a folder that may have created an asset there, whole or cut.

        These are the open attempts, and the newest attempts that were waived since a time.
        """
        return self._competing("a.destfolderid = ?1", "a.destfolderid = ?1 AND a.closed_at >= ?2", folder, since)

    def _competing(self, are_open: str, are_waived: str, *values: object) -> list[CompetingAttempt]:
        # The name of an attempt that was reopened while another held it is released too, but look-ups still decide it.
        asked = "a.name_released AND (SELECT state FROM files WHERE id = a.file_id) = 'blocked'"
        columns = (
            "a.id, a.destfolderid, a.sent_name, a.size, a.md5, a.ended_at IS NULL, a.is_duplicate,"
            f" {asked}, a.left_part IS '{SentExtent.PART}'"
        )
        sql = (
            f"SELECT {columns}, 0 FROM attempts a INDEXED BY attempts_open_file"
            f" WHERE a.closed_at IS NULL AND {are_open}"
            f" UNION ALL SELECT * FROM (SELECT {columns}, 1 FROM attempts a INDEXED BY attempts_waived"
            f" WHERE {_WAIVED.format('a')} AND {are_waived} ORDER BY a.id DESC LIMIT {_WAIVED_AT_MOST})"
        )
        return [CompetingAttempt(*row[:5], *map(bool, row[5:])) for row in self._store.rows(sql, *values)]

    def owned(self, assetids: Collection[str], *, since: float | None = None) -> set[str]:
        """Return the ids that belong to live rows; only those uploaded `since` then, in seconds since the epoch."""
        sql = f"SELECT assetid FROM files WHERE state NOT IN ('superseded', 'gone') AND assetid {ANY_OF}"
        return set(self._store.column(f"{sql} AND (?2 IS NULL OR uploaded_at >= ?2)", json.dumps([*assetids]), since))

    def may_rename(self, attempt: AttemptRow) -> bool:
        """Return whether the service may have renamed an upload in doubt.

        It did not if it renames no uploads into the folder and a later upload was read back there: a workflow may have
        been switched on since an earlier one. An upload is read back only after its name was compared.
        """
        sql = (
            "SELECT EXISTS (SELECT 1 FROM folders WHERE destfolderid = ?1 AND names = 'kept')"
            " AND EXISTS (SELECT 1 FROM files f CROSS JOIN attempts a ON a.file_id = f.id WHERE a.id > ?2"
            "   AND a.destfolderid = ?1 AND a.result = 'accepted' AND f.uploaded_at = a.ended_at"
            "   AND f.id_from = 'answer' AND f.asset_folder = ?1 AND f.id IN"
            # Newer versions were uploaded later, nearly always; there may be a million.
            "   (SELECT id FROM files INDEXED BY files_standing WHERE size >= 0 AND wanted = 'yes'"
            "     AND state = 'verified' AND destfolderid = ?1 ORDER BY id DESC LIMIT ?3))"
        )
        return not self._store.value(sql, attempt.destfolderid, attempt.id, _READ_BACK_AT_MOST)

    def newest_attempt(self) -> int:
        """Return the number of the newest attempt: the clock that orders first sights and attempts."""
        return int(self._store.value("SELECT COALESCE(MAX(id), 0) FROM attempts"))

    def looked(self, attempt_id: int, looked: Looked, look_at: float) -> None:
        """Record an answered look-up; the next one is at `look_at`."""
        sql = "UPDATE attempts SET looked = ?, look_at = ?, looks = looks + 1 WHERE id = ?"
        self._store.change(sql, json.dumps(asdict(looked)), look_at, attempt_id)

    def look_up_as(self, account: str) -> None:
        """Begin the spans of all open attempts anew if their look-ups were not made with this account.

        `account` identifies address and key of the service (`model.Service.account`) and what look-ups depend on.
        """

        def work(conn: Handle) -> None:
            conn.execute(f"UPDATE attempts SET {NEW_SPAN} WHERE closed_at IS NULL")
            set_fact(conn, ACCOUNT, account)

        if self._store.fact(ACCOUNT) != account:
            self._store.write(work)

    def look_now(self, attempt_ids: Collection[int], now: float) -> int:
        """Make the next look-up of these attempts due now; return how many of them are undecided doubts."""
        sql = f"UPDATE attempts AS a SET look_at = MIN(look_at, ?) WHERE id = ? AND {_UNDECIDED}"
        return self._store.change_each(sql, [(now, attempt) for attempt in attempt_ids])

    def unanswered(self, attempt_ids: Sequence[int], with_them: Sequence[int], look_at: float, detail: str) -> None:
        """Postpone look-ups without an answer, and those `with_them`; graces stay unchanged, so that the gap shows."""

        def work(conn: Handle) -> None:
            later = [(look_at, attempt) for attempt in {*attempt_ids, *with_them}]
            conn.execute_each("UPDATE attempts SET look_at = ? WHERE id = ?", later)
            conn.execute_each(
                f"UPDATE files SET detail = {_LOOKED_UP} WHERE state = 'in_doubt' AND {_MAY_BE_REPLACED} AND id ="
                " (SELECT file_id FROM attempts WHERE id = ?2)",
                [(detail, attempt) for attempt in attempt_ids],
            )

        self._store.write(work)

    def hashed(self, attempt_id: int, file_id: int, md5: str) -> None:
        """Record the digest of the bytes sent, read again after an unclean stop."""

        def work(conn: Handle) -> None:
            conn.execute("UPDATE attempts SET md5 = ? WHERE id = ?", (md5, attempt_id))
            conn.execute("UPDATE files SET md5 = ? WHERE id = ?", (md5, file_id))

        self._store.write(work)

    def decide(self, doubt: OpenDoubt, verdict: Verdict, now: float) -> None:
        """End a doubt by the verdict, and record the assets that the verdict explains.

        A doubt stays as it is if it was decided otherwise while the service answered, or if another file took its
        asset.
        """
        file, attempt = doubt.file, doubt.attempt

        def work(conn: Handle) -> None:
            if not _may_be_decided(conn, doubt, verdict):
                return
            for assetid in verdict.suspected:
                explain(conn, assetid, "suspected", file)
            for assetid in verdict.doubled:
                explain(conn, assetid, "doubled", file)
            if verdict.judgement is Judgement.WAIT:
                sql = f"UPDATE files SET detail = {_LOOKED_UP} WHERE id = ?2 AND {_MAY_BE_REPLACED}"
                conn.execute(sql, (verdict.reason, file.id))
                return
            if verdict.judgement is Judgement.UNDECIDABLE:
                _leave_to_a_person(conn, doubt, verdict, now)
                return
            conn.execute(
                "UPDATE attempts SET closed_at = ?, result = ? WHERE id = ?", (now, str(verdict.judgement), attempt.id)
            )
            if verdict.judgement is Judgement.FOUND:
                # Names may come back alike, so the asset may belong to an equal doubt. Remains of either upload may
                # still appear: the grace of each equal doubt starts again, and allows for the longer upload time, and
                # for an upload that was not answered. The time of an upload that was cut says nothing.
                conn.execute(
                    "UPDATE attempts SET looked = NULL,"
                    " took = IIF(?1 IS NULL, took, MAX(?1, COALESCE(took, 0))),"
                    " answered = IIF(?1 IS NULL, answered, MIN(?5, answered))"
                    " WHERE destfolderid = ?2 AND closed_at IS NULL AND size = ?3"
                    " AND (md5 = ?4 OR md5 IS NULL OR ?4 IS NULL)",
                    (attempt.took, attempt.destfolderid, attempt.size, attempt.md5, attempt.answered),
                )
                _found(conn, doubt, verdict, now)
                return
            _not_stored(conn, doubt, verdict, now)

        self._store.write(work)


def _may_be_decided(conn: Handle, doubt: OpenDoubt, verdict: Verdict) -> bool:
    still = (
        "SELECT 1 FROM files f, attempts a WHERE f.id = ? AND f.state = 'in_doubt' AND a.id = ? AND a.closed_at IS NULL"
    )
    if conn.execute(still, (doubt.file.id, doubt.attempt.id)).fetchone() is None:
        return False
    taken = "SELECT 1 FROM files WHERE assetid = ? AND id <> ? AND state NOT IN ('superseded', 'gone')"
    found = verdict.judgement is Judgement.FOUND
    return not found or conn.execute(taken, (verdict.assetid, doubt.file.id)).fetchone() is None


def _leave_to_a_person(conn: Handle, doubt: OpenDoubt, verdict: Verdict, now: float) -> None:
    file, attempt = doubt.file, doubt.attempt
    # The attempt stays open, so that `retry` looks it up again, but no longer holds its name.
    conn.execute("UPDATE attempts SET name_released = 1 WHERE id = ?", (attempt.id,))
    word, helps = "undecidable", "look in the service, then `assetsync doubt resolve PATH`"
    if attempt.is_duplicate:
        word = "refused_as_duplicate"
    elif file.reason == MISSING:
        word, helps = MISSING, "`assetsync retry --send-again PATH` uploads the file anew"
    elif verdict.is_nowhere and shown_of(conn, file.assetid).shown_at is None and file.id_from == "answer":
        # A video whose name does not fit its column, for example (observed).
        again = "assetsync upload" if file.wanted is Wanted.OUTSIDE else "assetsync retry"
        word, helps = NEVER_PROCESSED, f"`{again} --send-again PATH` uploads the file again"
        helps = f"it was never processed{Suspects.of(attempt.sent_name).sentence}; {helps}"
    apply(conn, file.id, Event.UNDECIDABLE, now, reason=word, detail=f"{verdict.reason}; {helps}")
    if verdict.assetid is not None and not attempt.is_duplicate:
        explain(conn, verdict.assetid, "damaged", file)


def _not_stored(conn: Handle, doubt: OpenDoubt, verdict: Verdict, now: float) -> None:
    """Queue a file that did not arrive whole, or block it if another upload would not arrive either."""
    file, attempt = doubt.file, doubt.attempt
    if verdict.assetid is not None:
        explain(conn, verdict.assetid, "damaged", file)
    event = Event.DAMAGED if verdict.judgement is Judgement.DAMAGED else Event.ABSENT
    is_unreadable = attempt.why == UNREADABLE_WHILE_SENT
    is_too_large = attempt.why == TOO_LARGE_FOR_PROXY and event is Event.ABSENT
    before = read_file(conn, file.id)
    apply(
        conn, file.id, event, now,
        # This number is about what breaks an upload on the way. An unreadable file shows nothing of that, and a proxy
        # that refuses has said so.
        absences=file.absences + (attempt.why not in (UNREADABLE_WHILE_SENT, REFUSED_BY_PROXY, TOO_LARGE_FOR_PROXY)),
        reason=str(verdict.judgement), detail=verdict.reason, due_at=now, assetid=None,
    )  # fmt: skip
    if is_unreadable and before.wanted is Wanted.YES:
        # Another upload might leave another damaged asset.
        detail = f"{before.detail}: {verdict.reason}" if before.reason == attempt.why else verdict.reason
        apply(conn, file.id, Event.BLOCKED, now, reason="unreadable", detail=detail)
    elif is_too_large and before.wanted is Wanted.YES:
        apply(conn, file.id, Event.BLOCKED, now, reason=TOO_LARGE_FOR_PROXY, detail=too_large_for_proxy(attempt.size))
    elif before.wanted is Wanted.OUTSIDE:
        # The queue does not send it: a person must know.
        apply(
            conn, file.id, Event.BLOCKED, now, reason=str(verdict.judgement), detail=f"{verdict.reason}; {NOT_ARRIVED}"
        )  # fmt: skip


def _found(conn: Handle, doubt: OpenDoubt, verdict: Verdict, now: float) -> None:
    if doubt.attempt.is_duplicate:
        # The asset was there before this upload, and has the metadata of another file, if any.
        uploaded: dict[str, float | None] = {"uploaded_at": None}
    elif doubt.file.assetid is None:
        count_upload(conn, doubt.attempt.size, now)
        uploaded = {"uploaded_at": now}
    else:
        # The upload was counted when its answer came; its asset was missing later.
        uploaded = {}
    own(conn, verdict.assetid, Shown(shown_at=now))
    # For a large file that was never read to its end, the service's digest is the first one known: it shows later that
    # a version that was only touched is equal.
    known = {} if verdict.md5 is None else {"md5": verdict.md5}
    apply(
        conn, doubt.file.id, Event.FOUND, now, **known, **uploaded,
        assetid=verdict.assetid, id_from="adopted", asset_folder=verdict.folder_id,
        verified_at=None, reason=None, detail=None, due_at=now, send_again=0,
        # The asset may be in another folder, or may have the metadata of another asset.
        drift="unread",
    )  # fmt: skip

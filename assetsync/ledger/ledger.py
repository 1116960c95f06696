"""The ledger as its users see it: the parts by what they are for, and the start and end of a holder's session."""

import contextlib
import json
import os
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from assetsync.errors import LedgerBusy, LedgerError, LedgerOfAnother
from assetsync.ledger import owner
from assetsync.ledger.assets import Assets
from assetsync.ledger.attempts import AttemptResults
from assetsync.ledger.audits import Audits
from assetsync.ledger.control_samples import ControlSamples
from assetsync.ledger.damage import CLEAN_STOP, DAMAGE_SEEN
from assetsync.ledger.database import Database, open_database
from assetsync.ledger.doubts import Doubts
from assetsync.ledger.epoch import Epoch, OutsideEpoch
from assetsync.ledger.equal_content import EqualContent
from assetsync.ledger.folder_cache import FolderCache
from assetsync.ledger.folder_listings import FolderListings
from assetsync.ledger.ledger_metadata import set_fact
from assetsync.ledger.metadata_drift import MetadataDrift
from assetsync.ledger.queue import Queue
from assetsync.ledger.repair import Repair
from assetsync.ledger.versions import Intake
from assetsync.ledger.view import LedgerView, store_beside


@dataclass(frozen=True, slots=True)
class Request:
    """What a command beside the holder of the lock asked for; `argument` is None where it is no object of JSON."""

    id: int
    verb: str
    argument: dict[str, object] | None


class Ledger(LedgerView):
    """A ledger that this process sends for (`open_ledger`) or only looks at (`read_ledger`)."""

    def __init__(
        self, store: Database, start_no: int = 0, *, restored: bool = False, unconfirmed: bool = False
    ) -> None:
        super().__init__(store)
        self.start_no = start_no
        self.restored = restored
        self.unconfirmed = unconfirmed
        """Whether nothing outside the ledger's disk shows that its last clean stop was the last one there was."""
        self.intake = Intake(store)
        self.drifts = MetadataDrift(store)
        self.queue = Queue(store, start_no)
        self.alike = EqualContent(store)
        self.quiet = FolderCache(store)
        self.contacts = FolderListings(store, start_no)
        self.outcomes = AttemptResults(store)
        self.doubts = Doubts(store)
        self.assets = Assets(store)
        self.audits = Audits(store)
        self.repair = Repair(store)
        self.witnesses = ControlSamples(store)

    def set_fact(self, name: str, value: str | None) -> None:
        """Write one of the facts that concern the whole ledger."""
        self.store.write(lambda conn: set_fact(conn, name, value))

    def pull_brake(self, kind: str, subject: str, detail: str, amount: int, now: float) -> bool:
        """Record a brake; False when it is pulled already."""

        def work(conn: sqlite3.Connection) -> bool:
            done = conn.execute(
                "INSERT INTO brakes (kind, subject, detail, amount, pulled_at) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (kind, subject) WHERE resumed_at IS NULL DO NOTHING",
                (kind, subject, detail, amount, now),
            )
            return done.rowcount == 1

        return self.store.write(work)

    def resume(self, brake_id: int | None, now: float) -> int:
        """Release one brake, or all; gives how many."""
        where, values = ("", ()) if brake_id is None else (" AND id = ?", (brake_id,))
        return self.store.write(
            lambda conn: (
                conn.execute(
                    f"UPDATE brakes SET resumed_at = ? WHERE resumed_at IS NULL{where}",
                    (now, *values),
                ).rowcount
            )
        )

    def lift_brake(self, brake_id: int, now: float) -> None:
        """Release a brake whose reason is gone by itself: nothing is allowed by it."""
        self.store.write(
            lambda conn: conn.execute("UPDATE brakes SET resumed_at = ?, amount = 0 WHERE id = ?", (now, brake_id))
        )

    def resumed_amount(self, kind: str, subject: str, since: float) -> int | None:
        """Give how much a person has allowed by releasing such a brake since then."""
        rows = self.store.rows(
            "SELECT MAX(amount) FROM brakes WHERE kind = ? AND subject = ? AND resumed_at >= ?", kind, subject, since
        )
        return None if rows[0][0] is None else int(rows[0][0])

    def withdraw(self, kind: str, subject: str, since: float) -> None:
        """Let nothing be allowed any more by a release of such a brake since then."""
        sql = "UPDATE brakes SET amount = 0 WHERE kind = ? AND subject = ? AND resumed_at >= ?"
        self.store.write(lambda conn: conn.execute(sql, (kind, subject, since)))

    def withdraw_others(self, kind: str, subjects: Collection[str]) -> None:
        """Let nothing be allowed any more by a release of such a brake on another subject than these."""
        marks = ", ".join("?" * len(subjects))
        others = f"kind = ? AND subject NOT IN ({marks}) AND resumed_at IS NOT NULL AND amount > 0"
        if self.store.rows(f"SELECT 1 FROM brakes WHERE {others} LIMIT 1", kind, *subjects):
            sql = f"UPDATE brakes SET amount = 0 WHERE {others}"
            self.store.write(lambda conn: conn.execute(sql, (kind, *subjects)))

    def ask(self, verb: str, argument: dict[str, object], now: float) -> int:
        """Leave a request for the holder of the lock; gives its number."""
        return self.store.write(
            lambda conn: int(
                conn.execute(
                    "INSERT INTO requests (verb, argument, asked_at) VALUES (?, ?, ?)",
                    (verb, json.dumps(argument), now),
                ).lastrowid
                or 0
            )
        )

    def asked(self) -> list[Request]:
        """Give the requests that are not carried out yet."""
        rows = self.store.rows("SELECT id, verb, argument FROM requests WHERE done_at IS NULL ORDER BY id LIMIT 100")
        return [Request(row[0], row[1], _argument(row[2])) for row in rows]

    def begin_request(self, request_id: int) -> bool:
        """Record that a request is being carried out; False when that was begun before, and not answered."""
        sql = "UPDATE requests SET answer = 'begun' WHERE id = ? AND answer IS NULL"
        return self.store.write(lambda conn: conn.execute(sql, (request_id,)).rowcount == 1)

    def answered(self, request_id: int) -> str | None:
        """Give what became of a request; None while nobody has carried it out or refused it."""
        rows = self.store.rows("SELECT answer FROM requests WHERE id = ? AND done_at IS NOT NULL", request_id)
        return str(rows[0][0]) if rows else None

    def answer(self, request_id: int, answer: str, now: float) -> None:
        """Record that a request was carried out."""
        self.store.write(
            lambda conn: conn.execute(
                "UPDATE requests SET done_at = ?, answer = ? WHERE id = ?", (now, answer, request_id)
            )
        )

    def close(self) -> None:
        """End the session; the one that holds the ledger leaves the mark of a clean stop, or of damage that it met."""
        if self.store.holds_lock:
            # Without a mark the next start looks closer, and no more: that is no reason not to stop.
            with contextlib.suppress(LedgerError):
                if self.store.found_damage:
                    self.set_fact(DAMAGE_SEEN, None)
                else:
                    self.set_fact(CLEAN_STOP, Epoch(self.store.path).changed())
        super().close()


def open_ledger(path: Path, *, site: str | None = None, create: bool = True, is_scratch: bool = False) -> Ledger:
    """Take the lock, open the ledger for sending and count this start.

    It must be the `site`'s, where one is named: LedgerOfAnother is raised for another's, be it held or not. One that
    `is_scratch` is removed after this start, which is counted nowhere else.

    Where it may not hold all that was sent, every folder is listed again before anything is posted into it: so it is
    for one that was put back, as far as that can be told (`restored`), after an unclean stop, because a copy made
    while a process held it looks the same, and where nothing outside its disk confirms that its last clean stop was
    the last there was (`unconfirmed`): a disk that was rolled back shows an earlier one. Raises as `store.open_store`
    does.
    """
    try:
        store = open_database(path, create=create)
    except LedgerBusy:
        # To whoever names the wrong ledger, that it is in use would say nothing.
        _refuse_another(path, site)
        raise
    try:
        epoch, outside = Epoch(store.path), OutsideEpoch(store.path, os.environ)
        copied, changed, kept = epoch.read(), epoch.changed(), outside.read()

        def work(conn: sqlite3.Connection) -> tuple[int, bool, bool]:
            if site is not None:
                owner.claim(conn, store.path, site)
            facts = dict(conn.execute("SELECT name, value FROM facts WHERE name IN ('start', ?)", (CLEAN_STOP,)))
            known = int(facts.get("start") or 0)
            # A new ledger needs no confirmation: it knows no folder, and lists each.
            confirmed = not known or _confirms(kept, known)
            start = max(known, copied or 0, 0 if confirmed else kept or 0) + 1
            restored = _is_restored(known, copied, facts.get(CLEAN_STOP), changed)
            restored = restored or (not confirmed and kept is not None and kept > known)
            set_fact(conn, "start", str(start))
            # In one commit with the number, before anything else is written: a copy made from now on lacks the mark.
            conn.execute("DELETE FROM facts WHERE name IN (?, ?)", (CLEAN_STOP, DAMAGE_SEEN))
            if restored or (known and (CLEAN_STOP not in facts or not confirmed)):
                set_fact(conn, "contact_from", str(start))
            return start, restored, not confirmed

        start_no, restored, unconfirmed = store.write(work)
        # Only then: a crash in between is an unclean stop, and no more.
        epoch.write(start_no)
        if not is_scratch and not outside.write(start_no) and kept is not None:
            # Starts that cannot write there confirm nothing to each other.
            unconfirmed = True
            store.write(lambda conn: set_fact(conn, "contact_from", str(start_no)))
    except BaseException:
        if store.found_damage:
            # As `Ledger.close`; the mark of the last clean stop would keep the next start from looking.
            with contextlib.suppress(LedgerError):
                store.write(_damage_was_seen)
        store.close()
        raise
    return Ledger(store, start_no, restored=restored, unconfirmed=unconfirmed)


def _damage_was_seen(conn: sqlite3.Connection) -> None:
    conn.execute("DELETE FROM facts WHERE name = ?", (CLEAN_STOP,))
    set_fact(conn, DAMAGE_SEEN, None)


def _argument(text: str) -> dict[str, object] | None:
    try:
        said = json.loads(text)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _is_restored(known: int, copied: int | None, stopped: str | None, changed: str) -> bool:
    """Tell whether a ledger was put back from a copy, lost or moved: by its number, and by the copy of it beside it.

    `stopped` is the mark of a clean stop. It holds when the number beside it had last been `changed`, which is another
    time where both were put back together.
    """
    if not known:
        return copied is not None
    return copied is None or known < copied or (stopped is not None and stopped != changed)


def _confirms(kept: int | None, known: int) -> bool:
    """Return whether the number `kept` outside the ledger's disk is that of the last start that the ledger knows."""
    return kept == known


def _refuse_another(path: Path, site: str | None) -> None:
    try:
        read_ledger(path, site=site).close()
    except LedgerOfAnother:
        raise
    except LedgerError:
        # It is being made, or of another release: that it is held is what counts.
        return


def read_ledger(path: Path, *, site: str | None = None, writable: bool = False) -> Ledger:
    """Open a ledger beside its holder, to read it or (writable) to leave requests; creates nothing.

    Raises as `view.store_beside` does. For what `LedgerView` shows, `view_ledger` is the quicker way.
    """
    return Ledger(store_beside(path, site=site, writable=writable))

"""The ledger as callers use it: its parts by purpose, brakes, requests, and the start and end of a holder's session.

The tables, and the SQL of files, attempts and assets, are left to the parts. Reading is left to `reports`.
"""

import contextlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from assetsync.errors import LedgerBusy, LedgerError, LedgerOfAnother
from assetsync.ledger.assets import Assets
from assetsync.ledger.attempts import AttemptResults
from assetsync.ledger.audits import Audits
from assetsync.ledger.decisions import Decisions
from assetsync.ledger.doubts import Doubts
from assetsync.ledger.equal_content import EqualContent
from assetsync.ledger.file.database import ANY_OF, Database, open_beside, open_database
from assetsync.ledger.file.facts import LISTED_FROM, SITE, expect_owner, fact, set_fact
from assetsync.ledger.file.handle import Handle
from assetsync.ledger.file.integrity import CLEAN_STOP, DAMAGE_SEEN
from assetsync.ledger.file.ledger_files import Epoch, OutsideEpoch
from assetsync.ledger.folder_cache import FolderCache
from assetsync.ledger.folders import FolderListings
from assetsync.ledger.metadata_drift import MetadataDrift
from assetsync.ledger.queue import Queue
from assetsync.ledger.queue_folders import QueueFolders
from assetsync.ledger.read_back import ControlSamples, ReadBack
from assetsync.ledger.reports import LedgerView
from assetsync.ledger.rows import NEW_SPAN
from assetsync.ledger.versions import Versions

_RELEASED_SINCE = "kind = ? AND subject = ? AND resumed_at >= ?"
"""SQL condition: such a brake was released, by an operator if its amount is not 0."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request that a command left for the holder of the lock; `argument` is None if it is not a JSON object."""

    id: int
    verb: str
    argument: dict[str, object] | None


class Ledger(LedgerView):
    """A ledger that this process sends for (`open_ledger`) or only reads (`read_ledger`)."""

    def __init__(
        self,
        store: Database,
        start_no: int = 0,
        *,
        restored: bool = False,
        unconfirmed: bool = False,
        old_requests: int = 0,
    ) -> None:
        super().__init__(store)
        self.start_no = start_no
        self.old_requests = old_requests
        """The newest request that may have been carried out after this copy of the ledger was made; 0 without one."""
        self.restored = restored
        self.unconfirmed = unconfirmed
        """Whether nothing outside the ledger's disk confirms that the last clean stop it records was the latest
        stop."""
        self.versions = Versions(store)
        self.metadata_drift = MetadataDrift(store)
        self.queue = Queue(store)
        self.queue_folders = QueueFolders(store)
        self.equal_content = EqualContent(store)
        self.folder_cache = FolderCache(store)
        self.folder_listings = FolderListings(store, start_no)
        self.attempt_results = AttemptResults(store)
        self.doubts = Doubts(store)
        self.assets = Assets(store)
        self.read_back = ReadBack(store)
        self.audits = Audits(store)
        self.decisions = Decisions(store)
        self.control_samples = ControlSamples(store)

    def set_fact(self, name: str, value: str | None) -> None:
        """Write one fact of the whole ledger."""
        self.store.write(lambda conn: set_fact(conn, name, value))

    def submit_fact(self, name: str, value: str) -> None:
        """Queue one fact of the whole ledger for the next commit."""
        self.store.submit(lambda conn: set_fact(conn, name, value))

    def pull_brake(self, kind: str, subject: str, detail: str, amount: int, now: float) -> bool:
        """Record a brake; return False if it is pulled already."""
        brake = {"kind": kind, "subject": subject, "detail": detail, "amount": amount, "pulled_at": now}

        def work(conn: Handle) -> bool:
            brakes = conn.table("brakes")
            if brakes.count_where("kind = ? AND subject = ? AND resumed_at IS NULL", (kind, subject)):
                return False
            brakes.insert(brake)
            return True

        return self.store.write(work)

    def resume(self, brake_id: int | None, now: float) -> int:
        """Release one brake, or all; return the number released."""
        where = "resumed_at IS NULL AND (?1 IS NULL OR id = ?1)"
        return self.store.update_where("brakes", {"resumed_at": now}, where, brake_id)

    def lift_brake(self, brake_id: int, now: float) -> None:
        """Release a brake whose cause has cleared without an operator; this release permits nothing."""
        self.store.update_where("brakes", {"resumed_at": now, "amount": 0}, "id = ?", brake_id)

    def resumed_amount(self, kind: str, subject: str, since: float) -> int | None:
        """Return the largest amount that an operator permitted by releasing such a brake since then."""
        brakes = self.store.rows_where("brakes", _RELEASED_SINCE, kind, subject, since)
        return max((brake["amount"] for brake in brakes), default=None)

    def withdraw(self, kind: str, subject: str, since: float) -> None:
        """Revoke the operators' releases of such a brake since then."""
        self.store.update_where("brakes", {"amount": 0}, _RELEASED_SINCE, kind, subject, since)

    def withdraw_others(self, kind: str, subjects: Collection[str]) -> None:
        """Revoke the operators' releases of such a brake on any subject other than these."""
        others = f"kind = ? AND subject NOT {ANY_OF} AND resumed_at IS NOT NULL AND amount > 0"
        values = (kind, json.dumps([*subjects]))
        if self.store.rows_where("brakes", others, *values, limit=1):
            self.store.update_where("brakes", {"amount": 0}, others, *values)

    def add_request(self, verb: str, argument: dict[str, object], now: float) -> int:
        """Leave a request for the holder of the lock; return its number."""
        request = {"verb": verb, "argument": json.dumps(argument), "asked_at": now}
        return self.store.write(lambda conn: int(conn.table("requests").insert(request).last_pk or 0))

    def open_requests(self) -> list[Request]:
        """Return the first 100 requests that are not carried out yet."""
        found = []
        for row in self.store.rows_where("requests", "done_at IS NULL", order_by="id", limit=100):
            try:
                argument = json.loads(row["argument"])
            except ValueError:
                argument = None
            found.append(Request(row["id"], row["verb"], argument if isinstance(argument, dict) else None))
        return found

    def begin_request(self, request_id: int) -> bool:
        """Record that a request is being carried out; return False if an earlier attempt at it left no answer."""
        where = "id = ? AND answer IS NULL"
        return self.store.update_where("requests", {"answer": "begun"}, where, request_id) == 1

    def answer_to(self, request_id: int) -> str | None:
        """Return the answer to a request; None until a holder has carried it out or refused it."""
        done = self.store.rows_where("requests", "id = ? AND done_at IS NOT NULL", request_id)
        return done[0]["answer"] if done else None

    def answer_request(self, request_id: int, answer: str, now: float) -> None:
        """Record that a request was carried out or refused."""
        self.store.update_where("requests", {"done_at": now, "answer": answer}, "id = ?", request_id)

    def close(self) -> None:
        """End the session; the holder of the ledger records a clean stop, or the damage that it found."""
        if self.store.holds_lock:
            # Without the mark the next start only checks more, so a failure here must not prevent the stop.
            with contextlib.suppress(LedgerError):
                if self.store.found_damage:
                    self.store.write(_mark_damage)
                else:
                    self.set_fact(CLEAN_STOP, Epoch(self.store.path).changed())
        super().close()


def open_ledger(path: Path, *, site: str | None = None, create: bool = True, is_scratch: bool = False) -> Ledger:
    """Take the lock, open the ledger for sending and count this start.

    If `site` is named, the ledger must belong to it: LedgerOfAnother is raised for the ledger of another site, held or
    not. A ledger that `is_scratch` is removed after this start, which is then not recorded outside the ledger's disk.

    If the ledger may lack uploads that were sent, every folder is listed again before the first POST into it. This
    applies to a ledger put back from a copy, as far as that can be detected (`restored`); after an unclean stop,
    because a copy made while a process held the ledger looks the same; and if nothing outside its disk confirms that
    its last clean stop was the latest stop (`unconfirmed`), because a disk that was rolled back shows an earlier one.
    Raises as `database.open_database` does.
    """
    try:
        store = open_database(path, create=create)
    except LedgerBusy:
        # If the configuration names another site's ledger, report that: "in use" would not help.
        _refuse_another(path, site)
        raise
    try:
        epoch, outside = Epoch(store.path), OutsideEpoch(store.path)
        copied, changed, kept = epoch.read(), epoch.changed(), outside.read()

        def work(conn: Handle) -> tuple[int, bool, bool, int]:
            if site is not None and not expect_owner(conn, store.path, site):
                set_fact(conn, SITE, site)
            known, stopped = int(fact(conn, "start") or 0), fact(conn, CLEAN_STOP)
            # A new ledger needs no confirmation: it knows no folder, so every folder is listed.
            confirmed = not known or _confirms(kept, known)
            start = max(known, copied or 0, 0 if confirmed else kept or 0) + 1
            restored = _is_restored(known, copied, stopped, changed)
            restored = restored or (not confirmed and kept is not None and kept > known)
            set_fact(conn, "start", str(start))
            # In the same commit as the number, before anything else is written: a copy made from now on lacks the mark.
            conn.table("facts").delete_where("name IN (?, ?)", (CLEAN_STOP, DAMAGE_SEEN))
            if restored or (known and stopped is None):
                # The ledger may lack uploads that were sent since: their assets may still appear.
                conn.execute(f"UPDATE attempts SET {NEW_SPAN} WHERE closed_at IS NULL")
            old_requests = 0
            if restored or (known and (stopped is None or not confirmed)):
                set_fact(conn, LISTED_FROM, str(start))
                newest = list(conn.table("requests").rows_where(order_by="id DESC", limit=1))
                old_requests = newest[0]["id"] if newest else 0
            return start, restored, not confirmed, old_requests

        start_no, restored, unconfirmed, old_requests = store.write(work)
        # Write the epoch file after the commit: a crash in between then counts as an unclean stop, nothing worse.
        epoch.write(start_no)
        if not is_scratch and not outside.write(start_no) and kept is not None:
            # Starts that cannot write the number outside the disk confirm nothing to each other.
            unconfirmed = True
            store.write(lambda conn: set_fact(conn, LISTED_FROM, str(start_no)))
    except BaseException:
        if store.found_damage:
            with contextlib.suppress(LedgerError):
                store.write(_mark_damage)
        store.close()
        raise
    return Ledger(store, start_no, restored=restored, unconfirmed=unconfirmed, old_requests=old_requests)


def _mark_damage(conn: Handle) -> None:
    # With the mark of the last clean stop, the next start would skip its check.
    conn.table("facts").delete_where("name = ?", (CLEAN_STOP,))
    set_fact(conn, DAMAGE_SEEN, None)


def _is_restored(known: int, copied: int | None, stopped: str | None, changed: str) -> bool:
    """Return whether the ledger was put back from a copy, lost or moved, judged by its number and by the epoch file.

    `stopped` is the mark of a clean stop: the time at which the epoch file had last been `changed`. The two times
    differ if ledger and epoch file were put back together.
    """
    if not known:
        return copied is not None
    return copied is None or known < copied or (stopped is not None and stopped != changed)


def _confirms(kept: int | None, known: int) -> bool:
    """Return whether `kept`, the number outside the ledger's disk, is that of the last start recorded in the ledger."""
    return kept == known


def _refuse_another(path: Path, site: str | None) -> None:
    try:
        read_ledger(path, site=site).close()
    except LedgerOfAnother:
        raise
    except LedgerError:
        # The ledger is being created, or is of another release; LedgerBusy is then the error to report.
        return


def read_ledger(path: Path, *, site: str | None = None, writable: bool = False) -> Ledger:
    """Open a ledger beside its holder, to read it or (writable) to leave requests; creates nothing.

    Raises as `database.open_beside` does. If `LedgerView` is enough, `view_ledger` is faster.
    """
    return Ledger(open_beside(path, site=site, writable=writable))

"""What runs leave for those who look later: when regular work ended, what the last scan met, what stopped the last run.

Facts of the ledger, each one object of JSON. What follows from them is `status.standing`'s.
"""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from assetsync.ledger.database import Database
from assetsync.ledger.ledger_metadata import fact, set_fact

JOBS = ("rescan", "index", "verify", "audit")

_PAUSED = "paused"
"""The fact in which a process tells of its pause: start, since, reason, detail, and `ended` if it gave up on it."""

AUDITED = "audited "
"""The facts that hold what each folder's newest audit found are named by this and the folder."""

_UNSETTLED = "unsettled"

_REFUSED = "config_refused"
"""The fact in which a process tells of the configuration that it was last to go on with and did not: start, at,
mistake."""


class LastScan(NamedTuple):
    """When the tree was last looked at as a whole, whether all of it was there to be read, and what was not.

    `missing` names the mapped folders that were not there. So many sidecars were `stray`, which speak of no file, a
    thousand at most; `first_stray` is one of them. `first_unreadable` names a path that must be made readable, and why;
    `also_unreadable` does of some others. Of what is counted as `unreadable` so many had only `moved` meanwhile.
    """

    at: float
    complete: bool
    unreadable: int
    missing: tuple[str, ...] = ()
    stray: int = 0
    first_stray: str = ""
    first_unreadable: str = ""
    also_unreadable: tuple[str, ...] = ()
    moved: int = 0

    @property
    def blind(self) -> tuple[str, ...]:
        """Name paths that must be made readable, and why."""
        return (self.first_unreadable, *self.also_unreadable) if self.first_unreadable else ()

    @property
    def unread(self) -> int:
        """Count the paths that must be made readable."""
        return self.unreadable - self.moved if self.first_unreadable else 0


class Run(NamedTuple):
    """When a kind of regular work last came to its end, and how many seconds it took, where that is known."""

    at: float
    seconds: float | None


class Pause(NamedTuple):
    """Why and since when a process sent nothing, by which start of the ledger, and when it gave up, if it did."""

    start: int
    since: float
    reason: str
    detail: str
    ended: float | None = None


class Refusal(NamedTuple):
    """When a process, of this start of the ledger, refused a new configuration and kept the old one, and why."""

    start: int
    at: float
    mistake: str


@dataclass(frozen=True, slots=True)
class Unsettled:
    """How many files were seen while they may still have been written; `overflowed`: there were more than are known."""

    count: int = 0
    overflowed: bool = False


class Runs:
    """Writes down and reads what runs leave behind."""

    def __init__(self, store: Database) -> None:
        self._store = store

    def scanned(self, scan: LastScan, seconds: float) -> None:
        """Write down how a scan ended."""
        missing = {"missing": scan.missing} if scan.missing else {}
        self._write(
            _of("rescan"),
            {
                "at": scan.at,
                "seconds": round(seconds, 3),
                "complete": scan.complete,
                "unreadable": scan.unreadable,
                **missing,
                **({"stray": scan.stray, "first_stray": scan.first_stray} if scan.stray else {}),
                **({"first_unreadable": scan.first_unreadable} if scan.first_unreadable else {}),
                **({"also_unreadable": scan.also_unreadable} if scan.also_unreadable else {}),
                **({"moved": scan.moved} if scan.moved else {}),
            },
        )

    def ended(self, job: str, at: float, seconds: float) -> None:
        """Write down that other regular work came to its end."""
        self._write(_of(job), {"at": at, "seconds": round(seconds, 3)})

    def last_scan(self) -> LastScan | None:
        """Give how the last scan ended."""
        said = self._read(_of("rescan"))
        if said is None:
            return None
        missing = tuple(map(str, said.get("missing", ())))
        return LastScan(
            float(said["at"]),
            bool(said["complete"]),
            int(said["unreadable"]),
            missing,
            int(said.get("stray", 0)),
            str(said.get("first_stray", "")),
            str(said.get("first_unreadable", "")),
            tuple(map(str, said.get("also_unreadable", ()))),
            int(said.get("moved", 0)),
        )

    def not_scanned(self, unreadable: str = "") -> None:
        """Let the last scan count as incomplete: since then the tree, or this `unreadable` path, could not be read."""
        said = self._read(_of("rescan"))
        if said is None:
            return
        named = {} if said.get("first_unreadable") or not unreadable else {"first_unreadable": unreadable}
        # What had only moved is counted as well, and is not this one.
        counted = {"unreadable": max(1 + int(said.get("moved", 0)), int(said["unreadable"]))} if unreadable else {}
        if (now := said | {"complete": False} | named | counted) != said:
            self._write(_of("rescan"), now)

    def last(self) -> dict[str, Run]:
        """Give when each kind of work that has ever come to its end last did."""
        runs = {}
        for job in JOBS:
            said = self._read(_of(job))
            if said is not None:
                runs[job] = Run(float(said["at"]), said.get("seconds"))
        return runs

    def note_pause(self, pause: Pause | None) -> None:
        """Write down the pause at hand, or that there is none."""
        said = None
        if pause is not None:
            said = {"start": pause.start, "since": pause.since, "reason": pause.reason, "detail": pause.detail}
            said |= {} if pause.ended is None else {"ended": pause.ended}
        self._write(_PAUSED, said)

    def pause(self) -> Pause | None:
        """Give the pause that was written down last and did not end."""
        said = self._read(_PAUSED)
        if said is None:
            return None
        return Pause(
            int(said["start"]), float(said["since"]), str(said["reason"]), str(said["detail"]), said.get("ended")
        )

    def pause_at_hand(self) -> Pause | None:
        """Give the pause that the latest process wrote down: one of an earlier process is over."""
        pause = self.pause()
        return pause if pause is not None and str(pause.start) == fact(self._store, "start") else None

    def note_refusal(self, refusal: Refusal) -> None:
        """Write down that a new configuration was refused; one that is taken is another start of the ledger."""
        self._write(_REFUSED, {"start": refusal.start, "at": refusal.at, "mistake": refusal.mistake})

    def refusal_at_hand(self) -> Refusal | None:
        """Give the refusal that the latest process wrote down: one of an earlier process is over."""
        said = self._read(_REFUSED)
        if said is None or str(said["start"]) != fact(self._store, "start"):
            return None
        return Refusal(int(said["start"]), float(said["at"]), str(said["mistake"]))

    def note_unsettled(self, unsettled: Unsettled) -> None:
        """Write down how many files are not at rest yet."""
        self._write(_UNSETTLED, {"count": unsettled.count, "overflowed": unsettled.overflowed})

    def unsettled(self) -> Unsettled:
        """Give how many files were not at rest when it was written down last."""
        said = self._read(_UNSETTLED)
        return Unsettled() if said is None else Unsettled(int(said["count"]), bool(said["overflowed"]))

    def undecided_audits(self) -> list[str]:
        """Name the folders of the service whose newest audit concluded nothing: it missed so much that a brake came."""
        sql = (
            "SELECT substr(name, ?) FROM facts WHERE name BETWEEN ? AND ? AND json_extract(value, '$.braked')"
            " ORDER BY name"
        )
        rows = self._store.rows(sql, len(AUDITED) + 1, AUDITED, AUDITED + "\U0010ffff")
        return [str(row[0]) for row in rows]

    def _write(self, name: str, said: dict[str, Any] | None) -> None:
        value = None if said is None else json.dumps(said)
        self._store.write(lambda conn: set_fact(conn, name, value))

    def _read(self, name: str) -> dict[str, Any] | None:
        value = fact(self._store, name)
        return None if value is None else json.loads(value)


def _of(job: str) -> str:
    return "last_scan" if job == "rescan" else f"last_{job}"

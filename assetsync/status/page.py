"""Render the status page from a `SiteStatus` and the live values, by a template.

Texts from outside pass `printable` and `redact` first. Serving the page is left to `server`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from assetsync.core.brakes import released_by
from assetsync.ledger.metadata_drift import NOT_AS_SENT, drift_of
from assetsync.ledger.reports import BlockedGroup
from assetsync.ledger.rows import FileRow
from assetsync.ledger.runs import JOBS, SECONDS, Hour
from assetsync.log import redact
from assetsync.model import State
from assetsync.status.document import folders
from assetsync.status.sentences import (
    about,
    headline,
    held_by_doubts,
    is_command,
    left_to_send,
    log_unread,
    next_step,
    pause_command,
    pause_end,
    percent,
    settled_by,
    step_for,
    step_of,
    step_of_each,
    steps_of_many,
    unanswered,
    vanished_from,
    why_blocked,
)
from assetsync.status.shell import When, ago, coded, shell
from assetsync.status.site_status import DriftGroup, Live, SiteStatus
from assetsync.text import amount, files, moment, named_path, printable, quoted, runnable, span

_FULL = 100.0
_LEAST = 2.0


@dataclass(frozen=True, slots=True)
class Bar:
    """One hour: its height in percent of the highest, its start and end as text, its uploads and their size."""

    height: float
    hours: str
    uploads: int
    size: str

    @property
    def text(self) -> str:
        """Return the bar in words."""
        return f"{self.hours}: {files(self.uploads)}, {self.size}"


@dataclass(frozen=True, slots=True)
class Chart:
    """The bars from the oldest to the current hour, the sums, the top of the scale and the labels of the time axis."""

    bars: tuple[Bar, ...]
    uploads: int
    size: str
    most: int
    first: str
    middle: str

    @property
    def text(self) -> str:
        """Return the chart in words, for readers who cannot see the picture."""
        return f"{files(self.uploads)} uploaded in {len(self.bars)} hours, at most {self.most:,} in one hour"


def draw(hours: Sequence[Hour]) -> Chart:
    """Return the chart of the hours; times of day are in the server's local time, as its administrator reads them."""
    most = max((hour.uploads for hour in hours), default=0)
    bars = tuple(
        Bar(
            # Keep an hour with a single upload visible beside an hour with a million.
            max(_LEAST, _FULL * hour.uploads / most) if hour.uploads else 0.0,
            f"{_clock(hour.start)}–{_clock(hour.start + SECONDS)}",  # noqa: RUF001 - a range, as it is printed
            hour.uploads,
            amount(hour.bytes),
        )
        for hour in hours
    )
    return Chart(
        bars,
        sum(hour.uploads for hour in hours),
        amount(sum(hour.bytes for hour in hours)),
        most,
        _clock(hours[0].start) if hours else "",
        _clock(hours[len(hours) // 2].start) if hours else "",
    )


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M")


_WAY = (
    (State.QUEUED, "Waiting", "to be sent"),
    (State.SENDING, "Sending", "being sent now"),
    (State.STORED, "Stored", "to be read back"),
    (State.VERIFIED, "Verified", "read back and equal"),
)
_ASIDE = (
    (State.IN_DOUBT, "In doubt", "answer lost, being looked up"),
    (State.BLOCKED, "Blocked", "an operator must act"),
)
_NAMES = {state: state.words.capitalize() for state in State} | {state: name for state, name, _ in (*_WAY, *_ASIDE)}
_WORK = {
    "rescan": "compare the whole tree with the ledger",
    "index": "ask the service to index what it cannot find",
    "verify": "read back what was stored",
    "audit": "compare the service's folders with the ledger",
}
_WATCHING = {
    "inotify": "New files are noticed at once: the kernel reports every change in the mapped folders.",
    "polling": "The tree is scanned every minute: the kernel does not report changes in it.",
    "off": "Nothing is watched: only the scan finds new files.",
}
_DRIFTS = {
    "metadata": "Metadata other than in the tree",
    "sidecar": "Sidecar cannot be read",
    "options": "Options of the upload other than now",
    "elsewhere": "In another folder",
    NOT_AS_SENT: "Not kept by the service",
}
_TOO_FEW = "Not every folder can be watched, so the tree is scanned every minute. The log names the reason."


class Page:
    """The status page of one site; any thread may render it."""

    def __init__(self) -> None:
        self._shell = shell("page.html", "page.css")

    @property
    def policy(self) -> str:
        """The Content-Security-Policy of the page."""
        return self._shell.policy

    def render(self, status: SiteStatus, live: Live, now: float) -> str:
        """Return the document; ages are counted up to `now`, in seconds since the epoch."""
        return self._shell.render(_said(status, live, now))


def _said(status: SiteStatus, live: Live, now: float) -> dict[str, Any]:
    """Return the values that the template shows."""
    counts, pause, scan, oldest = status.counts, status.paused, status.last_scan, status.oldest

    def tiles(states: tuple[tuple[State, str, str], ...]) -> list[dict[str, Any]]:
        return [{"state": s, "name": name, "means": means, "count": counts.of(s)} for s, name, means in states]

    return {
        "site": status.site,
        "badge": status.badge,
        "verdict": _shown(headline(status)),
        "at": ago(now, status.at),
        "way": tiles(_WAY),
        "aside": tiles(_ASIDE),
        "unsettled": live.settling,
        "verified_bytes": amount(counts.bytes_verified),
        "late": live.late,
        "progress": _progress(status),
        "unanswered": None if status.unanswered is None else _shown(unanswered(status)),
        "brakes": [
            {
                "detail": _shown(brake.detail),
                "at": ago(now, brake.pulled_at),
                "release": released_by(brake.kind).capitalize(),
                "help": f"assetsync resume {brake.id}",
            }
            for brake in status.brakes
        ],
        "no_room": None if status.without_room is None else _shown(status.without_room),
        "paused": None if pause is None else {"detail": _shown(pause.detail), "at": ago(now, pause.since)},
        "pauses": [
            {
                "what": _shown(named_path(pause.path)),
                "who": _shown(pause.who),
                "why": _shown(pause.why),
                "at": ago(now, pause.since),
                "end": pause_end(pause, now),
                "help": pause_command(pause),
            }
            for pause in status.pauses
        ],
        "held_up": None if (waits := held_by_doubts(status)) is None else _shown(waits),
        "key_refused": pause is not None and pause.reason == "key_refused",
        "refused": None
        if status.refused is None
        else {
            "mistake": _shown(status.refused.mistake),
            "at": ago(now, status.refused.at),
            "reload": _shown("`systemctl reload assetsync@SITE`"),
        },
        "log_unread": None if (behind := log_unread(status)) is None else _shown(behind),
        "holds": _holds(status, by_itself=True),
        "wrong_folders": _holds(status, by_itself=False),
        "vanished": vanished_from(status),
        "vanished_last": _vanished(status, now),
        "missing": [_shown(name) for name in status.missing_folders],
        "unreadable": None if status.unreadable is None else _shown(status.unreadable),
        "undecided": [_shown(folder) for folder in status.undecided],
        "index_stopped": None if status.index_stopped is None else _shown(status.index_stopped),
        "wrong_address": None if status.wrong_address is None else _shown(status.wrong_address),
        "blocked": [_blocked(group) for group in status.blocked_groups],
        "waiting_for_sidecar": files(counts.waiting_for_sidecar) if counts.waiting_for_sidecar else None,
        "doubts": [_named(row, about(row, row.detail or row.reason or "")) for row in status.doubts],
        "more_doubts": max(0, status.in_doubt - len(status.doubts)),
        "drift": [_drifted(group) for group in status.drift_groups],
        "adopted_differing": None if not status.adopted_differing else files(status.adopted_differing),
        "settled_by": redact(settled_by(status)),
        "more_drift": status.drift_count - sum(group.files for group in status.drift_groups),
        "oldest": None
        if oldest is None
        else {
            "path": _shown(oldest.path),
            "age": span(max(0.0, now - oldest.queued_at)),
            "state": oldest.state.words,
        },
        "chart": draw(status.hours),
        "folders": folders(status),
        "states": [(s, _NAMES[s]) for s in State if counts.of(s)],
        "scan": None if scan is None else {"complete": scan.complete, "unreadable": scan.unreadable},
        "jobs": [_job(job, status, live, now) for job in JOBS],
        "work_is_fine": _work_is_fine(status, live),
        "watcher_is_fine": live.trust.mode != "inotify" or not live.trust.polling,
        "trust": live.trust,
        "watching": _TOO_FEW if live.trust.mode == "inotify" and live.trust.polling else _WATCHING[live.trust.mode],
        "canary": ago(now, live.trust.canary_at),
        "version": live.version,
        "started": ago(now, live.started_at),
    }


def _holds(status: SiteStatus, *, by_itself: bool) -> list[tuple[str, str]]:
    """Return the held folders, and why, whose hold ends by itself, or those that need a person."""
    held = sorted(status.holds.items())
    return [(_shown(folder), _shown(hold.detail)) for folder, hold in held if hold.ends_by_itself is by_itself]


def _job(job: str, status: SiteStatus, live: Live, now: float) -> dict[str, Any]:
    run, following = status.last_runs.get(job), live.next_runs.get(job)
    return {
        "name": job,
        "does": _WORK[job],
        "last": ago(now, None if run is None else run.at),
        "idle": run is not None and run.idle,
        "took": "-" if run is None or run.seconds is None else _took(run.seconds),
        "next": When("off", None) if following is None else When(f"in {span(following - now)}", moment(following)),
    }


def _work_is_fine(status: SiteStatus, live: Live) -> bool:
    """Whether all regular work can be done and the last scan read everything, so that its table is folded away."""
    scan = status.last_scan
    is_complete = scan is None or scan.complete
    return is_complete and not live.late and status.paused is None and status.unanswered is None


def _progress(status: SiteStatus) -> dict[str, Any] | None:
    going = status.progress
    if going is None:
        return None
    return {"percent": int(going.share * _FULL), "share": percent(going.share), "left": left_to_send(going)}


def _vanished(status: SiteStatus, now: float) -> dict[str, Any] | None:
    """Return the last scan that found files gone."""
    if not status.vanished:
        return None
    newest = status.vanished[-1]
    return {
        "at": ago(now, newest.at),
        "count": newest.count,
        "known": newest.known,
        "names": [_shown(name) for name in newest.names],
        "more": newest.count - len(newest.names),
    }


def _drifted(group: DriftGroup) -> dict[str, Any]:
    return {
        "count": group.files,
        "kind": _DRIFTS[group.reason],
        "files": _listed(group.first, [drift_of(row) for row in group.first]),
        "more": group.files - len(group.first),
    }


def _took(seconds: float) -> str:
    return f"{max(0.1, seconds):.1f} s" if seconds < 60 else span(seconds)  # noqa: PLR2004 - a minute


def _blocked(group: BlockedGroup) -> dict[str, Any]:
    """Return a group of blocked files, with what helps."""
    first = group.first[0]
    step = step_of(first) if group.files == 1 else step_for(group.reason)
    if group.files > 1:
        command: str | None = next(steps_of_many(group.folder, group.reason or ""))
        whole = step.startswith("`assetsync retry {path}")
        step = step_of_each(group.reason)
    else:
        whole = is_command(first)
        command = next_step(first) if whole else None
    return {
        "reason": (group.reason or "blocked").replace("_", " "),
        "anchor": group.reason or "a-file-is-blocked",
        "count": group.files,
        "files": _listed(group.first, [why_blocked(row) for row in group.first]),
        "more": group.files - len(group.first),
        "command": None if command is None else redact(command),
        # The path is put in last: a backtick in it marks no code.
        "help": None if whole else coded(runnable(step)).replace("{path}", redact(quoted(first.path))),
    }


def _listed(rows: Sequence[FileRow], whys: Sequence[str | None]) -> list[dict[str, Any]]:
    """Return the files of a group: a detail that is the same as that of the file before is shown once."""
    return [
        _named(row, None if why == before else why) for row, why, before in zip(rows, whys, [None, *whys], strict=False)
    ]


def _named(row: FileRow, why: str | None) -> dict[str, Any]:
    return {"path": _shown(row.path), "why": _shown(why or "")}


def _shown(text: str | bytes) -> str:
    return redact(runnable(printable(text)))

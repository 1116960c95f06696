"""Write the status of a site as one JSON object, for `status --json` and `/status.json`.

Reading the status is left to `site_status`, its sentences to `sentences`.
"""

from dataclasses import asdict
from typing import Any

from assetsync.core.pauses import OperatorPause
from assetsync.ledger.folders import Hold
from assetsync.ledger.metadata_drift import drift_of, reason_of
from assetsync.ledger.reports import Brake, Finding
from assetsync.ledger.rows import FileRow
from assetsync.ledger.runs import JOBS
from assetsync.model import State
from assetsync.status.sentences import headline, next_step, page_address, pause_command
from assetsync.status.site_status import SiteStatus
from assetsync.text import moment, path_keys, printable, runnable


def as_object(status: SiteStatus) -> dict[str, Any]:
    """Return the object; times are RFC 3339 in UTC, ages are seconds, paths that are not UTF-8 are also in base64."""
    counts = status.counts
    oldest, scan, pause, ended = status.oldest, status.last_scan, status.paused, status.ended_by
    held_up = status.held_up
    return {
        "site": status.site,
        "at": moment(status.at),
        "verdict": headline(status),
        "level": str(status.level),
        "in_sync": status.in_sync,
        "running": None if status.unseen else status.running,
        "not_running_since": moment(status.not_running_since),
        "verified": counts.of(State.VERIFIED),
        "pending": status.pending,
        "in_doubt": status.in_doubt,
        "blocked": counts.of(State.BLOCKED),
        "checked_again": counts.checked_again,
        "waiting_for_sidecar": counts.waiting_for_sidecar,
        "unsettled": status.unsettled.count,
        "bytes_verified": counts.bytes_verified,
        "states": {str(state): counts.of(state) for state in State if counts.of(state)},
        "folders": folders(status),
        "progress": None if (going := status.progress) is None else asdict(going),
        "unanswered_since": None if status.unanswered is None else moment(status.recent.unanswered_since),
        "oldest_waiting": None
        if oldest is None
        else _file(oldest) | {"since": moment(oldest.queued_at), "seconds": round(status.oldest_age, 3)},
        "hours": [{"start": moment(hour.start), "uploads": hour.uploads, "bytes": hour.bytes} for hour in status.hours],
        "brakes": [brake_object(brake) for brake in status.brakes],
        "paused": None
        if pause is None
        else {"since": moment(pause.since), "reason": pause.reason, "detail": pause.detail},
        "pauses": [pause_object(pause, status.at) for pause in status.pauses],
        "waiting_for_pauses": status.waiting_for_pauses,
        "held_by_doubts": None
        if held_up is None
        else {
            "since": moment(held_up.since),
            "everything": held_up.everything,
            "folders": list(held_up.folders),
            "decided_at": moment(held_up.decided_at),
        },
        "ended_by": None
        if ended is None
        else {
            "since": moment(ended.since),
            "ended_at": moment(ended.ended),
            "ended": moment(ended.ended),
            "reason": ended.reason,
            "detail": ended.detail,
        },
        "holds": [hold_object(folder, hold) for folder, hold in sorted(status.holds.items())],
        "blocked_reasons": [
            {"reason": group.reason, "blocked": group.files, "below": printable(group.folder)}
            for group in status.blocked_groups
        ],
        "blocked_files": [_file(row) | {"help": runnable(next_step(row))} for row in status.blocked],
        "doubts": [_file(row) | {"help": runnable("assetsync doubt list")} for row in status.doubts],
        "drift": [Finding.of(row, reason_of(row), drift_of(row)).as_object() for row in status.drifted],
        "drift_count": status.drift_count,
        "adopted_differing": status.adopted_differing,
        "index_stopped": status.index_stopped,
        "wrong_address": status.wrong_address,
        "without_room": status.without_room,
        "config_refused": None
        if status.refused is None
        else {
            "at": moment(status.refused.at),
            "detail": status.refused.mistake,
            "mistake": status.refused.mistake,
        },
        "page": None
        if status.page is None
        else {"address": page_address(status), "detail": status.page.trouble or None},
        "log_unread": None
        if status.log_unread is None
        else {
            "since": moment(status.log_unread.since),
            "dropped": status.log_unread.dropped,
            "detail": status.log_unread.detail,
        },
        "sends_from": moment(status.sends_from),
        "last_scan": None
        if scan is None
        else {
            "at": moment(scan.at),
            "complete": scan.complete,
            "unreadable": scan.unreadable,
            "missing": list(scan.missing),
            "stray_sidecars": scan.stray,
        },
        "vanished": [asdict(each) | {"at": moment(each.at), "paths": each.names} for each in status.vanished],
        "scan_age_seconds": None if status.scan_age is None else round(status.scan_age, 3),
        "last_runs": {
            job: {"at": moment(run.at), "seconds": run.seconds, "idle": run.idle}
            for job in JOBS
            if (run := status.last_runs.get(job)) is not None
        },
    }


def folders(status: SiteStatus) -> list[dict[str, Any]]:
    """Return the counts by folder of the service, with the paths mapped to each; a former folder has no paths."""
    paths: dict[str, list[str]] = {}
    for folder in status.folders:
        paths.setdefault(folder.destfolderid, []).append(printable(folder.path))
    former = sorted(set(status.counts.folders) - set(paths))
    return [
        {
            "destfolderid": name,
            "paths": paths.get(name, []),
            "states": {
                str(state): count for state in State if (count := status.counts.folders.get(name, {}).get(state, 0))
            },
        }
        for name in [*paths, *former]
    ]


def brake_object(brake: Brake) -> dict[str, Any]:
    """Return a brake with the command that releases it; `kind` is the older name of `reason`."""
    return {
        "id": brake.id,
        "reason": brake.kind,
        "kind": brake.kind,
        "subject": brake.subject,
        "detail": brake.detail,
        "pulled_at": moment(brake.pulled_at),
        "help": runnable(f"assetsync resume {brake.id}"),
    }


def pause_object(pause: OperatorPause, now: float) -> dict[str, Any]:
    """Return a pause by a person, with the command that ends it; `until` is null for a pause without an end."""
    return path_keys(pause.path or b".") | {
        "who": pause.who,
        "detail": pause.why,
        "since": moment(pause.since),
        "until": moment(pause.ends_at(now)),
        "help": runnable(pause_command(pause)),
    }


def hold_object(destfolderid: str, hold: Hold) -> dict[str, Any]:
    """Return the hold of a folder; `since` is null if an older release began it."""
    times = {"since": moment(hold.since), "until": moment(hold.until)}
    return {"destfolderid": destfolderid, "reason": hold.reason, "detail": hold.detail, **times}


def _file(row: FileRow) -> dict[str, Any]:
    return Finding.of(row, row.reason, row.detail).as_object()

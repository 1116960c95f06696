"""`assetsync reconcile`: one run, its summary and its exit code. The run itself is left to `reconcile`."""

import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assetsync import INTERRUPTED
from assetsync.app import Site, build
from assetsync.cli.daemon_user import key_reader
from assetsync.cli.entry import NO_SERVICE, NOT_IN_SYNC, OK, limit_heaps, stopping
from assetsync.cli.operator import act, open_service
from assetsync.cli.options import seconds, with_config, with_json
from assetsync.cli.output import making_temporary, note, warn, write, write_data, write_json
from assetsync.cli.progress import on_stderr
from assetsync.clock import SystemClock
from assetsync.config import SiteConfig, key_file, key_file_warning
from assetsync.config.key import read_heartbeat
from assetsync.errors import LedgerBusy, LedgerDenied, UsageError
from assetsync.ledger.file.ledger_files import exists
from assetsync.ledger.ledger import Ledger, open_ledger, read_ledger
from assetsync.ledger.runs import PASS, LastHolder
from assetsync.log import configure_logging, log_uncaught
from assetsync.parts import expect_root
from assetsync.reconcile import Reconciler, Report, dry_run
from assetsync.status.sentences import failure, leftovers, missing_folders, not_there, sent_from, unsettled
from assetsync.status.site_status import read_status
from assetsync.sync.intake.intake import Planned
from assetsync.sync.requests.decisions import Adopt
from assetsync.text import amount, files, path_keys, plural, printable, runnable

if TYPE_CHECKING:
    from assetsync.notify.heartbeat import Monitor

KEYS = (
    "site",
    "scanned",
    "unchanged",
    "uploaded",
    "adopted",
    "vanished",
    "left_out",
    "bytes_uploaded",
    "seconds",
    "verified",
    "pending",
    "in_doubt",
    "blocked",
    "checked_again",
    "in_sync",
    "dry_run",
)


# Seconds after a signal until the service is closed: longer than the run itself waits for its workers.
_PATIENCE = 15.0


@click.command("reconcile")
@with_config
@click.option(
    "--dry-run",
    "only_look",
    is_flag=True,
    help="Only count what would be sent. No file is read, so a file that was renamed, moved or touched counts as an"
    " upload, although a run would not send it. Works beside a daemon.",
)
@click.option(
    "--list",
    "as_list",
    is_flag=True,
    help="With --dry-run: print a line for each file that would be sent, is blocked or is gone; the summary on stderr.",
)
@with_json("Print one object, whatever the exit code; with --list one object a line.")
@click.option(
    "--wait",
    default="5m",
    show_default=True,
    metavar="TIME",
    callback=seconds,
    help="How long to wait for doubts, indexing and outages, after the last answered upload or from the start of an"
    " outage; 0s makes one pass.",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="List the folders of the service first, and adopt equal assets. Beside a daemon, the daemon does it; see"
    " `assetsync schema retry` for its --json.",
)
@click.option("--quiet", is_flag=True, help="Show no progress on stderr, and only warnings in the log.")
def command(
    config: SiteConfig, *, only_look: bool, as_list: bool, as_json: bool, wait: float, adopt: bool, quiet: bool
) -> int:
    """Mirror the tree into the service once.

    Scan the tree, upload missing files, look up uploads whose answer was lost, request indexing, and verify the assets.
    The command ends when all is in sync, when waiting longer would not help, or after --wait.

    \b
    Examples:
      assetsync reconcile --config /etc/assetsync/hq.yaml
      assetsync reconcile --config hq.yaml --dry-run
      assetsync reconcile --config hq.yaml --dry-run --list | less
      assetsync reconcile --config hq.yaml --json --wait 30s
      assetsync reconcile --config hq.yaml --adopt     # a folder that was filled by hand
    """
    if as_list and not only_look:
        raise UsageError("--list shows what a run would do", hint="add --dry-run")
    with_bar = sys.stderr.isatty() and not quiet and not only_look and config.log.level != "debug"
    level = "warning" if (quiet or with_bar) and config.log.level in ("debug", "info") else config.log.level
    _warn_of_key(config)
    limit_heaps()
    heartbeat = None if only_look else _heartbeat(config)
    ledger: Ledger | None = None
    with ExitStack() as stack:
        clock = SystemClock()
        ends: list[Callable[[], None]] = []
        stack.enter_context(stopping(clock.stop, ends, patience=_PATIENCE))
        try:
            service = stack.enter_context(open_service(config))
            ends.append(service.close)
            ledger = _opened(config, stack, only_look=only_look)
            with on_stderr(as_bar=with_bar, quiet=quiet or only_look) as progress:
                # Only after the bar has started: it replaces stderr, so that log lines do not break the bar.
                configure_logging(config.log.format, level, stream=sys.stderr)
                log_uncaught()
                if heartbeat is not None:
                    heartbeat.begin()
                site = build(config, ledger, service, clock, random.SystemRandom())
                if only_look:
                    report = dry_run(site, partial(_list, as_json=as_json)) if as_list else dry_run(site)
                else:
                    timer = _timer(os.environ, ledger)
                    ledger.runs.record(LastHolder, LastHolder(PASS, clock.now(), timer))
                    report = Reconciler(site, wait=wait, adopt=adopt, progress=progress).run()
                    ledger.runs.record(LastHolder, LastHolder(PASS, clock.now(), timer))
            if not only_look and not report.interrupted:
                _notify(site, report, heartbeat)
        except (LedgerBusy, LedgerDenied) as error:
            # The process that holds the ledger does the work, and reports its problems; or the wrong user ran this.
            if not adopt or isinstance(error, LedgerDenied):
                raise
            act(config, Adopt(), as_json=as_json)
            return OK
        except Exception as error:
            if not only_look:
                # A start that fails has not come to this yet.
                configure_logging(config.log.format, level, stream=sys.stderr)
                _notify_failed(config, error, ledger, heartbeat)
            raise
        if as_list:
            note(_verdict(report, only_look=True))
        else:
            _show(report, site, only_look=only_look, as_json=as_json)
    return _code(report)


def _heartbeat(config: SiteConfig) -> "Monitor | None":
    address = read_heartbeat(config, os.environ)
    if address is None:
        return None
    from assetsync.notify.heartbeat import Monitor  # noqa: PLC0415 - slow to load, and rarely needed

    return Monitor(config, address)


def _notify(site: Site, report: Report, heartbeat: "Monitor | None") -> None:
    """Report the problems at the end of a run, and the end."""
    if _has_receivers(site.config):
        from assetsync.notify.notifications import notify_once  # noqa: PLC0415 - slow to load, and rarely needed

        notify_once(site, os.environ)
    if heartbeat is not None:
        status = read_status(site.config.outline, site.context.ledger, site.context.clock.now(), running=False)
        heartbeat.end(lives=_code(report) < NO_SERVICE, failure=failure(status))


def _notify_failed(config: SiteConfig, error: Exception, ledger: Ledger | None, heartbeat: "Monitor | None") -> None:
    """Report the error that ends a run."""
    if _has_receivers(config):
        from assetsync.notify.notifications import notify_failed  # noqa: PLC0415 - as above

        notify_failed(config, os.environ, SystemClock(), error, ledger)
    if heartbeat is not None:
        heartbeat.end(lives=False, failure="the run ended because of an error")


def _has_receivers(config: SiteConfig) -> bool:
    return config.notify.webhook is not None or bool(config.notify.command)


_PAUSES_OF_A_CALENDAR = 8
"""Times of a calendar that are looked at: they include a weekend, if the timer leaves it out."""
_TOOL_SECONDS = 10.0


def _timer(environ: Mapping[str, str], ledger: Ledger) -> float | None:
    """Return the longest pause of the timer that started this process, in seconds: 0.0 if its calendar is unknown.

    A run by hand leaves the expectation as it is: return the pause of the earlier pass, None without a timer.
    """
    unit = environ.get("TRIGGER_UNIT", "")  # set by systemd
    if not unit.endswith(".timer"):
        before = ledger.runs.recorded(LastHolder)
        return None if before is None or before.command != PASS else before.timer
    shown = _said("systemctl", "show", "--property=TimersCalendar", unit)
    calendars = re.findall(r"OnCalendar=(.*?) ;", shown)
    return min((_longest_pause(calendar) for calendar in calendars), default=0.0)


def _longest_pause(calendar: str) -> float:
    shown = _said("systemd-analyze", "calendar", f"--iterations={_PAUSES_OF_A_CALENDAR}", calendar)
    times = [datetime.fromisoformat(time) for time in re.findall(r"[0-9-]{10} [0-9:]{8}(?= UTC$)", shown, re.MULTILINE)]
    return max(((after - before).total_seconds() for before, after in pairwise(times)), default=0.0)


def _said(*command: str) -> str:
    """Return what a tool of systemd prints, "" if it fails."""
    environ = os.environ | {"TZ": "UTC", "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603 - its words are this program's and systemd's
            command, capture_output=True, text=True, env=environ, timeout=_TOOL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _warn_of_key(config: SiteConfig) -> None:
    problem = key_file_warning(key_file(config, os.environ), key_reader(config))
    if problem is not None:
        warn(problem)


def _code(report: Report) -> int:
    if report.interrupted:
        return INTERRUPTED
    if report.trouble is not None:
        return NO_SERVICE
    return OK if report.in_sync else NOT_IN_SYNC


def _list(planned: Planned, *, as_json: bool) -> None:
    """Print what a run would do with a file."""
    if as_json:
        write_json(planned._asdict() | path_keys(planned.path))
        return
    size = "-" if planned.size is None else f"{planned.size:,}"
    into = f"{printable(planned.path)} → {planned.destfolderid}"
    write_data(f"{planned.action:<8}  {size:>15}  {into}  ({runnable(planned.detail)})")


def _opened(config: SiteConfig, stack: ExitStack, *, only_look: bool) -> Ledger:
    """Open the ledger for sending, or to look into it: without one, a temporary empty one.

    None is created for a new site whose root cannot be opened.
    """
    if only_look and not exists(config.ledger):
        with making_temporary():
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="assetsync-"))
        return stack.enter_context(closing(open_ledger(Path(folder) / "empty.db", is_scratch=True)))
    if only_look:
        return stack.enter_context(closing(read_ledger(config.ledger, site=config.site)))
    if not exists(config.ledger):
        expect_root(config)
    return stack.enter_context(closing(open_ledger(config.ledger, site=config.site)))


def _show(report: Report, site: Site, *, only_look: bool, as_json: bool) -> None:
    """Print the report as JSON; or the verdict in one line, then what is out of sync and the next steps."""
    if as_json:
        values = {"dry_run": only_look}
        write_json({key: values[key] if key in values else getattr(report, key) for key in KEYS})
        return
    write(_verdict(report, only_look=only_look))
    if report.trouble is not None:
        write(f"the service: {printable(report.trouble)}")
        write("    `assetsync check` shows what answers; the next run goes on where this one stopped")
    # The sentences below do not depend on whether a process sends. So a dry run does not look at the lock file, which
    # its user may not be allowed to read.
    status = read_status(site.config.outline, site.context.ledger, site.context.clock.now(), running=not only_look)
    if report.unreadable and (only_look or status.unreadable is None):
        write(f"unreadable, files and folders: {report.unreadable:,}; nothing is concluded about them")
        write("    `assetsync check` lists them")
    for reason in report.would_brake:
        write(f"a run would pull the brake: {printable(reason)}")
    for line in missing_folders(report.missing):
        write(line)
    for line in leftovers(status):
        write(line)
    pending = report.pending - status.counts.waiting_for_sidecar
    if pending > 0 and not only_look and not report.interrupted:
        opens = sent_from(status)
        after = "" if opens is None else f", {opens}"
        after += f"; {status.waiting_for_pauses:,} wait until a pause ends" * bool(status.waiting_for_pauses)
        write(f"pending: {files(pending)}; another run goes on with them{after}")
        for line in unsettled(status):
            write(line)


def _verdict(report: Report, *, only_look: bool) -> str:
    seen = f"{report.scanned:,} scanned, {report.unchanged:,} unchanged"
    seen += f", {report.vanished:,} vanished" if report.vanished else ""
    seen += f", {report.left_out:,} left out that were sent before" if report.left_out else ""
    if only_look:
        size = f"{files(report.uploaded)} ({amount(report.bytes_uploaded)})"
        would = f"would upload at most {size}" if report.uploaded else "nothing to upload"
        cut = "" if report.finished else "; the scan did not reach the end of the tree"
        cut += f"; not in sync: {', '.join(left)}" if (left := _left(report)) else ""
        return f"{report.site}: {would}; {seen}{cut}"
    done = f"{report.uploaded:,} uploaded ({amount(report.bytes_uploaded)}), {report.adopted:,} taken over"
    if report.interrupted:
        verdict = "interrupted"
    elif report.in_sync:
        verdict = f"in sync, {files(report.verified)} verified"
    else:
        verdict = f"not in sync: {', '.join(_left(report)) or 'the tree could not be read completely'}"
    return f"{report.site}: {verdict}; {done}; {seen}; {report.seconds:.1f} s"


def _left(report: Report) -> list[str]:
    """Return the known reasons why the site is out of sync, with their counts."""
    left = (
        ("pending", report.pending),
        ("in doubt", report.in_doubt),
        ("blocked", report.blocked),
        ("being checked again", report.checked_again),
    )
    named = [f"{count:,} {name}" for name, count in left if count]
    named += [plural(report.braked, "brake")] * bool(report.braked)
    named += [not_there(report.missing)] * bool(report.missing)
    named += [f"{plural(report.undecided, 'folder')} to be audited"] * bool(report.undecided)
    return named

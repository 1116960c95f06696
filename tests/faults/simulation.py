"""The whole flow in simulated time, on one thread at a time: a real tree, a real ledger, the real client, no network.

Senders, the read-back of stored assets and the scan are fibers: each stands still in the middle of its work while other
things happen. A crash drops the site at any mark and any commit, and opens the ledger again. What happens is
`sim_actions`'s, drawn by `sim_schedule`; what must hold is `sim_checks`'s.
"""

import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import sqlite_utils
import structlog

from assetsync.app import Site, build
from assetsync.config import SiteConfig, load_config
from assetsync.core.names import LONGEST_NAME, MAX_SENT
from assetsync.errors import (
    AssetsyncError,
    IllegalTransition,
    LedgerError,
    OutOfResources,
    RootMissing,
    ServiceError,
    UsageError,
)
from assetsync.ledger.file.handle import Handle
from assetsync.ledger.ledger import open_ledger
from assetsync.ledger.rows import NO_SIDECAR
from assetsync.sync import observer
from assetsync.sync.intake.watch_queue import Looker, WatchQueue
from assetsync.sync.lookup_gates import trouble_of
from assetsync.sync.requests.take import read_request, take_requests
from assetsync.sync.upload import folder_listing
from assetsync.sync.upload.queue import Step
from assetsync.tree import body

from .baton import Baton, Crash
from .sim_answers import client_over
from .sim_by_hand import Hand
from .sim_checks import Checks, Violation
from .sim_clock import SimClock
from .sim_fields import expect_few_tries, is_new_field
from .sim_lies import LONG, SAMPLES, strangers_of
from .sim_pauses import Pauses
from .sim_refused import expect_held
from .sim_restless import Recording
from .sim_schedule import Variant
from .sim_service import SimService
from .sim_tree import CHUNK, FOLDERS, HELD, LACKING, SMALL, Files
from .sim_values import GRACE, Post

WORKERS = 2
REQUIRED_IN = "ab"
"""The mappings that require sidecars, in schedules in which any does."""
TOGETHER = 4
"""How many files may be under way at once where a sender takes several together."""
TOGETHER_CALLS = 12
"""How often such a sender may ask whether to go on: about three times a file."""
_MOST_IN_A_MOMENT = 10_000
"""Lines of the trace; a schedule has some hundred."""
DISK_FULL = "database or disk is full"
UNFORESEEN = "an error nobody foresaw"


class Writer(Handle):
    """The ledger's write connection, with a mark before and after each commit."""

    def __init__(self, handle: Handle, commit: Callable[[str], None]) -> None:
        sqlite_utils.Database.__init__(self, handle.conn, recursive_triggers=False, execute_plugins=False)
        self._tables = {}
        self._mark = commit

    def execute(self, sql, parameters=None):
        if sql != "COMMIT":
            return super().execute(sql, parameters)
        self._mark("before")
        done = super().execute(sql)
        self._mark("after")
        return done


def _in_turn(items: Iterator, *, depth: int) -> Generator:
    """Stand in for the thread that reads ahead: what is read when must be the same in every run."""
    yield from items


@contextmanager
def simulated_bodies():
    """Let files of a few bytes be what files of many megabytes are: read and checked in pieces while they leave."""
    kept = body.SMALL, body.CHUNK, body.ahead
    body.SMALL, body.CHUNK, body.ahead = SMALL, CHUNK, _in_turn
    try:
        yield
    finally:
        body.SMALL, body.CHUNK, body.ahead = kept


LONG_IN: tuple[ModuleType, ...] = (observer,)
"""The modules of the program that hold as `LONG` from how many rows on a listing without a total may be capped."""


@contextmanager
def simulated_listings():
    """Let a listing of a few rows be what one of hundreds is: long enough to be capped, and two files a sample."""
    kept, samples = [(module, module.LONG) for module in LONG_IN], folder_listing.SAMPLES
    for module in LONG_IN:
        module.LONG = LONG
    folder_listing.SAMPLES = SAMPLES
    try:
        yield
    finally:
        folder_listing.SAMPLES = samples
        for module, long in kept:
            module.LONG = long


class Simulation:
    """One run of one schedule; `trace` tells what happened."""

    def __init__(self, base: Path, variant: Variant) -> None:
        self.base = base
        self.variant = variant
        self.is_upgraded = False
        self.trace: list[str] = []
        self.clock = SimClock()
        self.clock.waited = lambda seconds: self.baton.mark() if seconds else self.baton.mark("scan")
        (base / "root").mkdir(parents=True)
        self.files = Files(base / "root", self.clock)
        self.service = SimService(self.clock, variant.habits())
        self.client = client_over(self.service, FOLDERS.values())
        self.baton = Baton((*(f"send-{n}" for n in range(WORKERS)), "read-back", "scan"))
        self.checks = Checks(self)
        self.service.mark = self._at
        self.service.note = self.note
        self.service.arrived = self._arrived
        self.recording = Recording(self)
        self.service.given_up = self.recording.given_up
        self.deaths = 0
        self.retried = 0
        """How often a person had files tried again before all was quiet."""
        self.forgot = False
        """Whether the ledger was lost, put back or rolled back."""
        self.service.made = self.checks.made
        self.service.used_ids = self._used_ids
        for folder, name, content in strangers_of(variant.lies):
            self.service.person(folder, name, content)
        self.config = self._config()
        self.crash_in = -1
        self.crash_reboots = False
        self.full_commits = 0
        self.commits = 0
        self.bad_commit = (-1, "")
        self.last_path = ""
        self.undescribed: set[str] = set()
        """The paths that a person let be sent without sidecars."""
        self.prepared: dict[int, str] = {}
        self.hand = Hand(self)
        self.pauses = Pauses(self)
        self.site: Site = self._open()

    # Starting and stopping.

    def _config(self) -> SiteConfig:
        said: dict[str, Any] = {
            "site": "sim",
            "root": str(self.base / "root"),
            "ledger": str(self.base / "ledger.db"),
            "service": {
                "base_url": "http://127.0.0.1:1/dam",
                "upload_url": "http://127.0.0.1:1/dam/index.cfm",
                "read_timeout": f"{GRACE:.0f}s",
            },
            "folders": [
                {"path": path, "destfolderid": folder, "sidecars": "required" if self._requires(path) else "on"}
                for path, folder in FOLDERS.items()
            ],
            "upload": {
                "workers": str(TOGETHER if self.variant.together else WORKERS),
                "doubt_grace": f"{GRACE:.0f}s",
                "lookup_lag": None if self.variant.lag else "0s",
            },
            "watch": {"settle": f"{self.variant.settle}s", "sidecar_wait": f"{self.variant.sidecar_wait}s"},
            "schedule": {"index": "60s", "verify": "60s"},
            "policy": {"on_remote_missing": "upload" if self.variant.resends else "report"},
        }
        if self.variant.default_limits:
            del said["service"]["read_timeout"], said["upload"]
        if self.variant.lacks:
            said["service"]["custom_fields"] = {"Lacking": LACKING, "Held": HELD}
            said["service"]["longest_name"] = str(LONGEST_NAME if self.is_upgraded else MAX_SENT)
        if self.variant.unprocessed_after:
            said["policy"]["unprocessed_after"] = f"{self.variant.unprocessed_after}s"
        file = self.base / "site.yaml"
        file.write_text(json.dumps(said))
        return load_config(file, {})

    def _requires(self, folder: str) -> bool:
        """Return whether files of a mapping wait for sidecars of their own."""
        return self.variant.requires_sidecars and folder in REQUIRED_IN

    def upgrade(self) -> None:
        """End the process, and begin a release that cuts names to what the service keeps."""
        self.is_upgraded = True
        self.config = self._config()
        self.die(reboot=False, why="for an upgrade")

    def waits_for_good(self, row) -> bool:
        """Return whether a queued row waits for a sidecar of its own, or because its field was tried in vain."""
        return self.waits_for_sidecar(row) or is_new_field(self, row)

    def waits_for_sidecar(self, row) -> bool:
        """Return whether a row waits for a sidecar of its own, as it should."""
        path = row.path.decode()
        return row.reason == NO_SIDECAR and self._requires(path[0]) and not self.files.has_own(path)

    def _expect_described(self, post: Post) -> None:
        """I15: no file of a mapping that requires sidecars is sent that never had one, unless a person said so."""
        if not self.variant.requires_sidecars:
            return
        sql = "SELECT f.path FROM attempts a JOIN files f ON f.id = a.file_id WHERE a.boundary = ?"
        for (raw,) in self.site.context.ledger.store.rows(sql, post.boundary):
            path = raw.decode()
            described = self.files.described | self.undescribed
            if self._requires(path[0]) and described.isdisjoint((path, path.rpartition(".")[0])):
                raise Violation(f"I15: {path} was sent without a sidecar of its own")

    def _open(self) -> Site:
        ledger = open_ledger(self.config.ledger)
        connection = ledger.store._writer
        assert connection is not None
        # What is simulated is the death of the process, not of the machine's disk.
        connection.execute("PRAGMA synchronous=OFF")
        ledger.store._commits._conn = Writer(connection, self._commit)  # type: ignore[union-attr]
        site = build(self.config, ledger, self.client, self.clock, random.Random(ledger.start_no))
        site.uploader.in_place = True
        site.uploads.results.patience = 30.0 if self.variant.one_shot else float("inf")
        prepare = site.preparer.prepare

        def prepare_and_stand(row, *said):
            ready = prepare(row, *said)
            if ready is not None:
                self.prepared[row.id] = row.path.decode()
                try:
                    self._at("prepared")
                except BaseException:
                    ready.file.close()
                    raise
                finally:
                    del self.prepared[row.id]
            return ready

        site.preparer.prepare = prepare_and_stand  # type: ignore[method-assign]
        submit_begin = ledger.queue.submit_begin

        def begin_unless_paused(intent, now):
            self.pauses.begins(intent)
            return submit_begin(intent, now)

        ledger.queue.submit_begin = begin_unless_paused  # type: ignore[method-assign]
        self.watch_queue = WatchQueue()
        self.looker = Looker(site.context, site.plan, site.single_looks, self.watch_queue, site.sidecars.cache)
        self.site = site
        site.begin()
        return site

    def die(self, *, reboot: bool, why: str) -> None:
        """End the process where it stands and begin another."""
        self.note(f"CRASH {why}{', the machine restarts' if reboot else ''}")
        self.deaths += 1
        self.crash_in, self.full_commits = -1, 0
        self.baton.kill()
        flying = self.site.context.ledger.store.rows("SELECT boundary FROM attempts WHERE ended_at IS NULL")
        self.service.drop({row[0] for row in flying})
        self.site.context.ledger.close()
        if reboot:
            self.hand.kill()
            self.clock.reboot()
            self.pauses.rebooted()
        self._open()

    def back_up(self) -> None:
        """Copy the ledger as it is, beside the process."""
        copy = self.base / "copy.db"
        copy.unlink(missing_ok=True)
        with closing(sqlite3.connect(self.config.ledger)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)

    def put_back(self, *, lost: bool) -> None:
        """Put the copy in the ledger's place, or nothing, once all that is on its way has come to its end."""
        self.note(f"the ledger is {'lost' if lost else 'put back from its copy'}")
        self.forgot = True
        self.pauses.forget()
        self.crash_in, self.full_commits = -1, 0
        self.baton.kill()
        self.site.context.ledger.close()
        self.service.speak_again()
        self.clock.advance(GRACE + self.service.habits.processing)
        self.service.settle()
        path = self.config.ledger
        for ending in ("", "-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
        if not lost and (self.base / "copy.db").exists():
            shutil.copyfile(self.base / "copy.db", path)
        self._open()

    def take_snapshot(self) -> None:
        """Stop the process in order, keep the ledger's disk as it is, and begin another."""
        self.note("the ledger's disk is kept as it is")
        self.crash_in, self.full_commits = -1, 0
        self.baton.kill()
        self.site.context.ledger.close()
        for kept, path in self._disk():
            shutil.copyfile(path, kept)
        self._open()

    def roll_back(self) -> None:
        """Put the whole disk back, the number beside the ledger included, once all on its way has come to its end."""
        self.note("the ledger's disk is rolled back")
        self.forgot = True
        self.pauses.forget()
        self.crash_in, self.full_commits = -1, 0
        self.baton.kill()
        self.site.context.ledger.close()
        self.service.speak_again()
        self.clock.advance(GRACE + self.service.habits.processing)
        self.service.settle()
        (kept, ledger), (_, number) = self._disk()
        if kept.exists():
            # A connection of a thread that died may still have the files open, and the log is not in the snapshot.
            for ending in ("", "-wal", "-shm"):
                ledger.with_name(ledger.name + ending).unlink(missing_ok=True)
            for kept, path in self._disk():
                shutil.copyfile(kept, path)
            # No program can set this time; a disk that is rolled back brings the old one with it.
            with closing(sqlite3.connect(ledger)) as conn, conn:
                changed = str(number.stat().st_ctime_ns)
                conn.execute("UPDATE facts SET value = ? WHERE name = 'clean_stop'", (changed,))
        self._open()

    def _disk(self) -> list[tuple[Path, Path]]:
        """Name the files of the ledger, each after its copy."""
        path = self.config.ledger
        return [(self.base / f"disk{end}", path.with_name(path.name + end)) for end in ("", ".epoch")]

    def close(self) -> None:
        self.crash_in, self.full_commits = -1, 0
        self.baton.close()
        self.hand.kill()
        self.site.context.ledger.close()
        shutil.rmtree(self.base)

    # Marks.

    def note(self, line: str) -> None:
        who = self.baton.running.name if self.baton.running else ""
        self.trace.append(f"{self.clock.true:9.2f} {who:9} {line}")

    def _at(self, place: str) -> None:
        self._may_crash(place)
        # A look-up that a sender makes (first contact) holds a lock: it stands still at no mark.
        if place not in ("asked", "read") or (self.baton.running and self.baton.running.name == "read-back"):
            self.baton.mark()

    def _arrived(self, post: Post) -> None:
        self.checks.posted(post)
        if self.variant.refuses:
            expect_held(post)
        self._expect_described(post)
        expect_few_tries(self, post)
        self.recording.arrived(post)

    def _used_ids(self) -> list[str]:
        """Give the ids that answers gave to files: those that a broken service may give again."""
        sql = "SELECT assetid FROM files WHERE id_from = 'answer' AND state IN ('stored', 'verified') ORDER BY id"
        return [row[0] for row in self.site.context.ledger.store.rows(sql)]

    def _commit(self, when: str) -> None:
        if when == "before":
            self.commits += 1
            if self.full_commits > 0 or self.bad_commit == (self.commits, "fails"):
                self.full_commits -= 1
                self.note("the disk is full")
                raise sqlite3.OperationalError(DISK_FULL)
        if self.bad_commit == (self.commits, f"dies {when}"):
            self.crash_in = 0
        self._may_crash(f"{when} a commit")

    def _may_crash(self, place: str) -> None:
        if self.crash_in >= 0:
            self.crash_in -= 1
            if self.crash_in < 0:
                self.note(f"  dies: {place}")
                raise Crash

    # The program's steps.

    def guarded(self, what: Callable[[], object], name: str) -> bool:
        """Run a step as the daemon's loops do; what nobody should see is a violation. False when the process died."""
        try:
            what()
        except Crash:
            self.die(reboot=self.crash_reboots, why=f"in {name}")
            return False
        except IllegalTransition as error:
            raise Violation(f"an illegal transition in {name}: {error}") from error
        except LedgerError as error:
            if DISK_FULL not in str(error):
                raise Violation(f"the ledger failed in {name}: {error}") from error
            if self.variant.one_shot:
                self.die(reboot=False, why=f"{name} ended with the disk full")
                return False
        except OutOfResources as error:
            if self.variant.one_shot:
                self.die(reboot=False, why=f"{name} ended without descriptors")
                return False
            self.site.gates.lacks(error)
        except AssetsyncError as error:
            raise Violation(f"an error nobody handles in {name}: {error!r}") from error
        except (sqlite3.Error, LookupError, TypeError, ValueError, RuntimeError) as error:
            raise Violation(f"{UNFORESEEN} in {name}: {error!r}") from error
        return True

    def start(self, name: str, work: Callable[[], object], marks: int) -> bool:
        fiber = self.baton.fibers[name]
        if fiber.busy:
            return False
        self.guarded(lambda: fiber.start(work, marks), name)
        return True

    def send(self, marks: int) -> bool:
        """Let an idle sender begin; False when all are busy or nothing may be sent."""
        idle = [f for f in self.baton.fibers.values() if f.name.startswith("send") and not f.busy]
        if not idle or self.site.brakes.pulled():
            return False
        uploader = self.site.uploader
        may_begin = iter([True] * TOGETHER_CALLS)
        work = (lambda: uploader.run(lambda: next(may_begin, False))) if self.variant.together else uploader.step
        self.start(idle[0].name, work, marks)
        return True

    def send_all(self) -> bool:
        """Let idle senders work until nothing more is due; return whether more may be.

        Where uploads take their time they send for a second, so that look-ups come between them.
        """
        sent: object = Step.WORKED
        until = self.clock.true + (1.0 if self.variant.upload_takes else float("inf"))
        began = self.clock.true, len(self.trace)
        while sent is Step.WORKED and self.clock.true < until:
            if self.clock.true == began[0] and len(self.trace) > began[1] + _MOST_IN_A_MOMENT:
                raise Violation("I7: senders work without end, and no time passes")
            idle = [f for f in self.baton.fibers.values() if f.name.startswith("send") and not f.busy]
            if not idle or not self.send(1_000):
                return False
            sent = None if idle[0].busy else idle[0].result
        return sent is Step.WORKED

    def read_back(self) -> None:
        """Do what the daemon's reading loop does in a pass."""
        site = self.site
        if take_requests(site.context):
            site.size_limit.reload()
        site.count_pauses()
        self.pauses.counted()
        try:
            if site.gates.closed is not None:
                if site.gates.check_due():
                    site.gates.check()
                return
            site.try_what_waited()
            site.folder_listing.try_held()
            site.resolver.step()
            site.indexer.step()
            site.verifier.step()
        except ServiceError as error:
            # As an upload would: only one on trial shows the end of the trouble.
            site.gates.failed(trouble_of(error))

    def scan(self) -> None:
        self.site.try_again()
        try:
            self.site.rescan.run()
            wants_scan, read = False, 1
            while read:
                read, wants_scan = self.site.rescan.read_again()
            if wants_scan:
                self.site.rescan.run()
        except RootMissing:
            # A daemon scans again, and so does each run.
            self.note("  no root to scan")
        self.read_drift()

    def read_drift(self) -> None:
        while self.site.drift.step():
            pass

    def look(self) -> None:
        self.looker.step(0)

    def audit(self) -> None:
        for folder in sorted(set(FOLDERS.values())):
            try:
                self.site.auditor.audit(folder)
            except ServiceError as error:
                self.note(f"audit: {error}")

    def person(self, verb: str, argument: dict[str, object]) -> None:
        try:
            asked = read_request(verb, argument)
            answer = asked.carry_out(self.site.context.ledger, self.client, self.clock)
        except (UsageError, ServiceError) as error:
            answer = str(error)
        self.site.size_limit.reload()
        self.site.upload_queue.clear()
        self.note(f"PERSON {verb}: {answer}")


@contextmanager
def heard(simulation: Simulation):
    """Put what the program logs into the trace, as words that are the same in every run."""

    def keep(_logger, _method, event):
        simulation.checks.heard.append(repr(event))
        words = " ".join(f"{k}={event[k]}" for k in ("path", "reason", "assetid", "kind") if event.get(k) is not None)
        simulation.note(f"  {event['event']} {words}")
        raise structlog.DropEvent

    kept = structlog.get_config()
    structlog.configure(processors=[keep], wrapper_class=structlog.make_filtering_bound_logger(0))
    try:
        yield
    finally:
        structlog.configure(**kept)

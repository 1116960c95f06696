"""How a site stands, and the sentence that says it.

Covers `ledger/reports.py` and `status/sentences.py`.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from assetsync.core.notices import DELAYS
from assetsync.core.states import Event
from assetsync.ledger.queue import Intent
from assetsync.ledger.rows import apply
from assetsync.ledger.runs import HeldUp, LastScan, LogUnread, Pause, Run, Unsettled
from assetsync.model import State
from assetsync.status.board import _ICONS
from assetsync.status.document import as_object
from assetsync.status.sentences import (
    adopted_differing,
    failure,
    headline,
    is_command,
    leftovers,
    next_step,
    no_room,
    quoted,
    regular_work,
    scanned,
    sending,
    vanished,
    waiting,
)
from assetsync.status.site_status import Level, read_status

STOPPED = "Stopped by uploads in doubt for 4 min (the next can be decided in 1 min)"
ELSEWHERE = "the service has a new address and shows none of the known assets"


def paused(world, reason="unreachable", start=None, seconds=720):
    since = world.clock.now() - seconds
    said = {"start": start or world.ledger.start_no, "since": since, "reason": reason, "detail": "x"}
    world.ledger.set_fact("paused", json.dumps(said))


def held_up(world, *, everything=True, decided_in=100.0):
    now = world.clock.now()
    world.ledger.runs.record(HeldUp, HeldUp(world.ledger.start_no, now - 240, ("F1",), everything, now + decided_in))


def blocked(world, path="b", reason="different"):
    world.write(path, b"another content " + path.encode())
    world.scan()
    world.ledger.queue.block(world.row(path).id, reason, "it is so", world.clock.now())


def queued(world):
    world.write("q", b"waits")
    world.scan()


def verified(world):
    world.write("v")
    world.scan()
    world.live(200)
    world.scan()


def unsettled(world, count):
    world.ledger.runs.note_unsettled(Unsettled(count))


def missing(world):
    world.ledger.runs.scanned(LastScan(world.clock.now(), complete=False, unreadable=0, missing=("fotos",)), 0.1)


def unreadable(world):
    scan = LastScan(world.clock.now(), complete=False, unreadable=2, first_unreadable="d (Permission denied)")
    world.ledger.runs.scanned(scan, 0.1)


def braked(world):
    world.ledger.pull_brake("emptied", "photos", "it is empty now", 5, 1_700_000_000)


EMPTIED = "a mapped folder is empty or missing: 5 files missing since 2023-11-14 22:13 UTC"


@pytest.mark.parametrize(
    ("happened", "said"),
    [
        ([verified], ""),
        ([verified, blocked, missing, unreadable], ""),
        ([queued, held_up], ""),
        ([queued, paused], ""),
        ([queued, lambda world: paused(world, seconds=900)], "paused for 15 min (the service cannot be reached)"),
        (
            [braked, lambda world: paused(world, "key_refused", seconds=1)],
            f"paused for 1 s (the service refuses the API key), uploads stopped ({EMPTIED})",
        ),
    ],
)
def test_failure_is_a_brake_the_key_or_a_lasting_outage(world, happened, said):
    for each in happened:
        each(world)
    status = read_status(world.config().outline, world.ledger, world.clock.now(), running=True)
    assert failure(status) == said
    assert failure(replace(status, without_room="x")).endswith("ledger disk full")


def test_outage_fails_as_soon_as_it_is_reported():
    assert DELAYS.outage == 900


@pytest.mark.parametrize(
    ("happened", "level", "sentence"),
    [
        ([], Level.UNDER_WAY, "No complete scan yet."),
        ([verified], Level.IN_SYNC, "in sync: 1 file verified"),
        ([verified, queued], Level.UNDER_WAY, "In progress: 1 of 2 verified, 1 pending."),
        ([verified, blocked], Level.NEEDS_YOU, "1 of 2 verified, 1 needs you."),
        ([verified, unreadable], Level.NEEDS_YOU, "Action needed: 2 paths unreadable. 1 of 1 verified."),
        (
            [blocked, queued, braked],
            Level.NEEDS_YOU,
            f"Action needed: uploads stopped ({EMPTIED}). 0 of 2 verified, 1 needs you, 1 pending.",
        ),
        (
            [queued, paused],
            Level.UNDER_WAY,
            "Paused for 12 min (the service cannot be reached); 0 of 1 verified, 1 pending.",
        ),
        ([verified, paused], Level.UNDER_WAY, "Paused for 12 min (the service cannot be reached)."),
        (
            [queued, lambda world: paused(world, "key_refused")],
            Level.NEEDS_YOU,
            "Action needed: paused for 12 min (the service refuses the API key). 0 of 1 verified, 1 pending.",
        ),
        (
            [queued, lambda world: paused(world, "elsewhere")],
            Level.UNDER_WAY,
            f"Paused for 12 min ({ELSEWHERE}); 0 of 1 verified, 1 pending.",
        ),
        (
            [queued, held_up],
            Level.UNDER_WAY,
            f"{STOPPED}; 0 of 1 verified, 1 pending.",
        ),
        (
            [queued, lambda world: held_up(world, decided_in=-1)],
            Level.UNDER_WAY,
            (
                "Stopped by uploads in doubt for 4 min (the next is decided once look-ups prove what became of it);"
                " 0 of 1 verified, 1 pending."
            ),
        ),
        (
            [queued, lambda world: held_up(world, everything=False)],
            Level.UNDER_WAY,
            "In progress: 0 of 1 verified, 1 pending, 1 folder waiting for uploads in doubt.",
        ),
        (
            [queued, held_up, paused],
            Level.UNDER_WAY,
            "Paused for 12 min (the service cannot be reached); 0 of 1 verified, 1 pending.",
        ),
        (
            [queued, held_up, blocked],
            Level.NEEDS_YOU,
            f"0 of 2 verified, 1 needs you, 1 pending. {STOPPED}.",
        ),
        ([verified, held_up], Level.IN_SYNC, "in sync: 1 file verified"),
        ([verified, lambda world: unsettled(world, 3)], Level.UNDER_WAY, "In progress: 1 of 1 verified, 3 pending."),
        ([lambda world: unsettled(world, 3)], Level.UNDER_WAY, "In progress: 3 pending."),
        (
            [verified, blocked, lambda world: blocked(world, "c")],
            Level.NEEDS_YOU,
            "1 of 3 verified, 2 need you.",
        ),
        ([verified, missing], Level.NEEDS_YOU, "Action needed: 1 mapped folder is not there. 1 of 1 verified."),
        ([verified, lambda world: paused(world, start=999)], Level.IN_SYNC, "in sync: 1 file verified"),
    ],
    ids=[
        "new",
        "in sync",
        "queued",
        "blocked",
        "unreadable",
        "all",
        "outage",
        "idle outage",
        "key",
        "another service",
        "doubts",
        "overdue doubts",
        "doubts of a folder",
        "doubts and outage",
        "doubts and blocked",
        "doubts and nothing to send",
        "unsettled",
        "nothing known",
        "two blocked",
        "missing",
        "earlier process",
    ],
)
def test_verdict_is_one_sentence_and_one_level(shown, happened, level, sentence):
    for step in happened:
        step(shown.world)
    status = shown.status()
    assert (status.level, headline(status)) == (level, sentence)
    assert as_object(status)["verdict"] == sentence


@pytest.mark.parametrize(("subjects", "missing"), [(["site"], 700), (["a/", "b/"], 1400), (["site", "a/", "b/"], 700)])
def test_headline_counts_missing_files(world, subjects, missing):
    for subject in subjects:
        world.ledger.pull_brake("vanished", subject, "700 of 990 known files are gone", 700, world.clock.now())
    said = headline(read_status(world.config().outline, world.ledger, world.clock.now()))
    assert said.startswith(f"Action needed: uploads stopped (many files are gone: {missing:,} files missing since "), (
        said
    )


@pytest.mark.parametrize(
    ("age", "said"),
    [
        (7200, "23:45 UTC (2 h ago)"),
        (3 * 86400, "2026-11-20 23:45 UTC (3 d ago)"),
        (-60, "2026-11-23 23:45 UTC (0 s ago)"),
    ],
    ids=["today", "days ago", "the clock was set back"],
)
def test_idle_site_is_in_sync_since_last_scan(shown, age, said):
    verified(shown.world)
    scan = datetime(2026, 11, 20 if age > 86400 else 23, 23, 45, tzinfo=UTC).timestamp()
    shown.world.ledger.runs.scanned(LastScan(scan, complete=True, unreadable=0), 0.1)
    status = replace(shown.status(), at=scan + age, running=False, has_scanned=False)
    assert headline(status) == f"in sync at the last scan, {said}: 1 file verified"
    # A process that has not scanned since its start does not know what changed before.
    assert headline(replace(status, running=True)) == headline(status)
    assert headline(replace(status, running=True, has_scanned=True)) == "in sync: 1 file verified"
    assert (as_object(status)["in_sync"], as_object(status)["scan_age_seconds"]) == (True, max(0, age))


def test_file_moved_in_scan_is_not_unreadable(shown):
    """Of five paths that a scan could not read, four had moved: status needs a person for one."""
    unreadable(shown.world)
    runs = shown.world.ledger.runs
    runs.scanned(runs.last_scan()._replace(unreadable=5, moved=4), 0.1)
    status = shown.status()
    assert headline(status) == "Action needed: 1 path unreadable."
    assert scanned(status).endswith(
        ", not complete, 4 moved or replaced meanwhile, 1 unreadable: `assetsync check` lists them"
    )
    assert as_object(status)["last_scan"]["unreadable"] == 5


def test_unscheduled_readback_is_not_pending(shown):
    world = shown.world
    world.write("s")
    world.scan_and_send()
    assert (world.row("s").state, headline(shown.status())) == (
        State.STORED,
        "In progress: 0 of 1 verified, 1 pending.",
    )
    status = replace(shown.status(), reads_back=False)
    assert headline(status) == ("0 of 1 verified, 1 stored, not read back: schedule.verify and schedule.index are off.")
    assert (status.pending, status.in_sync, status.level) == (1, False, Level.UNDER_WAY)
    assert "stored: 1, not read back: schedule.verify and schedule.index are off" in list(leftovers(status))
    queued(world)
    assert headline(replace(shown.status(), reads_back=False)).startswith(
        "In progress: 0 of 2 verified, 1 pending, 1 stored, not read back"
    )


def test_abandoned_run_ranks_below_manual(shown):
    world = shown.world
    blocked(world)
    queued(world)
    status = replace(shown.status(), ended_by=Pause(1, 0.0, "unreachable", "x", world.clock.now() - 300), paused=None)
    assert headline(status) == (
        "0 of 2 verified, 1 needs you, 1 pending. The last run ended 5 min ago (the service cannot be reached)."
    )


def test_deleted_index_allows_no_idle_verdict(shown):
    verified(shown.world)
    shown.world.ledger.set_fact("index_stopped", "after searchIndex 5 of 5 were gone")
    status = shown.status()
    assert (status.level, status.in_sync) == (Level.NEEDS_YOU, True)
    assert headline(status) == "Action needed: indexing stopped. 1 of 1 verified."


def test_full_disk_allows_no_idle_verdict(shown):
    verified(shown.world)
    status = replace(shown.status(), without_room="the disk of /var/lib/assetsync has 12 KB left")
    assert (status.level, status.in_sync) == (Level.NEEDS_YOU, False)
    assert headline(status) == "Action needed: ledger disk full. 1 of 1 verified."
    assert [line.split(":")[0].strip() for line in no_room(status)] == [
        "ledger",
        "free space; nothing is lost, and sending resumes by itself within seconds",
    ]


def test_first_queued_version_waits_longest(shown):
    world = shown.world
    world.write("first", b"1")
    world.scan()
    world.clock.advance(100)
    world.write("later", b"22")
    world.scan()
    world.clock.advance(50)
    status = shown.status()
    assert status.oldest.path == b"first"
    assert status.oldest_age == pytest.approx(150)
    assert waiting(status) == "waiting longest: first, known for 2 min, queued"
    world.ledger.queue.block(world.row("first").id, "different", "", world.clock.now())
    assert shown.status().oldest.path == b"later"


def test_hourly_upload_count_excludes_copies(shown):
    world = shown.world
    world.write("a", b"12345")
    world.write("b", b"1234567")
    world.service.script.extend(["lost_after", "duplicate"])
    world.scan_and_send()
    world.live(300)
    # The look-ups may take it over a full hour.
    hours = shown.status().hours
    sent = [row for row in world.ledger.reports.files() if row.state is State.VERIFIED]
    assert [(hour.uploads, hour.bytes) for hour in hours if hour.uploads] == [(1, sent[0].size)]
    assert len(hours) == 24


def test_counts_include_former_folders(make_world):
    folders = [{"path": p, "destfolderid": f} for p, f in (("a", "F1"), ("b", "F2"), ("c", "F1"))]
    world = make_world(folders=folders)
    for path in ("a/1", "b/1", "c/1", "c/2"):
        world.write(path, path.encode())
    world.scan()
    world.restart(folders=folders[:1])
    found = as_object(read_status(world.config().outline, world.ledger, world.clock.now()))["folders"]
    assert [(f["paths"], f["destfolderid"], f["states"]) for f in found] == [
        (["a"], "F1", {"queued": 3}),
        ([], "F2", {"queued": 1}),
    ]


def test_regular_work_shows_end_and_duration(shown):
    world = shown.world
    began = world.clock.steady()
    world.clock.advance(7.5)
    world.site.ran("audit", began)
    assert shown.status().last_runs == {"audit": Run(pytest.approx(world.clock.now()), 7.5)}
    world.scan()
    assert shown.status().last_runs["rescan"].at == pytest.approx(world.clock.now())


@pytest.mark.parametrize(
    ("reason", "step", "whole"),
    [
        (
            "unreadable",
            (
                "fix its permissions, or restore it from a backup if its disk fails (see `dmesg`): it is tried"
                " again within a minute once it can be opened, at once `assetsync retry 'a b'\\''c'`"
            ),
            False,
        ),
        ("different", "assetsync retry 'a b'\\''c'", True),
        ("changed", "assetsync retry --send-again 'a b'\\''c'", True),
        (
            "missing",
            "`assetsync retry 'a b'\\''c'`, or `assetsync retry --send-again 'a b'\\''c'` if that finds nothing",
            False,
        ),
        (
            "empty_file",
            (
                "fill it (it is then sent by itself), leave it out by an `ignore` pattern, or delete it"
                " (the next scan notices)"
            ),
            False,
        ),
        ("undecidable", "`assetsync doubt resolve 'a b'\\''c' --asset ID`, or `--absent`", False),
        ("refused_as_duplicate", "assetsync doubt resolve 'a b'\\''c' --asset ID", False),
        ("resembles", "`assetsync reconcile --adopt`, or `assetsync retry --send-again 'a b'\\''c'`", False),
    ],
)
def test_remedy_follows_from_the_block_reason(shown, reason, step, whole):
    blocked(shown.world, "a b'c", reason)
    row = shown.status().blocked[0]
    assert (next_step(row), is_command(row)) == (step, whole)


@pytest.mark.parametrize(
    ("reason", "most", "said"),
    [
        ("missing", 5, None),
        ("missing", 6, "blocked: my docs: 6 missing: assetsync retry 'my docs'"),
        ("changed", 6, "blocked: my docs: 6 changed: assetsync files --state blocked --reason changed 'my docs'"),
        ("missing", 23, "blocked: my docs: 23 missing: assetsync retry 'my docs'"),
    ],
    ids=["few", "many", "each by its name", "more than are named"],
)
def test_blocked_files_are_grouped_by_reason(shown, reason, most, said):
    for number in range(most):
        blocked(shown.world, f"my docs/{number:02}", reason)
    lines = [line for line in leftovers(shown.status()) if line.startswith("blocked: ")]
    assert lines == [said] if said else len(lines) == most
    assert len(as_object(shown.status())["blocked_files"]) == min(most, 20)


def test_large_group_hides_no_small_one(shown):
    """Five unreadable files are named, although 25 empty files were blocked before them."""
    for number in range(25):
        blocked(shown.world, f"{number:02}", "empty_file")
    for number in range(5):
        blocked(shown.world, f"locked/{number}", "unreadable")
    first, *others = [line for line in leftovers(shown.status()) if line.startswith("blocked: ")]
    assert first.startswith("blocked: .: 25 empty file: ")
    assert others == [f"blocked: locked/{number}: it is so" for number in range(5)]
    assert as_object(shown.status())["blocked_reasons"] == [
        {"reason": "empty_file", "blocked": 25, "below": "."},
        {"reason": "unreadable", "blocked": 5, "below": "locked"},
    ]


def test_doubt_is_listed_with_its_details(shown):
    world = shown.world
    world.service.script.append("lost_before")
    world.write("lost.jpg")
    world.scan_and_send()
    found = as_object(shown.status())
    assert [(doubt["path"], doubt["reason"]) for doubt in found["doubts"]] == [("lost.jpg", "no_answer")]
    assert (found["in_doubt"], found["level"]) == (1, "under_way")


def test_absent_mapped_folder_is_named(shown):
    missing(shown.world)
    assert "the mapped folder <code>fotos</code> is not there" in shown.page()
    assert 'assetsync_last_scan_missing_folders{site="test"} 1.0' in shown.get("/metrics").body.decode()


def test_doubt_of_replaced_version_is_counted(shown):
    world = shown.world
    world.service.script.append("lost_before")
    world.write("a", b"1")
    world.scan_and_send()
    row = world.row("a")
    world.ledger.store.write(lambda conn: apply(conn, row.id, Event.VANISHED, world.clock.now()))
    assert shown.status().in_doubt == 1
    assert [r.path for r in shown.status().doubts] == [b"a"]


def drift(world, count):
    for number in range(count):
        world.write(f"{number}", b"%d" % number)
    world.scan_and_send()
    world.live(200)
    world.write("_folder.yaml", b"location: here")
    world.scan()
    while world.site.drift.step():
        pass


def test_drift_is_grouped_and_counted_in_full(shown):
    """25 files of one drift are one line, 20 entries in JSON, and the count of 25 everywhere."""
    drift(shown.world, 25)
    found = shown.status()
    (line,) = [line for line in leftovers(found) if "metadata drift" in line]
    assert line == (
        "metadata drift: 25 files, such as 0: its metadata changed after the upload: set it in the service by hand"
    )
    (helps,) = [line for line in leftovers(found) if "assetsync drift list" in line]
    assert "assetsync drift settle" in helps
    assert (headline(found), found.level, found.in_sync, found.badge) == (
        "in sync: 25 files verified, 25 with metadata drift",
        Level.IN_SYNC,
        True,
        "noted",
    )
    said = as_object(found)
    assert (len(said["drift"]), said["drift_count"]) == (20, 25)
    page = shown.get("/").body.decode()
    assert '<header id="verdict" class="noted">' in page
    assert "and 20 more" in page
    assert page.count("its metadata changed after the upload") == 1
    assert _ICONS["noted"].encode() == shown.get("/icon.svg").body
    assert b'assetsync_metadata_drift{site="test"} 25.0' in shown.get("/metrics").body


def test_drift_beyond_the_sample_is_counted(shown, monkeypatch):
    monkeypatch.setattr("assetsync.status.site_status._DRIFT_SAMPLE", 10)
    drift(shown.world, 12)
    (line,) = [line for line in leftovers(shown.status()) if "metadata drift:" in line]
    assert line.startswith("metadata drift: at least 10 files, such as 0: ")
    assert headline(shown.status()).endswith(", 12 with metadata drift")
    assert "And 2 more." in shown.page()


def test_few_drifted_files_are_named(shown):
    drift(shown.world, 2)
    lines = [line for line in leftovers(shown.status()) if line.startswith("metadata drift: ")]
    assert [line.split(": ")[1] for line in lines] == ["0", "1"]


def importing(world, seconds=10.0):
    """Let 20 files be accepted within so many seconds, and 40 more wait."""
    for number in range(60):
        if number == 20:
            world.scan_and_send()
            world.clock.advance(seconds)
        world.write(f"{number:02}", b"%03d" % number + b"x" * 997)
    world.scan()


def test_import_shows_share_rate_and_time_left(shown):
    importing(shown.world)
    status = replace(shown.status(), running=True)
    found = status.progress
    assert (found.files_to_send, found.bytes_to_send, found.share) == (40, 40_000, 0.0)
    assert (found.files_per_second, found.bytes_per_second) == pytest.approx((2.0, 2000.0))
    assert found.seconds_left == pytest.approx(20.0)
    (line,) = sending(status)
    rate = "40 files (40.0 KB) left to send, about 20 s at 2.0 files and 2.0 KB a second"
    assert line == f"importing: [{'.' * 20}] 0 % verified; {rate}"
    assert as_object(status)["progress"]["files_to_send"] == 40
    assert [*sending(replace(status, running=False))] == []
    page = shown.page()
    assert rate in page
    assert '<progress max="100" value="0" ' in page


@pytest.mark.parametrize("stops", [braked, paused, held_up], ids=["brake", "outage", "doubts"])
def test_stopped_import_has_no_time_left(shown, stops):
    importing(shown.world)
    stops(shown.world)
    (line,) = sending(shown.status())
    assert line.endswith("verified; 40 files (40.0 KB) left to send")


def test_a_few_quick_files_are_no_import(shown):
    importing(shown.world)
    status = shown.status()
    few = replace(status, counts=replace(status.counts, states={State.QUEUED: 19}, bytes_to_send=19_000))
    assert few.progress is None
    assert replace(few, counts=replace(few.counts, bytes_to_send=1_000_000)).progress.seconds_left > 60


def test_rate_of_long_ago_is_not_shown(shown):
    importing(shown.world, seconds=200.0)
    assert shown.status().progress.seconds_left is None


def in_flight(world, path):
    world.write(path, path.encode())
    world.scan()
    row = world.row(path)
    world.ledger.queue.begin(Intent(row.id, "F1", path, "boundary", row.stat, None, ""), world.clock.now())


def test_hanging_service_is_shown(shown):
    world = shown.world
    in_flight(world, "a")
    world.clock.advance(30)
    in_flight(world, "b")
    assert (headline(shown.status()), [*sending(shown.status())]) == ("In progress: 0 of 2 verified, 2 pending.", [])
    world.clock.advance(100)
    status = shown.status()
    assert headline(status) == "In progress: 0 of 2 verified, 2 pending, no upload answered for 2 min."
    (line,) = sending(status)
    since = as_object(status)["unanswered_since"]
    assert line.startswith(f"no answer: 2 uploads in flight, none answered since {since}: ")
    assert "2 uploads in flight, none answered since" in shown.page()
    assert '<details id="work-more">' not in shown.page()


def test_answered_upload_ends_the_silence(shown):
    world = shown.world
    in_flight(world, "a")
    world.clock.advance(100)
    world.write("b", b"another")
    world.scan_and_send()
    world.clock.advance(30)
    assert world.row("a").state is State.SENDING
    assert shown.status().unanswered is None


def test_idle_work_is_said_to_be_idle(shown):
    world = shown.world
    world.site.ran("verify", world.clock.steady(), idle=True)
    assert shown.status().last_runs["verify"].idle
    at = as_object(shown.status())["last_runs"]["verify"]["at"]
    assert regular_work(shown.status()) == f"last read back: {at} (nothing was due); last indexed: not yet"
    assert ", nothing was due" in shown.page()


def test_vanished_files_are_grouped_by_folder(shown):
    world = shown.world
    for scan in range(7):
        world.clock.advance(60)
        world.ledger.runs.note_vanished(world.clock.now(), [b"press/%d" % scan, b"docs/%d/a" % (scan % 2)], 100)
    first, *others = vanished(shown.status())
    assert first.startswith("vanished in the last 7 days: 14 files;")
    at = as_object(shown.status())["vanished"][-1]["at"]
    assert others == [
        "    7 from press",
        "    4 from docs/0",
        "    3 from docs/1",
        f"    the newest, {at}: 2 of 100 files: docs/0/a, press/6",
    ]
    assert "<b>7</b> from" in shown.page()


def test_vanished_from_many_folders_is_summed(shown):
    world = shown.world
    world.ledger.runs.note_vanished(world.clock.now(), [b"%d/a" % folder for folder in range(9)], 100)
    assert [*vanished(shown.status())][6] == "    4 from other folders"


def test_adopted_differences_are_one_line(shown):
    """1,200 adopted files with other metadata are one line of the status, apart from drift."""
    world = shown.world
    world.write("_folder.yaml", b"description: here")
    for number in range(1200):
        world.service.put(b"%d" % number, f"{number}")
        world.write(f"{number}", b"%d" % number)
    world.scan_and_send()
    world.live(200)
    found = shown.status()
    assert (found.adopted_differing, found.drift_count, found.in_sync) == (1200, 0, True)
    assert [line for line in leftovers(found) if "metadata" in line] == []
    (line,) = adopted_differing(found)
    assert line == (
        "adopted with other metadata than in the sidecars: 1,200 files: `assetsync drift list --adopted` lists them"
    )
    assert as_object(found)["adopted_differing"] == 1200
    page = shown.get("/").body.decode()
    assert "Adopted with other metadata than in the sidecars: 1,200 files." in page
    assert "assetsync drift list --adopted" in page


def test_nothing_adopted_is_no_line(shown):
    verified(shown.world)
    assert [*adopted_differing(shown.status())] == []
    assert "Adopted with" not in shown.get("/").body.decode()


@pytest.mark.parametrize(
    ("kind", "lifts_itself"),
    [
        *((kind, True) for kind in ("service", "root", "destfolderid", "takeover", "emptied", "vanished")),
        *((kind, False) for kind in ("missing", "new_files", "twin")),
    ],
)
def test_self_lifting_brake_needs_no_release(shown, kind, lifts_itself):
    shown.world.ledger.pull_brake(kind, "what", "it looks wrong", 5, shown.world.clock.now())
    (how,) = [line for line in leftovers(shown.status()) if "assetsync resume" in line]
    assert ("clears by itself once " in how and "; to proceed as it is: assetsync resume" in how) is lifts_itself
    assert ("or once the cause is fixed" in how) is not lifts_itself


@pytest.mark.parametrize(
    ("path", "word"), [(b"-rf.jpg", "./-rf.jpg"), (b"--all", "./--all"), (b"-a 'b", "'./-a '\\''b'"), (b"a/-b", "a/-b")]
)
def test_path_that_looks_like_an_option_is_none(path, word):
    assert quoted(path) == word


def test_unread_log_is_named_while_it_runs(world):
    verified(world)
    unread = LogUnread(world.ledger.start_no, world.clock.now() - 60, 1204, "its reader does not read")
    world.ledger.runs.record(LogUnread, unread)
    first, fix = leftovers(read_status(world.config().outline, world.ledger, world.clock.now(), running=True))
    assert first.startswith("log: behind since ")
    assert first.endswith(" (its reader does not read), 1,204 lines dropped")
    assert fix.endswith("files are mirrored all the same")
    assert not [*leftovers(read_status(world.config().outline, world.ledger, world.clock.now(), running=False))]

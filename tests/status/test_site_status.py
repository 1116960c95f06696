"""How a site stands, and the sentence that says it.

Covers `ledger/reports.py` and `status/sentences.py`.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from assetsync.core.states import Event
from assetsync.ledger.rows import apply
from assetsync.ledger.runs import HeldUp, LastScan, Pause, Run, Unsettled
from assetsync.model import State
from assetsync.status.document import as_object
from assetsync.status.sentences import (
    adopted_differing,
    headline,
    is_command,
    leftovers,
    next_step,
    no_room,
    scanned,
    waiting,
)
from assetsync.status.site_status import Level, read_status

STOPPED = "Stopped by uploads in doubt for 4 min (the next can be decided in 1 min); 1 pending."
ELSEWHERE = "the service has a new address and shows none of the known assets"


def paused(world, reason="unreachable", start=None):
    said = {"start": start or world.ledger.start_no, "since": world.clock.now() - 720, "reason": reason, "detail": "x"}
    world.ledger.set_fact("paused", json.dumps(said))


def held_up(world, *, everything=True, decided_in=100.0):
    now = world.clock.now()
    world.ledger.runs.note_held_up(HeldUp(world.ledger.start_no, now - 240, ("F1",), everything, now + decided_in))


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
    world.ledger.pull_brake("emptied", "photos", "it is empty now", 5, world.clock.now())


@pytest.mark.parametrize(
    ("happened", "level", "sentence"),
    [
        ([], Level.UNDER_WAY, "No complete scan yet."),
        ([verified], Level.IN_SYNC, "in sync: 1 file verified"),
        ([verified, queued], Level.UNDER_WAY, "In progress: 1 pending."),
        ([verified, blocked], Level.NEEDS_YOU, "Action needed: 1 blocked."),
        ([verified, unreadable], Level.NEEDS_YOU, "Action needed: 2 paths unreadable."),
        ([blocked, queued, braked], Level.NEEDS_YOU, "Action needed: 1 blocked, 1 brake. 1 pending."),
        (
            [queued, paused],
            Level.UNDER_WAY,
            "Paused for 12 min (the service cannot be reached); 1 pending.",
        ),
        ([verified, paused], Level.UNDER_WAY, "Paused for 12 min (the service cannot be reached)."),
        (
            [queued, lambda world: paused(world, "key_refused")],
            Level.NEEDS_YOU,
            "Action needed: paused for 12 min (the service refuses the API key). 1 pending.",
        ),
        (
            [queued, lambda world: paused(world, "elsewhere")],
            Level.UNDER_WAY,
            f"Paused for 12 min ({ELSEWHERE}); 1 pending.",
        ),
        (
            [queued, held_up],
            Level.UNDER_WAY,
            STOPPED,
        ),
        (
            [queued, lambda world: held_up(world, decided_in=-1)],
            Level.UNDER_WAY,
            (
                "Stopped by uploads in doubt for 4 min (the next is decided once look-ups prove what became of it);"
                " 1 pending."
            ),
        ),
        (
            [queued, lambda world: held_up(world, everything=False)],
            Level.UNDER_WAY,
            "In progress: 1 pending, 1 folder waiting for uploads in doubt.",
        ),
        ([queued, held_up, paused], Level.UNDER_WAY, "Paused for 12 min (the service cannot be reached); 1 pending."),
        (
            [queued, held_up, blocked],
            Level.NEEDS_YOU,
            f"Action needed: 1 blocked. {STOPPED}",
        ),
        ([verified, held_up], Level.IN_SYNC, "in sync: 1 file verified"),
        ([verified, lambda world: unsettled(world, 3)], Level.UNDER_WAY, "In progress: 3 pending."),
        ([verified, missing], Level.NEEDS_YOU, "Action needed: 1 mapped folder is not there."),
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
    status = replace(shown.status(), at=scan + age, running=False)
    assert headline(status) == f"in sync at the last scan, {said}: 1 file verified"
    assert headline(replace(status, running=True)) == "in sync: 1 file verified"
    assert (as_object(status)["in_sync"], as_object(status)["scan_age_seconds"]) == (True, max(0, age))


def test_file_moved_in_scan_is_not_unreadable(shown):
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
    assert (world.row("s").state, headline(shown.status())) == (State.STORED, "In progress: 1 pending.")
    status = replace(shown.status(), reads_back=False)
    assert headline(status) == "1 stored, not read back: schedule.verify and schedule.index are off."
    assert (status.pending, status.in_sync, status.level) == (1, False, Level.UNDER_WAY)
    assert "stored: 1, not read back: schedule.verify and schedule.index are off" in list(leftovers(status))
    queued(world)
    assert headline(replace(shown.status(), reads_back=False)).startswith(
        "In progress: 1 pending, 1 stored, not read back"
    )


def test_abandoned_run_ranks_below_manual(shown):
    world = shown.world
    blocked(world)
    queued(world)
    status = replace(shown.status(), ended_by=Pause(1, 0.0, "unreachable", "x", world.clock.now() - 300), paused=None)
    assert headline(status) == (
        "Action needed: 1 blocked. The last run ended 5 min ago (the service cannot be reached); 1 pending."
    )


def test_deleted_index_allows_no_idle_verdict(shown):
    verified(shown.world)
    shown.world.ledger.set_fact("index_stopped", "after searchIndex 5 of 5 were gone")
    status = shown.status()
    assert (status.level, status.in_sync) == (Level.NEEDS_YOU, True)
    assert headline(status) == "Action needed: indexing stopped."


def test_full_disk_allows_no_idle_verdict(shown):
    verified(shown.world)
    status = replace(shown.status(), without_room="the disk of /var/lib/assetsync has 12 KB left")
    assert (status.level, status.in_sync) == (Level.NEEDS_YOU, False)
    assert headline(status) == "Action needed: ledger disk full."
    assert [line.split(":")[0].strip() for line in no_room(status)] == [
        "ledger",
        "free space; nothing is lost, and sending resumes by itself",
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
    found = as_object(read_status(world.config(), world.ledger, world.clock.now()))["folders"]
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
                "fix its permissions, or restore it from a backup if its disk fails (see `dmesg`): each scan tries it"
                " again, at once `assetsync retry 'a b'\\''c'`"
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


def test_twenty_blocked_files_are_named(shown):
    world = shown.world
    for number in range(23):
        world.write(f"{number:02}/a", b"x" * (number + 1))
    world.scan()
    for number in range(23):
        world.ledger.queue.block(world.row(f"{number:02}/a").id, "different", "why", world.clock.now())
    lines = list(leftovers(shown.status()))
    assert sum(line.startswith("blocked: ") for line in lines) == 20
    assert "and 3 more blocked: assetsync files --state blocked" in lines


@pytest.mark.parametrize(
    ("reason", "most", "said"),
    [
        ("missing", 5, None),
        ("missing", 6, "blocked: my docs: 6 missing: assetsync retry 'my docs'"),
        ("changed", 6, "blocked: my docs: 6 changed: assetsync files --state blocked --reason changed 'my docs'"),
        ("missing", 23, "blocked: my docs: at least 20 missing: assetsync retry 'my docs'"),
    ],
    ids=["few", "many", "each by its name", "more than are named"],
)
def test_equal_blocks_in_a_folder_are_grouped(shown, reason, most, said):
    for number in range(most):
        blocked(shown.world, f"my docs/{number:02}", reason)
    lines = [line for line in leftovers(shown.status()) if line.startswith("blocked: ")]
    assert lines == [said] if said else len(lines) == most
    assert len(as_object(shown.status())["blocked_files"]) == min(most, 20)


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


def test_drift_is_sampled_and_counted_in_full(shown):
    world = shown.world
    for number in range(25):
        world.write(f"{number}", b"%d" % number)
    world.scan_and_send()
    world.live(200)
    world.write("_folder.yaml", b"location: here")
    world.scan()
    while world.site.drift.step():
        pass
    found = shown.status()
    named = [line for line in leftovers(found) if "metadata drift" in line]
    assert (len(named), named[-1]) == (21, "and 5 more with metadata drift")
    (helps,) = [line for line in leftovers(found) if "assetsync drift list" in line]
    assert "assetsync drift settle" in helps
    said = as_object(found)
    assert (len(said["drift"]), said["drift_count"]) == (20, 25)
    assert "And 5 more." in shown.get("/").body.decode()
    assert b'assetsync_metadata_drift{site="test"} 25.0' in shown.get("/metrics").body


def test_adopted_differences_are_one_line(shown):
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
    assert ("clears by itself once the cause is fixed; to proceed as it is" in how) is lifts_itself
    assert ("or once the cause is fixed" in how) is not lifts_itself

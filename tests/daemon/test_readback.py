"""Which audit is due is a fact: outages, full disks and restarts put it off and never drop it."""

import contextlib
import itertools

import pytest

from assetsync.core.gate import Met, Trouble
from assetsync.daemon.readback import ReadBack
from assetsync.errors import LedgerError
from assetsync.model import State
from tests.world import PROBE

FOLDER = "F1"


@pytest.fixture
def world(make_world):
    return make_world()


def reading_of(world):
    troubles: list[str] = []
    world.site.service_identity.make_sure()
    world.site.gates.failed = lambda trouble: troubles.append(trouble.reason)
    return ReadBack(world.site, idle=0.0), troubles


def audited(world) -> list[str]:
    return [folder for folder in (FOLDER, "F2") if world.site.context.ledger.audits.last_at(folder) is not None]


def steps(reading, count: int = 5) -> None:
    for _ in range(count):
        reading.step()


def fill(ledger, size: int) -> None:
    """Write facts of so many bytes until no more fits."""
    number = 0
    with contextlib.suppress(LedgerError):
        while True:
            ledger.set_fact(f"{size} {number}", "x" * size)
            number += 1


def test_work_that_asked_nothing_is_idle(world):
    """A service that hangs must not look as if it had answered a moment ago."""
    reading, _ = reading_of(world)
    reading.want_verify()
    steps(reading)
    assert world.ledger.runs.last()["verify"].idle
    world.write("a")
    world.scan_and_send()
    world.clock.advance(120)
    reading.want_verify()
    steps(reading)
    assert not world.ledger.runs.last()["verify"].idle


def test_idle_verify_asks_whether_the_key_is_valid(world):
    reading, troubles = reading_of(world)
    reading.want_verify()
    steps(reading)
    assert len(world.service.searches) == 1
    world.service.key_refused = True
    steps(reading)
    assert troubles == [], "only at the times of schedule.verify"
    reading.want_verify()
    steps(reading)
    assert troubles == ["key_refused"]


def test_verify_with_work_asks_nothing_more(world):
    world.write("a")
    world.scan_and_send()
    world.clock.advance(120)
    reading, _ = reading_of(world)
    reading.want_verify()
    before = len(world.service.searches)
    steps(reading)
    assert [search.searchfor for search in world.service.searches[before:] if search.searchfor == PROBE] == []


def test_audit_runs_only_on_request(world):
    reading, _ = reading_of(world)
    steps(reading)
    assert audited(world) == []


def test_requested_audit_runs_once_per_folder(world):
    reading, _ = reading_of(world)
    reading.want_audit()
    steps(reading)
    looked = len(world.service.searches)
    assert audited(world) == [FOLDER]
    steps(reading)
    assert len(world.service.searches) == looked


def test_audit_cut_by_service_is_retried(world):
    reading, troubles = reading_of(world)
    reading.want_audit()
    world.service.down = True
    steps(reading)
    assert len(troubles) == 1
    world.service.down = False
    steps(reading)
    assert audited(world) == []
    world.clock.advance(61)
    steps(reading)
    assert audited(world) == [FOLDER]


def test_audit_cut_by_restart_is_resumed(world):
    reading, _ = reading_of(world)
    reading.want_audit()
    world.service.down = True
    steps(reading)
    world.service.down = False
    world.restart()
    steps(reading_of(world)[0])
    assert audited(world) == [FOLDER]


def test_audit_due_on_full_disk_runs_later(world):
    reading, _ = reading_of(world)
    writer = world.site.context.ledger.store._writer
    writer.execute(f"PRAGMA max_page_count={writer.execute('PRAGMA page_count').fetchone()[0]}")
    for size in (1000, 100, 10):
        fill(world.site.context.ledger, size)
    reading.want_audit()
    with pytest.raises(LedgerError):
        reading.step()
    assert audited(world) == []
    writer.execute("PRAGMA max_page_count=1000000")
    steps(reading)
    assert audited(world) == [FOLDER]


def test_first_audit_counts_from_first_start(world):
    first = reading_of(world)[0].last("audit")
    world.clock.advance(3 * 86_400)
    world.restart()
    assert reading_of(world)[0].last("audit") == first


@pytest.fixture
def two_folders(make_world):
    return make_world(folders=[{"path": "a", "destfolderid": FOLDER}, {"path": "b", "destfolderid": "F2"}])


def test_unauditable_folder_delays_no_other(two_folders):
    """The folder is tried again in growing pauses, and is audited once the service answers for it."""
    world = two_folders
    reading, troubles = reading_of(world)
    asked = world.fail_for(FOLDER)
    reading.want_audit()
    steps(reading)
    # A search that fails at once is repeated twice.
    assert (audited(world), troubles, len(asked)) == (["F2"], [], 3)
    for _ in range(3600):
        reading.step()
        world.clock.advance(1)
    # The first four failures in a row do not make it wait longer, and after them nothing is repeated.
    assert 10 <= len(set(asked)) <= 22
    assert len(asked) <= 22 + 2 * 4
    world.service.during_search = lambda _request: None
    world.clock.advance(301)
    steps(reading)
    assert audited(world) == [FOLDER, "F2"]
    looked = len(world.service.searches)
    world.clock.advance(301)
    steps(reading)
    assert len(world.service.searches) == looked


def test_audit_ends_with_its_last_folder(two_folders):
    world = two_folders
    reading, _ = reading_of(world)
    world.fail_for(FOLDER)
    reading.want_audit()
    steps(reading)
    runs = world.site.context.ledger.runs
    assert "audit" not in runs.last()
    world.service.during_search = lambda _request: None
    world.clock.advance(61)
    steps(reading)
    assert "audit" in runs.last()


def test_manual_audit_skips_postponed_folders(two_folders):
    world = two_folders
    reading, _ = reading_of(world)
    world.fail_for(FOLDER)
    reading.want_audit()
    steps(reading)
    world.service.during_search = lambda _request: None
    steps(reading)
    assert audited(world) == ["F2"]
    reading.look_for_audits()
    steps(reading)
    assert audited(world) == [FOLDER, "F2"]


@pytest.mark.parametrize(("is_a_look_up", "expected"), [(False, State.VERIFIED), (True, State.STORED)])
def test_readback_goes_on_while_uploads_fail(world, is_a_look_up, expected):
    world.write("photo")
    world.scan_and_send()
    world.clock.advance(60)
    world.site.gates.failed(Trouble("no_answer", "HTTP status 500", met_by=Met.LOOKUP if is_a_look_up else Met.UPLOAD))
    reading, _ = reading_of(world)
    reading.want_verify()
    steps(reading)
    assert world.row("photo").state is expected


def listed(world, reading) -> int:
    looked = len(world.service.searches)
    steps(reading)
    return len(world.service.searches) - looked


def test_audit_runs_after_clock_was_set_back(world):
    reading, _ = reading_of(world)
    reading.want_audit()
    once = listed(world, reading)
    world.clock.set_now(world.clock.now() - 365 * 86_400)
    reading.look_for_audits()
    assert listed(world, reading) == 0
    for _ in range(2):
        world.clock.advance(7 * 86_400)
        reading.want_audit()
        assert listed(world, reading) == once > 0
        assert listed(world, reading) == 0
        assert world.site.context.ledger.audits.last_at(FOLDER) == world.clock.now()


def test_audit_due_before_setback_runs_once(world):
    reading, _ = reading_of(world)
    reading.want_audit()
    world.service.down = True
    steps(reading)
    world.service.down = False
    world.clock.set_now(world.clock.now() - 365 * 86_400)
    world.clock.advance(61)
    assert listed(world, reading) > 0
    assert audited(world) == [FOLDER]
    reading.look_for_audits()
    assert listed(world, reading) == 0


def test_index_call_is_neither_doubled_nor_skipped(make_world):
    """Files arrive every three seconds, look-ups take uneven times, and the schedule wants a call every minute."""
    world = make_world(schedule={"index": "60s", "verify": "60s"})
    world.service.index_lag = None
    reading, troubles = reading_of(world)
    took = itertools.cycle((0.01, 0.07, 0.03))
    world.service.during_search = lambda _request: world.clock.advance(next(took))
    calls, index = [], world.service.index

    def noted(assetids):
        calls.append(world.clock.now())
        return index(assetids)

    world.service.index = noted
    wanted = world.clock.now()
    for number in range(330):
        if number % 3 == 0:
            world.write(f"{number}", f"content {number}".encode())
            world.scan_and_send()
        world.clock.advance(1)
        if world.clock.now() >= wanted:
            wanted += 60
            reading.want_verify()
            reading.want_index()
        reading.step()
    gaps = [later - earlier for earlier, later in itertools.pairwise(calls)]
    assert len(gaps) >= 4, gaps
    assert (min(gaps) >= 60, max(gaps) < 75, troubles) == (True, True, []), gaps


FIFTEEN = [{"path": f"f{number:02}", "destfolderid": f"F{number:02}"} for number in range(15)]


@pytest.fixture
def many_folders(make_world):
    world = make_world(folders=FIFTEEN)
    for number in range(15):
        (world.root / f"f{number:02}").mkdir()
    return world


def audited_since(world, at: float) -> list[str]:
    last = world.ledger.audits.last_at
    folders = [mapped["destfolderid"] for mapped in FIFTEEN]
    return [folder for folder in folders if (last(folder) or 0.0) >= at]


def test_night_audits_a_seventh_rounded_up(many_folders, clock):
    reading, _ = reading_of(many_folders)
    nights = []
    for _ in range(6):
        began = clock.now()
        reading.want_nightly_audit()
        steps(reading, 20)
        nights.append(audited_since(many_folders, began))
        clock.advance(86_400)
    assert nights[0] == ["F00", "F01", "F02"]
    assert [len(night) for night in nights] == [3] * 6
    assert nights[5] == nights[0]


def test_night_audits_the_folders_of_longest_ago(many_folders, clock):
    reading, _ = reading_of(many_folders)
    for number in (*range(3, 15), 1):
        many_folders.site.auditor.audit(f"F{number:02}")
        clock.advance(60)
    many_folders.site.auditor.audit("F00")
    many_folders.site.auditor.audit("F02")
    clock.advance(60)
    began = clock.now()
    reading.want_nightly_audit()
    steps(reading)
    assert audited_since(many_folders, began) == ["F03", "F04", "F05"]


def test_nightly_audit_waits_for_the_budget(world, monkeypatch):
    reading, _ = reading_of(world)
    monkeypatch.setattr(world.site.budget, "rest", lambda: 9.0)
    monkeypatch.setattr(type(world.site), "can_send", lambda _site: True)
    reading.want_nightly_audit()
    steps(reading)
    assert audited(world) == []
    monkeypatch.setattr(world.site.budget, "rest", lambda: 0.0)
    steps(reading)
    assert audited(world) == [FOLDER]


def test_nightly_audit_cut_by_restart_is_resumed(world):
    reading, _ = reading_of(world)
    reading.want_nightly_audit()
    world.service.down = True
    steps(reading)
    world.restart()
    world.service.down = False
    steps(reading_of(world)[0])
    assert audited(world) == [FOLDER]

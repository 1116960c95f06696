"""Which problems the ledger and the gates show, and what each receiver gets of them.

Covers `notify/notifications.py`.
"""

from functools import partial

import pytest

from assetsync.core.gate import Met, Trouble
from assetsync.core.notices import AT_ONCE, DELAYS, Kind, NoticeTracker
from assetsync.errors import LedgerDamaged, LedgerError
from assetsync.ledger.read_back import INDEX_STOPPED
from assetsync.ledger.runs import HeldUp, LastScan
from assetsync.notify import notifications as notifications_module
from assetsync.notify.channel import Undelivered
from assetsync.notify.notifications import current_problems, notify_failed, notify_once
from assetsync.text import moment, name_configuration


@pytest.fixture
def look(world):
    def at_once(reported=(), *, waiting=None):
        found = current_problems(world.ledger, world.site.gates.ongoing, waiting, reported, world.clock.now())
        return {problem.kind: problem for problem in found}

    return at_once


def test_healthy_site_has_no_problem(world, look):
    world.write("a.jpg")
    world.scan_and_send()
    found = look()
    assert set(found) == set(Kind) - {Kind.TEST}
    assert not any(problem.items for problem in found.values())


def test_blocked_files_are_listed_with_reason(world, look):
    world.write("empty.jpg", b"")
    world.write("b.jpg")
    world.write("b.jpg.yaml", b"keywords: [")
    world.scan_and_send()
    blocked = look()[Kind.BLOCKED]
    assert sorted(blocked.items.values()) == ["b.jpg (sidecar)", "empty.jpg (empty_file)"]
    assert blocked.count == 2


def test_retried_file_is_still_a_problem(world, look):
    world.write("b.jpg")
    sidecar = world.write("b.jpg.yaml", b"keywords: [")
    world.scan_and_send()
    reported = set(look()[Kind.BLOCKED].items)
    world.ledger.queue.retry_blocked("sidecar", world.clock.now())
    found = look(reported)[Kind.BLOCKED]
    assert (set(found.items), found.count) == (reported, 0)
    sidecar.unlink()
    world.scan_and_send()
    assert not look(reported)[Kind.BLOCKED].items


def test_brake_is_reported_by_its_cause(world, look):
    world.site.root_identity.missing("the root is not there")
    assert list(look()[Kind.BRAKE].items.values()) == ["the root is not there"]
    world.ledger.resume(None, world.clock.now())
    assert not look()[Kind.BRAKE].items


def test_doubts_that_stop_sending_are_a_problem(world, look):
    now = world.clock.now()
    stopped = HeldUp(world.ledger.start_no, now, ("F1",), everything=True, decided_at=now + 60)
    world.ledger.runs.record(HeldUp, stopped)
    (text,) = look()[Kind.DOUBTS].items.values()
    assert text == f"0 uploads in doubt since {moment(now)}; the next can be decided at {moment(now + 60)}"
    world.ledger.runs.record(HeldUp, stopped._replace(everything=False))
    assert not look()[Kind.DOUBTS].items


def test_outage_has_the_begin_of_its_pause(world, look):
    world.write("a.jpg")
    world.service.down = True
    began = world.clock.steady()
    world.scan_and_send()
    world.live(1000, tick=10)
    found = look()[Kind.OUTAGE]
    assert list(found.items.values()) == [world.site.gates.closed.detail]
    assert began <= found.since["outage"] < began + 60
    world.service.down = False
    world.live(120)
    assert not look()[Kind.OUTAGE].items


def test_stopped_index_names_its_fix(world, look):
    world.ledger.set_fact(INDEX_STOPPED, "set `schedule.index: off`")
    assert list(look()[Kind.INDEX_STOPPED].items.values()) == ["set `schedule.index: off`"]


def test_loop_that_waits_for_ledger_is_reported(look):
    assert list(look(waiting="disk full")[Kind.LEDGER].items.values()) == ["disk full"]


def test_unreadable_ledger_leaves_unknown_facts(world, look, monkeypatch):
    def busy(_limit):
        raise LedgerError("the ledger is busy")

    monkeypatch.setattr(world.ledger.reports, "blocked", busy)
    found = look()
    assert set(found) == {Kind.ENDED, Kind.LEDGER}
    assert list(found[Kind.LEDGER].items.values()) == ["the ledger is busy"]


def test_damaged_ledger_is_not_waited_for(world, look, monkeypatch):
    def damaged(_limit):
        raise LedgerDamaged("the ledger is damaged")

    monkeypatch.setattr(world.ledger.reports, "blocked", damaged)
    with pytest.raises(LedgerDamaged):
        look()


def test_unlisted_folder_is_an_outage(make_world):
    """A folder that cannot be listed before its first upload is reported with the reason."""
    world = make_world(folders=[{"path": folder, "destfolderid": folder} for folder in ("F1", "F2")])
    world.write("F1/a.jpg")
    world.fail_for("F1")

    def found():
        problems = current_problems(world.ledger, None, None, (), world.clock.now())
        return {problem.kind: problem for problem in problems}[Kind.OUTAGE]

    world.scan()
    world.live(120)
    assert found().items == {
        "F1": "into folder F1: it is listed before anything is sent there, and that fails: the service did not answer"
        " in time"
    }
    world.service.during_search = lambda _request: None
    world.live(310)
    assert not found().items


def test_long_ended_pause_is_no_outage(world, look):
    site, clock = world.site, world.clock
    site.gates.failed(Trouble("unreachable", "no answer to a look-up", met_by=Met.LOOKUP))
    clock.advance(2)
    assert site.gates.check()
    # With nothing to send, the trial that ends it does not come.
    world.live(6 * 3600, tick=60)
    found = []
    world.service.during_upload = lambda _request: found.append(look()[Kind.OUTAGE])
    world.write("a.jpg", b"a")
    world.scan_and_send()
    assert found
    assert not found[0].items


def test_braked_folder_is_not_reported_twice(world, look):
    at = world.clock.now()
    scan = LastScan(at, complete=False, unreadable=1, missing=("a", "b"), first_unreadable="d (Permission denied)")
    world.ledger.runs.scanned(scan, 0.1)
    told = look()[Kind.TREE]
    assert (list(told.items.values()), told.count) == (
        ["the mapped folder a is not there", "the mapped folder b is not there", "d (Permission denied)"], 3,
    )  # fmt: skip
    world.ledger.pull_brake("emptied", "a", "it is empty now", 5, at)
    assert "missing a" not in look()[Kind.TREE].items
    world.ledger.runs.scanned(LastScan(at, complete=True, unreadable=0), 0.1)
    assert not look()[Kind.TREE].items


def test_unreadable_path_is_reported_once(world, look):
    """New unreadable paths are reported, known ones are not repeated, and the end is reported once."""
    tracker, said = NoticeTracker("hq"), []

    def scanned(*names):
        first, *others = [f"{name} (Permission denied)" for name in names] or [""]
        scan = LastScan(world.clock.now(), complete=False, unreadable=len(names), first_unreadable=first)
        world.ledger.runs.scanned(scan._replace(also_unreadable=tuple(others)), 0.1)
        said.clear()
        for _ in range(4):
            world.clock.advance(1000)
            said.extend(tracker.step([look()[Kind.TREE]], world.clock.now(), world.clock.steady(), DELAYS))
        return [notice.text for notice in said]

    b, c, d = (f"{name} (Permission denied)" for name in "bcd")
    assert scanned("b", "c", "d") == [
        f"hq: 3 paths of the tree cannot be read: {b}; {c}; {d}; tried again every minute (assetsync check)"
    ]
    assert scanned("b", "c", "d") == []
    assert scanned("c", "d") == []
    new = "z (Permission denied)"
    assert scanned("c", "d", "z") == [
        f"hq: 3 paths of the tree cannot be read, 1 of them new: {new}; tried again every minute (assetsync check)"
    ]
    assert scanned() == ["hq: the whole tree can be read again"]


def test_changed_reason_is_not_reported_again(world, look):
    scan = LastScan(world.clock.now(), complete=False, unreadable=1, first_unreadable="b (d)/c (Permission denied)")
    world.ledger.runs.scanned(scan, 0.1)
    before = look()[Kind.TREE].items
    world.ledger.runs.scanned(scan._replace(first_unreadable="b (d)/c (Input/output error)"), 0.1)
    assert look()[Kind.TREE].items.keys() == before.keys() == {"unreadable b (d)/c"}


class Receivers:
    """Receivers of which those in `down` fail; `got` holds the events that each got, with a minus for an end."""

    def __init__(self, monkeypatch):
        self.down: set[str] = set()
        self.got: dict[str, list[str]] = {"webhook": [], "command": []}
        found = {name: partial(self._take, name) for name in self.got}
        monkeypatch.setattr(notifications_module, "receivers", lambda *_: found)

    def _take(self, name, notice):
        if name in self.down:
            raise Undelivered("nobody is there")
        self.got[name].append("-" * notice.is_over + notice.kind)


@pytest.fixture
def two(monkeypatch):
    return Receivers(monkeypatch)


def test_receiver_that_is_down_repeats_nothing_elsewhere(world, two):
    empty = world.write("empty.jpg", b"")
    world.scan_and_send()
    two.down = {"webhook"}
    for _ in range(3):
        notify_once(world.site, {})
    assert two.got == {"webhook": [], "command": ["blocked"]}
    two.down = set()
    for _ in range(2):
        notify_once(world.site, {})
    assert two.got == {"webhook": ["blocked"], "command": ["blocked"]}
    empty.unlink()
    world.scan_and_send()
    for _ in range(2):
        notify_once(world.site, {})
    assert two.got == {"webhook": ["blocked", "-blocked"], "command": ["blocked", "-blocked"]}


def test_end_reaches_only_who_got_the_begin(world, two):
    empty = world.write("empty.jpg", b"")
    world.scan_and_send()
    two.down = {"webhook"}
    notify_once(world.site, {})
    empty.unlink()
    world.scan_and_send()
    two.down = set()
    notify_once(world.site, {})
    assert two.got == {"webhook": [], "command": ["blocked", "-blocked"]}


def test_ledger_of_older_release_repeats_no_message(world, two):
    world.write("empty.jpg", b"")
    world.scan_and_send()
    tracker = NoticeTracker("hq")
    tracker.step([current_problems(world.ledger, None, None, (), 0)[1]], world.clock.now(), 0, AT_ONCE)
    world.ledger.set_fact("told", tracker.saved())
    notify_once(world.site, {})
    assert two.got == {"webhook": [], "command": []}


def told_by(tracker, world, problems):
    return [notice.text for notice in tracker.step(problems, world.clock.now(), world.clock.steady())]


def test_refused_key_is_told_within_a_minute(world, look):
    """Only a person ends it, so that nothing is gained by a wait; its end reports that the key is accepted."""
    tracker, texts = NoticeTracker("hq"), []
    failed, key = world.site.gates.failed, "the service refuses the API key: write the right key into F"
    failed(Trouble("key_refused", key, met_by=Met.LOOKUP))
    for _ in range(30):
        texts += told_by(tracker, world, look().values())
        world.clock.advance(2)
    assert texts == [f"hq: nothing is sent: {key}"]
    failed(Trouble("unreachable", "no answer", met_by=Met.CHECK))
    for _ in range(60):
        texts += told_by(tracker, world, look().values())
        world.clock.advance(2)
    assert len(texts) == 1, "it is unknown whether the key is accepted"
    assert world.site.gates.check()
    for _ in range(100):
        texts += told_by(tracker, world, look().values())
        world.clock.advance(2)
    assert texts[1:] == ["hq: the service accepts the API key, after 5 min"]


def test_names_hold_commands_that_run(world, monkeypatch):
    notices = []
    monkeypatch.setattr(notifications_module, "receivers", lambda *_: {"webhook": notices.append})
    name_configuration("--site hq", "assetsync@hq")
    error = LedgerError("it is refused", hint="`systemctl restart assetsync@SITE`, then `assetsync check`")
    notify_failed(world.site.config, {}, world.clock, error, None)
    name_configuration("")
    assert notices[0].names == ("it is refused: `systemctl restart assetsync@hq`, then `assetsync check --site hq`",)

"""Where the lead changes hands at a bad moment: every place comes back, and each upload has somebody who ends it."""

import sqlite3
import threading
from contextlib import closing

import pytest

from assetsync.errors import LedgerError, RowUnfit
from assetsync.model import State
from assetsync.sync.upload.in_flight import LEAD
from tests.sync.upload.test_together import WORKERS, full, open_attempts, quick, run, write
from tests.world import FullDisk

__all__ = ["full", "quick"]

_PATIENCE = 10


def worker(world, name, go_on):
    """Start a worker of that name; what it raises stands in the list that is given, too."""
    raised: list[BaseException] = []

    def work():
        try:
            world.site.sender.run(go_on)
        except BaseException as error:  # noqa: BLE001 - for the test to look at
            raised.append(error)

    thread = threading.Thread(target=work, name=name)
    thread.start()
    return thread, raised


def ended(thread) -> None:
    thread.join(_PATIENCE)
    assert not thread.is_alive()


def test_at_a_stop_what_is_handed_in_by_who_may_not_lead_is_ended_by_who_does(quick):
    write(quick, 4)
    hangs, goes_on, steps_down, may_step_down, is_stopped = (threading.Event() for _ in range(5))
    start, put_down = quick.service.start, quick.site.sender._put_down

    def slow_start(request, body):
        if request.filename == "00":
            hangs.set()
            assert goes_on.wait(_PATIENCE)
        return start(request, body)

    def slow_put_down():
        if threading.current_thread().name == "B":
            steps_down.set()
            assert may_step_down.wait(_PATIENCE)
        put_down()

    quick.service.start = slow_start
    quick.site.sender._put_down = slow_put_down
    quick.service.has_answered = lambda request: request.filename != "00" or may_step_down.is_set()
    first, _ = worker(quick, "A", lambda: not is_stopped.is_set())
    assert hangs.wait(_PATIENCE)
    quick.clock.advance(2 * LEAD)
    is_stopped.set()
    second, _ = worker(quick, "B", lambda: not is_stopped.is_set())
    assert steps_down.wait(_PATIENCE)
    goes_on.set()
    ended(first)
    may_step_down.set()
    ended(second)
    assert open_attempts(quick) == []
    assert quick.states()["00"] is State.STORED


def test_who_leads_no_more_and_takes_what_was_made_ready_ahead_leaves_it_to_who_does(full):
    sender = full.site.sender
    goes_with, take_ahead = sender._goes_with, sender._take_ahead
    inside, on = threading.Event(), threading.Event()
    seen, takes = [], []

    def noted(*args):
        takes.append(bool(sender._ahead))
        take_ahead(*args)
        takes.append(False)

    def stalled(row, first):
        if threading.current_thread().name == "A" and takes[-1] and not inside.is_set():
            inside.set()
            assert on.wait(_PATIENCE)
        return goes_with(row, first)

    def go_on():
        seen.append(1)
        if len(seen) == 6:
            full.hangs.clear()
        return True

    sender._goes_with, sender._take_ahead = stalled, noted
    first, raised = worker(full, "A", go_on)
    assert inside.wait(_PATIENCE)
    full.clock.advance(2 * LEAD)
    second, raised_too = worker(full, "B", lambda: True)
    second.join(0.5)
    on.set()
    ended(first)
    ended(second)
    run(full)
    assert raised + raised_too == []
    assert set(full.states().values()) == {State.STORED}
    assert full.site.upload_queue._leased == {}
    assert (sender._crew._free, full.site.circuit_breaker._inside) == (WORKERS, 0)
    names = [post.filename for post in full.service.posts]
    assert len(names) == len(set(names))


def test_what_was_made_ready_ahead_waits_where_nothing_may_be_sent_any_more(full):
    may_send, posts, seen = [True], [], []
    full.site.sender.poster.may_send = lambda: may_send[0]

    def go_on():
        seen.append(1)
        if len(seen) == 6:
            posts.extend(full.service.posts)
            may_send[0] = False
            full.hangs.clear()
        return len(seen) < 40

    full.site.sender.run(go_on)
    assert len(full.service.posts) == len(posts) > 0
    assert State.SENDING not in full.states().values()


def test_an_outcome_that_another_commit_did_not_bring_to_the_disk_lends_no_place(quick):
    write(quick, 8)
    disk, open_then, has_failed = FullDisk(quick.ledger, 1), [], []
    take, commits = quick.site.upload_queue.take, quick.ledger.store._commits
    commit = commits._commit_waiting

    def write_beside():
        with pytest.raises(LedgerError):
            quick.ledger.store.write(lambda conn: conn.execute("UPDATE files SET detail = detail WHERE id = 1"))
        has_failed.append(1)

    def take_while_another_writes(*args, **kwargs):
        if quick.states().get("00") is State.SENDING and not has_failed:
            disk.fill()
            other = threading.Thread(target=write_beside)
            other.start()
            ended(other)
        return take(*args, **kwargs)

    def counted():
        commit()
        open_then.append(len(open_attempts(quick)))

    quick.site.upload_queue.take = take_while_another_writes
    commits._commit_waiting = counted
    run(quick)
    assert has_failed == [1]
    assert max(open_then) == WORKERS
    assert set(quick.states().values()) == {State.STORED}


def test_what_is_taken_back_of_a_row_that_was_taken_away_is_not_sent_later(quick):
    write(quick, 8)
    start = quick.service.start

    def take_away(request, body):
        if request.filename == "00":
            with closing(sqlite3.connect(quick.ledger_path)) as conn:
                conn.execute("PRAGMA foreign_keys=OFF")
                conn.execute("DELETE FROM files WHERE path = CAST('01' AS BLOB)")
                conn.commit()
            quick.site.circuit_breaker.trouble("no_answer", "down")
        return start(request, body)

    quick.service.start = take_away
    for _ in range(3):
        run(quick)
        quick.site.circuit_breaker.answered()
        quick.site.circuit_breaker.worked()
    assert "01" not in {post.filename for post in quick.service.posts}
    assert set(quick.states().values()) == {State.STORED}


def test_a_ledger_that_said_no_is_waited_for_as_long_as_any_the_next_time(quick):
    write(quick, 1)
    results, row = quick.site.sender.results, quick.row("00")
    errors = [LedgerError("busy"), RowUnfit("gone")]

    def fails():
        if errors:
            raise errors.pop(0)

    with pytest.raises(RowUnfit):
        results.insist(row, fails)
    quick.clock.advance(3600)
    errors.append(LedgerError("busy"))
    results.insist(row, fails)
    assert errors == []

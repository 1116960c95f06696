"""Requests that commands left in the ledger: carried out once, and for what was to be seen when they were left.

Covers `sync/requests/decisions.py` and `sync/requests/request.py`.
"""

import sqlite3
from contextlib import closing

import pytest
from structlog.testing import capture_logs

from assetsync.errors import LedgerError
from assetsync.model import State
from assetsync.sync.requests.decisions import Adopt, Audit, Resolve, Resume, SettleDrift
from assetsync.sync.requests.retry import LookUp, Retry
from assetsync.sync.requests.take import read_request, take_requests

AGAIN = Retry((b"a",), send_again=True).argument()


@pytest.fixture
def deaf(world):
    """A world that fails to write down what became of a request, as when the process is killed just before."""
    with closing(sqlite3.connect(world.ledger.store.path)) as conn:
        conn.execute(
            "CREATE TRIGGER unanswered BEFORE UPDATE OF done_at ON requests BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
        conn.commit()
    return world


def hear_again(world) -> None:
    with closing(sqlite3.connect(world.ledger.store.path)) as conn:
        conn.execute("DROP TRIGGER unanswered")
        conn.commit()


def test_crash_resends_once_per_request(deaf):
    deaf.write("a")
    deaf.scan_and_send()
    number = deaf.ledger.add_request("retry", AGAIN, deaf.clock.now())
    with pytest.raises(LedgerError):
        take_requests(deaf.site.context)
    deaf.restart()
    deaf.send()
    assert deaf.posted() == ["a", "a"]
    hear_again(deaf)
    take_requests(deaf.site.context)
    deaf.send()
    assert deaf.posted() == ["a", "a"]
    assert deaf.ledger.answer_to(number) == (
        "refused: the process ended before it did this, or the ledger is an older copy: it may be done:"
        " `assetsync explain` shows it, then ask again"
    )


def test_absent_verdict_covers_one_upload(deaf):
    deaf.write("a")
    deaf.service.script.extend(["lost_before", "lost_after"])
    deaf.scan_and_send()
    deaf.ledger.add_request("doubt", {"path": b"a".hex(), "asset": None}, deaf.clock.now())
    with pytest.raises(LedgerError):
        take_requests(deaf.site.context)
    deaf.site.gates.checked()
    deaf.send()
    assert deaf.row("a").state is State.IN_DOUBT
    hear_again(deaf)
    take_requests(deaf.site.context)
    deaf.site.gates.checked()
    deaf.send()
    assert (deaf.posted(), len(deaf.service.assets)) == (["a", "a"], 1)


def test_brake_pulled_after_request_stays(world):
    ledger, now = world.ledger, world.clock.now()
    ledger.pull_brake("emptied", "one", "it is empty", 1, now)
    ledger.add_request("resume", Resume().as_seen(ledger).argument(), now)
    ledger.pull_brake("vanished", "site", "9,000 of 10,000 known files are gone", 9000, now)
    take_requests(world.site.context)
    assert [brake.subject for brake in ledger.reports.brakes()] == ["site"]


@pytest.mark.parametrize("argument", ["[]", "null", "{", ""])
@pytest.mark.parametrize("verb", ["retry", "resume", "doubt", "drift"])
def test_non_object_request_is_refused(world, verb, argument):
    world.ledger.pull_brake("emptied", "one", "it is empty", 1, world.clock.now())
    with closing(sqlite3.connect(world.ledger.store.path)) as conn:
        conn.execute("INSERT INTO requests (verb, argument, asked_at) VALUES (?, ?, 1.0)", (verb, argument))
        conn.commit()
    assert take_requests(world.site.context) == 1
    assert world.ledger.answer_to(1).startswith("refused: ")
    assert len(world.ledger.reports.brakes()) == 1


def test_requested_audit_is_no_success_yet(world):
    number = world.ledger.add_request("audit", {}, world.clock.now())
    with capture_logs() as logged:
        take_requests(world.site.context)
    assert [entry["event"] for entry in logged] == ["request accepted"]
    assert world.ledger.answer_to(number) == "an audit of each mapped folder is due: it begins once the service answers"


@pytest.mark.parametrize(
    "request_",
    [
        Retry((b"a\xff", b"d"), send_again=True, reason="missing"),
        Retry(),
        LookUp((b"a",)),
        Resume(),
        Resume(3, (1, 3)),
        Resolve(b"a", "A1"),
        Resolve(b"a", None),
        SettleDrift((b"",)),
        Audit(),
        Adopt(),
    ],
    ids=repr,
)
def test_request_survives_the_ledger(world, request_):
    """A request read from the ledger equals the request that was left there."""
    world.ledger.add_request(request_.verb, request_.argument(), world.clock.now())
    (kept,) = world.ledger.open_requests()
    assert read_request(kept.verb, kept.argument) == request_


@pytest.mark.parametrize(
    ("verb", "argument", "asked"),
    [
        ("retry", {"paths": ["61", "61"], "send_again": False}, Retry((b"a",))),
        ("resume", {"id": 3}, Resume(3)),
        ("doubt", {"path": "61", "asset": None}, Resolve(b"a", None)),
        ("drift", {"paths": ["61"]}, SettleDrift((b"a",))),
        ("audit", {}, Audit()),
    ],
)
def test_requests_of_older_releases_are_read(verb, argument, asked):
    """They left out fields without a value, and named a path twice."""
    assert read_request(verb, argument) == asked


@pytest.mark.parametrize("paths", [None, "61", ["no hex"], [1]])
def test_malformed_paths_are_refused(paths):
    """They never mean all files."""
    with pytest.raises(ValueError):
        read_request("retry", {"paths": paths})

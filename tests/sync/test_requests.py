"""What is asked of the holder of the ledger: carried out once, and for what was to be seen when it was asked."""

import sqlite3
from contextlib import closing

import pytest
from structlog.testing import capture_logs

from assetsync.core.states import Event
from assetsync.errors import LedgerError, UnknownPath, UsageError
from assetsync.model import State
from assetsync.sync.requests import asked_of, carry_out, take_requests

AGAIN = {"paths": [b"a".hex()], "send_again": True}


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
        "refused: the process ended while it did this, and it may be done: `assetsync explain` tells, then ask again"
    )


def test_absent_verdict_covers_one_upload(deaf):
    deaf.write("a")
    deaf.service.script.extend(["lost_before", "lost_after"])
    deaf.scan_and_send()
    deaf.ledger.add_request("doubt", {"path": b"a".hex(), "asset": None}, deaf.clock.now())
    with pytest.raises(LedgerError):
        take_requests(deaf.site.context)
    deaf.site.circuit_breaker.health_check_answered()
    deaf.send()
    assert deaf.row("a").state is State.IN_DOUBT
    hear_again(deaf)
    take_requests(deaf.site.context)
    deaf.site.circuit_breaker.health_check_answered()
    deaf.send()
    assert (deaf.posted(), len(deaf.service.assets)) == (["a", "a"], 1)


def test_brake_pulled_after_request_stays(world):
    ledger, now = world.ledger, world.clock.now()
    ledger.pull_brake("emptied", "one", "it is empty", 1, now)
    ledger.add_request("resume", asked_of(ledger, "resume", {"id": None}), now)
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


@pytest.fixture
def blocked(world):
    """A world with blocked files in and beside a folder, and one verified in it."""
    for path in ("d/e/1", "d/2", "d-e", "d0"):
        world.write(path, b"content of " + path.encode())
    world.write("d/fine")
    world.scan()
    for path in ("d/e/1", "d/2", "d-e", "d0"):
        world.ledger.queue.hold(world.row(path).id, "different", "it is so", world.clock.now())
    world.live(5)
    return world


@pytest.mark.parametrize("found_by", ["retry", "audit"])
def test_returned_asset_blocks_no_new_version(world, found_by):
    for name in "abcd":
        world.write(name)
    world.scan_and_send()
    world.live(150)
    assetid = world.row("a").assetid
    kept = world.service.assets.pop(assetid)
    world.clock.advance(60)
    world.site.auditor.audit("F1")
    again = {"paths": [b"a".hex()]}
    carry_out(world.ledger, world.service, world.clock, "retry", again)
    world.live(1500, tick=10)
    assert (world.row("a").state, world.row("a").reason) == (State.BLOCKED, "missing")
    world.service.assets[assetid] = kept
    if found_by == "retry":
        carry_out(world.ledger, world.service, world.clock, "retry", again)
    else:
        world.clock.advance(60)
        world.site.auditor.audit("F1")
    world.live(60)
    assert world.row("a").state is State.VERIFIED
    world.write("a", b"another content")
    world.scan_and_send()
    world.live(60)
    assert (world.row("a").state, world.posted().count("a")) == (State.VERIFIED, 2)
    assert [orphan.assetid for orphan in world.orphans()] == [assetid]


@pytest.mark.parametrize(
    ("asked", "tried"),
    [
        (["d"], {"d/e/1", "d/2"}),
        (["d/e", "d/e/1"], {"d/e/1"}),
        (["d/e", "d", "d"], {"d/e/1", "d/2"}),
        ([""], {"d/e/1", "d/2", "d-e", "d0"}),
        (["d-e"], {"d-e"}),
    ],
)
def test_folder_retry_covers_blocked_files(blocked, asked, tried):
    paths = [path.encode().hex() for path in asked]
    told = carry_out(blocked.ledger, blocked.service, blocked.clock, "retry", {"paths": paths})
    assert told == f"{len(tried)} to be tried again"
    states = {path for path, state in blocked.states().items() if state is State.QUEUED}
    assert states == tried
    assert blocked.row("d/fine").state is State.VERIFIED


def test_former_file_retry_covers_files_below(world):
    world.write("a")
    world.scan_and_send()
    (world.root / "a").unlink()
    world.scan()
    world.service.script.append("no_filedata")
    world.write("a/b", b"another content")
    world.scan_and_send()
    assert world.row("a/b").state is State.BLOCKED
    told = carry_out(world.ledger, world.service, world.clock, "retry", {"paths": [b"a".hex()]})
    assert told == "1 no longer in the tree; 1 to be tried again"
    assert world.row("a/b").state is State.QUEUED


def test_retry_of_unknown_folder_is_a_mistake(blocked):
    def retry(path: str, **more) -> str:
        return carry_out(
            blocked.ledger, blocked.service, blocked.clock, "retry", {"paths": [path.encode().hex()], **more}
        )

    retry("d")
    assert retry("d") == "nothing is blocked or in doubt"
    with pytest.raises(UnknownPath):
        retry("f")
    with pytest.raises(UsageError, match=r"d is a folder.*`assetsync files --state blocked d` lists"):
        retry("d", send_again=True)


@pytest.fixture
def doubtful(world):
    """A world with doubts in and beside a folder, each to be looked up in four minutes."""
    for path in ("d/1", "d/e/2", "d-e"):
        world.write(path, b"content of " + path.encode())
        world.service.script.append("lost_before")
        world.scan_and_send()
        world.site.circuit_breaker.health_check_answered()
    ids = [world.ledger.doubts.of(world.row(path).id).id for path in ("d/1", "d/e/2", "d-e")]
    world.ledger.doubts.unanswered(ids, (), world.clock.now() + 240, "no answer")
    return world


def due(world) -> set[str]:
    return {doubt.file.path.decode() for doubt in world.ledger.doubts.due(world.clock.now())}


@pytest.mark.parametrize("verb", ["retry", "look"])
@pytest.mark.parametrize(
    ("asked", "looked"),
    [
        (["d"], {"d/1", "d/e/2"}),
        (["d", "d/1"], {"d/1", "d/e/2"}),
        (["d/e"], {"d/e/2"}),
        ([], {"d/1", "d/e/2", "d-e"}),
    ],
)
def test_doubts_below_folder_are_due_now(doubtful, verb, asked, looked):
    assert due(doubtful) == set()
    paths = [path.encode().hex() for path in asked]
    told = carry_out(doubtful.ledger, doubtful.service, doubtful.clock, verb, {"paths": paths})
    assert told.startswith(f"{len(looked)} to be looked up ")
    assert (due(doubtful), set(doubtful.states().values())) == (looked, {State.IN_DOUBT})


def test_doubt_of_replaced_version_is_due_now(doubtful):
    doubtful.write("d/1", b"a newer content")
    doubtful.scan()
    told = carry_out(doubtful.ledger, doubtful.service, doubtful.clock, "retry", {"paths": [b"d/1".hex()]})
    assert told == "1 to be sent; 1 to be looked up again"
    assert due(doubtful) == {"d/1"}


def test_look_leaves_blocked_files_alone(blocked):
    told = carry_out(blocked.ledger, blocked.service, blocked.clock, "look", {"paths": []})
    assert told == "nothing is to be looked up: `assetsync retry` looks up what is blocked"
    assert blocked.row("d/2").state is State.BLOCKED


def test_frequent_look_shortens_no_grace(world):
    world.write("a")
    world.service.script.append("lost_before")
    world.scan_and_send()
    began = world.clock.steady()
    while len(world.service.posts) == 1:
        carry_out(world.ledger, world.service, world.clock, "look", {"paths": []})
        world.live(0.5, tick=0.5)
    assert world.clock.steady() - began >= world.site.config.upload.doubt_grace


def test_requested_audit_is_no_success_yet(world):
    number = world.ledger.add_request("audit", {}, world.clock.now())
    with capture_logs() as logged:
        take_requests(world.site.context)
    assert [entry["event"] for entry in logged] == ["request accepted"]
    assert world.ledger.answer_to(number) == "an audit of each mapped folder is due: it begins once the service answers"


@pytest.fixture
def missing(world):
    """A world with three files that an audit misses, one that is blocked for another reason, and 40 fine ones."""
    for name in ("d/1", "d/2", "e", "other", *(f"f/{number}" for number in range(40))):
        world.write(name, b"content of " + name.encode())
    world.scan_and_send()
    world.live(60)
    for name in ("d/1", "d/2", "e"):
        del world.service.assets[world.row(name).assetid]
    world.clock.advance(60)
    world.site.auditor.audit("F1")
    world.ledger.assets.apply_all(
        [(world.row("other"), Event.DIFFERENT, {"reason": "different", "detail": "it is so"})], world.clock.now()
    )
    return world


@pytest.mark.parametrize(("asked", "sent"), [([], ["1", "2", "e"]), (["d"], ["1", "2"]), (["e", "other"], ["e"])])
def test_missing_files_are_sent_again(missing, asked, sent):
    argument = {"paths": [path.encode().hex() for path in asked], "send_again": True, "reason": "missing"}
    posted = len(missing.service.posts)
    told = carry_out(missing.ledger, missing.service, missing.clock, "retry", argument)
    assert told == f"{len(sent)} to be sent again"
    assert (
        carry_out(missing.ledger, missing.service, missing.clock, "retry", argument) == "nothing is blocked as missing"
    )
    missing.live(60)
    assert sorted(missing.posted()[posted:]) == sent
    assert missing.row("other").reason == "different"


def test_reason_selects_blocked_files(missing):
    argument = {"paths": [], "send_again": False, "reason": "different"}
    told = carry_out(missing.ledger, missing.service, missing.clock, "retry", argument)
    assert (told, missing.row("e").state) == ("1 to be read back again", State.BLOCKED)


def test_only_missing_files_are_resent_together(missing):
    argument = {"paths": [], "send_again": True, "reason": "different"}
    with pytest.raises(UsageError, match="--send-again is not for all files with the reason different"):
        carry_out(missing.ledger, missing.service, missing.clock, "retry", argument)

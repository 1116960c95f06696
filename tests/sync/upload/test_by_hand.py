"""The holder's side of `assetsync upload`; the command itself is tested in `cli/commands/test_upload.py`.

Covers `sync/requests/upload.py`.
"""

import json
import os
from contextlib import contextmanager

import pytest

from assetsync.core.doubt import Judgement, Verdict
from assetsync.core.names import sent_name
from assetsync.core.outcome import read_silence
from assetsync.ledger.doubts import OpenDoubt
from assetsync.ledger.file.database import hold_by_hand
from assetsync.ledger.queue import Intent
from assetsync.model import Answer, Fault, Outcome, Sent, SentExtent, State, Wanted
from assetsync.sync.requests.take import read_request, take_requests
from assetsync.sync.requests.upload import BeginUpload, EndUpload
from assetsync.sync.upload.by_hand import MAY_BE_THERE, MAY_SEND, REFUSED, THERE, ByHand, begin
from assetsync.tree.body import digest
from assetsync.tree.safe_open import Tree
from tests.world import FOLDER

REFUSED_BY_KEY = Outcome(Answer.REFUSED, "key_refused", "the key", Fault.KEY)


def asked(world, path, boundary="one"):
    """What the command asks for a file of the tree."""
    with world.site.context.tree.open(path.encode()) as file:
        md5 = digest(file, file.stat)
        folder = world.site.plan.mappings.all[0].destfolderid
        intent = Intent(0, folder, sent_name(path.encode()), boundary, file.stat, md5, "", by_hand=True)
    return ByHand(path.encode(), intent)


def elsewhere(world, content, boundary="one"):
    """What the command asks for a file that is not of the tree."""
    path = world.base / "elsewhere.jpg"
    path.write_bytes(content)
    with Tree(bytes(world.base)).open(b"elsewhere.jpg") as file:
        intent = Intent(0, FOLDER, "elsewhere.jpg", boundary, file.stat, digest(file, file.stat), "", by_hand=True)
    return ByHand(bytes(path), intent)


@contextmanager
def running(world, boundary="one"):
    """A command that runs."""
    lock = hold_by_hand(world.ledger.store.path, boundary)
    try:
        yield
    finally:
        os.close(lock)


def begin_request(hand):
    """The request that the command leaves for an upload."""
    return BeginUpload(hand.path, hand.intent, hand.send_again)


def outcome_of(boundary, sent):
    """The argument of the request by which the command reports the end of its upload."""
    return EndUpload(boundary, sent.outcome, sent.left, sent.bytes_sent, sent.md5, sent.took).argument()


def carry(world, verb, argument):
    return world.ask(read_request(verb, argument))


def began(world, hand):
    return begin(world.ledger, world.service, hand, world.clock.now()).what


def attempts(world):
    return world.ledger.store.rows("SELECT COUNT(*) FROM attempts")[0][0]


def test_a_request_is_read_as_it_was_made(world):
    world.write("a")
    made = begin_request(asked(world, "a"))
    assert BeginUpload.of(json.loads(json.dumps(made.argument()))) == made


def test_a_request_that_is_repeated_begins_once(world):
    world.write("a")
    hand = asked(world, "a")
    with running(world):
        assert [began(world, hand), began(world, hand)] == [MAY_SEND, MAY_SEND]
    assert attempts(world) == 1


def test_who_has_gone_begins_nothing(world):
    world.write("a")
    number = world.ledger.add_request("upload", begin_request(asked(world, "a")).argument(), world.clock.now())
    take_requests(world.site.context)
    assert world.ledger.answer_to(number) == "refused: the upload was given up before it began"
    assert attempts(world) == 0


def test_two_of_the_same_file_begin_once(world):
    world.write("a")
    with running(world, "one"), running(world, "two"):
        assert began(world, asked(world, "a", "one")) == MAY_SEND
        assert began(world, asked(world, "a", "two")) == MAY_BE_THERE


def test_a_start_leaves_in_flight_what_still_runs(world):
    world.write("a")
    with running(world):
        began(world, asked(world, "a"))
        world.restart()
        assert world.row("a").state is State.SENDING
    world.restart()
    assert world.row("a").state is State.IN_DOUBT


def test_an_unsent_tree_file_is_queued(world):
    world.write("a")
    with running(world):
        began(world, asked(world, "a"))
        carry(world, "uploaded", outcome_of("one", Sent(REFUSED_BY_KEY, SentExtent.NOTHING, 0, "")))
    assert world.row("a").state is State.QUEUED


LOST = outcome_of("one", Sent(read_silence(SentExtent.ALL, "cut"), SentExtent.ALL, 7, "M", took=600.0))


FAILED = read_silence(SentExtent.ALL, "HTTP status 500")._replace(answered=True)


@pytest.mark.parametrize(
    ("said", "took", "answered"),
    [
        (LOST, 600.0, False),
        ({k: v for k, v in LOST.items() if k != "took"}, 0.0, False),
        (LOST | {"outcome": {k: v for k, v in LOST["outcome"].items() if k != "answered"}}, 600.0, False),
        (outcome_of("one", Sent(FAILED, SentExtent.ALL, 7, "M", took=3.0)), 3.0, True),
    ],
)
def test_lost_upload_keeps_duration_and_answer(world, said, took, answered):
    world.write("a")
    with running(world):
        began(world, asked(world, "a"))
        carry(world, "uploaded", json.loads(json.dumps(said)))
    attempt = world.ledger.doubts.of(world.row("a").id)
    assert (attempt.took, attempt.answered) == (took, answered)


def test_asked_wait_holds_the_folder(world):
    """It makes no difference whether the command holds the ledger or leaves the result to its holder."""
    world.write("a")
    sent = Sent(FAILED._replace(retry_after=60.0), SentExtent.ALL, 7, "M")
    with running(world):
        hand = asked(world, "a")
        began(world, hand)
        carry(world, "uploaded", json.loads(json.dumps(outcome_of("one", sent))))
    assert [*world.ledger.reports.holds(world.clock.now())] == [hand.intent.destfolderid]


@pytest.fixture
def lost(world):
    """An upload by hand that is known to be lost."""
    world.site.begin()
    world.write("kept.jpg")
    world.scan_and_send()
    with running(world):
        hand = elsewhere(world, b"precious")
        began(world, hand)
        carry(world, "uploaded", LOST | {"md5": hand.intent.md5, "took": 0.1})
    world.live(1000)
    return hand


def state_of(world, hand):
    (row,) = world.ledger.reports.of_path(hand.path)
    return row.state, row.wanted


def test_lost_upload_from_elsewhere_is_blocked(world, lost):
    assert state_of(world, lost) == (State.BLOCKED, Wanted.OUTSIDE)
    (row,) = world.ledger.reports.blocked(9)
    assert row.detail.endswith("did not arrive: `assetsync upload` it again")
    carry(world, "retry", {"paths": [lost.path.hex()]})
    assert state_of(world, lost) == (State.BLOCKED, Wanted.OUTSIDE)


def test_lost_upload_with_equal_content_is_settled(world, lost):
    world.write("equal.jpg", b"precious")
    world.scan_and_send()
    with running(world):
        assert began(world, lost) == THERE
    assert state_of(world, lost) == (State.QUEUED, Wanted.OUTSIDE)


def test_busy_name_keeps_a_lost_upload_blocked(world, lost):
    world.service.script.append("lost_before")
    world.write("elsewhere.jpg", b"of another size")
    world.scan_and_send()
    with running(world):
        assert began(world, lost) == MAY_BE_THERE
    assert state_of(world, lost) == (State.BLOCKED, Wanted.OUTSIDE)


@pytest.mark.parametrize("kind", ["root", "service", "twin"])
def test_a_brake_on_the_identity_keeps_it(world, kind):
    world.write("a")
    world.ledger.pull_brake(kind, "site", "it is another", 0, world.clock.now())
    with running(world):
        number = world.ledger.add_request("upload", begin_request(asked(world, "a")).argument(), world.clock.now())
        take_requests(world.site.context)
    assert world.ledger.answer_to(number).startswith("refused: brake 1 is pulled: it is another")


ACCEPTED = outcome_of("one", Sent(Outcome(Answer.ACCEPTED, assetid="A"), SentExtent.ALL, 1, "M"))


@pytest.mark.parametrize(
    ("verb", "argument"),
    [
        ("upload", {}),
        ("upload", {"path": "61", "send_again": False, "intent": 1}),
        ("upload", {"path": "61", "send_again": False, "intent": {"stat": [1]}}),
        ("uploaded", {}),
        ("uploaded", ACCEPTED),
        ("uploaded", ACCEPTED | {"outcome": None}),
        ("uploaded", ACCEPTED | {"outcome": {"answer": "accepted", "reason": "", "detail": "", "fault": "none"}}),
    ],
)
def test_a_request_without_sense_is_refused(world, verb, argument):
    world.ledger.add_request(verb, argument, world.clock.now())
    take_requests(world.site.context)
    assert world.ledger.answer_to(1).startswith("refused: ")
    assert attempts(world) == 0


@pytest.mark.parametrize("changed", [None, b"changed"])
def test_asset_of_a_past_version_gets_an_owner(world, changed):
    """Upload by hand what a file held that is gone or changed: the asset is the hand's, and no orphan."""
    world.site.begin()
    world.write("a.jpg", b"precious")
    world.write("kept.jpg", b"kept")
    world.scan_and_send()
    world.live(100)
    given = world.row("a.jpg").assetid
    os.unlink(world.root / "a.jpg")
    if changed:
        world.write("a.jpg", changed)
    world.scan_and_send()
    world.live(100)
    hand = elsewhere(world, b"precious")
    with running(world):
        begun = begin(world.ledger, world.service, hand, world.clock.now())
    assert (begun.what, begun.assetid) == (THERE, given)
    world.live(100)
    world.clock.advance(8 * 86_400)
    (row,) = world.ledger.reports.of_path(hand.path)
    assert (row.state, row.wanted, list(world.orphans())) == (State.VERIFIED, Wanted.OUTSIDE, [])


def make_missing(world, assetid):
    world.clock.advance(2000)
    del world.service.assets[assetid]
    world.site.auditor.audit(FOLDER)


def test_missing_asset_is_not_claimed(world):
    world.site.begin()
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        world.write(name, name.encode())
    world.scan_and_send()
    world.live(100)
    make_missing(world, world.row("a.jpg").assetid)
    with running(world, "one"), running(world, "two"):
        for hand in (asked(world, "a.jpg", "one"), elsewhere(world, b"a.jpg", "two")):
            begun = begin(world.ledger, world.service, hand, world.clock.now())
            assert (begun.what, "is not in the service any more" in begun.message) == (REFUSED, True)


def test_missing_upload_by_hand_is_not_queued(make_world):
    world = make_world(policy={"on_remote_missing": "upload"})
    world.site.begin()
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        world.write(name, name.encode())
    world.scan_and_send()
    hand = elsewhere(world, b"precious")
    with running(world):
        began(world, hand)
        given = world.service.put(b"precious", "elsewhere.jpg").id
        answer = Outcome(Answer.ACCEPTED, assetid=given)
        carry(world, "uploaded", outcome_of("one", Sent(answer, SentExtent.ALL, 8, hand.intent.md5)))
    world.live(1000)
    make_missing(world, given)
    assert state_of(world, hand) == (State.BLOCKED, Wanted.OUTSIDE)


@pytest.fixture
def undecided(world):
    """An upload by hand that a person must decide, and a newer one of the same path that was accepted."""
    world.site.begin()
    world.write("kept.jpg")
    world.scan_and_send()
    hand = elsewhere(world, b"precious")
    with running(world):
        began(world, hand)
        carry(world, "uploaded", LOST | {"md5": hand.intent.md5, "took": 0.1})
    (older,) = world.ledger.reports.of_path(hand.path)
    doubt = OpenDoubt(older, world.ledger.doubts.of(older.id))
    world.ledger.doubts.decide(doubt, Verdict(Judgement.UNDECIDABLE, reason="unclear"), world.clock.now())
    with running(world, "two"):
        newer = elsewhere(world, b"newer content", "two")
        began(world, newer)
        answer = Outcome(Answer.ACCEPTED, assetid=world.service.put(b"newer content", "elsewhere.jpg").id)
        carry(world, "uploaded", outcome_of("two", Sent(answer, SentExtent.ALL, 13, newer.intent.md5)))
    return hand


def states(world, hand):
    return [row.state for row in reversed(world.ledger.reports.of_path(hand.path))]


def test_older_upload_by_hand_is_resolved(world, undecided):
    assert states(world, undecided) == [State.BLOCKED, State.STORED]
    carry(world, "doubt", {"path": undecided.path.hex(), "asset": None})
    assert states(world, undecided) == [State.QUEUED, State.STORED]


@pytest.mark.parametrize("named", [True, False])
def test_retry_includes_uploads_by_hand(world, undecided, named):
    carry(world, "retry", {"paths": [undecided.path.hex()] if named else []})
    assert states(world, undecided) == [State.IN_DOUBT, State.STORED]


def test_unlisted_folder_is_listed_once(world):
    listed = []
    for number in range(3):
        with running(world, f"b{number}"):
            assert began(world, elsewhere(world, b"content %d" % number, f"b{number}")) == MAY_SEND
            carry(world, "uploaded", outcome_of(f"b{number}", Sent(REFUSED_BY_KEY, SentExtent.NOTHING, 0, "")))
        listed.append(len(world.service.searches))
    assert (listed, world.ledger.folder_listings.needed(FOLDER)) == ([2, 2, 2], True)
    world.ledger.folder_listings.again(FOLDER)
    assert world.ledger.folder_listings.needed_by_hand(FOLDER)

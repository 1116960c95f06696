"""Retries by an operator: which files they reach, what becomes of each, and what they refuse."""

import pytest

from assetsync.core.states import Event
from assetsync.errors import UnknownPath, UsageError
from assetsync.ledger.read_back import Change
from assetsync.model import State
from assetsync.sync.requests.retry import LookUp, Retry


@pytest.fixture
def blocked(world):
    """A world with blocked files in and beside a folder, and one verified in it."""
    for path in ("d/e/1", "d/2", "d-e", "d0"):
        world.write(path, b"content of " + path.encode())
    world.write("d/fine")
    world.scan()
    for path in ("d/e/1", "d/2", "d-e", "d0"):
        world.ledger.queue.block(world.row(path).id, "different", "it is so", world.clock.now())
    world.live(5)
    return world


@pytest.mark.parametrize("found_by", ["retry", "audit"])
def test_returned_asset_blocks_no_new_version(world, found_by):
    """A missing asset comes back: the file's next version is sent, and the old asset is listed as replaced."""
    for name in "abcd":
        world.write(name)
    world.scan_and_send()
    world.live(150)
    assetid = world.row("a").assetid
    kept = world.service.assets.pop(assetid)
    world.clock.advance(60)
    world.site.auditor.audit("F1")
    world.ask(Retry((b"a",)))
    world.live(1500, tick=10)
    assert (world.row("a").state, world.row("a").reason) == (State.BLOCKED, "missing")
    world.service.assets[assetid] = kept
    if found_by == "retry":
        world.ask(Retry((b"a",)))
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
    told = blocked.ask(Retry(tuple(path.encode() for path in asked)))
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
    told = world.ask(Retry((b"a",)))
    assert told == "1 no longer in the tree; 1 to be tried again"
    assert world.row("a/b").state is State.QUEUED


def test_retry_of_unknown_folder_is_a_mistake(blocked):
    def retry(path: str, **more) -> str:
        return blocked.ask(Retry((path.encode(),), **more))

    retry("d")
    assert retry("d") == "nothing is blocked or in doubt"
    with pytest.raises(UnknownPath):
        retry("f")
    with pytest.raises(UsageError, match=r"d is a folder.*`assetsync files --state blocked d` lists"):
        retry("d", send_again=True)


def test_hint_quotes_the_folder_for_a_shell(world):
    world.write("my docs/a")
    world.scan_and_send()
    with pytest.raises(UsageError, match=r"`assetsync files --state blocked 'my docs'` lists"):
        world.ask(Retry((b"my docs",), send_again=True))


@pytest.fixture
def doubtful(world):
    """A world with doubts in and beside a folder, each to be looked up in four minutes."""
    for path in ("d/1", "d/e/2", "d-e"):
        world.write(path, b"content of " + path.encode())
        world.service.script.append("lost_before")
        world.scan_and_send()
        world.site.gates.checked()
    ids = [world.ledger.doubts.of(world.row(path).id).id for path in ("d/1", "d/e/2", "d-e")]
    world.ledger.doubts.unanswered(ids, (), world.clock.now() + 240, "no answer")
    return world


def due(world) -> set[str]:
    return {doubt.file.path.decode() for doubt in world.ledger.doubts.due(world.clock.now())}


@pytest.mark.parametrize("kind", [Retry, LookUp])
@pytest.mark.parametrize(
    ("asked", "looked"),
    [
        (["d"], {"d/1", "d/e/2"}),
        (["d", "d/1"], {"d/1", "d/e/2"}),
        (["d/e"], {"d/e/2"}),
        ([], {"d/1", "d/e/2", "d-e"}),
    ],
)
def test_doubts_below_folder_are_due_now(doubtful, kind, asked, looked):
    assert due(doubtful) == set()
    told = doubtful.ask(kind(tuple(path.encode() for path in asked)))
    assert told.startswith(f"{len(looked)} to be looked up ")
    assert (due(doubtful), set(doubtful.states().values())) == (looked, {State.IN_DOUBT})


def test_doubt_of_replaced_version_is_due_now(doubtful):
    doubtful.write("d/1", b"a newer content")
    doubtful.scan()
    told = doubtful.ask(Retry((b"d/1",)))
    assert told == "1 to be sent; 1 to be looked up again"
    assert due(doubtful) == {"d/1"}


def test_look_leaves_blocked_files_alone(blocked):
    told = blocked.ask(LookUp())
    assert told == "nothing is to be looked up: `assetsync retry` looks up what is blocked"
    assert blocked.row("d/2").state is State.BLOCKED


def test_frequent_look_shortens_no_grace(world):
    world.write("a")
    world.service.script.append("lost_before")
    world.scan_and_send()
    began = world.clock.steady()
    while len(world.service.posts) == 1:
        world.ask(LookUp())
        world.live(0.5, tick=0.5)
    assert world.clock.steady() - began >= world.site.config.upload.doubt_grace


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
    world.ledger.read_back.apply_all(
        [Change(world.row("other"), Event.DIFFERENT, {"reason": "different", "detail": "it is so"})], world.clock.now()
    )
    return world


@pytest.mark.parametrize(("asked", "sent"), [([], ["1", "2", "e"]), (["d"], ["1", "2"]), (["e", "other"], ["e"])])
def test_missing_files_are_sent_again(missing, asked, sent):
    again = Retry(tuple(path.encode() for path in asked), send_again=True, reason="missing")
    posted = len(missing.service.posts)
    told = missing.ask(again)
    assert told == f"{len(sent)} to be sent again"
    assert missing.ask(again) == "nothing is blocked as missing"
    missing.live(60)
    assert sorted(missing.posted()[posted:]) == sent
    assert missing.row("other").reason == "different"


def test_reason_selects_blocked_files(missing):
    told = missing.ask(Retry(reason="different"))
    assert (told, missing.row("e").state) == ("1 to be read back again", State.BLOCKED)


def test_only_missing_files_are_resent_together(missing):
    with pytest.raises(UsageError, match="--send-again is not for all files with the reason different"):
        missing.ask(Retry(send_again=True, reason="different"))

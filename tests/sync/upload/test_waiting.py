"""A large file that may be what is being uploaded under another name: it waits until that is known, and no longer."""

import threading

import pytest

from assetsync.model import State
from assetsync.sync.upload import queue as upload_queue
from assetsync.tree.body import TappedBody
from tests.sync.conftest import chunked, die_sending, lose

VERIFIED = State.VERIFIED
GRACE = 20
LARGE = chunked(9 * 2**20)


@pytest.fixture
def nothing_is_read_ahead(monkeypatch):
    """Let what one file does to the queue show in the next one that is taken."""
    monkeypatch.setattr(upload_queue, "_BATCH", 1)


def save_elsewhere(world) -> None:
    """Copy the file to another name in its folder, and put another one in its place."""
    world.write("kept.jpg", LARGE)
    world.write("new", b"an edit").rename(world.root / "a.jpg")


def send_beside(world) -> None:
    """Send what is due from another thread, while an upload of this one is on its way."""
    other = threading.Thread(target=world.send)
    other.start()
    other.join()


@pytest.mark.parametrize("arrived", [True, False])
def test_renamed_large_file_is_stored_once(world, arrived):
    die_sending(world, LARGE, arrived=arrived)
    save_elsewhere(world)
    world.scan_and_send()
    assert world.posted() == ["a.jpg"]
    assert "may be what was being uploaded as a.jpg" in world.row("kept.jpg").detail
    world.live(4 * GRACE)
    assert sorted(world.service.contents) == [LARGE, b"an edit"]
    assert set(world.states().values()) == {VERIFIED}
    assert (world.row("kept.jpg").detail, world.orphans()) == (None, [])


def test_replaced_large_file_is_stored_once(world):
    def replace(_request) -> None:
        world.service.during_upload = lambda _request: None
        save_elsewhere(world)
        world.scan()
        send_beside(world)

    world.service.during_upload = replace
    lose(world, content=LARGE)
    world.live(4 * GRACE)
    world.scan_and_send()
    world.live(GRACE)
    assert sorted(world.service.contents) == [LARGE, b"an edit"]
    assert set(world.states().values()) == {VERIFIED}


def test_clock_setback_before_copy_is_harmless(world, clock):
    die_sending(world, LARGE, arrived=True)
    clock.set_now(clock.now() - 3600)
    save_elsewhere(world)
    world.scan_and_send()
    assert world.posted() == ["a.jpg"]


def test_unmoved_doubt_delays_no_equal_size(world):
    die_sending(world, LARGE, arrived=False)
    world.write("b.jpg", LARGE[::-1])
    world.scan_and_send()
    assert world.posted() == ["a.jpg", "b.jpg"]


def test_file_replaced_in_hashing_is_sent_once(world):
    """A file is replaced while its twin is compared with it: the new content is sent once, the old asset stays."""

    def copy(_request) -> None:
        world.service.during_upload = lambda _request: None
        world.write("kept.jpg", LARGE)
        world.scan()
        replaced = []

        def replace(_length: int) -> None:
            if not replaced:
                replaced.append(world.write("new", b"an edit").rename(world.root / "a.jpg"))

        world.site.context.progress.hashed = replace
        send_beside(world)

    world.service.during_upload = copy
    lose(world, content=LARGE)
    world.live(4 * GRACE)
    world.scan_and_send()
    world.live(GRACE)
    assert sorted(world.service.contents) == [LARGE, b"an edit"]


def test_large_file_waits_for_possible_twins(world):
    """The first that is looked at stands where it was, the second does not."""
    die_sending(world, LARGE[::-1], arrived=False)
    world.write("b.jpg", LARGE)
    world.service.script.append(("cut", 0))
    world.scan_and_send()
    world.ledger.store.write(lambda conn: conn.execute("UPDATE attempts SET md5 = NULL, bytes_sent_md5 = NULL"))
    world.ledger.store.write(lambda conn: conn.execute("UPDATE files SET md5 = NULL"))
    world.service.put(LARGE, "b.jpg")
    world.write("kept.jpg", LARGE)
    (world.root / "b.jpg").unlink()
    world.site.gates.checked()
    world.scan_and_send()
    assert world.posted() == ["a.jpg", "b.jpg"]
    world.live(4 * GRACE)
    assert sorted(world.service.contents) == sorted([LARGE, LARGE[::-1], b""])


@pytest.mark.usefixtures("nothing_is_read_ahead")
def test_earlier_large_copy_does_not_wait(world, clock):
    lose(world, "too_large", content=LARGE, path="old.jpg")
    clock.advance(1)
    die_sending(world, LARGE, arrived=False)
    clock.advance(1)
    save_elsewhere(world)
    world.scan()
    clock.advance(1)
    world.ledger.queue.retry_blocked("too_large", clock.now())
    world.send()
    assert world.posted() == ["old.jpg", "a.jpg", "old.jpg"]
    assert world.row("kept.jpg").state is State.QUEUED


@pytest.mark.usefixtures("nothing_is_read_ahead")
def test_requested_resend_does_not_wait(world, clock):
    die_sending(world, LARGE, arrived=False)
    save_elsewhere(world)
    world.write("wanted.jpg", LARGE[::-1])
    world.scan_and_send()
    assert world.posted() == ["a.jpg"]
    world.ledger.store.write(
        lambda conn: conn.execute("UPDATE files SET send_again = 1 WHERE path = ?", (b"wanted.jpg",))
    )
    clock.advance(5)
    world.send()
    assert world.posted() == ["a.jpg", "wanted.jpg"]


@pytest.mark.usefixtures("nothing_is_read_ahead")
def test_renamed_doubtful_file_does_not_wait(world):
    die_sending(world, LARGE, arrived=True)
    world.write("copy.jpg", LARGE)
    (world.root / "a.jpg").rename(world.root / "renamed.jpg")
    world.scan_and_send()
    assert world.row("renamed.jpg").state is State.IN_DOUBT
    world.live(4 * GRACE)
    assert world.service.contents == [LARGE, LARGE]
    assert world.states() == {"copy.jpg": VERIFIED, "renamed.jpg": VERIFIED}


def test_rewritten_file_delays_no_equal_size(make_world):
    """A file changes during each of its uploads; another file of its size does not wait for it."""
    world = make_world(upload={"workers": "1"})
    upload, rewritten = world.service.upload, []

    def rewrite(request, body):
        def tap(_length: int) -> None:
            if request.filename == "a.img" and len(rewritten) < world.posted().count("a.img"):
                rewritten.append(1)
                with (world.root / "a.img").open("r+b") as file:
                    file.write(b"%09d" % len(rewritten))

        return upload(request, TappedBody(body, tap))

    world.service.upload = rewrite
    world.write("a.img", LARGE)
    world.scan_and_send()
    world.write("b.img", LARGE[::-1])
    for _ in range(12):
        world.scan()
        world.live(5)
    assert "b.img" in world.posted()


def test_manual_doubt_is_not_waited_for(world, clock):
    world.service.put(b"there", "there")
    world.service.processing = 26 * 3600
    die_sending(world, LARGE, arrived=True)
    save_elsewhere(world)
    world.service.processing = 0
    world.scan_and_send()
    world.live(30)
    clock.advance(24 * 3600)
    world.live(120, tick=10)
    assert world.ledger.reports.counts(clock.now()).of(State.BLOCKED) == 1
    assert world.row("kept.jpg").state is VERIFIED


def test_waiting_files_delay_no_other(world, clock):
    """Three hundred files wait for a doubt of their size: they cost a commit a round, and another file passes them."""
    die_sending(world, LARGE, arrived=False)
    world.write("new", b"an edit").rename(world.root / "a.jpg")
    for number in range(300):
        with (world.root / f"{number}.raw").open("wb") as file:
            file.truncate(len(LARGE))
    world.scan_and_send()
    assert world.ledger.queue.due(clock.now(), 10) == []
    before = world.ledger.store._commits.count
    for _ in range(12):
        clock.advance(5)
        world.send()
    assert world.ledger.store._commits.count - before <= 12
    clock.advance(60)
    world.write("small", b"content")
    world.scan()
    # No more than are read ahead are looked at before it.
    for _ in range(66):
        world.site.uploader.step()
    assert "small" in world.posted()


def test_ended_wait_is_not_reported(make_world):
    mapped = [{"path": ".", "destfolderid": "F1", "sidecars": True}]
    world = make_world(folders=mapped, watch={"settle": "0s", "sidecar_wait": "600s"})
    world.write("a.jpg.yaml", b"description: x\n")
    die_sending(world, LARGE, arrived=False)
    save_elsewhere(world)
    world.scan_and_send()
    assert "may be what was being uploaded as a.jpg" in world.row("kept.jpg").detail
    world.live(200)
    assert world.states() == {"a.jpg": VERIFIED, "kept.jpg": State.QUEUED}
    assert "sidecar" in world.row("kept.jpg").detail

"""What was saved just now does not wait behind all that has waited for long."""

import pytest

from assetsync.model import State
from assetsync.sync.upload.queue import LONG, Choice, Step, UploadQueue

MANY = 200


@pytest.fixture
def world(make_world):
    return make_world(upload={"workers": "4", "doubt_grace": "2m"})


def save(world, name: str) -> None:
    world.write(name, name.encode())
    world.scan()


def handled_until_sent(world, name: str, most: int) -> int:
    """Give how many files are handled until one is sent; at most so many."""
    for count in range(1, most + 1):
        assert world.site.uploader.step() is Step.WORKED
        if name in world.posted():
            return count
    raise AssertionError(f"{name} is not among the first {most}")


def choke_on(world, ending: str) -> None:
    """Let no upload of a kind of file get through."""

    def lose(request) -> None:
        if request.filename.endswith(ending):
            world.service.script.append("lost_before")

    world.service.before_upload = lose


def test_new_photo_is_sent_second_in_import(world, clock):
    for number in range(MANY):
        world.write(f"import/{number}", b"old %d" % number)
    world.scan()
    clock.advance(61)
    save(world, "new")
    assert handled_until_sent(world, "new", 3) == 2


def test_new_photo_overtakes_rehashing(world, clock):
    paths = [world.write(f"old/{number}", b"old %d" % number) for number in range(MANY)]
    world.scan_and_send()
    clock.advance(3600)
    for path in paths:
        path.chmod(0o640)
    world.scan()
    clock.advance(61)
    save(world, "new")
    assert handled_until_sent(world, "new", 3) == 2
    world.send()
    assert len(world.service.assets) == MANY + 1


def test_new_photo_overtakes_sidecar_blocks(world, clock):
    world.write("old/_folder.yaml", b"nonsense: [")
    for number in range(MANY):
        world.write(f"old/{number}", b"old %d" % number)
    world.scan_and_send()
    clock.advance(3600)
    assert world.ledger.queue.retry_blocked("sidecar", clock.now()) == MANY
    save(world, "new")
    assert handled_until_sent(world, "new", 3) == 2


def test_new_photos_overtake_failing_files(world):
    choke_on(world, ".psd")
    for number in range(MANY):
        world.write(f"a/{number}.psd", b"p" * (number * 37 % 3000) + b"%d" % number)
    world.scan()
    world.live(600)
    for number in range(5):
        save(world, f"b/{number}.jpg")
        world.live(180)
        assert world.row(f"b/{number}.jpg").state is State.VERIFIED


def test_small_files_overtake_oversized_ones(world):
    world.service.loses = lambda size: size > 1000
    for number in range(40):
        world.write(f"a-video-{number}", b"v" * (1001 + number * 7919 % 1000) + b"%d" % number)
    for number in range(20):
        world.write(f"b-photo-{number}", b"photo %d" % number)
    world.scan()
    world.live(60)
    assert sum(path[0] == "b" and state is State.VERIFIED for path, state in world.states().items()) == 20
    world.service.loses = lambda _size: False
    world.live(1200)
    assert set(world.states().values()) == {State.VERIFIED}
    assert len(world.service.assets) == 60


def test_waiting_files_have_limited_doubts(world):
    choke_on(world, ".psd")
    for number in range(MANY):
        world.write(f"{number}.psd", b"%d" % number)
    world.scan()
    world.clock.advance(60)
    most = 0
    for _ in range(100):
        world.live(20)
        if world.ledger.queue.due(world.clock.now(), 1, newest=True):
            continue
        # All were tried: what is in doubt now is of those that have waited.
        most = max(most, world.ledger.doubts.count())
    assert most <= 12


def test_newest_file_follows_a_lost_upload(world):
    for number in range(4):
        world.write(f"{number}", b"%d" % number)
    world.scan()
    world.site.uploads.selection.answer_lost(world.row("3"))
    world.send()
    assert world.posted() == ["3", "0", "1", "2"]


def test_clock_set_back_counts_as_waiting(world, clock):
    for number in range(4):
        world.write(f"{number}", b"%d" % number)
    world.scan()
    # Due times of the future count as set by a clock that was wrong.
    clock.set_now(clock.now() - 7 * 86_400)
    world.send()
    assert sorted(world.posted()) == ["0", "1", "2", "3"]


def test_every_second_file_is_the_oldest(world, clock):
    for number in range(10):
        world.write(f"{number}", b"%d" % number)
    world.scan()
    clock.advance(61)
    world.send()
    assert world.posted() == ["0", "9", "1", "8", "2", "7", "3", "6", "4", "5"]


def test_fresh_files_keep_their_order(world):
    for number in range(10):
        world.write(f"{number}", b"%d" % number)
    world.scan_and_send()
    assert world.posted() == [f"{number}" for number in range(10)]


def test_one_worker_is_kept_for_short_files(world, clock):
    for number in range(3):
        (world.root / f"long{number}").touch()
        with (world.root / f"long{number}").open("r+b") as file:
            file.truncate(LONG + number)
    world.write("z-short", b"short")
    world.scan()
    upload_queue = UploadQueue(world.ledger, clock, most_long=2)
    taken = [upload_queue.take(Choice()) for _ in range(4)]
    assert [row and row.path for row in taken] == [b"long0", b"long1", b"z-short", None]
    upload_queue.release(taken[0])
    clock.advance(1)
    assert upload_queue.take(Choice()).path in (b"long0", b"long2")


def test_file_is_taken_once_from_either_end(world):
    world.write("one", b"one")
    world.write("two", b"two")
    world.scan()
    upload_queue = world.site.upload_queue
    given = [upload_queue.take(Choice()), upload_queue.take(Choice(newest=True))]
    assert [row.path for row in given] == [b"one", b"two"]
    assert (upload_queue.take(Choice()), upload_queue.take(Choice(newest=True))) == (None, None)

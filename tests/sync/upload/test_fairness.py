"""What was saved just now does not wait behind all that has waited for long.

Covers `sync/upload/queue.py`.
"""

import itertools
import random

import pytest

from assetsync.ledger.rows import FileRow
from assetsync.ledger.versions import NewVersion
from assetsync.model import FileStat, State
from assetsync.sync.upload.queue import LONG, Choice, Step, UploadQueue
from tests.world import FOLDER

MANY = 200
BURST = 5000


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


def test_file_is_taken_while_the_queue_keeps_changing(world, monkeypatch):
    """Files come more often than the queue can be read: with a million waiting for a held folder that takes long."""
    save(world, "a")
    queue = world.site.upload_queue
    due = queue._due

    def change(*asked):
        found = due(*asked)
        queue.clear()
        return found

    monkeypatch.setattr(queue, "_due", change)
    assert queue.take(Choice()).path == b"a"


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
        if world.ledger.queue.due(world.clock.now(), 1, choice=Choice(newest=True)):
            continue
        # All were tried: what is in doubt now is of those that have waited.
        most = max(most, world.ledger.doubts.count())
    assert most <= 12, "the most doubts at a time"


def test_newest_file_follows_a_lost_upload(world):
    for number in range(4):
        world.write(f"{number}", b"%d" % number)
    world.scan()
    world.site.uploads.selection.newest_is_next()
    world.send()
    assert world.posted() == ["3", "0", "2", "1"]


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


def move_in(world, *paths: str) -> None:
    """Queue files without a tree, in this order."""
    stat = FileStat(10, 1, 1, 1)
    versions = [NewVersion(path.encode(), stat, FOLDER, path.rpartition("/")[2], None) for path in paths]
    world.ledger.versions.enqueue(versions, world.clock.now())
    world.site.upload_queue.clear()


def taken(world, count: int) -> list[str]:
    """Take so many files, which are sent as far as the queue knows."""
    found = []
    for _ in range(count):
        row = world.site.uploads.selection.take()
        assert isinstance(row, FileRow)
        found.append(row.path.decode())
        world.ledger.store.change("UPDATE files SET state = 'stored' WHERE id = ?", row.id)
        world.site.gates.leave()
        world.site.uploads.selection.release(row)
    return found


def burst(first: int, last: int) -> list[str]:
    return [f"moved in/{number // 100}/{number:05}.jpg" for number in range(first, last)]


def test_file_beside_a_burst_is_second(world):
    """It was queued in the middle of the burst, so that it is neither the oldest nor the newest."""
    move_in(world, *burst(0, BURST // 2), "photos/new.jpg", *burst(BURST // 2, BURST))
    assert taken(world, 3) == ["moved in/0/00000.jpg", "photos/new.jpg", "moved in/0/00001.jpg"]


def test_file_saved_during_a_burst_is_second(world):
    """Files of the burst were read ahead when it was queued."""
    move_in(world, *burst(0, BURST // 2))
    taken(world, 6)
    move_in(world, "photos/new.jpg", *burst(BURST // 2, BURST))
    assert "photos/new.jpg" in taken(world, 2)


def test_file_given_back_keeps_its_turn(world):
    move_in(world, *burst(0, 100), "photos/a.jpg", "photos/b.jpg")
    selection = world.site.uploads.selection
    rows = [selection.take(), selection.take()]
    assert [row.path for row in rows] == [b"moved in/0/00000.jpg", b"photos/b.jpg"]
    for row in rows:
        selection.give_back(row)
    assert taken(world, 4) == ["photos/b.jpg", "moved in/0/00000.jpg", "photos/a.jpg", "moved in/0/00001.jpg"]


def test_leased_file_is_no_idleness(world, monkeypatch):
    """No file is due besides it, and neither doubts nor due files are read to see that."""
    move_in(world, "photos/a.jpg")
    selection = world.site.uploads.selection
    row = selection.take()
    world.ledger.store.change("UPDATE files SET state = 'stored' WHERE id = ?", row.id)
    with monkeypatch.context() as patch:
        patch.setattr(world.ledger.store, "rows", lambda *_: pytest.fail("the ledger is read"))
        assert not selection.is_idle()
    world.site.gates.leave()
    selection.release(row)
    assert selection.is_idle()


def test_file_in_burst_folder_follows_the_burst(world):
    move_in(world, *burst(0, BURST))
    taken(world, 6)
    move_in(world, "moved in/new.jpg")
    assert "moved in/new.jpg" in taken(world, 2)


def test_every_second_turn_is_the_oldest(world):
    move_in(world, *burst(0, 100))
    others = []
    for number in range(20):
        move_in(world, f"photos {number}/new.jpg")
        others += taken(world, 2)
    assert others[0::2] == burst(0, 20)
    assert others[1::2] == [f"photos {number}/new.jpg" for number in range(20)]


def test_slow_count_is_repeated_less_often(world, clock, monkeypatch):
    """Counting the queue by folder takes 3 s; it is repeated after a pause that is several times as long."""
    counts = []
    fewest = world.ledger.queue_folders.fewest

    def slowly(*said):
        clock.advance(3)
        counts.append(clock.steady())
        return fewest(*said)

    monkeypatch.setattr(world.ledger.queue_folders, "fewest", slowly)
    move_in(world, *burst(0, 100))
    for _ in range(25):
        taken(world, 2)
        clock.advance(1)
    assert len(counts) == 1
    for number in range(40):
        move_in(world, f"{number}/new.jpg", f"{number}/newer.jpg")
        taken(world, 2)
        clock.advance(1)
    assert len(counts) > 3
    assert min(later - sooner for sooner, later in itertools.pairwise(counts)) >= 13


@pytest.mark.parametrize("seed", range(3))
def test_file_is_sent_within_its_stated_turns(make_world, clock, seed):
    """The bound that `explain` prints holds for each file of a queue that nothing is added to."""
    rng = random.Random(seed)
    for _ in range(4):
        world = make_world(folders=[{"path": "a", "destfolderid": "A"}, {"path": "b", "destfolderid": "A"}])
        stat = FileStat(10, 1, 1, 1)
        for number in range(30):
            path = f"{rng.choice('ab')}/{rng.choice(('', 'x/', 'x/y/', 'z/', 'z/'))}{number}".encode()
            due = clock.now() - rng.randrange(9)
            world.ledger.versions.enqueue([NewVersion(path, stat, "A", str(number), None)], clock.now(), due_at=due)
        rows = world.ledger.queue.due(clock.now(), 30)
        said = {
            row.path.decode(): world.ledger.queue_folders.most_before(row, clock.now(), world.site.plan.mappings.all)
            for row in rows
        }
        order = taken(world, 30)
        assert [path for number, path in enumerate(order) if number > said[path]] == []
        assert min(said.values()) <= 1

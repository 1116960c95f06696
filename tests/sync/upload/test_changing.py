"""Files that change while they are sent, or again and again: how long they must rest, and when they are held."""

import json
from itertools import pairwise

import pytest

from assetsync.cli.entry import run
from assetsync.core.settled import HOUR, KEEPS_CHANGING
from assetsync.model import State
from assetsync.status.sentences import next_step
from tests.sync.conftest import Killed, chunked
from tests.world import World

LARGE = chunked(9 * 2**20)
PATH = "recording.mov"


@pytest.fixture
def changing(make_world):
    return make_world(watch={"settle": "5s"})


class Writer:
    """Writes a large file anew with each call, and during the next `cuts` uploads."""

    def __init__(self, world: World, *, cuts: float = 0) -> None:
        self._world = world
        self._versions = 0
        self._cut = ""
        self.cuts = cuts
        world.service.receiving = self._receiving
        world.service.stores_cuts = True

    @property
    def damaged(self) -> int:
        return sum(len(asset.content) <= len(LARGE) for asset in self._world.service.assets.values())

    def write(self) -> None:
        self._versions += 1
        self._world.write(PATH, LARGE + b"!" * self._versions, mtime=self._world.clock.now())

    def _receiving(self, request) -> None:
        if self.cuts and request.boundary != self._cut:
            self.cuts -= 1
            self._cut = request.boundary
            self.write()


def _live(world: World, seconds: float, *, tick: float = 1.0) -> None:
    """Let the daemon work; it sees each second what was written."""
    for _ in range(int(seconds / tick)):
        world.hint(PATH)
        world.live(tick, tick=tick)


def _seconds_until_sent(world: World, most: float, *, tick: float = 1.0) -> float:
    posts, began = len(world.service.posts), world.clock.now()
    while len(world.service.posts) == posts and world.clock.now() - began < most:
        _live(world, tick, tick=tick)
    return world.clock.now() - began


def test_a_file_that_keeps_changing_leaves_three_damaged_assets(changing):
    writer = Writer(changing, cuts=float("inf"))
    writer.write()
    _live(changing, 600)
    row = changing.row(PATH)
    assert (writer.damaged, row.state, row.reason) == (3, State.BLOCKED, KEEPS_CHANGING)
    assert "unchanged for an hour" in row.detail
    assert all(word in next_step(row) for word in ("ignore", "folders[].settle"))


def test_each_cut_doubles_the_rest(changing):
    writer = Writer(changing, cuts=2)
    writer.write()
    waits = [_seconds_until_sent(changing, 100) for _ in range(3)]
    assert [5 <= waits[0] < 7, 10 <= waits[1] < 13, 20 <= waits[2] < 23] == [True] * 3
    _live(changing, 5)
    assert (changing.row(PATH).assetid is not None, len(changing.service.posts)) == (True, 3)


def test_a_restart_does_not_forget_the_rest(changing):
    writer = Writer(changing, cuts=2)
    writer.write()
    _seconds_until_sent(changing, 100)
    _seconds_until_sent(changing, 100)
    changing.restart()
    assert _seconds_until_sent(changing, 100) >= 20


def test_a_crash_does_not_forget_the_cuts(changing):
    """Two cuts before a crash and the one that it leaves count toward the three that hold a file."""
    writer = Writer(changing, cuts=2)
    writer.write()
    _live(changing, 20)
    assert writer.damaged == 2

    def kill(request) -> None:
        changing.service.put(LARGE[: 2**20], request.filename, request.destfolderid)
        raise Killed

    cut, changing.service.receiving = changing.service.receiving, kill
    with pytest.raises(Killed):
        _live(changing, 100)
    changing.restart()
    changing.service.receiving, writer.cuts = cut, float("inf")
    _live(changing, 300)
    # The one that the crash left included.
    assert (writer.damaged, changing.row(PATH).reason) == (4, KEEPS_CHANGING)
    assert [upload.is_cut for upload in changing.ledger.queue.uploads_of(changing.row(PATH))] == [True] * 3


def test_what_is_held_is_sent_after_an_hour_at_rest(changing):
    writer = Writer(changing, cuts=3)
    writer.write()
    _live(changing, 120)
    assert changing.row(PATH).state is State.BLOCKED
    writer.write()
    _live(changing, 30)
    assert changing.row(PATH).state is State.BLOCKED
    changing.restart()
    assert HOUR - 60 < _seconds_until_sent(changing, 2 * HOUR, tick=10.0) < HOUR + 60
    _live(changing, 5)
    assert changing.states() == {PATH: State.STORED} or changing.states() == {PATH: State.VERIFIED}
    assert writer.damaged == 3


def test_what_is_held_stays_held_while_it_changes(changing):
    writer = Writer(changing, cuts=float("inf"))
    writer.write()
    _live(changing, 120)
    for _ in range(20):
        writer.write()
        for _ in range(30):
            _live(changing, 10, tick=10.0)
            assert changing.row(PATH).state is State.BLOCKED
    assert writer.damaged == 3


def test_two_quick_saves_are_sent_within_settle(changing):
    for content in (b"first", b"second"):
        changing.write(PATH, content, mtime=changing.clock.now())
        assert _seconds_until_sent(changing, 60) <= 6


def test_a_third_version_within_an_hour_waits_longer(changing):
    waits = []
    for number in range(5):
        changing.write(PATH, b"v" * (number + 1), mtime=changing.clock.now())
        waits.append(_seconds_until_sent(changing, 200))
    assert [round(wait, -1) for wait in waits[2:]] == [10, 20, 40]


def test_a_project_saved_every_five_minutes_is_sent_less_often(changing):
    for number in range(36):
        changing.write(PATH, b"v" * (number + 1), mtime=changing.clock.now())
        _live(changing, 300, tick=5.0)
    # Three hours: without the rule 36.
    assert 4 <= len(changing.service.posts) <= 14
    _live(changing, HOUR + 10, tick=5.0)
    assert changing.row(PATH).assetid is not None


def test_many_versions_of_other_paths_do_not_wait(changing):
    for number in range(6):
        changing.write(f"{number}.jpg", b"v" * (number + 1), mtime=changing.clock.now())
        changing.hint(f"{number}.jpg")
        assert _seconds_until_sent(changing, 60) <= 6


def test_rotated_logs_are_renamed_without_waiting(changing):
    for number in range(5):
        names = [f"app.log.{age}" if age else "app.log" for age in range(number, -1, -1)]
        for older, newer in pairwise(names):
            (changing.root / newer).rename(changing.root / older)
        changing.write("app.log", b"line\n" * (number + 1), mtime=changing.clock.now())
        changing.clock.advance(1500)
        changing.scan_and_send()
    changing.live(30)
    assert set(changing.states().values()) == {State.VERIFIED}
    assert len(changing.service.posts) == 5


def test_a_renamed_file_is_sent_at_once(changing):
    writer = Writer(changing, cuts=3)
    writer.write()
    _live(changing, 120)
    (changing.root / PATH).rename(changing.root / "done.mov")
    changing.hint("done.mov")
    assert _seconds_until_sent(changing, 60) <= 6


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_clock_that_jumps_forgets_no_file(changing, jump):
    writer = Writer(changing, cuts=4)
    writer.write()
    _live(changing, 60)
    changing.clock.set_now(changing.clock.now() + jump)
    writer.write()
    _live(changing, 3 * HOUR, tick=10.0)
    assert changing.row(PATH).assetid is not None
    assert writer.damaged <= 4


def test_without_settle_three_cuts_still_hold(world):
    writer = Writer(world, cuts=float("inf"))
    writer.write()
    _live(world, 100)
    assert (writer.damaged, world.row(PATH).reason) == (3, KEEPS_CHANGING)


def test_a_person_may_send_it_as_it_is(changing):
    writer = Writer(changing, cuts=3)
    writer.write()
    _live(changing, 120)
    changing.ledger.decisions.send_again(changing.row(PATH), changing.clock.now())
    assert _seconds_until_sent(changing, 60) <= 2


def test_a_mapping_may_have_a_settle_of_its_own(make_world):
    folders = [
        {"path": "video", "destfolderid": "F1", "settle": "10m"},
        {"path": "photos", "destfolderid": "F2"},
    ]
    world = make_world(watch={"settle": "5s"}, folders=folders)
    for path in ("video/a.mov", "photos/a.jpg"):
        world.write(path, path.encode(), mtime=world.clock.now())
        world.hint(path)
    world.live(20)
    assert world.posted() == ["a.jpg"]
    world.live(560, tick=5.0)
    assert world.posted() == ["a.jpg"]
    world.live(30, tick=5.0)
    assert world.posted() == ["a.jpg", "a.mov"]


def test_explain_says_until_when_it_waits(changing, capsys):
    writer = Writer(changing, cuts=2)
    writer.write()
    _seconds_until_sent(changing, 100)
    _seconds_until_sent(changing, 100)
    _live(changing, 12)
    changing.close()
    config = str(changing.base / "config.yaml")
    assert run(["explain", "--config", config, PATH]) == 0
    assert "why: changes often: waits until " in capsys.readouterr().out
    assert run(["status", "--config", config]) == 0
    said = capsys.readouterr().out
    assert "1 pending" in said
    assert "queued: changes often: waits until " in said
    assert run(["files", "--config", config, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["error"].startswith("changes often")

"""A process without descriptors: it pauses, and decides nothing about any file."""

import pytest

from assetsync.errors import OutOfResources
from assetsync.model import State
from assetsync.status.sentences import headline
from assetsync.status.site_status import read_status
from assetsync.sync.upload.queue import Step
from tests.scarcity import no_descriptors


def run(world) -> Step:
    return world.site.uploader.run(lambda: True)


def after_the_pause(world) -> None:
    world.clock.advance(60.0)
    assert world.site.gates.check()


@pytest.fixture
def queued(world):
    """A world whose folder is listed, with a queued file `d/a`."""
    world.write("first")
    world.scan_and_send()
    world.write("d/a", b"a")
    world.scan()
    return world


@pytest.mark.parametrize("spare", range(3))
def test_lack_of_descriptors_blocks_no_file(queued, spare):
    with no_descriptors(spare):
        queued.site.uploader.step()
    assert queued.row("d/a").state in (State.QUEUED, State.STORED)
    after_the_pause(queued)
    queued.live(200)
    assert queued.states() == {"d/a": State.VERIFIED, "first": State.VERIFIED}
    assert len(queued.service.contents) == 2


def test_lack_of_descriptors_is_the_pause_in_status(queued):
    with no_descriptors():
        queued.site.uploader.step()
        queued.site.runtime_state.note()
    status = read_status(queued.config().outline, queued.ledger, queued.clock.now())
    assert status.paused.reason == "out_of_resources"
    assert "(the process lacks file descriptors, memory or threads)" in headline(status)


def test_half_as_many_workers_run_after_a_lack(make_world):
    world = make_world(upload={"workers": "8"})
    world.write("a")
    world.scan()
    uploader = world.site.uploader
    found = []
    for _ in range(5):
        with no_descriptors():
            assert run(world) is Step.PAUSED
        found.append(uploader.workers)
        after_the_pause(world)
    assert found == [4, 2, 1, 1, 1]
    for _ in range(4):
        assert run(world) is Step.IDLE
    assert uploader.workers == 8


def test_lack_of_descriptors_ends_a_scan_undecided(world):
    for number in range(3):
        world.write(f"d{number}/a", f"{number}".encode())
    world.scan_and_send()
    for spare in range(3):
        with no_descriptors(spare), pytest.raises(OutOfResources):
            world.scan()
        scan = world.ledger.runs.last_scan()
        assert (scan.complete, scan.unread, scan.blind) == (False, 0, ())
    assert world.scan().vanished == 0
    assert world.ledger.runs.last_scan().complete


def test_lack_of_descriptors_is_no_drift(world):
    world.write("a")
    world.write("a.yaml", b"keywords: [one]")
    world.scan_and_send()
    world.live(200)
    world.write("a.yaml", b"keywords: [one] ")
    world.hint("a.yaml")
    assert world.row("a").drift == "unread"
    with no_descriptors(), pytest.raises(OutOfResources):
        world.site.drift.step()
    assert world.row("a").drift == "unread"


@pytest.mark.parametrize("reason", ["unreadable", "sidecar"])
def test_file_blocked_by_earlier_release_is_retried(queued, reason):
    """Earlier releases blocked files for a lack of descriptors; the start retries them."""
    detail = "a cannot be read: Too many open files"
    queued.ledger.queue.block(queued.row("d/a").id, reason, detail, queued.clock.now())
    queued.restart()
    queued.live(200)
    assert queued.row("d/a").state is State.VERIFIED

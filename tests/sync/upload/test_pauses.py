"""A pause by a person holds uploads back, and nothing else (`sync/requests/pause.py`, `sync/upload/queue.py`)."""

import pytest

from assetsync.core.gate import Trouble
from assetsync.core.notices import Kind
from assetsync.errors import UsageError
from assetsync.model import State
from assetsync.notify.notifications import current_problems
from assetsync.sync.requests.decisions import Resume
from assetsync.sync.requests.pause import EndPause, PauseUploads
from assetsync.sync.upload.queue import Step

HOUR, DAY = 3_600.0, 86_400.0


def pause(world, path=b"", seconds=HOUR):
    until = None if seconds is None else world.clock.now() + seconds
    return world.ask(PauseUploads(path, "ann", "the service is upgraded", until))


def test_paused_site_sends_nothing_until_its_end(world):
    pause(world)
    world.write("a.jpg")
    world.scan_and_send()
    world.live(HOUR - 60, tick=10)
    assert world.posted() == []
    world.live(90, tick=10)
    assert world.posted() == ["a.jpg"]


def test_paused_folder_keeps_no_other_waiting(world):
    for number in range(200):
        world.write(f"photos/{number}.jpg")
    world.write("docs/a.pdf")
    pause(world, b"photos")
    world.scan_and_send()
    assert world.posted() == ["a.pdf"]
    assert world.site.uploads.selection.is_idle()
    world.ask(EndPause(b"photos"))
    world.send()
    assert len(world.posted()) == 201


def test_pause_covers_a_single_file(world):
    world.write("a.jpg")
    world.write("b.jpg")
    pause(world, b"a.jpg")
    world.scan_and_send()
    assert world.posted() == ["b.jpg"]


def test_pause_survives_a_restart_with_the_clock_set_back(world):
    pause(world)
    world.write("a.jpg")
    world.clock.advance(HOUR / 2)
    world.clock.set_now(world.clock.now() - DAY)
    world.restart()
    world.scan_and_send()
    assert world.posted() == []
    world.live(HOUR / 2 + 5, tick=10)
    assert world.posted() == ["a.jpg"]


def test_upload_that_has_begun_ends_first(world):
    """The pause comes while the body leaves; the next file waits."""
    world.write("a.jpg")
    world.write("b.jpg")
    world.scan()
    upload = world.service.upload

    def paused_meanwhile(request, body):
        pause(world)
        return upload(request, body)

    world.service.upload = paused_meanwhile
    world.send()
    assert len(world.posted()) == 1
    assert sorted(world.states().values()) == [State.QUEUED, State.STORED]


def test_doubt_is_decided_in_a_pause(world):
    world.service.script.append("lost_after")
    world.write("a.jpg")
    world.scan_and_send()
    assert world.row("a.jpg").state is State.IN_DOUBT
    pause(world)
    world.live(600, tick=5)
    assert world.row("a.jpg").state is State.VERIFIED


def test_pause_is_no_brake(world):
    world.write("a.jpg")
    pause(world)
    with pytest.raises(UsageError, match="no brake is pulled"):
        world.ask(Resume())
    world.ledger.pull_brake("new_files", "site", "why", 1, world.clock.now())
    world.ask(EndPause())
    assert (len(world.ledger.reports.brakes()), world.ledger.pauses.recorded()) == (1, ())
    pause(world)
    world.ask(Resume())
    assert (world.ledger.reports.brakes(), len(world.ledger.pauses.recorded())) == ([], 1)


def test_end_of_an_unknown_pause_is_refused(world):
    pause(world, b"photos")
    with pytest.raises(UsageError, match="docs is not paused") as caught:
        world.ask(EndPause(b"docs"))
    assert "photos" in str(caught.value)


def test_pause_that_is_over_already_is_refused(world):
    with pytest.raises(UsageError, match="would be over already"):
        pause(world, seconds=0.0)


def test_outage_ends_although_all_files_are_paused(world):
    """No upload can show that the service answers again."""
    world.write("photos/a.jpg")
    pause(world, b"photos")
    world.scan_and_send()
    world.site.gates.failed(Trouble("unreachable", "no answer", None))
    world.live(60)
    world.site.runtime_state.note()
    assert world.site.gates.ongoing is None


def test_request_reads_back_its_argument():
    asked = PauseUploads(b"photos/\xff", "ann", "why", 12.5)
    assert PauseUploads.of(asked.argument()) == asked
    assert [EndPause.of(each.argument()) for each in (EndPause(), EndPause(b"a"))] == [EndPause(), EndPause(b"a")]


def test_pause_without_an_end_is_named_each_day(world):
    pause(world, b"photos", seconds=None)
    pause(world, b"docs", seconds=10 * DAY)

    def named(now):
        found = current_problems(world.ledger, None, None, (), now)
        return next(problem.items for problem in found if problem.kind is Kind.PAUSE)

    now = world.clock.now()
    assert named(now + DAY - 1) == {}
    first, second = named(now + DAY), named(now + 2 * DAY)
    assert (len(first), len(second), first.keys() & second.keys()) == (1, 1, set())
    assert "photos, by ann since" in next(iter(first.values()))


def test_run_step_of_a_paused_site_is_paused(world):
    world.write("a.jpg")
    world.scan()
    pause(world)
    assert world.site.uploader.step() is Step.PAUSED

"""The steps of the daemon, called one by one on a clock that is set by hand."""

import time

from assetsync.daemon.work import Work

YEAR_3000 = 32_503_680_000.0
"""A time of change that tells nothing: such a file rests when two looks agree."""


def test_files_that_found_no_room_while_they_settled_are_met_within_minutes(make_world, clock, monkeypatch):
    world = make_world(watch={"settle": "5s", "mode": "off"}, schedule={"rescan": "off"})
    monkeypatch.setattr(world.site.settling, "_most", 2)
    for number in range(5):
        world.write(f"{number}", b"%d" % number, mtime=YEAR_3000)
    work = Work(world.site, idle=0.0)
    work.want_scan()
    work.scan()
    assert len(world.site.settling) == 2
    for _ in range(10):
        clock.advance(30)
        work.look()
        work.scan()
    assert (len(world.states()), world.site.settling.overflowed) == (5, False)


def test_what_is_due_and_held_back_is_asked_for_a_few_times_a_second_and_no_more(make_world, clock):
    world = make_world()
    world.write("a")
    world.scan()
    world.ledger.queue.hold_folder("F1", "unlisted", "why", clock.now() + 3000)
    work = Work(world.site)
    began = time.monotonic()
    work.send()
    assert time.monotonic() - began >= 0.2
    assert world.service.posts == []

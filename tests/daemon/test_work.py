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


def test_what_is_saved_while_many_files_are_told_of_their_folders_sidecar_is_looked_at_in_between(make_world):
    world = make_world()
    many = 1700
    for number in range(many):
        world.write(f"{number}", b"%d" % number)
    world.scan_and_send()
    world.live(5)
    world.write("_folder.yaml", b"location: here")
    work = Work(world.site, idle=0.0)
    work.want_scan()
    work.scan()

    def unread() -> int:
        return sum(1 for number in range(many) if world.row(f"{number}").drift == "unread")

    assert unread() == many
    work.look()
    assert 0 < unread() < many
    world.write("new")
    work._hints.add(b"new")
    work.look()
    assert world.row("new").state == "queued"
    assert unread() > 0
    for _ in range(3):
        work.look()
    assert unread() == 0


def test_a_file_that_stays_blocked_is_not_tried_again_with_each_scan_of_a_minute(make_world, clock):
    world = make_world()
    world.write("a.jpg")
    world.write("a.jpg.yaml", b"nonsense: [")
    work = Work(world.site, idle=0.0)
    tried = 0
    for _ in range(60):
        work.want_scan()
        work.scan()
        tried += world.row("a.jpg").state == "queued"
        world.send()
        assert world.row("a.jpg").state == "blocked"
        clock.advance(60)
    assert 5 <= tried <= 10


def test_a_start_tries_all_again_that_a_scan_would_let_wait(make_world, clock):
    world = make_world()
    world.write("a.jpg")
    world.write("a.jpg.yaml", b"nonsense: [")
    world.scan()
    clock.advance(3000)
    world.send()
    assert world.row("a.jpg").state == "blocked"
    work = Work(world.site, idle=0.0)
    work.want_scan()
    work.scan()
    assert world.row("a.jpg").state == "blocked"
    work.begin()
    work.end()
    assert world.row("a.jpg").state == "queued"

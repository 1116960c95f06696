"""A day in the life of a site, on a clock that is moved: outage, restart, full disk, lost events; memory stays flat.

Covers `sync/intake/watch_queue.py`.
"""

import tracemalloc

import pytest

from assetsync.errors import LedgerError
from assetsync.model import State
from assetsync.sync.intake.watch_queue import Looker, WatchQueue


@pytest.mark.parametrize("hours", [pytest.param(24, id="day")])
def test_full_day_loses_and_repeats_nothing(make_world, request, hours):
    """Live through an outage, a full disk, a restart and dropped events; the program's memory stays level."""
    tick = 5.0 if request.config.getoption("--long") else 60.0
    world = make_world(watch={"settle": "2s"}, schedule={"index": "60s", "verify": "60s"})
    hints = WatchQueue(most=50)
    written = 0
    grown = {}
    tracemalloc.start()
    try:
        for minute in range(hours * 60):
            site = world.site
            looker = Looker(site.context, site.plan, site.single_looks, hints, site.sidecars.cache)
            hour = minute / 60
            world.service.down = 3 <= hour < 4
            if minute in (8 * 60, 10 * 60 + 10):
                # The disk was full for longer than a run waits for it, and then the program begins anew.
                world.restart()
                continue
            writer = site.context.ledger.store._writer
            full = 10 * 60 <= minute < 10 * 60 + 10
            pages = writer.execute("PRAGMA page_count").fetchone()[0]
            writer.execute(f"PRAGMA max_page_count={pages if full else 2**30}")
            for number in range(40 if minute == 12 * 60 else 1 if minute % 3 == 0 else 0):
                path = f"d{minute % 7}/{minute}-{number}.txt"
                world.write(path, f"{minute} {number}".encode(), mtime=world.clock.now() - 60)
                written += 1
                if minute < 12 * 60 or number % 2:
                    # From noon on every second event is dropped, as if the kernel's queue had overflowed.
                    hints.add(path.encode())
            try:
                looker.step(0.0)
                if minute % 60 == 0 or hints.overflowed():
                    world.scan()
                world.live(60.0, tick=tick)
            except LedgerError:
                assert full, "only the full disk may stop the ledger"
                world.clock.advance(60.0)
            if minute in (2 * 60, hours * 60 - 1):
                grown[minute] = _of_assetsync()
        world.scan()
        world.live(600.0)
    finally:
        tracemalloc.stop()
    states = list(world.states().values())
    assert (len(states), set(states)) == (written, {State.VERIFIED})
    contents = world.service.contents
    assert len(contents) == len(set(contents)) == written
    first, last = grown.values()
    print(f"{written} files, memory of assetsync after 2 h {first:,} bytes, after {hours} h {last:,} bytes")
    assert last < first + 1_000_000


def _of_assetsync() -> int:
    snapshot = tracemalloc.take_snapshot().filter_traces(
        [tracemalloc.Filter(inclusive=True, filename_pattern="*/assetsync/*")]
    )
    return sum(trace.size for trace in snapshot.traces)

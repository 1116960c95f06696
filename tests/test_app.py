"""A site put together from its configuration."""

import pytest

from assetsync.app import settle_of
from assetsync.model import State
from assetsync.sync.upload.uploader import Step


def test_a_file_rests_for_as_long_as_the_configuration_says_on_a_local_disk(make_world):
    assert settle_of(make_world(watch={"settle": "7s"}).config()) == 7.0


@pytest.mark.parametrize(
    ("said", "interval"),
    [
        ({}, 60.0),
        ({"schedule": {"index": "5m"}}, 300.0),
        ({"schedule": {"index": "*/10 * * * *"}}, 60.0),
        ({"schedule": {"index": "off"}}, None),
        ({"policy": {"verified_when": "stored"}}, None),
    ],
)
def test_when_the_index_is_asked_follows_from_schedule_and_policy(make_world, said, interval):
    assert make_world(**said).site.indexer._interval == interval


def test_a_scan_writes_down_what_is_there_and_when_it_was(world):
    world.write("a")
    assert world.scan().scanned == 1
    assert world.states() == {"a": State.QUEUED}
    assert '"complete": true' in world.ledger.reports.fact("last_scan")


def test_a_stop_ends_a_scan_and_nothing_is_decided_to_be_gone(world, clock):
    for number in range(3):
        world.write(f"d{number}/file", f"{number}".encode())
    world.scan()
    (world.root / "d2/file").unlink()
    clock.stopped = True
    result = world.scan()
    assert (result.report.finished, len(world.states())) == (False, 3)


def test_a_probe_that_is_answered_ends_a_pause_and_one_that_is_not_prolongs_it(world, clock):
    circuit_breaker = world.site.circuit_breaker
    circuit_breaker.trouble("unreachable", "down")
    world.service.down = True
    assert world.site.probe() is False
    assert (circuit_breaker.pause.probes, circuit_breaker.probe_due()) == (1, False)
    world.service.down, world.service.key_refused = False, True
    assert world.site.probe() is False
    assert circuit_breaker.pause.reason == "key_refused"
    world.service.key_refused = False
    assert world.site.probe() is True
    assert circuit_breaker.pause is None
    assert world.service.posts == []
    assert world.service.searches[-1].dbdirect


def test_a_dry_run_of_a_site_changes_nothing(world):
    world.write("a")
    assert world.site.rescan.run(dry_run=True).to_send == 1
    assert world.site.sender.step() is Step.IDLE
    assert world.ledger.reports.fact("last_scan") is None

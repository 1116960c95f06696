"""A site put together from its configuration.

Covers `parts.py`.
"""

import pytest

from assetsync import parts
from assetsync.core.gate import Trouble
from assetsync.model import State
from assetsync.sync.upload.queue import Step


@pytest.mark.parametrize(("mounts", "rest"), [([], 7.0), ([b"share"], 60.0)])
def test_files_rest_longer_on_network_file_system(make_world, monkeypatch, mounts, rest):
    monkeypatch.setattr(parts, "network_mounts", lambda _root: mounts)
    assert make_world(watch={"settle": "7s"}).site.preparer._rules.settle == rest


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
def test_index_interval_follows_config(make_world, said, interval):
    assert make_world(**said).site.indexer.interval == interval


def test_scan_records_paths_and_time(world):
    world.write("a")
    assert world.scan().scanned == 1
    assert world.states() == {"a": State.QUEUED}
    assert '"complete": true' in world.ledger.reports.fact("last_scan")


def test_stopped_scan_marks_nothing_as_gone(world, clock):
    for number in range(3):
        world.write(f"d{number}/file", f"{number}".encode())
    world.scan()
    (world.root / "d2/file").unlink()
    clock.stopped = True
    result = world.scan()
    assert (result.report.finished, len(world.states())) == (False, 3)


def test_only_answered_probe_ends_a_pause(world, clock):
    gates = world.site.gates
    gates.failed(Trouble("unreachable", "down"))
    world.service.down = True
    assert world.site.gates.check() is False
    assert (gates.closed.failures, gates.check_due()) == (1, False)
    world.service.down, world.service.key_refused = False, True
    assert world.site.gates.check() is False
    assert gates.closed.reason == "key_refused"
    world.service.key_refused = False
    assert world.site.gates.check() is True
    assert gates.closed is None
    assert world.service.posts == []
    assert world.service.searches[-1].dbdirect


def test_a_dry_run_of_a_site_changes_nothing(world):
    world.write("a")
    assert world.site.rescan.dry_run().to_send == 1
    assert world.site.uploader.step() is Step.IDLE
    assert world.ledger.reports.fact("last_scan") is None

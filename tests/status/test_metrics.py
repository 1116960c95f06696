"""What is measured: by whom, under which names, and nothing that should not be there."""

import json
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from assetsync.errors import LedgerError
from assetsync.ledger.runs import HeldUp
from assetsync.status.metrics import Metrics
from assetsync.status.site_status import Live
from assetsync.sync.requests.take import take_requests


def samples(shown) -> dict[tuple[str, ...], float]:
    """The series as (name, label values but the site's)."""
    found = {}
    for family in text_string_to_metric_families(shown.get("/metrics").body.decode()):
        for sample in family.samples:
            assert sample.labels["site"] == "test", sample
            own = tuple(value for name, value in sorted(sample.labels.items()) if name != "site")
            found[sample.name.removeprefix("assetsync_"), *own] = sample.value
    return found


def test_upload_results_are_counted(shown):
    """Uploads are counted by result, failures by reason, and bytes, retries and doubts in all."""
    world = shown.world
    for number in range(5):
        world.write(f"{number}", b"12345"[: number + 1] * 10)
    world.service.script.extend(["accept", "no_filedata", "duplicate", "lost_before", "unreachable"])
    world.scan_and_send()
    for _ in range(2):
        world.clock.advance(100)
        world.site.gates.check()
        world.send()
    found = samples(shown)
    results = {key[1]: value for key, value in found.items() if key[0] == "uploads_total"}
    assert results == {"accepted": 2, "refused": 1, "duplicate": 1, "unsent": 1, "doubt": 1}
    reasons = {key[1]: value for key, value in found.items() if key[0] == "upload_failures_total"}
    assert reasons == {"no_filedata": 1, "duplicate": 1, "no_answer": 1, "unsent": 1}
    assert found["upload_bytes_total",] == 10 + 20 + 30 + 40 + 50
    assert found["upload_retries_total",] == 1
    assert found["doubts_opened_total",] == 2
    assert found["files", "blocked"] == 1


@pytest.mark.parametrize(
    ("script", "how"),
    [("lost_after", "found"), (("cut", 3), "damaged"), ("lost_before", "absent")],
    ids=["found", "damaged", "absent"],
)
def test_doubt_results_are_counted_by_kind(shown, script, how):
    world = shown.world
    world.service.script.append(script)
    world.write("a", b"content")
    world.scan_and_send()
    world.live(120)
    decided = {key[1]: value for key, value in samples(shown).items() if key[0] == "doubts_decided_total"}
    assert decided == {"found": 0, "damaged": 0, "absent": 0, "undecidable": 0, "by_hand": 0} | {how: 1}


def test_manual_doubt_decision_is_counted(shown):
    world = shown.world
    world.service.script.append("lost_before")
    world.write("a")
    world.scan_and_send()
    world.ledger.add_request("doubt", {"path": b"a".hex(), "asset": None}, world.clock.now())
    take_requests(world.site.context)
    assert samples(shown)["doubts_decided_total", "by_hand"] == 1


def test_findable_delay_is_measured_per_file(shown):
    world = shown.world
    world.service.index_lag = 40.0
    for number in range(3):
        world.write(f"{number}", b"x" * (number + 1))
    world.scan()
    world.live(400)
    found = samples(shown)
    name = "settled_to_findable_seconds"
    assert found[f"{name}_count",] == 3
    assert found[f"{name}_bucket", "30.0"] == 0
    assert found[f"{name}_bucket", "300.0"] == 3
    assert 3 * 40 <= found[f"{name}_sum",] < 3 * 300


def test_how_the_site_stands_is_measured(shown):
    """Each state of the site that the page shows has a metric with its value."""
    world = shown.world
    world.write("a")
    world.scan()
    world.clock.advance(90)
    world.ledger.pull_brake("emptied", "photos", "empty", 5, world.clock.now())
    said = {"start": world.ledger.start_no, "since": world.clock.now() - 3600, "reason": "unreachable", "detail": "x"}
    world.ledger.set_fact("paused", json.dumps(said))
    world.ledger.set_fact("index_stopped", "why")
    found = samples(shown)
    expected = {
        ("files", "queued"): 1, ("files", "verified"): 0, ("files", "in_doubt"): 0, ("in_sync",): 0,
        ("brakes",): 1, ("paused", "unreachable"): 1, ("index_stopped",): 1, ("ledger_readable",): 1,
        ("last_scan_complete",): 1, ("last_scan_unreadable",): 0, ("loops_late",): 0,
        ("watch_folders",): 2, ("watch_folders_watched",): 3, ("watch_limit",): 8192, ("watch_overflows_total",): 1,
        ("watch_mode", "inotify"): 1, ("watch_polling",): 0, ("job_next_timestamp_seconds", "rescan"): 4e9,
        ("build_info", "9.8.7"): 1, ("adopted_total",): 0, ("folders_held",): 0, ("ledger_full",): 0,
    }  # fmt: skip
    assert {key: found.get(key) for key in expected} == expected
    assert found["oldest_waiting_seconds",] == pytest.approx(90, abs=1)
    assert found["metadata_drift",] == 0
    assert found["paused_seconds",] == pytest.approx(3600, abs=1)
    assert found["job_last_success_timestamp_seconds", "rescan"] == pytest.approx(world.clock.now() - 90, abs=1)


@pytest.mark.parametrize(("everything", "seconds"), [(True, 60), (False, 0)])
def test_stop_by_doubts_is_measured(shown, everything, seconds):
    world = shown.world
    world.write("a")
    world.scan()
    assert (samples(shown)["doubts_stop_seconds",], samples(shown)["doubts_folders_waiting",]) == (0, 0)
    world.ledger.runs.record(HeldUp, HeldUp(world.ledger.start_no, world.clock.now() - 60, ("F1", "F2"), everything))
    assert samples(shown)["doubts_stop_seconds",] == pytest.approx(seconds, abs=1)
    assert samples(shown)["doubts_folders_waiting",] == 2


def test_pause_length_is_never_negative(shown):
    world = shown.world
    said = {"start": world.ledger.start_no, "since": world.clock.now() + 3600, "reason": "unreachable", "detail": "x"}
    world.ledger.set_fact("paused", json.dumps(said))
    assert samples(shown)["paused_seconds",] == 0


def test_metrics_omit_paths_and_service_texts(shown):
    world = shown.world
    world.write("photos/secret-name.jpg")
    world.service.script.append("unknown_folder")
    world.scan_and_send()
    text = shown.get("/metrics").body.decode()
    assert "secret-name" not in text
    assert "does not exist" not in text
    assert str(world.root) not in text


def test_names_follow_the_conventions(shown):
    for family in text_string_to_metric_families(shown.get("/metrics").body.decode()):
        assert re.fullmatch(r"(assetsync|process)_[a-z_]+", family.name)
        assert family.documentation
        if family.name.startswith("assetsync_"):
            assert family.documentation.endswith(".")
        for sample in family.samples:
            if family.type == "counter":
                assert sample.name.endswith("_total")
        assert not re.search(r"_(ms|minutes|hours|kb|mb|percent)(_|$)", family.name)


def test_unreadable_ledger_keeps_its_metrics():
    metrics = Metrics("test")

    def broken():
        raise LedgerError("its disk is gone")

    from assetsync.status.site_status import Trust

    metrics.show(broken, lambda: Live("1", 0.0, Trust("off")))
    text = metrics.exposition().decode()
    assert 'assetsync_ledger_readable{site="test"} 0.0' in text
    assert 'assetsync_loops_late{site="test"} 0.0' in text
    assert "assetsync_files{" not in text


def test_upload_open_at_crash_counts_as_doubt(shown):
    from assetsync.daemon.work import Work

    world = shown.world
    world.write("a")
    world.scan()
    row = world.row("a")
    ready = world.site.preparer.prepare(row)
    with ready.file:
        world.ledger.queue.begin(ready.intent, world.clock.now())
    work = Work(world.site)
    work.begin()
    work.end()
    assert samples(shown)["doubts_opened_total",] == 1

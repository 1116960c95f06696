"""Accepted uploads that the service never processes: blocked for a person, looked at each hour, never sent unasked."""

import math

import pytest
from structlog.testing import capture_logs

from assetsync.core.backoff import LONGEST
from assetsync.core.names import MAX_SENT
from assetsync.core.read_back import SAME_METADATA
from assetsync.errors import UsageError
from assetsync.model import State
from assetsync.status.sentences import next_step, steps_of_many
from assetsync.sync.requests.retry import Retry, SendAgainWithoutMetadata

VERIFIED, STORED, BLOCKED = State.VERIFIED, State.STORED, State.BLOCKED
HOUR = 3600.0


@pytest.fixture
def stuck(make_world):
    """Make a world with a verified file `fine.jpg` and files that the service has accepted and will not process."""

    def make(*names: str, **said):
        world = make_world(**said)
        world.write("fine.jpg", b"a fine picture")
        world.scan_and_send()
        world.live(5)
        world.service.processing = math.inf
        for name in names or ("a.jpg",):
            world.write(name, b"the picture " + name.encode())
        world.scan_and_send()
        world.service.processing = 0.0
        return world

    return make


def look(world, hours: float, *, every: float = 300.0) -> None:
    """Read back as a daemon does, each so many seconds."""
    for _ in range(round(hours * HOUR / every)):
        world.clock.advance(every)
        while world.site.verifier.step().looked:
            pass


def asset_of(world, path: str = "a.jpg"):
    return world.service.assets[world.row(path).assetid]


def process(world, path: str = "a.jpg") -> None:
    asset = asset_of(world, path)
    asset.processed_at = asset.indexed_at = world.clock.now()


def state(world, path: str = "a.jpg"):
    return world.row(path).state, world.row(path).reason


def test_unprocessed_file_is_blocked_after_six_hours(stuck):
    world = stuck()
    look(world, 5.9)
    assert state(world) == (STORED, None)
    with capture_logs() as logged:
        look(world, 0.3)
    assert state(world) == (BLOCKED, "never_processed")
    assert [entry["event"] for entry in logged] == ["blocked"]
    assert f"has not processed the asset {asset_of(world).id} since 20" in world.row("a.jpg").detail
    assert next_step(world.row("a.jpg")).startswith("`assetsync retry --send-again a.jpg`;")
    assert sorted(world.posted()) == ["a.jpg", "fine.jpg"]


def test_configured_time_replaces_six_hours(stuck):
    world = stuck(policy={"unprocessed_after": "1h"})
    look(world, 0.9)
    assert state(world) == (STORED, None)
    look(world, 0.3)
    assert state(world) == (BLOCKED, "never_processed")


def test_clock_set_forward_blocks_nothing_at_once(stuck):
    world = stuck()
    look(world, 1)
    world.clock.set_now(world.clock.now() + 86_400.0)
    look(world, 1.5)
    assert state(world) == (STORED, None)
    look(world, 2)
    assert state(world) == (BLOCKED, "never_processed")


def test_outage_is_no_look_at_the_asset(stuck):
    world = stuck()
    look(world, 0.1)
    world.service.down = True
    for _ in range(40):
        world.clock.advance(HOUR)
        world.live(1)
    assert state(world) == (STORED, None)


def test_blocked_file_costs_one_search_an_hour(stuck):
    world = stuck()
    look(world, 7)
    assert state(world) == (BLOCKED, "never_processed")
    world.service.searches.clear()
    look(world, 5)
    # Once through the index, and once by its name.
    assert len(world.service.searches) <= 5 * 3
    look_ups = [request for request in world.service.searches if not request.dbdirect]
    assert 4 <= len(look_ups) <= 6


def test_waiting_file_costs_no_more_searches(stuck):
    world = stuck()
    look(world, 1)
    world.service.searches.clear()
    look(world, 4)
    assert len([request for request in world.service.searches if not request.dbdirect]) == 4 * 12


def test_file_processed_late_is_verified(stuck):
    world = stuck()
    look(world, 7)
    process(world)
    look(world, 1.1)
    assert state(world) == (VERIFIED, None)
    assert (world.row("a.jpg").detail, world.shown("a.jpg").unprocessed) == (None, None)
    assert sorted(world.posted()) == ["a.jpg", "fine.jpg"]


def test_file_processed_late_is_seen_by_audit(stuck):
    world = stuck()
    look(world, 7)
    assert world.site.auditor.audit("F1").never_processed == 1
    process(world)
    result = world.site.auditor.audit("F1")
    assert (result.never_processed, result.fine) == (0, 2)
    world.live(2)
    assert state(world) == (VERIFIED, None)


def test_file_processed_wrongly_is_blocked_as_different(stuck):
    world = stuck()
    look(world, 7)
    asset_of(world).content = b"half"
    process(world)
    look(world, 1.1)
    assert state(world) == (BLOCKED, "different")


def test_late_file_is_counted_once_as_findable(stuck):
    world = stuck()
    look(world, 7)
    process(world)
    found = []
    world.site.verifier._meter = type("Meter", (), {"findable": lambda _self, seconds: found.append(seconds)})()
    look(world, 1.1)
    assert len(found) == 1


def test_audit_lists_file_as_never_processed(stuck):
    world = stuck()
    look(world, 7)
    assert [(found.why, found.path) for found in world.ledger.reports.findings()] == [("never_processed", b"a.jpg")]
    assert world.orphans() == []


def test_retry_blocks_unprocessed_file_again_at_once(stuck):
    world = stuck()
    look(world, 7)
    assert world.ask(Retry((b"a.jpg",))) == "1 to be read back again"
    world.live(2)
    assert state(world) == (BLOCKED, "never_processed")
    assert sorted(world.posted()) == ["a.jpg", "fine.jpg"]


@pytest.mark.parametrize("resend", ["report", "upload"])
def test_nothing_is_sent_again_by_itself(stuck, resend):
    world = stuck(policy={"on_remote_missing": resend})
    look(world, 7)
    for _ in range(10):
        world.restart()
        world.scan_and_send()
        world.site.auditor.audit("F1")
        look(world, 10, every=HOUR)
    assert state(world) == (BLOCKED, "never_processed")
    assert sorted(world.posted()) == ["a.jpg", "fine.jpg"]


def test_touched_file_is_not_sent_again(stuck):
    world = stuck()
    look(world, 7)
    world.write("a.jpg", b"the picture a.jpg", mtime=1_000_000_000.0)
    world.scan_and_send()
    (world.root / "a.jpg").rename(world.root / "renamed.jpg")
    world.scan_and_send()
    world.live(5)
    assert state(world, "renamed.jpg") == (BLOCKED, "never_processed")
    assert sorted(world.posted()) == ["a.jpg", "fine.jpg"]


def test_send_again_lists_the_old_asset(stuck):
    """The asset that was never processed is an orphan of its file until it is deleted, also if it is processed late."""
    world = stuck()
    look(world, 7)
    old = asset_of(world)
    world.ask(Retry((b"a.jpg",), send_again=True))
    world.send()
    world.live(5)
    assert state(world) == (VERIFIED, None)
    assert world.row("a.jpg").assetid != old.id
    assert sorted(world.posted()) == ["a.jpg", "a.jpg", "fine.jpg"]
    for _ in range(3):
        world.clock.advance(60)
        result = world.site.auditor.audit("F1")
        assert (result.fine, result.history, result.never_processed) == (2, 1, 0)
        assert [(found.why, found.assetid) for found in world.orphans()] == [("replaced", old.id)]
    old.processed_at = world.clock.now()
    world.clock.advance(60)
    assert world.site.auditor.audit("F1").history == 1
    del world.service.assets[old.id]
    world.clock.advance(60)
    world.site.auditor.audit("F1")
    assert world.orphans() == []


def test_send_again_by_reason_takes_only_these(stuck):
    world = stuck("d/a.jpg", "d/b.jpg", "c.jpg")
    look(world, 7)
    assert [*steps_of_many(b"d", "never_processed")] == ["assetsync retry --send-again --reason never_processed d"]
    world.ask(Retry((b"d",), send_again=True, reason="never_processed"))
    world.send()
    world.live(5)
    assert [state(world, path) for path in ("d/a.jpg", "d/b.jpg", "c.jpg")] == [
        (VERIFIED, None), (VERIFIED, None), (BLOCKED, "never_processed"),
    ]  # fmt: skip
    with pytest.raises(UsageError):
        Retry((b"d",), send_again=True, reason="unprocessed").check(world.ledger)


@pytest.mark.parametrize("is_sent_again", [False, True])
def test_old_asset_holds_back_no_new_version(stuck, is_sent_again):
    """A start that lists the folder again meets the unprocessed asset under the name of the new version."""
    world = stuck()
    look(world, 7)
    if is_sent_again:
        world.ask(Retry((b"a.jpg",), send_again=True))
        world.send()
        world.live(5)
    world.restart()
    world.ledger.folder_listings.again("F1")
    world.write("a.jpg", b"another picture")
    world.scan_and_send()
    world.live(5)
    assert state(world) == (VERIFIED, None)
    assert world.posted().count("a.jpg") == 2 + is_sent_again
    # It is no reason to list the folder at each start either.
    assert not world.ledger.folder_listings.left_unprocessed("F1")


def test_equal_file_does_not_adopt_the_old_asset(stuck):
    world = stuck()
    look(world, 7)
    old = asset_of(world)
    world.ask(Retry((b"a.jpg",), send_again=True))
    world.send()
    world.live(5)
    world.write("copy.jpg", b"the picture a.jpg")
    world.scan_and_send()
    world.live(5)
    assert state(world, "copy.jpg") == (VERIFIED, None)
    assert world.row("copy.jpg").assetid != old.id


def test_lost_answer_of_a_new_version_is_decided(stuck):
    world = stuck()
    look(world, 7)
    world.write("a.jpg", b"another picture")
    world.service.script.append("lost_before")
    world.scan_and_send()
    world.live(60)
    assert state(world) == (VERIFIED, None)
    assert len([content for content in world.service.contents if content == b"another picture"]) == 1


def test_removed_asset_keeps_its_file_blocked(stuck):
    world = stuck()
    look(world, 7)
    del world.service.assets[world.row("a.jpg").assetid]
    look(world, 30, every=HOUR)
    assert state(world) == (BLOCKED, "never_processed")
    assert "--send-again" in world.row("a.jpg").detail


def test_next_upload_of_the_file_waits_anew(stuck):
    world = stuck()
    look(world, 7)
    world.service.processing = math.inf
    world.ask(Retry((b"a.jpg",), send_again=True))
    world.send()
    look(world, 5.5)
    assert state(world) == (STORED, None)
    look(world, 1)
    assert state(world) == (BLOCKED, "never_processed")


def test_open_attempt_of_a_shown_id_is_closed(stuck):
    world = stuck()
    hidden = world.service.assets.pop(world.row("a.jpg").assetid)
    world.live(850)
    assert world.row("a.jpg").state in (State.IN_DOUBT, BLOCKED)
    world.service.assets[hidden.id] = hidden
    world.ask(Retry((b"a.jpg",)))
    world.live(5)
    look(world, 7)
    if world.row("a.jpg").state is STORED:
        look(world, 7)
    assert state(world) == (BLOCKED, "never_processed")
    assert world.ledger.doubts.of(world.row("a.jpg").id) is None


def test_clock_set_back_makes_a_blocked_file_due(stuck):
    world = stuck()
    look(world, 7)
    process(world)
    world.clock.set_now(world.clock.now() - 86_400.0)
    asset_of(world).processed_at = asset_of(world).indexed_at = 0.0
    world.clock.advance(LONGEST)
    world.live(2)
    assert state(world) == (VERIFIED, None)


EMOJI = "a\U0001f600".encode()


@pytest.fixture
def killed(make_world):
    """Make a world whose service never processes a file that `never_processes` names, sent with a sidecar."""

    def make(name: str, sidecar: bytes = b"", *, never_processes=lambda _asset: True, **service):
        world = make_world(service={"characters": "all"} | service)
        world.service.never_processes = never_processes
        world.write("anchor.jpg", b"anchor")
        world.write(name)
        if sidecar:
            world.write(f"{name}.yaml", sidecar)
        world.scan_and_send()
        look(world, 7)
        return world

    return make


def test_reason_names_restart_without_suspects(killed):
    world = killed("a.pdf", b"description: plain")
    detail = world.row("a.pdf").detail
    assert "perhaps because it was stopped in between" in detail
    assert SAME_METADATA not in detail
    assert world.ask(Retry((b"a.pdf",), send_again=True)) == "1 to be sent again"


def test_reason_names_character_beyond_the_plane(killed):
    world = killed("a.pdf", b"description: plain\nkeywords: " + EMOJI)
    detail = world.row("a.pdf").detail
    assert "the reason can be a character outside the Basic Multilingual Plane in file_keywords;" in detail
    assert SAME_METADATA in detail
    assert SAME_METADATA in world.ask(Retry((b"a.pdf",), send_again=True))


def test_reason_names_long_name(killed):
    world = killed("n" * 200 + ".pdf", longest_name=str(MAX_SENT))
    detail = world.row("n" * 200 + ".pdf").detail
    assert "the reason can be its name of 204 characters;" in detail
    assert SAME_METADATA not in detail


def test_changed_sidecar_is_no_suspect(killed):
    """What was sent is not known any more."""
    world = killed("a.pdf", b"keywords: plain", never_processes=lambda asset: asset.name == "a.pdf")
    world.ask(Retry((b"a.pdf",), send_again=True))
    world.send()
    world.write("a.pdf.yaml", b"keywords: " + EMOJI)
    look(world, 7)
    assert "perhaps because it was stopped in between" in world.row("a.pdf").detail


def test_picture_blames_no_metadata(killed):
    world = killed("a.jpg", b"keywords: " + EMOJI)
    assert "perhaps because it was stopped in between" in world.row("a.jpg").detail


def test_send_again_without_metadata_arrives(killed):
    world = killed("a.pdf", b"keywords: " + EMOJI, never_processes=lambda asset: bool(asset.meta))
    request = SendAgainWithoutMetadata((b"a.pdf",), send_again=True)
    assert world.ask(request) == "1 to be sent again, without metadata"
    world.scan_and_send()
    assert world.service.posts[-1].meta == ()
    world.live(5)
    assert state(world, "a.pdf") == (VERIFIED, None)


def test_missing_metadata_is_listed_as_drift(killed):
    world = killed("a.pdf", b"keywords: " + EMOJI, never_processes=lambda asset: bool(asset.meta))
    world.ask(SendAgainWithoutMetadata((b"a.pdf",), send_again=True))
    world.scan_and_send()
    world.live(5)
    while world.site.drift.step():
        pass
    assert [row.path for row in world.ledger.metadata_drift.drifted(b"")] == [b"a.pdf"]


def test_next_version_has_its_metadata_again(killed):
    world = killed("a.pdf", b"keywords: " + EMOJI, never_processes=lambda asset: bool(asset.meta))
    world.ask(SendAgainWithoutMetadata((b"a.pdf",), send_again=True))
    world.scan_and_send()
    world.live(5)
    world.write("a.pdf", b"another")
    world.scan_and_send()
    assert dict(world.service.posts[-1].meta) == {"file_keywords": EMOJI.decode()}


def test_plain_send_again_sends_metadata_again(killed):
    world = killed("a.pdf", b"keywords: " + EMOJI, never_processes=lambda asset: bool(asset.meta))
    world.ask(SendAgainWithoutMetadata((b"a.pdf",), send_again=True))
    world.scan_and_send()
    world.live(5)
    world.ask(Retry((b"a.pdf",), send_again=True))
    world.send()
    assert dict(world.service.posts[-1].meta) == {"file_keywords": EMOJI.decode()}


def test_accepted_file_without_asset_ends_never_processed(make_world):
    """A video whose name does not fit gets an id, and nothing is stored."""
    world = make_world(service={"longest_name": str(MAX_SENT)})
    world.write("anchor.jpg", b"anchor")
    world.scan_and_send()
    world.live(5)
    world.service.drops = lambda asset: len(asset.name) > 196
    name = "n" * 200 + ".mp4"
    world.write(name, b"video")
    world.scan_and_send()
    world.live(900)
    assert state(world, name) == (BLOCKED, "never_processed")
    assert "shows no such asset; it was never processed; the reason can be its name of 204" in world.row(name).detail
    look(world, 30, every=HOUR)
    assert state(world, name) == (BLOCKED, "never_processed")
    world.restart(service={})
    world.ask(Retry(send_again=True, reason="never_processed"))
    world.send()
    world.live(5)
    assert state(world, name) == (VERIFIED, None)
    assert [len(posted) for posted in world.posted()] == [10, 204, 190]


def test_late_asset_of_nowhere_is_verified(make_world):
    world = make_world()
    world.write("anchor.jpg", b"anchor")
    world.write("a.mp4", b"video")
    kept = []
    world.service.drops = lambda asset: asset.name == "a.mp4" and not kept.append(asset)
    world.scan_and_send()
    world.live(900)
    assert state(world, "a.mp4") == (BLOCKED, "never_processed")
    world.service.assets[kept[0].id] = kept[0]
    look(world, 1.1)
    assert state(world, "a.mp4") == (VERIFIED, None)
    assert world.ledger.doubts.of(world.row("a.mp4").id) is None

"""`sidecars: required`: a file waits for a sidecar of its own, and what ends the wait."""

import os

import pytest

from assetsync.core.notices import Kind
from assetsync.model import State
from assetsync.notify.notifications import current_problems
from assetsync.parts import make_preview
from assetsync.status.document import as_object
from assetsync.status.sentences import headline, leftovers
from assetsync.status.site_status import read_status
from assetsync.sync.requests.retry import Retry, SendWithoutSidecar
from assetsync.sync.upload.next_try import Waits, next_try
from tests.sync.intake.test_xmp_files import sent, xmp


@pytest.fixture
def strict(make_world):
    """A site that requires sidecars, with a file that has none."""
    world = make_world(folders=[{"path": ".", "destfolderid": "F1", "sidecars": "required"}])
    world.write("a.jpg", b"content")
    world.scan_and_send()
    return world


def status(world):
    return read_status(world.site.config.outline, world.ledger, world.clock.now(), running=True)


def test_file_waits_and_is_counted_apart(strict):
    strict.live(1000)
    assert strict.posted() == []
    assert strict.row("a.jpg").state is State.QUEUED
    assert strict.row("a.jpg").reason == "no_sidecar"
    found = as_object(status(strict))
    assert (found["pending"], found["waiting_for_sidecar"], found["blocked"]) == (1, 1, 0)
    assert not found["in_sync"]
    assert headline(status(strict)) == "In progress: 0 of 1 verified, 1 waiting for its sidecar."
    assert any("waiting for their own sidecars" in line for line in leftovers(status(strict)))


@pytest.mark.parametrize(("sidecar", "reason"), [(b"", "no_sidecar"), (b"description: [", "sidecar")])
def test_lost_upload_that_waits_holds_no_other(strict, sidecar, reason):
    """Two uploads into an empty folder are lost; the first file cannot go again, because of its sidecar."""
    strict.write("a.jpg.yaml", b"description: d")
    strict.service.script.extend(["lost_before"] * 2)
    strict.scan()
    strict.live(5)
    strict.write("a.jpg.yaml", sidecar)
    strict.hint("a.jpg.yaml")
    strict.live(100)
    assert (strict.row("a.jpg").reason, strict.row("a.jpg").absences) == (reason, 1)
    strict.write("b.jpg", b"other")
    strict.write("b.jpg.yaml", b"description: d")
    strict.scan()
    strict.live(200)
    assert (strict.row("a.jpg").reason, strict.row("b.jpg").state) == (reason, State.VERIFIED)


@pytest.mark.parametrize("name", ["a.jpg.yaml", "a.jpg.xmp", "a.XMP"])
def test_own_sidecar_ends_the_wait_at_once(strict, name):
    strict.write(name, b"description: d" if name.endswith("yaml") else xmp("d"))
    assert strict.hint(name) == 1
    strict.send()
    assert sent(strict) == {"a.jpg": "d"}


@pytest.mark.parametrize(("name", "content"), [("_folder.yaml", b"description: d"), ("a.jpg.yaml", b"")])
def test_folder_sidecar_or_empty_one_is_not_enough(strict, name, content):
    strict.write(name, content)
    strict.hint(name)
    strict.send()
    assert strict.posted() == []


def test_xmp_for_the_other_file_is_not_enough(strict):
    strict.write("a.xmp", xmp("d", extension="NEF"))
    strict.hint("a.xmp")
    strict.send()
    assert strict.posted() == []


def test_broken_sidecar_blocks(strict):
    strict.write("a.jpg.yaml", b"description: [")
    strict.hint("a.jpg.yaml")
    strict.send()
    assert strict.row("a.jpg").reason == "sidecar"
    assert status(strict).counts.waiting_for_sidecar == 0


def test_retry_without_sidecar_sends(strict):
    strict.write("b/c.jpg", b"other")
    strict.scan_and_send()
    assert strict.ask(Retry()) == "nothing is blocked or in doubt"
    assert strict.ask(SendWithoutSidecar((b"b",))) == "1 to be sent without a sidecar"
    strict.send()
    assert strict.posted() == ["c.jpg"]
    assert strict.ask(SendWithoutSidecar((b"b",))) == "no file waits for its sidecar there"


def renamed(path):
    return path.rename(path.with_name("renamed.jpg"))


@pytest.mark.parametrize("change", [lambda path: path.chmod(0o600), lambda path: os.utime(path, (1, 1)), renamed])
@pytest.mark.parametrize("is_watched", [True, False])
def test_release_survives_a_change_before_the_upload(strict, change, is_watched):
    strict.ask(SendWithoutSidecar((b"a.jpg",)))
    path = change(strict.root / "a.jpg") or strict.root / "a.jpg"
    if is_watched:
        strict.hint(path.name)
    strict.scan_and_send()
    assert strict.posted() == [path.name]


def test_release_covers_no_other_file(strict):
    strict.ask(SendWithoutSidecar((b"a.jpg",)))
    strict.write("b.jpg", b"another")
    strict.scan_and_send()
    assert strict.posted() == ["a.jpg"]
    strict.write("a.jpg", b"a later version")
    strict.scan_and_send()
    assert strict.posted() == ["a.jpg"]


def test_waiting_file_is_not_read_again(strict, monkeypatch):
    monkeypatch.setattr(type(strict.site.preparer.dedupe), "find", lambda *_: pytest.fail("its content was compared"))
    strict.clock.advance(1000)
    assert strict.send() == 1


def test_adoption_and_rename_need_no_sidecar(make_world):
    world = make_world(folders=[{"path": ".", "destfolderid": "F1", "sidecars": "required"}])
    world.service.put(b"there before", "a.jpg", "F1")
    world.write("a.jpg", b"there before")
    world.write("b.jpg", b"sent")
    world.write("b.jpg.yaml", b"description: d")
    world.scan_and_send()
    world.live(5)
    (world.root / "b.jpg").rename(world.root / "c.jpg")
    (world.root / "b.jpg.yaml").unlink()
    world.scan_and_send()
    world.live(5)
    assert world.posted() == ["b.jpg"]
    assert world.states() == {"a.jpg": State.VERIFIED, "c.jpg": State.VERIFIED}


def test_sidecar_that_goes_later_blocks_nothing(strict):
    strict.write("a.jpg.yaml", b"description: d")
    strict.scan_and_send()
    strict.live(5)
    (strict.root / "a.jpg.yaml").unlink()
    strict.scan_and_send()
    strict.live(5)
    assert strict.states() == {"a.jpg": State.VERIFIED}


def test_option_taken_back_sends_at_the_next_start(strict):
    strict.restart(folders=[{"path": ".", "destfolderid": "F1"}])
    strict.send()
    assert strict.posted() == ["a.jpg"]


def test_reminder_names_the_oldest(strict):
    def sidecars(reminder):
        found = current_problems(strict.ledger, None, None, (), strict.clock.now(), sidecar_reminder=reminder)
        return next(dict(problem.items) for problem in found if problem.kind is Kind.SIDECARS)

    strict.clock.advance(3600)
    strict.write("b.jpg", b"later")
    strict.scan_and_send()
    assert list(sidecars(3000.0).values()) == ["a.jpg"]
    assert sidecars(None) == {}


@pytest.mark.parametrize("looks_at_tree", [True, False])
def test_next_try_is_the_sidecar(strict, looks_at_tree):
    def due():
        config, now = strict.site.config, strict.clock.now()
        preview = make_preview(config, strict.ledger, strict.clock) if looks_at_tree else None
        return next_try(
            strict.row("a.jpg"), Waits(config, strict.ledger, now, [], {}, True, None, preview, lambda: None)
        )

    assert (due().reason, due().why, due().is_timed) == ("no_sidecar", "when its sidecar has come", False)
    strict.ask(SendWithoutSidecar((b"a.jpg",)))
    assert due().reason is None

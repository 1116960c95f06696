"""What is foreseen of a file is what its preparation decides."""

import pytest

from assetsync.ledger.rows import FileRow
from assetsync.model import State
from assetsync.parts import make_preview
from assetsync.sync.upload.decide import Block, Gather, Send, Vanished, Wait
from assetsync.sync.upload.facts import Fact


def foreseen(world, path: str | FileRow):
    row = world.row(path) if isinstance(path, str) else path
    return make_preview(world.site.config, world.ledger, world.clock).of(row)


def queue(world, name: str, content: bytes = b"content") -> None:
    world.write(name, content)
    world.scan()


def test_new_file_is_foreseen_to_be_sent(world):
    queue(world, "a.jpg")
    assert isinstance(foreseen(world, "a.jpg"), Send)
    world.send()
    assert world.posted() == ["a.jpg"]


def test_equal_size_needs_the_content(world):
    world.write("a.jpg", b"content A")
    world.scan_and_send()
    queue(world, "b.jpg", b"content B")
    assert foreseen(world, "b.jpg") == Gather(Fact.CONTENT)


@pytest.mark.parametrize(("sidecar", "reason"), [(b"keywords: [", "sidecar"), (b"unknown: 1", "sidecar")])
def test_broken_sidecar_is_foreseen(world, sidecar, reason):
    queue(world, "a.jpg")
    world.write("a.jpg.yaml", sidecar)
    decision = foreseen(world, "a.jpg")
    world.send()
    row = world.row("a.jpg")
    assert isinstance(decision, Block)
    assert (row.state, row.reason, row.detail) == (State.BLOCKED, decision.reason, decision.detail)
    assert decision.reason == reason


def test_wait_for_a_sidecar_is_foreseen(make_world):
    world = make_world(watch={"sidecar_wait": "1h"})
    queue(world, "a.jpg")
    decision = foreseen(world, "a.jpg")
    world.send()
    row = world.row("a.jpg")
    assert isinstance(decision, Wait)
    assert (row.detail, row.due_at) == (decision.why, decision.until)


def test_file_gone_is_foreseen(world):
    queue(world, "a.jpg")
    queue(world, "b.jpg")
    (world.root / "a.jpg").unlink()
    assert isinstance(foreseen(world, "a.jpg"), Vanished)
    (world.root / "b.jpg").unlink()
    assert isinstance(foreseen(world, "b.jpg"), Wait)


def test_preview_changes_nothing(world):
    queue(world, "a.jpg")
    world.write("a.jpg.yaml", b"keywords: [")
    before = world.ledger.store.rows("SELECT * FROM files")
    foreseen(world, "a.jpg")
    assert [tuple(row) for row in world.ledger.store.rows("SELECT * FROM files")] == [tuple(row) for row in before]

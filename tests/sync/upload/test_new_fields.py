"""The first file with a custom field goes alone, because a field that the service lacks keeps it unprocessed.

Covers `NewFields` of `sync/upload/kinds.py`.
"""

import pytest

from assetsync.model import State
from assetsync.sync.requests.retry import Retry, SendAgainWithoutMetadata, SendWithoutMetadata
from assetsync.sync.upload.kinds import Kinds, NewFields

GOOD, BAD = "0000-1", "0000-2"
FIELD, KNOWN = f"metacf_{BAD}", f"metacf_{GOOD}"
HOUR = 3600.0


@pytest.fixture
def make_site(make_world):
    """Make a site whose service lacks the custom field `Bad`; one picture is stored."""

    def make():
        world = make_world(service={"custom_fields": {"Good": GOOD, "Bad": BAD}}, policy={"unprocessed_after": "1h"})
        world.service.never_processes = lambda asset: asset.name[-3:] != "jpg" and FIELD in dict(asset.meta)
        world.write("first.jpg", b"first")
        world.scan_and_send()
        world.live(5)
        return world

    return make


def add(world, *names: str, custom: str = "{Bad: x}") -> None:
    for name in names:
        world.write(name, name.encode())
        world.write(f"{name}.yaml", b"custom: " + custom.encode())
    world.scan()


def try_first(world, *names: str, custom: str = "{Bad: x}") -> None:
    """Send the first of these files, and then what may be sent of the others; the newest would go first."""
    first, *others = names
    add(world, first, custom=custom)
    world.send()
    for name in others:
        # Each has waited for longer than the next.
        add(world, name, custom=custom)
        world.send()
        world.clock.advance(1)


def live(world, hours: float) -> None:
    for _ in range(round(hours * 12)):
        world.clock.advance(300)
        world.live(1)


def sent(world) -> list[str]:
    return [name for name in world.posted() if name != "first.jpg"]


def reasons(world) -> dict[str, str | None]:
    rows = world.ledger.reports.files()
    return {row.path.decode(): row.reason for row in rows if row.state is not State.VERIFIED}


def test_first_document_with_a_field_goes_alone(make_site):
    world = make_site()
    world.service.processing = 30.0
    try_first(world, "a.pdf", "b.pdf", "c.pdf", custom="{Good: x}")
    assert sent(world) == ["a.pdf"]
    assert "waits until the service has processed a.pdf" in world.row("b.pdf").detail
    world.live(20)
    assert sent(world) == ["a.pdf"]
    world.live(60)
    assert sorted(sent(world)) == ["a.pdf", "b.pdf", "c.pdf"]


def test_known_field_is_kept_over_restarts(make_site):
    world = make_site()
    add(world, "a.pdf", custom="{Good: x}")
    world.live(120)
    world.restart()
    try_first(world, "b.pdf", "c.pdf", custom="{Good: x}")
    assert sent(world) == ["a.pdf", "b.pdf", "c.pdf"]


def test_each_kind_has_a_first_file(make_site):
    world = make_site()
    try_first(world, "a.pdf", "a.mp4", "a.mp3", "b.pdf", "b.mp4", "b.mp3", custom="{Good: x}")
    assert sent(world) == ["a.pdf", "a.mp4", "a.mp3"]


def test_pictures_and_files_without_the_field_go_on(make_site):
    world = make_site()
    try_first(world, "a.pdf", "b.pdf", "a.jpg", "b.jpg")
    world.write("plain.pdf", b"plain")
    world.write("plain.pdf.yaml", b"description: d")
    world.scan_and_send()
    assert sorted(sent(world)) == ["a.jpg", "a.pdf", "b.jpg", "plain.pdf"]


def test_waiting_has_no_time_out(make_site):
    world = make_site()
    try_first(world, "a.pdf", "b.pdf")
    live(world, 0.9)
    assert sent(world) == ["a.pdf"]


def test_overtaken_first_file_lets_another_try(make_site):
    """Later uploads are processed: one more file shows whether the field or that file is the reason."""
    world = make_site()
    try_first(world, "a.pdf", "b.pdf", "c.pdf", "d.pdf")
    world.write("later.jpg", b"later")
    world.scan_and_send()
    live(world, 0.6)
    assert sent(world)[:2] == ["a.pdf", "later.jpg"]
    assert len(sent(world)) == 3


def test_field_is_named_after_two_tries(make_site):
    world = make_site()
    try_first(world, "a.pdf", "b.pdf", "c.pdf", "d.pdf")
    live(world, 4)
    first, second = sent(world)
    waiting = {"b.pdf", "c.pdf", "d.pdf"} - {second}
    assert reasons(world) == dict.fromkeys((first, second), "never_processed") | dict.fromkeys(waiting, "new_field")
    detail = world.row(min(waiting)).detail
    assert f"has not processed {first} and {second}, the first files with the metadata field {FIELD}" in detail
    detail = world.row("a.pdf").detail
    assert f"the reason can be the field {FIELD}, with which nothing has been processed yet" in detail
    assert "--without-metadata sends it without" in world.ask(Retry((b"a.pdf",), send_again=True))


def test_field_added_later_lets_all_go(make_site):
    world = make_site()
    try_first(world, "a.pdf", "b.pdf", "c.pdf", "d.pdf")
    live(world, 4)
    second = sent(world)[1]
    world.service.never_processes = lambda _asset: False
    world.ask(Retry((second.encode(),), send_again=True))
    live(world, 2)
    assert sorted(sent(world)) == sorted(["a.pdf", second, "b.pdf", "c.pdf", "d.pdf"])
    assert reasons(world) == {"a.pdf": "never_processed"}


def test_file_processed_late_lets_all_go(make_site):
    world = make_site()
    try_first(world, "a.pdf", "b.pdf", "c.pdf")
    live(world, 4)
    world.service.never_processes = lambda _asset: False
    asset = world.service.assets[world.row("a.pdf").assetid]
    asset.processed_at = asset.indexed_at = world.clock.now()
    live(world, 3)
    assert reasons(world) == {sent(world)[1]: "never_processed"}


def test_try_without_metadata_proves_nothing(make_site):
    world = make_site()
    try_first(world, "a.pdf", "b.pdf", "c.pdf", "d.pdf", "e.pdf")
    live(world, 4)
    world.ask(SendAgainWithoutMetadata((b"a.pdf",), send_again=True))
    live(world, 2)
    assert world.row("a.pdf").state is State.VERIFIED
    # One more file may try in its place.
    assert len(sent(world)) == 4
    live(world, 2)
    assert (len(sent(world)), [*reasons(world).values()].count("new_field")) == (4, 2)


def test_waiting_files_are_sent_without_metadata(make_site):
    world = make_site()
    try_first(world, "a.pdf", "d/b.pdf", "d/c.pdf", "e.pdf")
    assert world.ask(SendWithoutMetadata((b"d",))) == "2 to be sent without metadata"
    world.send()
    assert sorted(sent(world)) == ["a.pdf", "b.pdf", "c.pdf"]
    assert [post.meta for post in world.service.posts[-2:]] == [(), ()]
    assert world.ask(SendWithoutMetadata((b"d",))).startswith("no file waits for a new metadata field there")


def test_first_file_that_fails_makes_room(make_site):
    world = make_site()
    world.service.script.append("no_filedata")
    try_first(world, "a.pdf", "b.pdf", custom="{Good: x}")
    live(world, 1)
    assert world.row("b.pdf").state is State.VERIFIED


def test_lost_answer_keeps_the_others_waiting(make_site):
    world = make_site()
    world.service.script.append("lost_after")
    try_first(world, "a.pdf", "b.pdf", custom="{Good: x}")
    assert sent(world) == ["a.pdf"]
    live(world, 1)
    assert [world.row(name).state for name in ("a.pdf", "b.pdf")] == [State.VERIFIED] * 2


def test_unclean_stop_forgets_no_try(make_site):
    world = make_site()
    try_first(world, "a.pdf", "b.pdf", "c.pdf")
    world.restart()
    world.send()
    live(world, 4)
    assert len(sent(world)) == 2


def test_given_names_are_new_once(make_site):
    world = make_site()
    ledger, config = world.ledger, world.site.config
    kinds = Kinds(ledger, world.clock, config.service)
    fields = NewFields(ledger, world.clock, config.service, kinds, ["file_other"])
    assert fields.of(b"a.pdf", ["file_desc", "file_other", KNOWN]) == ["file_other", KNOWN]
    assert fields.of(b"a.jpg", ["file_other", KNOWN]) == []

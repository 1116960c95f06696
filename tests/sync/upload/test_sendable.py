"""Metadata that the service cannot hold: left out and named on the file, or a mistake, before anything is sent.

Covers `core/metadata.py` and `sync/intake/sidecars.py`.
"""

import pytest

from assetsync.cli.path_state import read_path_state
from assetsync.model import State
from assetsync.status.file_page import FilePage
from tests.sync.readback.test_drift import drift
from tests.world import World

WAVE = "\N{WATER WAVE}"
UNKNOWN = b"description: dawn\nmeta: {img_headline: Harbour}\n"


def add(world: World, name: str, said: str | bytes = "") -> None:
    world.write(name, name.encode())
    if said:
        world.write(f"{name}.yaml", said.encode() if isinstance(said, str) else said)


def sent(world: World) -> dict[str, dict[str, str]]:
    return {post.filename: dict(post.meta) for post in world.service.posts}


def explained(world: World, path: str) -> list[str]:
    return read_path_state(world.config(), path.encode()).report.lines


def page(world: World, path: str) -> str:
    return FilePage(world.config(), world.ledger, lambda _row: None).render(path.encode(), world.clock.now()) or ""


@pytest.fixture
def verified(make_world):
    """Make a site whose files, named with their sidecars, were sent and read back by a release that knew each field."""

    def make(**sidecars: str) -> World:
        world = make_world(service={"meta_fields": ["img_headline", "file_owner"]})
        for name, said in sidecars.items():
            add(world, name.replace("_", "."), said)
        world.scan_and_send()
        world.live(60)
        assert set(world.states().values()) == {State.VERIFIED}
        world.service.posts.clear()
        world.restart(service={"meta_fields": []})
        return world

    return make


def test_field_of_another_kind_is_left_out_and_named(make_world):
    world = make_world()
    add(world, "a.pdf", "description: dawn\nlocation: Oslo\nmeta: {headline: Harbour}\n")
    world.scan_and_send()
    world.live(60)
    assert sent(world) == {"a.pdf": {"file_desc": "dawn"}}
    assert world.row("a.pdf").state is State.VERIFIED
    assert drift(world) == {}
    said = [f"left out: {name} (only pictures have it)" for name in ("location", "headline")]
    assert explained(world, "a.pdf")[-2:] == said
    assert "left out: location (only pictures have it), headline (only pictures have it)" in page(world, "a.pdf")


def test_characters_are_left_out_without_drift(make_world):
    world = make_world(
        folders=[{"path": ".", "destfolderid": "F1", "metadata": {"meta": {"title": "{dir}"}}}],
        service={"custom_fields": {"Agency": "A-1"}},
    )
    add(world, f"sea {WAVE}/a.jpg", f"description: {WAVE} dawn\nkeywords: [{WAVE}, sea]\ncustom: {{Agency: x{WAVE}}}\n")
    world.scan_and_send()
    world.live(60)
    fields = {"img_description": " dawn", "img_keywords": "sea", "title": "sea ", "metacf_A-1": "x"}
    assert sent(world) == {"a.jpg": fields}
    assert world.row(f"sea {WAVE}/a.jpg").state is State.VERIFIED
    world.ledger.metadata_drift.mark_unread(world.row(f"sea {WAVE}/a.jpg").id)
    assert set(drift(world).values()) <= {None}
    for name in fields:
        assert f"1 character of {name} (outside the Basic Multilingual Plane)" in page(world, f"sea {WAVE}/a.jpg")


def test_utf8mb4_service_receives_all_characters(make_world):
    world = make_world(service={"characters": "all"})
    add(world, "a.jpg", f"description: {WAVE}\n")
    world.scan_and_send()
    assert sent(world) == {"a.jpg": {"img_description": WAVE}}


@pytest.mark.parametrize("name", ["a.jpg", "a.pdf", "a.mp4"])
def test_unknown_field_blocks_with_its_line(make_world, name):
    world = make_world()
    add(world, name, UNKNOWN)
    world.scan_and_send()
    row = world.row(name)
    assert (row.state, row.reason, world.service.posts) == (State.BLOCKED, "sidecar", [])
    assert row.detail.startswith(f"{name}.yaml, line 2, column 8: meta.img_headline: ")
    assert "did you mean `headline`?" in row.detail
    assert explained(world, name)[-1].startswith(f"metadata: {name}.yaml, line 2, column 8")


def test_mended_sidecar_is_sent(make_world):
    world = make_world()
    add(world, "a.jpg", UNKNOWN)
    world.scan_and_send()
    add(world, "a.jpg", "meta: {headline: Harbour}")
    world.scan_and_send()
    assert sent(world) == {"a.jpg": {"headline": "Harbour"}}


def test_long_value_blocks_with_the_limit(make_world):
    world = make_world(service={"custom_fields": {"Agency": "A-1"}})
    add(world, "a.jpg", f"meta:\n headline: {'x' * 1001}\n")
    add(world, "b.jpg", f"\nlocation: {'x' * 501}\n")
    world.scan_and_send()
    assert world.service.posts == []
    problem = "{}: it has {} characters, and the service keeps {}: shorten it"
    assert {name: (world.row(name).reason, world.row(name).detail) for name in ("a.jpg", "b.jpg")} == {
        "a.jpg": ("sidecar", f"a.jpg.yaml, line 2, column 2: {problem.format('meta.headline', '1,001', '1,000')}"),
        "b.jpg": ("sidecar", f"b.jpg.yaml, line 2, column 1: {problem.format('location', '501', '500')}"),
    }


def test_field_from_xmp_blocks_with_its_name(make_world):
    world = make_world()
    world.scan()
    world.restart(service={"xmp_fields": {"photoshop:Headline": "img_headline"}})
    world.write("a.jpg")
    world.write(
        "a.jpg.xmp",
        b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description'
        b' xmlns:photoshop="http://ns.adobe.com/photoshop/1.0/" photoshop:Headline="x"/></rdf:RDF>',
    )
    world.scan_and_send()
    assert world.row("a.jpg").detail.startswith("a.jpg.xmp: img_headline (service.xmp_fields): ")


def test_unknown_field_of_the_mapping_blocks(make_world):
    """A new site does not start with one; in a site with a ledger its files are blocked."""
    world = make_world()
    world.scan()
    world.restart(folders=[{"path": ".", "destfolderid": "F1", "metadata": {"meta": {"img_headline": "x"}}}])
    add(world, "a.jpg")
    world.scan_and_send()
    assert world.row("a.jpg").detail.startswith("a.jpg: the metadata of its mapping: img_headline: ")


def test_listed_field_is_sent(make_world):
    world = make_world(service={"meta_fields": ["img_headline"]})
    add(world, "a.jpg", UNKNOWN)
    add(world, "a.pdf", UNKNOWN)
    world.scan_and_send()
    assert sent(world)["a.jpg"] == {"img_description": "dawn", "img_headline": "Harbour"}
    assert sent(world)["a.pdf"] == {"file_desc": "dawn"}


def test_field_of_a_processed_document_is_known(verified):
    world = verified(a_pdf="meta: {file_owner: Ansel}")
    add(world, "b.pdf", "meta: {file_owner: Berenice}")
    world.scan_and_send()
    assert sent(world) == {"b.pdf": {"file_owner": "Berenice"}}
    assert explained(world, "b.pdf")[-1] == "metadata: file_owner = Berenice (from b.pdf.yaml)"


def test_field_of_a_processed_document_is_for_its_kind(verified):
    world = verified(a_pdf="meta: {file_owner: Ansel}")
    add(world, "b.jpg", "description: dawn\nmeta: {file_owner: Berenice}")
    world.scan_and_send()
    assert sent(world) == {"b.jpg": {"img_description": "dawn"}}


def test_processed_picture_proves_no_field(verified):
    world = verified(a_jpg="meta: {img_headline: Harbour}")
    add(world, "b.jpg", "meta: {img_headline: Pier}")
    world.scan_and_send()
    assert world.row("b.jpg").reason == "sidecar"


def test_upgrade_sends_nothing_and_finds_no_drift(verified):
    world = verified(
        a_jpg=f"description: {WAVE}\nmeta: {{img_headline: Harbour}}", b_pdf="location: Oslo\nmeta: {file_owner: x}"
    )
    world.scan_and_send()
    for name in ("a.jpg", "b.pdf"):
        world.ledger.metadata_drift.mark_unread(world.row(name).id)
    world.live(120)
    assert world.service.posts == []
    assert set(drift(world).values()) <= {None}
    assert set(world.states().values()) == {State.VERIFIED}

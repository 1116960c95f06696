"""The metadata of an adopted asset is compared once with the sidecars; a difference is no drift and blocks nothing."""

import pytest

from assetsync.core.metadata import FOLDER_SIDECAR
from assetsync.errors import UsageError
from assetsync.ledger.metadata_drift import drift_of
from assetsync.model import State
from assetsync.status.site_status import read_status
from assetsync.sync.requests.decisions import SettleDrift
from assetsync.sync.requests.retry import Retry
from assetsync.sync.requests.take import read_request

VERIFIED = State.VERIFIED
SIDECAR = b"description: The old harbour at dawn\nkeywords: [harbour, dawn]\n"
SHOWN = (("img_description", "The old harbour at dawn"), ("img_keywords", "dawn, harbour"))
OTHER = (("img_description", "A pier"), ("img_keywords", "dawn, harbour"))
DIFFERS = "the metadata of its adopted asset differs from the sidecars ({}): set it in the service by hand"


@pytest.fixture
def adopting(make_world):
    """Make a world whose file `a.jpg` adopts an asset with this metadata, and whose `b.jpg` has no metadata at all."""

    def make(meta=OTHER, sidecar: bytes | None = SIDECAR, **said):
        world = make_world(**said)
        for name, texts in (("a.jpg", meta), ("b.jpg", OTHER)):
            world.service.put(name.encode(), name, meta=texts)
            world.write(name, name.encode())
        if sidecar is not None:
            world.write("a.jpg.yaml", sidecar)
        world.scan_and_send()
        world.live(5)
        assert (world.posted(), set(world.states().values())) == ([], {VERIFIED})
        return world

    return make


def listed(world, path: bytes = b"") -> dict[str, str | None]:
    return {row.path.decode(): row.differs for row in world.ledger.metadata_drift.adopted(path)}


def status_of(world):
    return read_status(world.config().outline, world.ledger, world.clock.now())


def read_drift(world) -> None:
    while world.site.drift.step():
        pass


def test_other_metadata_is_listed_and_no_drift(adopting):
    world = adopting()
    read_drift(world)
    assert listed(world) == {"a.jpg": DIFFERS.format("the description is other than in the sidecars")}
    status = status_of(world)
    assert (status.adopted_differing, status.drift_count, status.drifted, status.in_sync) == (1, 0, (), True)
    assert drift_of(world.row("a.jpg")) is None


def test_equal_metadata_is_not_listed(adopting):
    assert listed(adopting(meta=SHOWN)) == {}


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ((), "the description is empty, the keywords are empty"),
        ((("img_description", "The old harbour"), *SHOWN[1:]), "the description is cut after 15 characters"),
    ],
)  # fmt: skip
def test_each_difference_is_named(adopting, meta, words):
    assert listed(adopting(meta=meta)) == {"a.jpg": DIFFERS.format(words)}


@pytest.mark.parametrize(
    "sidecar",
    [None, b"description: Harbour\nlanguage: 2\n", b"location: Oslo\n", b"description: ''\n", b"keywords: ' , '\n"],
)
def test_fields_not_given_are_not_compared(adopting, sidecar):
    assert listed(adopting(sidecar=sidecar)) == {}


@pytest.mark.parametrize(
    ("first", "then", "drift"),
    [
        (SIDECAR, b"deskription: Harbour\n", "can no longer be read"),
        (None, SIDECAR, "changed after its asset was taken over"),
    ],
    ids=["unreadable", "new"],
)
def test_sidecar_changed_before_the_read_back_is_drift(make_world, first, then, drift):
    world = make_world()
    world.service.put(b"a", "a.jpg", meta=OTHER)
    world.write("a.jpg", b"a")
    if first is not None:
        world.write("a.jpg.yaml", first)
    world.scan_and_send()
    world.write("a.jpg.yaml", then)
    world.scan()
    world.live(5)
    read_drift(world)
    assert (world.row("a.jpg").state, listed(world)) == (VERIFIED, {})
    assert drift in (drift_of(world.row("a.jpg")) or "")


def test_mapping_and_folder_metadata_are_compared(make_world):
    world = make_world(folders=[{"path": ".", "destfolderid": "F1", "metadata": {"description": "Of {dir}"}}])
    for name in ("x/a.jpg", "y/b.jpg"):
        world.service.put(name.encode(), name[2:], meta=(("img_description", "Of x"),))
        world.write(name, name.encode())
    world.write(f"y/{FOLDER_SIDECAR.decode()}", b"keywords: [pier]\n")
    world.scan_and_send()
    world.live(5)
    assert listed(world) == {
        "y/b.jpg": DIFFERS.format("the description is other than in the sidecars, the keywords are empty")
    }


def test_fields_are_named_by_the_services_kind(make_world):
    """The service takes the file for a document; the description that it shows is the sidecar's."""
    world = make_world()
    world.service.kinds["a.ai"] = "doc"
    world.service.put(b"a", "a.ai", meta=(("file_desc", "Harbour"),))
    world.write("a.ai", b"a")
    world.write("a.ai.yaml", b"description: Harbour\n")
    world.scan_and_send()
    world.live(5)
    assert (world.row("a.ai").state, world.row("a.ai").filetype, listed(world)) == (VERIFIED, "doc", {})


def test_asset_found_only_in_the_database_is_compared(adopting):
    world = adopting(schedule={"index": "off"})
    assert list(listed(world)) == ["a.jpg"]


def test_comparison_costs_no_search(make_world):
    counts = {}
    for sidecar in (SIDECAR, b""):
        world = make_world()
        for number in range(20):
            world.service.put(b"%d" % number, f"{number}.jpg", meta=OTHER)
            world.write(f"{number}.jpg", b"%d" % number)
        world.write("_folder.yaml", sidecar)
        world.scan_and_send()
        before = len(world.service.searches)
        world.site.verifier.step()
        counts[sidecar] = (len(world.service.searches) - before, len(listed(world)))
    assert counts == {SIDECAR: (1, 20), b"": (1, 0)}


def test_file_without_metadata_costs_no_reading(make_world, monkeypatch):
    world = make_world()
    world.service.put(b"a", "a.jpg", meta=OTHER)
    world.write("a.jpg", b"a")
    world.scan_and_send()
    looked = []
    is_absent = world.site.context.tree.is_absent
    monkeypatch.setattr(world.site.context.tree, "is_absent", lambda path: looked.append(path) or is_absent(path))
    world.site.verifier.step()
    assert (world.row("a.jpg").state, looked) == (VERIFIED, [])


def test_upload_is_not_compared_with_sidecars(make_world):
    world = make_world()
    world.service.keeps_own = lambda _asset: ("", "")
    world.write("a.jpg")
    world.write("a.jpg.yaml", SIDECAR)
    world.scan_and_send()
    world.live(5)
    assert (world.row("a.jpg").state, listed(world)) == (VERIFIED, {})


def test_later_change_of_the_sidecar_is_drift(adopting):
    world = adopting(meta=SHOWN)
    world.write("a.jpg.yaml", b"description: Another\n")
    world.scan()
    read_drift(world)
    assert "changed after its asset was taken over" in (drift_of(world.row("a.jpg")) or "")
    assert listed(world) == {}


def test_settling_drift_leaves_adopted_assets(adopting):
    world = adopting()
    world.write("a.jpg.yaml", b"description: Another\n")
    world.scan()
    read_drift(world)
    assert world.ask(SettleDrift((b"",))) == "1 settled"
    assert (list(listed(world)), status_of(world).drift_count) == (["a.jpg"], 0)


def test_settled_asset_is_not_compared_again(adopting):
    world = adopting()
    assert world.ask(SettleDrift((b"",), adopted=True)) == "1 settled"
    gone = world.service.assets.pop(world.row("a.jpg").assetid)
    world.clock.advance(60)
    world.site.auditor.audit("F1")
    assert world.row("a.jpg").reason == "missing"
    world.service.assets[gone.id] = gone
    world.ask(Retry((b"a.jpg",)))
    assert world.row("a.jpg").state is State.STORED
    world.live(5)
    assert (world.row("a.jpg").state, listed(world), status_of(world).adopted_differing) == (VERIFIED, {}, 0)


@pytest.mark.parametrize("path", [b"b.jpg", b"a", b"a.jp"])
def test_settling_needs_a_listed_file(adopting, path):
    world = adopting()
    with pytest.raises(UsageError, match="no adopted asset differs"):
        world.ask(SettleDrift((path,), adopted=True))
    assert list(listed(world)) == ["a.jpg"]


@pytest.mark.parametrize("adopted", [True, False])
def test_request_keeps_what_it_settles(adopted):
    request = SettleDrift((b"a\xff",), adopted)
    assert read_request(request.verb, request.argument()) == request


def test_new_upload_ends_the_difference(adopting):
    world = adopting()
    world.ask(Retry((b"a.jpg",), send_again=True))
    assert listed(world) == {}
    world.send()
    world.live(5)
    assert (world.posted(), world.row("a.jpg").state, listed(world)) == (["a.jpg"], VERIFIED, {})


def test_new_version_hides_the_difference(adopting):
    world = adopting()
    world.write("a.jpg", b"another")
    world.scan_and_send()
    world.live(5)
    assert (listed(world), status_of(world).adopted_differing) == ({}, 0)


def test_renamed_file_keeps_the_difference(adopting):
    world = adopting()
    for ending in ("", ".yaml"):
        (world.root / f"a.jpg{ending}").rename(world.root / f"renamed.jpg{ending}")
    world.scan_and_send()
    assert (list(listed(world)), world.posted()) == (["renamed.jpg"], [])


def test_another_asset_is_compared_by_itself(adopting):
    """The first asset vanished, and the file takes another of equal content, which has the sidecar's metadata."""
    world = adopting()
    del world.service.assets[world.row("a.jpg").assetid]
    other = world.service.put(b"a.jpg", "a.jpg", meta=SHOWN)
    world.clock.advance(60)
    world.site.auditor.audit("F1")
    assert (world.row("a.jpg").reason, list(listed(world))) == ("missing", ["a.jpg"])
    world.ask(Retry((b"a.jpg",)))
    assert (world.row("a.jpg").assetid, listed(world)) == (other.id, {})
    world.live(5)
    assert (world.row("a.jpg").state, world.posted(), listed(world)) == (VERIFIED, [], {})


def test_asset_by_a_persons_word_ends_the_difference(adopting):
    world = adopting()
    other = world.service.put(b"a.jpg", "a.jpg", meta=OTHER)
    del world.service.assets[world.row("a.jpg").assetid]
    world.clock.advance(60)
    world.site.auditor.audit("F1")
    world.ledger.decisions.resolve_as_asset(world.row("a.jpg"), world.service._shown(other), world.clock.now())
    world.live(5)
    assert (world.row("a.jpg").assetid, world.row("a.jpg").state, listed(world)) == (other.id, VERIFIED, {})

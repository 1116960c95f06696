"""A sidecar that changes after the upload is reported as drift, and drift that is mended is forgotten."""

from assetsync.model import State


def drift(world):
    while world.site.drift.step():
        pass
    return {row.path: row.drift for row in world.ledger.reports.drifted(10)}


def test_a_sidecar_that_changed_after_the_upload_is_drift_and_mending_it_ends_it(make_world):
    world = make_world()
    world.write("a.jpg", b"a")
    world.write("a.jpg.yaml", b"description: first")
    world.scan_and_send()
    world.live(5)
    assert world.states() == {"a.jpg": State.VERIFIED}
    world.scan()
    assert drift(world) == {}
    world.write("a.jpg.yaml", b"description: second one")
    world.scan()
    assert list(drift(world)) == [b"a.jpg"]
    assert len(world.service.posts) == 1
    world.write("a.jpg.yaml", b"description: first")
    world.scan()
    assert drift(world) == {}


def test_a_folders_sidecar_concerns_the_files_below_it_only(make_world):
    world = make_world()
    for path in ("a/1", "a/b/2", "c/3"):
        world.write(path, path.encode())
    world.scan_and_send()
    world.live(5)
    world.write("a/_folder.yaml", b"location: here")
    world.scan()
    assert set(drift(world)) == {b"a/1", b"a/b/2"}


def test_a_sidecar_that_cannot_be_read_any_more_is_named(make_world):
    world = make_world()
    world.write("a.jpg", b"a")
    world.scan_and_send()
    world.live(5)
    world.write("a.jpg.yaml", b"descripion: wrong key")
    world.scan()
    assert "descripion" in drift(world)[b"a.jpg"] or "key" in drift(world)[b"a.jpg"]

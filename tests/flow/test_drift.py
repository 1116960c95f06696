"""A sidecar that changes after the upload is reported as drift, and drift that is mended is forgotten."""

from assetsync.model import State


def drift(world):
    while world.site.drift.step():
        pass
    return {row.path: row.drift for row in world.ledger.reports.drifted(10)}


def told_later(world, said: bytes):
    """Give the world with a verified file beside which something was said since."""
    world.write("a.jpg", b"a")
    world.scan_and_send()
    world.live(5)
    world.write("a.jpg.yaml", said)
    world.scan()
    return world


def after_reading(world, monkeypatch, path: bytes, act) -> None:
    """Let something happen once, after the metadata of a file was read and before it is noted."""
    sidecars, told = world.site.sidecars, world.site.sidecars.told

    def read(of, mapping):
        said = told(of, mapping)
        if of == path:
            monkeypatch.setattr(sidecars, "told", told)
            act()
        return said

    monkeypatch.setattr(sidecars, "told", read)


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
    world = told_later(make_world(), b"descripion: wrong key")
    assert "descripion" in drift(world)[b"a.jpg"] or "key" in drift(world)[b"a.jpg"]


def test_many_files_are_told_of_their_folders_sidecar_in_few_commits(make_world):
    world = make_world()
    for number in range(1200):
        world.write(f"{number}.jpg", b"%d" % number)
    world.scan_and_send()
    world.live(5)
    world.write("_folder.yaml", b"location: here")
    world.scan()
    before = world.ledger.store.commits
    assert len(drift(world)) == 10
    assert all(world.row(f"{number}.jpg").drift.startswith("its metadata changed") for number in range(1200))
    assert world.ledger.store.commits - before == 3


def test_a_sidecar_that_changes_back_while_others_are_read_is_read_once_more(make_world, monkeypatch):
    world = make_world()
    for name in ("a", "b"):
        world.write(f"{name}.jpg", name.encode())
        world.write(f"{name}.jpg.yaml", b"description: first")
    world.scan_and_send()
    world.live(5)
    for name in ("a", "b"):
        world.write(f"{name}.jpg.yaml", b"description: another")
    world.scan()

    def change_back() -> None:
        world.write("a.jpg.yaml", b"description: first")
        world.hint("a.jpg.yaml")

    after_reading(world, monkeypatch, b"b.jpg", change_back)
    assert list(drift(world)) == [b"b.jpg"]


def test_a_file_that_moves_while_others_are_read_is_read_at_its_new_place(make_world, monkeypatch):
    world = make_world()
    world.write("b/_folder.yaml", b"location: elsewhere")
    for name in ("x", "y"):
        world.write(f"a/{name}", name.encode())
    world.scan_and_send()
    world.live(5)
    # It says nothing new, but that is not known before it is read.
    world.write("a/_folder.yaml", b"{}")
    world.scan()

    def move() -> None:
        (world.root / "a/x").rename(world.root / "b/x")
        world.hint("b/x")
        world.send()

    after_reading(world, monkeypatch, b"a/y", move)
    assert list(drift(world)) == [b"b/x"]


def test_what_somebody_notes_while_a_file_is_read_stands(make_world, monkeypatch):
    world = told_later(make_world(), b"description: another")
    row = world.row("a.jpg")
    after_reading(
        world, monkeypatch, b"a.jpg", lambda: world.ledger.intake.drifted(row.id, "its mapping points elsewhere")
    )
    assert drift(world) == {b"a.jpg": "its mapping points elsewhere"}


def test_without_a_root_what_drifted_waits_for_it(make_world):
    world = told_later(make_world(), b"description: another")
    away = world.root.rename(world.base / "away")
    assert (world.site.drift.step(), world.row("a.jpg").drift) == (0, "unread")
    away.rename(world.root)
    assert list(drift(world)) == [b"a.jpg"]


def test_how_many_have_drifted_is_counted_and_history_is_not(make_world):
    world = make_world()
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        world.write(name, name.encode())
    world.scan_and_send()
    world.live(5)
    world.write("_folder.yaml", b"location: here")
    world.scan()
    assert len(drift(world)) == world.ledger.reports.count_drifted() == 3
    world.write("a.jpg", b"a new version")
    world.scan_and_send()
    assert len(drift(world)) == world.ledger.reports.count_drifted() == 2

"""A sidecar that changes after the upload is reported as drift, and drift that is mended is forgotten."""

import errno
import os

import pytest

from assetsync.errors import FileUnreadable
from assetsync.ledger.metadata_drift import Found
from assetsync.model import State
from assetsync.tree.safe_open import Tree


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
    sidecars, told = world.site.sidecars, world.site.sidecars.metadata_of

    def read(of, mapping, kind=None, **given):
        said = told(of, mapping, kind, **given)
        if of == path:
            monkeypatch.setattr(sidecars, "metadata_of", told)
            act()
        return said

    monkeypatch.setattr(sidecars, "metadata_of", read)


def test_fixed_sidecar_ends_its_drift(make_world):
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


def test_folder_sidecar_affects_files_below(make_world):
    world = make_world()
    for path in ("a/1", "a/b/2", "c/3"):
        world.write(path, path.encode())
    world.scan_and_send()
    world.live(5)
    world.write("a/_folder.yaml", b"location: here")
    world.scan()
    assert set(drift(world)) == {b"a/1", b"a/b/2"}


def test_sidecar_of_root_affects_every_name(make_world):
    world = make_world()
    for name in (b"0", b"\xff" * 9):
        world.write(os.fsdecode(name), name)
    world.scan_and_send()
    world.live(5)
    world.write("_folder.yaml", b"location: here")
    world.scan()
    assert set(drift(world)) == {b"0", b"\xff" * 9}


@pytest.mark.parametrize(
    ("ignore", "sidecar"),
    [
        ([], "clients/_folder.yaml"),
        ([], "_folder.yaml"),
        (["_*"], "clients/a/_folder.yaml"),
        (["*.yaml"], "clients/a/i.jpg.yaml"),
    ],
)
def test_sidecar_above_mapping_is_watched(make_world, ignore, sidecar):
    """A folder's sidecar above the mapped folder changes: scans and the watcher find the drift."""
    world = make_world(folders=[{"path": "clients/a", "destfolderid": "F1", "ignore": ignore}])
    world.write("clients/a/i.jpg")
    world.write("clients/Z.jpg", b"mapped nowhere")
    world.write(sidecar, b"description: one")
    world.scan_and_send()
    world.live(5)
    assert world.service.posts[0].meta == (("img_description", "one"),)
    assert world.scan().unchanged == 1
    assert drift(world) == {}
    world.write(sidecar, b"description: another")
    world.scan()
    assert drift(world).keys() == {b"clients/a/i.jpg"}
    (world.root / sidecar).unlink()
    world.write(sidecar, b"description: one")
    world.hint(sidecar)
    assert drift(world) == {}
    assert world.posted() == ["i.jpg"]


@pytest.mark.parametrize("ignore", [[], ["*.psd"], ["*.yaml"], ["d*"], ["/sub/"], ["_*"]])
def test_hint_and_scan_agree_on_sidecars(make_world, ignore):
    world = make_world(ignore=ignore)
    names = ("d.psd", "d.psd.yaml", "e.jpg.yaml", "_folder.yaml", "sub/d.psd.yaml", "sub/_folder.yaml", "x._a.yaml")
    for name in names:
        world.write(name, b"description: words")
        world.hint(name)
    world.send()
    assert not [name for name in world.posted() if name.endswith(".yaml")]
    known = {sidecar.path for sidecar in world.ledger.versions.sidecars()}
    assert world.scan().missing_count == 0
    assert {sidecar.path for sidecar in world.ledger.versions.sidecars()} == known


def test_ignored_path_has_no_sidecar(make_world):
    world = make_world()
    world.write("._a.jpg", b"what a Mac leaves")
    world.write("._a.jpg.yaml", b"\x00\x05\x16\x07 no text")
    result = world.scan()
    assert (result.report.files, result.report.sidecars, result.report.ignored) == (0, 0, 2)
    assert not world.site.plan.is_sidecar(b"._a.jpg.yaml")


def test_unreadable_sidecar_is_named(make_world):
    world = told_later(make_world(), b"descripion: wrong key")
    assert "descripion" in drift(world)[b"a.jpg"] or "key" in drift(world)[b"a.jpg"]


def test_folder_sidecar_needs_few_commits(make_world):
    world = make_world()
    for number in range(1200):
        world.write(f"{number}.jpg", b"%d" % number)
    world.scan_and_send()
    world.live(5)
    world.write("_folder.yaml", b"location: here")
    world.scan()
    before = world.ledger.store._commits.count
    assert len(drift(world)) == 10
    assert all(world.row(f"{number}.jpg").drift.startswith("its metadata changed") for number in range(1200))
    assert world.ledger.store._commits.count - before == 3


def test_reverted_sidecar_is_read_once_more(make_world, monkeypatch):
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


def test_moved_file_is_read_at_its_new_path(make_world, monkeypatch):
    """A file moves while its drift is read: what its old folder says is not recorded."""
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


def test_note_made_during_reading_is_kept(make_world, monkeypatch):
    world = told_later(make_world(), b"description: another")
    world.site.drift.step()
    told = world.row("a.jpg")
    assert world.ledger.metadata_drift.settle([told])
    after_reading(
        world,
        monkeypatch,
        b"a.jpg",
        lambda: world.ledger.metadata_drift.read([Found("noted", None, world.row("a.jpg"))], still=lambda: True),
    )
    assert drift(world) == {b"a.jpg": "noted"}
    assert not world.ledger.metadata_drift.settle([told])


def test_audit_note_during_reading_is_read(make_world, monkeypatch):
    world = told_later(make_world(), b"{}")
    world.clock.advance(60)
    world.service.assets[world.row("a.jpg").assetid].folder = "F9"
    after_reading(world, monkeypatch, b"a.jpg", lambda: world.site.auditor.audit("F1"))
    assert drift(world) == {b"a.jpg": "it lies in another folder of the service: F9"}


def test_resend_agrees_to_no_new_asset_folder(make_world):
    world = make_world()
    world.write("a.jpg", b"a")
    world.scan_and_send()
    world.live(5)
    for _ in range(2):
        world.clock.advance(60)
        world.service.assets[world.row("a.jpg").assetid].folder = "F9"
        world.site.auditor.audit("F1")
        assert list(drift(world)) == [b"a.jpg"]
        world.ledger.metadata_drift.settle([world.row("a.jpg")])
        assert drift(world) == {}
        world.ledger.decisions.send_again(world.row("a.jpg"), world.clock.now())
        world.scan_and_send()
        world.live(5)


def test_drift_without_a_root_is_postponed(make_world):
    world = told_later(make_world(), b"description: another")
    away = world.root.rename(world.base / "away")
    assert (world.site.drift.step(), world.row("a.jpg").drift) == (0, "unread")
    away.rename(world.root)
    assert list(drift(world)) == [b"a.jpg"]


def test_absent_folder_postpones_its_drift(make_world):
    """While a folder is away its drift is not listed; once it is back, the drift is listed again."""
    world = make_world(brake={"max_vanished": "0"}, folders=[{"path": "p", "destfolderid": "F1"}])
    for name in ("same", "changed"):
        world.write(f"p/d/{name}", name.encode())
        world.write(f"p/d/{name}.yaml", b"description: first")
    world.write("p/else")
    world.scan_and_send()
    world.live(5)
    world.write("p/d/changed.yaml", b"description: second one")
    world.scan()
    assert list(drift(world)) == [b"p/d/changed"]
    (world.root / "p" / "d").rename(world.root / "away")
    world.scan()
    assert world.site.brakes.pulled()
    assert drift(world) == {}
    (world.root / "away").rename(world.root / "p" / "d")
    world.scan()
    assert not world.site.brakes.pulled()
    assert list(drift(world)) == [b"p/d/changed"]
    assert set(world.states().values()) == {State.VERIFIED}


@pytest.mark.parametrize("said_of", ["its asset", "its folder"])
def test_drift_of_absent_file_is_reported_later(make_world, said_of):
    """What changes while a folder is away is reported once the folder is back."""
    world = make_world(brake={"max_vanished": "0"})
    world.write("_folder.yaml", b"description: first")
    world.write("d/a")
    world.write("else")
    world.scan_and_send()
    world.live(5)
    world.clock.advance(60)
    (world.root / "d").rename(world.base / "away")
    world.scan()
    assert world.site.brakes.pulled()
    if said_of == "its asset":
        world.service.assets[world.row("d/a").assetid].folder = "F9"
        world.site.auditor.audit("F1")
    else:
        world.write("_folder.yaml", b"description: second one")
        world.scan()
    assert b"d/a" not in drift(world)
    (world.base / "away").rename(world.root / "d")
    world.scan()
    assert b"d/a" in drift(world)


def test_drift_count_excludes_history(make_world):
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


def test_settled_drift_is_silent_until_change(make_world):
    world = told_later(make_world(), b"description: another")
    assert list(drift(world)) == [b"a.jpg"]
    assert world.ledger.metadata_drift.settle([world.row("a.jpg")])
    assert drift(world) == {}
    world.write("a.jpg.yaml", b"description: one more")
    world.scan()
    assert list(drift(world)) == [b"a.jpg"]
    world.write("a.jpg.yaml", b"description: another")
    world.scan()
    assert drift(world) == {}


def test_unseen_change_is_not_settled(make_world):
    world = told_later(make_world(), b"description: another")
    drift(world)
    world.write("a.jpg.yaml", b"description: one more")
    assert world.ledger.metadata_drift.settle([world.row("a.jpg")])
    world.scan()
    assert list(drift(world)) == [b"a.jpg"]


def test_broken_sidecar_cannot_be_settled(make_world):
    world = told_later(make_world(), b"descripion: wrong key")
    said = drift(world)
    world.ledger.metadata_drift.settle([world.row("a.jpg")])
    assert drift(world) == said


@pytest.mark.parametrize("lost", [False, True])
def test_metadata_of_another_kind_is_drift(make_world, lost):
    """The service stored a file as another kind than its name says, so that fields named by kind went nowhere."""
    world = make_world()
    world.service.kinds = {"a.ai": "doc", "b.ai": "doc", "c.ai": "doc"}
    world.write("a.ai", b"a")
    world.write("a.ai.yaml", b"description: A drawing")
    world.write("b.ai", b"b")
    world.write("b.ai.yaml", b"meta: {creator: somebody}")
    world.write("c.ai", b"c")
    world.write("d.jpg", b"d")
    world.write("d.jpg.yaml", b"description: A picture")
    if lost:
        # The answer names the kind; of an upload that is found, the search does.
        world.service.script.extend(["lost_after"] * 4)
    world.scan_and_send()
    world.live(60)
    assert set(world.states().values()) == {State.VERIFIED}
    assert world.row("a.ai").filetype == "doc"
    (said,) = drift(world).items()
    assert (said[0], "another kind of file (doc)" in said[1]) == (b"a.ai", True)
    world.ledger.metadata_drift.settle([world.row("a.ai")])
    assert drift(world) == {}


def test_drifts_of_one_file_share_one_report(make_world):
    """Changed metadata, a moved asset and a remapped folder make one report, which scans do not write again."""
    world = make_world(policy={"on_move": "report"})
    world.write("a.jpg", b"a")
    world.scan_and_send()
    world.live(5)
    world.clock.advance(60)
    world.service.assets[world.row("a.jpg").assetid].folder = "F9"
    world.site.auditor.audit("F1")
    world.write("a.jpg.yaml", b"description: another")
    world.restart(folders=[{"path": ".", "destfolderid": "F2"}])
    world.scan()
    world.ledger.resume(None, world.clock.now())
    world.scan()
    (said,) = drift(world).values()
    assert [part.partition(" ")[2][:12] for part in said.split("; ")] == [
        "metadata cha",
        "lies in anot",
        "mapping poin",
    ]
    commits = world.ledger.store._commits.count
    world.scan()
    drift(world)
    assert drift(world) == {b"a.jpg": said}
    assert world.ledger.store._commits.count - commits <= 6


def remap(world, folder: str) -> None:
    """Point the mapping to another folder of the service, and let a person agree where one is asked."""
    world.restart(folders=[{"path": ".", "destfolderid": folder}])
    world.scan()
    world.ledger.resume(None, world.clock.now())
    world.scan()


@pytest.mark.parametrize("folder", ["F10", "F"])
def test_restored_mapping_ends_its_drift(make_world, folder):
    world = make_world(policy={"on_move": "report"})
    world.write("a.jpg", b"a")
    world.scan_and_send()
    world.live(5)
    for to in ("F2", folder):
        remap(world, to)
        assert [
            said.endswith(f"points to folder {to} now, and policy.on_move is report") for said in drift(world).values()
        ] == [True]
    remap(world, "F1")
    assert drift(world) == {}


def test_mapping_awaiting_release_is_no_drift(make_world):
    world = make_world()
    world.write("a.jpg", b"a")
    world.scan_and_send()
    world.live(5)
    world.write("a.jpg.yaml", b"description: said")
    world.restart(folders=[{"path": ".", "destfolderid": "F2"}])
    world.scan()
    assert [said.count(";") for said in drift(world).values()] == [0]


@pytest.mark.parametrize("meanwhile", ["said", "moved", "nothing"])
def test_settling_covers_only_reported_drift(make_world, meanwhile):
    """Drift that changed after a person saw it is not settled by that person's request."""
    world = told_later(make_world(), b"description: second")
    world.clock.advance(60)
    world.service.assets[world.row("a.jpg").assetid].folder = "F8"
    world.site.auditor.audit("F1")
    drift(world)
    seen = world.row("a.jpg")
    if meanwhile == "said":
        world.write("a.jpg.yaml", b"description: third, and longer")
        world.scan()
    elif meanwhile == "moved":
        world.service.assets[seen.assetid].folder = "F9"
        world.clock.advance(60)
        world.site.auditor.audit("F8")
    before = drift(world)
    # The sentence on a sidecar is the same, whatever it says.
    assert (before[b"a.jpg"] == seen.drift) == (meanwhile != "moved")
    settled = world.ledger.metadata_drift.settle([seen])
    assert settled == (meanwhile == "nothing")
    assert drift(world) == ({} if settled else before)


def test_a_file_that_is_blocked_lies_nowhere(make_world):
    world = make_world()
    world.write("a.jpg", b"a")
    world.scan_and_send()
    world.live(5)
    row = world.row("a.jpg")
    assert world.ledger.metadata_drift.lies_in(row.id, "F1")
    world.service.assets[row.assetid].content = b"b"
    world.clock.advance(60)
    world.site.auditor.audit("F1")
    assert world.row("a.jpg").state is State.BLOCKED
    assert not world.ledger.metadata_drift.lies_in(row.id, "F1")


@pytest.fixture
def taken_over(make_world):
    """A site that begins with files whose assets are there already, and sidecars of which one is wrong."""
    world = make_world()
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        world.write(name, name.encode())
        world.service.put(name.encode(), name)
    world.write("a.jpg.yaml", b"description: first")
    world.write("b.jpg.yaml", b"descripion: wrong key")
    world.scan_and_send()
    world.live(5)
    assert world.posted() == []
    assert {row.uploaded_at for row in world.ledger.reports.files()} == {None}
    return world


def test_drift_of_adopted_file_is_reported(taken_over):
    (told,) = drift(taken_over).items()
    assert told[0] == b"b.jpg"
    assert "can no longer be read" in told[1]
    taken_over.write("a.jpg.yaml", b"description: second")
    taken_over.write("b.jpg.yaml", b"description: put right")
    taken_over.write("c.jpg.yaml", b"description: the first word on it")
    taken_over.scan()
    assert drift(taken_over) == dict.fromkeys(
        (b"a.jpg", b"b.jpg", b"c.jpg"),
        "its metadata changed after its asset was taken over: set it in the service by hand",
    )
    taken_over.write("a.jpg.yaml", b"description: first")
    taken_over.scan()
    assert set(drift(taken_over)) == {b"b.jpg", b"c.jpg"}


def test_old_release_adoption_is_read_once(taken_over):
    book = taken_over.ledger.store
    book.write(lambda conn: conn.execute("UPDATE files SET meta_digest = NULL, drift = 'unread'"))
    assert set(drift(taken_over)) == {b"b.jpg"}
    taken_over.write("a.jpg.yaml", b"description: second")
    taken_over.scan()
    assert set(drift(taken_over)) == {b"a.jpg", b"b.jpg"}


def test_ignored_adoption_is_read_when_back(taken_over):
    taken_over.restart(ignore=["a.jpg"])
    book = taken_over.ledger.store
    book.write(lambda conn: conn.execute("UPDATE files SET meta_digest = NULL, drift = 'unread'"))
    assert set(drift(taken_over)) == {b"b.jpg"}
    taken_over.restart(ignore=[])
    taken_over.ledger.metadata_drift.read_anew()
    taken_over.ledger.metadata_drift.mark_unread(taken_over.row("a.jpg").id)
    assert set(drift(taken_over)) == {b"b.jpg"}


def test_sidecar_during_adoption_is_drift(make_world, monkeypatch):
    # With a configured kind, no sidecar is read before.
    world = make_world(service={"kinds": {"jpg": "img"}})
    world.write("a.jpg", b"a")
    world.service.put(b"a", "a.jpg")

    def say() -> None:
        world.write("a.jpg.yaml", b"description: just now")
        world.hint("a.jpg.yaml")

    after_reading(world, monkeypatch, b"a.jpg", say)
    world.scan_and_send()
    world.live(5)
    assert (world.posted(), set(drift(world))) == ([], {b"a.jpg"})


def test_kind_of_adopted_asset_is_no_drift(taken_over):
    book = taken_over.ledger.store
    book.write(
        lambda conn: conn.execute("UPDATE files SET filetype = 'vid', drift = 'unread' WHERE path = ?", (b"a.jpg",))
    )
    assert set(drift(taken_over)) == {b"b.jpg"}


@pytest.mark.parametrize("name", ["a.jpg.yaml", "_folder.yaml"])
def test_sidecar_gone_between_scans_is_drift(make_world, name):
    world = make_world()
    world.write("a.jpg", b"a")
    world.scan()
    world.write(name, b"description: for a moment")
    world.send()
    (world.root / name).unlink()
    world.scan()
    assert list(drift(world)) == [b"a.jpg"]
    world.write(name, b"description: for a moment")
    world.scan()
    assert drift(world) == {}


def test_sidecar_gone_while_read_is_drift(make_world, monkeypatch):
    world = make_world(service={"kinds": {"jpg": "img"}})
    world.write("a.jpg", b"a")
    world.scan()
    sidecar = world.write("a.jpg.yaml", b"description: for a moment")
    read_small = type(world.site.context.tree).read_small

    def read(tree, path, most):
        content = read_small(tree, path, most)
        sidecar.unlink()
        return content

    with monkeypatch.context() as patch:
        patch.setattr(type(world.site.context.tree), "read_small", read)
        world.send()
    assert list(drift(world)) == [b"a.jpg"]


@pytest.mark.parametrize(
    ("folders", "sidecar", "path"),
    [
        (
            [{"path": ".", "destfolderid": "F1", "sidecars": "off"}, {"path": "p", "destfolderid": "F2"}],
            "_folder.yaml",
            "p/a.jpg",
        ),
        (
            [
                {"path": ".", "destfolderid": "F1"},
                {"path": "p", "destfolderid": "F2", "sidecars": "off"},
                {"path": "p/q", "destfolderid": "F3"},
            ],
            "p/_folder.yaml",
            "p/q/a.jpg",
        ),
    ],
)
def test_sidecar_as_upper_file_is_found_once(make_world, folders, sidecar, path):
    world = make_world(folders=folders)
    world.write(path, b"a")
    world.write(sidecar, b"description: x")
    unread = "SELECT COUNT(*) FROM files WHERE drift = 'unread'"
    found = []
    world.scan_and_send()
    for _ in range(4):
        world.live(5)
        world.scan()
        found.append(world.ledger.store.rows(unread)[0][0])
        while world.site.drift.step():
            pass
    assert found[1:] == [0, 0, 0]


@pytest.fixture
def failing(monkeypatch):
    """Give the set of paths at which the disk fails; nothing of that shows in a scan."""
    paths: set[bytes] = set()
    is_absent, existing, read_small = Tree.is_absent, Tree.existing, Tree.read_small

    def reads(tree, path, limit):
        if path in paths:
            raise FileUnreadable(f"{path!r}: {os.strerror(errno.EIO)}")
        return read_small(tree, path, limit)

    def entries(tree, folder, names):
        known = {folder + b"/" + name if folder else name for name in names}
        return [*existing(tree, folder, names), *sorted(known & paths)]

    monkeypatch.setattr(Tree, "is_absent", lambda tree, path: path not in paths and is_absent(tree, path))
    monkeypatch.setattr(Tree, "existing", entries)
    monkeypatch.setattr(Tree, "read_small", reads)
    return paths


def test_sidecar_hidden_by_disk_is_read_later(make_world, failing):
    """A folder's sidecar that the disk fails to read is drift of its files, until it can be read."""
    world = make_world()
    for path in ("a/1", "a/2"):
        world.write(path, path.encode())
    world.scan_and_send()
    world.live(5)
    world.write("a/_folder.yaml", b"location: there")
    world.scan()
    failing.add(b"a/_folder.yaml")
    assert "cannot be read" in drift(world)[b"a/1"]
    world.scan()
    assert set(drift(world)) == {b"a/1", b"a/2"}
    assert "cannot be read" in drift(world)[b"a/2"]
    failing.clear()
    world.scan()
    assert dict.fromkeys((b"a/1", b"a/2"), "its metadata changed after the upload: set it in the service by hand") == (
        drift(world)
    )


def test_phantom_sidecar_leaves_no_drift(make_world, failing):
    world = told_later(make_world(), b"description: later")
    world.write("a.jpg.yaml", b"")
    os.unlink(world.root / "a.jpg.yaml")
    world.scan()
    failing.add(b"a.jpg.yaml")
    assert "cannot be read" in drift(world)[b"a.jpg"]
    failing.clear()
    world.scan()
    assert drift(world) == {}

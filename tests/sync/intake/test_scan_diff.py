"""Leaving out folders that are as they were changes nothing of what a scan finds, whatever happened in between.

Covers `ledger/file/invalidation.py` and `ledger/folder_cache.py`.
"""

import os
import random
import shutil
import threading
from pathlib import Path

import pytest

from assetsync.core.states import Event
from assetsync.model import CachedFolder, State
from tests.slices import skip_outside

FOLDERS = ["", "a", "a/b", "a/b/c", "a.", "a0", "b", "b/ü", "late/in/the/order"]
NAMES = ["a", "b.jpg", "b.jpg.yaml", "_folder.yaml", "c", "x.tmp", "a.b", "a-", "~"]

HAPPENINGS = [
    *("write", "write", "write", "append", "remove", "rename", "rename", "rmtree", "swap", "copy", "chmod", "link"),
    *("send", "hint", "retry", "vanished", "row", "ignore", "remap", "restart", "nothing"),
]


def found(result) -> tuple[object, ...]:
    report = result.report
    return (
        (result.scanned, result.unchanged, result.to_send, result.bytes_to_send, result.new_versions),
        (result.unsettled, result.missing_count, result.unmapped, result.moved),
        sorted(missing.path for missing in result.missing),
        (report.files, report.sidecars, report.ignored, report.special, report.folders, report.unmapped_files),
        {position: count for position, count in report.per_mapping.items() if count},
        (report.complete, report.missing_mappings),
    )


def look_at_all(world, monkeypatch) -> tuple[object, ...]:
    """What a scan finds that compares every file; it changes nothing."""
    with monkeypatch.context() as patch:
        patch.setattr(world.ledger.folder_cache, "recorded", lambda: iter(()))
        return found(world.site.rescan.dry_run())


def looked_at(world, monkeypatch) -> list[bytes]:
    """The paths that a scan compares one by one."""
    seen: list[bytes] = []
    merge = world.site.intake.scan

    def scan(look, report, **said):
        def noted(notes):
            for each in look(notes):
                seen.append(each.path)
                yield each

        return merge(noted, report, **said)

    with monkeypatch.context() as patch:
        patch.setattr(world.site.intake, "scan", scan)
        world.scan()
    return seen


def change_something(world, chance: random.Random) -> str:
    """Let one thing happen: in the tree, to a row, or to the configuration."""
    root: Path = world.root
    folder = root / chance.choice(FOLDERS)
    path = folder / chance.choice(NAMES)
    files = sorted(p for p in root.rglob("*") if p.is_file())
    some = chance.choice(files) if files else None
    what = chance.choice(HAPPENINGS)
    # A file, or a link that leads nowhere, may have a folder's name.
    free = all(parent.is_dir() or not os.path.lexists(parent) for parent in path.parents)
    if what == "write" and free and not path.is_symlink() and not path.is_dir():
        world.write(str(path.relative_to(root)), chance.randbytes(chance.randint(1, 3)))
    elif what == "append" and some:
        some.write_bytes(some.read_bytes() + b"+")
    elif what == "remove" and some:
        some.unlink()
    elif what == "rename" and some and folder.is_dir() and not path.is_dir():
        some.replace(path)
    elif what == "rmtree" and folder != root:
        shutil.rmtree(folder, ignore_errors=True)
    elif what == "swap" and len(files) > 1:
        one, other = chance.sample(files, 2)
        one.rename(root / "swapping")
        other.rename(one)
        (root / "swapping").rename(other)
    elif what == "copy" and some and folder.is_dir() and not path.is_dir() and path != some:
        shutil.copy2(some, path)
    elif what == "chmod" and some:
        some.chmod(chance.choice([0o600, 0o644]))
    elif what == "link" and not path.exists() and not path.is_symlink() and folder.is_dir():
        path.symlink_to("nowhere")
    elif what == "send":
        world.send()
    elif what == "hint" and some:
        world.hint(some.relative_to(root))
    elif what == "retry":
        world.ledger.queue.retry_blocked("sidecar", world.clock.now())
    elif what == "vanished":
        rows = world.ledger.queue.due(world.clock.now(), 3)
        for row in rows[:1]:
            world.ledger.queue.vanished(row.id, world.clock.now())
    elif what == "row":
        rows = [row for row in world.ledger.reports.files() if row.state is State.VERIFIED]
        for row in rows[:1]:
            world.ledger.versions.unwanted([(row.id, row.path)], chance.choice([Event.VANISHED, Event.UNMAPPED]), 1.0)
    elif what == "ignore":
        world.restart(ignore=chance.choice([[], ["c"], ["a/"], ["*.jpg"]]))
    elif what == "remap":
        second = {"path": "a/b", "destfolderid": "F2", "sidecars": chance.choice(["on", "off"])}
        world.restart(folders=[{"path": ".", "destfolderid": "F1"}, *chance.choice([[], [second]])])
        world.scan()
        world.ledger.resume(None, world.clock.now())
    elif what == "restart":
        world.restart()
    return what


@pytest.mark.parametrize("seed", [*range(8), 116])
def test_cached_scan_equals_a_full_one(make_world, monkeypatch, request, seed):
    if seed != 116:
        # 116 once found a fault.
        skip_outside(seed, range(8), 3, request)
    world = make_world(brake={"max_vanished": "100000"})
    chance = random.Random(seed)
    left_out = 0
    for _round in range(40):
        told = [change_something(world, chance) for _ in range(chance.randint(0, 3))]
        expected = look_at_all(world, monkeypatch)
        result = world.scan()
        assert found(result) == expected, told
        left_out += result.unchanged and sum(q.files for q in world.ledger.folder_cache.recorded())
        for each in world.ledger.folder_cache.recorded():
            rows = [r.path for r in world.ledger.reports.files() if r.path.rpartition(b"/")[0] == each.folder[:-1]]
            assert len(rows) == each.files, each
    assert left_out, "no folder was ever unchanged"


def test_folder_is_skipped_once_all_is_known(world, monkeypatch):
    for name in ("a/x", "a/y", "b/z"):
        world.write(name)
    assert looked_at(world, monkeypatch) == [b"a/x", b"a/y", b"b/z"], "new"
    assert looked_at(world, monkeypatch) == [b"a/x", b"a/y", b"b/z"], "known for the first time"
    assert looked_at(world, monkeypatch) == []
    world.write("a/new")
    assert looked_at(world, monkeypatch) == [b"a/new", b"a/x", b"a/y"]


def cached_world(world):
    for name in ("a/x", "a/y", "b/z", "b/z.yaml"):
        world.write(name, b"description: z" if name.endswith("yaml") else name.encode())
    world.scan_and_send()
    for _ in range(2):
        world.scan()
    assert [each.folder for each in world.ledger.folder_cache.recorded()] == [b"", b"a/", b"b/"]
    return world


@pytest.mark.parametrize(
    ("change", "compared"),
    [
        (lambda w: w.ledger.store.write(lambda c: c.execute("DELETE FROM files WHERE path = x'612F78'")), b"a/"),
        (
            lambda w: w.ledger.store.write(lambda c: c.execute("UPDATE files SET size = 9 WHERE path = x'612F78'")),
            b"a/",
        ),
        (lambda w: w.ledger.store.write(lambda c: c.execute("UPDATE files SET wanted = 'gone' WHERE size = 3")), b"a/"),
        (lambda w: w.ledger.store.write(lambda c: c.execute("DELETE FROM sidecars")), b"b/"),
        (lambda w: (w.root / "b/z.yaml").write_text("description: other"), b"b/"),
        (lambda w: (w.root / "b/z.yaml").unlink(), b"b/"),
    ],
    ids=["row_gone", "row_changed", "rows_unwanted", "sidecar_row_gone", "sidecar_changed", "sidecar_gone"],
)
def test_any_change_requires_a_new_comparison(world, monkeypatch, change, compared):
    change(cached_world(world))
    assert any(path.startswith(compared) for path in looked_at(world, monkeypatch))


def test_state_change_keeps_folder_cached(world, monkeypatch):
    cached_world(world)
    world.live(200)
    assert set(world.states().values()) == {State.VERIFIED}
    assert looked_at(world, monkeypatch) == []


@pytest.mark.parametrize(
    "said",
    [{"ignore": ["y"]}, {"folders": [{"path": ".", "destfolderid": "F2"}]}, {"watch": {"follow_symlinks": "yes"}}],
)
def test_new_rules_compare_everything_again(world, monkeypatch, said):
    cached_world(world).restart(**said)
    assert {b"a/x", b"b/z"} <= set(looked_at(world, monkeypatch))


def test_after_a_week_all_is_compared_again(world, monkeypatch):
    cached_world(world)
    world.clock.advance(8 * 24 * 3600)
    assert {b"a/x", b"a/y", b"b/z"} <= set(looked_at(world, monkeypatch))
    assert looked_at(world, monkeypatch) == []


def test_row_removed_elsewhere_is_noticed(world, monkeypatch):
    cached_world(world)
    world.ledger.store._writer.execute("DROP TRIGGER invalidate_files_gone")
    world.ledger.store.write(lambda conn: conn.execute("DELETE FROM files WHERE path = x'612F78'"))
    assert looked_at(world, monkeypatch) == []
    assert b"a/x" in looked_at(world, monkeypatch)


def test_folder_changed_in_scan_is_not_cached(world, monkeypatch):
    cached_world(world)
    row = world.row("a/x")
    cache = world.ledger.folder_cache
    before = {each.folder: each for each in cache.recorded()}
    assert cache.begin(world.site.intake._mark(), world.clock.now())
    world.ledger.versions.unwanted([(row.id, row.path)], Event.VANISHED, world.clock.now())
    assert (cache.was_invalidated(b"a/"), cache.was_invalidated(b"b/")) == (True, False)
    cache.record([before[b"a/"], before[b"b/"]], [])
    cache.end()
    assert [each.folder for each in cache.recorded()] == [b"", b"b/"]


def test_scan_sees_all_earlier_changes(world):
    """A write that is not committed when a scan begins is seen by the scan, or its folder counts as changed."""
    ledger = cached_world(world).ledger
    changed, begun = threading.Event(), threading.Event()

    def work(conn):
        conn.execute("UPDATE files SET size = 9 WHERE path = x'612F78'")
        changed.set()
        # Once it has begun in the midst of this, or is waiting for it.
        begun.wait(0.3)

    writing = threading.Thread(target=ledger.store.write, args=(work,))
    writing.start()
    changed.wait()
    plan = ledger.reports.fact("folder_cache_plan")
    assert ledger.folder_cache.begin(plan, world.clock.now())
    sizes = {row.path: row.size for row in ledger.versions.current(b"a/")}
    begun.set()
    writing.join()
    assert sizes[b"a/x"] == 9 or ledger.folder_cache.was_invalidated(b"a/"), (
        "else it would be remembered by rows of before"
    )


def test_change_in_caching_commit_counts(world):
    cached_world(world)
    cache = world.ledger.folder_cache
    assert cache.begin(world.site.intake._mark(), world.clock.now())

    def both(conn) -> None:
        cached = CachedFolder(b"a/", b"digest", 1, 0, 0)
        conn.execute("INSERT OR REPLACE INTO folder_cache VALUES (?, ?, ?, ?, ?)", cached)
        conn.execute("UPDATE files SET size = 8 WHERE path = x'612F78'")

    world.ledger.store.write(both)
    cache.end()
    assert [each.folder for each in cache.recorded()] == [b"", b"b/"]


def test_rolled_back_change_stays_cached(world):
    cached_world(world)

    def fails(conn) -> None:
        conn.execute("UPDATE files SET size = 8 WHERE path = x'612F78'")
        conn.execute("no SQL")

    with pytest.raises(Exception, match="syntax error"):
        world.ledger.store.write(fails)
    assert [each.folder for each in world.ledger.folder_cache.recorded()] == [b"", b"a/", b"b/"]


def test_vanished_folder_is_found_by_count(make_world):
    world = cached_world(make_world(brake={"max_vanished": "100000"}))
    shutil.rmtree(world.root / "a")
    result = world.scan()
    assert sorted(missing.path for missing in result.missing) == [b"a/x", b"a/y"]
    assert set(world.states()) == {"b/z"}
    assert [each.folder for each in world.ledger.folder_cache.recorded()] == [b"", b"b/"]

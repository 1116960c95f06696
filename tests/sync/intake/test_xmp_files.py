"""XMP files as sidecars: which file they describe, the order of the levels, late and broken ones, and an upgrade."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from assetsync.model import State
from assetsync.sync.intake.sidecars import SidecarCache
from tests.sync.readback.test_drift import drift

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


def xmp(description: str = "", *, extension: str = "", settings: str = "") -> bytes:
    spaces = (
        'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:photoshop="http://ns.adobe.com/photoshop/1.0/"'
        ' xmlns:crs="http://ns.adobe.com/camera-raw-settings/1.0/"'
    )
    attributes = f'crs:Exposure="{settings}"' + (f' photoshop:SidecarForExtension="{extension}"' if extension else "")
    inner = f"<dc:description>{description}</dc:description>" if description else ""
    described = f"<rdf:Description {spaces} {attributes}>{inner}</rdf:Description>"
    return f'<rdf:RDF xmlns:rdf="{RDF}">{described}</rdf:RDF>'.encode()


def sent(world) -> dict[str, str]:
    """Give the description that was sent with each file."""
    fields = ((post.filename, name, value) for post in world.service.posts for name, value in post.meta)
    return {filename: value for filename, name, value in fields if name.endswith(("description", "desc"))}


def test_pair_of_raw_and_jpeg_shares_its_xmp(world):
    for name in ("p.jpg", "p.NEF", "p", "pq.jpg", "p.old.jpg"):
        world.write(name, name.encode())
    world.write("p.xmp", xmp("of the pair"))
    world.scan_and_send()
    assert sent(world) == dict.fromkeys(("p.jpg", "p.NEF", "p"), "of the pair")
    assert set(world.posted()) == {"p.jpg", "p.NEF", "p", "pq.jpg", "p.old.jpg"}


@pytest.mark.parametrize("ending", ["xmp", "XMP", "Xmp"])
def test_xmp_of_the_whole_name_wins_whole(world, ending):
    world.write("p.jpg")
    world.write("p.xmp", xmp("of the stem"))
    world.write(f"p.jpg.{ending}", xmp())
    world.scan_and_send()
    assert sent(world) == {}
    assert world.posted() == ["p.jpg"]


def test_xmp_for_another_ending_is_left(world):
    world.write("p.jpg")
    world.write("p.NEF", b"raw")
    world.write("p.xmp", xmp("of the raw file", extension="NEF"))
    world.scan_and_send()
    assert sent(world) == {"p.NEF": "of the raw file"}


def test_levels_come_in_their_order(make_world):
    world = make_world(folders=[{"path": ".", "destfolderid": "F1", "metadata": {"description": "mapping"}}])
    for name in ("a", "b", "c", "d"):
        world.write(f"{name}/p.jpg", name.encode())
    for name in ("b", "c", "d"):
        world.write(f"{name}/_folder.yaml", b"description: folder")
    for name in ("c", "d"):
        world.write(f"{name}/p.jpg.xmp", xmp("xmp"))
    world.write("d/p.jpg.yaml", b"description: own")
    world.scan_and_send()
    told = {post.boundary: dict(post.meta)["img_description"] for post in world.service.posts}
    rows = world.ledger.store.rows("SELECT boundary FROM attempts JOIN files ON files.id = file_id ORDER BY path")
    assert [told[row["boundary"]] for row in rows] == ["mapping", "folder", "xmp", "own"]


def test_xmp_off_leaves_them_out(make_world):
    world = make_world(folders=[{"path": ".", "destfolderid": "F1", "xmp": "off"}])
    world.write("p.jpg")
    world.write("p.jpg.xmp", xmp("not read"))
    world.scan_and_send()
    assert sent(world) == {}
    assert world.posted() == ["p.jpg"]


def test_rule_that_takes_xmp_back_sends_them(make_world):
    world = make_world(ignore=["!*.xmp"])
    world.write("p.jpg")
    world.write("p.jpg.xmp", xmp("a file of its own"))
    world.scan_and_send()
    assert sent(world) == {}
    assert world.posted() == ["p.jpg", "p.jpg.xmp"]


def test_broken_xmp_blocks_until_it_is_whole(world):
    world.write("p.jpg")
    world.write("p.NEF", b"raw")
    world.write("p.xmp", xmp("whole")[:-9])
    world.scan_and_send()
    assert world.posted() == []
    for path in ("p.jpg", "p.NEF"):
        assert world.row(path).state is State.BLOCKED
        assert "p.xmp, line 1, column" in world.row(path).detail
        assert "not well-formed" in world.row(path).detail or "ends before" in world.row(path).detail
    world.write("p.xmp", xmp("whole"))
    assert world.hint("p.xmp") == 2
    world.send()
    assert sent(world) == {"p.jpg": "whole", "p.NEF": "whole"}


@pytest.fixture
def settling(make_world, clock):
    """A site with a file that is due now, beside which an XMP file would be as young."""
    world = make_world(watch={"settle": "60s"})
    clock.set_now(time.time())
    world.write("p.jpg")
    world.scan()
    clock.advance(60)
    clock.set_now(time.time() + 1)
    assert world.site.intake.look_again() == 1
    return world


@pytest.mark.parametrize("half", [b"", xmp("whole")[:60], xmp("not yet this")])
def test_unsettled_xmp_is_waited_for(settling, clock, half):
    settling.write("p.xmp", half)
    settling.send()
    assert settling.posted() == []
    assert settling.row("p.jpg").state is State.QUEUED
    settling.write("p.xmp", xmp("whole"))
    clock.advance(62)
    settling.send()
    assert sent(settling) == {"p.jpg": "whole"}


def test_xmp_moved_away_to_be_written_is_waited_for(settling, clock):
    """As exiftool writes: for a moment there is no `p.xmp`."""
    settling.write("p.xmp", xmp("before"), mtime=1)
    settling.hint("p.xmp")
    (settling.root / "p.xmp").rename(settling.root / "p.xmp_original")
    settling.hint("p.xmp")
    settling.send()
    assert settling.posted() == []
    settling.write("p.xmp", xmp("after"))
    clock.advance(62)
    settling.send()
    assert sent(settling) == {"p.jpg": "after"}


def test_xmp_that_stays_away_delays_once(settling, clock):
    settling.write("p.xmp", xmp("before"), mtime=1)
    settling.hint("p.xmp")
    (settling.root / "p.xmp").unlink()
    settling.send()
    assert settling.posted() == []
    clock.advance(62)
    settling.send()
    assert settling.posted() == ["p.jpg"]
    assert sent(settling) == {}


def test_last_moment_of_the_wait_is_not_asked_for_again(settling, clock):
    """A due time later by less than the clock resolves is now."""
    settling.write("p.xmp", xmp("before"), mtime=1)
    settling.hint("p.xmp")
    (settling.root / "p.xmp").unlink()
    settling.send()
    clock.advance(60 - 1e-9)
    settling.site.uploader.step()
    assert settling.row("p.jpg").due_at > clock.now()
    clock.advance(1)
    settling.send()
    assert settling.posted() == ["p.jpg"]


def test_scan_decides_that_an_xmp_is_gone(world):
    world.write("p.xmp", xmp("before"), mtime=1)
    world.scan()
    (world.root / "p.xmp").unlink()
    world.hint("p.xmp")
    assert world.ledger.versions.sidecar(b"p.xmp") is not None
    world.scan()
    assert world.ledger.versions.sidecar(b"p.xmp") is None


def test_sidecar_wait_ends_with_an_xmp(make_world, clock):
    world = make_world(watch={"settle": "0s", "sidecar_wait": "1h"})
    world.write("p.jpg")
    world.scan_and_send()
    assert world.posted() == []
    world.write("p.xmp", xmp("late"))
    world.hint("p.xmp")
    world.send()
    assert sent(world) == {"p.jpg": "late"}


def verified(world) -> None:
    world.scan_and_send()
    world.live(5)
    world.scan()
    assert drift(world) == {}


def test_develop_settings_are_no_drift(world):
    world.write("p.jpg")
    world.write("p.NEF", b"raw")
    world.write("p.xmp", xmp("same", settings="+0.10"))
    verified(world)
    world.write("p.xmp", xmp("same", settings="+0.250"))
    world.scan()
    assert drift(world) == {}
    world.write("p.xmp", xmp("other"))
    world.scan()
    assert set(drift(world)) == {b"p.jpg", b"p.NEF"}


def test_xmp_that_comes_and_goes_is_drift_meanwhile(world):
    world.write("p.jpg")
    verified(world)
    world.write("p.jpg.xmp", xmp("late"))
    world.hint("p.jpg.xmp")
    assert set(drift(world)) == {b"p.jpg"}
    (world.root / "p.jpg.xmp").unlink()
    world.hint("p.jpg.xmp")
    world.scan()
    assert drift(world) == {}


def test_stem_without_file_is_no_stray(world):
    world.write("p.jpg")
    world.write("p_01.jpg.xmp", xmp("a duplicate of darktable"))
    world.scan()
    assert world.ledger.runs.last_scan().stray == 0


def to_older_release(ledger: Path) -> None:
    """Make a ledger what a release had made that read no XMP files."""
    with closing(sqlite3.connect(ledger)) as conn, conn:
        conn.execute("DELETE FROM _sqlite_migrations WHERE name = 'm024_xmp'")
        conn.execute("ALTER TABLE sidecars DROP COLUMN is_first")
        conn.execute("DELETE FROM facts WHERE name LIKE 'xmp%'")


@pytest.fixture
def upgraded(make_world):
    """A site whose files were verified beside XMP files by an older release."""
    world = make_world(folders=[{"path": ".", "destfolderid": "F1", "xmp": "off"}])
    for name in ("p.jpg", "p.NEF", "sub/q.jpg", "r.jpg"):
        world.write(name, name.encode())
    world.write("p.xmp", xmp("of the pair"))
    world.write("sub/q.jpg.XMP", xmp("broken")[:-3])
    # The older release sends the second one: its rule leaves out lower case alone.
    world.scan_and_send()
    world.write("r.jpg.xmp", xmp("of one file"))
    world.live(5)
    world.close()
    to_older_release(world.ledger_path)
    world.restart(folders=[{"path": ".", "destfolderid": "F1"}])
    return world


def test_upgrade_sends_nothing_and_reports_no_drift(upgraded):
    posts = len(upgraded.service.posts)
    for _ in range(2):
        upgraded.scan_and_send()
        upgraded.live(5)
        assert drift(upgraded) == {}
    # Whatever makes the files be read again.
    upgraded.ledger.store.change("UPDATE files SET drift = 'unread' WHERE wanted = 'yes'")
    assert drift(upgraded) == {}
    assert len(upgraded.service.posts) == posts
    assert not upgraded.site.brakes.pulled()


def test_change_after_the_upgrade_is_drift(upgraded):
    upgraded.scan_and_send()
    upgraded.write("p.xmp", xmp("changed"))
    upgraded.write("r.jpg.yaml", b"description: new")
    upgraded.scan()
    assert set(drift(upgraded)) == {b"p.jpg", b"p.NEF", b"r.jpg"}


def test_xmp_new_after_the_upgrade_is_drift(upgraded):
    upgraded.scan_and_send()
    upgraded.write("p.jpg.xmp", xmp("new"))
    upgraded.scan()
    assert set(drift(upgraded)) == {b"p.jpg"}
    (upgraded.root / "p.jpg.xmp").unlink()
    upgraded.scan()
    assert drift(upgraded) == {}


def test_file_sent_after_the_upgrade_has_its_xmp(upgraded):
    upgraded.write("p.jpg", b"edited", mtime=time.time() - 100)
    upgraded.scan_and_send()
    assert sent(upgraded) == {"p.jpg": "of the pair"}
    upgraded.live(5)
    assert drift(upgraded) == {}
    os.unlink(upgraded.root / "p.xmp")
    upgraded.scan()
    assert set(drift(upgraded)) == {b"p.jpg"}


def test_large_xmp_files_are_parsed_in_turn(world):
    ticks, read = [], []
    cache = SidecarCache(lambda: bool(ticks.append(1)))
    small, large = [b"p" * 65536] * 2, [b"p" * 65536] * 4
    first = cache.in_turn(iter(large))
    assert len([next(first) for _ in range(3)]) == 3
    waiting = threading.Thread(target=lambda: read.extend(cache.in_turn(iter(large))))
    waiting.start()
    assert [*cache.in_turn(iter(small))] == small
    before = len(ticks)
    waiting.join(1.5)
    assert len(read) == 2
    assert len(ticks) > before
    first.close()
    waiting.join(30)
    assert read == large


PARSING = """
import sys
from pathlib import Path
from threading import Thread
from assetsync.cli.entry import limit_heaps
from assetsync.clock import SystemClock
from assetsync.config.document.metadata import FieldNames
from assetsync.model import Mapping
from assetsync.sync.intake.sidecars import Sidecars
from assetsync.tree.safe_open import Tree

def memory(name):
    return int(Path("/proc/self/status").read_text().partition(name)[2].split()[0])

def read():
    assert sidecars.read_xmp(b"p.xmp", Mapping(b"", "F")).description, "nothing was read"
    done.append(True)

limit_heaps()
done, sidecars = [], Sidecars(Tree(sys.argv[1].encode()), SystemClock(), FieldNames())
before = memory("VmRSS:")
threads = [Thread(target=read) for _ in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(done), memory("VmHWM:") - before)
"""


def test_16_large_xmp_files_fit_into_300_mib(tmp_path):
    """16 threads read 10 MB each, with names of 1,000 wide characters; all parsed at once, they take 400 MiB."""
    names = (f'crs:\u6f22{"n" * 990}{number}=""' for number in range(9_900))
    tags = "".join(f"<crs:a {' '.join(islice(names, 100))}/>" for _tag in range(99))
    end = "</rdf:Description>"
    (tmp_path / "p.xmp").write_text(xmp("wide").decode().replace(end, tags + end), "utf-8")
    command = [sys.executable, "-c", PARSING, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    parsed, kibibytes = map(int, done.stdout.split())
    assert (parsed, kibibytes < 300 * 1024) == (16, True), kibibytes

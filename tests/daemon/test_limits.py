"""What the kernel or a disk refuses: said once, worked around, and over when it is over."""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("name_spaces")


def test_folders_beyond_watch_limit_are_scanned(make, request):
    """Scans find files in folders beyond the kernel's limit, and the log names the sysctl."""
    # By itself such a tree is scanned every minute; the long run waits for it.
    rescan, patience = ("1h", 100) if request.config.getoption("--long") else ("2s", 30)
    running = make(schedule=f"{{index: off, verify: 1s, rescan: {rescan}}}")
    for number in range(40):
        (running.photos / f"{number}").mkdir()
    running.start(within="echo 15 > /proc/sys/user/max_inotify_watches")
    running.until(lambda: running.events("scanned"))
    for number in range(40):
        (running.photos / f"{number}" / "a.txt").write_bytes(b"%d" % number)
    running.until_verified(40, patience)
    (running.photos / "39" / "b.txt").write_bytes(b"b")
    running.until_verified(41, patience)
    said = running.events("some folders cannot be watched; the tree is scanned every minute instead")
    assert [event["folders"] for event in said] == [42]
    assert said[0]["watched"] <= 15
    assert said[0]["fix"].startswith("sysctl fs.inotify.max_user_watches=")
    assert running.stop() == 0


def test_ignored_folders_hide_no_limit(make):
    """Each of ten folders has an ignored folder, so that there are as many watches as folders; seven are missing."""
    running = make(schedule="{index: off, verify: 1s, rescan: 1h}", status='{listen: "127.0.0.1:0"}')
    for number in range(10):
        (running.photos / f"{number}" / "@eaDir").mkdir(parents=True)
    running.start(within="echo 15 > /proc/sys/user/max_inotify_watches")
    said = lambda: running.events("some folders cannot be watched; the tree is scanned every minute instead")  # noqa: E731
    running.until(said)
    assert said()[0]["watched"] > said()[0]["folders"]
    assert said()[0]["why"] == "inotify watch limit reached"
    with urllib.request.urlopen(f"{running.address()}/metrics", timeout=10) as answer:
        assert b'assetsync_watch_polling{site="d"} 1.0' in answer.read()
    # The limit is raised while the daemon runs.
    running.beside("sh", "-c", "echo 100 > /proc/sys/user/max_inotify_watches")
    running.until(lambda: running.events("all folders can be watched again"))
    for number in range(10):
        (running.photos / f"{number}" / "a.txt").write_bytes(b"%d" % number)
    running.until_verified(10, 30)
    assert running.stop() == 0


def test_unwatchable_folder_causes_one_scan(make):
    running = make(
        folders='[{path: photos, destfolderid: "D1"}, {path: videos, destfolderid: "D2"}]',
        schedule="{index: off, verify: 1s, rescan: 1h}",
    )
    (running.tree / "videos").mkdir()
    for number in range(30):
        (running.photos / f"{number}").mkdir()
    running.start(within="echo 15 > /proc/sys/user/max_inotify_watches")
    running.until(lambda: running.events("some folders cannot be watched; the tree is scanned every minute instead"))
    time.sleep(4)
    assert len([event for event in running.events("scan wanted") if "cannot be watched" in event["why"]]) <= 1
    assert len(running.events("scanned")) <= 2
    assert running.stop() == 0


@pytest.mark.parametrize(("mode", "level"), [("auto", "warning"), ("inotify", "error")])
@pytest.mark.parametrize("limit", ["max_user_instances", "max_user_watches"])
def test_missing_watcher_falls_back_to_scans(make, mode, level, limit):
    running = make(
        watch=f"{{settle: 300ms, mode: {mode}}}",
        schedule="{index: off, verify: 1s, rescan: 2s}",
        status='{listen: "127.0.0.1:0"}',
    )
    running.start(within=f"echo 0 > /proc/sys/user/{limit.replace('user', 'inotify')}")
    (running.photos / "a.txt").write_bytes(b"a")
    running.until_verified(1, 30)
    said = running.events("no folder can be watched; the tree is scanned every minute instead")
    assert [event["level"] for event in said] == [level]
    assert said[0]["fix"].startswith(f"sysctl fs.inotify.{limit}=")
    assert running.events("running")[0]["watch"] == "polling"
    with urllib.request.urlopen(f"{running.address()}/metrics", timeout=10) as answer:
        assert b'assetsync_watch_polling{site="d"} 1.0' in answer.read()
    assert running.stop() == 0


def test_missing_canary_folder_stops_nothing(make):
    running = make(schedule="{index: off, verify: 1s, rescan: 1h}")
    Path(f"{running.ledger}.canary").write_bytes(b"no folder")
    running.start()
    running.until(lambda: running.events("restarting the watcher"))
    (running.photos / "a.txt").write_bytes(b"a")
    running.until_verified(1, 30)
    time.sleep(2)
    assert len(running.events("restarting the watcher")) == 1
    assert running.stop() == 0


_ENDS_ITS_THREAD = """
from watchdog.observers.inotify_c import InotifyFD
read = InotifyFD.read_events
def read_events(self):
    events = read(self)
    if any(event.name == b"ends-it.part" for event in events):
        raise KeyError("a wrong record")
    return events
InotifyFD.read_events = read_events
"""


def test_ended_watcher_is_replaced_at_once(make):
    running = make(schedule="{index: off, verify: 1s, rescan: 1h}").start(broken=_ENDS_ITS_THREAD)
    running.until(lambda: running.events("scanned"))
    (running.photos / "unseen.txt").write_bytes(b"unseen")
    (running.photos / "ends-it.part").write_bytes(b"")
    running.until(lambda: running.events("restarting the watcher"), 30)
    running.until_verified(1, 30)
    (running.photos / "seen.txt").write_bytes(b"seen by the new one")
    running.until_verified(2, 30)
    assert len(running.events("restarting the watcher")) == 1
    assert running.stop() == 0


_TWO_LIMITS = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({}, {}))"


def test_soft_limit_of_files_is_raised(make):
    running = make().start(broken=_TWO_LIMITS.format(64, 512))
    limits = Path(f"/proc/{running.process.pid}/limits").read_text()
    assert [line.split()[3:5] for line in limits.splitlines() if line.startswith("Max open files")] == [["512", "512"]]
    assert running.stop() == 0


def test_few_descriptors_block_no_file(make, sandbox):
    running = make(upload="{workers: 32, doubt_grace: 2s, lookup_lag: 0s}")
    for number in range(100):
        (running.photos / f"{number}.txt").write_bytes(b"%d" % number)
    running.start(broken=_TWO_LIMITS.format(44, 44))
    running.until_verified(100, 100)
    paused = running.events("sending paused")
    assert {event["reason"] for event in paused} == {"out_of_resources"}
    running.until(lambda: running.events("sending resumed"))
    assert not running.events("blocked", "waiting for the ledger")
    assert len(sandbox.assets()) == 100
    assert running.stop() == 0


def heaps_of(pid: int) -> int:
    """Count the heaps that the C library made for threads: each begins at a multiple of 64 MiB and has no name."""
    maps = map(str.split, Path(f"/proc/{pid}/maps").read_text().splitlines())
    starts = (int(words[0].partition("-")[0], 16) for words in maps if len(words) == 5)
    return sum(start % (64 * 2**20) == 0 for start in starts)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read the map of a process that holds a key")
def test_threads_share_few_heaps(make):
    # A loaded process would have the heaps of the one from which it was forked.
    running = make(upload="{workers: 8}").start(loaded=False)
    for turn in range(4):
        for number in range(8):
            (running.photos / f"{turn}-{number}.bin").write_bytes(os.urandom(9 * 2**20))
        running.until_verified(8 * (turn + 1), 100)
    assert heaps_of(running.process.pid) <= 3
    assert running.stop() == 0


# More than the log grows to before it begins anew.
_MOUNT = "mount -t tmpfs -o size=24m ledger {}"


def on_a_disk_of_its_own(make):
    """Make a daemon whose ledger lies where a disk is to be mounted; gives that folder too."""
    running = make()
    disk = running.folder / "disk"
    disk.mkdir()
    running.ledger = disk / "d.db"
    running.write_config()
    return running, disk


def test_full_ledger_disk_loses_nothing(make, sandbox):
    """Fill the disk under a running daemon: its loops wait, `status` shows why, and each file is sent once later."""
    running, disk = on_a_disk_of_its_own(make)
    running.start(within=_MOUNT.format(disk))
    (running.photos / "before.txt").write_bytes(b"before")
    running.until(lambda: _states(running) == {"verified": 1})
    running.beside("sh", "-c", f"dd if=/dev/zero of={disk}/filler bs=4096 || test -s {disk}/filler")
    for number in range(200):
        (running.photos / f"{number}.txt").write_bytes(b"%d" % number)
    running.until(lambda: running.events("waiting for the ledger"))
    said = _status(running)
    assert (said["in_sync"], said["level"]) == (False, "needs_you")
    assert "ledger disk full" in said["verdict"]
    (running.photos / "meanwhile.txt").write_bytes(b"meanwhile")
    running.beside("rm", f"{disk}/filler")
    running.until(lambda: _states(running) == {"verified": 202}, 120)
    began = [event["loop"] for event in running.events("waiting for the ledger")]
    assert len(began) == len(set(began))
    # Who waits for five seconds may find that others have done its work.
    again = lambda: [event["loop"] for event in running.events("the ledger can be used again")]  # noqa: E731
    running.until(lambda: sorted(again()) == sorted(began))
    assert len(sandbox.assets()) == len({asset.md5 for asset in sandbox.assets()}) == 202
    assert running.stop() == 0


def test_full_disk_at_start_is_waited_for(make, sandbox):
    running, disk = on_a_disk_of_its_own(make)
    fill = f"dd if=/dev/zero of={disk}/filler bs=4096 2>/dev/null || test -s {disk}/filler"
    running.start(within=f"{_MOUNT.format(disk)}; {fill}", ready=False)
    (running.photos / "a.txt").write_bytes(b"a")
    running.until(lambda: running.events("waiting for the ledger"))
    time.sleep(5)
    assert len(running.events("waiting for the ledger")) == 1
    running.beside("rm", f"{disk}/filler")
    running.until(lambda: running.events("running"))
    running.until(lambda: _states(running) == {"verified": 1})
    assert len(sandbox.assets()) == 1
    assert running.stop() == 0


def _states(running) -> dict[str, int]:
    return _status(running)["states"]


def _status(running) -> dict:
    said = running.beside(sys.executable, "-m", "assetsync", "status", "--json", "--config", str(running.config))
    return json.loads(said)

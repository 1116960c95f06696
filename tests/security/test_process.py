"""What other processes, a crash and a dump can learn of the key that a process holds.

Covers `config/key.py`.
"""

import ctypes
import os
import resource
import subprocess
import sys
import time
import traceback
from pathlib import Path

import pytest

from assetsync.config.key import keep_from_dumps

KEY = "c4nary-k3y-0f-a-process"
NOBODY = 65534
PR_GET_DUMPABLE, PR_SET_DUMPABLE = 3, 4

# A process as `assetsync` begins it, with a step of one thread that fails as nobody foresaw, the key in its words.
CRASHING = """
import sys
import assetsync.sync.upload.uploader
from assetsync.cli import main

def run(self, *given):
    try:
        raise ValueError("first " + {key!r})
    except ValueError as error:
        raise RuntimeError("then " + {key!r}, {key!r}.encode()) from error

assetsync.sync.upload.uploader.Uploader.run = run
sys.exit(main())
"""


def in_child(work) -> str:
    """Do something in a fork of this process, and give what it says."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, str(work()).encode())
        except BaseException:  # noqa: BLE001 - told to the parent
            os.write(writing, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(pid, 0)
    return said


def what_a_sibling_reads(*, kept: bool) -> str:
    def holder():
        if os.geteuid() == 0:
            os.setuid(NOBODY)
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        if kept:
            keep_from_dumps()
        place = Path(f"/proc/{os.getpid()}")

        def sibling():
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
            seen = []
            for name in ("environ", "mem", "maps"):
                try:
                    with (place / name).open("rb"):
                        seen.append(name)
                except PermissionError:
                    continue
            return seen

        return in_child(sibling)

    return in_child(holder)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_other_process_cannot_read_its_memory():
    assert what_a_sibling_reads(kept=False) == "['environ', 'mem', 'maps']"
    assert what_a_sibling_reads(kept=True) == "[]"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_process_can_read_its_watch_data():
    def look():
        if os.geteuid() == 0:
            os.setuid(NOBODY)
        keep_from_dumps()
        return [bool(os.listdir("/proc/self/fdinfo")), bool(Path("/proc/self/mountinfo").read_text())]

    assert in_child(look) == "[True, True]"


def test_it_leaves_no_core_behind():
    def limits():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
        keep_from_dumps()
        return [resource.getrlimit(resource.RLIMIT_CORE)[0], ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)]

    assert in_child(limits) == "[0, 0]"


@pytest.mark.parametrize("command", [["run"], ["reconcile", "--wait", "0s"]], ids=["run", "reconcile"])
def test_key_holder_has_core_limit_zero(hostile, make_site, tools, command):
    server = hostile(lambda request: tools.rows() if request.kind == "search" else None)
    site = make_site(server)
    site.write("a.jpg")
    process = site.start(*command)
    try:
        deadline = time.monotonic() + 20
        while not server.requests:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        limits = Path(f"/proc/{process.pid}/limits").read_text()
    finally:
        server.over.set()
        process.terminate()
        process.communicate(timeout=40)
    (core,) = [line for line in limits.splitlines() if line.startswith("Max core file size")]
    assert core.split()[4] == "0"


@pytest.mark.parametrize("command", [["run"], ["reconcile", "--wait", "0s"]], ids=["run", "reconcile"])
def test_thread_crash_report_omits_the_key(hostile, make_site, obliging, command):
    site = make_site(hostile(obliging))
    site.configure(key=KEY)
    site.write("a.jpg")
    words = [sys.executable, "-c", CRASHING.format(key=KEY), *command, "--config", str(site.config)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 70
    assert "RuntimeError" in done.stderr
    assert "[key]" in done.stderr
    assert KEY not in done.stdout + done.stderr
    held = {path.name: path.read_bytes() for path in site.folder.iterdir() if path.is_file() and path.name != "key"}
    assert "site.db" in held
    assert [name for name, data in held.items() if KEY.encode() in data] == []


def test_environment_key_reaches_no_program(hostile, make_site, obliging, tmp_path):
    site = make_site(hostile(obliging))
    told = tmp_path / "told"
    text = site.config.read_text().replace(f", api_key_file: {site.key_file}", "")
    site.config.write_text(text + f"notify: {{command: [sh, -c, 'cat > {told}; env >> {told}']}}\n")
    site.write("empty.jpg", b"")
    words = [sys.executable, "-m", "assetsync", "reconcile", "--wait", "0s", "--config", str(site.config)]
    environ = {**os.environ, "ASSETSYNC_API_KEY": KEY}
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=environ)
    assert done.returncode == 1, done.stderr
    assert "ASSETSYNC_EVENT=blocked" in told.read_text()
    assert KEY not in told.read_text()

"""Each mistake is one clear sentence with the right exit code, and costs no other file its upload."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from .dialect import DOCUMENTED, OBSERVED, Dialect
from .mirror import Mirror

WITHOUT_CAPABILITIES = """\
import ctypes, os, sys
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
for capability in CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH:
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""A program that runs another, given as its arguments, without root's right to read what is closed."""


def refused(mirror: Mirror) -> str:
    """Reconcile against a mistake of the configuration; give the one sentence on stderr."""
    done = mirror.run("reconcile", "--json", "--wait", "0s")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert mirror.service.posts == []
    return done.stderr


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("folders:", "folders: [", ["hq.yaml, line 9", "not YAML"]),
        ("watch: {settle: 0s}", "wach: {settle: 0s}", ["line 10: wach", "`watch`"]),
        ("settle: 0s", "settel: 0s", ["line 10: watch.settel", "`settle`"]),
        ("settle: 0s", "settle: soon", ["line 10", "watch.settle", "duration"]),
        ("site: hq", "site: hq\nsite: hq", ["site", "line 2"]),
    ],
    ids=["bad yaml", "unknown section", "unknown key", "bad value", "key twice"],
)
def test_configuration_mistake_is_named(
    make_mirror: Callable[..., Mirror], old: str, new: str, said: list[str]
) -> None:
    mirror = make_mirror(OBSERVED)
    mirror.write("a.txt", "a")
    mirror.config.write_text(mirror.config.read_text().replace(old, new, 1))
    message = refused(mirror)
    assert [part for part in said if part not in message] == [], message
    assert not (mirror.base / "hq.db").exists()


def test_configuration_mistakes_are_all_listed(make_mirror: Callable[..., Mirror]) -> None:
    mirror = make_mirror(OBSERVED)
    text = mirror.config.read_text()
    mirror.config.write_text(text.replace("settle: 0s", "settel: 0s").replace("index:", "indx:"))
    message = refused(mirror)
    assert "settel" in message
    assert "indx" in message


def test_missing_root_of_new_site_exits_2(make_mirror: Callable[..., Mirror]) -> None:
    mirror = make_mirror(OBSERVED)
    mirror.root.rmdir()
    assert str(mirror.root) in refused(mirror)


def one_blocked(mirror: Mirror, path: str, *parts: str, wait: str) -> None:
    """Reconcile; assert that this path alone is blocked, with these parts in its reason, and all else is verified."""
    code, told = mirror.reconcile(wait=wait)
    files = mirror.files()
    assert (code, told["in_sync"], told["blocked"]) == (1, False, 1)
    assert {p: row["state"] for p, row in files.items() if row["state"] != "verified"} == {path: "blocked"}
    error = files[path]["error"]
    assert [part for part in parts if part not in error] == [], error
    assert "\n" not in error
    assert files[path]["assetid"] is None
    assert sorted(a.name for a in mirror.service.assets) == sorted(p.rpartition("/")[2] for p in files if p != path)


def test_a_bad_sidecar_blocks_its_file_alone(make_mirror: Callable[..., Mirror]) -> None:
    mirror = make_mirror(OBSERVED)
    for name in ("a", "b", "c"):
        mirror.write(f"{name}.txt", name)
    mirror.write("b.txt.yaml", "description: fine\nkeyword: [x]\n")
    one_blocked(mirror, "b.txt", "b.txt.yaml", "line 2", "keyword", wait="2s")
    mirror.write("b.txt.yaml", "description: fine\nkeywords: [x]\n")
    assert mirror.reconcile()[0] == 0
    assert sorted(asset.name for asset in mirror.service.assets) == ["a.txt", "b.txt", "c.txt"]


def test_empty_file_is_blocked_until_filled(make_mirror: Callable[..., Mirror]) -> None:
    mirror = make_mirror(OBSERVED)
    mirror.write("full.txt", "full")
    mirror.write("empty.txt", "")
    one_blocked(mirror, "empty.txt", "empty", wait="2s")
    assert mirror.service.posts == ["full.txt"]
    mirror.write("empty.txt", "content")
    assert mirror.reconcile()[0] == 0
    assert mirror.service.posts == ["full.txt", "empty.txt"]


@pytest.mark.parametrize(
    ("dialect", "early"), [(OBSERVED, True), (DOCUMENTED, False)], ids=["before the body came", "after the body came"]
)
def test_oversized_file_is_blocked_as_10001(make_mirror: Callable[..., Mirror], dialect: Dialect, early: bool) -> None:
    mirror = make_mirror(replace(dialect, largest=100_000, refuses_early=early))
    mirror.write("big.jpg", os.urandom(300_000))
    mirror.write("small.jpg", "small")
    one_blocked(mirror, "big.jpg", "10001", wait="8s")
    assert mirror.service.posts.count("big.jpg") <= 1


def test_refused_key_exits_3_without_loss(make_mirror: Callable[..., Mirror]) -> None:
    mirror = make_mirror(OBSERVED)
    for name in ("a.txt", "b.txt"):
        mirror.write(name, name)
    right = mirror.key.read_text()
    mirror.key.write_text("DEADBEEFDEADBEEF\n")
    done = mirror.run("reconcile", "--json", "--wait", "1s")
    assert done.returncode == 3
    assert "the service refuses the API key" in done.stderr
    assert "DEADBEEF" not in done.stdout + done.stderr
    assert mirror.service.assets == []
    mirror.key.write_text(right)
    code, told = mirror.reconcile()
    assert (code, told["uploaded"], told["verified"]) == (0, 2, 2)


def test_absent_service_exits_3_without_loss(make_mirror: Callable[..., Mirror]) -> None:
    mirror = make_mirror(OBSERVED)
    mirror.write("a.txt", "a")
    text = mirror.config.read_text()
    mirror.config.write_text(text.replace(mirror.service.base_url, "http://127.0.0.1:9/razuna"))
    done = mirror.run("reconcile", "--json", "--wait", "1s")
    assert done.returncode == 3
    assert "127.0.0.1:9 could not be connected to" in done.stderr
    mirror.config.write_text(text)
    assert mirror.reconcile()[0] == 0
    assert mirror.service.posts == ["a.txt"]


def test_unknown_folder_holds_only_its_mapping(make_mirror: Callable[..., Mirror]) -> None:
    mirror = make_mirror(OBSERVED, {"right": "0123", "wrong": "9999"})
    for number in range(6):
        mirror.write(f"right/{number}.txt", f"right {number}")
        mirror.write(f"wrong/{number}.txt", f"wrong {number}")
    code, told = mirror.reconcile(wait="2s")
    files = mirror.files()
    assert (code, told["in_sync"], told["verified"]) == (1, False, 6)
    assert {row["state"] for path, row in files.items() if path.startswith("right/")} == {"verified"}
    assert [row["error"] for row in files.values() if "9999" in (row["error"] or "")] != []
    assert len(mirror.service.posts) < 12
    mirror.config.write_text(mirror.config.read_text().replace("9999", "5D0E5B1C9AB24E6F8E1F0A2B3C4D5E6F"))
    code, told = mirror.reconcile()
    assert (code, told["verified"]) == (0, 12)


def test_an_unreadable_file_is_blocked_alone(make_mirror: Callable[..., Mirror]) -> None:
    mirror = make_mirror(OBSERVED)
    mirror.write("open.txt", "open")
    mirror.write("closed.txt", "closed").chmod(0)
    # root may read everything as long as it has these two capabilities.
    mirror.through = [sys.executable, "-c", WITHOUT_CAPABILITIES] if os.geteuid() == 0 else []
    probe = subprocess.run(
        [*mirror.through, sys.executable, "-c", "import sys; open(sys.argv[1])", str(mirror.root / "closed.txt")],
        check=False,
        capture_output=True,
        text=True,
    )
    if "PermissionError" not in probe.stderr:
        pytest.skip("this user may read everything here, and cannot give that up")
    one_blocked(mirror, "closed.txt", "cannot be read", "Permission denied", wait="2s")
    (mirror.root / "closed.txt").chmod(0o644)
    assert mirror.reconcile()[0] == 0

"""What people see on a terminal: colours, lines that fit, lists that end. Pipes and files get none of it.

Covers `cli/output.py`.
"""

import contextlib
import os
import pty
import termios

import click
import pytest

from assetsync.cli.output import LISTED
from assetsync.sandbox import FaultKind, FaultRule, Operation
from tests.forks import Forked

from .conftest import PHOTOS

RED, YELLOW, GREEN = "\x1b[31m", "\x1b[33m", "\x1b[32m"
LONG = "2026/harbour-festival/evening-lights/IMG_20260501_1234"
"""With the mapping and a number, a path of 60 characters and a few."""


def on_terminal(site, command, *arguments, columns=80, **environ):
    """Run a command on a terminal of this width, and return what it shows there."""
    main, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (40, columns))
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "TERM")}
    environ = {**inherited, "TERM": "xterm", "ASSETSYNC_CONFIG": str(site.config), **environ}
    with open(os.devnull, "wb") as nothing:
        words = [*command.split(), "--config", str(site.config), *arguments]
        process = Forked(words, stdout=terminal, stderr=nothing, env=environ)
    os.close(terminal)
    shown = b""
    # Reading fails once the terminal is closed at its other end.
    with contextlib.suppress(OSError):
        while part := os.read(main, 65536):
            shown += part
    os.close(main)
    assert process.wait(30) in (0, 1, 2, 3)
    return shown.decode().replace("\r\n", "\n")


def lose(site, pattern):
    with site.sandbox._stored._transaction() as service:
        service.execute("DELETE FROM assets WHERE filename LIKE ?", (pattern,))


@pytest.fixture
def mixed(site):
    """A site with two files in each of the lists, all of long paths."""
    for number in range(6):
        site.write(f"{LONG}{number}.jpg", b"%d" % number)
    site.run("reconcile", "--wait", "0s")
    site.write(f"{LONG}0.jpg", b"another")
    (site.photos / f"{LONG}1.jpg").unlink()
    for number in (2, 3):
        site.write(f"{LONG}{number}.jpg.yaml", b"keywords: [harbour]\n")
    site.run("reconcile", "--wait", "0s")
    lose(site, "%4.jpg")
    lose(site, "%5.jpg")
    site.run("audit")
    site.sandbox.set_faults(
        # Both uploads begin before the first is lost.
        FaultRule(kind=FaultKind.LATENCY, operation=Operation.UPLOAD, seconds=1),
        FaultRule(kind=FaultKind.ANSWER_LOST, operation=Operation.UPLOAD),
        FaultRule(kind=FaultKind.STATUS, operation=Operation.SEARCH),
    )
    for number in (6, 7):
        site.write(f"{LONG}{number}.jpg", b"%d in doubt" % number)
    site.run("reconcile", "--wait", "0s")
    return site


@pytest.fixture
def crowded(site):
    """A site with more blocked files than a list shows on a terminal."""
    for number in range(LISTED + 3):
        site.write(f"{number:02}.jpg", b"")
    site.run("reconcile", "--wait", "0s")
    return site


def test_status_colours_the_words_that_matter(site):
    site.write("a.jpg")
    site.run("reconcile")
    assert f"hq: {GREEN}in sync at the last scan" in on_terminal(site, "status")
    site.write("empty.jpg", b"")
    site.run("reconcile")
    shown = on_terminal(site, "status")
    assert shown.startswith(f"hq: {RED}1 of 2 verified, 1 needs you.\x1b[0m\n")
    assert f"\n{RED}blocked\x1b[0m: photos/empty.jpg: " in shown
    site.run("reconcile", "--wait", "0s")
    assert shown.count("\x1b[3") == 2


def test_work_under_way_is_yellow(site):
    site.nowhere()
    site.write("a.jpg")
    site.run("reconcile", "--wait", "0s")
    assert on_terminal(site, "status").startswith(f"hq: {YELLOW}")


def test_check_colours_the_level(site):
    site.key_file.chmod(0o644)
    shown = on_terminal(site, "check")
    assert f"{GREEN}ok     \x1b[0m  configuration: " in shown
    assert f"{YELLOW}warning\x1b[0m  key: " in shown
    site.nowhere()
    assert f"{RED}error  \x1b[0m  service: " in on_terminal(site, "check")


def test_audit_colours_what_differs(site):
    site.write("a.jpg")
    site.write("b.jpg", b"other")
    site.run("reconcile")
    assert on_terminal(site, "audit").endswith(f"hq: {GREEN}nothing differs\x1b[0m\n")
    lose(site, "a.jpg")
    site.upload_unseen(site.photos / "b.jpg")
    shown = on_terminal(site, "audit")
    assert f"\n{RED}missing  \x1b[0m  " in shown
    assert f"\n{YELLOW}doubled  \x1b[0m  " in shown
    assert shown.endswith(f"hq: {YELLOW}1 doubled\x1b[0m, {RED}1 missing\x1b[0m\n")


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
@pytest.mark.parametrize("command", ["status", "check", "audit --last"])
def test_unwanted_colour_is_left_out(site, command, environ):
    site.write("empty.jpg", b"")
    site.run("reconcile", "--wait", "0s")
    assert "\x1b" not in on_terminal(site, command, **environ)
    assert "\x1b" in on_terminal(site, command, NO_COLOR="") or command == "audit --last"


@pytest.mark.parametrize("command", ["status", "check", "audit --last"])
def test_json_and_pipes_carry_no_colour(site, command):
    site.write("empty.jpg", b"")
    site.run("reconcile", "--wait", "0s")
    assert "\x1b" not in on_terminal(site, command, "--json")
    assert "\x1b" not in site.run(command).out


@pytest.mark.parametrize(
    "command",
    [
        "files --state verified",
        "orphans --all",
        "audit --last --summary",
        "doubt list",
        "drift list",
        f"explain photos/{LONG}2.jpg",
        f"explain photos/{LONG}6.jpg",
    ],
)
def test_lines_fit_eighty_columns(mixed, command):
    shown = on_terminal(mixed, command)
    assert f"photos/{LONG}" in shown or "--summary" in command
    lines = click.unstyle(shown).splitlines()
    # A long sentence is broken by the terminal alone: a command in it can be copied.
    assert [line for line in lines if len(line) > 80 and ("photos/" in line or PHOTOS in line)] == []
    # On a pipe, each of these is a line of fixed columns.
    assert len(mixed.run(command).out.splitlines()) < len(lines) or "--summary" in command


def test_path_too_long_is_not_cut(site):
    path = f"photos/{'folder with spaces, and more/' * 6}a b.jpg"
    site.write(path.removeprefix("photos/"))
    site.run("reconcile")
    assert f"\n    {path}\n" in on_terminal(site, "files")
    wide = on_terminal(site, "files", columns=300)
    assert wide == site.run("files").out


def test_wide_characters_count_twice(site):
    site.write("東京" * 9 + ".jpg")
    site.run("reconcile")
    assert len(on_terminal(site, "files", columns=86).splitlines()) == 2
    assert len(on_terminal(site, "files", columns=100).splitlines()) == 1


def test_audit_shows_only_counts_that_matter(mixed):
    folder, counts = on_terminal(mixed, "audit --last --summary").splitlines()[:2]
    assert folder.startswith(f"folder {PHOTOS}, audited 2")
    assert "2 missing" in counts
    assert "elsewhere" not in counts
    assert "elsewhere" in mixed.run("audit --last").out.splitlines()[0]


def test_summary_has_counts_and_no_findings(mixed):
    whole, summary = mixed.run("audit --last"), mixed.run("audit --last --summary")
    head, last = whole.out.splitlines()[:2], whole.out.splitlines()[-1]
    assert summary.out.splitlines() == [*head, "", last]
    assert (summary.code, len(whole.out.splitlines()) > 5) == (whole.code, True)


def test_terminal_list_names_the_rest(crowded):
    shown = on_terminal(crowded, "files").splitlines()
    assert shown[-1] == "and more: --limit 0 lists all"
    assert sum("photos/" in line for line in shown) == LISTED
    assert sum("photos/" in line for line in on_terminal(crowded, "files --limit 0").splitlines()) == LISTED + 3


def test_pipe_and_json_get_the_whole_list(crowded):
    assert len(crowded.run("files").out.splitlines()) == LISTED + 3
    assert len(crowded.run("files --json --limit 2").objects) == LISTED + 3
    assert len(on_terminal(crowded, "files --json").splitlines()) == LISTED + 3


@pytest.mark.parametrize("command", ["files", "orphans --all", "audit --last", "doubt list", "drift list"])
def test_limit_applies_to_every_list(mixed, command):
    total = sum("path" in one for one in mixed.run(f"{command} --json").objects)
    assert total > 1, f"{total} lines"
    shown = mixed.run(f"{command} --limit 1").out
    assert "\nand more: --limit 0 lists all\n" in shown
    assert sum(f"photos/{LONG}" in line for line in shown.splitlines()) == 1

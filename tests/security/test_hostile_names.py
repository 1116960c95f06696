"""Names of files are chosen by whoever can write into the tree: no output of any command does what they say."""

import csv
import io
import json
import os
import re

import pytest

from assetsync.cli.output import csv_cell
from assetsync.text import ACTIVE

NAMES = (
    b"\x1b]0;owned\x07\x1b[2J\x1b[31mred.jpg",
    b"line\nbreak: in sync, 0 files verified.jpg",
    b"carriage\rreturn.jpg",
    "turned\u202egpj.exe".encode(),
    "isolated\u2066x\u2069.jpg".encode(),
    "separated\u2028x.jpg".encode(),
    b"\x9b31m-one-byte-of-control.jpg",
    b"not \xff\xfe UTF-8.jpg",
    b"=cmd|'/c calc'!A1",
    b"+1+1",
    b"-1",
    b"@SUM(A1)",
    b"a;=1+1;b.jpg",
    b"\t=1+1",
    b'"quoted", and \\ back.jpg',
    b"--config",
    b"%22%0d%0aX-Header: y.jpg",
    "\U0001f600 emoji.jpg".encode(),
    b"\x7f\x01\x02.jpg",
    b"n" * 255,
    ("ü" * 127).encode(),
    b"' OR 1=1; DROP TABLE files; --.jpg",
    b"<script>alert(1)</script>".replace(b"/", b""),
    b"$(touch owned)`touch owned`.jpg",
    b" . .",
    b" ",
)
COMMANDS = (
    ("status",),
    ("status", "--json"),
    ("files",),
    ("files", "--json"),
    ("files", "--all"),
    ("files", "--state", "blocked"),
    ("orphans",),
    ("orphans", "--json"),
    ("doubt list",),
    ("doubt list", "--json"),
    ("export", "--format", "csv"),
    ("export", "--format", "jsonl"),
    ("check",),
    ("check", "--json"),
    ("reconcile", "--dry-run"),
)


@pytest.fixture
def site(hostile, make_site, obliging):
    server = hostile(obliging)
    made = make_site(server)
    made.server = server
    return made


def test_each_hostile_name_is_sent_once(site):
    for number, name in enumerate(NAMES):
        site.write(name, b"content %d" % number)
    result = site.run("reconcile", "--wait", "0s")
    assert result.code in (0, 1)
    sent = [re.search(rb'name="filedata"; filename="([^\r\n]*)"\r\n', post.body)[1] for post in site.server.posts]
    assert len(sent) == len(NAMES)
    for name in sent:
        assert not ACTIVE.search(re.sub("[\u202e\u2066\u2069]", "", name.decode()))
        assert b'"' not in name
        assert b"/" not in name
        assert 0 < len(name.decode()) <= 240
        assert all(ord(character) < 0x10000 for character in name.decode())


@pytest.mark.parametrize("states", ["sent", "blocked", "in doubt"])
def test_output_holds_no_terminal_control(hostile, make_site, obliging, tools, states):
    def answer(request):
        if states == "in doubt" and request.kind == "upload":
            return b""
        return obliging(request)

    site = make_site(hostile(answer))
    for number, name in enumerate(NAMES):
        site.write(name, b"" if states == "blocked" else b"content %d" % number)
    site.run("reconcile", "--wait", "0s")
    for command, *arguments in COMMANDS:
        site.run(command, *arguments)
    for name in NAMES:
        if not name.startswith(b"-"):
            site.run("explain", os.fsdecode(b"photos/" + name))
    assert ACTIVE.sub("", site.shown.replace("\n", "")) == site.shown.replace("\n", "")


def test_no_name_makes_a_line_of_its_own(site):
    for number, name in enumerate(NAMES):
        site.write(name, b"content %d" % number)
    site.run("reconcile", "--wait", "0s")
    assert len(site.run("files").out.splitlines()) == len(NAMES)
    lines = [json.loads(line) for line in site.run("files", "--json").out.splitlines()]
    assert len(lines) == len(NAMES)
    assert len(site.run("export", "--format", "csv").out.splitlines()) == len(NAMES) + 1


def test_log_line_is_one_object_for_any_name(site):
    for number, name in enumerate(NAMES):
        site.write(name, b"content %d" % number)
    err = site.run("reconcile", "--wait", "0s").err
    events = [json.loads(line) for line in err.splitlines()]
    assert sum(event["event"] == "uploaded" for event in events) == len(NAMES)


def test_export_holds_no_active_formula(site):
    for number, name in enumerate(NAMES):
        # `photos/` stands before every path: the name by itself is what another mapping would show.
        site.write(name, b"content %d" % number)
    site.run("reconcile", "--wait", "0s")
    table = site.run("export", "--format", "csv").out
    for row in csv.reader(io.StringIO(table)):
        assert not any(cell.lstrip(" \"'").startswith(("=", "+", "@")) for cell in row)
    for line in table.splitlines():
        # As a spreadsheet reads it whose list separator is the semicolon.
        assert not any(re.match("[ \"']*[=+@]", cell) for cell in line.split(";")[1:])


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", " =1", "\t=1", "\r=1", "\uff1d1", "\uff201"])
def test_formula_cell_is_made_text(text):
    assert csv_cell(text).startswith("'")


@pytest.mark.parametrize("text", ["a;=1", "a;+1", "a; -1", 'a;"=1', "a;@x"])
def test_nested_cell_starts_no_formula(text):
    assert ";" not in csv_cell(text)


def test_a_plain_cell_stays_as_it_is():
    assert csv_cell("photos/a;b = c + d.jpg") == "photos/a;b = c + d.jpg"


def test_names_in_error_messages_are_inert(site):
    bad = "\x1b]0;owned\x07"
    for command, *arguments in (("explain", bad), ("retry", bad), ("files", f"-{bad}"), (bad,), ("upload", bad)):
        site.run(command, *arguments)
    site.config = site.folder / bad
    site.run("check")
    site.run("status")
    assert not ACTIVE.search(site.shown.replace("\n", ""))

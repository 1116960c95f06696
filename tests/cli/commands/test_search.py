"""`assetsync search` and `index`: the search operations by hand.

Covers `cli/commands/index.py`.
"""

import csv
import io
import os
import pty
import subprocess
import sys

import pytest

from assetsync.cli.commands.search import _write_as_it_comes, pages
from assetsync.model import Asset, SearchRequest
from assetsync.sandbox import FaultKind, FaultRule

PHOTOS = "A6CE649FAA5F434EB513CA15656AB5AA"


@pytest.fixture
def filled(site):
    for number in range(5):
        site.write(f"harbour{number}.txt", b"%d" % number * 10)
    assert site.run("reconcile").code == 0
    site.ledger.unlink()
    return site


def test_needs_no_ledger_and_makes_none(filled):
    before = filled.left_behind()
    result = filled.run("search", "harbour*")
    assert result.code == 0
    assert len(result.out.splitlines()) == 5
    assert filled.left_behind() == before


def test_json_has_one_asset_per_line(filled):
    found = filled.run("search", "harbour*", "--json").objects
    assert {row["filename"] for row in found} == {f"harbour{number}.txt" for number in range(5)}
    assert all({"id", "folder_id", "md5hash", "kind"} <= set(row) for row in found)


def test_csv_has_a_head_and_one_asset_a_line(filled):
    rows = list(csv.DictReader(io.StringIO(filled.run("search", "harbour*", "--csv").out)))
    assert len(rows) == 5
    assert {row["folder_id"] for row in rows} == {PHOTOS}


@pytest.mark.parametrize("more", [(), ("--all-pages",), ("--wire", "column"), ("--wire", "jsonp"), ("--wire", "wddx")])
def test_csv_has_header_without_results(filled, more):
    head = filled.run("search", "harbour*", "--csv", *more).out.splitlines()[0]
    result = filled.run("search", "zebra", "--csv", *more)
    assert (result.code, result.out) == (0, f"{head}\n")


def test_nothing_found_is_exit_0(filled):
    assert (filled.run("search", "zebra").code, filled.run("search", "zebra", "--json").out) == (0, "")


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (("--maxrows", "2"), 2),
        (("--show", "img"), 0),
        (("--show", "doc", "--doctype", "other"), 5),
        (("--folderid", PHOTOS), 5),
        (("--folderid", "0123456789ABCDEF0123456789ABCDEF"), 0),
        (("--sortby", "sizeasc", "--startrow", "4"), 2),
        (("--available", "1", "--showrenditions", "false"), 5),
        (("--datecreaterange", "20000101 TO 20991231"), 5),
        (("--datechange", "2000-01-01"), 0),
    ],
)
def test_every_parameter_has_its_option(filled, options, count):
    result = filled.run("search", "harbour*", "--json", *options)
    assert (result.code, len(result.objects)) == (0, count)


def test_dbdirect_matches_names_and_dates(filled):
    options = ("--dbdirect", "--datecreateparam", "between", "--datecreatestart", "2000-01-01 00:00:00")
    result = filled.run("search", "%3.txt", "--json", *options, "--datecreatestop", "2099-01-01 00:00:00")
    assert [row["filename"] for row in result.objects] == ["harbour3.txt"]


@pytest.mark.parametrize(
    "options",
    [
        ("--show", "nothing"),
        ("--datecreateparam", ">"),
        ("--dbdirect", "--show", "img"),
        ("--maxrows", "many"),
        ("--wire", "xml"),
        ("--json", "--csv"),
        ("--wire", "row", "--all-pages"),
        ("--callback", "show"),
        ("--callback", "show", "--wire", "jsonp", "--json"),
        ("--callback", "a b", "--wire", "jsonp"),
    ],
)
def test_invalid_parameters_are_exit_2(filled, options):
    result = filled.run("search", "harbour*", *options)
    assert (result.code, result.out) == (2, "")


@pytest.mark.parametrize("day", ["2026-13-45", "20261345"])
def test_invalid_date_is_quoted_as_typed(filled, day):
    result = filled.run("search", "harbour*", "--datecreate", day)
    hint = "write an existing date as yyyy-mm-dd or yyyymmdd"
    assert (result.code, result.err) == (2, f"Error: --datecreate is '{day}': {hint}\n")


@pytest.mark.parametrize(
    ("wire", "begins"), [("row", '{"COLUMNS"'), ("column", '{"ROWCOUNT"'), ("jsonp", "cb("), ("wddx", "<wddxPacket")]
)
def test_wire_prints_the_answer_as_it_comes(filled, wire, begins):
    result = filled.run("search", "harbour*", "--wire", wire)
    assert result.code == 0
    assert result.out.strip().startswith(begins)


@pytest.mark.parametrize("more", [(), ("--dbdirect",)])
def test_all_pages_gives_every_asset_once(filled, more):
    term = "harbour%" if more else "harbour*"
    found = filled.run("search", term, "--all-pages", "--maxrows", "2", "--json", *more).objects
    assert sorted(row["filename"] for row in found) == [f"harbour{number}.txt" for number in range(5)]


def test_all_pages_begin_at_startrow(filled):
    options = ("--all-pages", "--sortby", "sizeasc", "--maxrows", "2", "--json")
    found = [row["id"] for row in filled.run("search", "harbour*", *options).objects]
    assert [row["id"] for row in filled.run("search", "harbour*", "--startrow", "3", *options).objects] == found[2:]


@pytest.mark.parametrize("how", [(), ("--json",), ("--csv",)])
def test_part_of_the_result_is_named(filled, how):
    first = filled.run("search", "harbour*", "--maxrows", "2", *how)
    second = filled.run("search", "harbour*", "--maxrows", "2", "--startrow", "3", *how)
    last = filled.run("search", "harbour*", "--maxrows", "2", "--startrow", "5", *how)
    whole = filled.run("search", "harbour*", *how)
    more = "--maxrows N prints more, --all-pages prints all\n"
    assert (first.err, second.err) == (f"2 of 5: {more}", f"3 to 4 of 5: {more}")
    assert (last.err, whole.err) == ("", "")


def test_ignored_maxrows_is_named(filled):
    ignored = filled.run("search", "harbour%", "--dbdirect", "--maxrows", "2", "--json")
    assert len(ignored.objects) == 5
    assert (
        ignored.err == "Warning: the service ignores --maxrows and --startrow with --dbdirect: these are all 5 rows\n"
    )
    assert filled.run("search", "harbour%", "--dbdirect", "--json").err == ""


def test_callback_is_in_the_answer(filled):
    assert filled.run("search", "harbour*", "--wire", "jsonp", "--callback", "show").out.strip().startswith("show(")


def test_wire_does_nothing_to_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    _write_as_it_comes(b'{"a": "\x1b[2J \xc2\x9b \xff"}\r\n<next/>\n')
    assert capsys.readouterr().out == '{"a": "\\x1b[2J \\x9b \ufffd"}\n<next/>\n'


class _Paged:
    """A service that answers with numbered assets, by rows or by numbers of pages."""

    def __init__(self, count: int, *, by_rows: bool) -> None:
        self._ids = [f"A{number}" for number in range(count)]
        self._by_rows = by_rows
        self.asked: list[int] = []

    def search(self, request):
        from contextlib import nullcontext

        self.asked.append(request.startrow)
        first = request.startrow - 1 if self._by_rows else (request.startrow - 1) * request.maxrows
        return nullcontext(iter([Asset(i, "F", i, 1, None, "doc") for i in self._ids[first : first + request.maxrows]]))


@pytest.mark.parametrize("by_rows", [True, False])
@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 35])
def test_paging_ends_in_either_startrow_mode(by_rows, count):
    service = _Paged(count, by_rows=by_rows)
    found = [asset.id for asset in pages(service.search, SearchRequest("x", maxrows=10))]
    assert found == [f"A{number}" for number in range(count)]
    assert len(service.asked) <= count // 10 + 3


def test_a_dead_port_is_exit_3(filled):
    filled.nowhere()
    result = filled.run("search", "harbour*")
    assert (result.code, result.out) == (3, "")
    assert "could not be connected to" in result.err


def test_a_wrong_key_is_exit_3(filled):
    filled.key_file.write_text("another-key")
    result = filled.run("search", "harbour*")
    assert result.code == 3
    assert "another-key" not in result.err


def test_a_page_of_html_is_exit_3(filled):
    filled.sandbox.set_faults(FaultRule(kind=FaultKind.HTML))
    assert filled.run("search", "harbour*").code == 3


class TestIndex:
    def test_gives_the_message_of_the_service(self, filled):
        (asset, *_) = filled.sandbox.assets()
        result = filled.run("index", asset.id, "--json")
        assert result.code == 0
        assert result.only == {"responsecode": "0", "message": "Indexing successfully triggered"}

    def test_index_all_in_script_warns_of_cost(self, filled):
        index = [sys.executable, "-m", "assetsync", "index", "all", "--config", str(filled.config)]
        done = subprocess.run(index, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
        assert (done.returncode, done.stdout) == (0, "Indexing successfully triggered\n")
        assert "rebuilds the whole index" in done.stderr

    @pytest.mark.parametrize(
        ("answer", "code", "out"), [(b"n\n", 130, ""), (b"y\n", 0, "Indexing successfully triggered\n")]
    )
    def test_all_wants_a_yes_on_a_terminal(self, filled, answer, code, out):
        index = [sys.executable, "-m", "assetsync", "index", "all", "--config", str(filled.config)]
        person, terminal = pty.openpty()
        os.write(person, answer)
        done = subprocess.run(index, check=False, stdin=terminal, capture_output=True, text=True, timeout=20)
        os.close(person)
        os.close(terminal)
        assert (done.returncode, done.stdout) == (code, out)
        assert "Go on? [y/N]" in done.stderr
        assert filled.run("index", "all", "--yes").code == 0

    @pytest.mark.parametrize("ids", [(), ("not an id",), ("all", "A1")])
    def test_what_is_no_id_is_exit_2(self, filled, ids):
        assert filled.run("index", "--yes", *ids).code == 2

    def test_a_wrong_key_is_exit_3(self, filled):
        filled.key_file.write_text("another-key")
        assert filled.run("index", "A1").code == 3


def test_closed_pipe_of_wire_is_no_error(filled):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "assetsync", "search", "--config", str(filled.config), "harbour*", "--wire", "row"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")

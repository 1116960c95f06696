"""`assetsync files`, `explain`, `orphans` and `export`: what they print of each file.

Covers `cli/commands/export.py`, `cli/commands/orphans.py`, `cli/path_state.py`, `status/file_sentences.py` and
`sync/upload/next_try.py`.
"""

import base64
import csv
import io
import os
import re
import shutil
import time
from datetime import UTC, datetime, timedelta
from unittest.mock import ANY

import pytest

from assetsync.cli import options
from assetsync.cli.commands.files import FILE_KEYS
from assetsync.cli.output import csv_cell
from assetsync.errors import FileUnreadable
from assetsync.ledger.runs import Pause
from assetsync.ledger.versions import NewVersion
from assetsync.sandbox import FaultKind, FaultRule, Operation
from assetsync.text import decoded, printable
from assetsync.tree.safe_open import Tree, facts
from tests.cli.conftest import PAPERS, Holder

PHOTOS = "A6CE649FAA5F434EB513CA15656AB5AA"
KEYS = ["path", "state", "assetid", "destfolderid", "size", "md5", "error", "attempts", "uploaded_at", "verified_at"]
RFC_3339_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_verified_file_has_documented_keys(site):
    """`files --json` prints exactly the keys of the guide, with times in UTC."""
    site.write("a.jpg", b"hello\n")
    site.run("reconcile")
    (row,) = site.run("files", "--json").objects
    assert set(row) == {*KEYS, "reason", "detail"}
    assert list(FILE_KEYS) == KEYS
    (asset,) = site.sandbox.assets()
    assert RFC_3339_UTC.fullmatch(row.pop("uploaded_at"))
    assert RFC_3339_UTC.fullmatch(row.pop("verified_at"))
    assert row == {
        "path": "photos/a.jpg",
        "state": "verified",
        "assetid": asset.id,
        "destfolderid": PHOTOS,
        "size": 6,
        "md5": "B1946AC92492D2347C6235B4D2611184",
        "reason": None,
        "detail": None,
        "error": None,
        "attempts": 1,
    }


def test_blocked_files_are_listed_by_reason(site):
    """--limit counts for each reason, and JSON keeps the order of the paths."""
    for name in ("a.jpg", "c.jpg"):
        site.write(name, b"")
    site.write("b.jpg")
    site.write("b.jpg.yaml", b"descripton: x\n")
    site.write("d.jpg", b"fine")
    site.run("reconcile", "--wait", "0s")
    lines = site.run("files", "--state", "blocked").out.splitlines()
    assert lines[0].startswith("2 empty file: fill it (it is then sent by itself), ")
    assert [re.search(r"photos/\w+\.jpg", line)[0] for line in lines[1:3]] == ["photos/a.jpg", "photos/c.jpg"]
    assert lines[3] == "1 sidecar: correct or delete the sidecar: assetsync then sends the file"
    assert "photos/b.jpg" in lines[4]
    assert len(lines) == 5
    cut = site.run("files", "--state", "blocked", "--limit", "1").out.splitlines()
    assert cut == [*lines[:2], "and more: --limit 0 lists all", *lines[3:]]
    assert site.run("files", "--state", "blocked", "--reason", "sidecar").out.splitlines() == lines[3:]
    rows = site.run("files", "--state", "blocked", "--json").objects
    assert [row["path"] for row in rows] == ["photos/a.jpg", "photos/b.jpg", "photos/c.jpg"]
    assert "no file matches" in site.run("files", "--state", "in_doubt").err


def test_blocked_file_has_reason_as_error(site):
    site.write("empty.jpg", b"")
    site.run("reconcile")
    (row,) = site.run("files", "--json").objects
    assert "empty" in row["error"]
    assert (row["reason"], row["detail"]) == ("empty_file", row["error"])
    assert [name for name in KEYS if row[name] is None] == ["assetid", "md5", "uploaded_at", "verified_at"]


def test_file_waiting_for_retry_has_reason(site):
    site.write("a.jpg")
    site.run("reconcile")
    site.write("b.jpg")
    site.configure(upload_url="http://127.0.0.1:9/index.cfm")
    site.run("reconcile", "--wait", "0s")
    fine, waiting = site.run("files", "--json").objects
    assert (fine["state"], fine["error"]) == ("verified", None)
    assert waiting["state"] == "queued"
    assert "nothing had been sent" in waiting["error"]


def test_a_file_whose_folder_is_held_says_so(site):
    site.configure(more="")
    site.config.write_text(site.config.read_text().replace(PHOTOS, "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"))
    site.write("a.jpg")
    site.write("b.jpg")
    site.run("reconcile", "--wait", "0s")
    errors = [str(row["error"]) for row in site.run("files", "--json").objects]
    assert all("destfolderid" in error for error in errors)
    assert site.run("status", "--json").only["holds"] != []


@pytest.mark.parametrize("path", ["photos/a.jpg", "photos"])
def test_explain_shows_times_of_hold(site, path):
    site.config.write_text(site.config.read_text().replace(PHOTOS, "F" * 32))
    site.write("a.jpg")
    site.write("b.jpg")
    before = time.time()
    site.run("reconcile", "--wait", "0s")
    hold = site.run("explain", "--json", path).only["hold"]
    since, until = (datetime.fromisoformat(hold[key]).timestamp() for key in ("since", "until"))
    assert int(before) <= since <= time.time()
    assert until - since == pytest.approx(600, abs=0.01)
    assert (hold["destfolderid"], hold["reason"]) == ("F" * 32, "unknown_folder")
    line = f"held: nothing is sent to folder {'F' * 32} since {hold['since']}, at least until {hold['until']}: "
    assert line in site.run("explain", path).out
    site.run("retry")
    assert site.run("explain", "--json", path).only["hold"] is None
    assert "held:" not in site.run("explain", path).out


def test_next_try_waits_for_held_folder(site):
    site.configure(more="upload: {workers: 1}")
    site.config.write_text(site.config.read_text().replace(PHOTOS, "F" * 32))
    for name in ("a.jpg", "b.jpg"):
        site.write(name, name.encode())
    site.run("reconcile", "--wait", "0s")
    (queued,) = (path for path, state in site.files().items() if state == "queued")
    shown = site.run("explain", "--json", queued).only
    assert shown["versions"][0]["next_try"] == shown["hold"]["until"]
    until = shown["hold"]["until"]
    assert f"next try: {until}, when folder {'F' * 32} is tried again" in site.run("explain", queued).out
    (waiting,) = site.run("files", "--state", "queued", "--json").objects
    assert (waiting["reason"], shown["versions"][0]["next_try_reason"]) == (shown["hold"]["reason"],) * 2
    (held,) = site.run("status", "--json").only["holds"]
    assert held == shown["hold"]


def test_undecodable_path_has_base64_form(site):
    site.write(b"bad \xff.jpg")
    site.write("good.jpg")
    site.run("reconcile")
    bad, good = site.run("files", "--json").objects
    assert set(bad) - set(good) == {"path_base64"}
    assert bad["path"] == "photos/bad \ufffd.jpg"
    assert base64.b64decode(bad["path_base64"]) == b"photos/bad \xff.jpg"


def test_history_is_listed_only_with_all(site):
    site.write("a.jpg", b"one")
    site.run("reconcile")
    site.write("a.jpg", b"another")
    site.run("reconcile")
    assert [row["size"] for row in site.run("files", "--json").objects] == [7]
    both = site.run("files", "--json", "--all").objects
    assert sorted((row["size"], row["state"]) for row in both) == [(3, "superseded"), (7, "verified")]
    assert len({row["assetid"] for row in both}) == 2


def test_state_filter_refuses_unknown_states(site):
    site.write("a.jpg")
    site.write("empty.jpg", b"")
    site.run("reconcile")
    assert [row["path"] for row in site.run("files", "--json", "--state", "blocked").objects] == ["photos/empty.jpg"]
    assert site.run("files", "--state", "lost").code == 2


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("img_00*", ["photos/IMG_0001.jpg", "photos/x/IMG_0002.CR3"]),
        ("*.cr3", ["photos/x/IMG_0002.CR3"]),
        ("photos/I*", ["photos/IMG_0001.jpg"]),
        ("TROMS?.jpg", ["photos/Troms\u00f8.jpg"]),
        ("IMG", []),
    ],
)
def test_name_option_selects_by_pattern(site, glob, names):
    for name in ("IMG_0001.jpg", "x/IMG_0002.CR3", "Troms\u00f8.jpg"):
        site.write(name, name.encode())
    site.nowhere()
    site.run("reconcile", "--wait", "0s")
    found = site.run("files", "--name", glob, "--json")
    assert [row["path"] for row in found.objects] == names
    assert ("no file matches" in found.err) is (not names)


def test_newline_in_name_stays_on_one_line(site):
    site.write("two\nlines.jpg")
    site.run("reconcile")
    (line,) = site.run("files").out.splitlines()
    assert line.endswith("photos/two\\nlines.jpg")
    assert site.run("files", "--json").objects[0]["path"] == "photos/two\nlines.jpg"


class TestChoosing:
    @pytest.fixture
    def many(self, site):
        for name in ("a.jpg", "2026/b.jpg", "2026/sub/c.jpg", "2026-old/d.jpg", "2026.jpg"):
            site.write(name, name.encode())
        site.write("2026/empty.jpg", b"")
        site.run("reconcile", "--wait", "0s")
        return site

    @pytest.mark.parametrize(
        ("arguments", "names"),
        [
            (["photos/2026"], ["2026/b.jpg", "2026/empty.jpg", "2026/sub/c.jpg"]),
            (["photos/2026/"], ["2026/b.jpg", "2026/empty.jpg", "2026/sub/c.jpg"]),
            (["photos/a.jpg"], ["a.jpg"]),
            (["photos/2026", "photos/2026/sub", "photos/a.jpg", "photos/a.jpg"], 4),
            (["photos/2026", "--state", "blocked"], ["2026/empty.jpg"]),
            (["--reason", "empty_file"], ["2026/empty.jpg"]),
            (["--reason", "sidecar"], []),
            (["photos/2026", "--state", "gone"], []),
            (["."], 6),
            ([], 6),
        ],
    )
    def test_path_selects_file_or_whole_folder(self, many, arguments, names):
        result = many.run("files", "--json", *arguments)
        listed = [str(row["path"]).removeprefix("photos/") for row in result.objects]
        assert (listed == names) if isinstance(names, list) else (len(set(listed)) == len(listed) == names)
        assert ("no file matches: --all also searches earlier versions" in result.err) == (listed == [])

    def test_all_option_is_not_suggested_twice(self, many):
        said = many.run("files", "photos/2026", "--reason", "sidecar", "--all").err
        assert "no file or earlier version matches" in said

    @pytest.mark.parametrize("command", ["files", "files --json", "files --all", "export --format csv", "retry"])
    def test_path_unknown_to_ledger_is_exit_2(self, many, command):
        result = many.run(command, "photos/a.jpg", "photos/202")
        assert result.code == 2
        assert "Error: the ledger knows no file photos/202: give it relative" in result.err
        assert "a.jpg" not in result.out

    def test_deleted_file_is_listed_with_all(self, many):
        (many.photos / "a.jpg").unlink()
        many.run("reconcile", "--wait", "0s")
        now, ever = many.run("files", "photos/a.jpg"), many.run("files", "--all", "photos/a.jpg")
        assert (now.code, now.out, ever.code, ever.out[:4]) == (0, "", 0, "gone")

    def test_root_and_absolute_paths_are_valid(self, many):
        assert len(many.run("files", "--json", str(many.tree)).objects) == 6
        assert len(many.run("files", "--json", f"{many.photos}/..").objects) == 6
        assert len(many.run("files", "--json", str(many.photos / "2026")).objects) == 3

    def test_delivered_export_omits_the_rest(self, many):
        rows = many.run("export", "--format", "jsonl", "--state", "verified", "photos/2026").objects
        assert [row["path"] for row in rows] == ["photos/2026/b.jpg", "photos/2026/sub/c.jpg"]

    def test_a_path_outside_the_root_is_refused(self, many):
        assert many.run("files", "../x").code == 2


class TestExport:
    @pytest.mark.parametrize(
        "name", [b"two\nlines.jpg", b"\xff\xfe.jpg", b"=1+1;=2.jpg", b"a\\n.jpg", "\u202ex".encode()]
    )
    def test_no_name_is_lost_in_csv(self, site, name):
        site.write(name)
        site.run("reconcile", "--wait", "0s")
        (row,) = csv.DictReader(io.StringIO(site.run("export", "--format", "csv").out))
        path = base64.b64decode(row["path_base64"]) if row["path_base64"] else row["path"].encode()
        assert path == b"photos/" + name

    def test_csv_round_trips_without_formulas(self, site):
        site.write('say "a,b".jpg')
        site.write("a.jpg")
        site.run("reconcile")
        result = site.run("export", "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(result.out)))
        assert [row["path"] for row in rows] == ["photos/a.jpg", 'photos/say "a,b".jpg']
        assert {row["state"] for row in rows} == {"verified"}

    def test_drift_is_exported_for_current_rows(self, site):
        site.write("a.jpg", b"first")
        site.run("reconcile")
        site.write("_folder.yaml", b"location: here")
        site.run("reconcile")
        (row,) = site.run("export", "--format", "jsonl").objects
        assert row["metadata_drift"].startswith("its metadata changed")
        assert "metadata: its metadata changed" in site.run("explain", "photos/a.jpg").out
        site.write("a.jpg", b"another version")
        site.run("reconcile")
        found = site.run("export", "--format", "jsonl").objects
        assert [row["metadata_drift"] for row in found] == [None, None]
        assert "metadata: its metadata changed" not in site.run("explain", "photos/a.jpg").out

    def test_jsonl_export_has_all_keys_of_files(self, site):
        site.write("a.jpg")
        site.run("reconcile")
        (row,) = site.run("export", "--format", "jsonl").objects
        assert set(KEYS) < set(row)
        assert row["wanted"] == "yes"

    @pytest.mark.parametrize(
        ("value", "cell"),
        [
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\\t=1"),
            (" =1", "' =1"),
            ("\r=1", "'\\r=1"),
            ("a\nb", "a\\nb"),
            ("\x1b[31m", "\\x1b[31m"),
            (-1, "-1"),
            (None, ""),
            ("plain", "plain"),
        ],
    )
    def test_csv_cell_is_no_formula_or_control(self, value, cell):
        assert csv_cell(value) == cell


class TestExplain:
    @pytest.mark.parametrize("absolute", [False, True])
    def test_explain_takes_relative_and_absolute(self, site, absolute):
        path = site.write("a.jpg")
        site.run("reconcile")
        result = site.run("explain", str(path) if absolute else "photos/a.jpg")
        assert result.code == 0
        assert result.out.splitlines()[0] == "photos/a.jpg"
        assert "asset " in result.out
        said = site.run("explain", "--json", "photos/a.jpg").only
        assert [version["state"] for version in said["versions"]] == ["verified"]

    def test_path_through_linked_root_is_found(self, site, tmp_path):
        site.write("a.jpg")
        site.run("reconcile")
        (tmp_path / "link").symlink_to(site.tree)
        assert site.run("explain", str(tmp_path / "link" / "photos" / "a.jpg")).code == 0

    def test_unreadable_file_is_due_when_readable(self, site, monkeypatch):
        site.write("a.jpg")
        site.run("reconcile")
        (site.photos / "d").mkdir()
        (site.photos / "d" / "new.jpg").write_bytes(b"new")

        def refuse(_tree: Tree, path: bytes) -> None:
            raise FileUnreadable(f"{path.decode()} cannot be read: Permission denied")

        monkeypatch.setattr(Tree, "lstat", refuse)
        said = site.run("explain", "photos/d/new.jpg").out
        assert "Permission denied" in said
        assert said.splitlines()[-1] == "  the ledger does not know it: it is recorded once it can be read"

    def test_missing_file_names_its_brake(self, site):
        kept = [site.write(f"{number}.jpg", b"%d" % number) for number in range(3)]
        site.run("reconcile")
        for path in kept:
            path.unlink()
        site.run("reconcile")
        lines = site.run("explain", "photos/1.jpg").out.splitlines()
        assert lines[-1] == "  it is gone from the tree: nothing is concluded from that before brake 1 is released"

    @pytest.mark.parametrize("path", ["../a.jpg", "/etc/passwd", ".", ""])
    def test_a_path_outside_the_root_is_exit_2(self, site, path):
        site.run("reconcile")
        result = site.run("explain", path)
        assert result.code == 2
        assert "below the root" in result.err

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("photos/a.tmp", "left out"),
            ("elsewhere/a.jpg", "no entry of `folders` covers it"),
            ("photos/a.jpg.yaml", "sidecars"),
            ("photos/b.jpg.yaml", "sidecars: it is read, not uploaded"),
            ("_folder.yaml", "it is read for the mapped folders below"),
        ],
    )
    def test_file_not_uploaded_is_explained(self, site, name, why):
        site.configure(more='ignore: ["b.jpg.yaml", "_*"]')
        (site.tree / name).parent.mkdir(exist_ok=True)
        (site.tree / name).write_text("language: 1\n")
        site.run("reconcile")
        result = site.run("explain", name)
        assert result.code == 0
        assert why in result.out

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("photos/new.tmp", "but it is left out"),
            ("photos/nothere.jpg", f"photos → folder {PHOTOS}"),
        ],
    )
    @pytest.mark.parametrize("options", [(), ("--json",)])
    def test_unknown_path_is_explained_as_exit_2(self, site, name, said, options):
        site.run("reconcile")
        result = site.run("explain", name, *options)
        assert (result.code, said in result.out) == (2, True)
        assert f"Error: the ledger knows no file {name}: give it" in result.err

    def test_folder_shows_mapping_and_states(self, site):
        for name in ("2026/a.jpg", "2026/b/c.jpg", "2025/d.jpg"):
            site.write(name, name.encode())
        site.write("2026/empty.jpg", b"")
        site.run("reconcile")
        result = site.run("explain", "photos/2026")
        assert (result.code, result.err) == (0, "")
        assert result.out.splitlines()[1:] == [
            "  on disk: a folder: `assetsync files` lists what is below it",
            f"  mapping: photos → folder {PHOTOS}",
            "  files below it: 2 verified, 1 blocked",
        ]
        assert site.run("explain", "--json", "photos/2026").only["files"] == {"verified": 2, "blocked": 1}
        assert site.run("explain", "--json", "photos/2025/d.jpg").only["files"] is None
        shutil.rmtree(site.photos / "2025")
        gone = site.run("explain", "photos/2025")
        assert (gone.code, "files below it: 1 verified" in gone.out) == (0, True)

    def test_a_name_of_bad_bytes_is_found(self, site):
        site.write(b"bad \xff.jpg")
        site.run("reconcile")
        assert "verified" in site.run("explain", "photos/bad \udcff.jpg").out

    @pytest.mark.parametrize("name", [b"bad \xff.jpg", b"two\nlines.jpg", "turned \u202egpj.exe".encode()])
    def test_an_odd_name_is_found_as_it_is_shown(self, site, name):
        site.write(name)
        site.run("reconcile")
        (line,) = [line for line in site.run("files").out.splitlines() if "photos/" in line]
        shown = "photos/" + re.split(r"\s{2,}", line.partition("photos/")[2])[0].strip()
        result = site.run("explain", shown)
        assert (result.code, result.out.splitlines()[0]) == (0, shown)
        assert "verified: " in result.out
        assert "1 verified already" in site.run("retry", shown).out

    @pytest.mark.parametrize("name", [b"bad \xff.jpg", b"two\nlines.jpg", b"back\\slash.jpg", b"odd \xff/a.jpg"])
    def test_odd_name_is_found_by_list_commands(self, site, name):
        site.write(name)
        site.write("other.jpg", b"other bytes")
        site.run("reconcile", "--wait", "0s")
        shown = f"photos/{printable(name).partition('/')[0]}"
        for command in (("files", "--json"), ("export", "--format", "jsonl")):
            (row,) = site.run(*command, shown).objects
            assert row["path"] == decoded(b"photos/" + name)
        assert "nothing has drifted of" in site.run("drift settle", shown).err

    def test_odd_names_are_found_with_one_open(self, site, monkeypatch):
        names = [b"bad %d \xff.jpg" % number for number in range(5)]
        for number, name in enumerate(names):
            site.write(name, b"%d" % number)
        site.run("reconcile")
        opened = []
        real = options.view_ledger
        monkeypatch.setattr(options, "view_ledger", lambda *path, **site: opened.append(path) or real(*path, **site))
        assert site.run("retry", *(f"photos/{printable(name)}" for name in names)).out == "5 verified already\n"
        assert len(opened) == 1

    def test_the_root_through_a_link_is_the_root(self, site, tmp_path):
        site.write("a.jpg")
        site.run("reconcile", "--wait", "0s")
        (tmp_path / "link").symlink_to(site.tree)
        assert len(site.run("files", "--json", str(tmp_path / "link")).objects) == 1

    def test_ambiguous_odd_name_is_refused(self, site):
        for name in (b"bad \xff.jpg", b"bad \xfe.jpg"):
            site.write(name)
        site.run("reconcile")
        result = site.run("explain", "photos/bad \ufffd.jpg")
        assert (result.code, "2 files are shown as" in result.err) == (2, True)

    def test_attempts_and_next_step_are_shown(self, site):
        site.write("a.jpg", b"the content")
        site.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, operation=Operation.UPLOAD))
        site.run("reconcile", "--wait", "0s")
        shown = site.run("explain", "photos/a.jpg").out
        assert " as a.jpg: 11 bytes of 11 bytes handed over in " in shown
        assert "next try: " in shown
        (version,) = site.run("explain", "--json", "photos/a.jpg").only["versions"]
        assert RFC_3339_UTC.fullmatch(version["next_try"])
        (attempt,) = version["history"]
        assert (attempt["open"], attempt["result"], attempt["bytes_left"]) == (True, None, 11)
        site.sandbox.set_faults()
        site.run("doubt resolve", "photos/a.jpg", "--absent")
        site.run("reconcile")
        (version,) = site.run("explain", "--json", "photos/a.jpg").only["versions"]
        assert [attempt["result"] for attempt in version["history"]] == ["resolved", "accepted"]
        assert version["next_try"] is None

    def test_queued_file_states_most_files_before_it(self, site):
        """The burst lies before and after the file, which is in a folder of its own."""
        paths = [f"photos/burst/{number}" for number in range(20)]
        paths.insert(10, "photos/new/a.jpg")
        stats = [facts(os.stat(site.write(path.removeprefix("photos/"), path.encode()))) for path in paths]
        versions = [
            NewVersion(os.fsencode(path), stat, PHOTOS, path, None) for path, stat in zip(paths, stats, strict=True)
        ]
        with Holder(site) as holder:
            holder.ledger.versions.enqueue(versions, 1.0)
            said = {path: site.run("explain", path).out for path in ("photos/new/a.jpg", "photos/burst/9")}
            (version,) = site.run("explain", "--json", "photos/new/a.jpg").only["versions"]
        assert "next try: now, where a process runs; at most 1 file before it\n" in said["photos/new/a.jpg"]
        assert "; at most 19 files before it\n" in said["photos/burst/9"]
        assert version["most_before"] == 1

    def test_due_doubt_waits_while_sending_is_paused(self, site):
        site.write("a.jpg")
        site.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, operation=Operation.UPLOAD))
        site.run("reconcile", "--wait", "0s")
        with Holder(site) as holder:
            site.run("doubt retry")
            holder.ledger.runs.record(Pause, Pause(holder.ledger.start_no, 0.0, "no_answer", "it hangs"))
            shown = site.run("explain", "photos/a.jpg").out
            (version,) = site.run("explain", "--json", "photos/a.jpg").only["versions"]
        assert "next try: once the service answers as it should: it hangs\n" in shown
        assert version["next_try_reason"] == "no_answer"

    def test_reason_of_held_folder_is_told_once(self, site):
        site.configure(more="upload: {workers: 1}")
        site.config.write_text(site.config.read_text().replace(PHOTOS, "F" * 32))
        site.write("a.jpg")
        site.write("b.jpg", b"another")
        site.run("reconcile", "--wait", "0s")
        (queued,) = (path for path, state in site.files().items() if state == "queued")
        detail = site.run("explain", "--json", queued).only["hold"]["detail"]
        assert site.run("explain", queued).out.count(detail) == 1

    def test_unsent_upload_is_reported_as_unsent(self, site):
        site.write("first.jpg", b"before the outage")
        site.run("reconcile")
        site.write("a.jpg", b"the content")
        site.configure(upload_url="http://127.0.0.1:9/index.cfm")
        site.run("reconcile", "--wait", "0s")
        assert ": nothing left this machine in " in site.run("explain", "photos/a.jpg").out

    def test_what_waits_for_a_brake_says_so(self, site):
        site.write("a.jpg", b"one")
        site.run("reconcile")
        site.write("b.jpg", b"another")
        site.config.write_text(site.config.read_text().replace(PHOTOS, "ELSEWHERE"))
        site.run("reconcile", "--wait", "0s")
        assert "next try: once brake 1 is released" in site.run("explain", "photos/b.jpg").out
        (version,) = site.run("explain", "--json", "photos/b.jpg").only["versions"]
        assert version["next_try_reason"] == "brake"

    @pytest.mark.parametrize(
        ("make", "says"),
        [
            (lambda path: path.symlink_to("/etc/hostname"), "on disk: a symbolic link: left out"),
            (os.mkfifo, "on disk: neither a file nor a folder: left out"),
        ],
        ids=["link", "pipe"],
    )
    def test_non_file_is_reported_as_left_out(self, site, make, says):
        site.run("reconcile")
        make(site.tree / "photos" / "odd")
        result = site.run("explain", "photos/odd")
        assert (result.code, says in result.out, "the next scan" in result.out) == (0, True, False)

    def test_brake_of_other_mapping_is_not_shown(self, site):
        site.write("a.jpg", b"one")
        (site.tree / "papers").mkdir()
        (site.tree / "papers" / "b.pdf").write_bytes(b"another")
        more = f", {{path: papers, destfolderid: {PAPERS}}}"
        site.config.write_text(site.config.read_text().replace("}]", f"}}{more}]"))
        site.run("reconcile")
        site.config.write_text(site.config.read_text().replace(PHOTOS, "ELSEWHERE"))
        site.run("reconcile", "--wait", "0s")
        assert site.run("explain", "--json", "photos/a.jpg").only["waits_for"] is not None
        assert site.run("explain", "--json", "papers/b.pdf").only["waits_for"] is None

    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            ("photos/a.jpg", {"reason": None, "sidecars": ["photos/a.jpg.yaml"], "metadata": {"img_keywords": "sea"}}),
            ("photos/a.jpg.yaml", {"reason": "sidecar", "describes": "photos/a.jpg", "sets": ["keywords"]}),
            ("photos/b.jpg", {"reason": None, "sidecar_error": ANY, "metadata": None}),
            ("photos/raw/c.psd", {"reason": "ignored", "rule": "raw", "destfolderid": PHOTOS}),
            ("other/d.jpg", {"reason": "unmapped", "rule": None, "destfolderid": None}),
            ("photos/raw", {"disk": {"type": "folder", "size": None, "mtime": None}}),
        ],
    )
    def test_json_has_values_beside_sentences(self, site, path, expected):
        site.configure(more="ignore: [raw]\n")
        for name in ("a.jpg", "b.jpg", "raw/c.psd", "../other/d.jpg"):
            site.write(name)
        site.write("a.jpg.yaml", b"keywords: sea\n")
        site.write("b.jpg.yaml", b"keyword: sea\n")
        site.run("reconcile", "--wait", "0s")
        shown = site.run("explain", "--json", path).only
        assert {key: shown[key] for key in expected} == expected
        assert shown["sidecar_error"] is None or "keyword" in shown["sidecar_error"]

    def test_remapped_file_names_its_brake(self, site):
        site.write("a.jpg", b"one")
        site.run("reconcile")
        assert site.run("explain", "--json", "photos/a.jpg").only["waits_for"] is None
        site.config.write_text(site.config.read_text().replace(PHOTOS, "ELSEWHERE"))
        site.run("reconcile", "--wait", "0s")
        assert "waits: brake 1 is pulled: " in site.run("explain", "photos/a.jpg").out
        shown = site.run("explain", "--json", "photos/a.jpg").only
        assert "brake 1 is pulled: " in shown["waits_for"]
        assert [shown["brake"]] == site.run("status", "--json").only["brakes"]
        site.run("resume")
        assert "waits: " not in site.run("explain", "photos/a.jpg").out

    @pytest.mark.parametrize("more", ["", ", {path: papers, destfolderid: ELSEWHERE}"])
    def test_wait_for_doubts_is_explained(self, site, more):
        site.configure(more="upload: {workers: 1}")
        site.config.write_text(site.config.read_text().replace("}]", f"}}{more}]"))
        for number in range(7):
            site.write(f"{number}.jpg", b"%d" % number)
        site.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, operation=Operation.UPLOAD))
        for _ in range(7):
            site.run("reconcile", "--wait", "0s")
        queued = [path for path, state in site.files().items() if state == "queued"]
        said = site.run("explain", queued[0]).out
        assert (
            f"next try: once some of the uploads in doubt into folder {PHOTOS} are decided: assetsync doubt list"
            in said
        )

    @pytest.mark.parametrize(
        ("name", "says"), [("photos/new.jpg", True), ("photos/new.tmp", False), ("outside.jpg", False)]
    )
    def test_next_scan_is_named_for_uploads_only(self, site, name, says):
        site.run("reconcile")
        (site.tree / name).write_bytes(b"new")
        assert ("the ledger does not know it yet" in site.run("explain", name).out) is says

    def test_sidecars_and_values_are_shown(self, site):
        site.write("2026/a.jpg")
        site.write("_folder.yaml", b"location: Oslo\n")
        site.write("2026/a.jpg.yaml", b"description: The pier\n")
        site.run("reconcile", "--wait", "0s")
        shown = site.run("explain", "photos/2026/a.jpg").out
        assert "sidecars: photos/_folder.yaml, photos/2026/a.jpg.yaml" in shown
        assert "metadata: img_description = The pier" in shown
        assert "metadata: location = Oslo" in shown

    @pytest.mark.parametrize(
        ("name", "whom"), [("a.jpg.yaml", "photos/a.jpg"), ("_folder.yaml", "every file below photos")]
    )
    @pytest.mark.parametrize(
        ("content", "what"),
        [
            (b"location: Oslo\nkeywords: [a, b]\n", "metadata: keywords, location\n"),
            (b"", "metadata: none\n"),
            (b"lokation: Oslo\n", "line 1, column 1: lokation: "),
        ],
    )
    def test_sidecar_shows_its_target_or_mistake(self, site, name, whom, content, what):
        site.write("a.jpg")
        site.write(name, content)
        site.run("reconcile", "--wait", "0s")
        shown = site.run("explain", f"photos/{name}").out
        assert f"describes: {whom}\n" in shown
        assert what in shown

    def test_sidecar_without_file_is_explained(self, site):
        site.write("a.jpg")
        site.write("typo.jpgg.yaml", b"location: Oslo")
        site.run("reconcile")
        shown = site.run("explain", "photos/typo.jpgg.yaml").out
        assert "describes: photos/typo.jpgg, which is not there: it is not read\n" in shown

    def test_stored_file_shows_its_next_look(self, site):
        site.write("a.jpg")
        site.sandbox.set_faults(FaultRule(kind=FaultKind.SEARCH_DOWN))
        site.run("reconcile", "--wait", "0s")
        assert site.files() == {"photos/a.jpg": "stored"}
        site.configure(more='schedule: {index: 2h, verify: "30 4 1 1 *"}')
        (version,) = site.run("explain", "--json", "photos/a.jpg").only["versions"]
        waits = datetime.fromisoformat(version["next_try"]) - datetime.now(UTC)
        assert timedelta(minutes=1) < waits <= timedelta(hours=2)
        site.configure(more="schedule: {index: off, verify: off}")
        said = site.run("explain", "photos/a.jpg").out
        assert "next try" not in said
        assert "not read back: schedule.verify and schedule.index are off; `assetsync reconcile` reads it back" in said


class TestOrphans:
    def test_replaced_version_has_all_keys(self, site):
        site.write("a.jpg", b"one")
        site.run("reconcile")
        (old,) = site.sandbox.assets()
        assert site.run("orphans").out == "no orphans\n"
        assert site.run("orphans", "--json").out == ""
        site.write("a.jpg", b"another")
        site.run("reconcile")
        (orphan,) = site.run("orphans", "--json").objects
        assert orphan.pop("since").endswith("Z")
        assert orphan == {
            "assetid": old.id,
            "path": "photos/a.jpg",
            "destfolderid": PHOTOS,
            "size": 3,
            "md5": old.md5,
            "state": "superseded",
            "reason": "replaced",
            "detail": None,
            "why": "replaced",
            "name": None,
        }

    def test_orphan_of_odd_name_has_base64_path(self, site):
        site.write(b"\xff.jpg", b"one")
        site.run("reconcile")
        site.write(b"\xff.jpg", b"another")
        site.run("reconcile")
        (orphan,) = site.run("orphans", "--json").objects
        assert base64.b64decode(orphan["path_base64"]) == b"photos/\xff.jpg"

    def test_deleted_file_is_no_orphan_for_a_week(self, site):
        site.write("a.jpg")
        site.write("b.jpg")
        site.run("reconcile")
        (site.photos / "a.jpg").unlink()
        site.run("reconcile")
        assert site.run("orphans", "--json").out == ""
        assert [row["state"] for row in site.run("files", "--json", "--state", "gone").objects] == ["gone"]


def test_search_faults_spare_ledger_reads(site):
    site.write("a.jpg")
    site.run("reconcile")
    site.sandbox.set_faults(FaultRule(kind=FaultKind.STATUS, operation=Operation.SEARCH))
    assert site.run("files").code == 0

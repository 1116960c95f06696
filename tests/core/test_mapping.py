"""Which mapping a path belongs to, and what the ignore rules leave out.

Covers `core/ignore.py`.
"""

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assetsync.core.ignore import BUILT_IN
from assetsync.core.mapping import IgnoreRules, Mappings
from assetsync.model import Mapping


def make_rules(site=(), **own):
    """Rules of a site whose mappings are given as folder=patterns; `root` stands for the root."""
    mappings = [Mapping(b"" if name == "root" else name.encode(), "1", ignore=tuple(p)) for name, p in own.items()]
    return IgnoreRules(Mappings(mappings or [Mapping(b"", "1")]), site)


@pytest.mark.parametrize(
    ("directory", "position"),
    [(b"", 0), (b"other/deep", 0), (b"photos", 1), (b"photos/x", 1), (b"photos/2026/x/y", 2), (b"photos2", 0)],
)
def test_the_longest_matching_path_wins(directory, position):
    mappings = Mappings([Mapping(b"", "1"), Mapping(b"photos", "2"), Mapping(b"photos/2026", "3")])
    assert mappings.for_directory(directory) == position


@pytest.mark.parametrize("directory", [b"", b"video", b"photos2", b"photo"])
def test_what_no_entry_covers_is_unmapped(directory):
    assert Mappings([Mapping(b"photos", "1")]).for_directory(directory) is None


@pytest.mark.parametrize(
    ("directory", "leads"),
    [(b"", True), (b"a", True), (b"a/b", True), (b"a/b/c", True), (b"a/x", False), (b"b", False)],
)
def test_scan_descends_to_nested_mappings(directory, leads):
    assert Mappings([Mapping(b"a/b/c", "1")]).has_at_or_below(directory) is leads


PARTIAL_AND_SYSTEM = [
    (b"film.mp4.part", False), (b"x.tmp", False), (b"x.crdownload", False), (b"x.partial", False),
    (b"~$report.docx", False), (b".~lock.report.odt#", False), (b".notes.txt.swp", False), (b".DS_Store", False),
    (b"._photo.jpg", False), (b"Thumbs.db", False), (b"desktop.ini", False), (b"a/b/Thumbs.db", False),
    (b"@eaDir", True), (b"@eaDir/photo.jpg/thumb.jpg", False), (b"#recycle", True), (b"#recycle/photo.jpg", False),
    (b"a/.snapshot", True), (b"lost+found", True), (b".nfs00000000012ab34c", False), (b"$RECYCLE.BIN/x.jpg", False),
    (b"a/photo.jpg_exiftool_tmp", False), (b"~flyer~a1b2c3.idlk", False), (b".smbdeleteAAA1f", False),
    (b".afpDeleted123", False), (b"x.opdownload", False),
]  # fmt: skip
ASSETS = [
    (b"photo.jpg", False), (b"part.jpg", False), (b"temp.tmp.jpg", False),
    (b"macro.swp", False),
    (b"archive.zip", False), (b"@eaDir", False), (b"lost+found", False), (b"~file.jpg", False), (b"a~$b.docx", False),
    (b"x.bak", False), (b"x.log", False), (b"x.db", False), (b"#1.jpg", False),
    (b"x.tmp\n", False), (b"\xff\xfe.jpg", False),
    (b"photo.jpg_original", False), (b"x.indd", False),
]  # fmt: skip


@pytest.mark.parametrize(("path", "is_dir"), PARTIAL_AND_SYSTEM)
def test_partial_and_system_files_are_skipped(path, is_dir):
    assert make_rules().ignored(path, is_dir)


@pytest.mark.parametrize(("path", "is_dir"), ASSETS)
def test_plausible_names_are_not_ignored(path, is_dir):
    assert not make_rules().ignored(path, is_dir)


@pytest.mark.parametrize(
    ("patterns", "path", "is_dir", "ignored"),
    [
        (["*.psd"], b"a/x.psd", False, True),
        (["*.psd"], b"a/x.psd.jpg", False, False),
        (["/old"], b"old/x.jpg", False, True),
        (["/old"], b"a/old/x.jpg", False, False),
        (["raw/*.dng"], b"raw/x.dng", False, True),
        (["raw/*.dng"], b"a/raw/x.dng", False, False),
        (["**/raw/*.dng"], b"a/raw/x.dng", False, True),
        (["cache/"], b"cache", False, False),
        (["cache/"], b"a/cache/x/y.jpg", False, True),
        (["*.jpg", "!keep*.jpg"], b"keep1.jpg", False, False),
        (["!keep*.jpg", "*.jpg"], b"keep1.jpg", False, True),
        (["!*.tmp"], b"x.tmp", False, False),
        (["!.snapshot/"], b".snapshot/x.jpg", False, False),
        (["old/", "!old/keep.jpg"], b"old/keep.jpg", False, True),
        (["old/**", "!old/keep.jpg"], b"old/keep.jpg", False, False),
        (["old/**", "!old/keep.jpg"], b"old/other.jpg", False, True),
        (["*.txt", "!docs/"], b"docs/a.txt", False, True),
        ([r"\!x"], b"!x", False, True),
        ([r"\#x"], b"#x", False, True),
        (["[ab]?.jpg"], b"b1.jpg", False, True),
        (["[!ab]?.jpg"], b"b1.jpg", False, False),
        (["*"], b"x", False, True),
        (["x*y*"], b"xaybz", False, True),
        (["foo"], b"a\nb/foo", False, True),
        (["foo"], b"foo\n", False, False),
        (["*.\u00fc"], "a.\u00fc".encode(), False, True),
        (["?.jpg"], b"\xff.jpg", False, True),
        (["?.jpg"], "ü.jpg".encode(), False, True),
        (["# no rule", "", "a"], b"# no rule", False, False),
    ],
)
def test_rules_are_read_as_git_reads_them(patterns, path, is_dir, ignored):
    assert make_rules(patterns).ignored(path, is_dir) is ignored


def test_mapping_rules_hold_in_its_folder():
    rules = make_rules(root=["*.x"], photos=["/raw", "*.y"])
    paths = [b"photos/raw/1.jpg", b"raw/1.jpg", b"photos/a/raw/1.jpg", b"photos/1.x", b"1.x", b"photos/1.y", b"1.y"]
    assert [rules.ignored(path, False) for path in paths] == [True, False, False, False, True, True, False]


def test_mapping_may_negate_a_site_rule():
    rules = make_rules(["*.psd"], photos=["!*.psd"], video=[])
    assert (rules.ignored(b"photos/a.psd", False), rules.ignored(b"video/a.psd", False)) == (False, True)


def test_mapping_in_ignored_folder_is_reached():
    rules = IgnoreRules(Mappings([Mapping(b"", "1"), Mapping(b"archive/best", "2")]), ["archive/"])
    asked = [(b"archive", True), (b"archive/best", True), (b"archive/best/x.jpg", False)]
    assert [rules.ignored(*path) for path in asked] == [False, False, False]
    assert [rules.ignored(*path) for path in [(b"archive/x.jpg", False), (b"archive/rest", True)]] == [True, True]


def test_unmapped_path_is_not_called_ignored():
    assert not make_rules(photos=[]).ignored(b"x.tmp", False)


def test_reason_names_rule_and_its_origin():
    rules = make_rules(["*.psd"], photos=["raw/"])
    assert rules.why(b"photos/a.psd") == "the rule *.psd (`ignore` of the site)"
    assert rules.why(b"photos/raw/a.jpg") == (
        "its folder photos/raw is ignored by the rule raw/ (`ignore` of the mapping photos)"
    )
    assert rules.why(b"photos/a.tmp") == "the rule *.tmp (built in: an unfinished download or copy)"
    assert rules.why(b"photos/a.jpg") is None


names = st.sampled_from(["a", "b", "ab", "a.x", "b.x", "x", ".a", "a#", "[a]"])
globs = st.sampled_from(["a", "b", "*", "*.x", "a*", "*b", "?", "[ab]", "a?", "**", r"\[a\]", ".*", "*a*", "a*.x"])
segments = st.lists(globs, min_size=1, max_size=3)
patterns = st.builds(
    lambda bang, lead, parts, tail: bang + lead + "/".join(parts) + tail,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "/"]),
    segments,
    # `x/**/` is left out: pathspec reads it as `x/`, git as the folders below x.
    st.sampled_from(["", "/"]),
).filter(lambda pattern: not pattern.endswith("**/"))


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_random_rules_match_git_verdict(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    empty = tmp_path / "none"
    empty.write_text("")

    @settings(max_examples=200)
    @given(st.lists(patterns, min_size=1, max_size=4), st.lists(names, min_size=1, max_size=4))
    def agrees(lines, parts):
        # `.*` is the only built-in pattern that matches one of `names`.
        (tmp_path / ".gitignore").write_text("".join(f"{line}\n" for line in [".*", *lines]))
        path = "/".join(parts)
        command = ["git", "-c", f"core.excludesFile={empty}", "check-ignore", "-q", "--no-index", path]
        gits = subprocess.run(command, cwd=tmp_path, check=False).returncode == 0
        assert make_rules(lines).ignored(path.encode(), False) is gits

    agrees()


@given(st.lists(patterns, max_size=4), st.binary(min_size=1, max_size=30).filter(lambda path: b"\0" not in path))
def test_reason_exists_exactly_for_ignored(lines, path):
    rules = make_rules(lines)
    path = b"/".join(part for part in path.split(b"/") if part) or b"x"
    assert rules.ignored(path, False) is (rules.why(path) is not None)


@pytest.mark.parametrize("path", [b".photo.jpg", b".cache/a.jpg", b"a.xmp", b"old.lrcat", b"x.lrdata/a/b", b".git/x"])
def test_hidden_files_and_catalogues_are_left_out(path):
    assert make_rules(photos=[]).ignored(b"photos/" + path, False)
    assert not make_rules(photos=[]).ignored(b"photos/photo.jpg", False)


@pytest.mark.parametrize("where", ["site", "mapping"])
def test_hidden_files_come_back_without_system_files(where):
    rules = make_rules(["!.*"], photos=[]) if where == "site" else make_rules(photos=["!.*"])
    assert not rules.ignored(b"photos/.photo.jpg", False)
    assert not rules.ignored(b"photos/.cache/a.jpg", False)
    assert rules.ignored(b"photos/.DS_Store", False)
    assert rules.ignored(b"photos/.git/config", False)
    assert rules.ignored(b"photos/.~lock.a.odt#", False)


def test_hidden_mapped_folder_is_sent():
    rules = make_rules(**{".archive": []})
    assert not rules.ignored(b".archive/a.jpg", False)


def test_every_built_in_group_has_a_purpose():
    assert all(why and patterns for why, patterns in BUILT_IN)

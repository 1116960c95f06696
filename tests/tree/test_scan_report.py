import pytest

from assetsync.tree.scan_report import NAMED, ScanReport


@pytest.mark.parametrize(
    ("path", "covered"),
    [
        (b"a", True),
        (b"a/dark", False),
        (b"a/dark/x/y.jpg", False),
        (b"a/darker", True),
        (b"a/dar", True),
        (b"b/dark", True),
    ],
)
def test_unreadable_path_covers_nothing(path: bytes, covered: bool):
    report = ScanReport(finished=True)
    report.mark_unreadable(b"a/dark", "Permission denied")
    assert report.covers(path) is covered
    assert not report.complete


def test_an_unreadable_root_covers_nothing():
    report = ScanReport(finished=True)
    report.mark_unreadable(b"", "Input/output error")
    assert not report.covers(b"a.jpg")


@pytest.mark.parametrize(
    ("path", "covered"), [(b"a/z.jpg", True), (b"b", True), (b"b/", False), (b"b/a", False), (b"c", False)]
)
def test_unfinished_scan_covers_its_past(path: bytes, covered: bool):
    report = ScanReport(reached=b"b/")
    assert report.covers(path) is covered
    assert not report.complete


def test_finished_scan_is_complete():
    assert ScanReport(finished=True).complete
    assert ScanReport(finished=True).covers(b"a")


def test_named_unreadable_paths_are_limited():
    report = ScanReport(finished=True)
    for number in range(NAMED + 10):
        report.mark_unreadable(b"dark%06d" % number, "Permission denied")
    assert (len(report.unreadable), report.unreadable_count) == (NAMED, NAMED + 10)
    assert report.unreadable[0] == (b"dark000000", "Permission denied")
    assert report.covers(b"bright")
    assert report.covers(b"dark%06d-not" % (NAMED - 1))
    assert not report.covers(b"dark%06d" % NAMED)
    assert not report.covers(b"dark%06d/a.jpg" % (NAMED + 5))

"""The changelog stays short, and its newest release is the package's version."""

import re
from pathlib import Path

import assetsync

CHANGELOG = (Path(__file__).parent.parent / "CHANGELOG.md").read_text("utf-8")
UNRELEASED, *RELEASES = re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:]


def test_unreleased_section_stays_short():
    assert UNRELEASED.startswith("Unreleased\n")
    assert len(UNRELEASED.splitlines()) < 20


def test_each_release_takes_forty_lines():
    assert [release.splitlines()[0] for release in RELEASES if len(release.splitlines()) > 40] == []


def test_each_release_has_upgrade_notes():
    assert [release.splitlines()[0] for release in RELEASES if "### Upgrade notes" not in release] == []


def test_newest_release_is_this_version():
    assert re.fullmatch(re.escape(assetsync.__version__) + r" \(\d{4}-\d\d-\d\d\)", RELEASES[0].splitlines()[0])

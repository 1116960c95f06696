"""Each threat that SECURITY.md names has its tests, and they exist."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
THREATS = (TESTS.parent / ".github/SECURITY.md").read_text("utf-8").split("## Threats")[1]
ROWS = [line for line in THREATS.splitlines() if line.startswith("|")][2:]
NAMED = sorted(set(re.findall(r"`([a-z_/]+\.py)::(test_\w+)`", THREATS)))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[2].strip()[:50])
def test_threat_names_its_test(row):
    assert re.search(r"`[a-z_/]+\.py::test_\w+`", row)


@pytest.mark.parametrize(("path", "name"), NAMED, ids=lambda part: part)
def test_a_test_that_holds_a_threat_is_there(path, name):
    assert f"def {name}(" in (TESTS / path).read_text("utf-8")

"""The code map of CONTRIBUTING.md names every module that a newcomer meets."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAP = re.search(r"## Code map.*?```\n(assetsync/.*?)```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.DOTALL)[1]
PACKAGES = ("core", "daemon", "ledger", "notify", "service", "status", "sync", "tree")


def part(package: str) -> str:
    return re.search(rf"^  {package}/.*?(?=^  \S)", MAP, re.DOTALL | re.MULTILINE)[0]


@pytest.mark.parametrize("package", PACKAGES)
def test_each_module_stands_in_the_code_map(package):
    modules = {path.stem for path in (ROOT / "assetsync" / package).rglob("*.py")} - {"__init__"}
    assert modules - set(re.findall(r"[a-z_]+", part(package))) == set()


def test_rules_refer_to_existing_files():
    rules = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("### Where a rule stands")[1].split("###")[0]
    named = re.findall(r"`([a-z]+/[a-z_/]+\.py)", rules)
    assert len(named) > 8
    assert [name for name in named if not (ROOT / "assetsync" / name).is_file()] == []


def test_it_takes_at_most_200_lines():
    assert len((ROOT / "CONTRIBUTING.md").read_text("utf-8").splitlines()) <= 200

"""The pages for contributors name every module, folder of tests and reason, and nothing that does not exist."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "assetsync"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
CODE = (PACKAGE / "README.md").read_text("utf-8")
TESTS = (ROOT / "tests" / "README.md").read_text("utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
# `__init__` and `__main__` belong to their package; the map names the folder of commands, which has a module for each.
FOLDERS = sorted({path.parent for path in PACKAGE.rglob("*.py") if path.stem not in ("__init__", "__main__")})
MAPPED = [folder for folder in FOLDERS if folder != PACKAGE / "cli" / "commands"]


def section(folder: Path) -> str:
    """Return the section of the map about the modules of a folder."""
    name = "assetsync" if folder == PACKAGE else folder.relative_to(PACKAGE)
    return CODE.split(f"\n### `{name}/`\n")[1].split("\n### ")[0].split("\n## ")[0]


def first_cells(text: str) -> list[str]:
    """Return what the first cells of the tables quote."""
    return [name for line in text.splitlines() if line.startswith("| `") for name in quoted(line.split("|")[1])]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def requirements() -> list[str]:
    said = tomllib.loads(PROJECT)
    extras = said["project"]["optional-dependencies"].values()
    return [
        *said["build-system"]["requires"],
        *said["project"]["dependencies"],
        *(name for extra in extras for name in extra),
    ]


@pytest.mark.parametrize("folder", MAPPED, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_map_lists_each_module_once(folder):
    modules = [path.stem for path in folder.glob("*.py") if path.stem not in ("__init__", "__main__")]
    assert sorted(name for name in first_cells(section(folder)) if not name.endswith("/")) == sorted(modules)


def test_map_lists_no_other_folder():
    named = re.findall(r"(?m)^### `(.+)/`$", CODE)
    assert sorted(named) == sorted("assetsync" if f == PACKAGE else str(f.relative_to(PACKAGE)) for f in MAPPED)


@pytest.mark.parametrize("text", [CONTRIBUTING, CODE], ids=["CONTRIBUTING", "code"])
def test_named_paths_exist(text):
    """A path is relative to the package; after `: ` stands a function or class of the file."""
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py|[a-z_]+(?:/[a-z_]+)*/)(?:: (\w+))?`", text)
    assert len(named) > 8
    for path, name in named:
        place = PACKAGE / path
        assert place.exists() or path == "commands/" or (ROOT / path).exists(), path
        if name:
            assert re.search(rf"(?m)^ *(?:def|class) {name}\b", place.read_text("utf-8")), (path, name)


def test_hidden_rules_stay_few():
    rows = [line for line in CONTRIBUTING.split("## Rules that are hard to find")[1].splitlines() if line[:2] == "| "]
    assert 1 < len(rows) <= 1 + 8
    assert [row for row in rows[1:] if not re.search(r"`[a-z_/]+\.py", row)] == []


def test_contributing_is_read_in_three_minutes():
    assert len(CONTRIBUTING.encode()) <= 4300


def test_contributing_links_the_invariants():
    assert "(assetsync/README.md#invariants)" in CONTRIBUTING
    assert "one writing and four reading connections" in CODE.split("\n## Invariants\n")[1].split("\n## ")[0]


def test_each_test_folder_is_described():
    mirrored = {path.name for path in PACKAGE.iterdir()}
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - mirrored == {name.rstrip("/") for name in first_cells(TESTS) if name.endswith("/")}


def test_each_fault_test_is_described():
    named = [name for name in first_cells(TESTS.split("## Fault injection")[1]) if name.startswith("test_")]
    assert sorted(named) == sorted(path.stem for path in (ROOT / "tests" / "faults").glob("test_*.py"))


def test_each_kind_of_schedule_is_described():
    made = {path.stem for path in (ROOT / "tests" / "faults").glob("sim_*.py")}
    described = [name for name in first_cells(TESTS) if name.startswith("sim_")]
    sweep = (ROOT / "tests" / "faults" / "sweep.py").read_text("utf-8")
    imported = re.findall(r"from \S*\.(sim_\w+) import .*_schedule", sweep)
    assert set(imported) <= set(described) <= made


def test_each_dependency_has_its_reason():
    lines = PROJECT.splitlines()
    for requirement in requirements():
        (at,) = [number for number, line in enumerate(lines) if f'"{requirement}"' in line.partition("#")[0]]
        assert "  # " in lines[at] or lines[at - 1].strip().startswith("# "), requirement


def test_problem_form_requires_version_check_and_status():
    form = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/problem.yml").read_text("utf-8"))
    required = {
        part["id"]: part["attributes"].get("description", "")
        for part in form["body"]
        if part.get("validations", {}).get("required")
    }
    assert "`assetsync --version`" in required["version"]
    assert "`assetsync check " in required["check"]
    assert "`assetsync status " in required["status"]


def test_pull_request_form_states_the_one_rule():
    rule = "an upload sent twice is two assets, for ever"
    assert rule in CONTRIBUTING
    assert rule in (ROOT / ".github/PULL_REQUEST_TEMPLATE.md").read_text("utf-8")


def test_help_of_the_checks_runs_none():
    done = subprocess.run(
        [sys.executable, "-m", "tests", "--help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=20
    )
    assert "`python -m tests --quick`" in done.stdout
    assert "== " not in done.stdout

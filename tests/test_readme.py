"""The README says what is the case."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from assetsync.cli.root import COMMANDS
from assetsync.core.states import diagram
from assetsync.ledger.ledger import open_ledger

from .reference import BLOCKS, keys, meanings, tables

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")


def between(mark):
    return README.split(f"<!-- {mark} -->")[1].split(f"<!-- /{mark} -->")[0].strip()


def test_state_diagram_matches_the_table():
    assert between("states") == f"```mermaid\n{diagram()}\n```"


@pytest.mark.parametrize("mark", ["demo", "checks"])
def test_setup_command_makes_environment(mark):
    lines = between(mark).splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("python3 -m venv .venv && ")


def test_readme_lists_exactly_all_commands():
    table = README.split("## Commands")[1].split("\n## ")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {word for cell in first_cells for word in re.findall(r"`([a-z]+)", cell)}
    assert named == set(COMMANDS)


@pytest.mark.parametrize("mark", list(BLOCKS))
def test_a_reference_is_up_to_date(mark):
    assert between(mark) == BLOCKS[mark](), "run `python -m tests.reference`"


def test_readme_lists_exactly_all_keys():
    known = {path for path, _ in keys()}
    sections = {path.rpartition(".")[0] for path in known} | {path.replace("[]", "") for path in known}
    said = set(meanings())
    assert known - said == set()
    assert said - known - sections == {"folders"} - sections


def test_ledger_matches_documented_columns(tmp_path):
    open_ledger(tmp_path / "x.db").close()
    with closing(sqlite3.connect(tmp_path / "x.db")) as db:
        real = {
            name: [(row[1], row[2]) for row in db.execute(f"PRAGMA table_info({name})")]
            for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if not name.startswith(("sqlite_", "_sqlite"))
        }
    documented = {name: [(column, kind) for column, kind, _ in columns] for name, (_, columns) in tables().items()}
    assert documented == real
    assert all(purpose for purpose, _ in tables().values())


def test_comparison_rows_name_a_source():
    section = README.split("## Beside other programs")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    named = re.findall(r"`([a-z_/]+\.py)`", section)
    assert len(named) >= 6
    assert [name for name in named if not (Path(__file__).parent / name).exists()] == []
    sources = set(re.findall(r"(?m)\[(\d)\] \[", section))
    for row in rows:
        assert set(re.findall(r"\[(\d)\]", row)) <= sources
        assert re.search(r"`[a-z_/]+\.py`|\[\d\]|a daemon", row), row

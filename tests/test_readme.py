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


def test_the_diagram_of_states_is_drawn_from_the_table():
    assert between("states") == f"```mermaid\n{diagram()}\n```"


@pytest.mark.parametrize("mark", ["demo", "checks"])
def test_a_set_up_command_is_one_line_that_makes_its_own_environment(mark):
    lines = between(mark).splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("python3 -m venv .venv && ")


def test_every_command_is_in_the_readme_and_every_command_in_the_readme_exists():
    table = README.split("## Commands")[1].split("\n## ")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {word for cell in first_cells for word in re.findall(r"`([a-z]+)", cell)}
    assert named == set(COMMANDS)


@pytest.mark.parametrize("mark", list(BLOCKS))
def test_a_reference_is_up_to_date(mark):
    assert between(mark) == BLOCKS[mark](), "run `python -m tests.reference`"


def test_every_key_of_the_configuration_has_a_meaning_and_no_key_is_made_up():
    known = {path for path, _ in keys()}
    sections = {path.rpartition(".")[0] for path in known} | {path.replace("[]", "") for path in known}
    said = set(meanings())
    assert known - said == set()
    assert said - known - sections == {"folders"} - sections


def test_the_ledger_has_the_tables_and_columns_that_are_documented(tmp_path):
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


def test_each_line_of_the_comparison_names_a_test_of_ours_or_a_source():
    section = README.split("## Beside other programs")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    named = re.findall(r"`([a-z_/]+\.py)`", section)
    assert len(named) >= 6
    assert [name for name in named if not (Path(__file__).parent / name).exists()] == []
    sources = set(re.findall(r"(?m)\[(\d)\] \[", section))
    for row in rows:
        assert set(re.findall(r"\[(\d)\]", row)) <= sources
        assert re.search(r"`[a-z_/]+\.py`|\[\d\]|a daemon", row), row

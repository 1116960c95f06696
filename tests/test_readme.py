"""The README says what is the case."""

import re
from pathlib import Path

import pytest

from assetsync.cli.root import COMMANDS
from assetsync.core.states import diagram

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

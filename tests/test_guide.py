"""The guide says what is the case: its references, its commands and its links."""

import re
import shlex
import sqlite3
from contextlib import closing
from importlib import import_module
from pathlib import Path

import click
import pytest

from assetsync.cli.commands.schema import meanings
from assetsync.cli.root import COMMANDS
from assetsync.ledger.ledger import open_ledger

from .reference import BLOCKS, EXAMPLE, GUIDE, keys, tables

ROOT = Path(__file__).parent.parent
PAGES = {page.stem: page.read_text("utf-8") for page in sorted(GUIDE.glob("*.md"))}
TEXTS = {f"assetsync/guide/{name}.md": text for name, text in PAGES.items()} | {
    name: (ROOT / name).read_text("utf-8")
    for name in (
        "README.md",
        "CONTRIBUTING.md",
        ".github/SECURITY.md",
        ".github/ISSUE_TEMPLATE/idea.yml",
        ".github/ISSUE_TEMPLATE/problem.yml",
        ".github/PULL_REQUEST_TEMPLATE.md",
        "assetsync/README.md",
        "tests/README.md",
        "systemd/README.md",
    )
}


def between(page, mark):
    return PAGES[page].split(f"<!-- {mark} -->")[1].split(f"<!-- /{mark} -->")[0].strip()


def test_guide_lists_exactly_all_commands():
    first_cells = [line.split("|")[1] for line in PAGES["commands"].splitlines() if line.startswith("| `")]
    named = {word for cell in first_cells for word in re.findall(r"`([a-z]+)", cell)}
    assert named == set(COMMANDS)


@pytest.mark.parametrize("mark", list(BLOCKS))
def test_a_reference_is_up_to_date(mark):
    page, made = BLOCKS[mark]
    assert between(page, mark) == made(), "run `python -m tests.reference`"


def test_guide_lists_exactly_all_keys():
    known = {path for path, _ in keys()}
    sections = {path.rpartition(".")[0] for path in known} | {path.replace("[]", "") for path in known}
    said = set(meanings(EXAMPLE.read_text("utf-8")))
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
    page = PAGES["compared-with"]
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    named = re.findall(r"`([a-z_/]+\.py)`", page)
    assert len(named) >= 6
    assert [name for name in named if not (Path(__file__).parent / name).exists()] == []
    sources = set(re.findall(r"(?m)\[(\d)\] \[", page))
    for row in rows:
        assert set(re.findall(r"\[(\d)\]", row)) <= sources
        assert re.search(r"`[a-z_/]+\.py`|\[\d\]|a daemon", row), row


def anchors(text):
    headings = re.findall(r"(?m)^#+ (.*)$", text)
    made = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return made | set(re.findall(r'<a id="([^"]+)">', text))


@pytest.mark.parametrize("name", list(TEXTS))
def test_no_link_is_dead(name):
    for target in re.findall(r"\]\(([^)\s]+)\)", TEXTS[name]):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / name).parent / path if path else ROOT / name
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.read_text("utf-8")), target


def options_of(words):
    """Return the options of the command that the words call, and the words behind it."""
    command = import_module(f"assetsync.cli.commands.{words[0]}").command
    rest = words[1:]
    while isinstance(command, click.Group) and rest and rest[0] in command.commands:
        command, rest = command.commands[rest[0]], rest[1:]
    return {option for param in command.params for option in param.opts} | {"--help"}, rest


@pytest.mark.parametrize("name", list(TEXTS))
def test_quoted_commands_and_options_exist(name):
    """Commands in running text; those in console blocks are run by test_readme_commands."""
    for quoted in re.findall(r"`assetsync ([a-z][^`\n]*)`", TEXTS[name]):
        words = shlex.split(quoted.replace("…", ""))
        if words[0] not in COMMANDS:
            assert words[0] == "run" or words == ["COMMAND"], quoted
        options, rest = options_of(words)
        assert {word.partition("=")[0] for word in rest if word.startswith("--")} <= options, quoted


def test_each_page_begins_with_a_summary():
    for name, text in PAGES.items():
        title, blank, summary = text.splitlines()[:3]
        assert re.fullmatch(r"# [A-Z].*", title), name
        assert not blank
        assert summary.split("`")[0].strip() or summary, name
        assert not summary.startswith(("|", "#", "-")), name

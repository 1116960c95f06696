"""Every command explains itself, and what its help shows as an example can be typed.

Covers `cli/root.py`.
"""

import re
import shlex
import subprocess
import sys

import click
import pytest

from assetsync.cli.root import root
from assetsync.sandbox import FaultKind, Operation


def commands(command=root, names=()):
    """Give every command that does something, with its words."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from commands(command.get_command(click.Context(command), name), (*names, name))
    else:
        yield names, command


COMMANDS = dict(commands())


def examples(command: click.Command) -> list[str]:
    """Give the lines below `Examples:`, those that go on joined."""
    block = re.split(r"\n *Examples?:\n", command.help.replace("\b", ""))[1]
    lines = re.sub(r"\\\n\s*", "", block.split("\n\n")[0]).splitlines()
    return [line.strip() for line in lines]


EXAMPLES = [line for command in COMMANDS.values() for line in examples(command) if line.startswith("assetsync ")]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder in which the files that examples name are there."""
    (tmp_path / "hq.yaml").write_text(
        f"site: hq\nroot: {tmp_path}/srv\nservice: {{base_url: https://d.example/r, upload_url: https://d.example/r/u}}\n"
        'folders: [{path: ., destfolderid: "A"}]\n'
    )
    (tmp_path / "harbour.jpg").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words_of(line: str) -> list[str]:
    """Give the words of an example up to the pipe, the redirection or the comment behind it."""
    line = line.replace("/etc/assetsync/hq.yaml", "hq.yaml").replace("$(jq -r .assetid files.json)", "A1 B2")
    # A pipe or a redirection stands between blanks, and has an even number of quotes behind it.
    own = re.split(r" [|>] (?=(?:[^']*'[^']*')*[^']*$)", line)[0]
    return shlex.split(own, comments=True)[1:]


def parse(words: list[str]) -> click.Context:
    context = root.make_context("assetsync", list(words))
    command = root
    while isinstance(command, click.Group):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)
    return context


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_command_help_has_an_example(names):
    command = COMMANDS[names]
    assert len(examples(command)) >= 1
    assert any(line.startswith(f"assetsync {' '.join(names)}") for line in examples(command))
    assert command.help.split("\n")[0].rstrip(".") != ""
    undocumented = [param.name for param in command.params if isinstance(param, click.Option) and not param.help]
    assert undocumented == []


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_can_be_typed(line, place):
    context = parse(words_of(line))
    assert context.command.name in line


def test_mistake_in_help_example_is_detected(place):
    with pytest.raises(click.UsageError):
        parse(words_of("assetsync files --config hq.yaml --sate blocked"))


def test_help_lines_fit_the_terminal():
    for names, command in COMMANDS.items():
        with click.Context(command, info_name=" ".join(names), terminal_width=80, max_content_width=100) as context:
            wide = [line for line in command.get_help(context).splitlines() if len(line) > 118]
        assert wide == [], names


def test_sandbox_help_lists_all_faults():
    said = set(re.findall(r"[a-z_]+", COMMANDS["sandbox",].help))
    assert {str(word) for word in (*FaultKind, *Operation)} <= said


@pytest.mark.parametrize("library", ["PIL", "starlette", "uvicorn"])
def test_help_without_extra_names_no_sandbox(library):
    code = f"""\
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name == {library!r} else find(name, *rest)
from assetsync.cli.entry import run
run(["--help"])
"""
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert not re.search("demo|sandbox", shown)
    assert "Begin with `assetsync init`" in shown


def test_help_with_extra_begins_with_demo():
    command = [sys.executable, "-m", "assetsync", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Begin with `assetsync demo`" in shown
    assert {"demo", "sandbox"} <= {line.split()[0] for line in shown.splitlines() if line.strip()}

"""Each module of the package has tests in a place where a reader finds them, and the package does not grow."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE, TESTS = ROOT / "assetsync", ROOT / "tests"
ENGINE = ("sync", "ledger", "core", "service")

MOST_LINES = {
    "package": 43_478,  # without the sandbox
    "engine": 24_484,
}
"""The lines of the package and of its engine. Each may grow by 1 %: remove first what a change makes unnecessary.

Lower a number whenever it fell. Raise it only with the reason, in a comment beside it: what the lines are for, and why
nothing could go instead. Code that moves out of the engine still counts in the package.
"""


@cache
def docstrings() -> dict[Path, str]:
    files = sorted(TESTS.rglob("test_*.py"))
    return {path: ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "" for path in files}


def named_modules() -> set[str]:
    """Return the modules that docstrings of test files name, such as `sync/observer.py`."""
    text = "\n".join(docstrings().values())
    slashed = re.findall(r"(?<![\w/])(?:assetsync/|tests/)?([a-z_/]+\.py)\b", text)
    dotted = re.findall(r"\bassetsync\.([a-z_.]+[a-z])", text)
    return {*slashed, *(f"{name.replace('.', '/')}.py" for name in dotted)}


def test_each_module_has_a_test_file():
    """The file has the module's name and folder, or its docstring names the module."""
    modules = [path.relative_to(PACKAGE) for path in sorted(PACKAGE.rglob("*.py")) if not path.stem.startswith("__")]
    assert len(modules) > 100
    named = named_modules()
    without = [
        str(module)
        for module in modules
        if not (TESTS / module.parent / f"test_{module.name}").is_file() and str(module) not in named
    ]
    assert without == []


def test_no_assertion_shows_a_bare_number():
    """`assert count == 14` fails as `assert 15 == 14`: compare what was counted, or name it after a comma."""

    def is_bare(node: ast.AST) -> bool:
        if not isinstance(node, ast.Assert) or node.msg is not None or not isinstance(node.test, ast.Compare):
            return False
        sides = [node.test.left, *node.test.comparators]
        return {type(side) for side in sides} == {ast.Name, ast.Constant} and all(
            type(side.value) is int for side in sides if isinstance(side, ast.Constant)
        )

    bare = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted(TESTS.rglob("*.py"))
        if re.search(r"assert \w+ [=!<>]=? \d", path.read_text("utf-8"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if is_bare(node)
    ]
    assert bare == []


def test_docstrings_name_existing_files():
    named = named_modules()
    assert len(named) > 30
    assert [name for name in sorted(named) if not (PACKAGE / name).is_file() and not (TESTS / name).is_file()] == []


def lines_of(*folders: str) -> int:
    files = [path for folder in folders for path in (PACKAGE / folder).rglob("*.py")]
    return sum(len(path.read_text("utf-8").splitlines()) for path in files)


def test_code_does_not_grow():
    lines = {"package": lines_of("") - lines_of("sandbox"), "engine": lines_of(*ENGINE)}
    grown = {part: count for part, count in lines.items() if count > MOST_LINES[part] * 1.01}
    assert grown == {}

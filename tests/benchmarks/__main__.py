"""Run benchmarks and print their tables: `python -m tests.benchmarks NAME…` or `all`, with `--small` for a quick try.

Each module beside this one that has a `run` is one; without arguments they are listed. The figures are ratios between
peers of one run, and nothing fails because of a time.
"""

import argparse
import ast
import compileall
import importlib
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from .frame import ROOT, Bench, Missing, machine

_LAST = ("first_sight", "watching", "reconcile")
"""Those that leave a disk a hundred thousand files and more to clear away, which it does long after they have ended."""


def benchmarks() -> dict[str, str]:
    """Give the first line that each benchmark says of itself, by name."""
    found = {}
    for file in sorted(Path(__file__).parent.glob("*.py")):
        tree = ast.parse(file.read_text())
        if any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body):
            found[file.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def main() -> int:
    known = benchmarks()
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description="\n".join(f"{name:16} {said}" for name, said in known.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="+", choices=["all", *known], metavar="NAME")
    parser.add_argument("--small", action="store_true", help="small sizes: whether it works, not what it costs")
    parser.add_argument("--scratch", type=Path, help="where trees and ledgers go (default: a temporary folder)")
    parser.add_argument("--keep", action="store_true", help="use what lies in --scratch already, and leave it there")
    given = parser.parse_args()
    if given.keep and given.scratch is None:
        parser.error("--keep needs --scratch")
    # As pip installs it. Without its bytecode each start would compile the program, where the environment forbids to
    # write it (PYTHONDONTWRITEBYTECODE).
    compileall.compile_dir(ROOT / "assetsync", quiet=1)
    print(machine(), flush=True)
    left_out = False
    in_order = [*(name for name in known if name not in _LAST), *_LAST]
    for name in in_order if "all" in given.names else given.names:
        # What was left to be written of a million files holds up each commit of what comes next.
        os.sync()
        with ExitStack() as stack:
            if given.keep:
                scratch = given.scratch / name
                scratch.mkdir(parents=True, exist_ok=True)
            else:
                made = tempfile.TemporaryDirectory(dir=given.scratch, prefix=f"bench-{name}-")
                scratch = Path(stack.enter_context(made))
            module = importlib.import_module(f"tests.benchmarks.{name}")
            try:
                for table in module.run(Bench(given.small, scratch)):
                    print(f"\n{table}", flush=True)
            except Missing as error:
                left_out = True
                print(f"\n### {name}: left out, because {error}", flush=True)
    return int(left_out)


if __name__ == "__main__":
    sys.exit(main())

"""Run every check, as CI does: `python -m tests`; arguments go to pytest (`--long` for the long randomized runs).

`python -m tests --quick` is for use after each edit: ruff, mypy, import-linter, and the tests that start no process,
serve no sandbox and simulate no long time (the rule is in `tests/quick.py`). `--changed` runs those of them that the
packages need that differ from the last commit, or, without a difference, those that it changed (`tests/changed.py`).

Many tests wait for processes, so six run at once, of which two compute (`tests/conftest.py`); `-n 0` runs them one by
one. A test that does not end is ended, with the place where it was, so that it does not keep silent about all others.
"""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.changed import changed_files, needed_by

ROOT = Path(__file__).parent.parent

_HANGS = "600"
"""Seconds after which a test is taken to hang; the slowest, the soak, takes a quarter of that."""


def tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def pytest_arguments(said: list[str]) -> list[str]:
    if "--changed" in said:
        said = ["--quick", *(word for word in said if word != "--changed"), *needed_by(changed_files(ROOT), ROOT)]
    # The long ones take hours.
    ends = [] if "--long" in said else [f"faulthandler_timeout={_HANGS}", "faulthandler_exit_on_timeout=true"]
    # Few of the quick ones wait, and each worker first collects all tests.
    workers = "3" if "--quick" in said else "6"
    return ["-q", "-n", workers, *(word for end in ends for word in ("-o", end)), *said]


CHECKS = {
    "ruff check": [tool("ruff"), "check", "."],
    "ruff format": [tool("ruff"), "format", "--check", "."],
    "import-linter": [tool("lint-imports")],
    "mypy --strict": [tool("mypy")],
    "pytest": [sys.executable, "-m", "pytest", *pytest_arguments(sys.argv[1:])],
}


def environment() -> dict[str, str]:
    """Return the environment without the wish for no bytecode: each process of a test would compile the program."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def compile_tests() -> None:
    """Let pytest compile the tests of a fresh clone once: each of its workers would, and take ten seconds for it."""
    if not any(ROOT.glob("tests/__pycache__/*-pytest-*.pyc")):
        collect = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-n", "0"]
        subprocess.run(collect, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, check=False)


def passes(name: str) -> bool:
    """Run a check, whose output is printed once it has ended, except that of pytest."""
    started = time.monotonic()
    if name == "pytest":
        compile_tests()
    shown = None if name == "pytest" else subprocess.PIPE
    done = subprocess.run(
        CHECKS[name], cwd=ROOT, env=environment(), stdout=shown, stderr=subprocess.STDOUT, check=False
    )
    print(f"{(done.stdout or b'').decode()}== {name}: {time.monotonic() - started:.0f} s", flush=True)
    return done.returncode == 0


def main() -> int:
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    # The types are checked beside pytest: they need one core, and the workers of pytest begin with little to do.
    with ThreadPoolExecutor(len(CHECKS)) as beside:
        results = dict(zip(CHECKS, beside.map(passes, CHECKS), strict=True))
    failed = [name for name, passed in results.items() if not passed]
    print(f"failed: {', '.join(failed)}" if failed else "all checks passed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

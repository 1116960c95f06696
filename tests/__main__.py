"""Run every check, as CI does: `python -m tests`; arguments go to pytest (`--long` for the long randomized runs).

`python -m tests --quick` is for use after each edit: ruff, mypy, import-linter, and the tests that start no process,
serve no sandbox and simulate no long time (the rule is in `tests/quick.py`).

Many tests wait for processes, so more of them run at once than there are cores; `-n 0` runs them one by one. A test
that does not end is ended, with the place where it was, so that it does not keep silent about all others.
"""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent

_HANGS = "600"
"""Seconds after which a test is taken to hang; the slowest, the soak, takes a quarter of that."""


def tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def pytest_arguments(said: list[str]) -> list[str]:
    # The long ones take hours.
    ends = [] if "--long" in said else [f"faulthandler_timeout={_HANGS}", "faulthandler_exit_on_timeout=true"]
    return ["-q", "-n", "3", *(word for end in ends for word in ("-o", end)), *said]


CHECKS = (
    ("ruff check", [tool("ruff"), "check", "."]),
    ("ruff format", [tool("ruff"), "format", "--check", "."]),
    ("mypy --strict", [tool("mypy")]),
    ("import-linter", [tool("lint-imports")]),
    ("pytest", [sys.executable, "-m", "pytest", *pytest_arguments(sys.argv[1:])]),
)


def main() -> int:
    failed = []
    for name, command in CHECKS:
        print(f"== {name}", flush=True)
        started = time.monotonic()
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(name)
        print(f"== {name}: {time.monotonic() - started:.0f} s", flush=True)
    print(f"failed: {', '.join(failed)}" if failed else "all checks passed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

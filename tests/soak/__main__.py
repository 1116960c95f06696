"""Soak a daemon for any length: `python -m tests.soak --hours 8`, as root.

Print the seed, a line of samples a minute, and a table of figures at the end. Exit with 1 if something grew or failed.
"""

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

from .soak import ROOT_ONLY, Soak, figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.partition("\n")[0])
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--hours", type=float)
    length.add_argument("--minutes", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**8), help="default: a new one")
    parser.add_argument("--scratch", type=Path, help="where tree, ledger and service are (default: a temporary folder)")
    parser.add_argument("--lying", action="store_true", help="let searches show something else than what is there")
    given = parser.parse_args()
    if os.geteuid() != 0:
        parser.error(ROOT_ONLY)
    seconds = given.hours * 3600 if given.hours is not None else given.minutes * 60
    print(f"seed {given.seed}, {seconds / 60:.0f} minutes", flush=True)
    with tempfile.TemporaryDirectory(prefix="assetsync-soak-", dir=given.scratch) as folder:
        os.environ["RUNTIME_DIRECTORY"] = folder
        soak = Soak(Path(folder), given.seed, lambda line: print(line, flush=True), lying=given.lying)
        soak.run(seconds)
    for part, taken in soak.parts.items():
        if len(taken) > 4:
            print(f"\n{part}, {len(taken)} cycles, {taken[-1].files:,} files\n{figures(taken)}")
    print("\n".join(["", *soak.failures]) if soak.failures else "\nnothing grew, nothing lost, nothing twice")
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())

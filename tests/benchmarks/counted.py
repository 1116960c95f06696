"""Runs assetsync and writes how many transactions it wrote to its ledger: `python counted.py FILE ARGUMENT…`.

The ledger counts them itself; the program that is measured does nothing else than without this.
"""

import json
import sys
from pathlib import Path
from typing import Any

from assetsync.cli import main
from assetsync.ledger.file.group_commit import Commits


def run(file: str, *arguments: str) -> int:
    made: list[Commits] = []
    begin = Commits.__init__

    def noted(self: Commits, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        made.append(self)

    Commits.__init__ = noted  # type: ignore[method-assign]
    sys.argv = ["assetsync", *arguments]
    try:
        return main()
    finally:
        Path(file).write_text(json.dumps({"commits": sum(commits.count for commits in made)}))


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:]))

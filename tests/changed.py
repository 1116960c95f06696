"""The tests that `--changed` runs: those of the packages that differ from the last commit.

A module's tests are those of its folder, because `tests/` mirrors the package. Tests of other packages that would also
notice the change are left to `--quick`.
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path, PurePath

_PAGES = ("tests/test_contributing.py", "tests/test_guide.py", "tests/test_readme.py", "tests/test_changelog.py")
_OF_ALL = ("tests/test_structure.py",)


def changed_files(root: Path) -> list[PurePath]:
    """Return the files that differ from the last commit, or those that it changed if none does."""
    known = ["status", "--porcelain", "--no-renames", "--untracked-files=all", "-z"]
    differing = [line[3:] for line in _git(root, *known)]
    last = _git(root, "show", "--name-only", "--no-renames", "--format=", "-z", "HEAD")
    return [PurePath(path) for path in differing or last]


def needed_by(files: Iterable[PurePath], root: Path) -> list[str]:
    """Return the files and folders of tests that these files need, relative to the root; none is named twice."""
    found = dict.fromkeys(_OF_ALL)
    for file in files:
        if file.suffix != ".py":
            found |= dict.fromkeys(() if file.parts[0] == "tests" else _PAGES)
        elif (place := _place(PurePath(*file.parts[1:]), root)) is not None:
            found[place] = None
    return [place for place in found if not any(str(above) in found for above in PurePath(place).parents)]


def _place(inside: PurePath, root: Path) -> str | None:
    """Return the tests of a file, by its path inside `assetsync` or `tests`: their folder, or a file above all."""
    own = PurePath("tests", inside.with_name(f"test_{inside.stem.removeprefix('test_')}.py"))
    folder = PurePath("tests", inside.parent)
    if folder == PurePath("tests"):
        return str(own) if (root / own).exists() else None
    while not (root / folder).is_dir():
        folder = folder.parent
    return None if folder == PurePath("tests") else str(folder)


def _git(root: Path, *words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True)
    return [line for line in done.stdout.split("\0") if line]

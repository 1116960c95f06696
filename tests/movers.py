"""People who move folders about: in a tree, between its mapped folders, out of it and back."""

import ctypes
import os
import random
import shutil
from collections.abc import Collection
from pathlib import Path

_HERE = -100
"""AT_FDCWD."""
_EXCHANGE = 2
"""RENAME_EXCHANGE of renameat2(2)."""


def exchange(one: Path, other: Path) -> None:
    """Let two folders change places in one step."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE):
        raise OSError(ctypes.get_errno(), f"{one} and {other} cannot be exchanged")


class Movers:
    """Move folders in a tree and out of it; few names, so that a folder often takes the name of another."""

    def __init__(self, tree: Path, mapped: Collection[str], rng: random.Random) -> None:
        """Begin with a file in each mapped folder, in one that is not mapped, and in one outside of the tree."""
        self._tree = tree
        self._outside = tree.parent / "outside"
        self._mapped = [tree / name for name in mapped]
        self._tops = [*self._mapped, tree / "unmapped", self._outside]
        self._rng = rng
        self._files = 0
        self.count = 0
        """The number of things done."""
        self._works = {
            self._grow: 6,
            self._move: 10,
            self._exchange: 4,
            self._rotate: 3,
            self._replace: 2,
            self._rename_and_make: 4,
            self._out_and_back: 3,
            self._move_file: 3,
            self._remove: 2,
            self._write: 4,
        }
        for top in self._tops:
            top.mkdir(parents=True, exist_ok=True)
            # A mapped folder without files pulls a brake.
            self._write_to(top)

    def work(self) -> None:
        """Do one thing, if there is anything to do it to."""
        folders = self._folders()
        works = dict(self._works) if len(folders) < 60 else {self._remove: 1}
        [do] = self._rng.choices(list(works), list(works.values()))
        do()
        self.count += 1

    def write_everywhere(self) -> None:
        """Write a file into each mapped folder, and into all below them."""
        for folder in self._below(self._mapped):
            self._write_to(folder)

    def files(self) -> dict[str, bytes]:
        """Give the path below the tree, and the content, of each mapped file."""
        found = (path for top in self._mapped for path in top.rglob("*.bin"))
        return {str(path.relative_to(self._tree)): path.read_bytes() for path in found}

    def _folders(self) -> list[Path]:
        return self._below(self._tops)

    def _below(self, tops: list[Path]) -> list[Path]:
        return [Path(folder) for top in tops for folder, *_ in os.walk(top)]

    def _some(self, but: Path | None = None) -> Path | None:
        """Give a folder that may be moved; none above or below `but`."""
        found = [folder for folder in self._folders() if folder not in self._tops]
        if but is not None:
            found = [folder for folder in found if not folder.is_relative_to(but) and not but.is_relative_to(folder)]
        return self._rng.choice(found) if found else None

    def _place(self, but: Path | None = None) -> Path:
        """Give a path at which there is nothing, outside of `but`."""
        while True:
            parent = self._rng.choice(self._folders())
            if (but is None or not parent.is_relative_to(but)) and len(parent.parts) < len(self._tree.parts) + 6:
                place = parent / self._rng.choice("abcde")
                if not place.exists():
                    return place

    def _write_to(self, folder: Path) -> None:
        self._files += 1
        (folder / f"{self._files}.bin").write_bytes(b"%d %d" % (self._files, self._rng.getrandbits(64)))

    def _write(self) -> None:
        self._write_to(self._rng.choice(self._folders()))

    def _grow(self) -> None:
        place = self._place()
        for name in ["", *self._rng.choices("abcde", k=self._rng.randrange(3))]:
            place /= name
            place.mkdir()
            self._write_to(place)

    def _move(self) -> None:
        if (folder := self._some()) is not None:
            folder.rename(self._place(folder))

    def _exchange(self) -> None:
        folder = self._some()
        other = None if folder is None else self._some(folder)
        if other is not None:
            exchange(folder, other)

    def _rotate(self) -> None:
        folder = self._some()
        other = None if folder is None else self._some(folder)
        if other is not None:
            between = folder.with_name("between")
            folder.rename(between)
            other.rename(folder)
            between.rename(other)

    def _replace(self) -> None:
        if (folder := self._some()) is not None:
            place = self._place(folder)
            place.mkdir()
            folder.rename(place)

    def _rename_and_make(self) -> None:
        if (folder := self._some()) is not None:
            folder.rename(self._place(folder))
            folder.mkdir()
            self._write_to(folder)

    def _out_and_back(self) -> None:
        if (folder := self._some()) is not None:
            away = self._outside / "away"
            folder.rename(away)
            if self._rng.random() < 0.5:
                self._write_to(away)
            away.rename(self._rng.choice([folder, self._place(away)]))

    def _move_file(self) -> None:
        files = [path for folder in self._folders() if folder not in self._tops for path in folder.glob("*.bin")]
        if files:
            file = self._rng.choice(files)
            file.rename(self._rng.choice(self._folders()) / file.name)

    def _remove(self) -> None:
        if (folder := self._some()) is not None:
            shutil.rmtree(folder)

"""What happens to the daemon in one cycle: people at work in its tree and the weather of its service."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from assetsync.sandbox import FaultKind, FaultRule, Operation
from tests.faults.hardship import People, md5_of

from .service import ServiceProcess

MOST_FILES = 60
"""The tree stays as large: with so many files, one is deleted instead of another saved."""

_LARGE = 8 * 1024**2
_LARGE_SHARE = 0.1


class Staff(People):
    """People who also move files out of the tree and back, write sidecars, and keep the tree small."""

    def __init__(self, roots: list[Path], outside: Path, rng: random.Random) -> None:
        """Begin with one file in each root that nobody touches: a folder that is suddenly empty stops uploads."""
        super().__init__(roots, rng)
        self._outside = outside
        self._out: dict[Path, str] = {}
        self._works |= {self._move_out: 3, self._move_back: 3, self._write_sidecar: 5, self._rename_folder: 5}
        self._kept: dict[Path, str] = {}
        for root in roots:
            path, data = root / "kept.bin", self._content(9_000)
            path.write_bytes(data)
            self._kept[path] = md5_of(data)
            self.came[root, md5_of(data)] += 1

    def work(self) -> None:
        if len(self.lies) >= MOST_FILES:
            self._delete()
        super().work()

    def in_tree(self) -> dict[Path, str]:
        """Return the MD5 of every file in the tree."""
        return self.lies | self._kept

    def lying(self) -> Counter[tuple[Path, str]]:
        return super().lying() + Counter((self.root_of(path), md5) for path, md5 in self._kept.items())

    def wants(self, md5: str) -> bool:
        """Return whether a file of this content is in the tree, or may come back."""
        return md5 in {*self.lies.values(), *self._kept.values(), *self._out.values()}

    def tidy(self) -> None:
        """Remove the sidecars whose files are elsewhere by now."""
        for root in self._roots:
            for sidecar in root.rglob("*.yaml"):
                if not sidecar.with_suffix("").exists():
                    sidecar.unlink()

    def _content(self, *sizes: int) -> bytes:
        large = self._rng.random() < _LARGE_SHARE
        return super()._content(*[size for size in sizes if large or size < _LARGE])

    def _move_out(self) -> None:
        if (old := self._some()) is not None:
            new = self._outside / self._name("o")
            old.rename(new)
            self._out[new] = self.lies.pop(old)

    def _move_back(self) -> None:
        if self._out:
            old = self._rng.choice(list(self._out))
            new = self._folder() / self._name("b")
            old.rename(new)
            self._lies(new, self._out.pop(old))

    def _write_sidecar(self) -> None:
        """Write the sidecar of a file that is there, or of one that comes right after it."""
        known = self._some() if self._rng.random() < 0.5 else None
        path = known or self._folder() / self._name("s")
        path.with_name(f"{path.name}.yaml").write_text(f"description: number {self._rng.random()}\n", "utf-8")
        if known is None:
            data = self._content(9_000)
            path.write_bytes(data)
            self._lies(path, md5_of(data))


KINDS = ("fair", "slow", "failing", "storing", "away")

LIES = (
    [FaultRule(kind=FaultKind.FOLDER_CASE)],
    [FaultRule(kind=FaultKind.FOLDER_EMPTY)],
    [FaultRule(kind=FaultKind.FOLDER_MISSING)],
    [FaultRule(kind=FaultKind.FOLDER_EMPTY), FaultRule(kind=FaultKind.UNKNOWN_FOLDER_LISTED)],
    [FaultRule(kind=FaultKind.PAGED), FaultRule(kind=FaultKind.UNORDERED)],
    [FaultRule(kind=FaultKind.PAGED), FaultRule(kind=FaultKind.SHIFTED, rows=3)],
    [FaultRule(kind=FaultKind.CAPPED, rows=5)],
    [FaultRule(kind=FaultKind.OTHER_FOLDER, probability=0.5)],
    [FaultRule(kind=FaultKind.NO_RIGHT, times=5)],
)
"""What the service may lie about in its listings in all weathers of a cycle."""


@contextmanager
def weather(kind: str, service: ServiceProcess, lies: Sequence[FaultRule] = ()) -> Iterator[None]:
    """Have the service answer well, slowly, one upload with 500, one with 500 after it is stored, or not at all.

    Its searches lie all the while. A 500 that no upload met within the block is gone.
    """
    if kind == "away":
        service.stop()
        yield
        service.start()
        return
    once = FaultRule(kind=FaultKind.STATUS, operation=Operation.UPLOAD, status=500, times=1)
    rules = {
        "fair": [],
        "slow": [FaultRule(kind=FaultKind.LATENCY, seconds=0.3)],
        "failing": [once],
        "storing": [replace(once, stored=True)],
    }
    service.set_faults([*rules[kind], *lies])
    yield
    service.set_faults([])

"""A tree whose root fails now and then, for a moment: unmounted and mounted again, an error of a network or a disk."""

import errno
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager

from assetsync.errors import RootMissing
from assetsync.tree.safe_open import Tree

_TROUBLE = (errno.EIO, errno.ESTALE, errno.EMFILE)


class Unsteady:
    """How often the root fails, until it is `mended`."""

    def __init__(self, share: float, seed: str) -> None:
        self._share = share
        self._chance = random.Random(seed)

    def fail(self) -> None:
        """Raise what a root that fails raises, or nothing."""
        draw = self._chance.random()
        if draw < self._share / 2:
            raise RootMissing("the root is not there at the moment")
        if draw < self._share:
            number = self._chance.choice(_TROUBLE)
            raise OSError(number, os.strerror(number))

    def mend(self) -> None:
        """Let the root be what it is from here on."""
        self._share = 0.0


@contextmanager
def unsteady_tree(share: float, seed: str) -> Iterator[Unsteady]:
    """Let every look into any tree fail in this share of the cases."""
    unsteady, open_root = Unsteady(share, seed), Tree._open_root

    def opened(tree: Tree, mode: int) -> int:
        unsteady.fail()
        return open_root(tree, mode)

    Tree._open_root = opened  # type: ignore[method-assign]
    try:
        yield unsteady
    finally:
        Tree._open_root = open_root  # type: ignore[method-assign]

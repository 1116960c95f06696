"""Small trees on a real disk, and a plan that says what a test wants it to say."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

NOBODY = 65534


class Plan:
    """A scan's plan over {folder: sidecars on}; `ignore` names the paths (b"x/" for folders) that rules leave out."""

    def __init__(self, folders: Mapping[bytes, bool], ignore: frozenset[bytes]) -> None:
        self._folders = list(folders)
        self._sidecars = list(folders.values())
        self._ignore = ignore

    def folders(self) -> list[bytes]:
        return self._folders

    def mapping_of(self, folder: bytes) -> int | None:
        holding = [i for i, f in enumerate(self._folders) if f in {b"", folder} or folder.startswith(f + b"/")]
        return max(holding, key=lambda i: len(self._folders[i]), default=None)

    def descend(self, folder: bytes) -> bool:
        return any(not folder or f == folder or f.startswith(folder + b"/") for f in self._folders)

    def ignored(self, path: bytes, is_dir: bool, mapping: int | None) -> bool:
        return (path + b"/" if is_dir else path) in self._ignore

    def sidecars_on(self, mapping: int) -> bool:
        return self._sidecars[mapping]

    def xmp_on(self, mapping: int) -> bool:
        return self._sidecars[mapping]


@pytest.fixture
def make_plan() -> Callable[..., Plan]:
    def make(folders: Mapping[bytes, bool] | None = None, *, ignore: tuple[bytes, ...] = ()) -> Plan:
        return Plan({b"": True} if folders is None else folders, frozenset(ignore))

    return make


@pytest.fixture
def make_tree(tmp_path: Path) -> Callable[..., bytes]:
    """Write files by relative path, folders as needed; a path that ends in `/` is an empty folder."""

    def make(*paths: bytes, content: bytes = b"x") -> bytes:
        root = os.fsencode(tmp_path / "root")
        os.makedirs(root, exist_ok=True)
        for path in paths:
            full = root + b"/" + path
            os.makedirs(os.path.dirname(full), exist_ok=True)
            if not path.endswith(b"/"):
                with open(full, "wb") as file:
                    file.write(content)
        for folder, _, files in os.walk(root):
            os.chmod(folder, 0o755)
            for name in files:
                os.chmod(folder + b"/" + name, 0o644)
        return root

    return make


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that everyone may enter, unlike pytest's own: some tests look at it with the eyes of nobody."""
    with tempfile.TemporaryDirectory(prefix="assetsync-tree-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.fixture
def unprivileged(tmp_path: Path) -> Callable[[], AbstractContextManager[None]]:
    """A context in which permissions count, whoever runs the tests."""

    @contextmanager
    def drop() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        os.seteuid(NOBODY)
        try:
            if not os.access(tmp_path, os.X_OK, effective_ids=True):
                pytest.skip(f"nobody may not enter {tmp_path}: set TMPDIR to a place that is open to all")
            yield
        finally:
            os.seteuid(0)

    return drop

"""The configuration's mappings and ignore rules, in the form that a scan needs.

The rules themselves are left to `core.mapping` and `core.ignore`.
"""

import hashlib
from collections.abc import Sequence

from assetsync.core.ignore import BUILT_IN
from assetsync.core.mapping import IgnoreRules, Mappings
from assetsync.core.metadata import FOLDER_SIDECAR, SUFFIX, is_sidecar_name


class Plan:
    """Decides what is mapped, what is ignored and where sidecars are enabled (`tree.scan.ScanPlan`)."""

    def __init__(self, mappings: Mappings, ignore: Sequence[str]) -> None:
        self.mappings = mappings
        self._rules = IgnoreRules(mappings, ignore)
        told = [(m.path, m.destfolderid, m.ignore, m.sidecars) for m in mappings.all]
        self.mark = hashlib.sha256(repr((told, tuple(ignore), BUILT_IN)).encode()).hexdigest()
        """Digest of the rules: different rules that could change the result of a scan have different digests."""

    def folders(self) -> Sequence[bytes]:
        """Return the folder of each mapping."""
        return [mapping.path for mapping in self.mappings.all]

    def mapping_of(self, folder: bytes) -> int | None:
        """Return the position of the mapping that holds the folder, None if it is not mapped."""
        return self.mappings.for_directory(folder)

    def descend(self, folder: bytes) -> bool:
        """Return whether the folder or one below it is mapped."""
        return self.mappings.has_at_or_below(folder)

    def ignored(self, path: bytes, is_dir: bool, mapping: int | None) -> bool:
        """Return whether the rules leave the entry out; a sidecar only together with its file or folder."""
        if not self._rules.ignored(path, is_dir):
            return False
        if is_dir or mapping is None or not is_sidecar_name(path) or not self.sidecars_on(mapping):
            return True
        # The sidecar of a file that is sent is read, even if a rule matches the name of the sidecar.
        folder, _, name = path.rpartition(b"/")
        ignored = self._rules.ignored
        return ignored(folder, is_dir=True) if name == FOLDER_SIDECAR else ignored(path.removesuffix(SUFFIX), False)

    def sidecars_on(self, mapping: int) -> bool:
        """Return whether the `*.yaml` files of the mapping are sidecars."""
        return self.mappings.all[mapping].sidecars

    def is_sidecar(self, path: bytes) -> bool:
        """Return whether a scan would treat the file at `path` as a sidecar."""
        folder, _, name = path.rpartition(b"/")
        mapping = self.mapping_of(folder)
        if mapping is None:
            return name == FOLDER_SIDECAR and self.descend(folder)
        return is_sidecar_name(name) and self.sidecars_on(mapping) and not self.ignored(path, False, mapping)

    def covers(self, path: bytes) -> int | None:
        """Return the position of the mapping by which a file at `path` would be sent, None if it would not."""
        # An absolute path belongs to an upload by hand, not to the tree.
        mapping = None if path.startswith(b"/") else self.mapping_of(path.rpartition(b"/")[0])
        if mapping is None or self._rules.ignored(path, is_dir=False):
            return None
        return mapping

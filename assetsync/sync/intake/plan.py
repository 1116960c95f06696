"""The configuration's mappings and ignore rules in the shape that a scan asks for them."""

import hashlib
from collections.abc import Sequence

from assetsync.core.ignore import BUILT_IN
from assetsync.core.mapping import IgnoreRules, Mappings
from assetsync.core.metadata import FOLDER_SIDECAR, SUFFIX, is_sidecar_name


class Plan:
    """What is mapped, what is ignored and where sidecars are on (`tree.scan.ScanPlan`)."""

    def __init__(self, mappings: Mappings, ignore: Sequence[str]) -> None:
        self.mappings = mappings
        self._rules = IgnoreRules(mappings, ignore)
        told = [(m.path, m.destfolderid, m.ignore, m.sidecars) for m in mappings.all]
        self.mark = hashlib.sha256(repr((told, tuple(ignore), BUILT_IN)).encode()).hexdigest()
        """What a scan by these rules is remembered under: another for each difference in what it would say."""

    def folders(self) -> Sequence[bytes]:
        """Give the folder of each mapping."""
        return [mapping.path for mapping in self.mappings.all]

    def mapping_of(self, folder: bytes) -> int | None:
        """Give the mapping that holds the folder."""
        return self.mappings.for_directory(folder)

    def descend(self, folder: bytes) -> bool:
        """Tell whether a mapped folder is here or below."""
        return self.mappings.has_at_or_below(folder)

    def ignored(self, path: bytes, is_dir: bool, mapping: int | None) -> bool:
        """Tell whether the rules leave the entry out; a sidecar only together with what it speaks of."""
        if not self._rules.ignored(path, is_dir):
            return False
        if is_dir or mapping is None or not is_sidecar_name(path) or not self.sidecars_on(mapping):
            return True
        # What is said of a file that is sent is read, whatever rule its own name comes under.
        folder, _, name = path.rpartition(b"/")
        ignored = self._rules.ignored
        return ignored(folder, is_dir=True) if name == FOLDER_SIDECAR else ignored(path.removesuffix(SUFFIX), False)

    def sidecars_on(self, mapping: int) -> bool:
        """Tell whether `*.yaml` there are sidecars."""
        return self.mappings.all[mapping].sidecars

    def is_sidecar(self, path: bytes) -> bool:
        """Tell whether a scan would take what lies at `path` for a sidecar."""
        folder, _, name = path.rpartition(b"/")
        mapping = self.mapping_of(folder)
        if mapping is None:
            return name == FOLDER_SIDECAR and self.descend(folder)
        return is_sidecar_name(name) and self.sidecars_on(mapping) and not self.ignored(path, False, mapping)

    def covers(self, path: bytes) -> int | None:
        """Give the mapping under which a file at `path` would be sent, None where it would not be."""
        # An absolute path is of what was uploaded by hand, and is no file of the tree.
        mapping = None if path.startswith(b"/") else self.mapping_of(path.rpartition(b"/")[0])
        if mapping is None or self._rules.ignored(path, is_dir=False):
            return None
        return mapping

"""Decide which mapping a path belongs to, whether it is a sidecar, and whether the ignore rules leave it out.

Pure, and fast enough to ask for each of a million files. Paths are bytes relative to the root. The syntax of the rules
is left to `core.ignore`, walking the tree to `tree.scan`.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from assetsync.core.ignore import BUILT_IN, NameSieve, Rule, built_in_rules, decide, read_rules
from assetsync.core.metadata import FOLDER_SIDECAR, SUFFIX, described_by_xmp, is_sidecar_name, is_xmp_name
from assetsync.core.names import printable
from assetsync.model import Mapping

_MOST_KEPT = 1000


class Mappings:
    """The mappings of a site, by folder; the longest matching path wins."""

    def __init__(self, mappings: Iterable[Mapping]) -> None:
        self.all = tuple(mappings)
        self._at = {mapping.path: position for position, mapping in enumerate(self.all)}
        self._above = {folder for path in self._at for folder in folders_above(path)}

    def for_directory(self, directory: bytes) -> int | None:
        """Return the position of the mapping of a folder's files, or None if it is unmapped; b"" is the root."""
        position = self._at.get(directory)
        while position is None and directory:
            directory = directory.rpartition(b"/")[0]
            position = self._at.get(directory)
        return position

    def has_at_or_below(self, directory: bytes) -> bool:
        """Return whether a folder is mapped or contains a mapped folder: then a scan must look there."""
        return directory in self._at or directory in self._above


def folders_above(path: bytes) -> Iterator[bytes]:
    """Yield the folders that contain a path, up to the root (b""); none for the root itself."""
    while path:
        path = path.rpartition(b"/")[0]
        yield path


class _RuleSet:
    """The rules that apply in a mapping, weakest first: the shared ones, then the mapping's own.

    Shared rules read a path from the root, own rules read it from the mapping's folder.
    """

    def __init__(self, mapping: Mapping, shared: Sequence[Rule]) -> None:
        own = read_rules(mapping.ignore, f"`ignore` of the mapping {printable(mapping.path) or '.'}")
        self.folder = mapping.path
        # Each with whether it is the mapping's own.
        self._rules = [*((rule, False) for rule in shared), *((rule, True) for rule in own)]
        # The ignoring rules that need more than a name.
        self._by_path = [(rule, is_own) for rule, is_own in self._rules if rule.ignores and not rule.by_name]
        self._sieve = NameSieve([*shared, *own])

    def may_match(self, path: bytes, name: bytes, *, is_dir: bool) -> bool:
        """Return quickly whether a rule might leave the path out; False is certain."""
        if self._sieve.may_match(name):
            return True
        if not self._by_path:
            return False
        text, own_text = self._texts(path)
        return any(rule.matches(own_text if is_own else text, is_dir=is_dir) for rule, is_own in self._by_path)

    def decide(self, path: bytes, *, is_dir: bool) -> Rule | None:
        """Return the rule that leaves out this path itself, without regard to the folders above it."""
        text, own_text = self._texts(path)
        return decide([(rule, own_text if is_own else text) for rule, is_own in self._rules], is_dir=is_dir)

    def _texts(self, path: bytes) -> tuple[str, str]:
        text = path.decode("utf-8", "surrogateescape")
        folder = self.folder
        return text, path[len(folder) + 1 :].decode("utf-8", "surrogateescape") if folder else text


@dataclass(frozen=True, slots=True)
class _Here:
    """The rules for the folder that was asked for last."""

    folder: bytes
    rules: _RuleSet | None
    ignored_by: tuple[Rule, bytes] | None


class IgnoreRules:
    """The built-in rules, the site's and each mapping's own, in this order; the last rule that matches decides.

    An ignored folder includes everything below it, as in git. A folder named in `folders` is never ignored; the rules
    of its mapping apply strictly below it. A folder that leads to a mapped one is not ignored either, so that a scan
    reaches it, but its other content may be. A path outside every mapping is not ignored, it is unmapped.
    """

    def __init__(self, mappings: Mappings, site: Sequence[str]) -> None:
        self._mappings = mappings
        shared = [*built_in_rules(), *read_rules(site, "`ignore` of the site")]
        self._sets = [_RuleSet(mapping, shared) for mapping in mappings.all]
        self._above: dict[bytes, tuple[Rule, bytes] | None] = {}
        self._here = self._look_at(b"")

    def ignored(self, path: bytes, is_dir: bool) -> bool:
        """Return whether a file or folder is left out."""
        return self.rule(path, is_dir) is not None

    def why(self, path: bytes, is_dir: bool = False) -> str | None:
        """Return in words which rule leaves the path out; None if it is not ignored."""
        found = self.rule(path, is_dir)
        if found is None:
            return None
        rule, at = found
        named = f"the rule {printable(rule.pattern)} ({rule.origin})"
        return named if at == path else f"its folder {printable(at)} is ignored by {named}"

    def rule(self, path: bytes, is_dir: bool = False) -> tuple[Rule, bytes] | None:
        """Return the rule that leaves the path out, and the path or the folder above that it matches; None without."""
        folder, _, name = path.rpartition(b"/")
        here = self._here
        if here.folder != folder:
            here = self._look_at(folder)
        rules = here.rules
        if rules is None or (is_dir and self._mappings.has_at_or_below(path)):
            return None
        if here.ignored_by is not None:
            return here.ignored_by
        if not rules.may_match(path, name, is_dir=is_dir):
            return None
        found = rules.decide(path, is_dir=is_dir)
        return None if found is None else (found, path)

    def _look_at(self, folder: bytes) -> _Here:
        """Return the rules for a folder and keep them.

        A scan asks for all entries of a folder before it goes on to the next folder.
        """
        position = self._mappings.for_directory(folder)
        if position is None:
            here = _Here(folder, None, None)
        else:
            rules = self._sets[position]
            here = _Here(folder, rules, self._ignored_above(folder, rules))
        self._here = here
        return here

    def _ignored_above(self, folder: bytes, rules: _RuleSet) -> tuple[Rule, bytes] | None:
        """Return the outermost ignored folder between the mapping's own and `folder`, with its rule.

        The results for the folders above are cached; otherwise a deep tree would be checked again at each of its
        levels.
        """
        unknown: list[bytes] = []
        found = None
        above = folder
        while len(above) > len(rules.folder):
            if above in self._above:
                found = self._above[above]
                break
            unknown.append(above)
            above = above.rpartition(b"/")[0]
        if len(self._above) > _MOST_KEPT:
            self._above.clear()
        for below in reversed(unknown):
            if found is None and rules.may_match(below, below.rpartition(b"/")[2], is_dir=True):
                rule = rules.decide(below, is_dir=True)
                found = None if rule is None else (rule, below)
            self._above[below] = found
        return found


class Plan:
    """Decides what is mapped, what is ignored and where sidecars are enabled; b"" is the root itself."""

    def __init__(self, mappings: Mappings, ignore: Sequence[str]) -> None:
        self.mappings = mappings
        self._rules = IgnoreRules(mappings, ignore)
        rules = [(m.path, m.destfolderid, m.ignore, m.sidecars, m.xmp) for m in mappings.all]
        self.mark = hashlib.sha256(repr((rules, tuple(ignore), BUILT_IN)).encode()).hexdigest()
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
        # The sidecar of a file that is sent is read, even if a rule matches the name of the sidecar.
        ignored = self._rules.ignored
        if is_dir or mapping is None:
            return True
        if is_xmp_name(path):
            return not self.xmp_on(mapping) or ignored(described_by_xmp(path), False)
        if not is_sidecar_name(path) or not self.sidecars_on(mapping):
            return True
        folder, _, name = path.rpartition(b"/")
        return ignored(folder, is_dir=True) if name == FOLDER_SIDECAR else ignored(path.removesuffix(SUFFIX), False)

    def sidecars_on(self, mapping: int) -> bool:
        """Return whether the `*.yaml` files of the mapping are sidecars."""
        return self.mappings.all[mapping].sidecars

    def xmp_on(self, mapping: int) -> bool:
        """Return whether the XMP files of the mapping are sidecars."""
        return self.mappings.all[mapping].xmp

    def is_sidecar(self, path: bytes) -> bool:
        """Return whether a scan would treat the file at `path` as a sidecar."""
        folder, _, name = path.rpartition(b"/")
        mapping = self.mapping_of(folder)
        if mapping is None:
            return name == FOLDER_SIDECAR and self.descend(folder)
        is_sidecar = (is_sidecar_name(name) and self.sidecars_on(mapping)) or self._is_xmp(name, mapping)
        return is_sidecar and not self.ignored(path, False, mapping)

    def covers(self, path: bytes) -> int | None:
        """Return the position of the mapping by which a file at `path` would be sent, None if it would not."""
        # An absolute path belongs to an upload by hand, not to the tree.
        mapping = None if path.startswith(b"/") else self.mapping_of(path.rpartition(b"/")[0])
        if mapping is None or self._is_xmp(path, mapping) or self._rules.ignored(path, is_dir=False):
            return None
        return mapping

    def _is_xmp(self, name: bytes, mapping: int) -> bool:
        return is_xmp_name(name) and self.xmp_on(mapping)

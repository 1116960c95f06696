"""The checks of the tree for `assetsync check`: what a run would read, sidecars, and the limits of the watcher.

Scanning is left to `tree.scan`, printing to `check`.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from assetsync.cli.finding import NAMED, Finding, Level, of_error
from assetsync.config import SiteConfig, mappings
from assetsync.core.mapping import IgnoreRules, Mappings
from assetsync.core.metadata import (
    DEFAULT_LANGUAGE,
    FOLDER_SIDECAR,
    MAX_BYTES,
    SUFFIX,
    FieldMistake,
    field_error,
    is_xmp_name,
    language_of,
    parse_sidecar,
)
from assetsync.core.xmp import has_comma, parse_xmp
from assetsync.errors import FileUnreadable, NotRegular, RootMissing, SidecarError
from assetsync.model import NOWHERE, Mapping, Metadata
from assetsync.parts import expect_root, let_in, make_plan, make_tree
from assetsync.text import amount, files, plural, printable
from assetsync.tree.filesystem import network_mounts
from assetsync.tree.safe_open import Tree
from assetsync.tree.scan import scan
from assetsync.tree.scan_report import ScanReport

_UNREADABLE_NAMED = 5
"""The most unreadable files that findings name."""
_XMP_READ = 1000
"""The most XMP files that are read: each may hold megabytes."""
_WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")


def look_at_tree(config: SiteConfig) -> Iterator[Finding]:
    """Scan the tree once; yield what a run would read, and what it could not read."""
    report = ScanReport()
    plan = make_plan(config)
    tree = make_tree(config)
    sidecars, kinds, unreadable = _Sidecars(config, tree), _Kinds(), _Unreadable(tree)
    xmp_files = _XmpFiles(config, tree)
    try:
        expect_root(config)
        for seen in scan(tree, plan, report):
            if seen.is_sidecar and is_xmp_name(seen.path):
                xmp_files.see(seen.path, seen.mapping)
            elif seen.is_sidecar:
                sidecars.see(seen.path, seen.mapping)
            else:
                kinds.see(seen.path, seen.size)
                unreadable.see(seen.path)
    except RootMissing as error:
        yield of_error("root", error)
        return
    found = sidecars.count + xmp_files.count
    seen_in = f"{files(report.files)} and {plural(found, 'sidecar')} in {plural(report.folders, 'folder')}"
    left_out = f"{report.ignored:,} left out by rules, {report.special:,} links and devices skipped"
    yield Finding("tree", Level.OK, f"{config.root}: {seen_in}, {left_out}")
    yield from kinds.findings()
    yield from _unmapped(config, report, tree)
    for position in report.missing_mappings:
        folder = printable(plan.mappings.all[position].path)
        fix = "create or mount it, or correct `path` below `folders`"
        yield Finding("folders", Level.WARNING, f"the mapped folder {folder} is not there", fix)
    mapped = {mapping.path for mapping in plan.mappings.all}
    for path, reason in report.unreadable[:NAMED]:
        message = f"{printable(path) or '.'} cannot be read: {reason}"
        is_denied = reason == os.strerror(errno.EACCES)
        fix = let_in(config.root / os.fsdecode(path)) if is_denied else "see `dmesg`, and the next scan"
        yield Finding("tree", Level.ERROR if is_denied and path in mapped else Level.WARNING, message, fix)
    if report.unreadable_count > NAMED:
        more = report.unreadable_count - NAMED
        yield Finding("tree", Level.WARNING, f"{more:,} more cannot be read", "fix those above first")
    yield from unreadable.findings(config.root, report.files)
    yield from sidecars.findings()
    yield from xmp_files.findings()
    yield from _watching(config, report.folders)


def _unmapped(config: SiteConfig, report: ScanReport, tree: Tree) -> Iterator[Finding]:
    """Report what is below the root and is not sent because no mapping covers it."""
    # Leave out what the rules would ignore if the root were mapped.
    rules = IgnoreRules(Mappings([Mapping(b"", "")]), config.ignore)
    left = [path for path in report.unmapped if not rules.ignored(path, is_dir=True)]
    named = [f"{printable(path)}/" for path in left[:NAMED]]
    more = report.unmapped_count - len(report.unmapped) + len(left) - len(named)
    beside = sum(_files_beside(config, tree, rules)) if report.unmapped_files else 0
    named += [plural(more, "more folder")] * bool(more) + [files(beside)] * bool(beside)
    if named:
        yield Finding("tree", Level.OK, f"mapped nowhere, so not sent: {', '.join(named)}")


def _files_beside(config: SiteConfig, tree: Tree, rules: IgnoreRules) -> Iterator[int]:
    """Yield the number of files in each folder that contains a mapped folder and is not mapped itself.

    Ignored files and sidecars are left out. The scan counts these files too, but not by name.
    """
    plan = make_plan(config)
    follow = config.watch.follow_symlinks
    parts = [path.split(b"/") for path in plan.folders()]
    above = {b"/".join(names[:count]) for names in parts if names != [b""] for count in range(len(names))}
    for folder in {path for path in above if plan.mapping_of(path) is None}:
        try:
            fd = tree.open_folder(folder)
        except (OSError, RootMissing):
            # A missing or unreadable folder is a finding of its own.
            continue
        try:
            with os.scandir(fd) as entries:
                found = [os.fsencode(entry.name) for entry in entries if entry.is_file(follow_symlinks=follow)]
        finally:
            os.close(fd)
        paths = [folder + b"/" + name if folder else name for name in found]
        yield sum(not (rules.ignored(path, is_dir=False) or plan.is_sidecar(path)) for path in paths)


_MISNAMED = b".yml"


class _Kinds:
    """The files that a run would send, by extension, and those that look like sidecars under a wrong name."""

    def __init__(self) -> None:
        self._groups: dict[bytes, tuple[int, int]] = {}
        self._misnamed: bytes | None = None

    def see(self, path: bytes, size: int) -> None:
        name = path.rpartition(b"/")[2]
        extension = name[name.rfind(b".") :].lower() if b"." in name[1:] else b""
        count, total = self._groups.get(extension, (0, 0))
        self._groups[extension] = count + 1, total + size
        if extension == _MISNAMED and self._misnamed is None:
            self._misnamed = path

    def findings(self) -> Iterator[Finding]:
        largest = sorted(self._groups.items(), key=lambda group: -group[1][1])
        named = [
            f"{printable(extension) or 'no extension'} {files(count)} ({amount(total)})"
            for extension, (count, total) in largest[:NAMED]
        ]
        rest = len(largest) - len(named)
        if named:
            more = f" and {plural(rest, 'more extension')}" if rest > 0 else ""
            yield Finding("tree", Level.OK, f"by extension: {', '.join(named)}{more}")
        if self._misnamed is not None:
            count = files(self._groups[_MISNAMED][0])
            message = f"{count} like {printable(self._misnamed)} would be sent: assetsync reads metadata from *.yaml"
            yield Finding("tree", Level.WARNING, message, "if that is not meant, rename it, or add `*.yml` to `ignore`")


class _Unreadable:
    """The files that can be listed but not opened: their number, and the first ones."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._first: list[FileUnreadable] = []
        self._count = 0

    def see(self, path: bytes) -> None:
        try:
            self._tree.open(path).close()
        except NotRegular:
            # The file was replaced after it was listed.
            return
        except FileUnreadable as error:
            if not error.vanished:
                self._count += 1
                self._first += [error] * (len(self._first) < _UNREADABLE_NAMED)

    def findings(self, root: Path, all_files: int) -> Iterator[Finding]:
        if self._count and self._count == all_files:
            message = f"no file can be opened: {self._first[0].message}"
            yield Finding("tree", Level.ERROR, message, let_in(root) if self._first[0].hint else None)
            return
        for error in self._first:
            fix = error.hint or "make it readable, or leave it out with `ignore`"
            yield Finding("tree", Level.WARNING, error.message, fix)
        if more := self._count - len(self._first):
            message = f"and {plural(more, 'more file')} cannot be read"
            yield Finding("tree", Level.WARNING, message, "fix those above first")


class _Sidecars:
    """The sidecars of a tree: their number, the first ones with a mistake, and those without a matching file."""

    def __init__(self, config: SiteConfig, tree: Tree) -> None:
        self.count = 0
        self._tree = tree
        self._names = config.service.field_names
        # With a ledger, a field may be known from what became of earlier uploads.
        self._is_new = not os.access(config.ledger, os.F_OK)
        self._mappings = mappings(config)
        # By mapping: the first language other than English that texts are in, and where.
        self._languages: dict[int, tuple[str, str]] = {}
        for position, mapping in enumerate(self._mappings):
            self._note_language(mapping.metadata, position, "its metadata")
        self._bad: list[SidecarError] = []
        self._orphans: list[bytes] = []
        self._orphan_count = 0

    def see(self, path: bytes, mapping: int) -> None:
        self.count += 1
        if len(self._bad) < NAMED:
            try:
                data = self._tree.read_small(path, MAX_BYTES)
                level = parse_sidecar(data, printable(path), self._names.custom)
                self._note_language(level, mapping, printable(path))
                unknown = next((name for name, _ in level.meta if not self._names.kinds_of(name)), None)
                if unknown is not None and self._is_new:
                    mistake = FieldMistake(unknown, *self._names.problem_with(unknown))
                    raise field_error(data, printable(path), mistake, ())
            except SidecarError as error:
                self._bad.append(error)
            except (FileUnreadable, NotRegular) as error:
                self._bad.append(SidecarError(printable(path), "it cannot be read", hint=error.message))
        of_folder = path.rpartition(b"/")[2] == FOLDER_SIDECAR
        if not of_folder and self._tree.is_absent(path.removesuffix(SUFFIX)):
            self._orphan_count += 1
            if len(self._orphans) < NAMED:
                self._orphans.append(path)

    def _note_language(self, level: Metadata, mapping: int, where: str) -> None:
        inherited = None if mapping == NOWHERE else self._mappings[mapping].metadata.language
        language = level.language or inherited or DEFAULT_LANGUAGE
        if language != DEFAULT_LANGUAGE and (level.description or level.keywords):
            self._languages.setdefault(mapping, (language, where))

    def findings(self) -> Iterator[Finding]:
        for position, (language, where) in sorted(self._languages.items()):
            shown = "." if position == NOWHERE else printable(self._mappings[position].path) or "."
            message = (
                f"{shown}: texts in language {language} ({where}): the searches of release 1.9.6 show English texts"
                " only, so that these are not shown, and not compared with what was sent"
            )
            yield Finding("metadata", Level.WARNING, message, "write `language: 1` if people search for them")
        for mistake in self._bad:
            yield of_error("sidecar", mistake, Level.WARNING)
        for path in self._orphans:
            fix = "name it after its file; if it is one to be uploaded itself, set `sidecars: off` for its mapping"
            yield Finding("sidecar", Level.WARNING, f"{printable(path)} has no matching file", fix)
        left = self._orphan_count - len(self._orphans)
        if left:
            yield Finding("sidecar", Level.WARNING, f"{left:,} more without a matching file", "fix those above first")


class _XmpFiles:
    """The XMP files of a tree: their number, and what is wrong with the first `_XMP_READ` of them."""

    def __init__(self, config: SiteConfig, tree: Tree) -> None:
        self.count = 0
        self._mappings = mappings(config)
        self._table = config.service.field_names.xmp
        self._tree = tree
        self._bad: list[SidecarError] = []
        self._with_comma: list[bytes] = []

    def see(self, path: bytes, mapping: int) -> None:
        self.count += 1
        if self.count > _XMP_READ or len(self._bad) >= NAMED:
            return
        language = language_of(self._mappings[mapping].metadata)
        try:
            xmp = parse_xmp(self._tree.pieces(path), printable(path), language)
        except SidecarError as error:
            self._bad.append(error)
        except (FileUnreadable, NotRegular) as error:
            self._bad.append(SidecarError(printable(path), "it cannot be read", hint=error.message))
        else:
            self._with_comma += [path] * has_comma(xmp, self._table)

    def findings(self) -> Iterator[Finding]:
        for mapping in self._mappings:
            if mapping.sends_xmp:
                shown = printable(mapping.path) or "."
                message = f"{shown}: `ignore` takes XMP files back, so that they are uploaded and not read as metadata"
                yield Finding("xmp", Level.OK, f"{message}; `xmp: on` reads them instead")
        for mistake in self._bad:
            yield of_error("sidecar", mistake, Level.WARNING)
        if self._with_comma:
            message = (
                f"{printable(self._with_comma[0])}: a keyword holds a comma, which separates keywords in the service:"
                " it is sent with a space instead"
            )
            more = f" ({files(len(self._with_comma) - 1)} more)" if len(self._with_comma) > 1 else ""
            yield Finding("xmp", Level.OK, message + more)
        if self.count > _XMP_READ:
            yield Finding("xmp", Level.OK, f"the first {_XMP_READ:,} of {self.count:,} XMP files were read")


def _watching(config: SiteConfig, folders: int) -> Iterator[Finding]:
    mode = config.watch.mode
    network = network_mounts(bytes(config.root))
    if network and mode in ("auto", "inotify"):
        shown = ", ".join(printable(point) or "the root" for point in network[:NAMED])
        message = f"on a network file system, where changes by others give no events: {shown}"
        fix = "set watch.mode: polling, and schedule.rescan as short as you need"
        yield Finding("watch", Level.WARNING, message, fix)
    if mode not in ("auto", "inotify"):
        return
    try:
        allowed = int(_WATCHES.read_text("ascii"))
    except (OSError, ValueError):
        fix = "is inotify available? set watch.mode: polling"
        yield Finding("watch", Level.WARNING, f"{_WATCHES} cannot be read", fix)
        return
    if folders > allowed:
        wanted = 2 ** (2 * folders - 1).bit_length()
        message = f"{plural(folders, 'folder')} to watch, and fs.inotify.max_user_watches is {allowed:,}"
        fix = f"echo fs.inotify.max_user_watches={wanted} > /etc/sysctl.d/60-assetsync.conf && sysctl --system"
        yield Finding("watch", Level.WARNING, message, fix)
    else:
        yield Finding("watch", Level.OK, f"{plural(folders, 'folder')} to watch, {allowed:,} watches allowed")

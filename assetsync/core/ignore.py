"""Read rules in gitignore syntax, define the built-in rules, and match a rule against a path.

Pure. pathspec translates the syntax; the last rule that matches decides, as in git. Which rules apply where, and that
nothing below an ignored folder is looked at, is left to `core.mapping`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

HIDDEN = ".*"
# Only files that are hardly meant as assets. If a pattern could match an asset (`*.swp` is also a macro of a CAD
# program), it is written narrower. A pattern that neither begins nor ends with fixed text makes a scan a fifth slower.
# `!pattern` under `ignore` cancels any of them.
BUILT_IN: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("hidden", (HIDDEN,)),
    (
        "an unfinished download or copy",
        (
            *("*.part", "*.partial", "*.filepart", "*.crdownload", "*.opdownload", "*.tmp", ".goutputstream-*"),
            "*_exiftool_tmp",
        ),
    ),
    ("a lock or swap file of an editor", ("~$*", ".~lock.*#", ".*.swp", "*.idlk")),
    (
        "written by macOS beside the files",
        (".DS_Store", "._*", ".AppleDouble/", ".Spotlight-V100/", ".Trashes/", ".TemporaryItems/", ".fseventsd/"),
    ),
    (
        "written by Windows beside the files",
        (
            *("Thumbs.db", "thumbs.db", "ehthumbs.db", "desktop.ini", "Desktop.ini"),
            *("$RECYCLE.BIN/", "System Volume Information/"),
        ),
    ),
    (
        "kept by the file server or the file system",
        (
            *("@eaDir/", "@Recycle/", r"\#recycle/", r"\#snapshot/", ".snapshot/", ".zfs/", ".Trash-*/", "lost+found/"),
            *(".nfs0*", ".fuse_hidden*", ".smbdelete*", ".afpDeleted*"),
        ),
    ),
    (
        "a catalogue or cache of a program",
        (
            *("*.lrcat", "*.lrcat-wal", "*.lrcat-shm", "*.lrcat-journal", "*.lrcat.lock", "*.lrcat-data/", "*.lrdata/"),
            *("*.cocatalog/", ".git/", "node_modules/"),
        ),
    ),
    ("a sidecar of another program", ("*.xmp", "*.xmp_original", "*.pp3", "*.dop", "*.acr")),
)
_CHARACTER = re.compile(r"\\(.)|(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Rule:
    """A line of gitignore syntax; `bare` is the pattern without `!` and last `/`, `origin` names its source."""

    pattern: str
    bare: str
    origin: str
    ignores: bool
    only_folders: bool
    by_name: bool
    below: bool
    regex: re.Pattern[str]
    is_built_in: bool

    @property
    def shows_hidden(self) -> bool:
        """Whether the rule is `!.*`."""
        return not self.ignores and self.bare == HIDDEN

    def matches(self, path: str, *, is_dir: bool) -> bool:
        """Return whether the rule names this path itself, and not only a folder above it.

        The path is relative to the folder in which the rule applies.
        """
        if self.only_folders:
            path += "/"
            if not is_dir:
                return False
        found = self.regex.search(path)
        return found is not None and (self.below or found.end() == len(path))


def read_rules(patterns: Iterable[str], origin: str, *, is_built_in: bool = False) -> list[Rule]:
    """Read lines of gitignore syntax; empty lines, comments and patterns that name nothing produce no rule.

    Raise ValueError for a broken pattern.
    """
    rules = []
    for pattern in patterns:
        raw, ignores = GitIgnoreSpecPattern.pattern_to_regex(pattern)
        if raw is None or ignores is None:
            continue
        bare = (pattern if pattern.endswith("\\ ") else pattern.rstrip()).removeprefix("!")
        rules.append(
            Rule(
                pattern=pattern,
                bare=bare.removesuffix("/"),
                origin=origin,
                ignores=ignores,
                only_folders=bare.endswith("/"),
                by_name="/" not in bare.removesuffix("/"),
                # A pattern that is not bound to the beginning of a path (`*`, `*/`) matches wherever its expression is
                # found.
                below=bare.endswith("/**") or not raw.startswith("^"),
                # A folder's name may contain a line break: `.` must match it.
                regex=re.compile(raw, re.DOTALL),
                is_built_in=is_built_in,
            )
        )
    return rules


def built_in_rules() -> list[Rule]:
    """Return the rules that apply everywhere, before those of the configuration."""
    return [rule for why, patterns in BUILT_IN for rule in read_rules(patterns, f"built in: {why}", is_built_in=True)]


def decide(rules: Sequence[tuple[Rule, str]], *, is_dir: bool) -> Rule | None:
    """Return the rule that leaves out a path, None if it is kept; each rule comes with the path as it sees it.

    The last rule that matches decides, as in git, with one exception: of the built-in patterns, `!.*` cancels only that
    for hidden names. Otherwise it would also bring back `.DS_Store`, `.Trash-*/` and the like.
    """
    shows_hidden = False
    for rule, path in reversed(rules):
        is_open = not shows_hidden or (rule.is_built_in and rule.bare != HIDDEN)
        if is_open and rule.matches(path, is_dir=is_dir):
            if not rule.shows_hidden:
                return rule if rule.ignores else None
            shows_hidden = True
    return None


class NameSieve:
    """A fast check that no rule can match a name: a scan asks for every file, and the answer is almost always no.

    A rule's fixed beginning or ending is compared as bytes; only a rule without either needs a regular expression.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        endings, beginnings, names = [], [], set()
        self._regexes = []
        for rule in rules:
            if not rule.ignores or not rule.by_name:
                continue
            head, tail, fixed = _fixed_ends(rule.bare)
            if fixed:
                names.add(head.encode("utf-8", "surrogateescape"))
            elif not head and not tail:
                self._regexes.append(rule.regex)
            elif len(head) > len(tail):
                beginnings.append(head.encode("utf-8", "surrogateescape"))
            else:
                endings.append(tail.encode("utf-8", "surrogateescape"))
        self.endings = tuple(endings)
        self.beginnings = tuple(beginnings)
        self.names = frozenset(names)

    def may_match(self, name: bytes) -> bool:
        """Return whether a rule might ignore a file or folder of this name; False is certain."""
        if name.endswith(self.endings) or name.startswith(self.beginnings) or name in self.names:
            return True
        if not self._regexes:
            return False
        text = name.decode("utf-8", "surrogateescape")
        return any(regex.search(text) or regex.search(text + "/") for regex in self._regexes)


def _fixed_ends(bare: str) -> tuple[str, str, bool]:
    """Return the text before the first wildcard of a pattern, the text after the last, and whether it has no wildcard.

    A pattern with brackets gets no fixed ending: finding the end of its last bracket would need a parser.
    """
    head, tail, wild = "", "", False
    for escaped, char in _CHARACTER.findall(bare):
        if char and char in "*?[":
            tail, wild = "", True
        elif wild:
            tail += escaped or char
        else:
            head += escaped or char
    return head, "" if "[" in bare else tail, not wild

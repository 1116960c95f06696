"""Turn names of files, which are bytes, into text: the name to send, the name to display, and patterns to look it up.

Pure. How a name is framed in a request (`"` as `%22`) is left to `service.multipart`, escaping for HTML to the page.
`printable` and `relative_text` come from `assetsync.text`, which is below everything that displays a name.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from assetsync.model import LEAST_LONGEST, LONGEST_NAME, MAX_SENT
from assetsync.text import decoded, printable, relative_text

__all__ = ["LONGEST_NAME", "MAX_SENT", "printable", "relative_text", "sent_name", "shown_text"]

_LONGEST_ENDING = 32
_STAND_IN = "unnamed"
# Characters that break a path, a header or a line, and those that the service loses silently: for a name with a
# character outside the basic plane it answers success and stores nothing (observed). Surrogates are bytes that are not
# UTF-8.
_NOT_SENT = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f/\\\\\\u2028\\u2029\\ud800-\\udfff\\ufffe\\uffff\\U00010000-\\U0010ffff]"
)
_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f]")
_BLANKS = re.compile(" {2,}")
_AS_SHOWN = re.IGNORECASE | re.DOTALL


def sent_name(name: bytes, longest: int = LONGEST_NAME) -> str:
    """Return the name under which a file is sent: changed only so that the service keeps it (observed "Names").

    It has at most `longest` characters; the ending is kept. Two Unicode forms of a name stay two names.
    """
    safe = _NOT_SENT.sub("_", name.decode("utf-8", "surrogateescape"))
    if framed_length(safe) > longest:
        stem, dot, ending = safe.rpartition(".")
        kept = dot + ending if stem and len(ending) <= _LONGEST_ENDING else ""
        stem = safe.removesuffix(kept)[:longest]
        while stem and framed_length(stem + kept) > longest:
            stem = stem[:-1]
        safe = stem + kept
    return safe if safe.strip(". ") else _STAND_IN


def sent_names(name: bytes, longest: int = LONGEST_NAME) -> tuple[str, ...]:
    """Return the names under which this or an earlier release may have sent a file, the present one first."""
    cuts = (longest, LONGEST_NAME, MAX_SENT) if may_be_cut(name) else (longest,)
    return tuple(dict.fromkeys(sent_name(name, cut) for cut in cuts))


def may_be_cut(name: bytes) -> bool:
    """Return whether a release may have cut the name of a file."""
    return len(name) + 2 * name.count(b'"') > LEAST_LONGEST


def is_cut_of(name: bytes, sent: str) -> bool:
    """Return whether `sent` is the name of the file as it was sent, cut to any length."""
    return sent_name(name, framed_length(sent)) == sent


def framed_length(name: str) -> int:
    """Count the characters that the service will see: a quote is sent as `%22` and stays `%22` (observed "Names")."""
    return len(name) + 2 * name.count('"')


def shown_text(name: bytes) -> str:
    """Return a name as text for metadata: bytes that are not UTF-8 as U+FFFD, control characters as `_`."""
    return _CONTROL.sub("_", decoded(name))


@lru_cache(maxsize=4096)
def _matcher(sent: str) -> re.Pattern[str]:
    return re.compile(_pattern(sent), _AS_SHOWN)


def _pattern(sent: str) -> str:
    """Return a pattern that matches what `like_pattern` of the name would match in the service's database."""
    first, *between = (
        "".join(re.escape(character) if character.isalnum() or character in ".-" else "." for character in piece)
        for piece in re.split(r"[^\x00-\x7f]+", sent)
    )
    # Each piece matches at its first position only. This loses no match; with backtracking, a name with many gaps would
    # take too long.
    last = f".*{between.pop()}" if between else ""
    return first + "".join(f"(?>.*?{piece})" for piece in between) + last


def may_be(sent: str, shown: str) -> bool:
    """Return whether `shown`, a file name in a search answer, may be the name that was sent."""
    return any(_matcher(name).fullmatch(shown) is not None for name in _spellings(sent))


class PossibleNames:
    """Names that were sent: `shown in possible_names` is True if a name may be one of them (`may_be`).

    It takes a microsecond for a thousand camera names.
    """

    def __init__(self, sent: Iterable[str]) -> None:
        spellings: set[str] = set().union(*map(_spellings, sent))
        self._pattern = re.compile("|".join(map(_pattern, sorted(spellings))) if spellings else "(?!)", _AS_SHOWN)

    def __contains__(self, shown: str) -> bool:
        return self._pattern.fullmatch(shown) is not None


def is_shown_as(sent: str, shown: str) -> bool:
    """Return whether `shown` is the sent name in one of the forms in which a service is known to return it.

    These are the name itself, the name with `?` or `_` for each character (or each byte of UTF-8) outside ASCII or
    ISO-8859-1, its UTF-8 read as ISO-8859-1, the name with accents folded and all other characters dropped, and each of
    these with one blank for several in a row.
    `may_be` accepts any text in place of such characters, and so matches every name that this function matches.
    """
    # The usual case, in which no form needs to be made.
    return is_exactly(sent, shown) or _plain(shown) in _plain_forms(sent)


class ShownNames:
    """Names that were sent: `name in shown_names` is True if a name is shown for one of them (`is_shown_as`).

    It takes as long for many names as for one.
    """

    def __init__(self, sent: Iterable[str]) -> None:
        self._plain_forms = frozenset[str]().union(*map(_plain_forms, set(sent)))

    def __contains__(self, shown: str) -> bool:
        return _plain(shown) in self._plain_forms


def shown_patterns(sent: str) -> frozenset[str]:
    """Return patterns of SQL's LIKE, without escapes, that together match every name that `is_shown_as` accepts."""
    return frozenset(re.sub(r"[^A-Za-z0-9.-]", "_", form) for form in _forms(sent))


def _forms(sent: str) -> set[str]:
    forms = set()
    for name in _spellings(sent):
        read_as_latin = name.encode("utf-8", "replace").decode("iso-8859-1")
        forms |= {
            name,
            name.encode("iso-8859-1", "replace").decode("iso-8859-1"),
            name.encode("ascii", "replace").decode("ascii"),
            re.sub(r"[^\x00-\x7f]", "?", read_as_latin),
            read_as_latin,
            unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii"),
        }
    return forms


@lru_cache(maxsize=4096)
def _spellings(sent: str) -> frozenset[str]:
    """Return the name with quotes as `"` and as `%22`, and each also with its runs of blanks folded.

    The database keeps several blanks, and answers show one (observed).
    """
    spelled = frozenset({sent, sent.replace('"', "%22")})
    return spelled | {_BLANKS.sub(" ", name) for name in spelled}


@lru_cache(maxsize=4096)
def _plain_forms(sent: str) -> frozenset[str]:
    """Return what `_plain` makes of each name that is shown for the sent one (`is_shown_as`), itself included."""
    return frozenset(map(_plain, _forms(sent)))


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    """Fold what services change in any name: case, and ASCII characters that are not letters, digits, `.` or `-`."""
    return re.sub(r"[\x00-\x2c/\x3a-\x40\x5b-\x60\x7b-\x7f\ufffd]", "_", name.casefold())


def is_exactly(sent: str, shown: str) -> bool:
    """Return whether the name came back as it was sent, without regard to case."""
    return sent.casefold() == shown.casefold()


def is_others(mine: str, other: str, shown: str) -> bool:
    """Return whether an asset's name points to another open attempt rather than to mine."""
    if is_exactly(mine, shown):
        return False
    return is_exactly(other, shown) or (may_be(other, shown) and not may_be(mine, shown))

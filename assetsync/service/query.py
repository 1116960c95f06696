"""Building what stands in `searchfor`: the index's syntax (interface section 4.1.1) and the database's LIKE patterns.

Pure text. The parameters around it are `search`'s, sending it is `client`'s.
"""

import re
from collections.abc import Sequence

from assetsync.core.outcome import is_sound_id
from assetsync.errors import UsageError

_SPECIAL = re.compile(r'([+\-&|!(){}\[\]^"~*?:\\/])')
_OPERATORS = frozenset({"AND", "OR", "NOT"})
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
# What the form of an upload rewrites in a name (quotes, slashes, control characters) may come back as anything.
_UNSURE = re.compile(r'[^\x20-\x7e]+|["\\/]')
_UNSAFE = re.compile(r"[^A-Za-z0-9.%-]")


def ids_query(assetids: Sequence[str]) -> str:
    """Ask the index for these ids at once: `id:A OR id:B` (observed); raises UsageError for what is no id."""
    if not assetids:
        raise UsageError("a search for ids needs at least one id")
    return " OR ".join(f"id:{checked_id(assetid)}" for assetid in assetids)


def checked_id(assetid: str) -> str:
    """Give the id back if it can stand in a query; raises UsageError otherwise."""
    if not is_sound_id(assetid):
        raise UsageError(f"{assetid[:80]!r} is not an asset id", hint="an id has 1 to 64 letters, digits and -")
    return assetid


def like_pattern(sent_name: str) -> str:
    """Give a LIKE pattern for `dbdirect` that matches the sent name however the service may have kept it.

    A superset by intent: ASCII letters, digits, `.` and `-` stand for themselves, every other ASCII character is one of
    any, runs of others are anything (observed: characters outside ISO-8859-1 come back as `?`). No escapes are used.
    """
    return _UNSAFE.sub("_", re.sub(r"%+", "%", _UNSURE.sub("%", sent_name.replace("%", "_"))))


def term(text: str) -> str:
    """Make a plain term in which nothing is syntax; several words are several terms."""
    words = [_escaped(word) for word in _words(text)]
    return " ".join(f"\\{word}" if word in _OPERATORS else word for word in words)


def wildcard(beginning: str) -> str:
    """Ask for everything that begins so: one word with a trailing `*`."""
    if len(_words(beginning)) != 1:
        raise UsageError("a wildcard belongs to one word", hint="give the beginning of one word")
    return f"{_escaped(beginning.strip())}*"


def field(name: str, value: str) -> str:
    """Make a field query `<field>:<value>`; a value of several words stands in round brackets."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is not a field name", hint="use 1 to 64 letters, digits and _")
    escaped = term(value)
    return f"{name}:({escaped})" if " " in escaped else f"{name}:{escaped}"


def labels(*names: str) -> str:
    """Ask for assets that carry all of these labels; a nested label is written with a slash, blanks become `+`."""
    if not names:
        raise UsageError("a search for labels needs at least one label")
    return "labels:" + ",".join(f"({_label(name)})" for name in names)


def custom_field(field_id: str, *values: str) -> str:
    """Ask for a custom field that holds all of these values: `customfieldvalue:(+<id> +<value> …)`."""
    if not values:
        raise UsageError("a search for a custom field needs at least one value")
    parts = [checked_id(field_id), *(_one_word(value) for value in values)]
    return "customfieldvalue:(" + " ".join(f"+{part}" for part in parts) + ")"


def all_of(*queries: str) -> str:
    """Join queries so that each must hold."""
    if not queries or not all(query.strip() for query in queries):
        raise UsageError("nothing to search for", hint="give at least one query, none of them empty")
    return " AND ".join(queries)


def narrowed(raw: str | None, *queries: str) -> str:
    """Join an entry in raw syntax, which may be missing, with queries that were built here: each must hold."""
    if raw is None or not queries:
        return all_of(*queries) if raw is None else raw
    # Brackets, because an OR in it would bind more loosely than the AND that follows.
    return all_of(f"({raw})" if re.search(r"\s", raw.strip()) else raw.strip(), *queries)


def _words(text: str) -> list[str]:
    words = text.split()
    if not words:
        raise UsageError("nothing to search for", hint="give at least one word")
    return words


def _escaped(word: str) -> str:
    return _SPECIAL.sub(r"\\\1", word)


def _label(name: str) -> str:
    # The slash of a nested label stays: it is part of the name as the interface writes it.
    return "+".join(_escaped(word).replace(r"\/", "/") for word in _words(name))


def _one_word(value: str) -> str:
    words = _words(value)
    # A value of several words is one value: quoted, so that the + before it holds for all of it.
    return _escaped(words[0]) if len(words) == 1 else '"' + re.sub(r'(["\\])', r"\\\1", " ".join(words)) + '"'

"""Builds entries for `searchfor`: queries in the index's syntax (interface section 4.1.1) and LIKE patterns.

LIKE patterns are for searches in the database. The module only builds text: `search` adds the other parameters, and
`client` sends the call.
"""

import re
from collections.abc import Sequence

from assetsync.core.outcome import is_sound_id
from assetsync.errors import UsageError

_SPECIAL = re.compile(r'([+\-&|!(){}\[\]^"~*?:\\/])')
_OPERATORS = frozenset({"AND", "OR", "NOT"})
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
# Characters that the upload's form rewrites in a name (quotes, slashes, control characters) may come back as any text.
_UNSURE = re.compile(r'[^\x20-\x7e]+|["\\/]')
_UNSAFE = re.compile(r"[^A-Za-z0-9.%-]")


def ids_query(assetids: Sequence[str]) -> str:
    """Return the query for any of these ids: `id:A OR id:B` (observed); raises UsageError for an invalid id or none."""
    if not assetids:
        raise UsageError("a search for ids needs at least one id")
    return " OR ".join(f"id:{checked_id(assetid)}" for assetid in assetids)


def checked_id(assetid: str) -> str:
    """Return the id unchanged; raises UsageError if it is not a valid asset id."""
    if not is_sound_id(assetid):
        raise UsageError(f"{assetid[:80]!r} is not an asset id", hint="an id has 1 to 64 letters, digits and -")
    return assetid


def like_pattern(sent_name: str) -> str:
    """Return a LIKE pattern for `dbdirect` that matches the sent name in every form in which the service may store it.

    The pattern matches more on purpose. ASCII letters, digits, `.` and `-` match themselves. Quotes, slashes,
    backslashes, and runs of control and non-ASCII characters match any text (observed: characters outside ISO-8859-1
    come back as `?`). Every other character matches any single character. The pattern uses no escapes.
    """
    return _UNSAFE.sub("_", re.sub(r"%+", "%", _UNSURE.sub("%", sent_name.replace("%", "_"))))


def term(text: str) -> str:
    """Return a plain term with all syntax escaped; several words become several terms."""
    words = [_escaped(word) for word in _words(text)]
    return " ".join(f"\\{word}" if word in _OPERATORS else word for word in words)


def wildcard(beginning: str) -> str:
    """Return the query for one word with this beginning: a trailing `*`; raises UsageError for several words."""
    if len(_words(beginning)) != 1:
        raise UsageError("a wildcard belongs to one word", hint="give the beginning of one word")
    return f"{_escaped(beginning.strip())}*"


def field(name: str, value: str) -> str:
    """Return a field query `<field>:<value>`; a value of several words is put in round brackets."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is not a field name", hint="use 1 to 64 letters, digits and _")
    escaped = term(value)
    return f"{name}:({escaped})" if " " in escaped else f"{name}:{escaped}"


def labels(*names: str) -> str:
    """Return the query for assets with all of these labels; a nested label contains a slash, blanks become `+`."""
    if not names:
        raise UsageError("a search for labels needs at least one label")
    return "labels:" + ",".join(f"({_label(name)})" for name in names)


def custom_field(field_id: str, *values: str) -> str:
    """Return the query for a custom field with all of these values: `customfieldvalue:(+<id> +<value> …)`."""
    if not values:
        raise UsageError("a search for a custom field needs at least one value")
    parts = [checked_id(field_id), *(_one_word(value) for value in values)]
    return "customfieldvalue:(" + " ".join(f"+{part}" for part in parts) + ")"


def all_of(*queries: str) -> str:
    """Join queries with AND; raises UsageError for an empty query or none."""
    if not queries or not all(query.strip() for query in queries):
        raise UsageError("nothing to search for", hint="give at least one query, none of them empty")
    return " AND ".join(queries)


def narrowed(raw: str | None, *queries: str) -> str:
    """Join an entry in raw syntax, or None, with queries of this module by AND; raw syntax alone stays unchanged."""
    if raw is None or not queries:
        return all_of(*queries) if raw is None else raw
    # Brackets are needed because an OR in `raw` binds more loosely than the AND that follows.
    return all_of(f"({raw})" if re.search(r"\s", raw.strip()) else raw.strip(), *queries)


def _words(text: str) -> list[str]:
    words = text.split()
    if not words:
        raise UsageError("nothing to search for", hint="give at least one word")
    return words


def _escaped(word: str) -> str:
    return _SPECIAL.sub(r"\\\1", word)


def _label(name: str) -> str:
    # The slash of a nested label is not escaped: the interface writes it as part of the name.
    return "+".join(_escaped(word).replace(r"\/", "/") for word in _words(name))


def _one_word(value: str) -> str:
    words = _words(value)
    # Several words are quoted as one value, so that the + before them applies to all of them.
    return _escaped(words[0]) if len(words) == 1 else '"' + re.sub(r'(["\\])', r"\\\1", " ".join(words)) + '"'

"""What a search finds: LIKE patterns of the database, queries of the index."""

import re


def like(pattern: str, name: str) -> bool:
    """Tell whether a name matches as SQL LIKE has it: % and _, with a backslash to escape, without regard to case."""
    made = {"%": ".*", "_": "."}
    regex = "".join(made.get(part) or re.escape(part[-1]) for part in re.findall(r"\\.|.", pattern, re.DOTALL))
    return re.fullmatch(regex, name, re.IGNORECASE | re.DOTALL) is not None


def matches(query: str, words: dict[str, list[str]]) -> bool:
    """Tell whether a query finds an asset; `words`: its lower-case words by field, the field "" for plain terms.

    Terms are alternatives, parted by OR, a blank or a comma; a `*` at the end stands for any ending. A query with a
    mistake finds nothing, silently (observed).
    """
    if query.count("(") != query.count(")") or query.count('"') % 2:
        return False
    for term in re.split(r"\s+OR\s+|[\s,]+", query.strip()):
        name, _, value = term.rpartition(":")
        wanted = value.strip('"()').lower()
        if wanted == "*":
            return True
        stem = wanted.removesuffix("*")
        if any(word.startswith(stem) if stem != wanted else word == wanted for word in words.get(name, [])):
            return True
    return False

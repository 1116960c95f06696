r"""Index the text of assets, and translate the search syntax of the interface (section 4.1.1) into SQL conditions.

Pure. Text is indexed as words in lower case with a blank around each; a condition comes with its values. Adjacent terms
must all match; AND, OR, NOT, brackets and quotes work as usual; `\` escapes the next character. Identifiers separated
by commas or blanks are alternatives (observed). A syntax error raises QuerySyntaxError; the service answers it with no
rows and no message (observed). The LIKE patterns of dbdirect are translated here, too. `search` runs the conditions.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

_WORD: Final = re.compile(r"[^\W_]+")
_CUSTOM_FIELD: Final = "metacf_"
_MARK: Final = "\x1f"  # `str.split` treats it as a blank, so no normalised text holds it


def words(text: str) -> str:
    """Return the words in order, then the tokens that are not a single word (so that `note.txt` is found)."""
    lowered = text.lower()
    tokens = [token for token in lowered.split() if not _WORD.fullmatch(token)]
    found = _WORD.findall(lowered)
    return f" {' '.join(found)} {' '.join(tokens)} "


def label_mark(label: str) -> str:
    """Return a label in the form of the column `t_labels`."""
    return f"{_MARK}{_normalised(label)}{_MARK}"


def custom_mark(field_id: str, value: str) -> str:
    """Return a value of a custom field in the form of the column `t_custom`."""
    return f"{_MARK}{field_id.lower()}={_normalised(value)}{_MARK}"


def _normalised(text: str) -> str:
    return " ".join(text.lower().split())


def said_of(filetype: str, fields: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return the description and keywords of an upload: those for its kind, and only with metadata=1 (observed)."""
    if fields.get("metadata", "").lower() not in ("1", "true", "yes"):
        return None, None
    description, keywords = (
        (f"meta_{filetype}_description", f"meta_{filetype}_keywords")
        if filetype in ("img", "vid", "aud")
        else ("meta_file_desc", "meta_file_keywords")
    )
    return fields.get(description), fields.get(keywords)


def indexed_text(
    filename: str, description: str | None, keywords: str | None, fields: Mapping[str, str]
) -> dict[str, str]:
    """Return all searched text of an asset by column.

    Custom fields are form fields `metacf_<id>` (observed), with several values separated by commas. The interface
    cannot set labels; the sandbox reads them from `meta_labels`, separated by commas, so that label queries can be
    tried.
    """
    metadata = " ".join(value for name, value in fields.items() if "meta_" in name or name.startswith(_CUSTOM_FIELD))
    custom = "".join(
        custom_mark(name.removeprefix(_CUSTOM_FIELD), each)
        for name, value in fields.items()
        if name.startswith(_CUSTOM_FIELD)
        for each in value.split(",")
    )
    labels = "".join(label_mark(each) for each in fields.get("meta_labels", "").split(",") if each.strip())
    return {
        "t_any": words(f"{filename} {metadata}"),
        "t_name": words(filename),
        "t_description": words(description or ""),
        "t_keywords": words(keywords or ""),
        "t_labels": labels,
        "t_custom": custom,
    }


_MOST_TOKENS: Final = 100_000
_MOST_CLAUSES: Final = 400  # below SQLite's limit on the depth of an expression
_IDS: Final = re.compile(r"[0-9A-F]{32}(?:[,\s]+[0-9A-F]{32})*[,\s]*", re.IGNORECASE)
# A bracketed group. A bracket in it is literal after a backslash or in quotes, as everywhere.
_GROUP: Final = r"\((?:\\.|\"(?:\\.|[^\"\\])*\"|[^)\"\\])*\)"
_TOKEN: Final = re.compile(
    rf"""\s*(?:
        (?P<labels>labels:\s*{_GROUP}(?:\s*,\s*{_GROUP})*)
      | (?P<custom>customfieldvalue:\s*{_GROUP})
      | "(?P<phrase>[^"]*)"
      | (?P<mark>[():])
      | (?P<word>(?:\\.|[^\s():"\\])+)
    )""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
# The `+` in `(+id +value)` arrives as a blank if it was not percent-encoded; a value of several words is in quotes.
_PART: Final = re.compile(r'[+\s]*(?:"((?:\\.|[^"\\])*)"|((?:\\.|[^\s+"\\])+))', re.DOTALL)
_TEXT_FIELDS: Final = {"filename": "t_name", "description": "t_description", "keywords": "t_keywords"}
_VALUE_FIELDS: Final = {
    "extension": "extension",
    "folder": "folder_id",
    "folder_id": "folder_id",
    "kind": "kind",
    "md5hash": "md5",
}


class QuerySyntaxError(Exception):
    """The search entry has a syntax error."""


class Condition(NamedTuple):
    """An SQL condition and its values; `ids` is set if the condition only lists assets."""

    sql: str
    values: tuple[str | float, ...]
    ids: tuple[str, ...] = ()


NOTHING: Final = Condition("0", ())


def one_of(column: str, values: tuple[str, ...]) -> Condition:
    """Return the condition that a column has one of these values."""
    return Condition(f"{column} IN ({', '.join('?' * len(values))})", values)


class _Token(NamedTuple):
    kind: str
    text: str


def like(pattern: str) -> Condition:
    r"""Return the condition that a name matches a LIKE pattern: `%`, `_`, `\` escapes, case-insensitive (observed)."""
    return Condition("name_key LIKE ? ESCAPE '\\'", (pattern.lower(),))


def only_ids(searchfor: str) -> bool:
    """Return whether the entry consists only of identifiers, separated by commas or blanks."""
    return _IDS.fullmatch(searchfor.strip()) is not None


def condition(searchfor: str) -> Condition:
    """Return the condition for a search entry of the index; raise QuerySyntaxError."""
    if only_ids(searchfor):
        return _ids(tuple(re.split(r"[,\s]+", searchfor.strip().rstrip(",").strip())))
    return _Parser(_tokens(searchfor)).whole()


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    text = text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise QuerySyntaxError(text[at:])
        tokens.append(_Token(match.lastgroup, match[match.lastgroup]))
        at = match.end()
    if not tokens or len(tokens) > _MOST_TOKENS:
        raise QuerySyntaxError(text)
    return tokens


def _escaped(text: str) -> str:
    return re.sub(r"([\\%_])", r"\\\1", text)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _ids(ids: tuple[str, ...]) -> Condition:
    upper = tuple(each.upper() for each in ids)
    return one_of("id", upper)._replace(ids=upper)


def _text(column: str, word: str) -> Condition:
    if word in ("*", ""):
        return Condition("1", ())
    # Whether the last character is a star that is not escaped.
    prefix = re.fullmatch(r"(?:\\.|[^\\])*\*", word, re.DOTALL) is not None
    plain = _unescaped(word.removesuffix("*") if prefix else word).lower()
    if word.startswith("*"):
        raise QuerySyntaxError(word)
    return Condition(f"{column} LIKE ? ESCAPE '\\'", (f"% {_escaped(plain)}%" if prefix else f"% {_escaped(plain)} %",))


def _field(name: str, word: str) -> Condition:
    name = name.lower()
    if name == "id":
        return _ids((word,))
    if name in _TEXT_FIELDS:
        return _text(_TEXT_FIELDS[name], word)
    if name in _VALUE_FIELDS:
        return Condition(f"{_VALUE_FIELDS[name]} = ? COLLATE NOCASE", (word,))
    if name == "labels":
        return _labels(f"({word})")
    return NOTHING


def _labels(text: str) -> Condition:
    groups = [
        re.sub(r"\\(.)|\+", lambda found: found[1] or " ", group[1:-1], flags=re.DOTALL)
        for group in re.findall(_GROUP, text, re.DOTALL)
    ]
    return all_of([_contains("t_labels", label_mark(group)) for group in groups])


def _custom(text: str) -> Condition:
    inner = text.partition("(")[2].removesuffix(")")
    parts = [_unescaped(found[1] or found[2] or "") for found in _PART.finditer(inner)]
    if len(parts) < 2:  # noqa: PLR2004 - the field's identifier and at least one value
        raise QuerySyntaxError(text)
    return all_of([_contains("t_custom", custom_mark(parts[0], value)) for value in parts[1:]])


def _contains(column: str, text: str) -> Condition:
    return Condition(f"instr({column}, ?)", (text,))


def all_of(parts: Sequence[Condition]) -> Condition:
    """Return the condition that all of these hold; without any it always holds."""
    return _joined(" AND ", parts) if parts else Condition("1", ())


def _joined(word: str, parts: Sequence[Condition]) -> Condition:
    if len(parts) == 1:
        return parts[0]
    if word == " OR " and all(part.ids for part in parts):
        return _ids(tuple(each for part in parts for each in part.ids))
    if len(parts) > _MOST_CLAUSES:
        raise QuerySyntaxError(f"{len(parts)} clauses")
    return Condition(
        f"({word.join(part.sql for part in parts)})", tuple(value for part in parts for value in part.values)
    )


class _Parser:
    """A recursive descent over the tokens; `of` returns the condition for a word, depending on the field before it."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def whole(self) -> Condition:
        found = self._alternatives(lambda word: _text("t_any", word))
        if self._at != len(self._tokens):
            raise QuerySyntaxError(self._tokens[self._at].text)
        return found

    def _peek(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _skip(self, kind: str, text: str) -> bool:
        if self._peek() == _Token(kind, text):
            self._at += 1
            return True
        return False

    def _alternatives(self, of: Callable[[str], Condition]) -> Condition:
        parts = [self._all(of)]
        while self._skip("word", "OR"):
            parts.append(self._all(of))
        return _joined(" OR ", parts)

    def _all(self, of: Callable[[str], Condition]) -> Condition:
        parts = [self._one(of)]
        while (token := self._peek()) is not None and token not in (_Token("word", "OR"), _Token("mark", ")")):
            self._skip("word", "AND")
            parts.append(self._one(of))
        return all_of(parts)

    def _one(self, of: Callable[[str], Condition]) -> Condition:
        if self._skip("word", "NOT"):
            negated = self._one(of)
            return Condition(f"NOT {negated.sql}", negated.values)
        token = self._peek()
        if token is None:
            raise QuerySyntaxError("the entry ends too early")
        self._at += 1
        match token.kind:
            case "labels":
                return _labels(token.text)
            case "custom":
                return _custom(token.text)
            case "phrase":
                return of(token.text)
            case "word" if token.text not in ("AND", "OR"):
                return self._word(token.text, of)
            case "mark" if token.text == "(":
                return self._group(of)
        raise QuerySyntaxError(token.text)

    def _word(self, word: str, of: Callable[[str], Condition]) -> Condition:
        if self._skip("mark", ":"):
            if word == "*":
                self._skip("word", "*")
                return Condition("1", ())
            return self._one(lambda value: _field(word, value))
        parts = [part for part in word.split(",") if part]
        if not parts:
            raise QuerySyntaxError(word)
        return all_of([of(part) for part in parts])

    def _group(self, of: Callable[[str], Condition]) -> Condition:
        self._depth += 1
        if self._depth > 50:  # noqa: PLR2004 - far more brackets than anyone writes
            raise QuerySyntaxError("too many brackets")
        found = self._alternatives(of)
        if not self._skip("mark", ")"):
            raise QuerySyntaxError("a bracket is not closed")
        self._depth -= 1
        return found

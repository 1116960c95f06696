"""Turn pydantic's errors on a document into problems that a person can fix.

A problem has the place, the dotted name of the key, a suggestion for an unknown name, and the value if that cannot be
a secret. Turning a problem into an error of the program is left to the caller.
"""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from assetsync.config.document.loader import Document, Path, Problem
from assetsync.errors import Unusable
from assetsync.text import printable

_LONGEST_NAME = 60
# Suggestions for ten thousand mistakes would take a second, and no one reads so many.
_MOST = 1000
# pydantic's error type → problem, fix. `{…}` are pydantic's own facts, never the input.
_WORDS = {
    "missing": ("it is missing", "add it"),
    "model_type": ("it must be a group of `key: value` lines", "write the keys below it, indented"),
    "dict_type": ("it must be a group of `key: value` lines", "write the keys below it, indented"),
    "tuple_type": ("it must be a list", "begin each entry with `- `"),
    "string_type": ("it has no value", "write one, or remove the line"),
    "literal_error": ("it is not an accepted value", "write {expected}"),
    "greater_than": ("it is too small", "write more than {gt:g}"),
    "greater_than_equal": ("it is too small", "write {ge:g} or more"),
    "less_than_equal": ("it is too large", "write {le:g} or less"),
    "too_short": ("it is empty", "write at least one entry"),
}
_SHOWN_BELOW = frozenset({"watch", "upload", "schedule", "policy", "brake", "status", "log"})
_SHOWN_KEYS = frozenset({"site", "root", "ledger", "path", "settle", "connect_timeout", "read_timeout"})
"""The sections and keys whose values are shown; no address, command, metadata or key file is among them."""
_SHORT = re.compile(r"[ -~]{1,40}")
# A key that was pasted into the wrong line is a long run of letters and digits.
_LIKE_A_KEY = re.compile(r"(?=[A-Za-z]*[0-9])[A-Za-z0-9]{12,}")
_FOLLOWS_FROM_ANOTHER = "default_factory_not_called"


def dotted(path: Path) -> str:
    """Return the path of a key in dotted form: `folders[0].destfolderid`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = printable(part)
            name = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
            text += f".{name}" if text else name
    return text


def problems_of(
    error: ValidationError, document: Document, model: type[BaseModel], *, show_values: bool = False
) -> list[Problem]:
    """Return a problem for every mistake in `error`, which came from checking `document` against `model`.

    With `show_values`, the text that cannot be used is quoted, unless it may be a secret; a sidecar's never is.
    A mistake at or below a place with a problem in the document itself is left out: it follows from that problem.
    """
    known = [problem.path for problem in document.problems]
    found = []
    items = error.errors(include_url=False, include_input=False)[:_MOST]
    misspelt = {
        (*item["loc"][:-1], meant)
        for item in items
        if item["type"] == "extra_forbidden"
        for meant in _close(str(item["loc"][-1]), _names(item["loc"][:-1], model))
    }
    for item in items:
        # pydantic marks the key of a mapping, as opposed to its value, by an extra last part.
        path = item["loc"][:-1] if item["loc"][-1:] == ("[key]",) else item["loc"]
        if item["type"] == _FOLLOWS_FROM_ANOTHER or any(path[: len(bad)] == bad for bad in known if bad):
            continue
        # A missing key with a misspelt key beside it is a single mistake.
        if item["type"] == "missing" and path in misspelt:
            continue
        # pydantic also reports a list as empty if all its entries have mistakes of their own.
        if item["type"] == "too_short" and any(
            len(other["loc"]) > len(path) for other in items if other["loc"][: len(path)] == path
        ):
            continue
        problem, hint = _words(item["type"], item.get("ctx", {}), path, model)
        is_shown = show_values and item["type"] != "extra_forbidden"
        shown = _value_shown(document, path) if is_shown else ""
        found.append(Problem(path, problem, hint + shown, *document.mark(path)))
    return found


def _value_shown(document: Document, path: Path) -> str:
    """Return the end of a sentence that quotes the text at `path`; "" if there is none, or it may be a secret."""
    if not path or not (path[0] in _SHOWN_BELOW or path[-1] in _SHOWN_KEYS):
        return ""
    value = document.value
    for part in path:
        if isinstance(value, dict) and isinstance(part, str):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int):
            value = value[part]
    is_shown = isinstance(value, str) and _SHORT.fullmatch(value) and not _LIKE_A_KEY.search(value)
    return f"; the value is '{value}'" if is_shown else ""


def _words(kind: str, context: dict[str, Any], path: Path, model: type[BaseModel]) -> tuple[str, str]:
    if isinstance(error := context.get("error"), Unusable):
        return error.problem, error.hint
    if kind == "extra_forbidden":
        return "this key is unknown", _suggest(str(path[-1]), path[:-1], model)
    problem, hint = _WORDS.get(kind, ("it cannot be used", "see config.example.yaml"))
    return problem, hint.format(**context)


def _suggest(name: str, around: Path, model: type[BaseModel]) -> str:
    names = _names(around, model)
    close = _close(name, names)
    if close:
        return f"did you mean `{close[0]}`?"
    elsewhere = [dotted(path) for path in _all_keys(model) if path[-1] == name]
    if elsewhere:
        return f"did you mean `{elsewhere[0]}`?"
    return f"remove it; the keys here are {', '.join(names)}" if names else "remove it"


def _names(around: Path, model: type[BaseModel]) -> list[str]:
    here = model_at(model, around)
    return list(here.model_fields) if here else []


def _close(name: str, names: list[str]) -> list[str]:
    return get_close_matches(name.lower(), names, n=1, cutoff=0.6)


def model_at(model: type[BaseModel], path: Iterable[str | int]) -> type[BaseModel] | None:
    """Return the model of the value at `path` of a document read by `model`; None if no model reads it."""
    here: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, int):
            continue
        field = here.model_fields.get(part) if here else None
        here = inner_model(field.annotation) if field else None
    return here


def inner_model(annotation: object) -> type[BaseModel] | None:
    """Return the model inside `Model`, `Model | None`, `tuple[Model, ...]` or `dict[str, Model]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for argument in get_args(annotation) if (found := inner_model(argument))), None)


def _all_keys(model: type[BaseModel], above: Path = ()) -> Iterator[Path]:
    for name, field in model.model_fields.items():
        yield (*above, name)
        inner = inner_model(field.annotation)
        if inner:
            yield from _all_keys(inner, (*above, name))

"""`assetsync schema`: print the JSON Schema of a `--json` output, or of the configuration.

The schemas of the outputs are the files of `assetsync/schemas`, which take the keys that they share from
`vocabulary.json`. The schema of the configuration comes from its models, with the meanings and defaults of the example
configuration.
"""

import json
import re
from collections.abc import Iterator
from difflib import get_close_matches
from importlib.resources import files
from typing import Any

import click
import yaml

from assetsync.cli.commands.example import shared
from assetsync.cli.output import write, write_data
from assetsync.config.models import SiteConfig
from assetsync.errors import UsageError

_CONFIGURATION = "configuration"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NULL = {"type": "null"}
_FILE_OF = {
    **dict.fromkeys(("pause", "resume", "doubt-retry", "doubt-resolve", "drift-settle"), "retry"),
    "status-json": "status",
}
"""The file of each output that has the schema of another output."""


@click.command("schema")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """List the JSON Schemas, or print the schema NAME of a command's output or of the configuration.

    If a command prints one object a line, its schema describes a line. Schemas of outputs allow further keys, because
    later versions may add some. The schema of the configuration does not: editors use it to mark misspelt keys, and to
    show what a key means.

    \b
    Examples:
      assetsync schema
      assetsync schema files
      assetsync schema configuration > assetsync.schema.json
    """
    known = names()
    if name is None:
        width = max(map(len, known))
        for each in known:
            write(f"{each:<{width}}  {schema(each)['title']}")
        return
    if name not in known:
        close = get_close_matches(name.lower(), known, n=1)
        hint = f"did you mean `{close[0]}`?" if close else "`assetsync schema` lists them"
        raise UsageError(f"there is no schema {name!r}", hint=hint)
    write_data(json.dumps(schema(name), indent=2, ensure_ascii=False))


def names() -> list[str]:
    """Return the names of all schemas, sorted."""
    outputs = [file.name.removesuffix(".json") for file in files("assetsync").joinpath("schemas").iterdir()]
    return sorted([*outputs, *_FILE_OF, _CONFIGURATION])


def schema(name: str) -> dict[str, Any]:
    """Return the schema of an output, or of the configuration."""
    if name != _CONFIGURATION:
        found: dict[str, Any] = _filled(_read(_FILE_OF.get(name, name)), _read("vocabulary")["properties"])
        return found
    made = SiteConfig.model_json_schema()
    example = shared("config.example.yaml").read_text("utf-8")
    descriptions, document = meanings(example), yaml.safe_load(example)
    for path, field, needed in list(_fields(made, made["$defs"])):
        default, is_section = field.pop("default", None), "$ref" in field
        field.pop("title", None)
        for bound, word in (("ge", "minimum"), ("le", "maximum")):
            if bound in field:
                field[word] = field.pop(bound)
        # A key without a value keeps its default, but work cannot be due at no time.
        if not needed and not path.startswith("schedule."):
            kinds = field.get("anyOf") or [dict(field)]
            field.clear()
            field["anyOf"] = kinds if _NULL in kinds else [*kinds, _NULL]
        if path in descriptions:
            field["description"] = descriptions[path]
        # The model's own defaults are values, such as seconds; the example has them as they are written.
        if default not in (None, []) and not is_section:
            field["default"] = _at(document, path)
    title = {"$schema": _DIALECT, "title": "The configuration of a site"}
    return title | {key: value for key, value in made.items() if key != "title"}


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files("assetsync").joinpath("schemas", f"{name}.json").read_text("utf-8"))
    return found


def _filled(part: Any, vocabulary: dict[str, Any]) -> Any:
    """Return a part of a schema with each `$ref` replaced by the shared key that it ends with; other words stay."""
    if isinstance(part, list):
        return [_filled(item, vocabulary) for item in part]
    if not isinstance(part, dict):
        return part
    key = part.get("$ref", "").rpartition("/")[2]
    whole = vocabulary[key] | part if key else part
    return {word: _filled(value, vocabulary) for word, value in whole.items() if word != "$ref"}


def meanings(example: str) -> dict[str, str]:
    """Return the comment above each key of the example configuration, keys that are commented out included."""
    found: dict[str, str] = {}
    comment: list[str] = []
    stack: list[tuple[int, str]] = []
    for line in example.splitlines():
        match = re.match(r"( *)#(?: (.*)|$)", line)
        key = re.match(r"( *(?:- )?)#?([a-z_]+):(?: |$)", line)
        if match and (match[2] or "").startswith("  "):
            # A key below one that is commented out.
            comment = []
        elif match and not line.startswith("# ──"):
            comment.append(match[2] or "")
        elif key:
            depth = len(key[1])
            stack = [*[(at, name) for at, name in stack if at < depth], (depth, key[2])]
            path = ".".join(name for _, name in stack).replace("folders.", "folders[].")
            if comment:
                found[path] = " ".join(comment).strip()
            comment = []
        else:
            comment = []
    return found


def _fields(model: dict[str, Any], models: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any, bool]]:
    """Yield the path, the schema and whether it is needed of each key, those of inner models included."""
    for name, field in model["properties"].items():
        path = before + name
        inner = field.get("$ref") or field.get("items", {}).get("$ref")
        if inner is not None:
            yield from _fields(
                models[inner.rpartition("/")[2]], models, f"{path}[]." if "items" in field else f"{path}."
            )
        yield path, field, name in model.get("required", ())


def _at(document: Any, path: str) -> Any:
    """Return the value at a path of the example configuration; the first item of a list stands for all."""
    for name in path.split("."):
        document = document[name.removesuffix("[]")]
        document = document[0] if name.endswith("[]") else document
    return document

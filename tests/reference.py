"""The generated references of the guide: the configuration, the ledger, the keys of JSON outputs, and the states.

The first is made of the models (keys, types, defaults) and the example (meanings), the diagram of the states of their
table, the others of the schemas.

`python -m tests.reference` writes it anew; a test fails when it is not up to date.
"""

import re
import typing
from collections.abc import Iterator
from pathlib import Path

import sqlite_utils
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from assetsync.cli.commands.schema import meanings
from assetsync.cli.commands.schema import schema as output_schema
from assetsync.config.document.metadata import SaidWithPlaceholders
from assetsync.config.models import Folder, KindFields, Section, SiteConfig
from assetsync.config.schedule import Cron, Interval
from assetsync.config.values import Listen
from assetsync.core.states import TABLE, WANTED_AFTER, Next
from assetsync.ledger.file import schema
from assetsync.model import State

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "assetsync" / "guide"
EXAMPLE = ROOT / "config.example.yaml"

# How a value is read decides what a person calls it.
_READERS = {
    "duration": "duration",
    "size": "size",
    "rates": "rate or timetable",
    "share": "percentage",
    "window": "hours",
    "listen": "address:port or auto",
    "web_address": "address",
    "absolute": "path",
    "below_root": "path",
    "due": "interval, cron line or off",
    "_flag": "yes or no",
    "_flag_or_required": "on, off or required",
    "_whole": "number",
    "_texts": "list",
    "_events": "list",
    "_command": "line or list",
    "site_name": "name",
}


def keys(model: type[Section] = SiteConfig, before: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Give every key that takes a value, by its path in the file."""
    for name, field in model.model_fields.items():
        path = before + name
        inner = _section(field)
        if inner is None or inner in (KindFields, SaidWithPlaceholders) or name == "metadata_fields":
            yield path, field
        else:
            yield from keys(inner, path + ("[]." if inner is Folder else "."))


def _section(field: FieldInfo) -> type[Section] | None:
    found = [field.annotation, *typing.get_args(field.annotation)]
    return next((one for one in found if isinstance(one, type) and issubclass(one, Section)), None)


def kind(field: FieldInfo) -> str:
    """Say in a word or two what a key takes."""
    if typing.get_origin(field.annotation) is typing.Literal:
        return " · ".join(f"`{value}`" for value in typing.get_args(field.annotation))
    if _section(field) is not None or typing.get_origin(field.annotation) is dict:
        return "keys"
    metadata = list(field.metadata)
    for part in typing.get_args(field.annotation):
        metadata += typing.get_args(part)[1:] if typing.get_origin(part) is typing.Annotated else []
    readers = [getattr(getattr(part, "func", None), "__name__", "") for part in metadata]
    named = [_READERS[reader] for reader in readers if reader in _READERS]
    word = named[-1] if named else "text"
    bounds = [(getattr(m, "ge", None), getattr(m, "le", None)) for m in metadata]
    least = next((ge for ge, _ in bounds if ge), None)
    most = next((le for _, le in bounds if le), None)
    return f"{word} ({least}-{most})" if least is not None and most is not None else word


def default(path: str, field: FieldInfo) -> str:
    """Give the default as it would be written in the file."""
    if path == "ledger":
        return "`/var/lib/assetsync/<site>.db`"
    value = field.default
    if field.is_required():
        return "**needed**"
    if value in (None, (), PydanticUndefined) or isinstance(value, Section):
        return "-"
    if isinstance(value, Interval):
        return f"`{_span(value.seconds)}`"
    if isinstance(value, Cron):
        return f"`{value.line}`"
    if isinstance(value, Listen):
        return f"`{value.host}:{value.port}`"
    if isinstance(value, bool):
        words = ("off", "on") if kind(field).startswith("on, off") else ("no", "yes")
        return f"`{words[value]}`"
    if path.endswith("_share"):
        return f"`{value:.0%}`"
    if isinstance(value, float):
        return f"`{_span(value)}`"
    return f"`{value}`"


def _span(seconds: float) -> str:
    for unit, length in (("h", 3600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"


def table() -> str:
    """Give the whole reference as a table of Markdown."""
    told = meanings(EXAMPLE.read_text("utf-8"))
    lines = ["| key | takes | default | meaning |", "|---|---|---|---|"]
    for path, field in keys():
        cell = re.sub(r"\s+", " ", told[path]).replace("|", "·").replace("*", r"\*")
        lines.append(f"| `{path}` | {kind(field)} | {default(path, field)} | {cell} |")
    return "\n".join(lines)


def tables() -> dict[str, tuple[str, list[tuple[str, str, str]]]]:
    """Read the schema: what a table is for, and of each column its name, its type and what it holds."""
    found: dict[str, tuple[str, list[tuple[str, str, str]]]] = {}
    above: list[str] = []
    columns: list[tuple[str, str, str]] = []
    # Every script of every migration, in the order in which they are carried out.
    for line in Path(schema.__file__).read_text("utf-8").splitlines():
        begun = re.match(r"CREATE TABLE (\w+) \((.*)", line)
        column = re.match(r"    (?!PRIMARY KEY)(\w+) ([A-Z]+)[^-]*(?:-- (.*))?$", line)
        added = re.match(r"ALTER TABLE (\w+) ADD COLUMN (\w+) ([A-Z]+)[^-]*(?:-- (.*))?$", line)
        renamed = re.match(r"ALTER TABLE (\w+) RENAME (?:COLUMN (\w+) )?TO (\w+);$", line)
        if line.startswith("-- "):
            above.append(line[3:])
        elif begun:
            columns = []
            found[begun[1]] = (" ".join(above), columns)
            columns += re.findall(r"(\w+) (INTEGER|TEXT|REAL|BLOB)()", begun[2])
        elif column and line.startswith("    "):
            columns.append((column[1], column[2], column[3] or ""))
        elif added:
            found[added[1]][1].append((added[2], added[3], added[4] or ""))
        elif renamed and renamed[2]:
            purpose, named = found[renamed[1]]
            found[renamed[1]] = purpose, [(renamed[3] if n == renamed[2] else n, k, text) for n, k, text in named]
        elif renamed:
            found = {renamed[3] if name == renamed[1] else name: what for name, what in found.items()}
        if not line.startswith("-- "):
            above = []
    newest = sqlite_utils.Database(memory=True)
    schema.migrations.apply(newest)
    there = {table.name: {column.name for column in table.columns} for table in newest.tables}
    return {
        name: (purpose, [column for column in columns if column[0] in there[name]])
        for name, (purpose, columns) in found.items()
        if name in there
    }


def ledger() -> str:
    """Give the tables of the ledger as Markdown."""
    lines = []
    for name, (purpose, columns) in tables().items():
        lines += [f"**`{name}`** {purpose}".rstrip(), "", "| column | type | holds |", "|---|---|---|"]
        lines += [f"| `{column}` | {kind_} | {text} |" for column, kind_, text in columns]
        lines.append("")
    return "\n".join(lines).rstrip()


def vocabulary() -> str:
    """Give the keys that JSON outputs share as a table of Markdown."""
    lines = ["| key | type | meaning |", "|---|---|---|"]
    for key, said in output_schema("vocabulary")["properties"].items():
        kinds = [said["type"]] if isinstance(said["type"], str) else [kind for kind in said["type"] if kind != "null"]
        lines.append(f"| `{key}` | {'time' if 'format' in said else kinds[0]} | {said['description'].rstrip('.')} |")
    return "\n".join(lines)


def diagram() -> str:
    """Draw the life of a wanted file version as a Mermaid state diagram, from the table alone."""
    targets: dict[Next, list[State]] = {
        Next.RESUMED: [State.STORED, State.IN_DOUBT, State.QUEUED],
        Next.REOPENED: [State.IN_DOUBT, State.QUEUED],
    }
    edges: dict[tuple[State, State], list[str]] = {}
    for event, row in TABLE.items():
        if event in WANTED_AFTER:
            continue
        for state, to in row.items():
            if to is Next.SAME or state in (State.SUPERSEDED, State.GONE):
                continue
            for target in targets[to] if isinstance(to, Next) else [to]:
                edges.setdefault((state, target), []).append(str(event))
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> queued"]
    lines += [f"    {a} --> {b}: {' · '.join(events)}" for (a, b), events in edges.items() if a != b]
    return "\n".join([*lines, "```"])


# By the mark at which each stands: its page, and what makes it.
BLOCKS = {
    "configuration": ("configuration", table),
    "ledger": ("ledger", ledger),
    "json": ("json", vocabulary),
    "states": ("promises-and-evidence", diagram),
}


def main() -> None:
    """Write the references into their pages."""
    for mark, (name, made) in BLOCKS.items():
        page = GUIDE / f"{name}.md"
        text = page.read_text("utf-8")
        before, rest = text.split(f"<!-- {mark} -->")
        text = f"{before}<!-- {mark} -->\n{made()}\n<!-- /{mark} -->{rest.split(f'<!-- /{mark} -->')[1]}"
        page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()

"""Each key of the configuration is read by the program: a key that reaches nothing promises what it does not do."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pydantic import BaseModel

import assetsync
from assetsync.config.document.problems import inner_model
from assetsync.config.models import SiteConfig

PACKAGE = Path(assetsync.__file__).parent
# An attribute, or the name as a text by which some modules read it; a validator reads nothing.
READ = re.compile(r"(?m)^ *@.*$|\.([a-z_]+)\b|[\"']([a-z_]+)[\"']")


def keys(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = inner_model(field.annotation)
        yield from [name] if inner is None else [name, *keys(inner)]


@cache
def names_read() -> set[str]:
    modules = (path for path in PACKAGE.rglob("*.py") if "sandbox" not in path.parts)
    return {name for module in modules for found in READ.findall(module.read_text("utf-8")) for name in found}


def test_each_key_is_read():
    assert set(keys(SiteConfig)) - names_read() == set()


def test_unread_key_is_found():
    class Schedule(BaseModel):
        rescan: float = 1.0
        rescan_on_full_moon: bool = False

    class Site(BaseModel):
        schedule: Schedule = Schedule()

    assert set(keys(Site)) - names_read() == {"rescan_on_full_moon"}

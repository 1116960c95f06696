"""Options for labels, custom fields and fields, in place of the search syntax (interface section 4.1.1).

Writing the syntax is left to `service.search`.
"""

from collections.abc import Callable
from typing import Any

import click

from assetsync.errors import UsageError
from assetsync.service.search import custom_field, field, labels, narrowed

_Pairs = tuple[tuple[str, str], ...]


def _pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> _Pairs:
    pairs = tuple(value.partition("=") for value in values)
    if not all(name and value for name, _equals, value in pairs):
        raise click.BadParameter(f"write it as {param.make_metavar(ctx)}")
    return tuple((name, value) for name, _equals, value in pairs)


_OPTIONS = (
    click.option("--label", multiple=True, metavar="NAME", help="Carries this label; a nested one is A/B."),
    click.option("--custom-field", multiple=True, metavar="ID=VALUE", callback=_pairs, help="Holds this value."),
    click.option("--field", multiple=True, metavar="NAME=WORDS", callback=_pairs, help="Has these words there."),
)


def with_queries(command_function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `entry_of` reads to a command."""
    for option in reversed(_OPTIONS):
        command_function = option(command_function)
    return command_function


def entry_of(term: str | None, given: dict[str, Any]) -> str:
    """Remove these options from the arguments of a command, and return them and TERM as one search entry.

    Raise UsageError for options that cannot be used, and if there is nothing to search for.
    """
    names: tuple[str, ...] = given.pop("label")
    customs: _Pairs = given.pop("custom_field")
    fields: _Pairs = given.pop("field")
    queries = [labels(*names)] if names else []
    values: dict[str, list[str]] = {}
    for field_id, value in customs:
        # All values of a custom field go into one query.
        values.setdefault(field_id, []).append(value)
    queries += [custom_field(field_id, *several) for field_id, several in values.items()]
    queries += [field(name, words) for name, words in fields]
    if queries and given["dbdirect"]:
        raise UsageError("labels and fields are not in what --dbdirect searches", hint="leave one of them out")
    if term is None and not queries:
        raise UsageError("nothing to search for", hint="give a TERM, --label, --custom-field or --field")
    return narrowed(term, *queries)

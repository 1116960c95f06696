"""`assetsync search`: searchassets by hand. Each parameter of interface section 4.1 is an option of the same name.

`service.search` checks the values of the parameters, and `queries` writes the search syntax. Reading the answers is
left to the client.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import click

from assetsync.cli.commands.export import csv_line
from assetsync.cli.operator import open_service
from assetsync.cli.options import with_config, with_json
from assetsync.cli.output import first_of, note, warn, write_data, write_json, writing
from assetsync.cli.show_request import show_call, with_explain
from assetsync.config import SiteConfig
from assetsync.errors import UsageError
from assetsync.model import Asset, SearchRequest
from assetsync.service.paging import PAGE, Search, every
from assetsync.service.search import Wire, custom_field, field, labels, narrowed, search_call
from assetsync.text import printable

_Pairs = tuple[tuple[str, str], ...]


_ROWS = 25
"""Rows of an answer without `maxrows` (interface section 8)."""


def _pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> _Pairs:
    pairs = tuple(value.partition("=") for value in values)
    if not all(name and value for name, _equals, value in pairs):
        raise click.BadParameter(f"write it as {param.make_metavar(ctx)}")
    return tuple((name, value) for name, _equals, value in pairs)


def _entry_of(term: str | None, given: dict[str, Any]) -> str:
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


# Name, metavar, type and help text; the words are those of interface section 4.1.
_PARAMETERS: tuple[tuple[str, str, type, str], ...] = (
    ("show", "KIND", str, "all, img, vid, doc or aud."),
    ("doctype", "TYPE", str, "pdf, xls, doc or other; only with --show doc."),
    ("datecreate", "DAY", str, "Created on this day: yyyy-mm-dd or yyyymmdd."),
    ("datechange", "DAY", str, "Changed on this day."),
    ("datecreaterange", "RANGE", str, "Created within: 'yyyymmdd TO yyyymmdd'."),
    ("datechangerange", "RANGE", str, "Changed within."),
    ("folderid", "ID", str, "Only in this folder."),
    ("sortby", "ORDER", str, "name, sizedesc, sizeasc, dateadd or datechanged."),
    ("available", "0|1", str, "1 = processed, 0 = not processed."),
    ("startrow", "N", int, "The first row, from 1."),
    ("maxrows", "N", int, "The most rows; the service's default is 25, 0 is all."),
    ("showrenditions", "BOOL", bool, "Whether renditions are included."),
    ("datecreateparam", "OP", str, "With --dbdirect: >, <, =>, =< or between."),
    ("datecreatestart", "TIME", str, "With --dbdirect: 'yyyy-mm-dd hh:mm:ss'."),
    ("datecreatestop", "TIME", str, "With --dbdirect, for between."),
    ("datechangeparam", "OP", str, "With --dbdirect: as --datecreateparam."),
    ("datechangestart", "TIME", str, "With --dbdirect."),
    ("datechangestop", "TIME", str, "With --dbdirect, for between."),
)


def _with_parameters(command_function: Callable[..., Any]) -> Callable[..., Any]:
    for name, takes, kind, meaning in reversed(_PARAMETERS):
        option = click.option(f"--{name}", name, metavar=takes, type=kind, help=meaning)
        command_function = option(command_function)
    return command_function


@click.command("search")
@with_config
@click.option("--label", multiple=True, metavar="NAME", help="Has this label; A/B is label B below A.")
@click.option(
    "--custom-field", multiple=True, metavar="ID=VALUE", callback=_pairs, help="Has this value in the custom field."
)
@click.option("--field", multiple=True, metavar="NAME=WORDS", callback=_pairs, help="Has these words in the field.")
@_with_parameters
@click.option("--dbdirect", is_flag=True, help="Search the database: TERM is a file name with % and _ as in LIKE.")
@click.option("--all-pages", is_flag=True, help="Print every asset, page by page; --maxrows is the size of a page.")
@click.option(
    "--wire",
    type=click.Choice(["row", "column", "jsonp", "wddx"]),
    help="The format to request; without --json and --csv, print the answer as received (escaped on a terminal).",
)
@click.option("--callback", metavar="NAME", help="With --wire jsonp: the function of the answer, by default cb.")
@with_json("Print one asset a line, with every column of the answer.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with every column of the answer.")
@with_explain
@click.argument("term", required=False)
def command(
    config: SiteConfig,
    term: str | None,
    *,
    all_pages: bool,
    as_json: bool,
    as_csv: bool,
    explain: bool,
    callback: str | None,
    **given: Any,
) -> None:
    """Search the service (interface section 4.1); needs no ledger.

    TERM uses the search syntax of the interface (4.1.1). The values of --label, --custom-field and --field are taken
    literally. These options may be repeated, and all must match. With them, TERM may be left out.

    \b
    Examples:
      assetsync search --config hq.yaml harbour
      assetsync search --config hq.yaml 'keywords:dawn' --show img --sortby sizedesc --all-pages --json
      assetsync search --config hq.yaml 'harb*' --label Ports/Oslo --label dawn --field keywords=pier
      assetsync search --config hq.yaml --custom-field 7F3A=red --custom-field 7F3A=blue
      assetsync search --config hq.yaml 'harbour%' --dbdirect --folderid A6CE649FAA5F434EB513CA15656AB5AA
      assetsync search --config hq.yaml '%' --dbdirect --datecreateparam '>' --datecreatestart '2026-01-01 00:00:00'
      assetsync search --config hq.yaml harbour --wire wddx
      assetsync search --config hq.yaml harbour --label dawn --explain
    """
    wire: Wire | None = given.pop("wire")
    as_it_comes = wire is not None and not (as_json or as_csv)
    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other")
    if all_pages and as_it_comes:
        raise UsageError("--wire and --all-pages exclude each other", hint="add --json or --csv to have it read")
    _expect_jsonp(callback, wire if as_it_comes else None)
    request = SearchRequest(searchfor=_entry_of(term, given), **given)
    if explain:
        first = replace(request, startrow=1, maxrows=request.maxrows or PAGE) if all_pages else request
        show_call(config, search_call(first, wire or "row", callback or "cb"), as_json=as_json)
        return
    with open_service(config) as service:
        if wire is not None and as_it_comes:
            _write_as_it_comes(service.search_raw(request, wire, callback or "cb"))
            return
        columns: list[str] = []

        @contextmanager
        def search(request: SearchRequest) -> Iterator[Iterator[Asset]]:
            with service.search(request, wire or "row") as stream:
                # An answer without rows names its columns, too.
                columns[:] = stream.columns
                yield stream

        found = pages(search, request) if all_pages else _one_page(search, request)
        if as_csv:
            # The columns are known once the first asset, or the end of the answer, is read.
            first_asset = next(found, None)
            names = list(dict.fromkeys(columns))
            write_data(csv_line(names))
            for asset in chain([] if first_asset is None else [first_asset], found):
                write_data(csv_line([asset.columns.get(name) for name in names]))
        elif as_json:
            for asset in found:
                write_json(dict(asset.columns))
        else:
            _write_table(found)


def _expect_jsonp(callback: str | None, wire: Wire | None) -> None:
    """Raise UsageError if a function is named for an answer that calls none; `wire` is the format that is printed."""
    if callback is not None and wire != "jsonp":
        raise UsageError("--callback is given without --wire jsonp", hint="only that answer calls a function")


def _write_as_it_comes(body: bytes) -> None:
    if sys.stdout.isatty():
        # Escaped: a name in the answer may hold terminal control characters. The exact bytes go to a pipe or a file.
        for line in body.removesuffix(b"\n").split(b"\n"):
            write_data(printable(line.removesuffix(b"\r")))
        return
    with writing():
        click.echo(body, nl=False)


def _one_page(search: Search, request: SearchRequest) -> Iterator[Asset]:
    """Yield the assets of one answer, then report what it leaves out, or that it ignored the limit."""
    rows, total, first = 0, 0, request.startrow or 1
    with search(request) as assets:
        for asset in assets:
            rows += 1
            total = int(str(asset.columns.get("totalassetscount") or 0))
            yield asset
    if request.maxrows and request.dbdirect and rows > request.maxrows:
        warn(f"the service ignores --maxrows and --startrow with --dbdirect: these are all {rows:,} rows")
    elif request.maxrows != 0 and rows >= (request.maxrows or _ROWS) and total >= first + rows:
        shown = f"{rows:,}" if first == 1 else f"{first:,} to {first + rows - 1:,}"
        note(f"{shown} of {total:,}: --maxrows N prints more, --all-pages prints all")


def pages(search: Search, request: SearchRequest) -> Iterator[Asset]:
    """Yield every asset of a search once, from the asset number `startrow` on; `maxrows` is the size of a page."""
    seen: set[str] = set()
    # Some services count pages, or ignore `startrow`: what precedes it is read and left out.
    found = every(search, replace(request, startrow=None, maxrows=None), size=request.maxrows or PAGE)
    for asset in islice(found, (request.startrow or 1) - 1, None):
        if asset.id not in seen:
            seen.add(asset.id)
            yield asset


def _write_table(found: Iterator[Asset]) -> None:
    for asset in first_of(found, 0, empty="nothing found"):
        size = "?" if asset.size is None else f"{asset.size:,}"
        name = printable(asset.filename)
        write_data(f"{asset.id:<32}  {printable(asset.kind):<5}  {size:>14}  {printable(asset.folder_id):<32}  {name}")

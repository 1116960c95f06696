"""The guide's table of the interface is complete, and all that it names is there."""

import importlib
import re
from pathlib import Path

import click
import pytest

from assetsync.cli.root import COMMANDS
from assetsync.core.outcome import MESSAGES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "assetsync" / "guide" / "interface-coverage.md").read_text("utf-8")
SECTION = PAGE.split("<!-- coverage -->")[1].split("<!-- /coverage -->")[0]

# The rows of the interface, transcribed from it; where a row has no name there, by what it is. The value is what a test
# of it must hold, where that is not the name itself.
INTERFACE: dict[str, dict[str, str]] = {
    "Search, parameters": dict.fromkeys(
        (
            "method",
            "api_key",
            "searchfor",
            "show",
            "doctype",
            "datecreate",
            "datechange",
            "datecreaterange",
            "datechangerange",
            "folderid",
            "sortby",
            "available",
            "startrow",
            "maxrows",
            "showrenditions",
            "dbdirect",
            "datecreateparam",
            "datecreatestart",
            "datecreatestop",
            "datechangeparam",
            "datechangestart",
            "datechangestop",
        ),
        "",
    ),
    "Search, syntax": {
        "plain term": "term(text)",
        "trailing *": '"harb*"',
        "<field>:<value>": "field(name, value)",
        "labels:(<label>)": "labels:(A)",
        "labels:(<label1>),(<label2>)": "labels(*given_names)",
        "nested label with /": "Ports/Old Harbour",
        "space as +": 'self.skip("+")',
        "customfieldvalue:(+<id> +<value>)": "customfieldvalue:(+",
        "several values": "multi_value_custom_field",
        "AND": " AND ",
    },
    "Search, answers": {
        "columns": "",
        "data": "",
        "(none)": '"row"',
        "BDQUERYFORMAT=column": "",
        "BDRETURNFORMAT=jsonp": "",
        "callback": "",
        "__BDRETURNFORMAT=wddx": "",
        "Response": "",
        "responsecode": "",
        "totalassetscount": "",
        "calledwith": "",
        "rowtotal": "",
        "id": "",
        "filename": "",
        "folder_id": "",
        "extension": "",
        "video_image": "",
        "filename_org": "",
        "kind": "",
        "extension_thumb": "",
        "path_to_asset": "",
        "cloud_url": "",
        "cloud_url_org": "",
        "size": "",
        "width": "",
        "height": "",
        "description": "",
        "keywords": "",
        "local_url_org": "",
        "local_url_thumb": "",
        "colid": "",
        "create date": "date_create",
        "change date": "date_change",
    },
    "Indexing": {
        "method": "",
        "api_key": "",
        "assetid: one id": "assetid",
        "assetid: a list": '",".join(ids',
        "assetid: all": '"all"',
        "responsecode": "",
        "message": "",
        "not strictly JSON": "{responsecode:0, message:",
    },
    "Upload": {
        "fa": "",
        "api_key": "",
        "destfolderid": "",
        "filedata": "",
        "parameters before the file": "field_after_file",
        "parameters in the URL": "sessiontoken",
        "debug": "",
        "emailto": "",
        "metadata": "",
        "meta_lang_id_r": "",
        "meta_<field>": "meta_img_description",
        "redirectto": "",
        "redirecttoparams": "",
        "skip_event": "",
        "upl_template": "",
        "zip_extract": "",
        "Response": "",
        "message": "",
        "assetid": "",
        "filetype": "",
        "comingfrom": "",
        "renamefilebody": "",
    },
    "Credentials, events, errors, limits": {
        "api_key": "",
        "sessiontoken": "",
        "on_pre_process": "",
        "on_file_add": "",
        "on_file_edit": "",
        "on_file_move": "",
        "on_file_remove": "",
        "on_folder_add": "",
        "on_folder_edit": "",
        "on_folder_move": "",
        "on_folder_remove": "",
        "code 0": '"success"',
        "error 10001": '"10001"',
        "error: parameters after the file": "field_after_file",
        "maximum content-length": "max_content_length",
        "maxrows 25": "== 25",
        "startrow 1": "startrow",
    },
}


def quoted(cell):
    return re.findall("`([^`]+)`", cell)


def tables():
    """The rows of each table by its title, as cells."""
    found = {}
    for part in SECTION.split("\n**")[1:]:
        title = part.partition("**")[0]
        rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("| `")]
        if rows and len(rows[0]) == 5:
            found[title] = rows
    return found


TABLES = tables()
ROWS = [pytest.param(title, *row, id=row[0].strip()) for title, rows in TABLES.items() for row in rows]
ROW = ("title", "names", "client", "command", "sandbox", "tests")


def test_interface_table_has_each_row_once():
    named = {title: sorted(name for row in rows for name in quoted(row[0])) for title, rows in TABLES.items()}
    assert named == {title: sorted(rows) for title, rows in INTERFACE.items()}


@pytest.mark.parametrize(ROW, ROWS)
def test_client_and_sandbox_names_resolve(title, names, client, command, sandbox, tests):
    assert quoted(client)
    assert all(name.startswith("sandbox.") for name in quoted(sandbox))
    for name in quoted(client) + quoted(sandbox):
        assert resolves(name), name


def resolves(name):
    parts = ["assetsync", *name.split(".")]
    for count in range(len(parts), 0, -1):
        try:
            here = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            if not hasattr(here, part):
                return part in getattr(here, "__dataclass_fields__", {})
            here = getattr(here, part)
        return True
    return False


@pytest.mark.parametrize(ROW, ROWS)
def test_commands_have_the_named_options(title, names, client, command, sandbox, tests):
    (said,) = quoted(command)
    word, *options = said.split()
    assert word in COMMANDS
    loaded = importlib.import_module(f"assetsync.cli.commands.{word}").command
    known = {opt for param in loaded.params if isinstance(param, click.Option) for opt in param.opts}
    known |= {param.name.upper() for param in loaded.params if isinstance(param, click.Argument)}
    assert options
    assert set(options) <= known


@pytest.mark.parametrize(ROW, ROWS)
def test_rows_appear_in_their_named_tests(title, names, client, command, sandbox, tests):
    texts = [(ROOT / "tests" / path).read_text("utf-8") for path in quoted(tests)]
    assert texts
    for name in quoted(names):
        assert any((INTERFACE[title][name] or name) in text for text in texts), name


def test_known_messages_are_in_the_table():
    table = SECTION.split("| message | word |")[1]
    shown = [tuple(quoted(cell)[0] for cell in line.strip("|").split("|")[:2])
             for line in table.splitlines() if line.startswith("| `")]  # fmt: skip
    assert shown == [(message.shown, message.reason) for message in MESSAGES]


@pytest.mark.parametrize(
    "missing", ["service.call.no_such_call", "no_such_module", "model.SearchRequest.no_such_field"]
)
def test_absent_name_does_not_resolve(missing):
    assert not resolves(missing)

"""`assetsync sandbox`: run the local service in the foreground. Its answers are left to `sandbox`."""

import json
from pathlib import Path

import click

from assetsync.cli.options import Decorator, seconds, with_json
from assetsync.cli.output import note, write, write_json
from assetsync.config.values import listen as address
from assetsync.errors import Unusable, UsageError
from assetsync.sandbox import Sandbox, SandboxSettings, serve
from assetsync.sandbox.settings import DIALECTS, FILE_KINDS, INDEX_MODES, RIGHTS, STARTROWS, STRAYS

_KEY = "sandbox-key"
_FOLDERS = ("A6CE649FAA5F434EB513CA15656AB5AA=photos", "0123456789ABCDEF0123456789ABCDEF=documents")


def _time(name: str, meaning: str) -> Decorator:
    return click.option(name, default="0s", show_default=True, metavar="TIME", callback=seconds, help=meaning)


def _file_kinds(_ctx: click.Context, _param: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    """Return the kinds of files by ending; a callback for an option."""
    given = {ending.lower().removeprefix("."): kind for ending, _, kind in (pair.partition("=") for pair in pairs)}
    if not all(ending and kind in FILE_KINDS for ending, kind in given.items()):
        raise click.BadParameter(f"write an ending and one of {', '.join(FILE_KINDS)}, such as cr3=other")
    return given


def _rights(_ctx: click.Context, _param: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str] | None:
    """Return the rights by folder, None without any; a callback for an option."""
    given = {folder: right for folder, _, right in (pair.partition("=") for pair in pairs)}
    if not all(folder and right in RIGHTS for folder, right in given.items()):
        raise click.BadParameter(f"write a folder id and one of {', '.join(RIGHTS)}, such as ID=read")
    return given or None


@click.command("sandbox")
@click.option(
    "--listen",
    default="127.0.0.1:8790",
    show_default=True,
    metavar="HOST:PORT",
    help="The address to serve; port 0 chooses a free one.",
)
@click.option("--dir", "directory", type=click.Path(path_type=Path, file_okay=False), help="Keep the data here.")
@click.option("--key", default=_KEY, show_default=True, help="The API key that it accepts.")
@click.option("--folder", "folders", multiple=True, metavar="ID=NAME", help="A folder of the service; may be repeated.")
@click.option("--auto-folders", is_flag=True, help="Accept any folder id.")
@_time("--processing-delay", "Until an upload is processed.")
@_time("--index-delay", "Until it is found through the index.")
@_time("--latency", "Before every answer.")
@click.option(
    "--dialect",
    type=click.Choice(DIALECTS),
    default="documented",
    show_default=True,
    help="Answer as documented, or like a live installation.",
)
@click.option(
    "--index-mode", type=click.Choice(INDEX_MODES), default="noop", show_default=True, help="What searchIndex does."
)
@click.option(
    "--startrow",
    type=click.Choice(STARTROWS),
    default="row",
    show_default=True,
    help="What startrow counts.",
)
@click.option(
    "--strays",
    type=click.Choice(STRAYS),
    default="missing",
    show_default=True,
    help="What other addresses of the service answer: 404, or a login page.",
)
@click.option("--twice", is_flag=True, help="Show every asset twice through the index.")
@click.option("--renditions", is_flag=True, help="Show a rendition beside each picture.")
@click.option("--pdf-keeps-own", is_flag=True, help="Let what a PDF holds replace the metadata of its upload.")
@click.option(
    "--refuses-fields",
    is_flag=True,
    help="Let an unknown metadata field empty the texts of a picture, and keep other assets from being processed.",
)
@click.option(
    "--bmp-only",
    is_flag=True,
    help="Lose values with characters outside the Basic Multilingual Plane, and process no document with one.",
)
@click.option("--one-language", is_flag=True, help="Show no texts in other languages than English.")
@click.option("--no-md5", is_flag=True, help="Show no MD5, like some releases.")
@click.option("--latin1", is_flag=True, help="Show names as ISO-8859-1, with ? for other characters, in both dialects.")
@click.option(
    "--folds-blanks", is_flag=True, help="Show several blanks in a row as one, while the database keeps them."
)
@click.option("--renames", is_flag=True, help="Store every upload under another name, as a workflow may.")
@click.option(
    "--file-kind",
    "file_kinds",
    multiple=True,
    metavar="ENDING=KIND",
    callback=_file_kinds,
    help="Take files of an ending for img, vid, aud, doc or other; may be repeated.",
)
@click.option(
    "--right",
    "rights",
    multiple=True,
    metavar="ID=RIGHT",
    callback=_rights,
    help="Let the key's user be no administrator, with none, read or write on a folder; may be repeated.",
)
@click.option(
    "--custom-field",
    "custom_fields",
    multiple=True,
    metavar="ID",
    callback=lambda _context, _option, given: given or None,
    help="Have only this custom field: another loses metadata, or the file; may be repeated.",
)
@click.option("--longest-name", type=int, metavar="N", help="Process no document, audio or video with a longer name.")
@click.option("--no-self-index", is_flag=True, help="Index assets only after searchIndex.")
@click.option("--duplicate-check", is_flag=True, help="Refuse content that is already there.")
@click.option("--max-content-length", type=int, metavar="BYTES", help="Answer error 10001 to longer uploads.")
@click.option("--proxy-limit", type=int, metavar="BYTES", help="Refuse longer uploads by 413, as a proxy does.")
@with_json("Print the addresses as one object.")
def command(
    listen: str,
    directory: Path | None,
    *,
    key: str,
    folders: tuple[str, ...],
    no_self_index: bool,
    no_md5: bool,
    as_json: bool,
    **settings: object,
) -> None:
    """Run a local service that implements the interface, until Ctrl-C; its page shows what is stored.

    POST a list of faults to /_sandbox/faults; it replaces the list before, and an empty list ends all faults. The kinds
    are latency, hang, status, html, too_many, answer_lost, answer_cut, key_refused, search_down, database_down,
    index_wipes, names_lost, invisible and never_processed (uploads that are accepted and stay unprocessed). A fault may
    have operation (upload, search or index), folder (uploads into it), times, every (5: each fifth request),
    probability, seconds and status. With `stored` true, status and html come after the upload is stored, as answer_lost
    always does.

    More kinds let searches show something else than what is there: folder_case, folder_empty, folder_missing,
    no_right, other_folder and unknown_folder_listed; and in the database paged, unordered, shifted, sort_ignored,
    capped and capped_unstated. Of them paged, capped and capped_unstated return at most `rows` rows, and shifted skips
    `rows`.

    GET /_sandbox/assets lists the assets. POST an id with a folder, a name, delete, version or process there, to move,
    rename or delete an asset, to give it new content, or to have one processed that never was.

    \b
    Examples:
      assetsync sandbox
      assetsync sandbox --listen 127.0.0.1:0 --dir /tmp/sandbox --index-delay 30s
      assetsync sandbox --dialect observed --index-mode adds --no-self-index
      assetsync sandbox --file-kind cr3=other
      curl -H 'Content-Type: application/json' http://127.0.0.1:8790/_sandbox/faults \\
        -d '{"faults": [{"kind": "answer_lost", "operation": "upload", "probability": 0.2}]}'
      curl -H 'Content-Type: application/json' http://127.0.0.1:8790/_sandbox/assets -d '{"id": "ID", "delete": true}'
    """
    try:
        host, port = address(listen)
    except Unusable as error:
        raise UsageError(f"{listen!r} is no address to listen on", hint="write it such as 127.0.0.1:8790") from error
    given = dict(pair.partition("=")[::2] for pair in folders or _FOLDERS)
    made = SandboxSettings(
        api_key=key,
        folders={identifier: name or identifier for identifier, name in given.items()},
        host=host,
        port=port,
        data_dir=directory,
        self_index=not no_self_index,
        md5=not no_md5,
        **settings,  # type: ignore[arg-type]
    )

    def started(sandbox: Sandbox) -> None:
        if as_json:
            addresses = {"address": sandbox.address, "base_url": sandbox.base_url, "upload_url": sandbox.upload_url}
            write_json({**addresses, "folders": given})
            return
        write(f"# page: {sandbox.address}")
        write("# the API key, for $ASSETSYNC_API_KEY or a file of its own: " + sandbox.settings.api_key)
        write("site: sandbox")
        write("root: /srv/media")
        write("service:")
        write(f"  base_url: {sandbox.base_url}")
        write(f"  upload_url: {sandbox.upload_url}")
        write("folders:")
        for identifier, name in given.items():
            write(f"  - path: {json.dumps(name or identifier)}")
            write(f"    destfolderid: {json.dumps(identifier)}")
        note("Ctrl-C ends it")

    serve(made, started=started)

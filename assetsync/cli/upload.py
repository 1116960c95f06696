"""`assetsync upload`: one upload by hand, every parameter of interface section 4.3 an option of its name.

What the answer means is `core.outcome`'s. A ledger that nobody holds is told of the new asset, so that a later run
takes it over where the same file lies in the tree.
"""

import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from assetsync.cli.acting import open_service
from assetsync.cli.entry import INTERRUPTED, NO_SERVICE, NOT_IN_SYNC, OK, USAGE
from assetsync.cli.given import with_config, with_json
from assetsync.cli.output import complain, note, warn, write, write_json
from assetsync.cli.stopping import stopping
from assetsync.cli.unsent import show_upload, with_explain
from assetsync.config import SiteConfig
from assetsync.config.models import FolderUpload
from assetsync.core.names import sent_name
from assetsync.core.outcome import read_silence
from assetsync.errors import FileUnreadable, LedgerBusy, LedgerError, RootMissing, UsageError
from assetsync.flow.requests import note_asset, sighted
from assetsync.ledger.ledger import open_ledger, read_ledger
from assetsync.model import Answer, Asset, Fault, Sent, UploadOptions, UploadRequest
from assetsync.shown import printable
from assetsync.tree.body import FileBody
from assetsync.tree.opening import OpenFile, Tree

_UNANSWERED = ("no_answer", "unsent")

_NO_FOLDER = "the service knows no such folder: correct --folder"
_LOOK = (
    "the service may have stored the file: before it is sent again, look with"
    " `assetsync search --dbdirect --folderid {folder} NAME`, because an upload cannot be taken back"
)


def _meta(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = tuple(value.partition("=") for value in values)
    if not all(name and equals for name, equals, _text in pairs):
        raise click.BadParameter("write it as name=value, such as img_description='The harbour'")
    return tuple((name.removeprefix("meta_"), text) for name, _equals, text in pairs)


def _events(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Take `--skip_event a --skip_event b,c` for one list, which the rules of the configuration read."""
    return ",".join(values) or None


@click.command("upload")
@with_config
@click.option("--folder", "--destfolderid", "folder", required=True, metavar="ID", help="The folder to store it in.")
@click.option("--name", metavar="NAME", help="The name to send; by default the file's own.")
@click.option("--meta", multiple=True, callback=_meta, metavar="NAME=VALUE", help="A metadata field; may be repeated.")
@click.option("--metadata", type=bool, help="Whether metadata is written; follows from --meta.")
@click.option(
    "--meta_lang_id_r",
    "--language",
    "language",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="The language of the metadata: 1 = English, 2 = German.",
)
@click.option("--zip_extract", "--zip-extract", type=bool, default=False, show_default=True, help="Unpack a ZIP there.")
@click.option(
    "--skip_event", "--skip-event", multiple=True, callback=_events, metavar="EVENT", help="To skip; may be repeated."
)
@click.option("--upl_template", "--upl-template", metavar="ID", help="The upload template to execute.")
@click.option("--debug", type=bool, default=False, show_default=True, help="Mail what was passed, the key included.")
@click.option("--emailto", metavar="ADDRESS", help="The recipient of that mail.")
@click.option("--redirectto", metavar="URL", help="Where the answer is redirected to; it is read, not followed.")
@click.option("--redirecttoparams", metavar="QUERY", help="Appended to that address.")
@with_json("Print one object: assetid, responsecode, message and filetype.")
@with_explain
@click.argument("file", type=click.Path(path_type=Path))
def command(
    config: SiteConfig,
    file: Path,
    *,
    folder: str,
    name: str | None,
    as_json: bool,
    explain: bool,
    **given: Any,
) -> int:
    """Upload one file by hand (interface section 4.3); needs no ledger.

    Exit 0 when the service accepted it, 1 when it refused, 3 when nothing or nothing sound was answered: then look in
    the service before sending again, because an upload sent twice is two assets. Interrupted, it says whether anything
    had left, and exits with 130.

    \b
    Examples:
      assetsync upload --config hq.yaml --folder A6CE649FAA5F434EB513CA15656AB5AA harbour.jpg
      assetsync upload --config hq.yaml --folder A6CE649FAA5F434EB513CA15656AB5AA \\
        --meta img_description='The old harbour' --meta img_keywords=harbour,dawn --json harbour.jpg
    """
    request = _request(sent_name(os.fsencode(name if name is not None else file.name)), folder, given)
    with _open(file) as opened:
        if explain:
            show_upload(config, request, opened.stat.size, as_json=as_json)
            return OK
        if request.options.debug or request.options.emailto:
            warn("debug and emailto let the service mail what was passed, the API key included")
        stop = threading.Event()
        ends: list[Callable[[], None]] = []
        with stopping(stop, ends, patience=0.0):
            sent = _send(config, request, opened, stop, ends)
            if sent.outcome.answer is Answer.ACCEPTED:
                _remember(config, request, sent, opened.stat.size)
            _tell(sent, as_json=as_json)
            code = _code(sent, folder)
    return INTERRUPTED if stop.is_set() else code


def _send(
    config: SiteConfig,
    request: UploadRequest,
    opened: OpenFile,
    stop: threading.Event,
    ends: list[Callable[[], None]],
) -> Sent:
    """Post the file; a signal cuts the connection, and what had left until then is told as it is of a lost answer."""
    with open_service(config) as service:
        ends.append(service.close)
        if stop.is_set():
            service.close()
        sent = service.upload(request, FileBody(opened, opened.stat))
    if stop.is_set() and sent.outcome.reason in _UNANSWERED:
        return sent._replace(outcome=read_silence(sent.left, "interrupted"))
    return sent


def _open(file: Path) -> OpenFile:
    """Open the file that is to be sent, through links too; raises TreeError, and UsageError where there is none."""
    place = Path(os.path.realpath(file))
    try:
        return Tree(bytes(place.parent)).open(os.fsencode(place.name))
    except (FileUnreadable, RootMissing) as error:
        if isinstance(error, RootMissing) or error.vanished:
            raise UsageError(f"there is no file {printable(bytes(file))}") from error
        raise


def _request(name: str, folder: str, given: dict[str, Any]) -> UploadRequest:
    """Make the form of the upload; raises UsageError for options that cannot be."""
    meta, metadata = given.pop("meta"), given.pop("metadata")
    if metadata is not None and metadata != bool(meta):
        raise UsageError(f"--metadata {int(metadata)} {'without' if metadata else 'with'} --meta", hint="leave it out")
    return UploadRequest(
        destfolderid=folder,
        filename=name,
        boundary=f"assetsync{random.SystemRandom().getrandbits(128):032x}",
        meta=meta,
        language=str(given.pop("language")),
        options=_options(given),
    )


def _options(given: dict[str, object]) -> UploadOptions:
    """Read the options by the rules of the configuration; raises UsageError for the first that breaks one."""
    try:
        return FolderUpload.model_validate(given).options()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        said = first.get("ctx", {})
        problem = f"--{first['loc'][0]}: {said.get('problem', first['msg'])}"
        raise UsageError(problem, hint=str(said.get("hint", ""))) from None


def _tell(sent: Sent, *, as_json: bool) -> None:
    outcome = sent.outcome
    if as_json:
        write_json(
            {
                "assetid": outcome.assetid,
                "responsecode": outcome.responsecode,
                "message": outcome.message,
                "filetype": outcome.filetype,
            }
        )
    elif outcome.answer is Answer.ACCEPTED:
        write(f"{outcome.assetid}  {outcome.filetype or '-'}  {printable(outcome.message or '')}")


def _code(sent: Sent, folder: str) -> int:
    outcome = sent.outcome
    if outcome.answer is Answer.ACCEPTED:
        return OK
    # What is said of the file of a mapping names the configuration, where this folder does not come from.
    complain(_NO_FOLDER if outcome.fault is Fault.FOLDER else outcome.detail)
    if outcome.answer is Answer.DOUBT:
        note(_LOOK.format(folder=folder))
        return NO_SERVICE
    if outcome.fault in (Fault.KEY, Fault.SERVICE):
        return NO_SERVICE
    return USAGE if outcome.answer is Answer.UNSENT else NOT_IN_SYNC


def _remember(config: SiteConfig, request: UploadRequest, sent: Sent, size: int) -> None:
    """Tell the ledger of the new asset, so that the same file in the tree is not sent once more."""
    if not config.ledger.exists():
        return
    asset = Asset(sent.outcome.assetid or "", request.destfolderid, request.filename, size, sent.md5, "")
    try:
        try:
            with closing(open_ledger(config.ledger, site=config.site, create=False)) as ledger:
                note_asset(ledger, asset, time.time())
        except LedgerBusy:
            with closing(read_ledger(config.ledger, site=config.site, writable=True)) as ledger:
                ledger.ask("sighted", sighted(asset), time.time())
    except LedgerError as error:
        # The upload is done whatever the ledger is; its exit code must not say otherwise.
        warn(f"the ledger was not told of this asset: {error}")

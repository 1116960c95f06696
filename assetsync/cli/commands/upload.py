"""`assetsync upload`: one upload by hand. Each parameter of interface section 4.3 is an option of the same name.

If the site has a ledger, the intent is committed before the upload and the outcome is recorded after it, for each file
of the tree and each file that goes into a mapped folder (`sync.upload.by_hand`). Interpreting the answer is left to
`core.outcome`.
"""

import json
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from assetsync import INTERRUPTED
from assetsync.cli.entry import NO_SERVICE, NOT_IN_SYNC, OK, USAGE, stopping
from assetsync.cli.operator import PATIENCE, carry_out_in_time, open_service
from assetsync.cli.options import with_config, with_json
from assetsync.cli.output import complain, note, warn, write, write_json
from assetsync.cli.show_request import show_upload, with_explain
from assetsync.clock import SystemClock
from assetsync.config import SiteConfig
from assetsync.config.models import FolderUpload
from assetsync.core import metadata
from assetsync.core.kinds import ending_of, guess_kind
from assetsync.core.names import sent_name
from assetsync.core.outcome import read_silence
from assetsync.errors import AssetsyncError, FileUnreadable, LedgerBusy, ReadStopped, RootMissing, Unusable, UsageError
from assetsync.ledger.file.database import hold_by_hand
from assetsync.ledger.file.ledger_files import exists
from assetsync.ledger.queue import Intent
from assetsync.model import Answer, Fault, Sent, UploadRequest
from assetsync.parts import make_plan
from assetsync.sync.requests.upload import BeginUpload, EndUpload
from assetsync.sync.upload.by_hand import MAY_BE_THERE, MAY_SEND, THERE, Begun
from assetsync.text import printable
from assetsync.tree.body import FileBody, digest
from assetsync.tree.safe_open import OpenFile, Tree

_KEYS = ("assetid", "responsecode", "message", "filetype", "comingfrom", "renamefilebody")
_UNANSWERED = ("no_answer", "unsent")
_PATIENCE = 60.0
"""Seconds to wait for the ledger's holder to commit the intent; it may be scanning."""

_RECORDED = (
    "the upload is in doubt: `assetsync doubt list` lists it, and the daemon or the next `assetsync reconcile` looks it"
    " up"
)

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


@click.command("upload")
@with_config
@click.option(
    "--folder", "--destfolderid", "folder", required=True, metavar="ID", help="The id of the folder to store it in."
)
@click.option("--name", metavar="NAME", help="The name to send; by default the file's own.")
@click.option("--meta", multiple=True, callback=_meta, metavar="NAME=VALUE", help="A metadata field; may be repeated.")
@click.option("--metadata", type=bool, help="Whether the service writes metadata; by default, if there is --meta.")
@click.option(
    "--meta_lang_id_r",
    "--language",
    "language",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="The language of the metadata: 1 = English, 2 = German.",
)
@click.option(
    "--zip_extract",
    "--zip-extract",
    type=bool,
    default=False,
    show_default=True,
    help="Whether the service unpacks a ZIP archive.",
)
@click.option(
    "--skip_event",
    "--skip-event",
    multiple=True,
    metavar="EVENT",
    help="A workflow event to skip; may be repeated.",
)
@click.option("--upl_template", "--upl-template", metavar="ID", help="The upload template to execute.")
@click.option(
    "--debug",
    type=bool,
    default=False,
    show_default=True,
    help="Whether the service mails all parameters, also the key.",
)
@click.option("--emailto", metavar="ADDRESS", help="The recipient of that mail.")
@click.option(
    "--redirectto", metavar="URL", help="The address to which the service redirects its answer, which is not followed."
)
@click.option("--redirecttoparams", metavar="QUERY", help="Parameters to add to that address.")
@click.option("--send-again", is_flag=True, help="Upload the file even if the folder has, or may have, its content.")
@with_json("Print one object with every field of the answer.")
@with_explain
@click.argument("file", type=click.Path(path_type=Path))
def command(
    config: SiteConfig,
    file: Path,
    *,
    folder: str,
    name: str | None,
    send_again: bool,
    as_json: bool,
    explain: bool,
    **given: Any,
) -> int:
    """Upload one file by hand (interface section 4.3); needs no ledger.

    If the site has a ledger, a file of the tree, or for a mapped folder, is recorded there before it is sent: neither
    the daemon nor a second call sends it again. A file whose content is already in the folder is not sent; the command
    prints the asset's id.

    The command exits with 0 if the service accepted the file or already has it, with 1 if the service refused it, and
    with 3 if there was no answer, or none that makes sense. A recorded upload is then in doubt, and is looked up like
    any other. Without a ledger, look in the service before you send the file again, because an upload that is sent
    twice is two assets. If the command is interrupted, it prints whether anything had left, and exits with 130.

    \b
    Examples:
      assetsync upload --config hq.yaml --folder A6CE649FAA5F434EB513CA15656AB5AA harbour.jpg
      assetsync upload --config hq.yaml --folder A6CE649FAA5F434EB513CA15656AB5AA \\
        --meta img_description='The old harbour' --meta img_keywords=harbour,dawn --json harbour.jpg
    """
    # The ledger has ids as the configuration spells them.
    folder = config.spelling.get(folder.lower(), folder)
    named = os.fsencode(name if name is not None else file.name)
    request = _sendable(config, _request(sent_name(named, config.service.longest_name), folder, given))
    with _open(file) as opened:
        if explain:
            show_upload(config, request, opened.stat.size, as_json=as_json)
            return OK
        if request.options.debug or request.options.emailto:
            warn("debug and emailto let the service mail what was passed, the API key included")
        stop = threading.Event()
        ends: list[Callable[[], None]] = []
        body = FileBody(opened, opened.stat)
        with stopping(stop, ends, patience=0.0):
            path = _recorded_as(config, file, folder)
            if path is None:
                sent = _send(config, request, body, stop, ends)
                code = _code(sent, _LOOK.format(folder=folder))
            else:
                # The attempt is in flight while its lock is held.
                with ExitStack() as stack:
                    stack.callback(os.close, hold_by_hand(config.ledger, request.boundary))
                    begun = _begin(config, _by_hand(path, request, opened, body, stop, send_again=send_again), stop)
                    if begun.what != MAY_SEND:
                        return _report_unsent(begun, as_json=as_json)
                    sent = _send(config, request, body, stop, ends)
                    _end(config, request.boundary, sent)
                code = _code(sent, _RECORDED)
            outcome = sent.outcome
            if as_json:
                write_json({key: getattr(outcome, key) for key in _KEYS})
            elif outcome.answer is Answer.ACCEPTED:
                write(f"{outcome.assetid}  {outcome.filetype or '-'}  {printable(outcome.message or '')}")
                for key in _KEYS[4:]:
                    if text := getattr(outcome, key):
                        write(f"{key}: {printable(text)}")
    return INTERRUPTED if stop.is_set() else code


def _by_hand(
    path: bytes, request: UploadRequest, opened: OpenFile, body: FileBody, stop: threading.Event, *, send_again: bool
) -> BeginUpload:
    """Hash the whole file and return the upload to begin; raise click.Abort if interrupted.

    Other errors are those of `tree.body.digest`.
    """
    try:
        md5 = body.load() or digest(opened, opened.stat, stop=stop.is_set)
    except ReadStopped as error:
        raise _interrupted() from error
    meta_digest = metadata.digest(request.meta, request.options, request.language)
    place = (request.destfolderid, request.filename, request.boundary)
    intent = Intent(0, *place, opened.stat, md5, meta_digest, by_hand=True)
    return BeginUpload(path, intent, send_again)


def _interrupted() -> click.Abort:
    complain("interrupted; nothing had been sent")
    return click.Abort()


def _recorded_as(config: SiteConfig, file: Path, folder: str) -> bytes | None:
    """Return the path under which the ledger records the file, None if the ledger does not record the upload.

    The path is relative to the root if the file's mapping sends it to the same folder, else absolute.
    """
    if not exists(config.ledger):
        return None
    place, root = os.path.realpath(bytes(file)), os.path.realpath(bytes(config.root)).rstrip(b"/") + b"/"
    plan = make_plan(config)
    path = place.removeprefix(root)
    covered = None if path == place or plan.is_sidecar(path) else plan.covers(path)
    if covered is None:
        return place if folder in {mapping.destfolderid for mapping in plan.mappings.all} else None
    mirrored_in = plan.mappings.all[covered].destfolderid
    if mirrored_in == folder:
        return path
    note(f"its mapping sends {printable(path)} into {mirrored_in}, too: that is another asset")
    return place


def _begin(config: SiteConfig, asked: BeginUpload, stop: threading.Event) -> Begun:
    """Have the intent committed; raise LedgerBusy if the ledger's holder does not answer within `_PATIENCE`."""
    until = time.monotonic() + _PATIENCE
    answer = carry_out_in_time(config, asked, lambda: not stop.is_set() and time.monotonic() < until)
    if answer is not None:
        return Begun(**json.loads(answer))
    if stop.is_set():
        raise _interrupted()
    raise LedgerBusy(
        f"another assetsync process holds the ledger {config.ledger} and did not answer; nothing was sent",
        hint="try again when it has done its scan",
    )


def _end(config: SiteConfig, boundary: str, sent: Sent) -> None:
    """Have the outcome recorded; if this fails, warn: the upload becomes a doubt and is looked up."""
    until = time.monotonic() + PATIENCE
    try:
        ended = EndUpload(boundary, sent.outcome, sent.left, sent.bytes_sent, sent.md5, sent.took)
        carry_out_in_time(config, ended, lambda: time.monotonic() < until)
    except AssetsyncError as error:
        # The upload is complete whether or not the ledger records it: the exit code must not change.
        warn(f"the outcome was not recorded, so the upload is looked up later: {error}")


def _report_unsent(begun: Begun, *, as_json: bool) -> int:
    """Report why nothing was sent, and return the exit code."""
    if as_json:
        write_json({key: getattr(begun, key, None) for key in _KEYS})
    elif begun.what == THERE:
        write(f"{begun.assetid}  {begun.filetype or '-'}  {begun.message}")
    if begun.what == THERE:
        return OK
    complain(begun.message)
    return NO_SERVICE if begun.what == MAY_BE_THERE else NOT_IN_SYNC


def _send(
    config: SiteConfig,
    request: UploadRequest,
    body: FileBody,
    stop: threading.Event,
    ends: list[Callable[[], None]],
) -> Sent:
    """Send the file. A signal closes the connection; what was sent until then is interpreted as for a lost answer."""
    clock = SystemClock()
    with open_service(config) as service:
        ends.append(service.close)
        if stop.is_set():
            service.close()
        first = clock.steady()
        sent = service.upload(request, body)
        sent = sent._replace(took=clock.steady() - first)
    if stop.is_set() and sent.outcome.reason in _UNANSWERED:
        return sent._replace(outcome=read_silence(sent.left, "interrupted"))
    return sent


def _open(file: Path) -> OpenFile:
    """Open the file to send, following links; raise UsageError if there is no such file, TreeError for other errors."""
    place = Path(os.path.realpath(file))
    try:
        return Tree(bytes(place.parent)).open(os.fsencode(place.name))
    except (FileUnreadable, RootMissing) as error:
        if isinstance(error, RootMissing) or error.vanished:
            raise UsageError(f"there is no file {printable(bytes(file))}") from error
        raise


def _request(name: str, folder: str, given: dict[str, Any]) -> UploadRequest:
    """Return the request for the upload; raise UsageError for options that are invalid or contradict each other."""
    meta, metadata = given.pop("meta"), given.pop("metadata")
    if metadata is not None and metadata != bool(meta):
        raise UsageError(f"--metadata {int(metadata)} {'without' if metadata else 'with'} --meta", hint="leave it out")
    for option, needed, why in (
        ("emailto", "debug", " 1: it is the recipient of that mail"),
        ("redirecttoparams", "redirectto", ": they are added to it"),
    ):
        if given[option] is not None and not given[needed]:
            raise UsageError(f"--{option} is given without --{needed}{why}")
    language = str(given.pop("language"))
    given["skip_event"] = ",".join(given["skip_event"]) or None
    try:
        # The rules of the configuration hold for what is left.
        options = FolderUpload.model_validate(given).options()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        cause = first.get("ctx", {}).get("error")
        problem, hint = (cause.problem, cause.hint) if isinstance(cause, Unusable) else (first["msg"], "")
        raise UsageError(f"--{first['loc'][0]}: {problem}", hint=hint) from None
    return UploadRequest(
        destfolderid=folder,
        filename=name,
        boundary=f"assetsync{random.SystemRandom().getrandbits(128):032x}",
        meta=meta,
        language=language,
        options=options,
    )


def _sendable(config: SiteConfig, request: UploadRequest) -> UploadRequest:
    """Return the request without the metadata that the service cannot hold; raise UsageError for an unknown field."""
    name = os.fsencode(request.filename)
    kind = config.service.kinds.get(ending_of(name)) or guess_kind(name)
    sent = metadata.sendable(request.meta, kind, config.service.field_names)
    if sent.mistake is not None:
        raise UsageError(f"--meta {sent.mistake.name}: {sent.mistake.problem}", hint=sent.mistake.hint)
    for left_out in sent.left_out:
        note(f"left out: {printable(left_out)}")
    return request._replace(meta=sent.fields)


def _code(sent: Sent, helps: str) -> int:
    """Report an error, and `helps` if the upload is in doubt; return the exit code."""
    outcome = sent.outcome
    if outcome.answer is Answer.ACCEPTED:
        return OK
    # The detail of an unknown folder names the configuration, but this folder comes from the command line.
    complain(_NO_FOLDER if outcome.fault is Fault.FOLDER else outcome.detail)
    if outcome.answer is Answer.DOUBT:
        note(helps)
        return NO_SERVICE
    if outcome.fault in (Fault.KEY, Fault.SERVICE):
        return NO_SERVICE
    return USAGE if outcome.answer is Answer.UNSENT else NOT_IN_SYNC

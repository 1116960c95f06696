"""`assetsync drift`: list the files whose metadata or place in the service differ from the tree, or settle them.

`sync.readback.drift` finds the differences; `sync.requests` settles them.
"""

from collections.abc import Collection
from contextlib import closing

import click

from assetsync.cli.operator import act
from assetsync.cli.options import known_folders, topmost, with_config, with_json, with_limit
from assetsync.cli.output import first_of, write_data, write_json, write_parts
from assetsync.clock import SystemClock
from assetsync.config import SiteConfig, mappings
from assetsync.core.mapping import Mappings
from assetsync.errors import SidecarError, TreeError, UsageError
from assetsync.ledger.ledger import read_ledger
from assetsync.ledger.metadata_drift import ADOPTED, drift_of, reason_of
from assetsync.ledger.reports import Finding
from assetsync.ledger.rows import FileRow
from assetsync.parts import make_tree
from assetsync.sync.intake.sidecars import Sidecars
from assetsync.sync.requests.decisions import SettleDrift
from assetsync.sync.upload.kinds import Kinds
from assetsync.text import printable


@click.group("drift")
def command() -> None:
    """List metadata that changed after the upload, or that the service did not keep, or record that it is set there.

    The interface cannot change an asset: a person sets the new values in the service.

    \b
    Examples:
      assetsync drift list --config hq.yaml
      assetsync drift settle --config hq.yaml photos/harbour.jpg
    """


_with_adopted = click.option(
    "--adopted", is_flag=True, help="Adopted assets whose metadata differs from the sidecars, in place of drift."
)


@command.command("list")
@with_config
@with_limit
@with_json("Print one object a line.")
@_with_adopted
@click.argument("paths", nargs=-1, metavar="[PATH]...")
def list_drift(config: SiteConfig, paths: tuple[str, ...], *, limit: int, as_json: bool, adopted: bool) -> None:
    """List the files whose metadata, or folder, differs from the service, with the metadata of their sidecars.

    With PATH, list only this file, or the files below this folder. PATH is relative to the root, or absolute.

    An adopted asset was in the service already, and nothing was sent for it. Its metadata is compared once with the
    sidecars. A difference is no drift: --adopted lists it.

    \b
    Examples:
      assetsync drift list --config hq.yaml
      assetsync drift list --config hq.yaml --adopted photos/2019
      assetsync drift list --config hq.yaml --json photos | jq -r '[.assetid, .metadata.img_keywords] | @tsv'
    """
    known = Mappings(mappings(config))
    with closing(read_ledger(config.ledger, site=config.site)) as ledger:
        kinds = Kinds(ledger, SystemClock(), config.service)
        sidecars = Sidecars(make_tree(config), SystemClock(), config.service.field_names, kind_of=kinds.of)
        tops = topmost(known_folders(config, paths)) or [b""]
        found = ledger.metadata_drift.adopted if adopted else ledger.metadata_drift.drifted
        rows = (row for path in tops for row in found(path))
        empty = "no adopted asset differs from its sidecars" if adopted else "nothing has drifted"
        for row in first_of(rows, limit, as_json=as_json, empty=empty):
            reason, detail = (ADOPTED, row.differs) if adopted else (reason_of(row), drift_of(row))
            has_values = adopted or (row.metadata_differs and reason != "options") or row.not_as_sent is not None
            fields = _fields(known, sidecars, row) if has_values else None
            sent = ledger.metadata_drift.sent_fields(row) if reason == "metadata" else None
            clear = None if sent is None or fields is None else _to_clear(sent, fields)
            if as_json:
                finding = Finding.of(row, reason, detail)
                write_json(finding.as_object() | {"drift": detail, "metadata": fields, "clear": clear})
                continue
            write_parts(f"{printable(row.path)}:", printable(detail or ""), between=" ")
            folder = row.asset_folder or row.destfolderid
            write_parts(f"    asset {row.assetid or '-'}", f"in folder {folder}", between=" ")
            for name, value in (fields or {}).items():
                write_data(f"    {printable(name)} = {printable(value)}")
            for name in clear or ():
                write_data(f"    {printable(name)}: to be cleared")


@command.command("settle")
@with_config
@with_json("Print one object: done, request, message.")
@_with_adopted
@click.argument("paths", nargs=-1, metavar="PATH...")
def settle(config: SiteConfig, paths: tuple[str, ...], *, as_json: bool, adopted: bool) -> None:
    """Record that the differences of these files are settled: the values are set, or an asset may stay where it is.

    PATH is a file, or a folder for all files below it (`.` for the root). It is relative to the root, or absolute.
    Later changes are reported again. Beside a daemon, the daemon carries this out.

    \b
    Examples:
      assetsync drift settle --config hq.yaml photos/harbour.jpg
      assetsync drift settle --config hq.yaml photos/2026
      assetsync drift settle --config hq.yaml --adopted .
    """
    if not paths:
        raise UsageError("drift settle needs the paths of files or folders", hint="`assetsync drift list` names them")
    tops = topmost(known_folders(config, paths))
    act(config, SettleDrift(tuple(tops), adopted), as_json=as_json)


def _to_clear(sent: str, fields: Collection[str]) -> list[str]:
    """Return the names of the fields that were sent (`core.metadata.sent_fields`) and have no value any longer."""
    return [name for name in sent.partition(" ")[2].split(",") if name and name not in fields]


def _fields(known: Mappings, sidecars: Sidecars, row: FileRow) -> dict[str, str] | None:
    """Return the fields that the sidecars give to a file now; None if they cannot be read."""
    position = known.for_directory(row.path.rpartition(b"/")[0])
    if position is None:
        return None
    try:
        return dict(sidecars.metadata_of(row.path, known.all[position], row.filetype).fields)
    except (SidecarError, TreeError):
        # `explain` reports the mistake; once noticed, it is also reported as drift.
        return None

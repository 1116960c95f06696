"""A file version of the ledger as the commands show it: as an object for JSON, and with its error.

Printing is left to the commands.
"""

from assetsync.cli.output import moment
from assetsync.ledger.metadata_drift import NOT_TOLD
from assetsync.ledger.rows import FileRow
from assetsync.model import State, Wanted
from assetsync.text import printable, relative_text

FILE_KEYS = (
    "path",
    "state",
    "assetid",
    "destfolderid",
    "size",
    "md5",
    "error",
    "attempts",
    "uploaded_at",
    "verified_at",
)


def error_of(row: FileRow, holds: dict[str, str]) -> str | None:
    """Return what is wrong with a version; None if nothing is wrong or it only waits to be sent.

    `holds` maps the destination folders that are held back to the reason.
    """
    if row.state in (State.BLOCKED, State.IN_DOUBT):
        return row.detail or row.reason or str(row.state)
    if row.state is State.QUEUED:
        if row.destfolderid in holds:
            return f"the folder {row.destfolderid} is held back: {holds[row.destfolderid]}"
        return row.detail or row.reason
    return None


def named(path: bytes | None, name: str | None) -> str:
    """Return the path of an asset; for an asset without a known path, a dash and its name in the service."""
    if path is not None:
        return printable(path)
    return f"-  {printable(name)}" if name else "-"


def drift_of(row: FileRow) -> str | None:
    """Return what must be set in the service by hand, None for nothing; history never needs anything."""
    return row.drift if row.drift not in NOT_TOLD and row.wanted is Wanted.YES else None


def as_object(row: FileRow, holds: dict[str, str]) -> dict[str, object]:
    """Return a version with the keys of `files --json`."""
    path, encoded = relative_text(row.path)
    shown: dict[str, object] = {
        "path": path,
        "state": str(row.state),
        "assetid": row.assetid,
        # The folder that holds the asset, else the folder that it will be sent to.
        "destfolderid": row.asset_folder or row.destfolderid,
        "size": row.size,
        "md5": row.md5,
        "error": error_of(row, holds),
        "attempts": row.attempts,
        "uploaded_at": moment(row.uploaded_at),
        "verified_at": moment(row.verified_at),
    }
    return shown if encoded is None else shown | {"path_base64": encoded}

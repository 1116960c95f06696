"""One file version of the ledger as the commands show it: as an object of JSON, and why it is not fine."""

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
    """Say what is wrong with a version; None for one that is fine or only waits for its turn.

    `holds` are the folders that are held back, with the reason.
    """
    if row.state in (State.BLOCKED, State.IN_DOUBT):
        return row.detail or row.reason or str(row.state)
    if row.state is State.QUEUED:
        if row.destfolderid in holds:
            return f"the folder {row.destfolderid} is held back: {holds[row.destfolderid]}"
        return row.detail or row.reason
    return None


def named(path: bytes | None, name: str | None) -> str:
    """Give an asset's path; of one that belongs to no file a dash, and the name that the service has for it."""
    if path is not None:
        return printable(path)
    return f"-  {printable(name)}" if name else "-"


def drift_of(row: FileRow) -> str | None:
    """Say what is to be set in the service by hand, None for nothing: there is nothing to set for history."""
    return row.drift if row.drift not in NOT_TOLD and row.wanted is Wanted.YES else None


def as_object(row: FileRow, holds: dict[str, str]) -> dict[str, object]:
    """Give a version by the keys of `files --json`."""
    path, encoded = relative_text(row.path)
    shown: dict[str, object] = {
        "path": path,
        "state": str(row.state),
        "assetid": row.assetid,
        # Where the asset is, else where it is to go.
        "destfolderid": row.asset_folder or row.destfolderid,
        "size": row.size,
        "md5": row.md5,
        "error": error_of(row, holds),
        "attempts": row.attempts,
        "uploaded_at": moment(row.uploaded_at),
        "verified_at": moment(row.verified_at),
    }
    return shown if encoded is None else shown | {"path_base64": encoded}

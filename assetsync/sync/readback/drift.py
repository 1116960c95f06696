"""Drift: what the tree says now and the service, which cannot update an asset, does not, and what was moved there.

Looks only at files of which something changed since they were sent. It is reported, never acted on.
"""

from collections.abc import Iterator

from assetsync.errors import RootMissing, SidecarError
from assetsync.ledger.metadata_drift import AWAY, ELSEWHERE, UNREADABLE, Found
from assetsync.ledger.rows import FileRow
from assetsync.model import Mapping
from assetsync.sync.context import Context
from assetsync.sync.intake.file_metadata import Sidecars
from assetsync.sync.intake.plan import Plan

_CHANGED = "its metadata changed after the upload: set it in the service by hand"
_CHANGED_SINCE = "its metadata changed after its asset was taken over: set it in the service by hand"
_MISNAMED = (
    "the service took it for another kind of file ({}) than its name says, and its description and keywords came under"
    " names of that one: set them in the service by hand"
)
_REMAPPED = "its mapping points to folder {} now, and policy.on_move is report"
_AND = "; "


class Drift:
    """Compares what would be sent with what was."""

    def __init__(self, context: Context, plan: Plan, sidecars: Sidecars, *, resend_moved: bool) -> None:
        """Make it; with `resend_moved` what is mapped to another folder is sent there, and no drift."""
        self._resend_moved = resend_moved
        self._ledger = context.ledger
        self._tick = context.tick
        self._plan = plan
        self._sidecars = sidecars
        # Of a file that is not there, with its folder and the sidecars in it, nobody has said anything else.
        self._is_absent = context.tree.is_absent

    def step(self) -> int:
        """Look at some of the files in question; gives how many.

        Without a root none can be looked at: all wait for the scan that finds it again.
        """
        as_of = self._sidecars.changes
        rows = self._ledger.drifts.unread()
        found: list[Found] = []
        for row in rows:
            try:
                found.append(self._found(row))
            except RootMissing:
                return 0
            if self._tick():
                break
        if found:
            # What changed while it was read is recorded behind our back: then it is read once more.
            self._ledger.drifts.read(found, still=lambda: self._sidecars.changes == as_of)
        return len(rows)

    def look_again(self) -> None:
        """Have read what could not be at the last look, and can be now: a scan takes note of neither.

        A file may have come back, and a disk or a right that failed for a moment leaves its sidecar as it was. One look
        is made for each thing that was wrong, however many files there are below a folder's sidecar.
        """
        self._ledger.drifts.back()
        for row in self._ledger.drifts.unreadable():
            try:
                found = self._found(row)
            except RootMissing:
                return
            if row.drift is not None and found.drift != row.drift:
                self._ledger.drifts.read_alike(row.drift)
            if self._tick():
                return

    def _found(self, row: FileRow) -> Found:
        position = self._plan.covers(row.path)
        if position is None:
            return Found(None, None, row)
        if self._is_absent(row.path):
            return Found(AWAY, None, row)
        mapping = self._plan.mappings.all[position]
        said, digest = None, None
        try:
            said, digest = self._said(row, mapping)
        except SidecarError as error:
            said = f"{UNREADABLE}{error}"
        drift = _AND.join(filter(None, (said, *self._where(row, mapping)))) or None
        return Found(drift, digest, row)

    def _said(self, row: FileRow, mapping: Mapping) -> tuple[str | None, str | None]:
        """Compare the metadata, and give the digest of what is said now; raises SidecarError and RootMissing."""
        if row.assetid is None and row.meta_digest is None:
            return None, None
        if row.assetid is not None and row.uploaded_at is None:
            return self._said_since(row, mapping)
        told = self._sidecars.told(row.path, mapping, row.filetype)
        if told.digest == row.meta_digest:
            return None, told.digest
        as_sent = self._sidecars.told(row.path, mapping).digest == row.meta_digest
        return _MISNAMED.format(row.filetype) if as_sent else _CHANGED, told.digest

    def _said_since(self, row: FileRow, mapping: Mapping) -> tuple[str | None, str | None]:
        """Compare the metadata of what was not sent by us: with what was said of it when it was taken over.

        What the service says of it by then nobody knows.
        """
        digest = self._sidecars.told(row.path, mapping).digest
        return None if row.meta_digest in (None, digest) else _CHANGED_SINCE, digest

    def _where(self, row: FileRow, mapping: Mapping) -> Iterator[str]:
        """Tell of an asset that does not lie where the configuration has it."""
        if row.is_elsewhere:
            yield f"{ELSEWHERE}{row.asset_folder}"
        if row.destfolderid != mapping.destfolderid and not self._resend_moved:
            yield _REMAPPED.format(mapping.destfolderid)

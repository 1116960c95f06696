"""Find drift: metadata that changed in the tree after the upload, and assets that lie in another folder.

The interface cannot update an asset, so that drift is only reported. Only files that the ledger marks as unread,
because something changed since they were sent, are compared: their metadata, never the sidecar files. Reading their
metadata is left to `sync.intake.sidecars`.
"""

from functools import partial

from assetsync.config.document.metadata import KINDS
from assetsync.core.kinds import guess_kind
from assetsync.core.mapping import Plan
from assetsync.core.metadata import sent_fields
from assetsync.errors import RootMissing, SidecarError
from assetsync.ledger.metadata_drift import AWAY, ELSEWHERE, OPTIONS, UNREADABLE, Found
from assetsync.ledger.rows import FileRow
from assetsync.model import Mapping
from assetsync.sync.context import Context
from assetsync.sync.intake.sidecars import Sidecars

_CHANGED = "its metadata changed after the upload: set it in the service by hand"
_CHANGED_SINCE = "its metadata changed after its asset was taken over: set it in the service by hand"
_MISNAMED = (
    "the service stored it as another kind of file ({}) than its name says, so its description and keywords were sent"
    " to the wrong fields: set them in the service by hand"
)
_REMAPPED = "its mapping points to folder {} now, and policy.on_move is report"
_AND = "; "


class Drift:
    """Comparison of what would be sent now with what was sent."""

    def __init__(self, context: Context, plan: Plan, sidecars: Sidecars, *, resend_moved: bool) -> None:
        """Create the comparison; with `resend_moved`, remapped files are sent again and are no drift."""
        self._resend_moved = resend_moved
        self._ledger = context.ledger
        self._tick = context.heartbeat.tick
        self._plan = plan
        self._sidecars = sidecars
        # An absent file has no drift: if its folder and sidecars are absent as well, nobody changed its metadata.
        self._is_absent = context.tree.is_absent

    def step(self) -> int:
        """Compare a batch of unread files, and return the size of the batch.

        Return 0 if the root is missing: all files wait for the scan that finds it again.
        """
        as_of = self._sidecars.cache.changes
        rows = self._ledger.metadata_drift.unread()
        found: list[Found] = []
        for row in rows:
            try:
                found.append(self._found(row))
            except RootMissing:
                return 0
            if self._tick():
                break
        if found:
            # If sidecars changed during the comparison, record nothing: the files are read again.
            self._ledger.metadata_drift.read(found, still=lambda: self._sidecars.cache.changes == as_of)
        return len(rows)

    def look_again(self) -> None:
        """Mark files as unread that could not be compared before and can be now.

        A scan does not notice that a file came back. Nor does it notice that a disk or a permission works again,
        because the sidecar itself did not change. Each problem is tried once, however many files lie below a folder's
        sidecar.
        """
        self._ledger.metadata_drift.back()
        for row in self._ledger.metadata_drift.unreadable():
            try:
                found = self._found(row)
            except RootMissing:
                return
            if row.drift is not None and found.drift != row.drift:
                self._ledger.metadata_drift.read_alike(row.drift)
            if self._tick():
                return

    def _found(self, row: FileRow) -> Found:
        position = self._plan.covers(row.path)
        if position is None:
            return Found(None, None, row)
        if self._is_absent(row.path):
            return Found(AWAY, None, row)
        mapping = self._plan.mappings.all[position]
        sentence, digest = None, None
        try:
            sentence, digest = self._metadata_drift(row, mapping)
        except SidecarError as error:
            sentence = f"{UNREADABLE}{error}"
        sentences = [sentence] if sentence else []
        if row.is_elsewhere:
            sentences.append(f"{ELSEWHERE}{row.asset_folder}")
        if row.destfolderid != mapping.destfolderid and not self._resend_moved:
            sentences.append(_REMAPPED.format(mapping.destfolderid))
        return Found(_AND.join(sentences) or None, digest, row)

    def _metadata_drift(self, row: FileRow, mapping: Mapping) -> tuple[str | None, str | None]:
        """Return the drift of the metadata, and the digest of the metadata now; raises SidecarError and RootMissing."""
        if row.assetid is None and row.meta_digest is None:
            return None, None
        xmp = self._sidecars.xmp_file(row.path) if mapping.xmp else None
        # An older release may have sent the version without its XMP file, which has not changed since.
        if xmp is not None and self._ledger.metadata_drift.was_sent_without(row, *xmp):
            sentence, digest = self._compared(row, mapping, with_xmp=False)
            if sentence is None:
                return None, digest
        return self._compared(row, mapping, with_xmp=True)

    def _compared(self, row: FileRow, mapping: Mapping, *, with_xmp: bool) -> tuple[str | None, str | None]:
        metadata_of = partial(self._sidecars.metadata_of, row.path, mapping, with_xmp=with_xmp)

        def is_as_sent() -> bool:
            """Return whether the metadata equals that of the digest, for whichever kind its fields were named."""
            return any(metadata_of(kind).digest == row.meta_digest for kind in KINDS)

        if row.assetid is not None and row.uploaded_at is None:
            # Compare the metadata of an adopted asset with the metadata that its file had when it was adopted.
            # The metadata that the service had at that time is unknown.
            digest = metadata_of(guess_kind(row.path)).digest
            differs = row.meta_digest not in (None, digest) and not is_as_sent()
            return _CHANGED_SINCE if differs else None, digest
        digest = metadata_of(row.filetype).digest
        if digest == row.meta_digest:
            return None, digest
        if not is_as_sent():
            sent = self._ledger.metadata_drift.sent_fields(row)
            now = [sent_fields(found.fields, found.language) for found in map(metadata_of, KINDS)]
            return OPTIONS if sent is not None and sent in now else _CHANGED, digest
        # If the service named no kind, nothing shows that the names are wrong.
        return _MISNAMED.format(row.filetype) if row.filetype in KINDS else None, digest

"""Compare, once for each upload, the description and keywords that were sent with those that the service holds.

Some kinds of files keep their own: what a PDF holds replaces what was sent with it (observed). The difference is
recorded as drift, and blocks nothing. Only processed rows of the service's database are compared, because its index may
be older. The comparison of texts is left to `core.sent_texts`, the report to `ledger.metadata_drift`.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

import structlog

from assetsync.config.document.metadata import KINDS
from assetsync.core.mapping import Plan
from assetsync.core.names import printable
from assetsync.core.sent_texts import UNKNOWN, Texts, differences
from assetsync.errors import SidecarError, TreeError
from assetsync.ledger.metadata_drift import SentUpload
from assetsync.ledger.rows import FileRow
from assetsync.model import Asset
from assetsync.sync.context import Context
from assetsync.sync.intake.sidecars import FileMetadata, Sidecars

log = structlog.get_logger(__name__)

_THEREFORE = "the service does not hold the metadata that was sent ({}): set it there by hand"


class SentMetadata:
    """The comparison of uploads with the assets that a look-up shows; used by one thread at a time."""

    def __init__(self, context: Context, plan: Plan, sidecars: Sidecars) -> None:
        self._ledger = context.ledger
        self._plan = plan
        self._sidecars = sidecars
        # By asset: the uploads that are to be compared, and the differences found since the last record.
        self._pending: dict[str, SentUpload] = {}
        self._found: dict[str, list[str]] = {}

    def expect(self, rows: Sequence[FileRow]) -> Collection[str]:
        """Return the assets of these rows whose uploads are to be compared; compare them from now on."""
        self._pending |= self._ledger.metadata_drift.to_compare(
            [row for row in rows if row.assetid not in self._pending]
        )
        return self._pending.keys()

    def look(self, assets: Iterable[Asset]) -> Iterator[Asset]:
        """Yield the assets of a look-up in the database, and compare those that are expected and processed."""
        for asset in assets:
            if asset.id in self._pending and asset.processed:
                self._compare(self._pending[asset.id], asset)
            yield asset

    def record(self) -> None:
        """Record what was found; each upload is compared once."""
        found, self._found = self._found, {}
        uploads = [(self._pending[assetid], parts) for assetid, parts in found.items()]
        self._pending.clear()
        if not uploads:
            return
        self._ledger.metadata_drift.compared(
            [(upload, _THEREFORE.format(", ".join(parts)) if parts else None) for upload, parts in uploads]
        )
        for upload, parts in uploads:
            if parts:
                log.info("metadata not kept", path=printable(upload.row.path), assetid=upload.row.assetid, detail=parts)

    def _compare(self, upload: SentUpload, asset: Asset) -> None:
        shown = Texts(*(_text(asset, name) for name in Texts._fields))
        parts = differences(upload.sent, shown, UNKNOWN)
        if parts:
            # Read the sidecars only now: nearly all uploads are as they were sent.
            parts = self._described(upload, shown)
        self._found[asset.id] = parts

    def _described(self, upload: SentUpload, shown: Texts) -> list[str]:
        """Return the differences, described by the texts that were sent if the sidecars still give them."""
        row, position = upload.row, self._plan.covers(upload.row.path)
        sent: FileMetadata | None = None
        if position is not None:
            mapping = self._plan.mappings.all[position]
            try:
                by_kind = {kind: self._sidecars.metadata_of(row.path, mapping, kind) for kind in KINDS}
            except (SidecarError, TreeError):
                by_kind = {}
            sent = next((metadata for metadata in by_kind.values() if metadata.digest == upload.digest), None)
            if sent is not None and by_kind.get(row.filetype or "", sent).fields != sent.fields:
                # Under the field names of another kind the texts were not stored. This is reported as drift already.
                return []
        return differences(upload.sent, shown, UNKNOWN if sent is None else sent.texts)


def _text(asset: Asset, name: str) -> str | None:
    """Return a column as text; None if the answer does not have it."""
    return str(asset.columns[name] or "") if name in asset.columns else None

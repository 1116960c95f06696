"""Compare, once for each upload, the description and keywords that were sent with those that the service holds.

Some kinds of files keep their own: what a PDF holds replaces what was sent with it (observed). The difference is
recorded as drift, and blocks nothing. Only processed rows of the service's database are compared, because its index may
be older. Some releases write the metadata of audio and video last: a new one without any text is compared later.

Nothing was sent for an adopted asset. When it is read back first, it is compared with the texts that the sidecars give.
The index is good enough for this, because the asset is not new.

The comparison of texts is left to `core.sent_texts`, the report to `ledger.metadata_drift`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import structlog

from assetsync.config.document.metadata import KINDS
from assetsync.core import metadata
from assetsync.core.mapping import Plan
from assetsync.core.names import printable
from assetsync.core.read_back import Suspects
from assetsync.core.sent_texts import (
    AS_SENT,
    IN_SIDECARS,
    NOT_COMPARED,
    UNKNOWN,
    Texts,
    differences,
    digests,
)
from assetsync.errors import SidecarError, TreeError
from assetsync.ledger.metadata_drift import SentUpload
from assetsync.ledger.rows import FileRow
from assetsync.model import Asset
from assetsync.sync.context import Context
from assetsync.sync.intake.sidecars import FileMetadata, Sidecars

log = structlog.get_logger(__name__)

_NO_ATTEMPT = 0
"""The attempt of an adopted asset, for which nothing was sent: it is compared with the sidecars."""

_WRITTEN_LATE = ("aud", "vid")
"""Kinds of assets whose metadata some releases write only after size and MD5, and after the move to their storage."""

_WRITTEN_BY = 600.0
"""Seconds after the upload; no text of such an asset in that time proves nothing."""

_THEREFORE = "the service does not hold the metadata that was sent ({}): set it there by hand"
_NONE_LEFT = f"{_THEREFORE}; the service drops all of it if the key's user may only read the folder"
_ADOPTED = "the metadata of its adopted asset differs from the sidecars ({}): set it in the service by hand"


class SentMetadata:
    """The comparison of uploads with the assets that a look-up shows; used by one thread at a time."""

    def __init__(
        self,
        context: Context,
        plan: Plan,
        sidecars: Sidecars,
        new_fields: Callable[[bytes, Collection[str]], Collection[str]] = lambda _path, _names: (),
    ) -> None:
        """Start with nothing to compare.

        `new_fields` returns those of the fields of a file with which the service has processed nothing yet.
        """
        self._new_fields = new_fields
        self._ledger = context.ledger
        self._clock = context.clock
        self._plan = plan
        self._sidecars = sidecars
        # By asset: the uploads that are to be compared, and the differences found since the last record.
        self._pending: dict[str, SentUpload] = {}
        self._adopted: dict[str, SentUpload] = {}
        self._found: dict[str, list[str]] = {}

    def expect(self, rows: Sequence[FileRow]) -> Collection[str]:
        """Return the assets of these rows whose uploads are to be compared; compare them from now on.

        Adopted assets of these rows are compared, too. They are not returned, because the index shows enough of them.
        """
        self._adopted |= {row.assetid or "": adopted for row in rows if (adopted := self._adopted_by(row)) is not None}
        self._pending |= self._ledger.metadata_drift.to_compare(
            [row for row in rows if row.assetid not in self._pending]
        )
        return self._pending.keys()

    def look(self, assets: Iterable[Asset]) -> Iterator[Asset]:
        """Yield the assets of a look-up in the database, and compare those that are expected and processed."""
        for asset in self.look_in_index(assets):
            upload = self._pending.get(asset.id) if asset.processed else None
            if upload is not None and not self._may_be_written(upload, asset):
                self._found[asset.id] = self._compare(upload, asset, AS_SENT)
            yield asset

    def look_in_index(self, assets: Iterable[Asset]) -> Iterator[Asset]:
        """Yield the assets of a look-up in the index, and compare the adopted ones that are expected."""
        for asset in assets:
            if asset.id in self._adopted:
                self._found[asset.id] = self._compare(self._adopted[asset.id], asset, IN_SIDECARS)
            yield asset

    def suspects(self, row: FileRow) -> Suspects:
        """Return what can keep the service from processing the asset of a file."""
        if row.filetype == "img":
            return Suspects()
        attempt = next(iter(self._ledger.doubts.attempts(row.id, 1)), None)
        name = "" if attempt is None else attempt.sent_name
        metadata = self._sent(row, row.meta_digest)
        values = {} if metadata is None else dict(metadata.sent.fields)
        return Suspects.of(name, values, self._new_fields(row.path, values))

    def of_adopted(self, row: FileRow) -> dict[str, str | None]:
        """Return the columns to write for an adopted file whose asset was compared since the last record, else none."""
        parts = self._found.get(row.assetid or "") if row.assetid in self._adopted else None
        if parts is None:
            return {}
        return {"differs": _ADOPTED.format(", ".join(parts)) if parts else None}

    def record(self) -> None:
        """Record what was found of uploads, each of which is compared once; forget what was expected."""
        found, self._found = self._found, {}
        uploads = [(self._pending[assetid], parts) for assetid, parts in found.items() if assetid in self._pending]
        self._pending.clear()
        self._adopted.clear()
        if not uploads:
            return
        self._ledger.metadata_drift.compared(
            [(upload, _sentence(upload, parts) if parts else None) for upload, parts in uploads]
        )
        for upload, parts in uploads:
            if parts:
                log.info("metadata not kept", path=printable(upload.row.path), assetid=upload.row.assetid, detail=parts)

    def _adopted_by(self, row: FileRow) -> SentUpload | None:
        """Return an adopted file that is to be compared; None if it has no texts, or was read back before.

        Sidecars that cannot be read are reported as drift.
        """
        is_first = row.verified_at is None and row.uploaded_at is None and row.id_from == "adopted"
        position = self._plan.covers(row.path) if is_first else None
        # Nearly all files have no metadata. If one gets it after it was adopted, this is drift.
        if position is None or row.meta_digest == metadata.digest((), self._plan.mappings.all[position].upload):
            return None
        now = self._metadata_of(row)
        if now is None or (sent := digests(now.texts)) == NOT_COMPARED:
            return None
        return SentUpload(row, _NO_ATTEMPT, now.digest, sent)

    def _may_be_written(self, upload: SentUpload, asset: Asset) -> bool:
        """Return whether the service may still write the metadata: then the next look-up, or an audit, compares it."""
        is_new = 0 <= self._clock.now() - (upload.row.uploaded_at or 0.0) < _WRITTEN_BY
        is_late = (upload.row.filetype or asset.kind) in _WRITTEN_LATE
        return is_new and is_late and not any(_text(asset, name) for name in Texts._fields)

    def _compare(self, upload: SentUpload, asset: Asset, others: Texts) -> list[str]:
        shown = Texts(*(_text(asset, name) for name in Texts._fields))
        parts = differences(upload.sent, shown, UNKNOWN, others)
        if parts:
            # Read the sidecars only now: nearly all uploads are as they were sent.
            parts = self._described(upload, shown, others)
        return parts

    def _described(self, upload: SentUpload, shown: Texts, others: Texts) -> list[str]:
        """Return the differences, described by the texts that were sent if the sidecars still give them."""
        sent = self._sent(upload.row, upload.digest)
        kind = upload.row.filetype or ""
        stored = self._metadata_of(upload.row, kind) if kind in KINDS else None
        is_misnamed = sent is not None and stored is not None and sent.fields != stored.fields
        if is_misnamed and upload.attempt_id != _NO_ATTEMPT:
            # Under the field names of another kind the texts were not stored. This is reported as drift already.
            return []
        return differences(upload.sent, shown, UNKNOWN if sent is None else sent.texts, others)

    def _sent(self, row: FileRow, digest: str | None) -> FileMetadata | None:
        """Return the metadata of this digest that was sent; None if the sidecars no longer give it."""
        by_kind = (self._metadata_of(row, kind) for kind in KINDS)
        return next((now for now in by_kind if now is not None and now.digest == digest), None)

    def _metadata_of(self, row: FileRow, kind: str | None = None) -> FileMetadata | None:
        """Return the metadata that the sidecars give now; None if the file is not mapped or they cannot be read."""
        position = self._plan.covers(row.path)
        if position is None:
            return None
        try:
            return self._sidecars.metadata_of(row.path, self._plan.mappings.all[position], kind)
        except (SidecarError, TreeError):
            return None


def _sentence(upload: SentUpload, parts: Sequence[str]) -> str:
    # A PDF without metadata of its own ends as empty for any user.
    is_empty = all(part.endswith(" empty") for part in parts) and not upload.row.path.lower().endswith(b".pdf")
    return (_NONE_LEFT if is_empty else _THEREFORE).format(", ".join(parts))


def _text(asset: Asset, name: str) -> str | None:
    """Return a column as text; None if the answer does not have it."""
    return str(asset.columns[name] or "") if name in asset.columns else None

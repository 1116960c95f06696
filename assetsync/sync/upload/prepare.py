"""Prepare a due file for its upload: open it, compare it with its row, hash it and read its metadata.

Most files leave this module as `Ready`. Some need no upload, because the service has the content already; finding that
out is left to `sync.upload.dedupe`. The POST and its result are left to `sync.upload.worker`.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from assetsync.core.backoff import LONGEST, WELL_WITHIN
from assetsync.core.mapping import Mappings
from assetsync.core.metadata import SUFFIX, folder_sidecars, sidecar_for
from assetsync.core.names import printable, sent_name
from assetsync.core.settled import EMPTY, KEEPS_CHANGING, MOST_CUTS, is_settled, rest_after, rested
from assetsync.errors import FileChanged, FileUnreadable, NotRegular, ReadStopped, RootMissing, SidecarError
from assetsync.ledger.queue import Intent
from assetsync.ledger.rows import FileRow
from assetsync.ledger.versions import NewVersion
from assetsync.model import FileStat, Mapping, UploadRequest
from assetsync.sync.context import Context
from assetsync.sync.intake.sidecars import FileMetadata, Sidecars
from assetsync.sync.upload.dedupe import Dedupe
from assetsync.sync.upload.folder_listing import FolderListing
from assetsync.text import moment
from assetsync.tree.body import SMALL, FileBody, difference, digest
from assetsync.tree.safe_open import OpenFile

log = structlog.get_logger(__name__)

_LATER = 60.0
"""Seconds until the next try for a file that waits for the next scan."""

_WRITTEN_PATIENCE = 60.0
"""Seconds beyond `settle` after which a file no longer waits for an unsettled sidecar."""

_MOST_WRITTEN = 10_000
_NOW = 0.05
_AGAIN = 1.0

_SOON = 5.0
"""Minimum seconds until the next try for a file that waits for another upload to be decided."""


class _PutOff(Exception):
    """The file was postponed; this is not an error."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A file that may be sent: the intent to commit first, the form, and the body over the open file.

    `sidecar_changes` is the count of changes before the metadata was read.
    """

    row: FileRow
    intent: Intent
    request: UploadRequest
    body: FileBody
    file: OpenFile
    sidecar_changes: int


@dataclass(frozen=True, slots=True)
class Rules:
    """The configured rules for sending: `settle`, `settles` and `sidecar_wait` in seconds, `max_file_size` in bytes.

    `settles` holds the settle time of each mapping, in the order of the mappings; `settle` applies to sidecars.
    """

    settle: float
    settles: Sequence[float]
    sidecar_wait: float = 0.0
    max_file_size: int | None = None
    resend_changed: bool = True


class Preparer:
    """Preparation of one file after another; shared by all workers."""

    def __init__(
        self,
        context: Context,
        mappings: Mappings,
        sidecars: Sidecars,
        folder_listing: FolderListing,
        rules: Rules,
    ) -> None:
        self._context = context
        self._ledger = context.ledger
        self._tree = context.tree
        self._clock = context.clock
        self._mappings = mappings
        self._sidecars = sidecars
        self._folder_listing = folder_listing
        self._rules = rules
        # Per unsettled sidecar: when the wait for it began, and when it was last checked (steady seconds).
        self._written_since: dict[bytes, tuple[float, float]] = {}
        self.dedupe = Dedupe(context, folder_listing, self._metadata_digest, resend_changed=rules.resend_changed)

    def is_listed(self, destfolderid: str) -> bool:
        """Return whether a file can be prepared for the folder without a listing before."""
        return self._folder_listing.is_listed(destfolderid)

    def prepare(self, row: FileRow) -> Ready | None:
        """Return the file ready to be sent, or None if it was postponed, blocked, or needs no upload.

        Raise ServiceError if the service does not answer, and Unlisted while the folder still has to be listed before
        the first POST into it.
        """
        position = self._mappings.for_directory(row.path.rpartition(b"/")[0])
        if position is None or self._mappings.all[position].destfolderid != row.destfolderid:
            # The configuration changed after the file was queued: the next scan assigns its folder.
            detail = "its mapping has changed: the next scan assigns its folder"
            self._ledger.queue.postpone(row.id, self._clock.now() + _LATER, detail)
            return None
        mapping = self._mappings.all[position]
        if not row.send_again and self._keeps_changing(row, self._rules.settles[position]):
            return None
        self._folder_listing.ensure(row.destfolderid)
        if self._folder_listing.keeps_back(row):
            return None
        sidecar_changes, opened_at = self._sidecars.changes, self._clock.steady()
        try:
            # Hashing a large file may take minutes: look for its sidecar only after that.
            file = self._tree.open(row.path, sidecar_suffix=SUFFIX if mapping.sidecars and row.size <= SMALL else b"")
        except (FileUnreadable, NotRegular, RootMissing) as error:
            self._not_there(row, mapping, error)
            return None
        ready = None
        try:
            ready = self._prepare_open(row, file, mapping, sidecar_changes, opened_at)
        except RootMissing as error:
            # The root disappeared after the file was opened and before its sidecars were read.
            self._not_there(row, mapping, error)
        finally:
            if ready is None:
                file.close()
        return ready

    def _prepare_open(
        self, row: FileRow, file: OpenFile, mapping: Mapping, sidecar_changes: int, opened_at: float
    ) -> Ready | None:
        if difference(row.stat, file.stat):
            self._changed(row, file.stat)
            return None
        if not self._may_be_sent(row):
            return None
        body = FileBody(file, row.stat)
        try:
            md5 = self._digest(row, body, file)
        except (ReadStopped, _PutOff):
            return None
        except FileChanged:
            self._changed(row, file.restat())
            return None
        except FileUnreadable as error:
            self._hold(row, "unreadable", str(error))
            return None
        if not row.send_again and self.dedupe.spares_upload(row, md5):
            return None
        # The steps above may have taken long, and a sidecar may have appeared in the meantime.
        is_now = self._sidecars.changes == sidecar_changes and self._clock.steady() - opened_at < _NOW
        metadata = self._read_metadata(row, mapping, is_alone=file.is_alone and is_now)
        if metadata is None:
            return None
        name = sent_name(row.path.rpartition(b"/")[2])
        boundary = self._context.token()
        intent = Intent(row.id, row.destfolderid, name, boundary, row.stat, md5, metadata.digest)
        request = UploadRequest(row.destfolderid, name, boundary, metadata.fields, metadata.language, metadata.options)
        return Ready(row, intent, request, body, file, sidecar_changes)

    def _keeps_changing(self, row: FileRow, settle: float) -> bool:
        """Postpone or block a file that changes too often, until it has rested; return whether it has to wait."""
        now = self._clock.now()
        uploads = self._ledger.queue.uploads_of(row)
        rest = rest_after(uploads, settle, now)
        if rest.seconds <= settle <= LONGEST and not rest.is_blocked:
            # A file is queued only once it has rested for `settle`, so it has rested long enough.
            return False
        wait = rest.seconds - rested(row.stat, row.queued_at, uploads, now)
        if wait <= 0:
            return False
        if rest.is_blocked:
            detail = (
                f"it changed during each of its last {MOST_CUTS} uploads or more, each of which may have left a damaged"
                " asset: it is sent once unchanged for an hour"
            )
            self._hold(row, KEEPS_CHANGING, detail, due_at=now + wait)
        else:
            detail = f"changes often: waits until {moment(now + wait)}, longer if it changes again"
            # Wait in steps: a due time further away would count as set by a clock that has since been set back.
            self._ledger.queue.postpone(row.id, now + min(wait, WELL_WITHIN), detail)
            log.debug("changes often", path=printable(row.path), seconds=round(wait))
        return True

    def sidecars_changed(self, ready: Ready) -> bool:
        """Return whether any sidecar has changed since the metadata of the file was read."""
        return self._sidecars.changes != ready.sidecar_changes

    def _read_metadata(self, row: FileRow, mapping: Mapping, *, is_alone: bool) -> FileMetadata | None:
        try:
            metadata = self._sidecars.metadata_of(row.path, mapping, is_alone=is_alone)
        except SidecarError as error:
            if not self._is_being_written(row, [sidecar_for(row.path), *folder_sidecars(row.path)]):
                self._hold(row, "sidecar", str(error))
            return None
        written = [sidecar_for(row.path)] if metadata.has_own else []
        # A folder sidecar with a time in the future does not count as being written: every file of the folder would
        # wait.
        if abs(self._clock.now() - metadata.folders_written) < self._rules.settle:
            written += folder_sidecars(row.path)
        if written and self._is_being_written(row, written):
            return None
        # An empty sidecar was opened but not written yet: it does not count.
        has_come = metadata.has_own and not metadata.own_is_empty
        waits = mapping.sidecars and not has_come and self._waits_for_sidecar(row)
        return None if waits else metadata

    def _metadata_digest(self, row: FileRow) -> str:
        """Return the metadata digest of a file that needs no upload; "" if its metadata cannot be read."""
        position = self._mappings.for_directory(row.path.rpartition(b"/")[0])
        try:
            return "" if position is None else self._sidecars.metadata_of(row.path, self._mappings.all[position]).digest
        except SidecarError as error:
            log.warning("metadata cannot be read", path=printable(row.path), detail=str(error))
            return ""

    def _is_being_written(self, row: FileRow, sidecars: Sequence[bytes]) -> bool:
        """Return whether a sidecar may be incomplete; postpone the file then, as metadata cannot be sent afterwards."""
        rests_in = max(map(self._rests_in, sidecars))
        if not rests_in:
            return False
        due_at = self._clock.now() + rests_in
        self._ledger.queue.postpone(row.id, due_at, "waits until its sidecar has settled (watch.settle)")
        return True

    def _rests_in(self, sidecar: bytes) -> float:
        """Return the seconds until a sidecar may be settled; 0 if no wait is needed, or past the time-out."""
        settle, now, steady = self._rules.settle, self._clock.now(), self._clock.steady()
        if not settle:
            return 0.0
        try:
            found = self._tree.lstat(sidecar)
        except (FileUnreadable, RootMissing):
            return 0.0
        if found is None or is_settled(found, now, settle):
            self._written_since.pop(sidecar, None)
            return 0.0
        if len(self._written_since) > _MOST_WRITTEN:
            self._written_since.clear()
        patience = settle + _WRITTEN_PATIENCE
        since, asked = self._written_since.get(sidecar, (steady, steady))
        # If the last check was longer ago than the time-out, this is a new write, and the wait begins anew.
        since = steady if steady - asked > patience else since
        self._written_since[sidecar] = since, steady
        if steady - since >= patience:
            return 0.0
        # A sidecar dated before 1970 or in the future never settles: wait at least a second in any case.
        left = max(found.mtime_ns, found.ctime_ns) / 1e9 + settle - now
        return max(_AGAIN, min(left, settle))

    def _waits_for_sidecar(self, row: FileRow) -> bool:
        """Postpone a file whose sidecar may still appear; when it appears, the file is due at once."""
        now = self._clock.now()
        waited = now - row.queued_at
        # A file queued in the future was queued by a clock that has since been set back: do not wait.
        if not 0 <= waited < self._rules.sidecar_wait:
            return False
        due_at = now + min(self._rules.sidecar_wait - waited, LONGEST)
        self._ledger.queue.postpone(row.id, due_at, "waits for its sidecar, watch.sidecar_wait at most")
        return True

    def _digest(self, row: FileRow, body: FileBody, file: OpenFile) -> str | None:
        """Return the MD5 of a small file, and of a large file if the service may have an equal one; else None.

        Raises _PutOff if an undecided upload may have been the same file; ReadStopped, FileChanged and FileUnreadable.
        """
        md5 = body.load()
        if (
            md5 is None
            and not row.send_again
            and self._ledger.equal_content.has_size(row.id, row.destfolderid, row.size)
        ):
            self._wait_for_equal_upload(row)
            md5 = digest(file, row.stat, stop=self._context.heartbeat.tick, tap=self._context.progress.hashed)
            # Check again, because hashing may take long.
            self._wait_for_equal_upload(row)
        return md5

    def _wait_for_equal_upload(self, row: FileRow) -> None:
        """Postpone a large file and raise _PutOff while an undecided upload may have been the same file.

        If an upload was cut before its file was read to the end, and its path holds another file now, only the service
        can show what was sent.
        """
        now = self._clock.now()
        for other in self._ledger.equal_content.unread(row):
            if not self._still_holds(other):
                detail = (
                    f"may be what was being uploaded as {printable(other.path)}: waits until that is decided"
                    " (`assetsync doubt list`)"
                )
                pause = min(_LATER, max(_SOON, (now - row.queued_at) / 4))
                self._ledger.queue.postpone_behind(row, other, now, pause, detail)
                raise _PutOff

    def _still_holds(self, other: FileRow) -> bool:
        try:
            return self.dedupe.still_holds(other)
        except FileUnreadable:
            # The other file may have been moved here: wait for its upload if its path cannot be read.
            return False

    def _may_be_sent(self, row: FileRow) -> bool:
        if row.size == 0:
            self._hold(row, *EMPTY)
            return False
        if self._rules.max_file_size is not None and row.size > self._rules.max_file_size:
            detail = (
                f"the file has {row.size:,} bytes and upload.max_file_size is {self._rules.max_file_size:,}:"
                " raise the limit, then `assetsync retry` it, or ignore the file"
            )
            self._hold(row, "too_large", detail)
            return False
        return True

    def _not_there(self, row: FileRow, mapping: Mapping, error: FileUnreadable | NotRegular | RootMissing) -> None:
        vanished = isinstance(error, FileUnreadable) and error.vanished
        if isinstance(error, RootMissing) or (vanished and not self._holds_anything(mapping.path)):
            # A disk may have been unmounted with all its files: the next scan and the brake decide.
            detail = "it is not there, nor is anything else in its mapped folder: the next scan decides"
            self._ledger.queue.postpone(row.id, self._clock.now() + _LATER, detail)
            log.info("not there, with its mapped folder", path=printable(row.path))
        elif isinstance(error, NotRegular) or vanished:
            self._ledger.queue.vanished(row.id, self._clock.now())
            log.info("gone before it was sent", path=printable(row.path))
        else:
            self._hold(row, "unreadable", str(error))

    def _holds_anything(self, folder: bytes) -> bool:
        try:
            fd = self._tree.open_folder(folder)
        except (OSError, RootMissing):
            return False
        try:
            with os.scandir(fd) as entries:
                return next(entries, None) is not None
        finally:
            os.close(fd)

    def _changed(self, row: FileRow, found: FileStat) -> None:
        """Queue the version that the path holds now; it is due after the settle time."""
        now = self._clock.now()
        position = self._mappings.for_directory(row.path.rpartition(b"/")[0])
        settle = self._rules.settle if position is None else self._rules.settles[position]
        self._ledger.versions.enqueue(
            [NewVersion(row.path, found, row.destfolderid, row.folded_name, row.id)],
            now,
            due_at=now + min(settle, WELL_WITHIN),
        )
        log.debug("changed before it was sent", path=printable(row.path))

    def _hold(self, row: FileRow, reason: str, detail: str, *, due_at: float | None = None) -> None:
        self._ledger.queue.hold(row.id, reason, detail, self._clock.now(), due_at=due_at)
        log.warning("blocked", path=printable(row.path), reason=reason, detail=detail)

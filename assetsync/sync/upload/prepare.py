"""Everything between being due and being sent: open, compare, read what is said of the file, look for its equal.

Most files leave here as `Ready`. Some never have to be sent, because something stands for them already
(`sync.upload.dedupe`). The POST and what becomes of it are `sync.upload.uploader`'s.
"""

import os
from collections.abc import Collection, Sequence
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
from assetsync.sync.intake.file_metadata import FileMetadata, Sidecars
from assetsync.sync.upload.dedupe import Dedupe
from assetsync.sync.upload.folder_listing import FolderListing
from assetsync.text import moment
from assetsync.tree.body import SMALL, FileBody, difference, digest
from assetsync.tree.safe_open import OpenFile

log = structlog.get_logger(__name__)

_LATER = 60.0
"""Seconds until a file is tried again whose place the next scan has to tell."""

_WRITTEN_PATIENCE = 60.0
"""Seconds beyond `settle` for which a sidecar is waited for at most until it rests."""

_MOST_WRITTEN = 10_000
_NOW = 0.05
_AGAIN = 1.0

_SOON = 5.0
"""Seconds at least until a file is tried again that waits for another's upload to be decided."""


class _PutOff(Exception):
    """The file is due later: not an error."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A file that may be sent: what to commit first, the form, and the body over the file that is open.

    `told_at` counts the changes of sidecars before what is said of it was read.
    """

    row: FileRow
    intent: Intent
    request: UploadRequest
    body: FileBody
    file: OpenFile
    told_at: int


@dataclass(frozen=True, slots=True)
class Rules:
    """What the configuration says of sending: seconds to settle and to wait for a sidecar, bytes at most.

    `settles` are the seconds to settle of each mapping, in its order; `settle` is for sidecars.
    """

    settle: float
    settles: Sequence[float]
    sidecar_wait: float = 0.0
    max_file_size: int | None = None
    resend_changed: bool = True


class Preparer:
    """Prepares one file at a time; shared by all workers."""

    def __init__(
        self,
        context: Context,
        mappings: Mappings,
        sidecars: Sidecars,
        contact: FolderListing,
        rules: Rules,
    ) -> None:
        self._context = context
        self._ledger = context.ledger
        self._tree = context.tree
        self._clock = context.clock
        self._mappings = mappings
        self._sidecars = sidecars
        self._contact = contact
        self._rules = rules
        # Since when a sidecar is waited for, and when that was last asked (steady seconds).
        self._written_since: dict[bytes, tuple[float, float]] = {}
        self.dedupe = Dedupe(context, contact, self._said, resend_changed=rules.resend_changed)

    @property
    def being_listed(self) -> Collection[str]:
        """The folders of the service for which nothing can be prepared at this moment."""
        return self._contact.being_listed

    def prepare(self, row: FileRow) -> Ready | None:
        """Give the file ready to be sent, or None when it has been dealt with otherwise.

        Raises ServiceError when the service does not answer, and Unlisted while the folder has not been looked at that
        is looked at before the first POST into it.
        """
        position = self._mappings.for_directory(row.path.rpartition(b"/")[0])
        if position is None or self._mappings.all[position].destfolderid != row.destfolderid:
            # The configuration changed since it was queued: the next scan says where it belongs.
            detail = "its mapping has changed: the next scan tells where it belongs"
            self._ledger.queue.postpone(row.id, self._clock.now() + _LATER, detail)
            return None
        mapping = self._mappings.all[position]
        if not row.send_again and self._keeps_changing(row, self._rules.settles[position]):
            return None
        self._contact.ensure(row.destfolderid)
        if self._contact.keeps_back(row):
            return None
        told_at, opened_at = self._sidecars.changes, self._clock.steady()
        try:
            # A large one may be hashed for minutes before its sidecar counts: that one is looked for then.
            file = self._tree.open(row.path, beside=SUFFIX if mapping.sidecars and row.size <= SMALL else b"")
        except (FileUnreadable, NotRegular, RootMissing) as error:
            self._not_there(row, mapping, error)
            return None
        ready = None
        try:
            ready = self._prepare_open(row, file, mapping, told_at, opened_at)
        except RootMissing as error:
            # It was there when the file was opened, and is gone before its sidecars are looked at.
            self._not_there(row, mapping, error)
        finally:
            if ready is None:
                file.close()
        return ready

    def _prepare_open(
        self, row: FileRow, file: OpenFile, mapping: Mapping, told_at: int, opened_at: float
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
        if not row.send_again and self.dedupe.stands_for(row, md5):
            return None
        # Of what was looked up meanwhile nobody knows how long it took: a sidecar may have come.
        is_now = self._sidecars.changes == told_at and self._clock.steady() - opened_at < _NOW
        told = self._told(row, mapping, is_alone=file.is_alone and is_now)
        if told is None:
            return None
        name = sent_name(row.path.rpartition(b"/")[2])
        boundary = self._context.token()
        intent = Intent(row.id, row.destfolderid, name, boundary, row.stat, md5, told.digest)
        request = UploadRequest(row.destfolderid, name, boundary, told.fields, told.language, told.options)
        return Ready(row, intent, request, body, file, told_at)

    def _keeps_changing(self, row: FileRow, settle: float) -> bool:
        """Put off, or hold, a file whose versions follow one another too quickly until it has rested."""
        now = self._clock.now()
        uploads = self._ledger.queue.uploads_of(row)
        rest = rest_after(uploads, settle, now)
        if rest.seconds <= settle <= LONGEST and not rest.is_held:
            # It was seen at rest for that long before it was queued.
            return False
        wait = rest.seconds - rested(row.stat, row.queued_at, uploads, now)
        if wait <= 0:
            return False
        if rest.is_held:
            detail = (
                f"it changed during each of its last {MOST_CUTS} uploads or more, each of which may have left a damaged"
                " asset: it is sent once unchanged for an hour"
            )
            self._hold(row, KEEPS_CHANGING, detail, due_at=now + wait)
        else:
            detail = f"changes often: waits until {moment(now + wait)}, longer if it changes again"
            # In steps: a time further away would be taken for another clock's.
            self._ledger.queue.postpone(row.id, now + min(wait, WELL_WITHIN), detail)
            log.debug("changes often", path=printable(row.path), seconds=round(wait))
        return True

    def is_told_anew(self, ready: Ready) -> bool:
        """Whether sidecars have changed since what is said of the file was read."""
        return self._sidecars.changes != ready.told_at

    def _told(self, row: FileRow, mapping: Mapping, *, is_alone: bool) -> FileMetadata | None:
        try:
            told = self._sidecars.told(row.path, mapping, is_alone=is_alone)
        except SidecarError as error:
            if not self._is_being_written(row, [sidecar_for(row.path), *folder_sidecars(row.path)]):
                self._hold(row, "sidecar", str(error))
            return None
        written = [sidecar_for(row.path)] if told.has_own else []
        # One that is dated tomorrow is not being written for it: each file there would wait.
        if abs(self._clock.now() - told.folders_written) < self._rules.settle:
            written += folder_sidecars(row.path)
        if written and self._is_being_written(row, written):
            return None
        # One that was opened and never written to has not come.
        has_come = told.has_own and not told.own_is_empty
        waits = mapping.sidecars and not has_come and self._waits_for_sidecar(row)
        return None if waits else told

    def _said(self, row: FileRow) -> str:
        """Give the digest of what is said of a file that need not be sent, "" where that cannot be read."""
        position = self._mappings.for_directory(row.path.rpartition(b"/")[0])
        try:
            return "" if position is None else self._sidecars.told(row.path, self._mappings.all[position]).digest
        except SidecarError as error:
            log.warning("what is said of it cannot be read", path=printable(row.path), detail=str(error))
            return ""

    def _is_being_written(self, row: FileRow, sidecars: Sequence[bytes]) -> bool:
        """Put a file off one of whose sidecars may not be whole: what is sent without it cannot be said afterwards."""
        rests_in = max(map(self._rests_in, sidecars))
        if not rests_in:
            return False
        due_at = self._clock.now() + rests_in
        self._ledger.queue.postpone(row.id, due_at, "waits until its sidecar has settled (watch.settle)")
        return True

    def _rests_in(self, sidecar: bytes) -> float:
        """Give the seconds after which a sidecar may rest, 0 where it does, or has not for longer than is waited."""
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
        # Nobody need have seen it at rest: what is written long after that is written anew.
        since = steady if steady - asked > patience else since
        self._written_since[sidecar] = since, steady
        if steady - since >= patience:
            return 0.0
        # Dated before 1970 or tomorrow it never rests: not at once again, in any case.
        left = max(found.mtime_ns, found.ctime_ns) / 1e9 + settle - now
        return max(_AGAIN, min(left, settle))

    def _waits_for_sidecar(self, row: FileRow) -> bool:
        """Put a file off whose sidecar may still come; when it comes, the file is due at once."""
        now = self._clock.now()
        waited = now - row.queued_at
        # Queued in the future: by a clock that has since been set back, which is no reason to wait.
        if not 0 <= waited < self._rules.sidecar_wait:
            return False
        due_at = now + min(self._rules.sidecar_wait - waited, LONGEST)
        self._ledger.queue.postpone(row.id, due_at, "waits for its sidecar, watch.sidecar_wait at most")
        return True

    def _digest(self, row: FileRow, body: FileBody, file: OpenFile) -> str | None:
        """Give the MD5 of a small file, and of a large one where its equal may be stored already.

        Raises _PutOff where that is not known yet, ReadStopped, FileChanged and FileUnreadable.
        """
        md5 = body.load()
        if md5 is None and not row.send_again and self._ledger.alike.has_size(row.id, row.destfolderid, row.size):
            self._wait_for_its_like(row)
            md5 = digest(file, row.stat, stop=self._context.tick, tap=self._context.progress.hashed)
            # That takes as long as it takes.
            self._wait_for_its_like(row)
        return md5

    def _wait_for_its_like(self, row: FileRow) -> None:
        """Put a large file off, by _PutOff, while an upload is undecided that may have been the same.

        Of one that was cut off before it was read to its end, and whose path holds another file by now, only the
        service can tell what it was.
        """
        now = self._clock.now()
        for other in self._ledger.alike.unread(row):
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
            # It may have been moved here: what cannot be told is waited for as well.
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
            # Perhaps a disk was unmounted, and every file is gone with it: the next scan and the brake decide.
            detail = "it is not there, nor is anything else in its mapped folder: the next scan tells"
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
        """Queue what stands there now, after it has had time to settle."""
        now = self._clock.now()
        position = self._mappings.for_directory(row.path.rpartition(b"/")[0])
        settle = self._rules.settle if position is None else self._rules.settles[position]
        self._ledger.intake.enqueue(
            [NewVersion(row.path, found, row.destfolderid, row.folded_name, row.id)],
            now,
            due_at=now + min(settle, WELL_WITHIN),
        )
        log.debug("changed before it was sent", path=printable(row.path))

    def _hold(self, row: FileRow, reason: str, detail: str, *, due_at: float | None = None) -> None:
        self._ledger.queue.hold(row.id, reason, detail, self._clock.now(), due_at=due_at)
        log.warning("blocked", path=printable(row.path), reason=reason, detail=detail)

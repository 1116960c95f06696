"""Avoid an upload if the service has the content already: from an equal version that lost its path, or as an asset.

This module takes over the version, adopts the asset, or blocks the file for an operator. Finding equal versions and
assets is left to `ledger.equal_content`.
"""

from collections.abc import Callable, Sequence

import structlog

from assetsync.core.names import printable, sent_name
from assetsync.errors import FileUnreadable
from assetsync.ledger.equal_content import Resembling
from assetsync.ledger.rows import FileRow
from assetsync.model import Wanted
from assetsync.sync.context import Context
from assetsync.sync.upload.folder_listing import FolderListing
from assetsync.tree.body import difference

log = structlog.get_logger(__name__)

_MOST_NAMED = 3
"""Maximum number of assets that a message names."""

_DECIDED_SOON = 5.0
"""Seconds until the next try for a file that waits for an upload in doubt."""


def _resembling(first: Resembling, others: Sequence[Resembling]) -> str:
    """Return the message for a file whose size and name an asset in the folder has."""
    what = "of the same name and size" if first.is_exact else "of the same size, whose name may be the file's"
    ids = [one.assetid for one in (first, *others)]
    more = f" and {len(ids) - _MOST_NAMED:,} more" * (len(ids) > _MOST_NAMED)
    named = "" if first.is_exact else f" ({printable(first.name)})"
    detail = (
        f"the folder holds {', '.join(ids[:_MOST_NAMED])}{more}{named} {what}, and the service gives no MD5 to tell"
        " whether it is this file: `assetsync reconcile --adopt` takes such assets over,"
    )
    if not first.is_exact:
        detail += " where one asset fits one file, `assetsync doubt resolve PATH --asset ID` takes over the one named,"
    return f"{detail} `assetsync retry --send-again PATH` uploads"


class Dedupe:
    """The check of every file for equal content before its upload; shared by all workers."""

    def __init__(
        self,
        context: Context,
        folder_listing: FolderListing,
        metadata_digest: Callable[[FileRow], str],
        *,
        resend_changed: bool,
    ) -> None:
        """Create the check; `metadata_digest` returns "" for a file whose metadata cannot be read."""
        self._context = context
        self._ledger = context.ledger
        self._clock = context.clock
        self._folder_listing = folder_listing
        self._metadata_digest = metadata_digest
        self._resend_changed = resend_changed
        self.adopt_resembling = False
        """Whether the operator confirmed that assets of the same name and size are the files (`reconcile --adopt`)."""

    def spares_upload(self, row: FileRow, md5: str | None) -> bool:
        """Return whether the file is not to be sent now: its content was taken over, or it was postponed or blocked.

        Raise RootMissing, and the errors of `FolderListing.ensure`.
        """
        if md5 is not None and self._has_equal_content(row, md5):
            return True
        return not self._resend_changed and self._replaces_an_asset(row)

    def _has_equal_content(self, row: FileRow, md5: str) -> bool:
        """Take over an equal version or asset; block the file if an unreadable path leaves that undecided."""
        now = self._clock.now()
        hints = self._ledger.equal_content.hints(row, md5)
        unreadable: FileUnreadable | None = None
        try:
            if hints.version and self._takes_over_version(row, md5, now):
                return True
        except FileUnreadable as error:
            unreadable = error
        if hints.asset and self._adopts_asset(row, md5, now):
            return True
        if unreadable is not None:
            detail = (
                f"{unreadable}; what was uploaded from there may have been moved here:"
                " `assetsync retry --send-again PATH` uploads it in any case"
            )
            self._hold(row, "unreadable", detail, now)
        return unreadable is not None

    def _takes_over_version(self, row: FileRow, md5: str, now: float) -> bool:
        """Take over an equal version whose path holds another file now, or none.

        Raise FileUnreadable if no version can be taken over, and the path of a version that may have been moved here
        cannot be read.
        """
        unreadable: FileUnreadable | None = None
        for old in self._ledger.equal_content.equals(row, md5):
            # An older version of the same path is always past, even if it is still wanted (unmapped, then touched).
            elsewhere = old.path != row.path and old.wanted in (Wanted.YES, Wanted.UNMAPPED)
            try:
                if elsewhere and self.still_holds(old):
                    continue
            except FileUnreadable as error:
                # Neither take the asset away from an unreadable path, nor send a moved file again. A move keeps the
                # inode, or the mtime if it goes to another disk; a copy has its own inode and mtime.
                unreadable = error if row.inode == old.inode or row.mtime_ns == old.mtime_ns else unreadable
                continue
            state = self._ledger.queue.take_over(row, old, md5, now)
            if state is not None:
                self._context.progress.adopted()
                was = printable(old.path)
                log.info("taken over", path=printable(row.path), was=was, assetid=old.assetid, state=state)
            # `state` is None if a row changed in the meantime: a row that is still queued is prepared again.
            return True
        if unreadable is not None:
            raise unreadable
        return False

    def _adopts_asset(self, row: FileRow, md5: str, now: float) -> bool:
        """Adopt an equal asset that no row owns; return whether the file is not to be sent now."""
        assetid = self._ledger.equal_content.sighted(row, md5)
        if assetid is None:
            return self._waits_for_doubt(row, md5, now) or self._resembles(row, md5, now)
        if self._lists_folder_again(row, assetid, now):
            return True
        if self._ledger.queue.adopt(row, assetid, md5, self._metadata_digest(row), now):
            self._context.progress.adopted()
            log.info("adopted", path=printable(row.path), assetid=assetid, destfolderid=row.destfolderid)
        return True

    def _waits_for_doubt(self, row: FileRow, md5: str, now: float) -> bool:
        """Postpone a file while an undecided upload may have stored the equal asset that no row owns.

        A restored ledger does not know the uploads made after its copy, nor the bytes of the uploads in flight then. Of
        two such assets one may be this file's: once the upload is decided, the other is adopted.
        """
        other = self._ledger.equal_content.may_have_stored_it(row, md5)
        if other is None:
            return False
        detail = f"an equal asset may be what was uploaded as {printable(other.path)}: waits until that is decided"
        self._ledger.queue.postpone(row.id, now + _DECIDED_SOON, detail)
        return True

    def _resembles(self, row: FileRow, md5: str, now: float) -> bool:
        """Block a file, for an operator, if an asset without MD5 has its size and name; adopt it if that was confirmed.

        A name with `?` in place of characters that the service cannot show counts as the file's name, too.
        """
        equal_content = self._ledger.equal_content
        found = equal_content.resembling(row, sent_name(row.path.rpartition(b"/")[2]))
        if not found:
            return False
        first, *others = found
        other = None if first.is_exact else equal_content.open_upload_shown_as(row, first.name)
        if other is not None:
            detail = f"{first.assetid} may be what is uploaded as {printable(other.path)}: waits until that is decided"
            self._ledger.queue.postpone(row.id, now + _DECIDED_SOON, detail)
            return True
        if self._lists_folder_again(row, first.assetid, now):
            return True
        may_adopt = self.adopt_resembling and (
            first.is_exact or (not others and equal_content.is_only_match(row, first.name))
        )
        if may_adopt and self._ledger.queue.adopt(row, first.assetid, md5, self._metadata_digest(row), now):
            self._context.progress.adopted()
            log.info("adopted by name and size", path=printable(row.path), assetid=first.assetid)
            return True
        self._hold(row, "resembles", _resembling(first, others), now)
        return True

    def _lists_folder_again(self, row: FileRow, assetid: str, now: float) -> bool:
        """List the folder again if its newest audit did not show an asset seen before, and postpone the file.

        Somebody may have deleted the asset: if it were adopted, it would never be found. The file is prepared again
        after the listing.
        """
        if not self._ledger.equal_content.is_missed(assetid) or not self._folder_listing.list_after_audit(
            row.destfolderid
        ):
            return False
        detail = f"its folder was listed again: the last audit did not show {assetid}, which seemed to be this file"
        self._ledger.queue.postpone(row.id, now, detail)
        return True

    def _replaces_an_asset(self, row: FileRow) -> bool:
        """Block a changed file, because the policy is to report changes and not to send them."""
        older = [old for old in self._ledger.reports.of_path(row.path) if old.id != row.id and old.assetid is not None]
        if older:
            detail = (
                f"it changed since it was uploaded as {older[0].assetid}, and policy.on_change is report:"
                " `assetsync retry --send-again PATH` uploads it as a new asset"
            )
            self._hold(row, "changed", detail, self._clock.now())
        return bool(older)

    def still_holds(self, old: FileRow) -> bool:
        """Return whether the path of the older version still holds it, so that the new file is a copy or a hard link.

        Raise FileUnreadable and RootMissing if the path cannot be read.
        """
        found = self._context.tree.lstat(old.path)
        return found is not None and not difference(old.stat, found)

    def _hold(self, row: FileRow, reason: str, detail: str, now: float) -> None:
        self._ledger.queue.hold(row.id, reason, detail, now)
        log.warning("blocked", path=printable(row.path), reason=reason, detail=detail)

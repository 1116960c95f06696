"""What stands for a file already, so that it need not be sent: an equal version that lost its path, or an equal asset.

What there may be is found by `ledger.equal_content`; here it is taken over, adopted, or put before a person.
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
"""How many assets a sentence names."""

_DECIDED_SOON = 5.0
"""Seconds after which a file that waits for an upload in doubt is looked at again."""


def _resembling(first: Resembling, others: Sequence[Resembling]) -> str:
    """Return the sentence about a file of which an asset of its size and name lies in the folder."""
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
    """Asked of each file before it is sent; shared by all workers."""

    def __init__(
        self, context: Context, contact: FolderListing, said: Callable[[FileRow], str], *, resend_changed: bool
    ) -> None:
        """Say whether what was changed is sent again; `said` gives the digest of what is said of a file, or ""."""
        self._context = context
        self._ledger = context.ledger
        self._clock = context.clock
        self._contact = contact
        self._said = said
        self._resend_changed = resend_changed
        self.adopt_alike = False
        """Whether a person has said that assets of the same name and size are the files (`reconcile --adopt`)."""

    def stands_for(self, row: FileRow, md5: str | None) -> bool:
        """Deal with a file that need not be sent, and give whether it is one.

        Raises as `FolderListing.ensure` does, and RootMissing.
        """
        if md5 is not None and self._stands_already(row, md5):
            return True
        return not self._resend_changed and self._replaces_an_asset(row)

    def _stands_already(self, row: FileRow, md5: str) -> bool:
        """Take over an equal version or asset, or block the file where it cannot be told whether it is one."""
        now = self._clock.now()
        hints = self._ledger.alike.hints(row, md5)
        untold: FileUnreadable | None = None
        try:
            if hints.version and self._version_stands(row, md5, now):
                return True
        except FileUnreadable as error:
            untold = error
        if hints.asset and self._asset_stands(row, md5, now):
            return True
        if untold is not None:
            detail = (
                f"{untold}; what was uploaded from there may have been moved here:"
                " `assetsync retry --send-again PATH` uploads it in any case"
            )
            self._hold(row, "unreadable", detail, now)
        return untold is not None

    def _version_stands(self, row: FileRow, md5: str, now: float) -> bool:
        """Take over an equal version whose path is no longer its own.

        Raises FileUnreadable, once no other stands, where it cannot be told of one that may have been moved here.
        """
        untold: FileUnreadable | None = None
        for old in self._ledger.alike.equals(row, md5):
            # Of its own path an older version is the past, whatever it says of itself (unmapped, then touched).
            elsewhere = old.path != row.path and old.wanted in (Wanted.YES, Wanted.UNMAPPED)
            try:
                if elsewhere and self.still_holds(old):
                    continue
            except FileUnreadable as error:
                # No reason to take an asset away from a path, and none to send again what was moved. A move keeps the
                # inode, or to another disk the time; a copy has both of its own.
                untold = error if row.inode == old.inode or row.mtime_ns == old.mtime_ns else untold
                continue
            state = self._ledger.queue.take_over(row, old, md5, now)
            if state is not None:
                self._context.progress.adopted()
                was = printable(old.path)
                log.info("taken over", path=printable(row.path), was=was, assetid=old.assetid, state=state)
            # None: something changed while it was looked at, and what is still queued is looked at again.
            return True
        if untold is not None:
            raise untold
        return False

    def _asset_stands(self, row: FileRow, md5: str, now: float) -> bool:
        """Take over an equal asset that nobody owns."""
        assetid = self._ledger.alike.sighted(row, md5)
        if assetid is None:
            return self._waits_for_another(row, md5, now) or self._resembles(row, md5, now)
        if self._is_looked_for(row, assetid, now):
            return True
        if self._ledger.queue.adopt(row, assetid, md5, self._said(row), now):
            self._context.progress.adopted()
            log.info("adopted", path=printable(row.path), assetid=assetid, destfolderid=row.destfolderid)
        return True

    def _waits_for_another(self, row: FileRow, md5: str, now: float) -> bool:
        """Put a file off whose equal lies there and is nobody's, while an upload may have stored that.

        A ledger that was put back knows nothing of what was sent since, and of what was on its way then not the bytes.
        """
        other = self._ledger.alike.may_have_stored_it(row, md5)
        if other is None:
            return False
        detail = f"an equal asset may be what was uploaded as {printable(other.path)}: waits until that is decided"
        self._ledger.queue.postpone(row.id, now + _DECIDED_SOON, detail)
        return True

    def _resembles(self, row: FileRow, md5: str, now: float) -> bool:
        """Ask a person about an asset of the size and name of this file, where the service has no MD5.

        A name that came back as `?` for what the service cannot show counts as the file's name, too.
        """
        alike = self._ledger.alike
        found = alike.resembling(row, sent_name(row.path.rpartition(b"/")[2]))
        if not found:
            return False
        first, *others = found
        other = None if first.is_exact else alike.is_sent_as(row, first.name)
        if other is not None:
            detail = f"{first.assetid} may be what is uploaded as {printable(other.path)}: waits until that is decided"
            self._ledger.queue.postpone(row.id, now + _DECIDED_SOON, detail)
            return True
        if self._is_looked_for(row, first.assetid, now):
            return True
        may_adopt = self.adopt_alike and (first.is_exact or (not others and alike.is_only_match(row, first.name)))
        if may_adopt and self._ledger.queue.adopt(row, first.assetid, md5, self._said(row), now):
            self._context.progress.adopted()
            log.info("adopted by name and size", path=printable(row.path), assetid=first.assetid)
            return True
        self._hold(row, "resembles", _resembling(first, others), now)
        return True

    def _is_looked_for(self, row: FileRow, assetid: str, now: float) -> bool:
        """Have the folder listed once more where its newest audit did not show an asset that was seen there before.

        Somebody may have deleted it: taken over, it would never be found. The file is looked at again after that.
        """
        if not self._ledger.alike.is_missed(assetid) or not self._contact.list_after_audit(row.destfolderid):
            return False
        detail = f"its folder was listed again: the last audit did not show {assetid}, which seemed to be this file"
        self._ledger.queue.postpone(row.id, now, detail)
        return True

    def _replaces_an_asset(self, row: FileRow) -> bool:
        """Block a changed file where the policy wants changes reported and not sent."""
        older = [old for old in self._ledger.reports.of_path(row.path) if old.id != row.id and old.assetid is not None]
        if older:
            detail = (
                f"it changed since it was uploaded as {older[0].assetid}, and policy.on_change is report:"
                " `assetsync retry --send-again PATH` uploads it as a new asset"
            )
            self._hold(row, "changed", detail, self._clock.now())
        return bool(older)

    def still_holds(self, old: FileRow) -> bool:
        """Whether the older version's path still holds it: then it is a copy or a hard link, a file of its own.

        Raises FileUnreadable and RootMissing where that cannot be told.
        """
        found = self._context.tree.lstat(old.path)
        return found is not None and not difference(old.stat, found)

    def _hold(self, row: FileRow, reason: str, detail: str, now: float) -> None:
        self._ledger.queue.hold(row.id, reason, detail, now)
        log.warning("blocked", path=printable(row.path), reason=reason, detail=detail)

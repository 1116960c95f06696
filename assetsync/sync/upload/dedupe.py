"""Find content equal to a file: a version that lost its path, or an asset. Nothing is written.

What follows from the result is left to `sync.upload.decide`, the queries to `ledger.equal_content`.
"""

from contextlib import closing

from assetsync.core.names import is_shown_as
from assetsync.errors import FileChanged, FileUnreadable, NotRegular
from assetsync.ledger.equal_content import COMPARED_AT_MOST, Sighted
from assetsync.ledger.file.facts import ADOPTS_TO
from assetsync.ledger.rows import FileRow
from assetsync.model import Wanted
from assetsync.sync.context import Context
from assetsync.sync.upload.facts import (
    Adopt,
    Equal,
    ListedAgain,
    MayBeAnothers,
    MayBeUploadOf,
    NothingEqual,
    Resembles,
    TakeOver,
    Unconfirmed,
    Unreadable,
)
from assetsync.sync.upload.folder_listing import FolderListing
from assetsync.tree.body import difference, digest


class Dedupe:
    """The search for equal content before an upload; shared by all workers."""

    def __init__(self, context: Context, folder_listing: FolderListing) -> None:
        self._context = context
        self._tree = context.tree
        self._equal_content = context.ledger.equal_content
        self._folder_listing = folder_listing

    def find(self, row: FileRow, md5: str) -> Equal:
        """Return the equal content that the file may use. Raise RootMissing, and the errors of `FolderListing.ensure`.

        For a file that a person asked to send again, that is an asset of which the person may not have known.
        A version goes before an asset. If the path of a version that may have been moved here cannot be read, and no
        asset is equal, the result is that error.
        """
        if row.send_again:
            unconfirmed = self._equal_content.unconfirmed(row, md5, self._context.names_of_path(row.path))
            return NothingEqual() if unconfirmed is None else Unconfirmed(unconfirmed)
        may_be_version, may_be_asset = self._equal_content.hints(row, md5)
        unreadable: FileUnreadable | None = None
        if may_be_version:
            for old in self._equal_content.equals(row, md5):
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
                return TakeOver(old, md5)
        found = self._asset(row, md5) if may_be_asset else NothingEqual()
        return Unreadable(str(unreadable)) if unreadable is not None and isinstance(found, NothingEqual) else found

    def still_holds(self, old: FileRow) -> bool:
        """Return whether the path of the older version still holds it, so that the new file is a copy or a hard link.

        Raise FileUnreadable and RootMissing if the path cannot be read.
        """
        found = self._tree.lstat(old.path)
        return found is not None and not difference(old.stat, found)

    def _asset(self, row: FileRow, md5: str) -> Equal:
        asset = next(iter(self._equal_content.sighted(row, md5)), None)
        if asset is not None and not self._has_name_of(row, asset):
            if self._context.ledger.runs.last_scan() is None:
                return MayBeAnothers(asset.assetid)
            asset = self._not_anothers(row, md5)
        if asset is not None:
            assetid = asset.assetid
            return ListedAgain(assetid) if self._list_again_if_missed(row, assetid) else Adopt(assetid, md5)
        # A restored ledger does not know the uploads made after its copy, nor the bytes of the uploads in flight then.
        # Of two such assets one may be this file's: once the upload is decided, the other is adopted.
        other = self._equal_content.may_have_stored_it(row, md5)
        return self._resembling(row, md5) if other is None else MayBeUploadOf(other)

    def _not_anothers(self, row: FileRow, md5: str) -> Sighted | None:
        """Return the most likely equal asset that is not left to another file.

        An asset is left to a file without an asset that has the same content and the asset's name, because it was sent
        with that file's metadata. Each file is left one asset, so that this file is sent only if there are fewer assets
        than files. If a file cannot be read, or if there are too many to compare, no asset is left to it: then a file
        may get an asset of another name, but none is sent twice.
        """
        assets = self._equal_content.sighted(row, md5, COMPARED_AT_MOST)
        others = self._equal_content.without_asset(row, md5)
        for asset in assets:
            has_name_of = self._has_name_of
            other = None if has_name_of(row, asset) else next((o for o in others if has_name_of(o, asset)), None)
            if other is None or not self._holds(other, md5):
                return asset
            others.remove(other)
        return assets[0] if len(assets) == COMPARED_AT_MOST else None

    def _holds(self, other: FileRow, md5: str) -> bool:
        if other.md5 is not None:
            return other.md5 == md5
        try:
            with closing(self._tree.open(other.path)) as file:
                stop, tap = self._context.heartbeat.tick, self._context.progress.hashed
                return digest(file, other.stat, stop=stop, tap=tap) == md5
        except (FileChanged, FileUnreadable, NotRegular):
            return False

    def _resembling(self, row: FileRow, md5: str) -> Equal:
        """Return an asset without MD5 that has the file's size and name.

        A name with `?` in place of characters that the service cannot show counts as the file's name, too.
        """
        found = self._equal_content.resembling(row, self._context.names_of_path(row.path))
        if not found:
            return NothingEqual()
        first, *others = found
        other = None if first.is_exact else self._equal_content.open_upload_shown_as(row, first.name)
        if other is None and self._list_again_if_missed(row, first.assetid):
            return ListedAgain(first.assetid)
        # An operator confirmed that an asset of the file's name and size is the file (`decisions.Adopt`).
        is_confirmed = other is None and row.id <= int(self._context.ledger.reports.fact(ADOPTS_TO) or 0)
        is_only_match, names_of = self._equal_content.is_only_match, self._context.names_of_path
        if is_confirmed and (first.is_exact or (not others and is_only_match(row, first.name, names_of))):
            return Adopt(first.assetid, md5, by_name=True)
        return Resembles(found, other)

    def _list_again_if_missed(self, row: FileRow, assetid: str) -> bool:
        """List the folder again if its newest audit did not show an asset seen before; return whether that was done.

        Somebody may have deleted the asset: if it were adopted, it would never be found.
        """
        return self._equal_content.is_missed(assetid) and self._folder_listing.list_after_audit(row.destfolderid)

    def _has_name_of(self, row: FileRow, asset: Sighted) -> bool:
        return any(is_shown_as(name, asset.name) for name in self._context.names_of_path(row.path))

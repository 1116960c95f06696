"""First contact: what lies in a folder of the service before anything of ours is posted into it.

The listing is remembered in the ledger; `flow.prepare` compares each file with it before it is sent. So a folder that
was filled by hand, or by a ledger that was lost, is taken over and not doubled. An asset that the service is still
working on cannot be compared yet: files of its name wait until it can.
"""

import threading
from dataclasses import dataclass, field

from assetsync.core.naming import may_be
from assetsync.flow.edges import Edges
from assetsync.model import Asset, SearchRequest
from assetsync.service.paging import every

_BATCH = 1000
_LIST_AGAIN = 60.0
_MOST_KEPT = 100_000


@dataclass(slots=True)
class _Listed:
    """What a listing showed that may become any file's asset: names without case of what is not processed, and ids."""

    at: float
    unprocessed: dict[str, str] = field(default_factory=dict)

    def like(self, name: str) -> str | None:
        """Give the id of an asset that may stand for the name that would be sent."""
        if len(self.unprocessed) >= _MOST_KEPT:
            return next(iter(self.unprocessed.values()))
        found = self.unprocessed.get(name.casefold())
        if found is not None or name.isascii():
            return found
        # What is not ASCII comes back as something else (observed).
        return next((assetid for shown, assetid in self.unprocessed.items() if may_be(name, shown)), None)


class Contact:
    """Lists each folder once, whichever worker comes first."""

    def __init__(self, edges: Edges) -> None:
        self._ledger = edges.ledger
        self._service = edges.service
        self._clock = edges.clock
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._listed: dict[str, _Listed] = {}

    def ensure(self, destfolderid: str) -> None:
        """Return when the folder has been listed; raises ServiceError when it could not be."""
        if destfolderid in self._known:
            return
        contacts = self._ledger.contacts
        with self._lock:
            if destfolderid not in self._known and (
                contacts.needed(destfolderid) or contacts.left_unprocessed(destfolderid)
            ):
                self.list_folder(destfolderid)
            self._known.add(destfolderid)

    def unprocessed(self, destfolderid: str, name: str) -> str | None:
        """Give the id of an asset that the service still works on and that may be the file to be sent as `name`.

        What was seen is looked at again after a minute. Raises ServiceError.
        """
        listed = self._listed.get(destfolderid)
        if listed is None or listed.like(name) is None:
            return None
        with self._lock:
            if self._clock.steady() - self._listed[destfolderid].at >= _LIST_AGAIN:
                self.list_folder(destfolderid)
            return self._listed[destfolderid].like(name)

    def list_folder(self, destfolderid: str) -> int:
        """List the folder and remember every asset that no row owns; gives how many the folder holds."""
        count = 0
        batch: list[Asset] = []
        listed = _Listed(self._clock.steady())
        # What is not processed yet is shown by some releases only when it is asked for (interface section 4.1).
        for available in (None, "0"):
            request = SearchRequest(searchfor="%", folderid=destfolderid, dbdirect=True, available=available)
            for asset in every(self._service.search, request):
                count += available is None
                if asset.folder_id == destfolderid:
                    batch.append(asset)
                if len(batch) >= _BATCH:
                    self._remember(batch, listed)
                    batch = []
        self._remember(batch, listed)
        self._listed[destfolderid] = listed
        self._ledger.contacts.made(destfolderid)
        return count

    def _remember(self, batch: list[Asset], listed: _Listed) -> None:
        doubts = self._ledger.doubts
        owned = doubts.owned([asset.id for asset in batch])
        strangers = [asset for asset in batch if asset.id not in owned]
        doubts.sight(strangers, doubts.newest_attempt(), self._clock.now())
        for asset in strangers:
            if not asset.processed and len(listed.unprocessed) < _MOST_KEPT:
                listed.unprocessed[asset.filename.casefold()] = asset.id

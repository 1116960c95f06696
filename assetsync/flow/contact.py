"""First contact: what lies in a folder of the service before anything of ours is posted into it.

The listing is remembered in the ledger; `flow.prepare` compares each file with it before it is sent. So a folder that
was filled by hand, or by a ledger that was lost, is taken over and not doubled.
"""

import threading

from assetsync.flow.edges import Edges
from assetsync.model import Asset, SearchRequest
from assetsync.service.paging import every

_BATCH = 1000


class Contact:
    """Lists each folder once, whichever worker comes first."""

    def __init__(self, edges: Edges) -> None:
        self._ledger = edges.ledger
        self._service = edges.service
        self._clock = edges.clock
        self._lock = threading.Lock()
        self._known: set[str] = set()

    def ensure(self, destfolderid: str) -> None:
        """Return when the folder has been listed; raises ServiceError when it could not be."""
        if destfolderid in self._known:
            return
        with self._lock:
            if destfolderid not in self._known and self._ledger.queue.needs_contact(destfolderid):
                self.list_folder(destfolderid)
            self._known.add(destfolderid)

    def list_folder(self, destfolderid: str) -> int:
        """List the folder and remember every asset that no row owns; gives how many the folder holds."""
        count = 0
        batch: list[Asset] = []
        # What is not processed yet is shown by some releases only when it is asked for (interface section 4.1).
        for available in (None, "0"):
            request = SearchRequest(searchfor="%", folderid=destfolderid, dbdirect=True, available=available)
            for asset in every(self._service.search, request):
                count += available is None
                if asset.folder_id == destfolderid:
                    batch.append(asset)
                if len(batch) >= _BATCH:
                    self._remember(batch)
                    batch = []
        self._remember(batch)
        self._ledger.queue.contacted(destfolderid)
        return count

    def _remember(self, batch: list[Asset]) -> None:
        doubts = self._ledger.doubts
        owned = doubts.owned([asset.id for asset in batch])
        strangers = [asset for asset in batch if asset.id not in owned]
        doubts.sight(strangers, doubts.newest_attempt(), self._clock.now())

"""Asks the service for next to nothing, to see whether it answers."""

from assetsync.model import SearchRequest, Service

# A name that no asset has: the database is asked, and the answer is short.
_NOBODY = "assetsync-probe"


def probe(service: Service, destfolderid: str) -> None:
    """Search a folder for a name that no asset has (interface section 4.1); raises ServiceError where that fails."""
    with service.search(SearchRequest(searchfor=_NOBODY, folderid=destfolderid, dbdirect=True)) as assets:
        for _asset in assets:
            pass

"""Asks the service for next to nothing, to see whether it answers, and whether what failed is one folder's trouble."""

from collections.abc import Container, Sequence

import structlog

from assetsync.errors import BadAnswer, KeyRefused, ServiceElsewhere, ServiceError, ServiceUnreachable
from assetsync.model import SearchRequest, Service

log = structlog.get_logger(__name__)

# A name that no asset has: the database is asked, and the answer is short.
_NOBODY = "assetsync-probe"


def probe(service: Service, destfolderid: str) -> None:
    """Search a folder for a name that no asset has (interface section 4.1); raises ServiceError where that fails."""
    with service.search(SearchRequest(searchfor=_NOBODY, folderid=destfolderid, dbdirect=True)) as assets:
        for _asset in assets:
            pass


class HealthCheck:
    """Probes of one site. The folder that was answered for is asked again, after one that was not comes another."""

    def __init__(self, service: Service, folders: Sequence[str]) -> None:
        """Begin with the first of the mapped folders."""
        self._service = service
        self._folders = list(folders)

    def ask(self, apart_from: Container[str] = ()) -> None:
        """Ask for a folder, where there is another than those `apart_from` for that one; raises ServiceError."""
        folder = next((folder for folder in self._folders if folder not in apart_from), self._folders[0])
        try:
            probe(self._service, folder)
        except ServiceError:
            # A folder that is never answered for must not keep the service from being found to answer.
            self._folders = [*(other for other in self._folders if other != folder), folder]
            raise

    def is_answered(self, failing: Container[str]) -> bool:
        """Whether the service answers at all, so that what failed is the trouble of the `failing` folders."""
        try:
            self.ask(failing)
        except ServiceError as error:
            log.debug("no answer to a probe", detail=str(error))
            return False
        return True


def describe(error: ServiceError) -> tuple[str, float | None]:
    """Give the stable word for a failure, and the seconds that the service asked to be left alone, if it did."""
    if isinstance(error, KeyRefused):
        return "key_refused", None
    if isinstance(error, ServiceElsewhere):
        return "elsewhere", None
    if isinstance(error, ServiceUnreachable):
        return "unreachable", error.retry_after
    if isinstance(error, BadAnswer):
        return "bad_answer", error.retry_after
    return "refused", None

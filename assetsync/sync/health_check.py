"""Send the service a minimal search, to see whether it answers and whether a failure concerns a folder alone.

What follows is left to the callers: pausing uploads to `sync.upload.circuit_breaker`, waits to `sync.folder_backoff`.
"""

from collections.abc import Container, Sequence

import structlog

from assetsync.errors import BadAnswer, KeyRefused, ServiceElsewhere, ServiceError, ServiceUnreachable
from assetsync.model import SearchRequest, Service

log = structlog.get_logger(__name__)

# No asset has this name: the database is searched, and the answer is short.
_NOBODY = "assetsync-probe"


def probe(service: Service, destfolderid: str) -> None:
    """Search a folder for a name that no asset has (interface section 4.1). Raise ServiceError if that fails."""
    with service.search(SearchRequest(searchfor=_NOBODY, folderid=destfolderid, dbdirect=True)) as assets:
        for _asset in assets:
            pass


class HealthCheck:
    """The health checks of one site. A folder that was answered is searched again; after a failure comes another."""

    def __init__(self, service: Service, folders: Sequence[str]) -> None:
        """Begin with the first of the mapped folders."""
        self._service = service
        self._folders = list(folders)

    def ask(self, apart_from: Container[str] = ()) -> None:
        """Search one folder, if possible none of those in `apart_from`. Raise ServiceError."""
        folder = next((folder for folder in self._folders if folder not in apart_from), self._folders[0])
        try:
            probe(self._service, folder)
        except ServiceError:
            # A folder that is never answered must not hide that the service answers.
            self._folders = [*(other for other in self._folders if other != folder), folder]
            raise

    def is_answered(self, failing: Container[str]) -> bool:
        """Return whether the service answers at all, so that only the `failing` folders have trouble."""
        try:
            self.ask(failing)
        except ServiceError as error:
            log.debug("no answer to a probe", detail=str(error))
            return False
        return True


def describe(error: ServiceError) -> tuple[str, float | None]:
    """Return the stable code of a failure, and the seconds that the service asked the client to wait, if it did."""
    if isinstance(error, KeyRefused):
        return "key_refused", None
    if isinstance(error, ServiceElsewhere):
        return "elsewhere", None
    if isinstance(error, ServiceUnreachable):
        return "unreachable", error.retry_after
    if isinstance(error, BadAnswer):
        return "bad_answer", error.retry_after
    return "refused", None

"""Post notices to the administrator's address `notify.webhook`.

TLS is verified, redirects are not followed, and only the status of the answer counts. The address itself may be a
secret, so errors name only its host and port. A receiver whose answer's head never ends is abandoned, because later
notices wait for this one. `notify` decides what is posted and when.
"""

import ssl

import httpx
from pydantic import SecretStr

from assetsync import __version__
from assetsync.errors import BadAnswer
from assetsync.service.errors import TRANSPORT_ERRORS, unreachable
from assetsync.service.settings import ServiceSettings, checked_url, unusable_ca_file
from assetsync.service.transport import Transport

_PATIENCE = 30.0
_HEADERS = {
    "Content-Type": "application/json; charset=utf-8",
    "User-Agent": f"assetsync/{__version__}",
    "Connection": "close",
}


class Webhook:
    """A sender of JSON to one address; each notice has its own connection, because notices are hours apart."""

    def __init__(
        self, url: str, *, ca_file: str | None = None, proxy: str | None = None, patience: float = _PATIENCE
    ) -> None:
        """Prepare the sender without opening a connection; raises ConfigError.

        `ca_file` is trusted in addition to the system's authorities. `patience` limits in seconds each silence of the
        receiver, and the total time for the head of its answer.
        """
        self._url = httpx.URL(checked_url("notify.webhook", url))
        self._context = ssl.create_default_context()
        if ca_file is not None:
            try:
                self._context.load_verify_locations(cafile=ca_file)
            except (OSError, ValueError) as exc:
                raise unusable_ca_file(ca_file, exc) from exc
        if proxy is not None:
            checked_url("service.proxy", proxy)
        self._settings = ServiceSettings(url, url, SecretStr(""), proxy=proxy, read_timeout=patience)

    def post(self, body: bytes) -> int:
        """Post one JSON object and return the status of the answer.

        Raise ServiceUnreachable, and BadAnswer for any status but 2xx.
        """
        transport = Transport(self._settings, self._context)
        try:
            with (
                httpx.Client(transport=transport, trust_env=False) as client,
                client.stream("POST", self._url, content=body, headers=_HEADERS) as response,
            ):
                status = response.status_code
        except TRANSPORT_ERRORS as exc:
            raise unreachable(exc, self._url) from exc
        if not response.is_success:
            raise BadAnswer(f"the answer was HTTP status {status}", hint="see the receiver's log", status=status)
        return status

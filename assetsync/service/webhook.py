"""Post notices to the administrator's address `notify.webhook`.

TLS is verified, redirects are not followed, and only the status of the answer counts. The address itself may be a
secret, so errors name only its host and port. A receiver whose answer's head never ends is abandoned, because later
notices wait for this one. `notify` decides what is posted and when.
"""

import httpx
from pydantic import SecretStr

from assetsync.errors import BadAnswer
from assetsync.service.errors import TRANSPORT_ERRORS, unreachable
from assetsync.service.transport import HEADERS, ServiceSettings, Transport, address, tls_context

_PATIENCE = 30.0
_HEADERS = HEADERS | {"Content-Type": "application/json; charset=utf-8", "Connection": "close"}


class Webhook:
    """A sender of JSON to one address; each notice has its own connection, because notices are hours apart."""

    def __init__(
        self, url: str, *, ca_file: str | None = None, proxy: str | None = None, patience: float = _PATIENCE
    ) -> None:
        """Prepare the sender without opening a connection; raises ConfigError.

        `ca_file` is trusted in addition to the system's authorities. `patience` limits in seconds each silence of the
        receiver, and the total time for the head of its answer.
        """
        self._url = address("notify.webhook", url)
        self._settings = ServiceSettings(url, url, SecretStr(""), proxy=proxy, read_timeout=patience)
        self._tls = tls_context(ca_file, and_system=True)
        # Raises ConfigError for a proxy that cannot be used.
        Transport(self._settings, self._tls)

    def post(self, body: bytes) -> int:
        """Post one JSON object and return the status of the answer.

        Raise ServiceUnreachable, and BadAnswer for any status but 2xx.
        """
        transport, timeout = Transport(self._settings, self._tls), self._settings.read_timeout
        try:
            with (
                httpx.Client(transport=transport, trust_env=False, timeout=timeout) as client,
                client.stream("POST", self._url, content=body, headers=_HEADERS) as response,
            ):
                status = response.status_code
        except TRANSPORT_ERRORS as exc:
            raise unreachable(exc, self._url) from exc
        if not response.is_success:
            raise BadAnswer(f"the answer was HTTP status {status}", hint="see the receiver's log", status=status)
        return status

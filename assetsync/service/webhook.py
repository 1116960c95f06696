"""Send notices and heartbeats to the administrator's addresses `notify.webhook` and `notify.heartbeat`.

TLS is verified, no redirect is followed, and only the status of the answer counts. The addresses may be secrets, so
errors name only host and port. A receiver whose answer's head never ends is abandoned. `notify` decides what is sent.
"""

import httpx
from pydantic import SecretStr

from assetsync.errors import BadAnswer
from assetsync.service.errors import TRANSPORT_ERRORS, unreachable
from assetsync.service.transport import HEADERS, ServiceSettings, Transport, address, tls_context

_PATIENCE = 30.0
_HEADERS = HEADERS | {"Connection": "close"}


class Webhook:
    """A sender to one address; each request has its own connection, because requests are minutes apart."""

    def __init__(
        self, url: str, key: str = "notify.webhook", *, ca_file: str | None = None, proxy: str | None = None,
        patience: float = _PATIENCE,
    ) -> None:  # fmt: skip
        """Prepare the sender without opening a connection; `key` names the address in errors. Raise ConfigError.

        `ca_file` is trusted in addition to the system's authorities. `patience` limits in seconds each silence of the
        receiver, and the total time for the head of its answer.
        """
        self._url = address(key, url)
        self._settings = ServiceSettings(url, url, SecretStr(""), proxy=proxy, read_timeout=patience)
        self._tls = tls_context(ca_file, and_system=True)
        Transport(self._settings, self._tls)  # raises ConfigError for a proxy that cannot be used

    def send(self, body: bytes = b"", *, kind: str = "application/json", url: str | None = None) -> int:
        """Post a body, or get without one, and return the status of the answer. `url` replaces the address.

        Raise ServiceUnreachable, and BadAnswer for any status but 2xx.
        """
        transport, timeout = Transport(self._settings, self._tls), self._settings.read_timeout
        method, headers = ("POST", {"Content-Type": f"{kind}; charset=utf-8"}) if body else ("GET", {})
        try:
            with (
                httpx.Client(transport=transport, trust_env=False, timeout=timeout) as client,
                client.stream(method, url or self._url, content=body, headers=_HEADERS | headers) as response,
            ):
                if response.is_success:
                    return response.status_code
        except TRANSPORT_ERRORS as exc:
            raise unreachable(exc, self._url) from exc
        status = response.status_code
        raise BadAnswer(f"the answer was HTTP status {status}", hint="see the receiver's log", status=status)

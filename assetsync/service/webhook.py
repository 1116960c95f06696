"""Posts messages to the administrator's address `notify.webhook`.

TLS is verified, redirects are not followed, and only the status of the answer counts. The address itself may be a
secret, so errors name only its host and port. A receiver whose answer's head never ends is abandoned, because later
messages wait for this message. `notify` decides what is posted and when.
"""

import ssl
from contextlib import suppress

import httpx
from pydantic import SecretStr

from assetsync import __version__
from assetsync.errors import BadAnswer
from assetsync.service.errors import TRANSPORT_ERRORS, unreachable
from assetsync.service.settings import ServiceSettings, checked_url, unusable_ca_file
from assetsync.service.transport import Transport

_PATIENCE = 30.0
_OK = range(200, 300)


class Webhook:
    """A sender of JSON to one address; each message has its own connection, because messages are hours apart."""

    def __init__(
        self, url: str, *, ca_file: str | None = None, proxy: str | None = None, patience: float = _PATIENCE
    ) -> None:
        """Prepare the sender without opening a connection; raises ConfigError.

        `ca_file` is trusted in addition to the system's authorities. `patience` limits in seconds each silence of the
        receiver, and the total time for the head of its answer.
        """
        self._url = httpx.URL(checked_url("notify.webhook", url))
        context = ssl.create_default_context()
        if ca_file is not None:
            try:
                context.load_verify_locations(cafile=ca_file)
            except (OSError, ValueError) as exc:
                raise unusable_ca_file(ca_file, exc) from exc
        self._context = context
        if proxy is not None:
            checked_url("service.proxy", proxy)
        self._settings = ServiceSettings(url, url, SecretStr(""), proxy=proxy, read_timeout=patience)

    def post(self, body: bytes) -> int:
        """Post one JSON message and return the status of the answer.

        Raises ServiceUnreachable, and BadAnswer for any status but 2xx.
        """
        headers = {
            "Host": self._url.netloc.decode("ascii"),
            "Content-Type": "application/json; charset=utf-8",
            "Content-Length": str(len(body)),
            "User-Agent": f"assetsync/{__version__}",
            "Connection": "close",
        }
        if self._url.userinfo:
            headers["Authorization"] = _basic(self._url)
        try:
            with Transport(self._settings, self._context) as transport:
                request = httpx.Request(
                    "POST",
                    self._url,
                    headers=headers,
                    stream=httpx.ByteStream(body),
                    extensions=transport.extensions,
                )
                response = transport.handle_request(request)
                with suppress(*TRANSPORT_ERRORS):
                    response.close()
        except TRANSPORT_ERRORS as exc:
            raise unreachable(exc, self._url) from exc
        status = response.status_code
        if status not in _OK:
            raise BadAnswer(f"the answer was HTTP status {status}", hint="see the receiver's log", status=status)
        return status


def _basic(url: httpx.URL) -> str:
    request = httpx.Request("POST", url)
    return next(httpx.BasicAuth(url.username, url.password).auth_flow(request)).headers["Authorization"]

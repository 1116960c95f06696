"""A message posted to an address of the administrator's: `notify.webhook`.

TLS is verified, redirects are not followed, and of the answer only the status counts. The address itself may be the
secret, so no error names more of it than host and port.
"""

import ssl
from contextlib import suppress

import httpx

from assetsync import __version__
from assetsync.errors import BadAnswer, ConfigError
from assetsync.service.failures import TRANSPORT_ERRORS, unreachable
from assetsync.service.settings import checked_url

_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_OK = range(200, 300)


class Webhook:
    """Posts JSON to one address; a connection a message, as hours lie between them."""

    def __init__(self, url: str, *, ca_file: str | None = None, proxy: str | None = None) -> None:
        """Open no connection. `ca_file` is trusted beside the system's authorities. Raises ConfigError."""
        self._url = httpx.URL(checked_url("notify.webhook", url))
        context = ssl.create_default_context()
        if ca_file is not None:
            try:
                context.load_verify_locations(cafile=ca_file)
            except (OSError, ValueError) as exc:
                problem = (
                    f"service.ca_file: {ca_file} cannot be used as a file of certificates ({exc}): name a PEM file"
                )
                raise ConfigError("service.ca_file", [problem]) from exc
        self._context = context
        self._proxy = None if proxy is None else httpx.URL(checked_url("service.proxy", proxy))

    def post(self, body: bytes) -> int:
        """Post one message of JSON; gives the status of an answer that takes it.

        Raises ServiceUnreachable, and BadAnswer for any status but 2xx.
        """
        proxy = None
        if self._proxy is not None:
            proxy = httpx.Proxy(self._proxy, ssl_context=self._context if self._proxy.scheme == "https" else None)
        headers = {
            "Host": self._url.netloc.decode("ascii"),
            "Content-Type": "application/json; charset=utf-8",
            "Content-Length": str(len(body)),
            "User-Agent": f"assetsync/{__version__}",
            "Connection": "close",
        }
        if self._url.userinfo:
            headers["Authorization"] = _basic(self._url)
        request = httpx.Request(
            "POST",
            self._url,
            headers=headers,
            stream=httpx.ByteStream(body),
            extensions={"timeout": _TIMEOUT.as_dict()},
        )
        try:
            with httpx.HTTPTransport(verify=self._context, trust_env=False, http2=False, proxy=proxy) as transport:
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

"""Translate failed requests and error answers into errors for people; answers to uploads are left to `core.outcome`.

Messages name only host and port of an address. `client` and `records` detect the failures and raise the errors.
"""

import socket
import ssl
from collections.abc import Mapping

import httpx

from assetsync.core.outcome import REFUSED_KEY, refuses_key
from assetsync.errors import BadAnswer, KeyRefused, ServiceError, ServiceRefused, ServiceUnreachable

# UnicodeError: httpx does not translate the error for a host name that cannot be encoded.
TRANSPORT_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, UnicodeError)
"""Every exception that a transport raises by itself."""


def broken(exc: Exception, response: httpx.Response) -> ServiceError:
    """Return the error for an answer that began but did not end."""
    if isinstance(exc, httpx.TimeoutException):
        return ServiceUnreachable(
            f"the service stopped in the middle of its answer (HTTP status {response.status_code})"
        )
    return BadAnswer("the connection ended in the middle of the answer", hint="it is asked again later")


def unreachable(exc: Exception, url: httpx.URL, *, proxy: bool = False) -> ServiceUnreachable:
    """Return the error for a request without an answer; its message names only host and port of the address.

    `proxy`: whether the request went through a proxy.
    """
    where = url.netloc.decode("ascii").rpartition("@")[2]
    causes = _causes(exc)
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return ServiceUnreachable(
            f"the TLS certificate of {where} is not trusted", hint="name its authority's file as service.ca_file"
        )
    if isinstance(exc, httpx.ConnectError) and any(isinstance(cause, ssl.SSLError) for cause in causes):
        return ServiceUnreachable(f"a TLS connection with {where} failed", hint="check scheme and port")
    if isinstance(exc, httpx.ProxyError) or (proxy and isinstance(exc, httpx.ConnectError | httpx.ConnectTimeout)):
        return ServiceUnreachable(f"the proxy gave no connection to {where}", hint="check service.proxy")
    if isinstance(exc, UnicodeError) or any(isinstance(cause, socket.gaierror) for cause in causes):
        return ServiceUnreachable(f"the name of {where} could not be resolved", hint="check the address and the DNS")
    if isinstance(exc, httpx.ConnectTimeout):
        return ServiceUnreachable(f"{where} did not accept a connection in time")
    if isinstance(exc, httpx.TimeoutException):
        return ServiceUnreachable(f"{where} did not answer in time")
    if isinstance(exc, httpx.ConnectError):
        return ServiceUnreachable(f"{where} could not be connected to", hint="check that the service runs")
    if isinstance(exc, httpx.RemoteProtocolError):
        return ServiceUnreachable(f"{where} closed the connection without a sound HTTP answer")
    return ServiceUnreachable(f"the connection to {where} broke")


def _causes(exc: BaseException) -> list[BaseException]:
    causes: list[BaseException] = []
    step: BaseException | None = exc
    while step is not None and step not in causes:
        causes.append(step)
        step = step.__cause__ or step.__context__
    return causes


def refusal(code: str, message: str) -> ServiceError:
    """Return the error for a result code other than 0 and the service's message: KeyRefused or ServiceRefused."""
    if refuses_key(message):
        return KeyRefused(REFUSED_KEY)
    quoted = " ".join(message.split())[:300] or "no message"
    return ServiceRefused(
        f'the service answered with an error: "{quoted}" (code {code[:64] or "none"})', code=code[:64]
    )


def refusal_in(record: Mapping[str, object]) -> ServiceError | None:
    """Return the error that a record with lower-case names reports, None if it reports no error.

    Two forms were observed: `responsecode` "1" with a `message`, and `message` with `errorcode` and a longer `detail`.
    """
    code = text_of(record.get("responsecode"))
    if code not in ("", "0"):
        return refusal(code, text_of(record.get("message")))
    if code == "" and "message" in record and "id" not in record:
        message = f"{text_of(record['message'])} {text_of(record.get('detail'))}".strip()
        return refusal(text_of(record.get("errorcode")), message)
    return None


def text_of(value: object) -> str:
    """Return a text or number of an answer as trimmed text, "" for anything else, null included."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return ""

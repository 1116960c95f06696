"""Read addresses and paths in the configuration and check their form. Whether they exist is left to `check`."""

import re
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from pydantic import BeforeValidator, WithJsonSchema

from assetsync.config.document.fields import Unusable

_NOT_IN_URL = re.compile(r"[\x00-\x20\x7f-\x9f\\]")
_EXAMPLE = "write it such as https://dam.example.com/razuna"
_NOT_IN_PATH = re.compile("[\x00-\x1f\x7f]")


def split_address(address: str) -> SplitResult:
    """Split an address as the client will read it; raise ValueError, also for an invalid port.

    Brackets may hold only an IPv6 address: no client can reach the `[v1.x]` of RFC 3986.
    """
    parts = urlsplit(address)
    _user, _at, place = parts.netloc.rpartition("@")
    if place.startswith("["):
        host, _bracket, rest = place[1:].partition("]")
        IPv6Address(host)
        if rest and not rest.startswith(":"):
            raise ValueError("there are extra characters between the host and the port")
    # Reading the port makes `urlsplit` check it.
    _port = parts.port
    return parts


def _split(value: object, schemes: tuple[str, ...]) -> SplitResult:
    if not isinstance(value, str) or not value or _NOT_IN_URL.search(value):
        raise Unusable("it must be an address without spaces", _EXAMPLE)
    try:
        parts = split_address(value)
    except ValueError as exc:
        raise Unusable("it is not an address", _EXAMPLE) from exc
    if parts.scheme not in schemes:
        raise Unusable(f"it must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}", _EXAMPLE)
    if not parts.hostname or parts.port == 0:
        raise Unusable("it names no host", _EXAMPLE)
    return parts


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine itself, judged by its text alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def service_url(value: object, *, allow_http: bool) -> str:
    """Return the address of the service: http(s), no user, no query, and plain http only where it is allowed."""
    parts = _split(value, ("https", "http"))
    if "@" in parts.netloc:
        raise Unusable("it holds a user name or password", "remove it; assetsync authenticates by the API key alone")
    if parts.query or parts.fragment or str(value).endswith(("?", "#")):
        raise Unusable("it holds a query", "end the address before `?` or `#`; the parameters are added to each call")
    if parts.scheme == "http" and not allow_http and not is_loopback(parts.hostname or ""):
        raise Unusable("plain http exposes the API key to the network", "use https, or set service.allow_http: true")
    return parts.geturl()


def base_url(value: object, *, allow_http: bool) -> str:
    """Return the address where the service is installed, as `service_url` does, without slashes at its end."""
    url = service_url(value, allow_http=allow_http)
    if url.endswith(".cfc"):
        raise Unusable("it names a single operation", "end it before /global/api2/search.cfc")
    return url.rstrip("/")


def web_address(value: object) -> str:
    """Return any full http(s) address, such as that of a webhook."""
    return _split(value, ("https", "http")).geturl()


def absolute(value: object) -> Path:
    """Return an absolute path; `.` and `//` are removed, `..` is refused because a link would change its meaning."""
    if isinstance(value, Path):
        value = str(value)
    if not isinstance(value, str) or not value.startswith("/"):
        raise Unusable("it must be an absolute path", "begin it with /")
    if _NOT_IN_PATH.search(value) or ".." in value.split("/"):
        raise Unusable("it holds `..` or a control character", "write the full path")
    return Path("/" + value.lstrip("/"))


def below_root(value: object) -> str:
    """Return a folder relative to the root, `.` for the root itself, without doubled or trailing slashes."""
    if not isinstance(value, str) or not value:
        raise Unusable("it must be a folder below root", "write it such as photos/2026, or . for root itself")
    if value.startswith("/"):
        raise Unusable("it must be relative to root", "write it without root in front, or . for root itself")
    parts = [part for part in value.split("/") if part not in {"", "."}]
    if ".." in parts or "\x00" in value:
        raise Unusable("it points outside root", "write it without `..`")
    return "/".join(parts) or "."


Absolute = Annotated[Path, BeforeValidator(absolute), WithJsonSchema({"type": "string", "pattern": "^/"})]
WebAddress = Annotated[str, BeforeValidator(web_address), WithJsonSchema({"type": "string", "pattern": "^https?://"})]
BelowRoot = Annotated[str, BeforeValidator(below_root)]

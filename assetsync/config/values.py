"""Read single values: durations, sizes, rates, shares, addresses and paths.

Each reader takes the text of the configuration, or a value that is already of the right type, and raises Unusable with
the fix. It never quotes the text, which may be a secret in the wrong place. Durations become seconds (float), sizes and
rates become bytes (int). Whether an address answers or a path exists is left to `check`.

Nothing here needs pydantic: it takes longer to load than all that `status` does besides.
"""

import os
import re
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from assetsync.errors import Unusable

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SHORTEST_GRACE = 2.0
"""Smallest `upload.doubt_grace` in seconds."""

_TEN_YEARS = 10 * 365 * 86400.0
_BYTES = {"": 1, "b": 1} | {
    f"{letter}{suffix}": base**power
    for power, letter in enumerate("kmgt", start=1)
    for suffix, base in (("b", 1000), ("ib", 1024))
}
DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|[smhd])", re.ASCII)
SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%", re.ASCII)
_ALL = 100
SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)", re.ASCII)
LISTEN = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})", re.ASCII)
_LAST_PORT = 65535
AUTO = "auto"
_NOT_IN_URL = re.compile(r"[\x00-\x20\x7f-\x9f\\]")
_EXAMPLE = "write it such as https://dam.example.com/razuna"
_NOT_IN_PATH = re.compile("[\x00-\x1f\x7f]")


def duration(value: object) -> float:
    """Return `500ms`, `5s`, `2m`, `1.5h`, `1d` or `0` as seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif value == "0":
        seconds = 0.0
    else:
        found = DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
        if not found:
            raise Unusable("it must be a duration", "write a number and its unit, such as 500ms, 5s, 2m, 1h or 1d")
        seconds = float(found[1]) * _SECONDS[found[2]]
    if not 0 <= seconds <= _TEN_YEARS:
        raise Unusable("it must be between 0 and ten years", "write a duration such as 5s, 2m or 1h")
    return seconds


def some_time(seconds: float) -> float:
    """Return the seconds, which must be more than 0."""
    if not seconds:
        raise Unusable("it must be longer than 0", "write a duration such as 5s, 2m or 1h")
    return seconds


def grace(seconds: float) -> float:
    """Return the seconds of a grace."""
    # The daemon looks up once a second at most, and a gap between look-ups must not be longer than half the grace.
    if seconds < SHORTEST_GRACE:
        raise Unusable(
            f"it must be {SHORTEST_GRACE:.0f}s or longer, or no look-up can prove that an upload did not arrive",
            "write 2m, or longer where the service is slow to store what it was sent",
        )
    return seconds


def size(value: object) -> int:
    """Return `20MB` (10^6), `512KiB` (2^10) or a plain number as bytes; at least 1."""
    if isinstance(value, int) and not isinstance(value, bool):
        count = value
    else:
        found = SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
        unit = _BYTES.get(found[2].lower()) if found else None
        if not found or unit is None:
            raise Unusable("it must be a size", "write a number and its unit, such as 512KiB, 20MB or 1GB")
        count = int(float(found[1]) * unit) if "." in found[1] else int(found[1]) * unit
    if not 1 <= count < 2**63:
        raise Unusable("it must be a size of at least one byte", "write a size such as 20MB, or null for no limit")
    return count


def rate(value: object) -> int:
    """Return `20MB/s` as bytes a second."""
    if isinstance(value, int) and not isinstance(value, bool):
        return size(value)
    amount, slash, second = value.strip().partition("/") if isinstance(value, str) else ("", "", "")
    if not slash or second.strip() != "s":
        raise Unusable("it must be a size a second", "write it such as 20MB/s, or null for no limit")
    return size(amount)


def share(value: object) -> float:
    """Return `50%` as 0.5."""
    found = SHARE.fullmatch(value.strip()) if isinstance(value, str) else None
    if not found or not 0 <= float(found[1]) <= _ALL:
        raise Unusable("it must be a percentage", "write a number from 0 to 100 and %, such as 50%")
    return float(found[1]) / _ALL


ASSETID = "{assetid}"
"""What stands for the id of an asset in `service.asset_url`."""


class Listen(NamedTuple):
    """The address on which the status page listens; an IPv6 address has no brackets.

    Port 0: the daemon takes a free one, and keeps it in the ledger.
    """

    host: str
    port: int

    def __str__(self) -> str:
        """Return the address as it is written in the configuration."""
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def listen(value: object) -> Listen:
    """Return the address that `127.0.0.1:9464`, `[::1]:9464`, `host:9464` or `auto` means."""
    if isinstance(value, tuple):
        return Listen(*value)
    if value == AUTO:
        return Listen("127.0.0.1", 0)
    found = LISTEN.fullmatch(value.strip()) if isinstance(value, str) else None
    if not found or int(found[2]) > _LAST_PORT:
        fix = "write it such as 127.0.0.1:9464, auto for a free port, or null for no page"
        raise Unusable("it must be an address and a port", fix)
    return Listen(found[1].strip("[]"), int(found[2]))


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


def _split(value: object) -> SplitResult:
    if not isinstance(value, str) or not value or _NOT_IN_URL.search(value):
        raise Unusable("it must be an address without spaces", _EXAMPLE)
    try:
        parts = split_address(value)
    except ValueError as exc:
        raise Unusable("it is not an address", _EXAMPLE) from exc
    if parts.scheme not in ("https", "http"):
        raise Unusable("it must begin with https:// or http://", _EXAMPLE)
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
    parts = _split(value)
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
    return _split(value).geturl()


def asset_address(value: object) -> str:
    """Return the address of an asset's page in the service: http(s), with `{assetid}` once, behind the host."""
    address, parts = str(value), _split(value)
    if address.count(ASSETID) != 1:
        raise Unusable("it must hold {assetid} once", "write {assetid} in place of the id of an asset")
    if ASSETID in parts.netloc or "@" in parts.netloc:
        raise Unusable("it must name a host without a user or an id", "write {assetid} behind the host")
    return address


def absolute(value: object) -> Path:
    """Return an absolute path; `.` and `//` are removed, `..` is refused because a link would change its meaning."""
    if isinstance(value, Path):
        value = str(value)
    if not isinstance(value, str) or not value.startswith("/"):
        raise Unusable("it must be an absolute path", "begin it with /")
    if _NOT_IN_PATH.search(value) or ".." in value.split("/"):
        raise Unusable("it holds `..` or a control character", "write the full path")
    return Path("/" + value.lstrip("/"))


def is_inside(path: Path, folder: Path) -> bool:
    """Return whether a path lies in a folder, or is the folder, after all links of both are followed."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


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

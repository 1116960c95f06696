"""Recognise requests that a web page makes through a browser on this machine; other clients are not affected.

Pure: takes header values and returns verdicts. `app` checks each request, `control` those that change something; both
write the refusals themselves.
"""

import ipaddress
from typing import Final
from urllib.parse import urlsplit

# Suffixes of host names that no one can own on the web: no owner can point such a name to this machine.
_PRIVATE: Final = ("localhost", "local", "internal", "test", "home.arpa")


def is_loopback(host: str) -> bool:
    """Return whether an address to listen on is reachable only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def may_be_led_here(host: str) -> bool:
    """Return whether the `Host` header is a name whose owner may point it to this machine (DNS rebinding)."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        # Brackets around text that is not an address: not a name of the sandbox either.
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return "." in name and not name.endswith(tuple(f".{end}" for end in _PRIVATE))
    return False


def is_foreign(origin: str | None, host: str) -> bool:
    """Return whether the `Origin` header, which browsers send with each POST of a page, differs from `Host`."""
    return origin is not None and origin.partition("://")[2].lower() != host.lower()

"""What a page on the web may not do through a browser on this machine; clients that are no browser notice nothing.

Pure: the texts of a request in, verdicts out. `app` asks for each request, `control` for what is switched.
"""

import ipaddress
from typing import Final
from urllib.parse import urlsplit

# Ends of names that nobody on the web can own, so that none can be led to this machine by its owner.
_PRIVATE: Final = ("localhost", "local", "internal", "test", "home.arpa")


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def may_be_led_here(host: str) -> bool:
    """Whether a request's `Host` is a name whose owner may let it point to this machine (DNS rebinding)."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        # Brackets around what is no address: no name of ours either.
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return "." in name and not name.endswith(tuple(f".{end}" for end in _PRIVATE))
    return False


def is_foreign(origin: str | None, host: str) -> bool:
    """Whether a request's `Origin`, which browsers send with what a page posts, is another than its `Host`."""
    return origin is not None and origin.partition("://")[2].lower() != host.lower()

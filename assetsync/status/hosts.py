"""Which names of this machine a request may call it by: a page on the web must not read what is served on loopback.

A browser that was led here by a foreign name, which its owner lets point to this address (DNS rebinding), says that
name in `Host`.
"""

import ipaddress
import re
import socket
import threading
import time
from collections.abc import Sequence

_ASK_AGAIN = 60.0
_LOCAL = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")


class Hosts:
    """The names for an address that is listened on."""

    def __init__(self, listen: str) -> None:
        self._names = {*_LOCAL, listen.casefold()}
        self._own: str | None = None
        self._full = ""
        self._again = 0.0
        self._asking = threading.Lock()
        if not _is_loopback(listen):
            own = socket.gethostname().casefold()
            self._own = own.partition(".")[0]
            self._names |= {own, self._own, f"{own}.local"}

    def are(self, said: Sequence[str], local: str) -> bool:
        """Whether a request's `Host` fields name this machine; `local` is the address that the connection came to.

        Any port will do: behind `ssh -L` it is another.
        """
        found = _HOST.fullmatch(said[0].strip()) if len(said) == 1 else None
        if found is None:
            return False
        name = found[1].strip("[]").casefold().removesuffix(".")
        if name in self._names or name == local.removeprefix("::ffff:").casefold():
            return True
        # Asked for only where the name may be it: a name server that is away keeps whoever asks waiting for seconds.
        return name.partition(".")[0] == self._own and name == self._found()

    def _found(self) -> str:
        """Give this machine's name with its domain, as the system finds it; any other domain may be somebody else's.

        A name without a domain says that no name server answered, as while a machine starts: then it is asked again.
        """
        with self._asking:
            if "." not in self._full and time.monotonic() >= self._again:
                self._full = socket.getfqdn().casefold()
                self._again = time.monotonic() + _ASK_AGAIN
            return self._full


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.casefold() == "localhost"

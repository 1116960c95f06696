"""Check the `Host` of a request, so that a page on the web cannot read the pages served on loopback.

With DNS rebinding, the owner of a foreign name lets it point to this address; the browser sends that name in `Host`.
Answering or refusing the request is left to `server`.
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
    """The accepted host names for the listening address `listen`."""

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
        """Whether the `Host` fields of a request (`said`) name this machine.

        `local` is the local address of the connection. Any port is accepted: behind `ssh -L` the port differs.
        """
        found = _HOST.fullmatch(said[0].strip()) if len(said) == 1 else None
        if found is None:
            return False
        name = found[1].strip("[]").casefold().removesuffix(".")
        if name in self._names or name == local.removeprefix("::ffff:").casefold():
            return True
        # Look the full name up only if it may match: a name server that is down blocks the look-up for seconds.
        return name.partition(".")[0] == self._own and name == self._found()

    def _found(self) -> str:
        """Return this machine's full name as the system finds it; a name with another domain may be another machine's.

        A name without a domain means that no name server answered, as while a machine starts. It is looked up again
        after `_ASK_AGAIN` seconds.
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

"""The check of the status page for `assetsync check`: whether its address is free. `status.server` serves the page."""

import os
import socket
from collections.abc import Iterator

from assetsync.cli.finding import Finding, Level
from assetsync.cli.holder import holder_of
from assetsync.config import SiteConfig
from assetsync.ledger.ledger_files import real


def look_at_page(config: SiteConfig) -> Iterator[Finding]:
    """Warn of an address that another program uses, or that does not belong to this machine."""
    listen = config.status.listen
    if listen is None or holder_of(real(config.ledger)).sends:
        # If the process that sends for this site is a daemon, it listens there itself.
        return
    try:
        where = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = where[0]
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            # The daemon sets this option, too: a socket that was closed a moment ago does not block the address.
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
            tried.listen()
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
    except UnicodeError:
        why = "no such name can be looked up"
    else:
        return
    message = f"the status page cannot listen on {listen.host}:{listen.port}: {why}"
    fix = "give each site a port of its own in status.listen, or set it to null; files are mirrored all the same"
    yield Finding("status", Level.WARNING, message, fix)

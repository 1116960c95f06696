"""The machine's clocks, and the stop signal that ends every wait (`model.Clock`)."""

import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_RULE = re.compile(r"(<[^<>]{3,}>|[A-Za-z]{3,})[+-]?[0-9]")
"""How a `TZ` begins that spells its rule out, as POSIX has it: `CET-1CEST,M3.5.0,M10.5.0/3`."""

ZONE_FIX = "set TZ to a name such as Europe/Berlin, or unset it: then /etc/localtime counts"


def zone_warning(environ: Mapping[str, str]) -> str | None:
    """Say that `TZ` names a time zone that the machine does not know: the C library takes it for UTC, silently."""
    name = environ.get("TZ", "").removeprefix(":")
    if not name or _RULE.match(name):
        return None
    if name.startswith("/"):
        is_known = Path(name).is_file()
    else:
        try:
            is_known = bool(ZoneInfo(name))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            is_known = False
    return None if is_known else f"this machine knows no time zone {name!r}, which TZ names: times count as UTC"


def boot_id() -> str:
    """Return the kernel's name of this boot of the machine."""
    return _BOOT_ID.read_text("ascii").strip()


class SystemClock:
    """Wall time, steady time that runs on through suspend, and waits that a stop ends."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.stop = stop or threading.Event()
        self._boot = boot_id()

    def now(self) -> float:
        """Seconds since the epoch; may jump."""
        return time.time()

    def steady(self) -> float:
        """Seconds since the machine was booted, suspend included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def boot(self) -> str:
        """Name this boot of the machine."""
        return self._boot

    def wait(self, seconds: float) -> bool:
        """Sleep for so long or until the stop; True when it came."""
        # A wait of no time would still make a lock, and a scan asks at each folder.
        return self.stop.wait(seconds) if seconds > 0 else self.stop.is_set()

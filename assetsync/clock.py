"""Read the machine's clocks, and end every wait at the stop (`model.Clock`).

Setting the stop is left to the daemon and the commands.
"""

import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_RULE = re.compile(r"(<[^<>]{3,}>|[A-Za-z]{3,})[+-]?[0-9]")
"""The beginning of a `TZ` that contains its rule in POSIX form, such as `CET-1CEST,M3.5.0,M10.5.0/3`."""

ZONE_FIX = "set TZ to a name such as Europe/Berlin, or unset it: then /etc/localtime counts"


def zone_warning(environ: Mapping[str, str]) -> str | None:
    """Return a warning if `TZ` names an unknown time zone, which the C library silently takes for UTC; else None."""
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
    """Return the kernel's id of the current boot."""
    return _BOOT_ID.read_text("ascii").strip()


class SystemClock:
    """The clocks of the machine: wall time, steady time, and waits that the stop ends."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.stop = stop or threading.Event()
        self._boot = boot_id()

    def now(self) -> float:
        """Return the seconds since the epoch; this clock may jump."""
        return time.time()

    def steady(self) -> float:
        """Return the seconds since the boot, including suspend."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def boot(self) -> str:
        """Return the id of the boot at which this clock was made; steady times compare only within a boot."""
        return self._boot

    def wait(self, seconds: float) -> bool:
        """Sleep for `seconds` or until the stop; return True after the stop."""
        # `Event.wait(0)` would still create a lock, and a scan checks for the stop at each folder.
        return self.stop.wait(seconds) if seconds > 0 else self.stop.is_set()

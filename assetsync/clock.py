"""The machine's clocks, and the stop signal that ends every wait (`model.Clock`)."""

import threading
import time
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SystemClock:
    """Wall time, steady time that runs on through suspend, and waits that a stop ends."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.stop = stop or threading.Event()
        self._boot = _BOOT_ID.read_text("ascii").strip()

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

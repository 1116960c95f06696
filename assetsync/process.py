"""Protect the memory of this process, above all the API key, from core dumps and other processes of its user.

Root can read everything anyway. Redaction of logs and stored texts is left to `log` and `service.redaction`.
"""

import ctypes
import resource

_PR_SET_DUMPABLE = 4


def keep_from_dumps() -> None:
    """Disable core dumps, and let only root trace this process or read /proc/PID/environ and /proc/PID/mem.

    A pipe in kernel.core_pattern receives core dumps despite the limit, but none of a process that is not dumpable.
    """
    _soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)

"""Keeps what this process holds in memory, the API key above all, from dumps and from its user's other processes.

Root sees everything anyway. What is logged or stored is left to `log` and `service.redaction`.
"""

import ctypes
import resource

_PR_SET_DUMPABLE = 4


def keep_from_dumps() -> None:
    """Leave no core behind, and let only root read /proc/PID/environ and /proc/PID/mem or trace this process.

    A pipe of kernel.core_pattern gets cores whatever their limit says; of a process that is not dumpable it gets none.
    """
    _soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)

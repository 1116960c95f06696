"""A process without a free descriptor, or without a further thread."""

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def no_descriptors(spare: int = 0) -> Iterator[None]:
    """Let this process open no more than `spare` further files inside the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fillers: list[int] = []
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (1 + highest + spare, hard))
    try:
        try:
            while True:
                fillers.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            for _ in range(spare):
                os.close(fillers.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for filler in fillers:
            os.close(filler)


_STACK = 1 << 30
LARGE_STACKS = f"import threading\nthreading.stack_size({_STACK})"
"""Lines of Python after which a thread needs a gigabyte of addresses: a limit of these refuses threads, not memory."""


def refuse_threads(pid: int = 0):
    """Let a process with `LARGE_STACKS` start no further thread."""
    used = int(Path(f"/proc/{pid or 'self'}/statm").read_text().split()[0]) * resource.getpagesize()
    resource.prlimit(pid, resource.RLIMIT_AS, (used + _STACK // 2, resource.RLIM_INFINITY))


def allow_threads(pid: int = 0):
    resource.prlimit(pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@contextmanager
def no_threads() -> Iterator[None]:
    """Let this process start no thread inside the block."""
    before = threading.stack_size(_STACK)
    refuse_threads()
    try:
        yield
    finally:
        allow_threads()
        threading.stack_size(before)

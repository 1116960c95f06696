"""Starts commands of assetsync as processes that begin with the program loaded.

Loading takes longer than most commands then run. A server loads the program once and forks for each command. The
processes have ids, signals, exit codes and standard streams of their own. Where the start of the interpreter or the
loading itself is tested, and where another program starts it, `subprocess` starts `python -m assetsync`.
"""

import atexit
import contextlib
import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import BinaryIO

MAIN = "import sys; from assetsync.cli import main; sys.exit(main())"

_LOADED = ("run", "reconcile", "status", "files", "orphans", "audit", "explain")
_INT = struct.Struct("i")
_MOST = 100_000
"""Bytes of a request."""


class Forked:
    """A process of assetsync, to be used as a `subprocess.Popen`; `broken` are lines of Python that spoil it."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        stdout: int | BinaryIO,
        stderr: int | BinaryIO,
        env: Mapping[str, str],
        broken: str = "",
    ) -> None:
        self.args = [str(word) for word in words]
        self.returncode: int | None = None
        said = {"words": self.args, "env": dict(env), "cwd": os.getcwd(), "code": f"{broken}\n{MAIN}"}
        streams = [each if isinstance(each, int) else each.fileno() for each in (stdout, stderr)]
        self._reading = threading.Lock()
        self._ends, writing = os.pipe()
        socket.send_fds(_server(), [json.dumps(said).encode()], [*streams, writing])
        os.close(writing)
        self.pid = self._next()

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            ends = select.poll()
            ends.register(self._ends, select.POLLIN)
            if not ends.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(self.args, timeout)
            with self._reading:
                if self.returncode is None:
                    self.returncode = os.waitstatus_to_exitcode(self._next())
                    os.close(self._ends)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            # The server may have reaped it since, as `subprocess.Popen` allows for, too.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _next(self) -> int:
        return _INT.unpack(os.read(self._ends, _INT.size))[0]


def call(
    words: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float = 60, broken: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and return its exit code and what it printed."""
    with open(os.memfd_create("stdout"), "w+b") as out, open(os.memfd_create("stderr"), "w+b") as err:
        process = Forked(words, stdout=out, stderr=err, env=os.environ if env is None else env, broken=broken)
        try:
            code = process.wait(timeout)
        except BaseException:
            process.kill()
            process.wait()
            raise
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess(process.args, code, out.read().decode(), err.read().decode())


@cache
def _server() -> socket.socket:
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        command = [sys.executable, "-m", "tests.forks", str(its.fileno())]
        server = subprocess.Popen(command, pass_fds=[its.fileno()], cwd=os.path.dirname(os.path.dirname(__file__)))
    atexit.register(server.wait)
    atexit.register(ours.close)
    return ours


def _serve(channel: socket.socket) -> str:
    """Fork for each request; return, in a process of its own, the program that a request asks for."""
    # Who waits for a process reports its end.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, received, _, _ = socket.recv_fds(channel, _MOST, 3)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            break
        for number in received:
            os.close(number)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel.close()
    out, err, ends = received
    process = os.fork()
    if process:
        os.close(out)
        os.close(err)
        os.write(ends, _INT.pack(process))
        os.write(ends, _INT.pack(os.waitpid(process, 0)[1]))
        os._exit(0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    for number in received:
        os.close(number)
    return _become(**json.loads(request))


def _become(words: list[str], env: dict[str, str], cwd: str, code: str) -> str:
    sys.argv = ["assetsync", *words]
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - open until the process ends
    sys.stderr = open(2, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(cwd)
    return code


if __name__ == "__main__":
    for name in _LOADED:
        import_module(f"assetsync.cli.commands.{name}")
    gc.collect()
    gc.freeze()
    exec(_serve(socket.socket(fileno=int(sys.argv[1]))), {"__name__": "__main__"})

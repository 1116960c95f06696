"""Starts nginx as the service that takes uploads, with its Lua module: the service costs its clients little.

A service in Python pays for each small write of a client, which flatters clients that write a request at once. What
the service does is in `sink.lua`, and how nginx is set up in `sink.conf`.
"""

import contextlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.frame import Missing
from tests.benchmarks.serving import Serving

_HERE = Path(__file__).parent
_PATIENCE = 20.0


class Nginx(NamedTuple):
    """An nginx that has the Lua module, and the folder of its modules."""

    program: str
    modules: Path


def nginx() -> Nginx:
    """Find nginx; raise Missing, with the command that installs it, if nginx or its Lua module is absent."""
    # Root alone has /usr/sbin in its path.
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is not None:
        built = subprocess.run([program, "-V"], stderr=subprocess.PIPE, text=True, check=True).stderr
        found = re.search(r"--modules-path=(\S+)", built)
        if found and (Path(found[1]) / "ngx_http_lua_module.so").exists():
            return Nginx(program, Path(found[1]))
    what = "nginx" if program is None else "the Lua module of nginx"
    raise Missing(f"{what} is not installed: apt-get install nginx libnginx-mod-http-lua")


@contextlib.contextmanager
def sink(*, delay: float = 0.0, lag: float = 0.0) -> Iterator[Serving]:
    """Serve until the block ends: each upload is answered after `delay` seconds, and in the index after `lag`."""
    found = nginx()
    with tempfile.TemporaryDirectory(prefix="sink-") as made:
        prefix, port = Path(made), _free_port()
        text = (_HERE / "sink.conf").read_text()
        for name, value in {"modules": found.modules, "here": _HERE, "delay": delay, "lag": lag, "port": port}.items():
            text = text.replace(f"@{name}@", str(value))
        (prefix / "nginx.conf").write_text(text)
        argv = [found.program, "-p", f"{made}/", "-c", "nginx.conf", "-e", "error.log"]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        try:
            _wait_for(process, port, prefix / "error.log")
            yield Serving(port)
        finally:
            process.terminate()
            process.wait(_PATIENCE)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.01)
    raise RuntimeError(f"nginx does not answer: {log.read_text() if log.exists() else ''}")

"""The sandbox as a process of its own, which can be away and come back with what it stored."""

import json
import random
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from assetsync.sandbox import FaultRule
from tests.running import KEY

PATIENCE = 30.0
_PORTS = range(20_000, 30_000)
"""Below the ports that Linux hands out, so that nobody is given the port of a service that is away."""


def free_port() -> int:
    """Return a port at which nobody listens."""
    while True:
        port = random.choice(_PORTS)
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)):
                return port


class ServiceProcess:
    """One `assetsync sandbox`; it keeps its address and its data over a stop and a start."""

    def __init__(self, folder: Path, folders: Mapping[str, str]) -> None:
        """Name the folder of its data, and the names of the service's folders by their ids."""
        self._data = folder
        self._folders = folders
        self._listen = f"127.0.0.1:{free_port()}"
        self._process: subprocess.Popen[str] | None = None
        self._before = 0
        """The number of requests that earlier processes answered."""
        self.base_url = self.upload_url = ""

    def start(self) -> None:
        """Start to answer; return once it does."""
        folders = [word for identifier, name in self._folders.items() for word in ("--folder", f"{identifier}={name}")]
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "assetsync", "sandbox", "--dialect", "observed", "--json"),
                *("--listen", self._listen, "--dir", str(self._data), "--key", KEY, *folders),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        given = json.loads(self._process.stdout.readline())
        self.base_url, self.upload_url = given["base_url"], given["upload_url"]

    def stop(self) -> None:
        """End the process; do nothing if none runs."""
        if self._process is None:
            return
        self._before = self.requests()
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._process.stdout.close()
        self._process = None

    def kill(self) -> None:
        """End the process whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    def requests(self) -> int:
        """Return the number of requests since the first start; those of the control interface do not count."""
        return self._before + (sum(self._control("log").values()) if self._process is not None else 0)

    def set_faults(self, rules: Iterable[FaultRule]) -> None:
        """Switch on exactly these faults."""
        self._control("faults", {"faults": [asdict(rule) for rule in rules]})

    def assets(self) -> list[dict[str, Any]]:
        """Return all stored assets."""
        return self._control("assets")

    def delete(self, assetid: str) -> None:
        """Delete an asset, as a person does in a DAM."""
        self._control("assets", {"id": assetid, "delete": True})

    def _control(self, name: str, given: Mapping[str, object] | None = None) -> Any:
        request = urllib.request.Request(
            f"http://{self._listen}/_sandbox/{name}",
            None if given is None else json.dumps(given).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

"""Starts the thin service and writes the configuration of a site that is sent to it."""

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

FOLDER = "F"
PROGRAM = str(Path(sys.executable).with_name("assetsync"))
KEY = {"ASSETSYNC_API_KEY": "benchmark-key"}


class Serving:
    """A running peer; `upload_url` takes files, `counted` tells what it has been asked since it was started."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.base_url = f"http://127.0.0.1:{port}"
        self.upload_url = f"{self.base_url}/upload"

    def counted(self) -> dict[str, float]:
        return self._asked("counted")

    def arrivals(self) -> dict[str, float]:
        """Give when the first bytes of each file were there, by name, on the clock of `time.monotonic`."""
        return self._asked("arrivals")

    def _asked(self, what: str) -> dict[str, float]:
        with urllib.request.urlopen(f"{self.base_url}/{what}") as answer:
            return json.loads(answer.read())


@contextlib.contextmanager
def serving(*, assets: int = 0) -> Iterator[Serving]:
    peer = str(Path(__file__).with_name("peer.py"))
    argv = [sys.executable, peer, f"--assets={assets}"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield Serving(int(process.stdout.readline()))
    finally:
        process.communicate(timeout=10)


def write_config(
    base: Path, root: Path, peer: Serving, *, workers: int = 4, settle: str = "0s", more: str = ""
) -> Path:
    """Write a configuration beside which a new ledger is made; gives its path."""
    config = base / "site.yaml"
    config.write_text(
        f"site: bench\nroot: {root}\nledger: {base}/bench.db\n"
        f'service: {{base_url: "{peer.base_url}", upload_url: "{peer.upload_url}"}}\n'
        f'folders: [{{path: ., destfolderid: "{FOLDER}"}}]\n'
        f"watch: {{settle: {settle}}}\nupload: {{workers: {workers}}}\nlog: {{level: info}}\n{more}"
    )
    return config

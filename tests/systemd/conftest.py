"""A fresh server that became a running site by the README's five commands, once for all tests of a module."""

import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assetsync.sandbox import Sandbox, SandboxSettings

from .image import ROOT, Unavailable, image, wheels
from .machine import Machine
from .readme import commands

FOLDER = "A6CE649FAA5F434EB513CA15656AB5AA"
OTHER = "B7DF750FBB604545FC24DB26767BC6BB"
KEY = "k3y-of-the-booted-server"
UNIT = "assetsync@hq"
DROP_IN = "/run/systemd/system/assetsync@hq.service.d"

# What a person changes in the example: the site's own things, and shorter times.
_EDITS = (
    (r"(?m)^  settle: 5s$", "  settle: 300ms"),
    (r"(?m)^  index: 1m$", "  index: 2s"),
    (r"(?m)^  verify: 5m$", "  verify: 1s"),
    (r"(?m)^  doubt_grace: 2m$", "  doubt_grace: 3s"),
    (r"(?m)^  lookup_lag: null$", "  lookup_lag: 0s"),
    (r"(?m)^  read_timeout: 5m$", "  read_timeout: 8s"),
    # The network is this machine's, whose ports belong to others.
    (r"(?m)^  listen: .*$", "  listen: 127.0.0.1:0"),
)


class Server:
    """The booted server, its tree and the service it mirrors to."""

    def __init__(self, machine: Machine, tree: Path, sandbox: Sandbox) -> None:
        self.machine = machine
        self.tree = tree
        self.sandbox = sandbox
        self.config = ""

    def edit(self) -> None:
        """Do what `editor` is called for: the configuration and the key."""
        text = self.machine.out("cat /etc/assetsync/hq.yaml")
        edits = (
            *_EDITS,
            (r"(?m)^  base_url: .*$", f"  base_url: {self.sandbox.base_url}"),
            (r"(?m)^  upload_url: .*$", f"  upload_url: {self.sandbox.upload_url}"),
        )
        for pattern, replacement in edits:
            text = re.sub(pattern, replacement, text)
        self.config = text
        self.machine.write("/etc/assetsync/hq.yaml", text)
        self.machine.write("/etc/assetsync/hq.key", KEY + "\n")

    def add(self, name: str, content: bytes) -> None:
        """Write a file into the tree."""
        file = self.tree / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def expected(self) -> dict[str, str]:
        """Give the digest of each file that lies under photos/."""
        files = [path for path in (self.tree / "photos").rglob("*") if path.is_file()]
        return {str(path.relative_to(self.tree)): _digest(path.read_bytes()) for path in files}

    def files(self) -> dict[str, dict[str, Any]]:
        """Give what the ledger knows of each file, asked as the README says."""
        asked = "runuser -u assetsync -- /opt/assetsync/bin/assetsync files --json --config /etc/assetsync/hq.yaml"
        return {row["path"]: row for row in map(json.loads, self.machine.run(asked).stdout.splitlines())}

    def status(self) -> str:
        """Give the status as root sees it."""
        return self.machine.run("assetsync status --site hq").stdout

    def state(self, path: str) -> str | None:
        """Give the state of one file."""
        return self.files().get(path, {}).get("state")

    def verified(self) -> dict[str, str]:
        """Give the digest of each file that the ledger calls verified."""
        return {path: row["md5"] for path, row in self.files().items() if row["state"] == "verified"}

    def stop(self) -> float:
        """Stop the unit, which must end well by itself; gives the seconds it took."""
        since = time.time()
        started = time.monotonic()
        self.machine.out(f"systemctl stop {UNIT}")
        took = time.monotonic() - started
        ended = self.show("ActiveState", "Result", "ExecMainStatus")
        assert ended == {"ActiveState": "inactive", "Result": "success", "ExecMainStatus": "0"}, self.journal(since)
        return took

    def until_mirrored(self, seconds: float = 40) -> float:
        """Wait until each file is verified, and stored once; gives the seconds it took."""
        took = self.machine.until(lambda: self.verified() == self.expected(), seconds, "every file is verified")
        stored = [asset.md5 for asset in self.sandbox.assets() if asset.folder_id == FOLDER and not asset.damaged]
        assert sorted(stored) == sorted(self.expected().values())
        return took

    def show(self, *names: str) -> dict[str, str]:
        """Give properties of the daemon's unit."""
        return self.machine.show(UNIT, *names)

    def main_pid(self) -> int:
        """Give the daemon's process, as the machine numbers it."""
        return int(self.show("MainPID")["MainPID"])

    def journal(self, since: float) -> str:
        """Give what the unit logged since that time."""
        return self.machine.out(f"journalctl --no-pager -o cat -u {UNIT} --since=@{since:.3f}")

    def shorten(self, **settings: str) -> None:
        """Replace settings of the unit, for as long as the machine is up; none takes them back."""
        lines = "".join(f"{name}={value}\n" for name, value in {"RestartSec": "1s", **settings}.items())
        self.machine.write(f"{DROP_IN}/shorter.conf", f"[Service]\n{lines}")
        self.machine.out("systemctl daemon-reload")

    def restore(self) -> None:
        """Bring the unit back to how the README left it, running."""
        self.sandbox.set_faults()
        self.machine.write("/etc/assetsync/hq.yaml", self.config)
        self.machine.write("/etc/assetsync/hq.key", KEY + "\n")
        self.shorten()
        self.machine.out(f"systemctl stop {UNIT}; systemctl reset-failed {UNIT} || true; systemctl start {UNIT}")


def _digest(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest().upper()


@pytest.fixture(scope="module")
def booted(request: pytest.FixtureRequest) -> Iterator[Server]:
    try:
        folder = image(build=request.config.getoption("--long"))
        house = wheels(folder)
    except Unavailable as reason:
        pytest.skip(str(reason))
    # Not below pytest's own folders: the server's users must be able to come in from the outside.
    with tempfile.TemporaryDirectory(prefix="assetsync-boot-") as base:
        tree = Path(base) / "tree"
        for number in range(40):
            file = tree / "photos" / f"{number % 4}" / f"{number}.jpg"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"%d" % number * 5000)
        os.chmod(base, 0o755)
        with Sandbox(
            SandboxSettings(dialect="observed", api_key=KEY, folders={FOLDER: "photos", OTHER: "docs"})
        ) as sandbox:
            shown = {"/usr/src/assetsync": ROOT, "/srv/media": tree, "/usr/src/wheels": house}
            machine = Machine(folder, Path(base) / "console", shown)
            try:
                yield Server(machine, tree, sandbox)
            finally:
                machine.power_off()


@pytest.fixture(scope="module")
def installed(booted: Server) -> Server:
    """Follow the README; pip takes the wheels that were fetched before, and nothing from the network."""
    machine = booted.machine
    machine.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/usr/src/wheels", "PIP_NO_CACHE_DIR": "1"}
    for line in commands():
        started = time.monotonic()
        command, _, edited = line.partition(" && editor ")
        machine.out(command, patience=300)
        if edited:
            booted.edit()
        print(f"{time.monotonic() - started:.1f} s: {line}")
    return booted


@pytest.fixture
def server(installed: Server) -> Iterator[Server]:
    yield installed
    installed.restore()

"""A daemon as a real process, on a real tree, against the sandbox."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assetsync.ledger.ledger import read_ledger
from assetsync.model import State
from assetsync.sandbox import Sandbox, SandboxSettings

FOLDER = "D0D0"
KEY = "daemon-key"


class Running:
    """One `assetsync run`; its log is read as events."""

    def __init__(self, folder: Path, sandbox: Sandbox, **sections: str):
        self.folder = folder
        self.tree = folder / "tree"
        (self.tree / "photos").mkdir(parents=True, exist_ok=True)
        self.sandbox = sandbox
        self.config = folder / "site.yaml"
        self.log = folder / "log"
        self.process: subprocess.Popen | None = None
        self.write_config(**sections)

    def write_config(self, **sections: str):
        given = {
            "watch": "{settle: 300ms}",
            "schedule": "{index: 1s, verify: 1s}",
            "upload": "{doubt_grace: 2s}",
            "folders": f'[{{path: photos, destfolderid: "{FOLDER}"}}]',
            **sections,
        }
        lines = "\n".join(f"{name}: {text}" for name, text in given.items())
        self.config.write_text(
            f"site: d\nroot: {self.tree}\nledger: {self.folder}/d.db\n"
            f'service: {{base_url: "{self.sandbox.base_url}", upload_url: "{self.sandbox.upload_url}",'
            f" connect_timeout: 2s, read_timeout: 5s}}\n{lines}\n"
        )

    def start(self, **environ: str) -> "Running":
        begun = len(self.events("running")) if self.log.exists() else 0
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "assetsync", "run", "--config", str(self.config)],
                stdout=out,
                stderr=out,
                env={**os.environ, "ASSETSYNC_API_KEY": KEY, **environ},
            )
        self.until(lambda: len(self.events("running")) > begun, 20)
        return self

    def signal(self, number: int):
        self.process.send_signal(number)

    def stop(self, patience: float = 30) -> int:
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.process.wait(patience)

    def events(self, *names: str) -> list[dict]:
        found = []
        for line in self.log.read_text("utf-8").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if not names or event.get("event") in names:
                found.append(event)
        return found

    def until(self, true, seconds: float = 20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if true():
                return
            assert self.process is None or self.process.poll() is None, self.log.read_text("utf-8")[-3000:]
            time.sleep(0.05)
        log = self.log.read_text("utf-8")[-4000:]
        raise AssertionError(f"it did not come about in {seconds} s: {list(self.states().items())[:50]}\n{log}")

    def states(self) -> dict[str, str]:
        ledger = read_ledger(self.folder / "d.db")
        try:
            return {os.fsdecode(row.path): str(row.state) for row in ledger.reports.files()}
        finally:
            ledger.close()

    def count(self, state: State = State.VERIFIED) -> int:
        ledger = read_ledger(self.folder / "d.db")
        try:
            return ledger.reports.counts(time.time()).of(state)
        finally:
            ledger.close()

    def until_verified(self, count: int, seconds: float = 20):
        self.until(lambda: self.count() >= count, seconds)

    @property
    def photos(self) -> Path:
        return self.tree / "photos"


@pytest.fixture
def sandbox():
    with Sandbox(SandboxSettings(api_key=KEY, folders={FOLDER: "photos"})) as sandbox:
        yield sandbox


@pytest.fixture
def make(tmp_path, sandbox):
    made = []

    def make_running(**sections: str) -> Running:
        running = Running(tmp_path, sandbox, **sections)
        made.append(running)
        return running

    yield make_running
    for running in made:
        if running.process is not None and running.process.poll() is None:
            running.process.kill()
            running.process.wait()

"""A daemon as a real process, on a real tree, against the sandbox."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest

from assetsync.cli.entry import run
from assetsync.ledger.ledger import read_ledger
from assetsync.model import State
from assetsync.sandbox import Sandbox, SandboxSettings

from .forks import MAIN, Forked
from .process import left_as_it_was

FOLDER = "D0D0"
KEY = "daemon-key"

SHORT_BUSY_WAIT = "import assetsync.ledger.file.handle as module\nmodule.BUSY_SECONDS = 1.0"
"""Lines of Python after which SQLite waits for another program's lock for a second, in place of ten."""


class Running:
    """One `assetsync run`; its log is read as events."""

    def __init__(self, folder: Path, sandbox: Sandbox, **sections: str):
        self.folder = folder
        self.tree = folder / "tree"
        (self.tree / "photos").mkdir(parents=True, exist_ok=True)
        self.sandbox = sandbox
        self.config = folder / "site.yaml"
        self.log = folder / "log"
        self.process: subprocess.Popen | Forked | None = None
        self.ledger = folder / "d.db"
        self.write_config(**sections)

    def write_config(self, **sections: str):
        given = {
            "watch": "{settle: 300ms}",
            "schedule": "{index: 1s, verify: 1s}",
            "upload": "{doubt_grace: 2s, lookup_lag: 0s}",
            "status": "{listen: null}",
            "folders": f'[{{path: photos, destfolderid: "{FOLDER}"}}]',
            **sections,
        }
        lines = "\n".join(f"{name}: {text}" for name, text in given.items())
        self.config.write_text(
            f"site: d\nroot: {self.tree}\nledger: {self.ledger}\n"
            f'service: {{base_url: "{self.sandbox.base_url}", upload_url: "{self.sandbox.upload_url}",'
            f" connect_timeout: 2s, read_timeout: 5s}}\n{lines}\n"
        )

    def start(
        self,
        *,
        within: str = "",
        broken: str = "",
        loaded: bool = True,
        ready: bool = True,
        pipe: int | None = None,
        **environ: str,
    ) -> "Running":
        """Start it, and wait until it is `ready`.

        `within` are shell commands run first, in name spaces of its own; `broken` are lines of Python that spoil it.
        It begins with the program `loaded`, unless it is started within. Its log goes to the file, or into a `pipe`.
        """
        begun = len(self.events("running")) if self.log.exists() else 0
        words = ["run", "--config", str(self.config)]
        env = {**os.environ, "ASSETSYNC_API_KEY": KEY, "ASSETSYNC_CONFIG": str(self.config), **environ}
        with self.log.open("ab") as out:
            err = out if pipe is None else pipe
            if loaded and not within:
                self.process = Forked(words, stdout=out, stderr=err, env=env, broken=broken)
            else:
                python = [sys.executable, *(["-c", f"{broken}\n{MAIN}"] if broken else ["-m", "assetsync"])]
                before = alone(within) if within else []
                self.process = subprocess.Popen([*before, *python, *words], stdout=out, stderr=err, env=env)
        if ready:
            self.until(lambda: len(self.events("running")) > begun, 20)
        return self

    def signal(self, number: int):
        self.process.send_signal(number)

    def address(self) -> str:
        """Where the status page of the last start is; on a busy machine a daemon is ready before its page."""
        self.until(lambda: self.events("status page"))
        return f"http://127.0.0.1:{self.events('status page')[-1]['port']}"

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

    def until(self, true, seconds: float = 60):
        end = time.monotonic() + seconds
        # Looking is work too: who waits for minutes looks every second.
        pause = min(1.0, max(0.05, seconds / 400))
        while time.monotonic() < end:
            if true():
                return
            assert self.process is None or self.process.poll() is None, self.log.read_text("utf-8")[-3000:]
            time.sleep(pause)
        log = self.log.read_text("utf-8")[-4000:]
        raise AssertionError(f"it did not come about in {seconds} s: {list(self.states().items())[:50]}\n{log}")

    def states(self) -> dict[str, str]:
        ledger = read_ledger(self.ledger)
        try:
            return {os.fsdecode(row.path): str(row.state) for row in ledger.reports.files()}
        finally:
            ledger.close()

    def waiting(self) -> dict[str, str]:
        """Return the state and the reason of each file that is not verified."""
        ledger = read_ledger(self.ledger)
        try:
            return {
                os.fsdecode(row.path): f"{row.state}, {row.reason}: {row.detail}"
                for row in ledger.reports.files()
                if row.state is not State.VERIFIED
            }
        finally:
            ledger.close()

    def drift(self) -> dict[str, str]:
        ledger = read_ledger(self.ledger)
        try:
            return {os.fsdecode(row.path): row.drift or "" for row in ledger.reports.drifted(100)}
        finally:
            ledger.close()

    def count(self, state: State = State.VERIFIED) -> int:
        ledger = read_ledger(self.ledger)
        try:
            return ledger.reports.counts(time.time()).of(state)
        finally:
            ledger.close()

    def until_verified(self, count: int, seconds: float = 60):
        self.until(lambda: self.count() >= count, seconds)

    def status(self, *arguments: str) -> str:
        """Give what `assetsync status` prints, called in this process: a process of its own takes ten times as long."""
        with pytest.MonkeyPatch.context() as patch, left_as_it_was(patch), redirect_stdout(io.StringIO()) as said:
            run(["status", "--config", str(self.config), *arguments])
        return said.getvalue()

    def beside(self, *command: str) -> str:
        """Give what a command prints that runs in the daemon's name spaces."""
        inside = ["nsenter", "--target", str(self.process.pid), "--user", "--preserve-credentials", "--mount"]
        return subprocess.run([*inside, *command], capture_output=True, text=True, check=True).stdout

    @property
    def photos(self) -> Path:
        return self.tree / "photos"


def alone(commands: str) -> list[str]:
    return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", f'{commands}\nexec "$@"', "sh"]


def make_sandbox() -> Sandbox:
    return Sandbox(SandboxSettings(dialect="observed", api_key=KEY, folders={FOLDER: "photos"}))


@contextmanager
def daemons(folder: Path, sandbox: Sandbox) -> Iterator[Callable[..., Running]]:
    """Give what makes daemons of one site; keywords are sections of its configuration. All are ended at the end."""
    made: list[Running] = []

    def make(**sections: str) -> Running:
        made.append(Running(folder, sandbox, **sections))
        return made[-1]

    yield make
    for running in made:
        if running.process is not None and running.process.poll() is None:
            running.process.kill()
            running.process.wait()

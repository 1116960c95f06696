import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Self

import pytest
from pydantic import SecretStr

from assetsync.cli.entry import run
from assetsync.clock import SystemClock
from assetsync.config import load_config
from assetsync.ledger.ledger import open_ledger
from assetsync.parts import make_service, make_tree
from assetsync.sandbox import Sandbox, SandboxSettings
from assetsync.sync.context import Context
from assetsync.sync.requests.take import take_requests

KEY = "a-key-that-no-one-may-see"
PHOTOS = "A6CE649FAA5F434EB513CA15656AB5AA"
PAPERS = "0123456789ABCDEF0123456789ABCDEF"


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def only(self) -> dict[str, object]:
        (line,) = self.out.splitlines()
        return json.loads(line)

    @property
    def objects(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Site:
    """A tree, a configuration and a key in one folder, for a sandbox."""

    def __init__(self, folder: Path, sandbox: Sandbox, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.sandbox = sandbox
        self._capture = capture
        self._started: list[subprocess.Popen[str]] = []
        self.tree = folder / "tree"
        self.photos = self.tree / "photos"
        self.photos.mkdir(parents=True)
        self.ledger = folder / "site.db"
        self.key_file = folder / "key"
        self.key_file.touch(0o600)
        self.key_file.write_text(KEY)
        self.config = folder / "site.yaml"
        self.configure()

    def configure(
        self, *, base_url: str | None = None, upload_url: str | None = None, more: str = "", read_timeout: str = "20s"
    ) -> None:
        # A port that another test may have taken at the time is left alone.
        more = more if "status:" in more else f"status: {{listen: null}}\n{more}"
        text = f"""\
site: hq
root: {self.tree}
ledger: {self.ledger}
service:
  base_url: {base_url or self.sandbox.base_url}
  upload_url: {upload_url or self.sandbox.upload_url}
  api_key_file: {self.key_file}
  connect_timeout: 2s
  read_timeout: {read_timeout}
folders: [{{path: photos, destfolderid: "{PHOTOS}"}}]
watch: {{settle: 0s}}
{more}"""
        self.config.write_text(text)

    def nowhere(self) -> None:
        """Point the configuration to a port that nothing listens on."""
        self.configure(base_url="http://127.0.0.1:9/razuna", upload_url="http://127.0.0.1:9/index.cfm")

    def write(self, name: str | bytes, content: bytes = b"some bytes") -> Path:
        path = self.photos / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def run(self, command: str, *arguments: str) -> Result:
        """Run a command in this process."""
        self._capture.readouterr()
        # Where a command without --config reads the same file, the commands that people are shown leave it out.
        os.environ["ASSETSYNC_CONFIG"] = str(self.config)
        words = command.split()
        code = run([*words, "--config", str(self.config), *arguments])
        out, err = self._capture.readouterr()
        assert KEY not in out + err
        return Result(code, out, err)

    def upload_unseen(self, path: Path, folder: str = PHOTOS) -> str:
        """Upload a file as somebody else does, of which the site's ledger learns nothing; gives the asset's id."""
        other = self.folder / "other.yaml"
        other.write_text(self.config.read_text().replace(f"{self.ledger}", f"{self.folder / 'other.db'}"))
        self._capture.readouterr()
        assert run(["upload", "--config", str(other), "--folder", folder, "--json", str(path)]) == 0
        return str(json.loads(self._capture.readouterr().out)["assetid"])

    def start(self, command: str, *arguments: str) -> "subprocess.Popen[str]":
        """Start a command as a process of its own; it is ended with the test."""
        config = [] if command == "sandbox" else ["--config", str(self.config)]
        process = subprocess.Popen(
            [sys.executable, "-m", "assetsync", *command.split(), *config, *arguments],
            env={**os.environ, "ASSETSYNC_CONFIG": str(self.config)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def files(self) -> dict[str, str]:
        """What the ledger says: state by path."""
        return {str(row["path"]): str(row["state"]) for row in self.run("files", "--json").objects}

    def left_behind(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}


class Holder:
    """What holds a ledger and carries out what it is asked, as the daemon does; the first `most` requests alone."""

    def __init__(self, site: Site, most: int = 100) -> None:
        self._left = most
        config = load_config(site.config, {})
        self.ledger = open_ledger(config.ledger)
        self._service = make_service(config, SecretStr(KEY))
        self._context = Context(self.ledger, self._service, make_tree(config), SystemClock())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()
        self.ledger.close()
        self._service.close()

    def _run(self) -> None:
        while self._left > 0 and not self._stop.wait(0.05):
            self._left -= len(self.ledger.open_requests())
            take_requests(self._context)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    folders = {PHOTOS: "photos", PAPERS: "papers"}
    with Sandbox(SandboxSettings(dialect="observed", api_key=KEY, folders=folders)) as running:
        yield running


@pytest.fixture
def site(tmp_path: Path, sandbox: Sandbox, capsys: pytest.CaptureFixture[str]) -> Iterator[Site]:
    made = Site(tmp_path / "site", sandbox, capsys)
    yield made
    made.end()


@pytest.fixture
def make_site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Site]]:
    """Make a site for a sandbox of these settings."""
    with ExitStack() as open_ones:

        def make(**settings: object) -> Site:
            given = {"api_key": KEY, "folders": {PHOTOS: "photos", PAPERS: "papers"}} | settings
            running = open_ones.enter_context(Sandbox(SandboxSettings(**{"dialect": "observed"} | given)))
            made = Site(tmp_path / f"site-{running.port}", running, capsys)
            open_ones.callback(made.end)
            return made

        yield make


@pytest.fixture
def eventually() -> Callable[..., None]:
    def wait(happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not happened():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.02)

    return wait

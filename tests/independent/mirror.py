"""A site beside the independent service, run through the real command line alone."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.forks import call

from .service import KEY, Service

CONFIG = """\
site: hq
root: {root}
ledger: {ledger}
service: {{base_url: "{base_url}",
  upload_url: "{upload_url}",
  api_key_file: "{key}",
  read_timeout: 10s}}
folders:
{folders}
watch: {{settle: 0s}}
upload: {{doubt_grace: {grace}}}
schedule: {{index: {index}}}
"""


class Mirror:
    """A tree, a configuration and the commands on them.

    `mapped`: the service's folder for each folder of the tree; `through`: the words of a program to run commands with.
    """

    def __init__(
        self, base: Path, service: Service, mapped: dict[str, str], *, grace: str = "2s", index: str = "500ms"
    ):
        self.base, self.service = base, service
        self.through: list[str] = []
        self.root, self.config, self.key = base / "tree", base / "hq.yaml", base / "hq.key"
        self.root.mkdir()
        self.key.write_text(f"{KEY}\n")
        self.key.chmod(0o600)
        folders = "\n".join(f"  - {{path: {path}, destfolderid: {folder}}}" for path, folder in mapped.items())
        text = CONFIG.format(
            root=self.root,
            ledger=base / "hq.db",
            base_url=service.base_url,
            upload_url=service.upload_url,
            key=self.key,
            folders=folders,
            grace=grace,
            index=index,
        )
        self.config.write_text(text)

    def write(self, path: str, content: bytes | str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def command(self, *words: str) -> list[str]:
        return [*self.through, sys.executable, "-m", "assetsync", *words, "--config", str(self.config)]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSETSYNC_")}
        if not self.through:
            return call([*words, "--config", str(self.config)], env=environment, timeout=400)
        return subprocess.run(
            self.command(*words), capture_output=True, text=True, env=environment, timeout=400, check=False
        )

    def reconcile(self, *words: str, wait: str = "20s") -> tuple[int, dict[str, Any]]:
        """Run `reconcile --json`; give the exit code and the object."""
        done = self.run("reconcile", "--json", "--quiet", "--wait", wait, *words)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)

    def files(self) -> dict[str, dict[str, Any]]:
        """Give what `files --json` says of each path."""
        return {row["path"]: row for row in self._lines("files")}

    def orphans(self) -> list[dict[str, Any]]:
        return self._lines("orphans")

    def _lines(self, command: str) -> list[dict[str, Any]]:
        done = self.run(command, "--json")
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

"""Set up a demonstration in one folder: tree, configuration, key, ledger and a running sandbox.

The run uses the same parts as `assetsync reconcile`. Printing is left to the command.
"""

import os
import random
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from assetsync.app import build
from assetsync.clock import SystemClock
from assetsync.config import load_config, read_api_key
from assetsync.demo.sample import change_tree, make_tree
from assetsync.errors import UsageError
from assetsync.ledger.ledger import open_ledger, read_ledger
from assetsync.ledger.rows import FileRow
from assetsync.log import register_secret
from assetsync.parts import make_service
from assetsync.reconcile import Progress, Reconciler, Report
from assetsync.sandbox import Sandbox, SandboxSettings
from assetsync.text import printable

_PHOTOS = "A6CE649FAA5F434EB513CA15656AB5AA"
_DOCUMENTS = "0123456789ABCDEF0123456789ABCDEF"
_LONGEST_WAIT = 15.0

_CONFIG = """\
# Written by `assetsync demo`.
site: demo
root: {root}
ledger: {ledger}
service:
  base_url: {base_url}
  upload_url: {upload_url}
  api_key_file: {key}
folders:
  - path: photos
    destfolderid: "{photos}"
    metadata: {{keywords: [photo, "{{dirs}}"]}}
  - path: documents
    destfolderid: "{documents}"
watch: {{settle: 200ms}}
# The sandbox indexes within a second: reading back waits no longer than that for the index.
schedule: {{index: 1s}}
"""


class Stage:
    """The folder of a demonstration; the sandbox runs inside the `with` block."""

    def __init__(self, folder: Path) -> None:
        """Check the folder, which must be empty or not exist. Raise UsageError."""
        self.folder = folder.absolute()
        try:
            str(self.folder).encode("utf-8")
        except UnicodeEncodeError as exc:
            said = printable(os.fsencode(self.folder))
            raise UsageError(f"{said} cannot be written into a configuration (not UTF-8)", hint="name another") from exc
        with _working_in(self.folder):
            is_free = not self.folder.exists() or (self.folder.is_dir() and not any(self.folder.iterdir()))
        if not is_free:
            raise UsageError(f"{folder} is not an empty folder", hint="choose one that is not there yet")
        self.tree = self.folder / "tree"
        self.config_file = self.folder / "demo.yaml"
        self.ledger_file = self.folder / "demo.db"
        self._key_file = self.folder / "demo.key"
        self._key = secrets.token_hex(16)
        self._sandbox = Sandbox(
            SandboxSettings(
                dialect="observed",
                api_key=self._key,
                folders={_PHOTOS: "photos", _DOCUMENTS: "documents"},
                data_dir=self.folder / "service",
                processing_delay=0.3,
                index_delay=0.6,
            )
        )

    def __enter__(self) -> Self:
        with ExitStack() as started, _working_in(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            make_tree(self.tree)
            started.enter_context(self._sandbox)
            self._key_file.touch(mode=0o600)
            self._key_file.write_text(self._key, "ascii")
            text = _CONFIG.format(
                root=_quoted(self.tree),
                ledger=_quoted(self.ledger_file),
                base_url=self._sandbox.base_url,
                upload_url=self._sandbox.upload_url,
                key=_quoted(self._key_file),
                photos=_PHOTOS,
                documents=_DOCUMENTS,
            )
            self.config_file.write_text(text, "utf-8")
            started.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._sandbox.stop()

    @property
    def address(self) -> str:
        """The address of the sandbox's page, which shows the pictures."""
        return self._sandbox.address

    def reconcile(self, progress: Progress) -> Report:
        """Run once over the tree, as `assetsync reconcile` does, and return the report."""
        config = load_config(self.config_file, os.environ)
        key = read_api_key(config, {})
        register_secret(key)
        with (
            closing(make_service(config, key)) as service,
            closing(open_ledger(config.ledger, site=config.site)) as ledger,
        ):
            site = build(config, ledger, service, SystemClock(), random.SystemRandom())
            return Reconciler(site, wait=_LONGEST_WAIT, adopt=False, progress=progress).run()

    def change(self) -> list[str]:
        """Change the tree; return a sentence for each change."""
        with _working_in(self.folder):
            return change_tree(self.tree)

    def files(self) -> list[FileRow]:
        """Return the ledger's row of every path."""
        with closing(read_ledger(self.ledger_file)) as ledger:
            return list(ledger.reports.files())


def _quoted(path: Path) -> str:
    """Return any path as a YAML string; JSON would escape a character beyond U+FFFF as two."""
    return '"' + "".join(c if c.isalnum() or c in "/._- " else f"\\U{ord(c):08x}" for c in str(path)) + '"'


@contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise UsageError(
            f"The folder {folder} cannot be used ({exc.strerror})", hint="name another with --dir, or make room there"
        ) from exc

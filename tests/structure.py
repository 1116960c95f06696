"""Measure how much there is to read: `python -m tests.structure`.

Print the number of modules and lines, the median module, the private helpers with a single caller, the median length of
a test's name, and the modules and functions that one file passes from the watcher's event to `verified`.
"""

import ast
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

from pydantic import SecretStr

from assetsync.app import build
from assetsync.clock import SystemClock
from assetsync.config import load_config
from assetsync.daemon.work import Work
from assetsync.ledger.ledger import open_ledger
from assetsync.model import State
from assetsync.parts import make_service

from .running import FOLDER, KEY, make_sandbox

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "assetsync"
# The sandbox is the service, and structure is not asked of it.
APART = ("sandbox", "demo")
PATIENCE = 60.0


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def lines_of(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def single_caller_helpers() -> tuple[int, int]:
    """Count the private functions and methods that one place names, and all private ones."""
    single = private = 0
    for path in modules():
        tree = ast.parse(path.read_text("utf-8"))
        defined = [
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.name.startswith("_") and not node.name.startswith("__")
        ]
        named = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Name | ast.Attribute)
        )
        private += len(defined)
        single += sum(named[name] == 1 for name in defined)
    return single, private


def functions() -> int:
    return sum(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
    )


def name_lengths() -> list[int]:
    return [
        len(node.name)
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]


def one_file() -> tuple[set[str], set[CodeType]]:
    """Send one file through the daemon's steps, and return the modules and functions that it passed."""
    with tempfile.TemporaryDirectory() as base, make_sandbox() as sandbox:
        root = Path(base, "root")
        root.mkdir()
        written = Path(base, "site.yaml")
        written.write_text(
            f"site: one\nroot: {root}\nledger: {base}/one.db\n"
            f'service: {{base_url: "{sandbox.base_url}", upload_url: "{sandbox.upload_url}"}}\n'
            f'folders: [{{path: ., destfolderid: "{FOLDER}"}}]\n'
            "watch: {settle: 300ms}\nschedule: {index: 1s, verify: 1s}\nstatus: {listen: null}\n"
        )
        config = load_config(written, os.environ)
        ledger = open_ledger(config.ledger, site=config.site)
        service = make_service(config, SecretStr(KEY))
        site = build(config, ledger, service, SystemClock(), random.Random(1))
        work = Work(site, idle=0.2)
        work.begin()
        try:
            work.scan()
            site.service_identity.make_sure()
            passed: set[CodeType] = set()

            def note(frame: FrameType, event: str, _value: object) -> None:
                if event == "call":
                    passed.add(frame.f_code)

            threading.setprofile(note)
            sys.setprofile(note)
            (root / "photo.jpg").write_bytes(b"one photo")
            end = time.monotonic() + PATIENCE
            while ledger.reports.counts(time.time()).of(State.VERIFIED) == 0:
                if time.monotonic() > end:
                    raise TimeoutError("the file was not verified within a minute")
                work.look()
                work.send()
                work.read_back.want_index()
                work.read_back.step()
            sys.setprofile(None)
            threading.setprofile(None)
        finally:
            work.end()
            service.close()
            ledger.close()
    own = {code for code in passed if code.co_filename.startswith(str(PACKAGE))}
    kept = {code for code in own if Path(code.co_filename).relative_to(PACKAGE).parts[0] not in APART}
    return {code.co_filename for code in kept}, kept


def main() -> None:
    counts = [lines_of(path) for path in modules()]
    single, private = single_caller_helpers()
    names = name_lengths()
    print(f"modules {len(counts)}, lines {sum(counts):,}, median module {statistics.median(counts):.0f} lines")
    print(f"private helpers with one caller: {single} of {private}, {single / functions():.0%} of all functions")
    print(f"tests {len(names)}, median name {statistics.median(names):.0f} characters")
    passed, code = one_file()
    print(f"one file passes {len(passed)} modules and {len(code)} functions from close() to verified")


if __name__ == "__main__":
    main()

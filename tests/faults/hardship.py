"""What a daemon as a process has to bear: people at work in its tree, trouble in the service, and deaths of its own.

All of it is drawn from a seed; when it happens is the machine's affair, so that a seed is no schedule.
"""

import hashlib
import os
import random
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

from assetsync.ledger.ledger import read_ledger
from assetsync.sandbox import FaultKind, FaultRule, Operation, Sandbox
from tests.forks import call
from tests.running import KEY, Running

GRACE = 4.0
"""Seconds of `upload.doubt_grace`; what a trouble hides, or stores late, comes to light sooner."""

TROUBLES = [
    FaultRule(kind=FaultKind.ANSWER_LOST, operation=Operation.UPLOAD, probability=0.5),
    FaultRule(kind=FaultKind.ANSWER_CUT, operation=Operation.UPLOAD, probability=0.5),
    FaultRule(kind=FaultKind.ANSWER_CUT, probability=0.4),
    FaultRule(kind=FaultKind.STATUS, operation=Operation.UPLOAD, status=500, stored=True, probability=0.5),
    FaultRule(kind=FaultKind.STATUS, status=503, probability=0.5),
    FaultRule(kind=FaultKind.HTML, stored=True, probability=0.4),
    FaultRule(kind=FaultKind.TOO_MANY, seconds=1.0, probability=0.4),
    FaultRule(kind=FaultKind.HANG, operation=Operation.UPLOAD, seconds=6.0, probability=0.3),
    FaultRule(kind=FaultKind.HANG, operation=Operation.SEARCH, seconds=6.0, times=2),
    FaultRule(kind=FaultKind.LATENCY, seconds=0.5),
    FaultRule(kind=FaultKind.KEY_REFUSED, times=2),
    FaultRule(kind=FaultKind.SEARCH_DOWN),
    FaultRule(kind=FaultKind.DATABASE_DOWN, times=10),
    FaultRule(kind=FaultKind.NAMES_LOST, operation=Operation.UPLOAD, probability=0.3),
    FaultRule(kind=FaultKind.INVISIBLE, operation=Operation.UPLOAD, seconds=1.5, probability=0.5),
]


class People:
    """Work in a tree as people and programs do, and know what lies where."""

    def __init__(self, roots: list[Path], rng: random.Random) -> None:
        """Begin with empty folders, each mapped to another one of the service; what is written is always new."""
        self.lies: dict[Path, str] = {}
        """The MD5 of each file, in upper-case hex."""
        self.came: Counter[tuple[Path, str]] = Counter()
        """How many files of a content have come into a mapped folder: so many uploads of it are right."""
        self._roots = roots
        self._folders = list(roots)
        self._rng = rng
        self._numbers = 0
        self._works = {
            self._save: 18,
            self._copy: 4,
            self._link: 1,
            self._rename: 10,
            self._rename_folder: 2,
            self._overwrite: 5,
            self._replace: 3,
            self._delete: 3,
            self._make_folder: 3,
        }

    def work(self) -> None:
        """Do one thing, if there is anything to do it to."""
        [do] = self._rng.choices(list(self._works), list(self._works.values()))
        do()

    def _name(self, letter: str) -> str:
        self._numbers += 1
        return f"{letter}{self._numbers}.bin"

    def _some(self) -> Path | None:
        return self._rng.choice(list(self.lies)) if self.lies else None

    def _folder(self) -> Path:
        return self._rng.choice(self._folders)

    def _content(self, *sizes: int) -> bytes:
        return self._rng.randbytes(16) + self._rng.randbytes(self._rng.choice(sizes))

    def root_of(self, path: Path) -> Path:
        """Give the mapped folder that a file lies in."""
        return next(root for root in self._roots if path.is_relative_to(root))

    def lying(self) -> Counter[tuple[Path, str]]:
        """Count the files of each content in each mapped folder."""
        return Counter((self.root_of(path), md5) for path, md5 in self.lies.items())

    def _lies(self, path: Path, md5: str, was: Path | None = None) -> None:
        self.lies[path] = md5
        if was is None or self.root_of(was) != self.root_of(path):
            self.came[self.root_of(path), md5] += 1

    def _save(self) -> None:
        # Names that stand in several folders are the service's hardest: it knows no others.
        path = self._folder() / self._rng.choice(["a.jpg", "b c.jpg", *(self._name("f") for _ in range(6))])
        if path not in self.lies:
            data = self._content(1, 500, 9_000, 9_000, 100_000, 2_000_000, 9_000_000)
            path.write_bytes(data)
            self._lies(path, md5_of(data))

    def _copy(self) -> None:
        if (old := self._some()) is not None:
            self._lies(Path(shutil.copy2(old, self._folder() / self._name("c"))), self.lies[old])

    def _link(self) -> None:
        if (old := self._some()) is not None:
            new = self._folder() / self._name("l")
            os.link(old, new)
            self._lies(new, self.lies[old])

    def _rename(self) -> None:
        old = self._some()
        if old is None:
            return
        new = self._folder() / self._rng.choice([old.name, self._name("r")])
        if new not in self.lies:
            old.rename(new)
            self._lies(new, self.lies.pop(old), was=old)

    def _rename_folder(self) -> None:
        old, beside = self._folder(), self._folder()
        if old in self._roots or beside.is_relative_to(old):
            return
        new = beside / self._name("d")
        old.rename(new)

        def moved(path: Path) -> Path:
            return new / path.relative_to(old) if path.is_relative_to(old) else path

        self._folders = [moved(folder) for folder in self._folders]
        for path in [path for path in self.lies if path.is_relative_to(old)]:
            self._lies(moved(path), self.lies.pop(path), was=path)

    def _overwrite(self) -> None:
        path = self._some()
        # Through one name of two, the content of both would change.
        if path is not None and path.stat().st_nlink == 1:
            data = self._content(10, 9_000, 200_000)
            path.write_bytes(data)
            self._lies(path, md5_of(data))

    def _replace(self) -> None:
        if (path := self._some()) is not None:
            data = self._content(10, 9_000, 200_000)
            beside = path.with_name(f"{path.name}.part")
            beside.write_bytes(data)
            beside.replace(path)
            self._lies(path, md5_of(data))

    def _delete(self) -> None:
        if (path := self._some()) is not None:
            path.unlink()
            del self.lies[path]

    def _make_folder(self) -> None:
        if len(self._folders) < 12:
            folder = self._folder() / self._name("d")
            folder.mkdir()
            self._folders.append(folder)


def md5_of(data: bytes) -> str:
    return hashlib.md5(data).hexdigest().upper()


class Fate:
    """Brings trouble to the service, and ends and stops the daemon."""

    def __init__(self, running: Running, sandbox: Sandbox, rng: random.Random) -> None:
        self._running = running
        self._sandbox = sandbox
        self._rng = rng
        self._is_up = True
        self.came: list[str] = []
        """What it brought, in order."""
        self._works = {
            self._trouble: 8,
            self._relief: 10,
            self._kill: 3,
            self._end: 1,
            self._reload: 1,
            self._halt: 1,
            self._wait: 12,
        }

    def strike(self) -> None:
        """Let one thing happen, or a second pass."""
        [do] = self._rng.choices(list(self._works), list(self._works.values()))
        do()

    def end(self) -> None:
        """Let all be well again."""
        self._relief()

    def _trouble(self) -> None:
        rules = self._rng.sample(TROUBLES, self._rng.choice([1, 1, 2]))
        self._sandbox.set_faults(*rules)
        self.came += [str(rule.kind) for rule in rules]

    def _relief(self) -> None:
        self._sandbox.set_faults()

    def _start(self) -> None:
        # Sometimes what comes next meets it in the middle of its start.
        self._is_up = self._rng.random() < 0.5
        self._running.start(ready=self._is_up)

    def _kill(self) -> None:
        self._running.process.kill()
        self._running.process.wait()
        self.came.append("kill")
        time.sleep(self._rng.choice([0.0, 0.0, 1.0]))
        self._start()

    def _end(self) -> None:
        self._running.signal(signal.SIGTERM)
        self._running.process.wait(60)
        self.came.append("end")
        self._start()

    def _reload(self) -> None:
        if self._is_up:
            self._running.signal(signal.SIGHUP)
            self.came.append("reload")

    def _halt(self) -> None:
        self._running.signal(signal.SIGSTOP)
        time.sleep(self._rng.random() * 2)
        self._running.signal(signal.SIGCONT)
        self.came.append("halt")

    def _wait(self) -> None:
        time.sleep(self._rng.random())


def to_be_removed(running: Running) -> set[str]:
    """Give the ids of the assets that are shown to a person, after an audit, as having no file behind them."""
    environ = {**os.environ, "ASSETSYNC_API_KEY": KEY}
    audit = call(["audit", "--config", str(running.config)], env=environ, timeout=600)
    assert audit.returncode in (0, 1), audit.stderr
    ledger = read_ledger(running.ledger)
    try:
        return {orphan.assetid for orphan in ledger.reports.orphans(time.time())}
    finally:
        ledger.close()

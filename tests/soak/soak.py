"""A daemon and its service as processes, in the same cycle of work again and again.

The configuration is the default one, apart from short times. A cycle takes at least ten seconds:

- People do 25 things in the tree, five in each weather of the service, in a drawn order: it is fair, slow, answers an
  upload with 500, stores an upload and answers with 500, or is away. After each weather the page, `/status.json` and
  `/metrics` are read.
- The service is well until every file is verified, for at most eight seconds; a file in doubt may take until a later
  cycle. Then orphans are deleted in the service, as the guide advises: tree and service stay small.
- The daemon is idle for the rest of the cycle, and a sample is taken.

A run has two parts. In the first, the configuration is reloaded in each cycle, which shows what a reload leaves behind.
In the second there is no reload, because a reload closes what the daemon left open. Each part is judged by itself,
without its first samples. At the end every file is verified, SIGTERM ends the daemon, and the service is compared with
the tree.

Work and weather are drawn from a seed. When something happens is up to the machine, so a seed is no schedule.
"""

import json
import math
import random
import signal
import statistics
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from assetsync.ledger.ledger import read_ledger
from tests.faults.hardship import to_be_removed
from tests.running import daemons

from . import samples as sampling
from .samples import QUANTITIES, Sample, judge, slope
from .service import ServiceProcess
from .work import KINDS, LIES, Staff, weather

MAPPED = {"photos": "D0D0", "papers": "C0C0"}
CYCLE = 10.0
"""Seconds that a cycle takes at least."""
IDLE = 2.0
"""Seconds at the end of a cycle in which nothing happens, at least."""
REST = 8.0
"""Seconds that a cycle waits until every file is verified, at most."""
ACTIONS = 5
"""Things that people do in each weather."""
RELOADING = 0.4
"""The share of a run in which the configuration is reloaded."""
FEWEST = 5
"""Cycles of each part, also if the machine is so busy that they take longer than the part."""
WARM_UP = 0.2
"""The share of the samples of each part that is not judged."""
PATIENCE = 300.0
"""Seconds until every file is verified at the end."""
HOUR = 3600.0
ROOT_ONLY = "only root may count the descriptors of a process that holds a key"


class SoakFailed(Exception):
    """The daemon ended, or did not do in time what it has to, or tree and service differ."""


class Log:
    """The daemon's log, read on as it grows."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self.lines = 0
        self.events: Counter[str] = Counter()
        self.bad: list[str] = []
        """Lines that hold a traceback, are critical, or are no JSON."""
        self.port = 0

    def read_on(self) -> None:
        """Read the lines that were written since the last call."""
        while line := self._file.readline():
            if not line.endswith(b"\n"):
                self._file.seek(-len(line), 1)
                return
            self.lines += 1
            try:
                event = json.loads(line)
            except ValueError:
                event = {}
            if not event or b"Traceback" in line or event.get("level") == "critical":
                self.bad.append(line.decode("utf-8", "replace"))
            self.events[event.get("event", "")] += 1
            if event.get("event") == "status page":
                self.port = event["port"]

    def close(self) -> None:
        self._file.close()


class Soak:
    """One run. `failures` has what went wrong, `parts` the samples of each part."""

    def __init__(self, folder: Path, seed: int, say: Callable[[str], None], *, lying: bool = False) -> None:
        """Prepare the folder of a run; `say` receives lines, one a minute and some at the end.

        With `lying`, the searches of the service lie in each weather, in one way a cycle.
        """
        self._rng = random.Random(seed)
        self._lies_rng = random.Random(f"lies of {seed}") if lying else None
        self._folder = folder
        self._say = say
        self._said_at = 0.0
        self.parts: dict[str, list[Sample]] = {"with reloads": [], "without reloads": []}
        self.failures: list[str] = []
        self._deleted: Counter[tuple[str, str]] = Counter()

    def run(self, seconds: float, *, broken: str = "") -> None:
        """Run for so long, and a little longer until all is verified; `broken` are lines of Python that spoil it."""
        self._service = ServiceProcess(self._folder / "service", {number: name for name, number in MAPPED.items()})
        try:
            self._service.start()
            with daemons(self._folder, self._service) as make:
                self._running = make(**self._sections(0))
                roots = [self._running.tree / name for name in MAPPED]
                outside = self._folder / "outside"
                for folder in (*roots, outside):
                    folder.mkdir(exist_ok=True)
                self._staff = Staff(roots, outside, self._rng)
                self._running.start(broken=broken, loaded=False)
                self._run(seconds)
        finally:
            self._service.kill()

    def _sections(self, reloads: int) -> dict[str, str]:
        return {
            "schedule": "{rescan: 5s, index: 1s, verify: 1s, audit: 7s}",
            # Whoever moves a folder out of a small tree takes most of its files along; nobody is there to resume.
            "brake": "{max_vanished_share: 100%}",
            # A longer gap between two look-ups begins the grace anew, and a busy machine has gaps of seconds.
            "upload": "{doubt_grace: 5s, lookup_lag: 0s}",
            "status": '{listen: "127.0.0.1:0"}',
            "folders": json.dumps([{"path": name, "destfolderid": number} for name, number in MAPPED.items()]),
            "ignore": '["*.draft"]' if reloads % 2 else "[]",
        }

    def _run(self, seconds: float) -> None:
        self._log = Log(self._running.log)
        self._began = time.monotonic()
        try:
            for part, until in (("with reloads", seconds * RELOADING), ("without reloads", seconds)):
                while self._elapsed() < until or len(self.parts[part]) < FEWEST:
                    self.parts[part].append(self._cycle(part))
                    self._report(part)
            self._end()
        except SoakFailed as failure:
            self.failures.append(str(failure))
        finally:
            self._log.close()
        for part, taken in self.parts.items():
            if len(measured := after_warm_up(taken)) > 1:
                self.failures += [f"{part}, {message}" for message in judge(measured)]

    def _cycle(self, part: str) -> Sample:
        """Let a cycle pass, and return the sample at its end."""
        began = time.monotonic()
        self._log.read_on()
        lines, requests = self._log.lines, self._service.requests()
        if part == "with reloads":
            self._reload()
        lies = self._lies_rng.choice(LIES) if self._lies_rng else ()
        for kind in self._rng.sample(KINDS, len(KINDS)):
            with weather(kind, self._service, lies):
                for _ in range(ACTIONS):
                    self._staff.work()
                    time.sleep(self._rng.random() * 0.2)
            self._read_page()
        self._staff.tidy()
        if self._comes_to_rest(REST):
            self._delete_orphans()
        time.sleep(max(IDLE, began + CYCLE - time.monotonic()))
        self._must_run()
        return self._sample(lines, requests)

    def _sample(self, lines: int, requests: int) -> Sample:
        pid = self._running.process.pid
        self._log.read_on()
        targets = sampling.descriptors(pid)
        log = Path(f"{self._running.ledger}-wal")
        values = {
            "descriptors": targets.total(),
            "threads": sampling.threads(pid),
            "memory": sampling.memory(pid),
            "ledger": sampling.ledger_bytes(self._running.ledger),
            "write-ahead log": log.stat().st_size if log.exists() else 0,
            "lines a cycle": self._log.lines - lines,
            "requests a cycle": self._service.requests() - requests,
        }
        return Sample(self._elapsed(), self._staff.came.total(), values, targets)

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _must_run(self) -> None:
        """Raise SoakFailed if the daemon has ended."""
        if (code := self._running.process.poll()) is not None:
            raise SoakFailed(f"the daemon ended with exit code {code}:\n{self._running.log.read_text('utf-8')[-3000:]}")

    def _waits(self, true: Callable[[], bool], seconds: float) -> bool:
        """Return whether something comes true within so many seconds."""
        end = time.monotonic() + seconds
        while not (is_true := true()) and time.monotonic() < end:
            self._must_run()
            time.sleep(0.2)
        return is_true

    def _comes_to_rest(self, seconds: float) -> bool:
        wanted = {str(path.relative_to(self._running.tree)): "verified" for path in self._staff.in_tree()}
        return self._waits(lambda: self._running.states() == wanted, seconds)

    def _reload(self) -> None:
        done = self._log.events["configuration reloaded"]
        self._running.write_config(**self._sections(done + 1))
        self._running.signal(signal.SIGHUP)

        def is_done() -> bool:
            self._log.read_on()
            return self._log.events["configuration reloaded"] > done and self._log.events["status page"] > done + 1

        if not self._waits(is_done, 60):
            raise SoakFailed("a reload takes longer than a minute")

    def _read_page(self) -> None:
        self._log.read_on()
        for path in ("/", "/status.json", "/metrics"):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self._log.port}{path}", timeout=60) as answer:
                    answer.read()
            except OSError as error:
                self._must_run()
                raise SoakFailed(f"{path} is not answered: {error}") from error

    def _orphans(self) -> set[str]:
        ledger = read_ledger(self._running.ledger)
        try:
            return {orphan.assetid for orphan in ledger.reports.orphans(time.time())}
        finally:
            ledger.close()

    def _delete_orphans(self) -> None:
        """Delete in the service what no file needs, neither in the tree nor outside."""
        orphans = self._orphans()
        for asset in self._service.assets():
            if asset["id"] in orphans and not self._staff.wants(asset["md5"]):
                self._service.delete(asset["id"])
                self._deleted[asset["folder_id"], asset["md5"]] += 1

    def _report(self, part: str) -> None:
        if self._elapsed() - self._said_at >= 60:
            self._said_at = self._elapsed()
            sample = self.parts[part][-1]
            shown = ", ".join(
                f"{quantity.name} {sample.values[quantity.name] / quantity.scale:.4g}" for quantity in QUANTITIES
            )
            self._say(f"{sample.seconds:6.0f} s, {part}, {sample.files} files: {shown}")

    def _end(self) -> None:
        """Stop the daemon once every file is verified, and compare tree and service; raise SoakFailed."""
        if not self._comes_to_rest(PATIENCE):
            raise SoakFailed(f"not verified within {PATIENCE:.0f} s: {self._running.waiting()}")
        self._say(f"{self._elapsed():6.0f} s: every file is verified")
        # The upload of a file that has gone may still be in doubt; it is an orphan after that.
        self._waits(lambda: not self._difference(self._orphans()), PATIENCE)
        code = self._running.stop()
        self._log.read_on()
        if (code, self._log.bad) != (0, []):
            raise SoakFailed(f"SIGTERM ended it with {code}; in the log: {self._log.bad[:5]}")
        self._say(f"{self._elapsed():6.0f} s: SIGTERM ended it with 0")
        if difference := self._difference(to_be_removed(self._running)):
            raise SoakFailed(difference)

    def _difference(self, orphans: set[str]) -> str:
        """Return "" if each file has exactly one asset, each other asset is an orphan, and no upload was repeated."""
        assets = self._service.assets()
        stored = Counter((asset["folder_id"], asset["md5"]) for asset in assets)
        owned = Counter((asset["folder_id"], asset["md5"]) for asset in assets if asset["id"] not in orphans)
        lying, came = (
            Counter({(MAPPED[root.name], md5): count for (root, md5), count in files.items()})
            for files in (self._staff.lying(), self._staff.came)
        )
        # What is cut off a file has a content that never came.
        twice = {key: count for key, count in (stored + self._deleted).items() if key in came and count > came[key]}
        if (owned, twice) == (lying, {}):
            return ""
        return f"lost {lying - owned}, assets without a file {owned - lying}, stored too often {twice}"


def after_warm_up(taken: Sequence[Sample]) -> Sequence[Sample]:
    """Return the samples of a part that are judged."""
    return taken[math.ceil(len(taken) * WARM_UP) :]


def figures(taken: Sequence[Sample]) -> str:
    """Return a Markdown table: medians of the first and last hour (of a short part: quarter), and the slope."""
    measured = after_warm_up(taken)
    begin, end = measured[0].seconds, measured[-1].seconds
    window = min(HOUR, (end - begin) / 4)
    name = "hour" if window == HOUR else "quarter"
    first = [sample for sample in measured if sample.seconds <= begin + window]
    last = [sample for sample in measured if sample.seconds >= end - window]
    lines = [f"| quantity | first {name} | last {name} | slope |", "|---|---|---|---|"]
    for quantity in QUANTITIES:
        before, after = (
            statistics.median(sample.values[quantity.name] for sample in chosen) / quantity.scale
            for chosen in (first, last)
        )
        steepness = slope(measured, quantity).median / quantity.scale
        per = f"{steepness:+.2f} a file" if quantity.by == "files" else f"{steepness * HOUR:+.2f} an hour"
        unit = f", {quantity.unit}" if quantity.unit else ""
        lines.append(f"| {quantity.name}{unit} | {before:,.1f} | {after:,.1f} | {per} |")
    return "\n".join(lines)

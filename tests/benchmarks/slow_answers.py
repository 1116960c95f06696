"""Uploads that are bound by the service's answers, at 20, 100 and 300 a second, while the index lags.

Beside it what the machine allows: as many threads that post ready bodies over bare connections, and do nothing else.
Both are counted at the service from the first upload to the last, and so without the start of the program. The median
of the rounds is what is quoted: a disk that takes a third of a second for one commit costs its round two in a hundred.
"""

import os
import threading
from http.client import HTTPConnection
from statistics import median
from typing import NamedTuple

from tests.benchmarks.frame import Bench, Run, Table, alternately, call
from tests.benchmarks.loops import FORM_TYPE, form
from tests.benchmarks.sink import sink
from tests.benchmarks.small_uploads import SIZE, by_assetsync, make_files, told


class Case(NamedTuple):
    """Uploads a second, by how many workers, for how many seconds; the seconds by which the index lags."""

    rate: int
    workers: int
    seconds: int
    lag: int
    rounds: int

    @property
    def delay(self) -> float:
        return self.workers / self.rate


_CASES = (
    # Longer than the lag, so that assets are read back while others are sent.
    Case(20, 4, 15, 8, rounds=1),
    Case(100, 4, 12, 8, rounds=2),
    Case(300, 16, 12, 8, rounds=3),
    Case(100, 4, 70, 60, rounds=1),
)


def bare_threads(port: int, workers: int, count: int) -> None:
    body = form("f.bin", os.urandom(SIZE))

    def post(uploads: int) -> None:
        connection = HTTPConnection("127.0.0.1", port)
        for _ in range(uploads):
            connection.request("POST", "/upload", body, FORM_TYPE)
            connection.getresponse().read()
        connection.close()

    threads = [threading.Thread(target=post, args=(len(range(n, count, workers)),)) for n in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def by_bare_threads(case: Case, count: int) -> Run:
    with sink(delay=case.delay) as service:
        return told(call("slow_answers:bare_threads", service.port, case.workers, count), service, count)


def run(bench: Bench) -> list[Table]:
    rows = []
    for case in _CASES:
        count = case.rate * bench.size(case.seconds, 1)
        root = bench.scratch / f"{case.rate}-{case.lag}"
        make_files(root, count)
        lag = bench.size(case.lag, 1)
        runs = alternately(
            {
                "bare": lambda case=case, count=count: by_bare_threads(case, count),
                "assetsync": lambda case=case, root=root, lag=lag: by_assetsync(
                    bench.scratch, root, workers=case.workers, delay=case.delay, lag=lag, wait="0s"
                ),
            },
            bench.size(case.rounds, 1),
        )
        bare, ours = ([each.said["POSTs/s"] for each in runs[name]] for name in ("bare", "assetsync"))
        shares = sorted(mine / theirs for mine, theirs in zip(ours, bare, strict=True))
        said = runs["assetsync"][-1].said
        rows.append(
            [
                *(f"{case.rate}", f"{case.workers}", f"{1000 * case.delay:.0f}", f"{lag}", f"{count}"),
                *(f"{median(bare):.1f}", f"{median(ours):.1f}", f"{median(shares):.1%}", f"{shares[0]:.1%}"),
                *(f"{said['commits'] / count:.3f}", f"{said['searches'] / count:.3f}"),
            ]
        )
    columns = (
        *("uploads/s", "workers", "answer ms", "index lag s", "files", "bare threads/s", "assetsync/s", "share"),
        *("lowest share", "commits a file", "searches a file"),
    )
    notes = ["assetsync ends after its uploads: what it reads back while it sends is in the figures, the rest is not."]
    return [Table("Uploads bound by the service", columns, rows, notes)]

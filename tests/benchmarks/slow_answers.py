"""Uploads to a service that takes 50 ms for each, by 16 workers: the share of workers ÷ latency that is reached.

Counted at the service from the first upload to the last, and so without the start of the program.
"""

from tests.benchmarks.frame import Bench, Table
from tests.benchmarks.small_uploads import by_assetsync, make_files

_DELAY = 0.05
_WORKERS = 16


def run(bench: Bench) -> list[Table]:
    root = bench.scratch / "tree"
    make_files(root, bench.size(3200, 320))
    rows = []
    for _ in range(bench.size(3, 1)):
        done = by_assetsync(bench.scratch, root, workers=_WORKERS, delay=_DELAY)
        rate = done.said["POSTs/s"]
        rows.append([f"{rate:.0f}", f"{rate * _DELAY / _WORKERS:.1%}", f"{done.seconds:.2f}", f"{done.cpu:.2f}"])
    return [Table("50 ms a request, 16 workers", ["uploads/s", "of workers ÷ latency", "seconds", "CPU s"], rows)]

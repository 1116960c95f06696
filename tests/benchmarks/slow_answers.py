"""Uploads to a service that takes 50 ms for each, by 16 workers: the share of workers ÷ latency that is reached.

Counted at the service from the first upload to the last, and so without the start of the program. Beside it the most
that the machine allows: 16 threads that post ready bodies over bare connections, and do nothing else. The median of
the rounds is what is quoted: a disk that takes a third of a second for one commit costs its round three in a hundred.
"""

import os
import threading
from http.client import HTTPConnection
from statistics import median

from tests.benchmarks.frame import Bench, Run, Table, call
from tests.benchmarks.serving import FOLDER, serving
from tests.benchmarks.small_uploads import SIZE, by_assetsync, make_files, told

_DELAY = 0.05
_WORKERS = 16


def bare_threads(port: int, count: int) -> None:
    fields = f'--B\r\nContent-Disposition: form-data; name="destfolderid"\r\n\r\n{FOLDER}\r\n--B\r\n'
    file = 'Content-Disposition: form-data; name="filedata"; filename="f.bin"\r\n\r\n'
    body = (fields + file).encode() + os.urandom(SIZE) + b"\r\n--B--\r\n"

    def post() -> None:
        connection = HTTPConnection("127.0.0.1", port)
        for _ in range(count // _WORKERS):
            connection.request("POST", "/upload", body, {"Content-Type": "multipart/form-data; boundary=B"})
            connection.getresponse().read()

    threads = [threading.Thread(target=post) for _ in range(_WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def by_bare_threads(count: int) -> Run:
    with serving(delay=_DELAY) as peer:
        run = call("slow_answers:bare_threads", peer.port, count)
        return told(run, peer.counted())


def run(bench: Bench) -> list[Table]:
    root = bench.scratch / "tree"
    count = bench.size(3200, 320)
    make_files(root, count)
    rows = []
    shares: dict[str, list[float]] = {}
    for _ in range(bench.size(5, 1)):
        for name, done in (
            ("bare threads", by_bare_threads(count)),
            ("assetsync", by_assetsync(bench.scratch, root, workers=_WORKERS, delay=_DELAY)),
        ):
            rate = done.said["POSTs/s"]
            share = rate * _DELAY / _WORKERS
            shares.setdefault(name, []).append(share)
            rows.append([name, f"{rate:.0f}", f"{share:.1%}", f"{done.seconds:.2f}", f"{done.cpu:.2f}"])
    columns = ["what", "uploads/s", "of workers ÷ latency", "seconds", "CPU s"]
    notes = [f"{name}: {median(of):.1%} in the median." for name, of in shares.items()]
    return [Table("50 ms a request, 16 workers", columns, rows, notes)]

"""A process killed in the middle of a body: every file is there once, and what the cut left is listed."""

import os
import signal
import subprocess
import time
from collections.abc import Callable

import pytest

from .dialect import DOCUMENTED, OBSERVED, Dialect
from .mirror import Mirror

LARGE = 20_000_000


@pytest.mark.parametrize(
    ("dialect", "why"), [(OBSERVED, "damaged"), (DOCUMENTED, "suspected")], ids=["observed", "documented"]
)
def test_kill_amid_large_file_loses_nothing(make_mirror: Callable[..., Mirror], dialect: Dialect, why: str) -> None:
    """The cut asset stays in the service, is listed as an orphan, and is taken for no file."""
    mirror = make_mirror(dialect)
    service = mirror.service
    for number in range(8):
        mirror.write(f"d/{number}.txt", f"small {number}")
    mirror.write("large.jpg", os.urandom(LARGE))
    service.slow = 0.02
    process = subprocess.Popen(
        mirror.command("reconcile", "--quiet"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert service.midway.wait(60)
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    service.slow = 0.0
    deadline = time.monotonic() + 60
    while not (cut := [asset for asset in service.assets if not asset.whole]) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [asset.name for asset in cut] == ["large.jpg"]
    assert 0 < cut[0].size < LARGE

    # The upload counts as having lasted until this start, and its grace is five times that.
    code, told = mirror.reconcile(wait="5m")
    assert (code, told["verified"], told["in_doubt"], told["in_sync"]) == (0, 9, 0, True)
    files = mirror.files()
    whole = sorted((asset.name, asset.id) for asset in service.assets if asset.whole)
    assert whole == sorted((path.rpartition("/")[2], row["assetid"]) for path, row in files.items())
    assert [asset for asset in service.assets if not asset.whole] == cut
    assert [(row["assetid"], row["path"], row["why"]) for row in mirror.orphans()] == [(cut[0].id, "large.jpg", why)]

"""Whatever happens around it, the daemon does not grow; and the judge of that finds what grows."""

import os
import random
import socket
from collections import Counter

import pytest

from .samples import QUANTITIES, Sample, descriptors, judge
from .soak import ROOT_ONLY, Soak

_LEAK = """
import os, threading, time
def leak():
    while True:
        time.sleep(2.5)
        os.open("/dev/null", os.O_RDONLY)
threading.Thread(target=leak, daemon=True).start()
"""

STEADY = {quantity.name: 1000.0 for quantity in QUANTITIES}


@pytest.fixture
def soak(tmp_path):
    seed = int(os.environ.get("ASSETSYNC_SEED") or 20261126)
    print(f"seed {seed}")
    return Soak(tmp_path, seed, print)


@pytest.mark.skipif(os.geteuid() != 0, reason=ROOT_ONLY)
def test_nothing_grows(soak, request):
    """For 80 seconds; with --long for ten minutes."""
    soak.run(600 if request.config.getoption("--long") else 80)
    if soak.failures:
        pytest.fail("\n".join(soak.failures), pytrace=False)


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason=ROOT_ONLY)
def test_leak_of_24_a_minute_is_found(soak):
    soak.run(120, broken=_LEAK)
    # The descriptors of a thread outlast a reload, so that both parts may find them.
    assert {failure.partition(" grow: ")[0] for failure in soak.failures} >= {"without reloads, descriptors"}
    assert " /dev/null" in soak.failures[-1]


def taken(name, values, targets=()):
    """Return a sample every ten seconds, after each of which five more files came."""
    return [
        Sample(10.0 * number, 5 * number, STEADY | {name: value}, Counter({"/d.db": round(value), **dict(targets)}))
        for number, value in enumerate(values)
    ]


def most(quantity):
    """Return the most that a quantity may gain from one of eight samples to the next."""
    return quantity.gain * 5 if quantity.by == "files" else (quantity.gain + quantity.share * 1000) / 7


@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda quantity: quantity.name)
def test_growth_over_what_is_allowed_fails(quantity):
    step = most(quantity)
    noise = [0, 0.3, -0.2, 0.4, 0, -0.3, 0.2, 0]
    (message,) = judge(taken(quantity.name, [1000 + step * (3 * n + noise[n]) for n in range(8)]))
    assert message.startswith(f"{quantity.name} grow: +")
    assert judge(taken(quantity.name, [1000 + step * (n / 2 + noise[n]) for n in range(8)])) == []
    assert judge(taken(quantity.name, [1000 - step * (3 * n + noise[n]) for n in range(8)])) == []


@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda quantity: quantity.name)
def test_level_and_outliers_pass(quantity):
    peaks = [1000.0] * 8
    peaks[5] = peaks[7] = 1e9
    assert judge(taken(quantity.name, peaks)) == []


def test_few_samples_must_all_rise():
    grows = [20, 120, 220, 320]
    assert judge(taken("requests a cycle", grows)) != []
    assert judge(taken("requests a cycle", [*grows[:2], 20, 320])) == []


def test_many_samples_may_scatter():
    rng = random.Random(1)
    assert judge(taken("requests a cycle", [rng.uniform(0, 200) + 2 * n for n in range(200)])) != []
    assert judge(taken("requests a cycle", [rng.uniform(0, 200) for _ in range(200)])) == []


def test_message_names_what_grew():
    (message,) = judge(taken("descriptors", range(20, 100, 10), targets={"socket": 7}))
    first, *others = message.splitlines()
    assert first == "descriptors grow: +60.00 a minute, +70.00 in 70 s, allowed are +6.00"
    assert others == ["  samples: 20 30 40 50 60 70 80 90", "  +70 /d.db"]


def test_descriptors_are_counted_by_target(tmp_path):
    path = tmp_path / "held"
    with path.open("wb"), path.open("rb"), socket.socket():
        held = descriptors(os.getpid())
    assert held[str(path)] == 2
    assert held["socket"] >= 1

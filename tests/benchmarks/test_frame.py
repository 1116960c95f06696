"""The frame of the benchmarks: its figures are those of what it ran."""

import subprocess
import sys

import pytest

from .__main__ import benchmarks
from .frame import ROOT, Run, Table, alternately, beside, best, call, command, exponent


def test_peak_excludes_the_measuring_process():
    held = bytearray(b"x") * (64 << 20)
    assert command(sys.executable, "-I", "-S", "-c", "pass").rss < 40
    assert command(sys.executable, "-I", "-S", "-c", "b = bytearray(b'x') * (64 << 20)").rss > 64
    assert len(held)


def test_failing_command_reports_its_output():
    with pytest.raises(RuntimeError, match=r"ended with 3: no luck"):
        command(sys.executable, "-c", "import sys; sys.stderr.write('no luck'); sys.exit(3)")


def test_function_run_excludes_start_up_time():
    run = call("frame:exponent_of", 10, 20)
    # Starting Python takes longer. A busy machine prolongs the wall time only.
    assert run.cpu < 0.01
    assert run.said == {"exponent": 1.0}


def test_peers_run_in_turn():
    order = []
    peers = {name: lambda name=name: order.append(name) or Run(len(order), 0, 0) for name in "ab"}
    runs = alternately(peers, rounds=2)
    assert order == ["a", "b", "a", "b"]
    assert [run.seconds for run in runs["a"]] == [1, 3]
    assert best(runs["b"]).seconds == 2


def test_a_table_tells_the_ratio_to_the_peer():
    runs = {"find": [Run(3, 1, 9), Run(2, 1, 8)], "scan": [Run(5, 4, 30, {"files": 7})]}
    table = beside("Scan", runs, "find", said=["files"])
    assert list(table.rows) == [
        ["find", "2.000", "1.00", "9", "1.00", ""],
        ["scan", "5.000", "4.00", "30", "2.50", "7.0"],
    ]
    assert str(Table("T", ["a", "b"], [["1", "22"]])) == "### T\n\n| a | b  |\n|---|----|\n| 1 | 22 |\n"


@pytest.mark.parametrize(("cost", "power"), [(10, 1), (100, 2), (1, 0)])
def test_growth_is_told_as_a_power(cost, power):
    assert exponent((10, 1), (100, cost)) == pytest.approx(power)


def test_benchmark_describes_its_measurement():
    assert "idle_daemon" in benchmarks()
    assert all(benchmarks().values())


def test_benchmark_command_prints_a_table(tmp_path):
    argv = [sys.executable, "-m", "tests.benchmarks", "first_sight", "--small", "--scratch", str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "| assetsync " in done.stdout
    assert list(tmp_path.iterdir()) == []

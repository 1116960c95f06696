"""Slices of test cases that only `--long` runs all of.

The seed picks the slice: `$ASSETSYNC_SEED`, else a fixed one. Consecutive seeds, as many as there are slices, cover all
cases. The end of a run names the slices.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest
from _pytest.terminal import TerminalReporter

SEED = int(os.environ.get("ASSETSYNC_SEED") or 20261121)

_T = TypeVar("_T")


def sliced(cases: Sequence[_T], slices: int, request: pytest.FixtureRequest) -> Sequence[_T]:
    """Return the cases of this seed's slice, or all of them with `--long`."""
    if request.config.getoption("--long"):
        return cases
    file = request.node.nodeid.partition("::")[0]
    slice_name = f"slice {SEED % slices + 1} of {slices} of {file} (seed {SEED}); --long runs all"
    request.node.user_properties.append(("slice", slice_name))
    return cases[SEED % slices :: slices]


def skip_outside(case: _T, cases: Sequence[_T], slices: int, request: pytest.FixtureRequest) -> None:
    """Skip the running test if its case is outside this seed's slice of all cases."""
    if case not in sliced(cases, slices, request):
        pytest.skip("outside the slice; run with --long")


def name_slices(terminal: TerminalReporter) -> None:
    """Print which slices the tests of this run took."""
    reports = [report for reports in terminal.stats.values() for report in reports]
    properties = {entry for report in reports for entry in getattr(report, "user_properties", ())}
    for slice_name in sorted(value for name, value in properties if name == "slice"):
        terminal.write_line(slice_name)

"""Every commit of a small run fails, or is the last thing that the process does: the next start converges.

The run goes through first contact, uploads, a lost answer and its look-ups, a cut, a rename, a change and reading back.
Without `--long`, a slice of the commits fails (`tests/slices.py`).
"""

import tempfile
from pathlib import Path

import pytest

from tests.slices import sliced

from .sim_actions import Actions
from .sim_end import judge, quiet
from .sim_run import in_memory
from .sim_schedule import Action, Variant
from .simulation import Simulation, heard, simulated_bodies

ALL = 1_000_000
SLICES = 16
SCRIPT = (
    Action("file", ("write", "a/x.txt", 2)),
    Action("file", ("write", "b/x.txt", 2)),
    Action("file", ("write", "c/y.txt", 6)),
    Action("scan", (ALL,)),
    Action("plan", ("lost_after", 0, 2.0, False)),
    Action("plan", ("cut", 50, 0.0, False)),
    Action("live", (8,)),
    Action("file", ("rename", "a/x.txt", "a/y.txt")),
    Action("file", ("write", "b/x.txt", 4)),
    Action("scan", (ALL,)),
    Action("live", (4,)),
    Action("audit", (ALL,)),
)


@pytest.fixture
def simulate(tmp_path_factory):
    """Run the script with a commit that fails; gives the number of commits before the end of the script."""

    def run(commit: int, how: str, *, one_shot: bool) -> int:
        # Another for each run, also beside other workers of the tests.
        made = tempfile.mkdtemp(prefix="assetsync-writes-", dir=in_memory() or tmp_path_factory.getbasetemp())
        folder = Path(made) / "site"
        with simulated_bodies():
            simulation = Simulation(folder, Variant(one_shot=one_shot))
            simulation.bad_commit = (commit, how)
            try:
                with heard(simulation):
                    actions = Actions(simulation)
                    for action in SCRIPT:
                        actions.do(action)
                    commits = simulation.commits
                    quiet(simulation)
                    judge(simulation)
            finally:
                simulation.close()
                folder.parent.rmdir()
        return commits

    return run


@pytest.mark.parametrize("one_shot", [True, False], ids=["reconcile", "daemon"])
@pytest.mark.parametrize("how", ["fails", "dies before", "dies after"])
def test_start_converges_after_a_failed_commit(simulate, how, one_shot, request):
    total = simulate(-1, how, one_shot=one_shot)
    assert total > 30, "the number of commits"
    commits = sliced(range(1, total + 1), SLICES, request)
    print(f"{how}: {len(commits)} of {total} commits")
    for commit in commits:
        simulate(commit, how, one_shot=one_shot)

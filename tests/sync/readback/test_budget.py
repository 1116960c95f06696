"""Reading back takes at most a tenth of the time while files can be sent."""

import pytest

from assetsync.sync.readback.budget import Budget


def take(budget: Budget, clock, seconds: float) -> None:
    with budget.step():
        clock.advance(seconds)


@pytest.mark.parametrize(("took", "pause"), [(0.0, 0.0), (0.5, 4.5), (2.0, 18.0), (100.0, 300.0)])
def test_pause_is_nine_times_the_step(clock, took, pause):
    budget = Budget(clock.steady)
    take(budget, clock, took)
    assert budget.rest() == pytest.approx(pause)
    clock.advance(pause)
    assert budget.rest() == 0.0


def test_pauses_of_two_steps_add_up(clock):
    budget = Budget(clock.steady)
    take(budget, clock, 1.0)
    take(budget, clock, 1.0)
    assert budget.rest() == pytest.approx(17.0)


def test_failed_step_is_counted(clock):
    budget = Budget(clock.steady)

    def fail() -> None:
        with budget.step():
            clock.advance(2.0)
            raise OSError("down")

    with pytest.raises(OSError, match="down"):
        fail()
    assert budget.rest() == pytest.approx(18.0)

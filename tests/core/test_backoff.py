"""How long to wait after failures."""

import pytest

from assetsync.core.backoff import LONGEST, delay


@pytest.mark.parametrize(
    ("failures", "least", "most"),
    [
        (0, 0.5, 1),
        (1, 0.5, 1),
        (2, 1, 2),
        (3, 2, 4),
        (10, 256, 512),
        (11, 450, 900),
        (12, 450, 900),
        (10_000, 450, 900),
    ],
)
def test_the_wait_doubles_up_to_a_limit_and_is_spread_over_its_upper_half(failures, least, most):
    assert delay(failures, 0.0) == least
    assert most * 0.99 < delay(failures, 0.999) <= most


def test_the_limit_and_the_first_wait_can_be_given():
    assert delay(1, 0.0, first=4) == 2
    assert delay(50, 0.0, longest=60) == 30
    assert LONGEST == 900

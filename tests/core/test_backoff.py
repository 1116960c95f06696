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
def test_wait_doubles_to_limit_with_jitter(failures, least, most):
    assert delay(failures, 0.0) == least
    assert most * 0.99 < delay(failures, 0.999) <= most


def test_limit_and_first_wait_can_be_set():
    assert delay(1, 0.0, first=4) == 2
    assert delay(50, 0.0, longest=60) == 30
    assert LONGEST == 900, "the longest pause, in seconds"

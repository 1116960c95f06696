"""Compute how long to wait after a failure."""

LONGEST = 900.0
"""Most seconds to the next try. A time further away was set by a clock that has since been set back, and counts as due.
"""

WELL_WITHIN = LONGEST - 50
"""Seconds to a next try that never counts as set by another clock, however long it takes to record it."""


def delay(failures: int, chance: float, *, first: float = 1.0, longest: float = LONGEST) -> float:
    """Return the seconds to wait after this number of failures in a row (1 = the first).

    The delay doubles each time up to `longest`. `chance` in [0, 1] spreads it over the upper half, so that clients that
    failed together do not come back together.
    """
    full = min(longest, first * 2.0 ** min(max(failures, 1) - 1, 30))
    return full * (0.5 + chance / 2)

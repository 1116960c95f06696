"""How long to wait after a failure."""

LONGEST = 900.0
"""Seconds to the next try at most. A time further away was set by a clock that has since been set back, and is due."""

WELL_WITHIN = LONGEST - 50
"""Seconds to a next try that nobody takes for another clock's, however long it takes to be written down."""


def delay(failures: int, chance: float, *, first: float = 1.0, longest: float = LONGEST) -> float:
    """Give seconds to wait after so many failures in a row (1 = the first).

    Doubles each time up to `longest`; `chance` in [0, 1] spreads it over the upper half, so that many clients that
    failed together do not come back together.
    """
    full = min(longest, first * 2.0 ** min(max(failures, 1) - 1, 30))
    return full * (0.5 + chance / 2)

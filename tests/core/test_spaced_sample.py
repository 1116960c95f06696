"""Which values of a stream are kept."""

import pytest

from assetsync.core.spaced_sample import SpacedSample


@pytest.mark.parametrize("count", [0, 1, 99, 100, 199, 200, 201, 399, 400, 12_345])
def test_kept_values_are_evenly_spaced(count):
    sample = SpacedSample[int](100)
    for number in range(count):
        sample.add(number)
    assert min(count, 100) <= len(sample.values) < 200
    distance = sample.values[1] if count > 1 else 1
    assert sample.values == list(range(0, count, distance))

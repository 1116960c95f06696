"""What a health check asks, and how long it waits."""

from itertools import count

from assetsync.model import Asset
from assetsync.sync.lookup_gates import HealthCheck
from tests.world import PROBE


def test_health_check_waits_for_seconds_only(world):
    world.site.health_check.ask()
    (search,) = world.service.searches
    assert (search.searchfor, search.patience) == (PROBE, 15.0)


def test_endless_answer_ends_a_health_check(world, monkeypatch):
    endless = (Asset(f"A{number}", "F1", "x", 1, None, "doc") for number in count())
    monkeypatch.setattr(world.service, "assets", {})
    monkeypatch.setattr(world.service, "search", lambda _request: _Answer(endless))
    HealthCheck(world.service, ["F1"]).ask()


class _Answer:
    def __init__(self, rows) -> None:
        self._rows = rows

    def __enter__(self):
        return self._rows

    def __exit__(self, *_error) -> None:
        return

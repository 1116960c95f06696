"""Services and mirrors that are closed again; a service that was used against the interface fails its test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .dialect import Dialect
from .mirror import Mirror
from .service import Service


@pytest.fixture
def make_mirror(tmp_path: Path) -> Iterator[Callable[..., Mirror]]:
    """Make a mirror of `tree/` into folder 0123 of a service with that dialect; keywords go to Mirror."""
    services: list[Service] = []

    def make(dialect: Dialect, mapped: dict[str, str] | None = None, **said) -> Mirror:
        services.append(Service(dialect, ("0123", "5D0E5B1C9AB24E6F8E1F0A2B3C4D5E6F")))
        return Mirror(tmp_path, services[-1], mapped or {".": "0123"}, **said)

    yield make
    for service in services:
        service.close()
    assert [complaint for service in services for complaint in service.complaints] == []

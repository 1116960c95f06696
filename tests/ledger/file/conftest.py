"""Each ledger of these tests is migrated."""

import pytest

from assetsync.ledger.file import integrity
from tests.empty_ledger import migrate


@pytest.fixture(autouse=True)
def _migrate_each_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integrity, "migrate", migrate)

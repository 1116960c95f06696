"""Each ledger of these tests is migrated."""

from collections.abc import Iterator

import pytest

from assetsync.ledger.file import integrity
from tests.empty_ledger import migrate


@pytest.fixture(scope="module", autouse=True)
def _migrate_each_ledger() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(integrity, "migrate", migrate)
        yield

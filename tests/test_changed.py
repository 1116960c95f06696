"""Which tests `python -m tests --changed` runs."""

from pathlib import Path, PurePath

import pytest

from tests.changed import needed_by

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("changed", "needed"),
    [
        (["assetsync/sync/upload/decide.py"], ["tests/sync/upload"]),
        (["assetsync/sync/upload/decide.py", "assetsync/sync/rescan.py"], ["tests/sync"]),
        (["assetsync/log.py"], ["tests/test_log.py"]),
        (["assetsync/demo/stage.py"], []),
        (["tests/core/test_names.py"], ["tests/core"]),
        (["tests/world.py"], []),
        (["tests/wire/index-all.http"], []),
        (["README.md"], ["tests/test_contributing.py", "tests/test_guide.py", "tests/test_readme.py"]),
    ],
)
def test_changed_files_need_the_tests_of_their_packages(changed, needed):
    found = needed_by(map(PurePath, changed), ROOT)
    assert [place for place in found if place not in ("tests/test_structure.py", "tests/test_changelog.py")] == needed

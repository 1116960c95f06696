"""What a progress bar is told of files that are on their way.

Covers `sync/context.py`.
"""

import os

import pytest

from assetsync.errors import ServiceUnreachable
from assetsync.model import State
from assetsync.sync.upload.queue import Step
from assetsync.tree.body import SMALL, TappedBody
from tests.sync.conftest import chunked

MIB = 2**20


@pytest.fixture
def shown(world):
    """What there is to show at each chunk that the service is handed."""
    seen = []
    upload, progress = world.service.upload, world.site.context.progress
    world.service.upload = lambda request, body: upload(
        request, TappedBody(body, lambda _length: seen.append(progress.shown()))
    )
    return seen


def test_large_file_counts_by_bytes_sent(world, shown):
    world.write("small", b"x" * 10)
    world.scan_and_send()
    world.write("z", chunked(SMALL + 2 * MIB))
    world.scan_and_send()
    small, *parts = shown
    assert small == (0, 0, 0)
    assert parts == [(1 + sent / 10, 10 + sent * MIB, 0) for sent in range(1, 11)]
    assert world.site.context.progress.shown() == (2, 10 + 10 * MIB, 0)


def test_failed_large_file_counts_no_bytes(world):
    world.write("a", chunked(SMALL + MIB))
    world.service.script.append("lost_before")
    world.scan_and_send()
    assert world.site.context.progress.shown() == (1, 0, 0)


def test_bytes_hashed_before_send_are_counted(world):
    file = world.write("a", chunked(SMALL + MIB))
    world.scan_and_send()
    os.utime(file, (1e9, 1e9))
    world.scan_and_send()
    assert world.site.context.progress.shown() == (2, SMALL + MIB, SMALL + MIB)


def test_requeued_unsent_file_is_not_counted(world):
    world.write("a")
    world.scan()

    def fail(_request) -> None:
        raise ServiceUnreachable("no answer")

    world.service.during_search = fail
    assert world.site.uploader.step() is Step.WORKED
    assert (world.states(), world.site.context.progress.shown()) == ({"a": State.QUEUED}, (0, 0, 0))

"""Contents for the tests of the flow, and answers that are lost."""

import hashlib

import pytest

from assetsync.model import State


def chunked(size: int) -> bytes:
    """Give bytes of which no two blocks are the same."""
    blocks = (hashlib.sha512(str(number).encode()).digest() * 1024 for number in range(size // 65536 + 1))
    return b"".join(blocks)[:size]


def lose(world, *what, content: bytes = b"some content", path: str = "a.jpg") -> None:
    world.write(path, content)
    world.service.script.extend(what)
    world.scan_and_send()


def show_one(world) -> None:
    """Let the folder show a file of ours, so that what it does not show is absent."""
    world.write("shown.jpg", b"a file that is shown")
    world.scan()
    world.live(5.0)
    assert world.row("shown.jpg").state is State.VERIFIED
    world.service.posts.clear()


class Killed(BaseException):
    """The process ends without a word."""


def die_sending(world, content: bytes, *, arrived: bool, after: float = 0.0, jump: float = 0.0) -> None:
    """Send `a.jpg`, and end before the answer is there and before a large file was read to its end.

    The process ends `after` seconds; by then the wall clock was set by `jump` seconds.
    """

    def kill(request) -> None:
        world.clock.advance(after)
        world.clock.set_now(world.clock.now() + jump)
        if arrived:
            world.service.put(content, request.filename, request.destfolderid)
        raise Killed

    world.service.during_upload = kill
    with pytest.raises(Killed):
        lose(world, content=content)
    world.service.during_upload = lambda request: None
    world.restart()

"""Let assetsync die, by SIGKILL, at one numbered point: `POINTS[POINT](Killer(NUMBER))`, in its own process.

The points are functions of the program, put behind one that kills: the program itself knows nothing of this. NUMBER
counts how often the point is passed until it kills.
"""

import os
import signal
from collections.abc import Callable, Iterator

from assetsync.ledger.attempts import AttemptResults
from assetsync.ledger.doubts import Doubts
from assetsync.ledger.file import schema
from assetsync.ledger.queue import Queue
from assetsync.service.client import HttpService
from assetsync.service.multipart import Sending
from assetsync.sync.upload.results import ResultRecorder
from assetsync.sync.upload.worker import Worker


class Killer:
    """Kills the process when it was called often enough."""

    def __init__(self, number: int) -> None:
        self._left = number

    def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def before(owner: object, name: str) -> Callable[[Killer], None]:
    """Die on the way into a function."""

    def put(kill: Killer) -> None:
        real = getattr(owner, name)

        def dying(*args, **said):
            kill()
            return real(*args, **said)

        setattr(owner, name, dying)

    return put


def after(owner: object, name: str) -> Callable[[Killer], None]:
    """Die on the way out of a function."""

    def put(kill: Killer) -> None:
        real = getattr(owner, name)

        def dying(*args, **said):
            result = real(*args, **said)
            kill()
            return result

        setattr(owner, name, dying)

    return put


def in_the_body(kill: Killer) -> None:
    """Die after the first piece of a body has been handed over."""
    pieces = Sending.__iter__

    def dying(self: Sending) -> Iterator[bytes]:
        for number, piece in enumerate(pieces(self)):
            if number == 1:
                kill()
            yield piece

    Sending.__iter__ = dying


def after_the_last_byte(kill: Killer) -> None:
    """Die when the transport has written everything and comes back for more."""
    pieces = Sending.__iter__

    def dying(self: Sending) -> Iterator[bytes]:
        yield from pieces(self)
        kill()

    Sending.__iter__ = dying


def in_the_migration(kill: Killer) -> None:
    """Die between two statements of a migration."""
    whole = schema.statements

    def dying(script: str) -> Iterator[str]:
        for statement in whole(script):
            kill()
            yield statement

    schema.statements = dying


POINTS: dict[str, Callable[[Killer], None]] = {
    "in_the_migration": in_the_migration,
    "before_the_intent": before(Queue, "submit_begin"),
    "after_the_intent": before(Worker, "_post"),
    "in_the_body": in_the_body,
    "after_the_last_byte": after_the_last_byte,
    "after_the_answer": after(HttpService, "upload"),
    "before_the_result": before(AttemptResults, "submit_accepted"),
    "before_the_result_commits": after(AttemptResults, "submit_accepted"),
    "after_the_result": before(ResultRecorder, "_report_accepted"),
    "before_a_doubt_ends": before(Doubts, "decide"),
    "after_a_doubt_ended": after(Doubts, "decide"),
}

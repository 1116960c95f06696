"""Count one request to an operation of the interface, and apply its faults around the work.

The order is the same for all three operations: read the request, wait, apply faults before the work, do the work, apply
faults after it. The work itself is left to `app`.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from starlette.responses import Response

from assetsync.sandbox.answers import HTML_INSTEAD, Lost, cut, html_answer
from assetsync.sandbox.faults import Active, FaultBoard, FaultKind, Operation

Work = Callable[[], Awaitable[Response]]


class Disturbances:
    """The faults of the board, applied around the work of each request, and the count of the requests."""

    def __init__(self, board: FaultBoard, latency: float) -> None:
        self._board = board
        self._latency = latency
        self.log: Counter[str] = Counter()

    def take(self, operation: Operation) -> Active:
        """Count a request and return the faults that hit it."""
        self.log[operation.value] += 1
        return self._board.take(operation)

    async def answer(self, active: Active, work: Work) -> Response:
        """Do the work of a request that was read, unless a fault precedes it; return the answer or a faulty one."""
        for kind in (FaultKind.HANG, FaultKind.LATENCY):
            if kind in active:
                await asyncio.sleep(active[kind].seconds)
        if self._latency:
            await asyncio.sleep(self._latency)
        if FaultKind.TOO_MANY in active:
            return Response(b"", 429, {"Retry-After": str(round(active[FaultKind.TOO_MANY].seconds))})
        instead = _instead(active, stored=False)
        if instead is not None:
            return instead
        answer = await work()
        if FaultKind.ANSWER_LOST in active:
            return Lost()
        instead = _instead(active, stored=True)
        if instead is not None:
            return instead
        return await cut(answer) if FaultKind.ANSWER_CUT in active else answer


def _instead(active: Active, *, stored: bool) -> Response | None:
    status = active.get(FaultKind.STATUS)
    if status is not None and status.stored is stored:
        return Response(b"", status.status)
    html = active.get(FaultKind.HTML)
    return html_answer(HTML_INSTEAD) if html is not None and html.stored is stored else None

"""Pause uploads and end pauses: what a person asks for a while. How long a pause lasts is left to `core.pauses`."""

from dataclasses import dataclass
from typing import ClassVar

from assetsync.config.document.fields import HexPath
from assetsync.core.pauses import OperatorPause
from assetsync.errors import UsageError
from assetsync.ledger.ledger import Ledger
from assetsync.model import Clock, Searches
from assetsync.sync.requests.request import OperatorRequest
from assetsync.text import files, local_moment, named_path, plural


@dataclass(frozen=True, slots=True)
class PauseUploads(OperatorRequest):
    """Send nothing from a path of the tree `until` a time on the wall clock, or with None until a person ends it."""

    verb: ClassVar[str] = "pause"

    path: HexPath
    who: str
    why: str
    until: float | None

    def run(self, ledger: Ledger, _service: Searches, now: float) -> str:
        """See `OperatorRequest`."""
        left = 0.0 if self.until is None else self.until - now
        pause = OperatorPause(self.path, self.who, self.why, now, self.until, left)
        if pause.is_over(now):
            raise UsageError("the pause would be over already", hint="`assetsync pause` again, with a later end")
        ledger.pauses.begin(pause)
        end = "until `assetsync resume --pause`" if self.until is None else f"until {local_moment(self.until)}"
        waiting = files(ledger.reports.count_paused([self.path]))
        return f"uploads paused {end}: {named_path(self.path)}; queued: {waiting}; an upload that has begun ends first"

    def carry_out(self, ledger: Ledger, service: Searches, clock: Clock) -> str:
        """See `OperatorRequest`."""
        # A dataclass with slots is another class than the one that `super` knows here.
        answer = OperatorRequest.carry_out(self, ledger, service, clock)
        # From now on the pause is measured on the clock that does not jump.
        ledger.pauses.count(clock)
        return answer


@dataclass(frozen=True, slots=True)
class EndPause(OperatorRequest):
    """End the pause of a path, or with None all pauses. No brake is released."""

    verb: ClassVar[str] = "end_pause"

    path: HexPath | None = None

    def check(self, ledger: Ledger) -> None:
        """See `OperatorRequest`."""
        if not self._ended(ledger):
            others = ", ".join(named_path(pause.path) for pause in ledger.pauses.recorded())
            hint = f"paused: {others}" if others else "`assetsync status` would list it"
            asked = "no path is paused" if self.path is None else f"{named_path(self.path)} is not paused"
            raise UsageError(asked, hint=hint)

    def run(self, ledger: Ledger, _service: Searches, _now: float) -> str:
        """See `OperatorRequest`."""
        ended = self._ended(ledger)
        ledger.pauses.end(ended)
        return f"{plural(len(ended), 'pause')} ended: {', '.join(map(named_path, ended))}"

    def _ended(self, ledger: Ledger) -> list[bytes]:
        return [pause.path for pause in ledger.pauses.recorded() if self.path in (None, pause.path)]

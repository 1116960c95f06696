"""Schedules in which a person pauses the site or a folder and ends it, between all else that goes wrong.

No attempt begins in a pause. A pause lasts no longer than it was asked for, whatever the clock does; across a reboot of
the machine it may last longer by what it had not been counted down.
"""

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from assetsync.ledger.queue import Intent

from .sim_checks import Violation
from .sim_schedule import Action, Schedule, interspersed, schedule_of

if TYPE_CHECKING:
    from .simulation import Simulation

_SHARE = 0.2
_PATHS = ("", "a", "b", "c", "a/1.bin")
_SECONDS = (3.0, 20.0, 90.0, 400.0, None)
_EDGE = 0.5
_RECORDED_EVERY = 62.0
"""Seconds: the program records what is left once a minute, and a boot takes a second."""


def pauses_schedule(seed: int) -> Schedule:
    """Return the general schedule of a seed, with pauses, their ends and crashes around them between its actions."""
    rng = random.Random(f"pauses {seed}")
    variant, general = schedule_of(seed)
    return Schedule(variant, tuple(interspersed(general, rng, _SHARE, lambda: _steps(rng))))


def _steps(rng: random.Random) -> Iterable[Action]:
    seconds = rng.choice(_SECONDS)
    match rng.choice(("pause", "pause", "pause", "end", "edge")):
        case "pause":
            if rng.random() < 0.3:
                yield Action("crash", (rng.randrange(1, 4), rng.random() < 0.5))
            yield Action("pause", (rng.choice(_PATHS), seconds))
        case "end":
            yield Action("end_pause", (rng.choice((*_PATHS, None)),))
        case _:
            yield Action("pause", (rng.choice(_PATHS), 20.0))
            yield Action("send", (rng.choice((1, 2, 1_000)),))
            yield Action("wait", (20.0 - _EDGE,))
            yield rng.choice((Action("crash", (0, rng.random() < 0.5)), Action("jump", (-3_600.0,))))
            yield Action("live", (rng.choice((1, 3)),))


class _Asked(NamedTuple):
    """A pause as it must be kept: until a wall time, and no longer than a true time."""

    until: float | None
    ends: float
    late: float = 0.0


class Pauses:
    """What a person has paused, beside the program's own record."""

    def __init__(self, simulation: "Simulation") -> None:
        self._sim = simulation
        self._asked: dict[str, _Asked] = {}
        self._counted_at = 0.0

    def begin(self, path: str, seconds: float | None) -> None:
        """Let a person pause a path; the process may die meanwhile."""
        sim = self._sim
        until = None if seconds is None else sim.clock.now() + seconds
        given: dict[str, object] = {"path": path.encode().hex(), "who": "someone", "why": "", "until": until}
        sim.guarded(lambda: sim.person("pause", given), "pause")
        known = {pause.path.decode(): pause for pause in sim.site.context.ledger.pauses.recorded()}
        if path in known and known[path].until == until:
            self._asked[path] = _Asked(until, sim.clock.true + (seconds or float("inf")))
            self.counted()

    def end(self, path: str | None) -> None:
        """Let a person end the pause of a path, or all."""
        sim = self._sim
        given: dict[str, object] = {"path": None if path is None else path.encode().hex()}
        sim.guarded(lambda: sim.person("end_pause", given), "end of a pause")
        known = {pause.path.decode() for pause in sim.site.context.ledger.pauses.recorded()}
        self._asked = {each: asked for each, asked in self._asked.items() if each in known}

    def counted(self) -> None:
        """Note that the program counts its pauses down now."""
        self._counted_at = self._sim.clock.true

    def rebooted(self) -> None:
        """Note that the clock that does not jump begins anew: only the wall clock and the last count are left."""
        true, now, uncounted = self._sim.clock.true, self._sim.clock.now(), self._sim.clock.true - self._counted_at
        for path, asked in self._asked.items():
            if asked.until is not None:
                ends = min(asked.ends, true + asked.until - now)
                self._asked[path] = _Asked(asked.until, ends, asked.late + uncounted + _RECORDED_EVERY)
        self.counted()

    def forget(self) -> None:
        """Forget all, with a ledger that was lost, put back or rolled back."""
        self._asked.clear()

    def begins(self, intent: Intent) -> None:
        """I16: no attempt begins of a file that is paused."""
        row = self._sim.site.context.ledger.queue.version(intent.file_id)
        path = "" if row is None else row.path.decode()
        clock = self._sim.clock
        for paused, asked in self._asked.items():
            is_on = clock.true < asked.ends and (asked.until is None or clock.now() < asked.until)
            if is_on and (paused in ("", path) or path.startswith(f"{paused}/")):
                raise Violation(f"I16: {path} is sent while {paused or 'the site'} is paused")

    def always(self) -> None:
        """I16: no pause lasts longer than it was asked for."""
        clock = self._sim.clock
        for pause in self._sim.site.context.ledger.pauses.in_force(clock):
            asked = self._asked.get(pause.path.decode())
            if asked is not None and clock.true > asked.ends + asked.late:
                raise Violation(f"I16: the pause of {pause.path!r} should have ended at {asked.ends:.1f}")
        # A clock that was past its end is believed, also if it is set back later.
        passed = [path for path, asked in self._asked.items() if asked.until and clock.now() >= asked.until]
        for path in passed:
            del self._asked[path]

"""Decide how long look-ups must be answered without an asset before its upload counts as absent.

A listing of the folder begins the grace, and another one that begins after it ends it. Searches by name between them
show that the service answered all the time. A `Grace` records which look-ups were answered, and when. A `Watch` decides
whether a look-up counts for it, and how long the grace must be. What follows from it is left to `core.doubt`.
"""

from dataclasses import dataclass, field, replace

SLOW_GAP = 3
"""A gap may be longer by this multiple of the duration of a round of look-ups: two rounds, and one in reserve."""

SLOW_GRACE = 4 * SLOW_GAP
"""The grace is longer by this multiple of the duration of a slow round, so that it is longer than the longest gap
between two look-ups."""

UPLOAD_TIMES = 5
"""A service may store a whole upload late, by this multiple of the time that the upload took."""

STORED_BY_NOW = 12 * 3600.0
"""Seconds after which a service has stored a whole upload or never does."""

ROUNDS = 5
"""Answered rounds of look-ups that are enough after STORED_BY_NOW, however far apart they were."""

ROUNDS_APART = 60.0
"""Seconds between two rounds that count, so that one wrong answer of a cache cannot count as all of them."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The durations in seconds of look-ups of one kind in a folder: the last one, and the shorter of the last two."""

    last: float = 0.0
    least: float = 0.0

    def after(self, took: float) -> "Pace":
        """Return the pace after another look-up.

        A single slow look-up may have met a service that hangs; two slow ones in a row are normal for this service. If
        every second look-up is slow, the service counts as hanging again and again.
        """
        return Pace(took, min(self.last, took))


@dataclass(frozen=True, slots=True)
class Grace:
    """The span over which look-ups were answered without showing the asset, on the steady clock of one boot.

    The span may be of several processes. `slow`: the duration in seconds of the slowest round of look-ups for which a
    longer gap was accepted. `rounds`: how many rounds counted since the upload was stored or never will be, in any
    boot; `round_at`: the end of the last of them, 0 if it was before this boot.
    """

    boot: str = ""
    first: float = 0.0
    last: float = 0.0
    slow: float = 0.0
    rounds: int = 0
    round_at: float = 0.0

    def answered(self, started: float, ended: float, boot: str, gap: float, *, slow: float = 0.0) -> "Grace":
        """Return the grace after another answered look-up; too long a gap, or another boot, starts the span again.

        `gap` is the longest gap in seconds. The span opens at the end of its first look-up and reaches to the start of
        its last: changes in the service while an answer is in transit do not count as seen. The gap reaches to the end
        of the new look-up: a look-up that waits while the service hangs must not bridge the hang.

        `slow` is the usual duration in seconds of a round of look-ups over all folders in question. Slow rounds alone
        would make every gap too long. Therefore a slow round allows longer gaps and makes the grace longer too.
        """
        length = ended - self.last
        if self.boot != boot or started < self.last or length > gap + SLOW_GAP * slow:
            return Grace(boot, ended, ended, rounds=self.rounds, round_at=self.round_at if self.boot == boot else 0.0)
        return replace(self, last=max(self.last, started), slow=max(self.slow, slow) if length > gap else self.slow)

    def continued(self, started: float, ended: float, boot: str, gap: float, *, slow: float = 0.0) -> "Grace":
        """Return the grace after an answered search by name, which continues a span and never begins one.

        The service may show the asset under another name.
        """
        grace = self.answered(started, ended, boot, gap, slow=slow)
        return grace if (grace.boot, grace.first) == (self.boot, self.first) else self

    def after_round(self, started: float, ended: float) -> "Grace":
        """Return the grace after a completely answered round later than STORED_BY_NOW; it counts if it is apart."""
        if self.rounds and started - self.round_at < ROUNDS_APART:
            return self
        return replace(self, rounds=min(self.rounds + 1, ROUNDS), round_at=ended)

    def over(self, grace: float) -> bool:
        """Return whether look-ups were answered for long enough, or often enough.

        The span must be as long as the whole grace, which is longer if longer gaps were accepted.
        """
        return bool(self.boot) and (self.rounds >= ROUNDS or self.last >= self.end(grace))

    def end(self, grace: float) -> float:
        """Return the earliest start of the look-up, on the steady clock, with which the span is long enough."""
        return self.first + grace + SLOW_GRACE * self.slow


def grace_of_whole(seconds: float, read_timeout: float, took: float, age: float, *, answered: bool = False) -> float:
    """Return the grace in seconds of an attempt whose whole body may have left and that was not accepted.

    A proxy may give up while the service still stores the file. `took`: seconds from the first byte to the end of the
    attempt; `age`: as for `Watch.age`. `answered`: the application, or a gate before it, answered completely
    (`core.outcome`), so that `read_timeout` says nothing about it. A proxy may answer 500 too, for want of an answer
    from the application: such an answer comes late, and its upload is waited for by what it took. After half a day
    `seconds` is enough, so that a nightly run shorter than the grace decides such an attempt the next night.
    """
    longest = max(seconds, UPLOAD_TIMES * took, 0.0 if answered else read_timeout)
    return seconds if age >= max(STORED_BY_NOW, longest) else longest


def longest_gap(grace: float, needed: float) -> float:
    """Return the longest gap in seconds between two answered look-ups, unless look-ups are slow.

    `grace` is configured, `needed` is the grace of the attempt. The gap is not half of what is needed: a service that
    stood still within the gap stores the upload later by as long. It is at least a twentieth, so that with a
    short grace an attempt that needs minutes is not to be looked up twice a second.
    """
    return max(grace / 2, needed / 20)


def took_at_most(started_at: float, now: float) -> float:
    """Return the longest time in seconds that an upload took whose process ended unseen after `started_at`.

    The arguments are wall-clock seconds. The result is 0 if the clock was set back. If it was set forward, or the
    machine was off for days, the result is no more than makes the grace half a day.
    """
    return min(max(0.0, now - started_at), STORED_BY_NOW / UPLOAD_TIMES)


@dataclass(frozen=True, slots=True)
class Looked:
    """The answered look-ups of an attempt so far, as the ledger keeps them.

    `grace`: those that count for its absence · `watched`: the span of all that were answered without a gap, in which
    only `boot`, `first` and `last` are used · `newest`: the newest attempt when that span began · `since`: the first
    answered look-up on the steady clock of `boot`, which is empty if there was none; it is earlier, and may be
    negative, by the age that earlier boots account for.
    """

    grace: Grace = field(default_factory=Grace)
    watched: Grace = field(default_factory=Grace)
    newest: int = 0
    since: float = 0.0
    boot: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """An attempt in doubt at an answered look-up: what its look-ups up to this one prove if they show no asset.

    - `is_final`: no verdict sends the upload again, so that an old look-up does no harm (`Doubt.is_final`).
    - `took`: seconds from its first byte to its end; None if only a part of the body left.
    - `answered`: the application, or a gate before it, answered completely (`core.outcome`).
    - `since_end`: seconds on the wall clock since it ended.
    - `before`: its look-ups before this one.
    - `span`: start and end of this look-up in seconds on the steady clock of `boot`.
    - `slow`: the usual seconds of a round of look-ups.
    - `newest`: the newest attempt now.
    - `sample`: the attempt of the control sample that the service showed before this look-up; 0 if it showed none.
    - `grace`, `lag`, `read_timeout`: the configured seconds. Look-ups may be out of date by `lag`.
    - `by_name`: the look-up searched by name alone, and did not list the folder.
    """

    is_final: bool
    took: float | None
    answered: bool
    since_end: float
    before: Looked
    span: tuple[float, float]
    boot: str
    slow: float
    newest: int
    sample: int
    grace: float
    lag: float
    read_timeout: float
    by_name: bool = False

    @property
    def age(self) -> float:
        """Return the seconds since the first answered look-up; 0 if there is none.

        If it was in an earlier boot, return the seconds since the attempt ended, or 0 for less than half a day: the
        wall clock may have been set, and half a day is far more than it is corrected by.
        """
        if self.before.boot == self.boot:
            return self.span[0] - self.before.since
        return self.since_end if self.before.boot and self.since_end >= STORED_BY_NOW else 0.0

    @property
    def needed(self) -> float:
        """Return the seconds of answered look-ups after which the attempt counts as absent."""
        if self.took is None or self.is_final:
            return self.grace
        return grace_of_whole(self.grace, self.read_timeout, self.took, self.age, answered=self.answered)

    @property
    def gap(self) -> float:
        """Return the longest gap in seconds between two of its answered look-ups."""
        return longest_gap(self.grace, self.needed)

    @property
    def counted(self) -> Grace:
        """Return the grace after this look-up; empty if a listing is not current."""
        if self.by_name:
            return self.before.grace.continued(*self.span, self.boot, self.gap, slow=self.slow)
        if not self.is_current():
            return Grace()
        grace = self._extended(self.before.grace)
        # Half a day has passed, and five times what the upload took.
        is_late = self.age >= STORED_BY_NOW and self.needed <= self.grace
        return grace.after_round(*self.span) if is_late else grace

    def is_over(self) -> bool:
        """Return whether look-ups were answered for long enough, or often enough, and this one lists the folder."""
        return not self.by_name and self.counted.over(self.needed)

    def is_current(self) -> bool:
        """Return whether this look-up counts for the absence of an asset that it does not show.

        A replica or a cache may answer with a state from before the upload. The look-up counts once answers came
        without a gap for longer than look-ups lag, or if the service showed an upload that began after those answers.
        """
        if self.is_final:
            return True
        watched, newest = self._watched()
        seconds = max(0.0, self.span[0] - watched.first)
        return newest < self.sample or seconds >= self.lag or self.age >= STORED_BY_NOW

    def looked(self, *, counts: bool) -> Looked:
        """Return the look-ups including this one, to be recorded; the grace is empty unless it `counts`."""
        # In another boot the steady clock counts on from the age that earlier boots account for.
        since = self.before.since if self.before.boot == self.boot else self.span[1] - self.age
        return Looked(self.counted if counts else Grace(), *self._watched(), since, self.boot)

    def _watched(self) -> tuple[Grace, int]:
        """Return the span over which answers came, and the newest attempt at its start.

        The span restarts after a gap, and whenever the grace restarts: if look-ups lag, what happened in a gap shows
        only later.
        """
        span = self._extended(self.before.watched)
        return span, self.before.newest if span.first == self.before.watched.first else self.newest

    def _extended(self, span: Grace) -> Grace:
        return span.answered(*self.span, self.boot, self.gap, slow=self.slow)

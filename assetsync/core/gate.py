"""Decide whether an upload may pass to the service and into a folder, when the next one may, and how many in doubt.

There is a gate for the service and one for each destination folder. A gate is a value: an outcome goes in, the next
gate comes out. Times are on the steady clock and are passed in. The limits of doubts hold folders, too.

Keeping the gates, that of the process, and counting the doubts is left to `sync.gates`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import NamedTuple

from assetsync.core.backoff import WELL_WITHIN, delay
from assetsync.core.outcome import TOO_LARGE_FOR_PROXY
from assetsync.model import Answer, Fault, Sent, SentExtent

_FOLDERS_IN_A_ROW = 3
_LONGEST_CHECK = 15.0
"""Seconds after a failed health check: with its patience, an answer is noticed within half a minute."""
REST = 30.0
"""Seconds after an answered health check at whose end the trouble is over, if it needs no trial."""
_TRIAL_REST = 900.0
"""The same if files wait and the trouble began with an upload: only an upload shows its end, and it may wait for
doubts."""
_MOST_ASKED = 3000.0
_SHARE = 5
"""A look-up that failed after a time-out is not repeated for five times its duration, so that it occupies no thread."""


class Pace(NamedTuple):
    """How long a gate closes: `soon` after up to `few` failures in a row, then `first` seconds, then ever longer."""

    few: int
    soon: float
    first: float
    longest: float

    def wait(self, failures: int, *, chance: float = 1.0, asked: float = 0.0, took: float = 0.0) -> float:
        """Return the seconds to wait after the last of so many failures, which `took` seconds.

        The service may have `asked` for a wait. `chance` in [0, 1] spreads it if other clients may come back then.
        """
        if failures <= self.few:
            return self.soon
        wait = delay(failures - self.few, chance, first=self.first, longest=self.longest)
        return max(wait, asked, min(_MOST_ASKED, _SHARE * took))

    @classmethod
    def of_lookups(cls, grace: float) -> "Pace":
        """Return the pace for look-ups that fail. In the `grace` of other doubts there must be time without a gap."""
        # Each failure may take as long as a time-out: a whole grace has to fit between two failures.
        longest = min(WELL_WITHIN, max(300.0, 4 * grace))
        return cls(4, min(longest, max(0.25, grace / 16)) if grace else 1.0, 5.0, longest)

    def partly(self) -> "Pace":
        """Return the pace for look-ups of which some are answered: their gaps stay a small part of the grace."""
        return Pace(9, self.soon, 2 * self.soon, self.longest)


_UPLOADS = Pace(3, 0.0, 1.0, 30.0)
"""The pace of a folder whose uploads are answered and fail. A few in a row are chance."""
_OUTAGE = Pace(1, 0.0, 1.0, 60.0)
"""The pace of a service that does not answer: the first health check is made at once."""
_CHECKS = _OUTAGE._replace(longest=_LONGEST_CHECK)


class FolderGate(NamedTuple):
    """The gate of a folder: how many uploads in a row failed, and until when it is closed (steady seconds)."""

    failures: int = 0
    until: float = 0.0

    def failed(self, now: float) -> "FolderGate":
        """Return the gate after an upload that was answered and failed; one that was under way does not count."""
        count = self.failures + 1
        return self if now < self.until else FolderGate(count, now + _UPLOADS.wait(count))


class Met(StrEnum):
    """In what a trouble was met."""

    UPLOAD = auto()
    LOOKUP = auto()
    CHECK = auto()


class Trouble(NamedTuple):
    """A failure that is the service's, or the process's, and no folder's.

    `retry_after`: the seconds that it asks to wait · `met_by`: in what · `loses_answers`: in an upload that may have
    arrived.
    """

    reason: str
    detail: str
    retry_after: float | None = None
    met_by: Met = Met.UPLOAD
    loses_answers: bool = False


@dataclass(frozen=True, slots=True)
class Closed:
    """Why nothing passes, and since when (steady seconds); `failures` counts the failed tries since then.

    It is tried again at `until`. `loses_answers`: the last failure was an upload that may have arrived.
    """

    reason: str
    detail: str
    since: float
    until: float
    failures: int = 0
    loses_answers: bool = False


class Passage(StrEnum):
    """What passes: every upload, one at a time, or none."""

    OPEN = auto()
    TRIAL = auto()
    CLOSED = auto()


class ServiceGate(NamedTuple):
    """The gate of the service.

    An upload that is not answered closes it, so that an outage costs one health check at a time and not a failure for
    each file. Answered failures into three folders without a success between them close it, too. A health check is a
    look-up. After one that is answered, one upload passes on trial, and the gate opens once that upload is answered.
    If look-ups are answered and no upload is, or nothing at all, the time between health checks grows.
    """

    state: Passage = Passage.OPEN
    last: Closed | None = None
    """While closed this closure, else the one that ended last."""
    lookups_answered: bool = True
    """Whether look-ups are answered, so that doubts can be resolved although nothing is sent."""
    needs_trial: bool = False
    checked_at: float = 0.0
    """When a health check was answered last."""
    inside: int = 0
    """Number of uploads under way; `before` of them began before that health check, and may hang with what hung."""
    before: int = 0
    entered_at: float = 0.0
    failed_in: frozenset[str] = frozenset()
    """The folders into which uploads failed, though answered, since an upload did not fail."""

    @property
    def closed(self) -> Closed | None:
        """Return the closure while the gate is closed, else None."""
        return self.last if self.state is Passage.CLOSED else None

    @property
    def is_on_trial(self) -> bool:
        """Return whether the upload on trial is under way."""
        return self.state is Passage.TRIAL and self.inside > self.before

    @property
    def awaits_trial(self) -> bool:
        """Return whether only an upload can show that the trouble is over."""
        return self.state is Passage.TRIAL and self.needs_trial

    def ongoing(self, now: float) -> Closed | None:
        """Return the closure that is not known to be over: also for a while after a health check, and during a trial.

        A failure in that time is the same trouble. An upload that began later is no trial: its failure is new trouble.
        """
        return self._unless_over(self.entered_at if self.is_on_trial else now)

    def continued(self, now: float) -> Closed | None:
        """Return the closure that a failure continues, None if the failure is a new trouble."""
        # While an upload hangs, nothing is answered: count answered time only up to its start.
        return self._unless_over(self.entered_at if self.inside else now)

    def _unless_over(self, at: float) -> Closed | None:
        """Return the last closure, unless `at` is long after an answered health check: the trouble is over then."""
        rest = _TRIAL_REST if self.needs_trial else REST
        is_soon = self.state is Passage.TRIAL and at - self.checked_at <= rest
        return self.last if self.closed or is_soon else None

    def entered(self, now: float) -> "ServiceGate | None":
        """Return the gate once an upload has passed; None if none passes now."""
        if self.closed or self.is_on_trial:
            return None
        return self._replace(inside=self.inside + 1, entered_at=now)

    def left(self) -> "ServiceGate":
        """Return the gate after the end of an upload, whatever it is."""
        return self._replace(inside=self.inside - 1, before=min(self.before, self.inside - 1))

    @property
    def fails_everywhere(self) -> bool:
        """Return whether uploads into so many folders failed, without a success, that the service fails."""
        return len(self.failed_in) >= _FOLDERS_IN_A_ROW

    def failed(self, trouble: Trouble, now: float, chance: float) -> "ServiceGate":
        """Return the closed gate. A failed health check or trial makes the next wait longer.

        An upload that was under way when the trouble began does not.
        """
        last = self.continued(now)
        by_check = trouble.met_by is Met.CHECK
        failures = 0 if last is None else last.failures + (by_check or self.closed is None)
        pace = _CHECKS if by_check else _OUTAGE
        until = now + max(pace.wait(failures + 1, chance=chance), trouble.retry_after or 0.0)
        if self.closed and not by_check:
            until = max(self.closed.until, now + (trouble.retry_after or 0.0))
        since = now if last is None else last.since
        by_upload = trouble.met_by is Met.UPLOAD
        return self._replace(
            state=Passage.CLOSED,
            last=Closed(trouble.reason, trouble.detail, since, until, failures, trouble.loses_answers),
            lookups_answered=by_upload,
            needs_trial=by_upload or (last is not None and self.needs_trial),
        )

    def checked(self, now: float) -> "ServiceGate":
        """Return the gate after an answered health check: one upload passes."""
        state = Passage.TRIAL if self.closed else self.state
        return self._replace(state=state, before=self.inside, lookups_answered=True, checked_at=now)

    def answered(self) -> "ServiceGate":
        """Return the gate after an upload whose answer has the interface's form: open, unless it has closed since."""
        return self._replace(state=self._unless_on_trial(), failed_in=frozenset())

    def failed_into(self, destfolderid: str) -> "ServiceGate":
        """Return the gate after an answered failure; as after an answer, unless it `fails_everywhere`."""
        gate = self._replace(failed_in=self.failed_in | {destfolderid})
        return gate if gate.fails_everywhere else gate._replace(state=self._unless_on_trial())

    def _unless_on_trial(self) -> Passage:
        return Passage.OPEN if self.state is Passage.TRIAL else self.state


class Concerns(StrEnum):
    """What the end of an upload shows something of."""

    NOTHING = auto()
    SERVICE = auto()
    """Uploads are not answered: the gate of the service closes."""
    FOLDER = auto()
    """It is answered and failed: the gate of the folder counts it."""
    OPENS = auto()
    """The service works, whatever its answer to this upload is."""


def concerns(sent: Sent) -> Concerns:
    """Return what the end of an upload shows something of."""
    outcome = sent.outcome
    match outcome.answer:
        case Answer.UNSENT:
            return Concerns.NOTHING if outcome.fault is Fault.FILE else Concerns.SERVICE
        case Answer.REFUSED if outcome.fault is Fault.KEY:
            return Concerns.SERVICE
        case Answer.DOUBT if outcome.reason == TOO_LARGE_FOR_PROXY:
            return Concerns.NOTHING
        case Answer.DOUBT if outcome.answered:
            return Concerns.FOLDER
        case Answer.DOUBT:
            # A file that could not be read to its end ended the upload.
            is_of_file = outcome.fault is Fault.FILE and sent.left is not SentExtent.ALL
            return Concerns.NOTHING if is_of_file else Concerns.SERVICE
        case _:
            return Concerns.OPENS


MOST_DOUBTS = 1000
"""Most uploads in doubt at once: a look-up compares a doubt with all open attempts."""

_PER_WORKER = 4
_ACCEPTED_WITHIN = 600.0


@dataclass(frozen=True, slots=True)
class DoubtLimits:
    """The limits on uploads in doubt, and the destination folders that take no more uploads because of them.

    - Folders that accepted an upload lately share `most` doubts. If there are several, none has more than half of them.
    - A folder that accepted nothing lately, while others did, takes no upload while one of its own is in doubt. All
      such folders together may have four doubts for each worker. These do not count for the accepting folders. Further
      doubts of such folders may take up half of the shared limit.
    - While no folder has accepted anything, as in the first seconds of a site, all folders share the limit.

    `held` folders take no upload. `held_for_waiting` folders take only files that were saved just now, for which a
    quarter of a folder's limit is reserved. `one_at_a_time` folders take one upload after the other, so that a folder
    that fails has one doubt and not one of each worker. With `is_full` no folder takes any upload.
    """

    most: int
    held: frozenset[str] = frozenset()
    held_for_waiting: frozenset[str] = frozenset()
    one_at_a_time: frozenset[str] = frozenset()
    is_full: bool = False

    @classmethod
    def of(
        cls,
        doubts: Mapping[str, int],
        accepted: Mapping[str, int],
        folders: Collection[str],
        *,
        failing: Collection[str],
        workers: int,
    ) -> "DoubtLimits":
        """Return the limits for the mapped `folders`.

        `doubts` counts the open doubts by destination folder, `accepted` the uploads that each folder accepted within
        `accepted_within`, and `failing` are the folders whose newest doubt began within that time. An older doubt alone
        holds no folder: the service may work on that asset for hours.
        """
        apart = _PER_WORKER * workers
        most = min(MOST_DOUBTS, max(apart, sum(accepted.values()) // 2))
        known = {*folders, *doubts}
        sharing = frozenset(folder for folder in known if accepted.get(folder)) or known
        in_sharing = sum(doubts.get(folder, 0) for folder in sharing)
        in_others = sum(doubts.values()) - in_sharing
        beyond = max(0, in_others - apart)
        in_one = most // 2 if len(sharing) > 1 else most
        at_limit = in_sharing + beyond >= most
        at_maximum = in_sharing + in_others >= MOST_DOUBTS

        def is_held(folder: str, limit: int) -> bool:
            if folder in sharing:
                return at_maximum or at_limit or doubts.get(folder, 0) >= limit
            others_at_limit = in_others >= apart and (at_limit or beyond >= most // 2)
            return at_maximum or others_at_limit or folder in failing

        held = frozenset(folder for folder in folders if is_held(folder, in_one))
        waiting = frozenset(folder for folder in folders if is_held(folder, 3 * in_one // 4))
        one_at_a_time = frozenset(folders) - sharing
        return cls(most, held, waiting, one_at_a_time, is_full=len(held) == len(set(folders)))


def accepted_within(longest_grace: float) -> float:
    """Return the seconds within which accepted uploads count for the limits; `longest_grace`: of the open doubts.

    Half of the uploads accepted within two graces may be in doubt. So occasional failures, each decided after its
    grace, do not stop the others.
    """
    return max(_ACCEPTED_WITHIN, 2 * longest_grace)

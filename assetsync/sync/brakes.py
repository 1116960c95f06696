"""The brake: changes so large that they are likelier a mistake than a wish stop the sending until a person resumes it.

An upload cannot be undone, so an unmounted disk, a mapping that points to another folder by mistake or a tool that
rewrites a whole tree must not be mirrored before someone has looked.
"""

import json
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from assetsync.core.names import printable
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.owner import LAYOUT, LISTED
from assetsync.model import Mapping
from assetsync.sync.brake_control import BrakeControl, subject_of
from assetsync.sync.context import Context
from assetsync.sync.intake.intake import ScanResult
from assetsync.sync.intake.plan import Plan
from assetsync.text import files, plural

_SAMPLED = 1000
_NAMED = 3
_HOUR = 3600.0
_MINUTE = 60.0
_SENT_AGAIN = "its files would all be sent again, but those that were moved there in the service"
_QUEUE_WAS_EMPTY = "queue_was_empty"


def _mapping_fact(mapping: Mapping) -> str:
    """Name the fact that says where a mapping pointed."""
    return "mapping:" + mapping.path.hex()


def _most_of(result: ScanResult) -> str:
    """Name the folders from which most is missing, in words."""
    folders = Counter(one.path.rpartition(b"/")[0] for one in result.missing if one.mapping is not None)
    named = [f"{count:,} from {printable(folder) or '.'}" for folder, count in folders.most_common(_NAMED)]
    others = [f"the others from {plural(len(folders) - _NAMED, 'other folder')}"] * (len(folders) > _NAMED)
    return f", {', '.join(named + others)}"


def pointed_to(ledger: Ledger, mapping: Mapping) -> str | None:
    """Give the folder of the service that a mapping pointed to, where it has assets there and points elsewhere now."""
    before, to = ledger.reports.fact(_mapping_fact(mapping)), mapping.destfolderid
    if before is None or before == to or not ledger.intake.has_assets(mapping.path, before, apart_from=to):
        return None
    return before


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may be new or vanish at once (configuration `brake`), and whether what has moved is sent again."""

    max_new_files: int
    max_vanished: int
    resend_moved: bool = True


class _Reason(NamedTuple):
    """What a brake is pulled for: its kind and subject, the sentence, and how much it is."""

    kind: str
    subject: str
    detail: str
    amount: int


class Brakes:
    """Pulls brakes; `pulled` tells whether any waits for a person."""

    def __init__(self, context: Context, plan: Plan, limits: Limits, list_again: Callable[[str], None]) -> None:
        """Make the brakes of a site.

        `list_again` is told the folders of the service to which a mapping points anew: what was moved there by hand is
        seen before anything is sent.
        """
        self._ledger = context.ledger
        self._brake_control = BrakeControl(context.ledger, context.clock)
        self._clock = context.clock
        self._plan = plan
        self._limits = limits
        self._list_again = list_again
        # The mappings that the last check found to take over files.
        self._taking: set[int] = set()
        self._had_been_empty = False
        # Of the last hour, a minute apart: (steady seconds, how many versions had been new until then).
        self._counted: deque[tuple[float, int]] = deque()
        self._told = 0

    def pulled(self) -> bool:
        """Whether a brake waits for a person."""
        return bool(self._ledger.reports.brakes())

    def check_mappings(self) -> frozenset[int]:
        """Before a scan: a mapping that has assets must not point to another folder of the service unnoticed.

        Gives the positions of those that do; until a person has looked, their files stay what they were.
        """
        self._heed_changes()
        frozen, subjects = set(), set()
        for position, mapping in enumerate(self._plan.mappings.all):
            reason = self._repointed(position)
            if reason is not None:
                self._brake_control.pull(*reason)
                subjects.add(reason.subject)
                frozen.add(position)
            elif self._ledger.reports.fact(_mapping_fact(mapping)) != mapping.destfolderid:
                self._ledger.set_fact(_mapping_fact(mapping), mapping.destfolderid)
        for brake in self._ledger.reports.brakes():
            if brake.kind == "destfolderid" and brake.subject not in subjects:
                # A resume instead would agree to the mistake that was just put right.
                self._brake_control.lift(brake, "nothing would be sent again by it any more")
        for kind in ("destfolderid", "takeover"):
            # Once a mapping points elsewhere again, by a mistake that was agreed to, it is asked for anew.
            self._brake_control.withdraw_others(kind, [self._subject(at) for at in range(len(self._plan.mappings.all))])
        return frozenset(frozen | self._check_takeover(frozen))

    def _repointed(self, position: int) -> _Reason | None:
        """Tell whether a mapping that has assets points to another folder than before, to which nobody has agreed."""
        mapping, subject = self._plan.mappings.all[position], self._subject(position)
        before, to = pointed_to(self._ledger, mapping), mapping.destfolderid
        if before is None or self._brake_control.allowed("destfolderid", subject, 1):
            return None
        then = _SENT_AGAIN if self._limits.resend_moved else "what is new would be sent there"
        shown = printable(mapping.path) or "."
        detail = f"the mapping {shown} pointed to folder {before} of the service and points to {to} now: {then}"
        return _Reason("destfolderid", subject, detail, 1)

    def _layout(self) -> str:
        return json.dumps({mapping.path.hex(): mapping.destfolderid for mapping in self._plan.mappings.all})

    def _heed_changes(self) -> None:
        """Have the folders listed to which a mapping points that did not before, or not of late; and drift read."""
        layout, fact = self._layout(), self._ledger.reports.fact
        # Older releases kept the other alone.
        before = fact(LISTED) or fact(LAYOUT)
        if layout == before:
            return
        if before is not None:
            known = json.loads(before)
            for path, folder in json.loads(layout).items():
                if known.get(path) != folder:
                    self._list_again(folder)
            self._ledger.drifts.read_anew()
        self._ledger.set_fact(LISTED, layout)

    def _check_takeover(self, frozen: set[int]) -> set[int]:
        """Where the mappings are others than before, see whether one takes over files that lie elsewhere by now."""
        if not self._may_take_over():
            self._taking = set()
            return set()
        reasons = self._takeovers(Counter(position for position in self._taken_over() if position not in frozen))
        for reason in reasons.values():
            self._brake_control.pull(*reason)
        self._taking = set(reasons)
        if not self._taking and not frozen:
            self._ledger.set_fact(LAYOUT, self._layout())
        return self._taking

    def _may_take_over(self) -> bool:
        return self._limits.resend_moved and self._ledger.reports.fact(LAYOUT) != self._layout()

    def _takeovers(self, counts: Counter[int]) -> dict[int, _Reason]:
        """Tell, by mapping, which take over files sent elsewhere, to which nobody has agreed."""
        found = {}
        for position, count in sorted(counts.items()):
            if not self.allows_takeover(position, count):
                mapping = self._plan.mappings.all[position]
                detail = (
                    f"the mapping {printable(mapping.path) or '.'} takes over {files(count)} sent to another folder of"
                    f" the service than {mapping.destfolderid}: {_SENT_AGAIN}"
                )
                found[position] = _Reason("takeover", self._subject(position), detail, count)
        return found

    def _taken_over(self) -> Iterator[int]:
        """Give, for each version whose asset lies in another folder than its mapping points to, the mapping."""
        mappings = self._plan.mappings
        for path, *folders in self._ledger.intake.sent():
            position = mappings.for_directory(path.rpartition(b"/")[0])
            if position is not None and mappings.all[position].destfolderid not in folders:
                yield position

    def allows_takeover(self, position: int, count: int) -> bool:
        """Whether a mapping may have so many files sent that lie in another folder of the service."""
        subject = self._subject(position)
        if any((brake.kind, brake.subject) == ("takeover", subject) for brake in self._ledger.reports.brakes()):
            # A word on fewer does not hold for what is left of more.
            return False
        return self._brake_control.allowed("destfolderid", subject, 1) or self._brake_control.allowed(
            "takeover", subject, count
        )

    def check_back(self, result: ScanResult) -> None:
        """After a scan: files that were mapped nowhere for a while, and whose mapping points to another folder now."""
        for reason in self._takeovers(result.taken_over).values():
            self._brake_control.pull(*reason)
        wanted = {self._subject(position) for position in (*result.taken_over, *self._taking)}
        for brake in self._ledger.reports.brakes():
            if brake.kind == "takeover" and result.report.complete and brake.subject not in wanted:
                self._brake_control.lift(brake, "no mapping takes them over any more")

    def _subject(self, position: int) -> str:
        return subject_of(self._plan.mappings.all[position])

    def allows_missing(self, folder: str, detail: str, amount: int) -> bool:
        """During an audit: whether so many assets may be taken for missing in a folder of the service."""
        if self._brake_control.allowed("missing", folder, amount):
            return True
        self._brake_control.pull("missing", folder, detail, amount)
        return False

    def missing_few(self, folder: str) -> None:
        """After an audit that missed no more than is let pass in a folder: a word on more is used, or not needed."""
        self._brake_control.withdraw("missing", folder)

    def allows_vanished(self, result: ScanResult) -> bool:
        """After a scan that came to its end: whether what is missing may be recorded as gone."""
        if result.report.complete:
            self._heed_whole(result)
        reasons = list(self._vanished(result))
        for reason in reasons:
            self._brake_control.pull(*reason)
        return not reasons

    def _heed_whole(self, result: ScanResult) -> None:
        """After a complete scan: note of what nothing is missing any more, and which folders are mapped no more."""
        subjects = [printable(mapping.path) or "." for mapping in self._plan.mappings.all]
        whole = {("emptied", subject) for at, subject in enumerate(subjects) if not result.missing_by[at]}
        whole |= {("vanished", "site")} if not result.missing_count else set()
        for kind, subject in whole:
            # Whoever resumed had mounted the disk again: that is no word on the next time.
            self._brake_control.withdraw(kind, subject)
        for brake in self._ledger.reports.brakes():
            if (brake.kind, brake.subject) in whole:
                self._brake_control.lift(brake, "what was missing is there again")
            elif brake.kind == "emptied" and brake.subject not in subjects:
                self._brake_control.lift(brake, "no mapping names this folder any more")

    def _vanished(self, result: ScanResult) -> Iterator[_Reason]:
        """Tell what is missing that nobody has agreed to: all of a mapped folder, or too much of the site."""
        for position, count in result.missing_by.items():
            subject = printable(self._plan.mappings.all[position].path) or "."
            if result.report.per_mapping[position] == 0 and not self._brake_control.allowed("emptied", subject, count):
                state = "missing" if position in result.report.missing_mappings else "empty"
                detail = f"the mapped folder {subject} held {files(count)} and is {state} now: is its disk mounted?"
                yield _Reason("emptied", subject, detail, count)
        count, before = result.missing_count, self._ledger.intake.size()
        too_many = count > self._limits.max_vanished or (before >= _SAMPLED and count * 2 > before)
        if too_many and not self._brake_control.allowed("vanished", "site", count):
            detail = f"{count:,} of {before:,} known files are gone{_most_of(result)}: is that meant?"
            yield _Reason("vanished", "site", detail, count)

    def queue_is_empty(self) -> None:
        """Note that a first import has ended: from now on, many new files at once are a matter for a person."""
        self._ledger.set_fact(_QUEUE_WAS_EMPTY, "1")

    def check_new(self, result: ScanResult) -> None:
        """After a scan: more new files than anyone saves in an hour, once the queue had been empty before."""
        for reason in self._too_new(result):
            self._brake_control.pull(*reason)

    def _too_new(self, result: ScanResult) -> Iterator[_Reason]:
        count = result.new_versions
        if count <= self._limits.max_new_files or self._ledger.reports.fact(_QUEUE_WAS_EMPTY) is None:
            return
        if not self._brake_control.allowed("new_files", "site", count):
            detail = f"{count:,} files are new or changed since the last scan: shall they all be sent?"
            yield _Reason("new_files", "site", detail, count)

    def foreseen(self, result: ScanResult) -> list[str]:
        """After a dry scan: for what a run would pull brakes that are not pulled yet. Writes nothing."""
        positions = range(len(self._plan.mappings.all))
        reasons = [reason for position in positions if (reason := self._repointed(position)) is not None]
        taken = result.taken_over | (Counter(self._taken_over()) if self._may_take_over() else Counter())
        repointed = {reason.subject for reason in reasons}
        reasons += [reason for reason in self._takeovers(taken).values() if reason.subject not in repointed]
        reasons += self._too_new(result)
        if result.report.finished:
            reasons += self._vanished(result)
        pulled = {(brake.kind, brake.subject) for brake in self._ledger.reports.brakes()}
        return [reason.detail for reason in reasons if (reason.kind, reason.subject) not in pulled]

    def check_hour(self, new_versions: int) -> None:
        """Between scans: as `check_new`, for what single looks found new; `new_versions` counts since the start."""
        now = self._clock.steady()
        if not self._had_been_empty:
            self._had_been_empty = self._ledger.reports.fact(_QUEUE_WAS_EMPTY) is not None
            # What a first import brought is no reason.
            self._counted = deque([(now, new_versions)])
        while self._counted and now - self._counted[0][0] > _HOUR:
            self._counted.popleft()
        if not self._counted or now - self._counted[-1][0] >= _MINUTE:
            self._counted.append((now, self._told))
        self._told = new_versions
        count = new_versions - self._counted[0][1]
        if count > self._limits.max_new_files:
            detail = f"{count:,} files came or changed within an hour: shall they all be sent?"
            self._brake_control.pull("new_files", "hour", detail, count)
            # Once a person has resumed, another hour begins.
            self._counted = deque([(now, new_versions)])

"""Pull brakes for changes that are too large, apply a person's release, and lift brakes whose reason is gone."""

import json
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import structlog

from assetsync.config import models
from assetsync.core.brakes import released_by
from assetsync.core.mapping import Plan
from assetsync.core.names import printable
from assetsync.ledger.file.facts import LAYOUT, LAYOUT_LISTED
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.reports import Brake
from assetsync.model import Clock, Mapping
from assetsync.sync.context import Context
from assetsync.sync.intake.intake import ScanResult
from assetsync.sync.intake.renames import Missing
from assetsync.text import files, plural

log = structlog.get_logger(__name__)


_ALLOWED_FOR = 7 * 24 * 3600.0


def subject_of(mapping: Mapping) -> str:
    """Return the subject of a brake for a mapping: its path and its destination."""
    return f"{_shown(mapping.path)} → {mapping.destfolderid}"


def _shown(folder: bytes) -> str:
    return printable(folder) or "."


class BrakeControl:
    """Pulls and lifts the brakes of a ledger."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock

    def allowed(self, kind: str, subject: str, amount: int) -> bool:
        """Return whether, within a week, a person released such a brake on the subject for this amount or more."""
        allowed = self._ledger.resumed_amount(kind, subject, self._clock.now() - _ALLOWED_FOR)
        return allowed is not None and amount <= allowed

    def withdraw(self, kind: str, subject: str) -> None:
        """Revoke a person's release of such a brake on the subject."""
        since = self._clock.now() - _ALLOWED_FOR
        if self._ledger.resumed_amount(kind, subject, since):
            self._ledger.withdraw(kind, subject, since)

    def withdraw_others(self, kind: str, subjects: Collection[str]) -> None:
        """Revoke a person's releases of this kind on all subjects but these."""
        self._ledger.withdraw_others(kind, subjects)

    def pull(self, kind: str, subject: str, detail: str, amount: int) -> None:
        """Stop uploads until a person has looked; a brake that is already pulled is left unchanged."""
        if self._ledger.pull_brake(kind, subject, detail, amount, self._clock.now()):
            fix = f"{released_by(kind)}: `assetsync resume`"
            log.error("brake pulled", kind=kind, subject=subject, detail=detail, fix=fix)

    def lift(self, brake: Brake, why: str) -> None:
        """Release a brake whose reason is gone; this does not count as a person's release."""
        self._ledger.lift_brake(brake.id, self._clock.now())
        log.warning("brake released", why=why, detail=brake.detail)

    def lift_others(self, kind: str, subjects: Collection[str], why: str) -> None:
        """Release the brakes of this kind on all subjects but these, because their reason is gone."""
        for brake in self._ledger.reports.brakes():
            if brake.kind == kind and brake.subject not in subjects:
                self.lift(brake, why)


_HALF_COUNTS_FROM = 1000
"""Known files from which on the loss of more than half pulls a brake."""

_FEWEST = 20
"""Files of a mapping from which on `brake.max_vanished_share` counts."""
_LEAST_ALIKE = 3
"""Look-alikes from which on those of a smaller mapping count, if they are all its files."""

_NAMED = 3
_HOUR = 3600.0
_MINUTE = 60.0
_SENT_AGAIN = "its files would all be sent again, but those that were moved there in the service"
_QUEUE_WAS_EMPTY = "queue_was_empty"


def _mapping_fact(mapping: Mapping) -> str:
    """Return the name of the ledger metadata that holds the last destination of a mapping."""
    return "mapping:" + mapping.path.hex()


def _most_of(result: ScanResult) -> str:
    """Return a clause that names the folders with the most missing files."""
    missing = (one for one in result.missing if one.mapping is not None and one.had_asset)
    counted = (*missing, *result.replaced)
    folders = Counter(one.path.rpartition(b"/")[0] for one in counted)
    named = [f"{count:,} from {_shown(folder)}" for folder, count in folders.most_common(_NAMED)]
    others = [f"the others from {plural(len(folders) - _NAMED, 'other folder')}"] * (len(folders) > _NAMED)
    return f", {', '.join(named + others)}"


def _by_mapping(missing: Iterable[Missing]) -> Counter[int]:
    return Counter(one.mapping for one in missing if one.mapping is not None)


def _known(position: int, result: ScanResult) -> int:
    """Return the number of files that a mapping had before a scan."""
    there = result.report.per_mapping[position] - result.new_by[position]
    replaced = _by_mapping(result.replaced)[position]
    return there - replaced + result.missing_by[position]


def pointed_to(ledger: Ledger, mapping: Mapping) -> str | None:
    """Return the folder of the service that a mapping pointed to before, if it points elsewhere now and has assets.

    Return None otherwise. Assets that were moved to the new folder in the service do not count.
    """
    before, to = ledger.reports.fact(_mapping_fact(mapping)), mapping.destfolderid
    if before is None or before == to or not ledger.versions.has_assets(mapping.path, before, apart_from=to):
        return None
    return before


class _Reason(NamedTuple):
    """The reason for a brake: its kind, subject, message and amount."""

    kind: str
    subject: str
    detail: str
    amount: int


class Brakes:
    """Checks a site against its limits and pulls the brakes."""

    def __init__(self, context: Context, plan: Plan, limits: models.Brake, *, resend_moved: bool) -> None:
        """Take the configured limits; with `resend_moved`, files whose mapping points elsewhere are sent again."""
        self._ledger = context.ledger
        self._brake_control = BrakeControl(context.ledger, context.clock)
        self._clock = context.clock
        self._plan = plan
        self._subjects = [subject_of(mapping) for mapping in plan.mappings.all]
        self._limits = limits
        self._resend_moved = resend_moved
        # The mappings that take over files, by the last check.
        self._taking: set[int] = set()
        self.frozen: frozenset[int] = frozenset()
        """The positions of the mappings whose files stay as they are, by the last `check_mappings`."""
        self.is_counting = False
        """Whether a scan has not shown yet how many files are missing."""
        self._had_been_empty = False
        # Samples of the last hour, a minute apart: (steady seconds, number of new versions until then).
        self._counted: deque[tuple[float, int]] = deque()
        self._new_versions = 0

    def pulled(self) -> bool:
        """Return whether a brake waits for a person."""
        return bool(self._ledger.reports.brakes())

    def check_mappings(self) -> None:
        """Pull a brake for each mapping with assets that points to another folder than before; called before a scan.

        A mapping that takes over files sent to another folder pulls a brake, too. The files of all these mappings stay
        as they are (`frozen`) until a person has looked.
        """
        self._note_mapping_changes()
        frozen, subjects = set(), set()
        for position, mapping in enumerate(self._plan.mappings.all):
            reason = self._repointed(position)
            if reason is not None:
                self._brake_control.pull(*reason)
                subjects.add(reason.subject)
                frozen.add(position)
            elif self._ledger.reports.fact(_mapping_fact(mapping)) != mapping.destfolderid:
                self._ledger.set_fact(_mapping_fact(mapping), mapping.destfolderid)
        # Lifted here, because a person's release would agree to the mistake that was just fixed.
        self._brake_control.lift_others("destfolderid", subjects, "the mapping no longer points to another folder")
        for kind in ("destfolderid", "takeover"):
            # Revoke releases for other destinations: if a mapping points there again, a person must agree again.
            self._brake_control.withdraw_others(kind, self._subjects)
        self.frozen = frozenset(frozen | self._check_takeover(frozen))

    def _repointed(self, position: int) -> _Reason | None:
        """Return a reason if a mapping with assets points to another folder than before and nobody has agreed."""
        mapping, subject = self._plan.mappings.all[position], self._subjects[position]
        before, to = pointed_to(self._ledger, mapping), mapping.destfolderid
        if before is None or self._brake_control.allowed("destfolderid", subject, 1):
            return None
        then = _SENT_AGAIN if self._resend_moved else "what is new would be sent there"
        shown = _shown(mapping.path)
        detail = f"the mapping {shown} pointed to folder {before} of the service and points to {to} now: {then}"
        return _Reason("destfolderid", subject, detail, 1)

    def _layout(self) -> str:
        return json.dumps({mapping.path.hex(): mapping.destfolderid for mapping in self._plan.mappings.all})

    def _note_mapping_changes(self) -> None:
        """If the mappings changed: list the folders again that a mapping newly points to, and read all drift again."""
        layout, before = self._layout(), self._ledger.reports.fact(LAYOUT_LISTED)
        if layout == before:
            return
        if before is not None:
            known = json.loads(before)
            for path, folder in json.loads(layout).items():
                if known.get(path) != folder:
                    # Assets that were moved there by hand are then seen before anything is sent.
                    self._ledger.folder_listings.again(folder)
            self._ledger.metadata_drift.read_anew()
        self._ledger.set_fact(LAYOUT_LISTED, layout)

    def _check_takeover(self, frozen: set[int]) -> set[int]:
        """Pull a brake for each mapping that takes over files sent to another folder; return the positions of these.

        The mappings are checked only if they differ from those that were last found in order.
        """
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
        return self._resend_moved and self._ledger.reports.fact(LAYOUT) != self._layout()

    def _takeovers(self, counts: Counter[int]) -> dict[int, _Reason]:
        """Return, by mapping, the reasons for taking over files sent to another folder without a person's release."""
        found = {}
        for position, count in sorted(counts.items()):
            if not self.allows_takeover(position, count):
                mapping = self._plan.mappings.all[position]
                detail = (
                    f"the mapping {_shown(mapping.path)} takes over {files(count)} sent to another folder of"
                    f" the service than {mapping.destfolderid}: {_SENT_AGAIN}"
                )
                found[position] = _Reason("takeover", self._subjects[position], detail, count)
        return found

    def _taken_over(self) -> Iterator[int]:
        """Yield the mapping of each version whose asset is in another folder than the mapping points to."""
        mappings = self._plan.mappings
        for path, *folders in self._ledger.versions.sent():
            position = mappings.for_directory(path.rpartition(b"/")[0])
            if position is not None and mappings.all[position].destfolderid not in folders:
                yield position

    def allows_takeover(self, position: int, count: int) -> bool:
        """Return whether a mapping may send this many files whose assets are in another folder of the service."""
        subject = self._subjects[position]
        if any((brake.kind, brake.subject) == ("takeover", subject) for brake in self._ledger.reports.brakes()):
            # A release for fewer files does not cover the rest of a larger number.
            return False
        return self._brake_control.allowed("destfolderid", subject, 1) or self._brake_control.allowed(
            "takeover", subject, count
        )

    def check_found(self, result: ScanResult) -> None:
        """After a scan: pull brakes for files that were sent to another folder of the service, and for too many new.

        The files of the first kind were unmapped for a while. After a complete scan, the brakes of mappings that no
        longer take over files are lifted. Of new files, more than anyone saves in an hour pull a brake, once the queue
        has been empty.
        """
        for reason in (*self._takeovers(result.taken_over).values(), *self._too_new(result)):
            self._brake_control.pull(*reason)
        wanted = {self._subjects[position] for position in (*result.taken_over, *self._taking)}
        if result.report.complete:
            self._brake_control.lift_others(
                "takeover", wanted, "no mapping takes over files of another folder any longer"
            )

    def check_vanished(self, result: ScanResult) -> bool:
        """After a scan that reached its end: return whether missing files may be recorded as gone; else pull brakes."""
        if result.report.complete:
            self._lift_found(result)
        reasons = list(self._vanished(result))
        for reason in reasons:
            self._brake_control.pull(*reason)
        return not reasons

    def _lift_found(self, result: ScanResult) -> None:
        """After a complete scan: revoke releases and lift brakes for folders that miss nothing or are not mapped."""
        missing = {("vanished", "site"): result.missing_count}
        for position, mapping in enumerate(self._plan.mappings.all):
            shown, count = _shown(mapping.path), result.missing_by[position]
            missing |= {("emptied", shown): count, ("vanished", f"{shown}/"): count}
        for (kind, subject), count in missing.items():
            if not count:
                # The person who resumed had mounted the disk again: the release must not cover the next time.
                self._brake_control.withdraw(kind, subject)
        for brake in self._ledger.reports.brakes():
            if missing.get((brake.kind, brake.subject)) == 0:
                self._brake_control.lift(brake, "all missing files are back")
            elif brake.kind in ("emptied", "vanished") and (brake.kind, brake.subject) not in missing:
                self._brake_control.lift(brake, "no mapping has this folder any longer")

    def _vanished(self, result: ScanResult) -> Iterator[_Reason]:
        """Yield a reason for each mapped folder without any file and for too many missing files, unless released."""
        mappings = self._plan.mappings.all
        for position, count in result.missing_by.items():
            shown = _shown(mappings[position].path)
            if result.report.per_mapping[position] == 0 and not self._brake_control.allowed("emptied", shown, count):
                state = "missing" if position in result.report.missing_mappings else "empty"
                detail = f"the mapped folder {shown} held {files(count)} and is {state} now: is its disk mounted?"
                yield _Reason("emptied", shown, detail, count)
        for position, count in _by_mapping(result.not_renamed(by_inode=True)).items():
            shown = _shown(mappings[position].path)
            too_many = self._is_large_share(position, count, result)
            if too_many and not self._brake_control.allowed("vanished", f"{shown}/", count):
                known = _known(position, result)
                detail = f"{count:,} of {known:,} files of the mapped folder {shown} are gone: is this intended?"
                # A release covers all missing files: after a restart it is not known which were renamed.
                yield _Reason("vanished", f"{shown}/", detail, result.missing_by[position])
        count, before = result.missing_count, self._ledger.versions.size()
        if self._is_too_many(count, before) and not self._brake_control.allowed("vanished", "site", count):
            detail = f"{count:,} of {before:,} known files are gone{_most_of(result)}: is this intended?"
            yield _Reason("vanished", "site", detail, count)

    def _is_large_share(self, position: int, count: int, result: ScanResult) -> bool:
        known = _known(position, result)
        if known < _FEWEST:
            # That all files of a small mapping were replaced by others that look alike is a sign of another disk.
            alike = result.look_alikes[position] + _by_mapping(result.replaced)[position]
            if alike < max(_LEAST_ALIKE, known):
                return False
        return count > self._limits.max_vanished_share * known and result.report.per_mapping[position] > 0

    def _is_too_many(self, count: int, known: int) -> bool:
        return count > self._limits.max_vanished or (known >= _HALF_COUNTS_FROM and count * 2 > known)

    def would_exceed(self, result: ScanResult) -> bool:
        """Return whether a scan missed more files than may vanish, if its look-alikes count."""
        missing, alike = _by_mapping(result.not_renamed(by_inode=True)), result.look_alikes
        if any(self._is_large_share(at, count + missing[at], result) for at, count in alike.items()):
            return True
        return self._is_too_many(alike.total() + result.missing_count, self._ledger.versions.size())

    def queue_is_empty(self) -> None:
        """Record that a first import has ended: from now on, many new files at once pull a brake."""
        self._ledger.set_fact(_QUEUE_WAS_EMPTY, "1")

    def _too_new(self, result: ScanResult) -> Iterator[_Reason]:
        count = result.new_versions
        if count <= self._limits.max_new_files or self._ledger.reports.fact(_QUEUE_WAS_EMPTY) is None:
            return
        if not self._brake_control.allowed("new_files", "site", count):
            detail = f"{count:,} files are new or changed since the last scan: should all of them be sent?"
            yield _Reason("new_files", "site", detail, count)

    def foreseen(self, result: ScanResult) -> list[str]:
        """After a dry scan: return the messages of the brakes that a run would pull in addition. Write nothing."""
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
        """Between scans: pull a brake for too many new files among the single looks of the last hour.

        `new_versions` is the number of new and changed files since the start of the process.
        """
        now = self._clock.steady()
        if not self._had_been_empty:
            self._had_been_empty = self._ledger.reports.fact(_QUEUE_WAS_EMPTY) is not None
            # The files of a first import do not count.
            self._counted = deque([(now, new_versions)])
        while self._counted and now - self._counted[0][0] > _HOUR:
            self._counted.popleft()
        if not self._counted or now - self._counted[-1][0] >= _MINUTE:
            self._counted.append((now, self._new_versions))
        self._new_versions = new_versions
        count = new_versions - self._counted[0][1]
        if count > self._limits.max_new_files:
            detail = f"{count:,} files came or changed within an hour: should all of them be sent?"
            self._brake_control.pull("new_files", "hour", detail, count)
            # Start a new hour: once a person has resumed, these files do not count again.
            self._counted = deque([(now, new_versions)])

"""Detect other sites on this machine that send the same files to the same folder of the service.

A configuration that was copied for another site, and not changed in all places, makes such a duplicate. Neither ledger
knows what the other has sent, so each file would be uploaded twice. Therefore a site records a claim in a fact of its
ledger before it reads a file: which folders of which tree it sends to which folders of which service. Then it reads the
claims in the ledgers beside its own. The site that claims the same files later waits for a person. A site that has
passed once goes on, and checks again only after its configuration changes: nothing that another site does stops it.

`STATES` has the states of a claim. Each release reads the claims of all others: their form never changes.
"""

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import structlog
from pydantic import TypeAdapter, ValidationError

from assetsync.config.document.fields import HexPath
from assetsync.core.names import printable
from assetsync.errors import LedgerError, RootElsewhere
from assetsync.ledger.file.database import Database, is_held
from assetsync.ledger.file.facts import SITE
from assetsync.ledger.file.ledger_files import SUFFIX, real
from assetsync.ledger.ledger import Ledger
from assetsync.model import Clock
from assetsync.sync.brakes import BrakeControl

log = structlog.get_logger(__name__)

CLAIM = "claim"
"""The fact that holds the claim of a ledger's site."""

AGREED = "twins"
"""The fact that lists the ledgers that an operator has agreed to."""

TWIN = "twin"
"""The kind of the brake."""

UNREADABLE_FIX = (
    "let the user of assetsync read it. Until then nobody knows whether its site sends the same files. If that site no"
    " longer exists, remove the ledger and its .epoch file"
)
"""The fix for a ledger beside this one that cannot be read."""

_NAMED = 3
_PORTS = {"http": 80, "https": 443}


class ClaimState(StrEnum):
    """The states of a claim, as recorded."""

    ASKING = "asking"
    WAITING = "waiting"
    BLIND = "blind"
    ACTIVE = "active"


class Follows(NamedTuple):
    """What follows from the state of a claim."""

    checks: bool
    """Whether its site reads the other claims at its next check, unless a brake holds it."""
    counts: bool
    """Whether the claim stops other sites while no process holds its ledger; that of a copied ledger never does."""
    counts_held: bool
    """Whether it does while a process holds its ledger."""


STATES = {
    # Recorded before the other claims are read: of two sites that start at once, at least one sees the other.
    ClaimState.ASKING: Follows(checks=True, counts=False, counts_held=True),
    # Another site sends the same files, and no person agreed to it.
    ClaimState.WAITING: Follows(checks=True, counts=False, counts_held=False),
    # No such site was found, but a ledger could not be read.
    ClaimState.BLIND: Follows(checks=True, counts=True, counts_held=True),
    # No such site was found.
    ClaimState.ACTIVE: Follows(checks=False, counts=True, counts_held=True),
}
"""The states of a claim. A change of the configuration begins again with ASKING."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a site mirrors: `folders` maps each mapped path below `root` to a folder of `service`.

    `places` holds the real path, device and inode of each mapped folder that existed. `ledger` is a word that only
    copies of the ledger share, and `path` is the path of the ledger that the claim was made for.
    """

    root: HexPath
    service: str
    folders: Mapping[HexPath, str]
    places: Mapping[HexPath, tuple[HexPath, int, int]] = field(default_factory=dict)
    ledger: str = ""
    path: str = ""
    state: ClaimState = ClaimState.ACTIVE

    def is_same(self, other: "Claim") -> bool:
        """Return whether the same configuration made both claims, for the ledger at the same path."""
        ours, theirs = ((c.root, c.service, c.folders, c.path) for c in (self, other))
        return ours == theirs

    def text(self) -> str:
        """Return the claim in the form stored in the fact."""
        return json.dumps(_CLAIMS.dump_python(self, mode="json"))

    def located(self) -> dict[bytes, str]:
        """Return the destination of each mapped folder, by its location on disk."""
        known = {path: place for path, (place, *_node) in self.places.items()}
        return {known.get(path) or _real(self.root, path): folder for path, folder in self.folders.items()}


_CLAIMS = TypeAdapter(Claim)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another ledger and the claim of its site, None if unreadable; `is_held`: a process sends for it.

    `agreed` lists the ledgers that an operator has agreed to there. `shared` has the folders on disk that both sites
    mirror to the same folder of the service, each with that folder: with any, it is a duplicate site.
    """

    ledger: Path
    site: str
    claim: Claim | None
    is_held: bool = False
    agreed: tuple[str, ...] = ()
    shared: Mapping[bytes, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return a clause that names the site and the shared folders."""
        named = [f"{printable(place)} to folder {folder}" for place, folder in list(self.shared.items())[:_NAMED]]
        more = len(self.shared) - len(named)
        what = ", ".join(named) + (f" and {more:,} more" if more else "")
        return f"the site `{self.site}` (ledger {self.ledger}) sends {what}, too"

    @property
    def subject(self) -> str:
        """The subject of its brake."""
        return str(self.ledger)

    @property
    def detail(self) -> str:
        """The message of its brake."""
        return (
            f"{self}: each would upload what the other has uploaded. Correct the configuration that is wrong. If that"
            " is the other one, or if that site no longer exists, then release the brake"
        )


class DuplicateSites:
    """Checks the ledgers beside this one; used by one thread at a time."""

    def __init__(self, ledger: Ledger, clock: Clock, path: Path, claim: Claim) -> None:
        """Take the path of the ledger and the claim of the site, both from the configuration."""
        self._ledger = ledger
        self._brake_control = BrakeControl(ledger, clock)
        self._path, self._own_claim = path, claim
        self._warned = False

    def check(self) -> None:
        """Return if no other site sends the same files or a person agreed; else pull brakes and raise RootElsewhere.

        A brake holds until a person has looked or this site's own configuration was changed. Nothing that the other
        site does meanwhile (a restart, a repair of its ledger, another address) lets this site start.
        """
        claim, state = self._claim()
        if state is not None and not STATES[state].checks:
            self._record(claim, state)
            return
        for brake in self._ledger.reports.brakes():
            if state is not None and brake.kind == TWIN:
                raise RootElsewhere(brake.detail)
        self._record(claim, ClaimState.ASKING)
        others = list(neighbours(self._path))
        found = self._found(claim, others)
        still = [twin.subject for twin in found]
        self._brake_control.lift_others(TWIN, still, "this configuration no longer says the same as the other site's")
        passed = ClaimState.BLIND if self._is_blind(others) else ClaimState.ACTIVE
        self._record(claim, ClaimState.WAITING if found else passed)
        for twin in found:
            self._brake_control.pull(TWIN, twin.subject, twin.detail, 1)
        if found:
            raise RootElsewhere(found[0].detail)
        # The release of a brake whose cause was fixed must not cover a later mistake.
        self._brake_control.withdraw_others(TWIN, ())

    def expect(self) -> None:
        """Raise RootElsewhere if another site sends the same files and nobody agreed; pull no brake."""
        claim, state = self._claim()
        if state is None or STATES[state].checks:
            for twin in self._found(claim, neighbours(self._path)):
                raise RootElsewhere(twin.detail)

    def _claim(self) -> tuple[Claim, ClaimState | None]:
        """Return the claim of the configuration, and its recorded state; None if another one is recorded, or none."""
        claim, before = placed(self._own_claim), read_claim(self._ledger.reports.fact(CLAIM))
        if before is None:
            return replace(claim, ledger=secrets.token_hex(8)), None
        if not before.is_same(claim):
            return replace(claim, ledger=before.ledger), None
        # A folder that is not there at the moment keeps its last location.
        return replace(claim, ledger=before.ledger, places={**before.places, **claim.places}), before.state

    def _record(self, claim: Claim, state: ClaimState) -> None:
        text = replace(claim, state=state).text()
        if text != self._ledger.reports.fact(CLAIM):
            self._ledger.set_fact(CLAIM, text)

    def _found(self, claim: Claim, others: Iterable[Neighbour]) -> list[Neighbour]:
        """Return the duplicate sites that nobody has agreed to; record those that a person has agreed to just now."""
        agreed = agreed_ledgers(self._ledger.reports.fact(AGREED))
        found = [twin for twin in duplicates_of(claim, others) if twin.subject not in agreed]
        allowed = [twin.subject for twin in found if self._brake_control.allowed(TWIN, twin.subject, 1)]
        if allowed and self._ledger.store.holds_lock:
            self._ledger.set_fact(AGREED, json.dumps(sorted({*agreed, *allowed})))
        return [twin for twin in found if twin.subject not in allowed]

    def _is_blind(self, others: Iterable[Neighbour]) -> bool:
        unreadable = [str(neighbour.ledger) for neighbour in others if neighbour.claim is None]
        if unreadable and not self._warned:
            log.warning("a ledger beside this one cannot be read", ledgers=unreadable, fix=UNREADABLE_FIX)
        self._warned = bool(unreadable)
        return self._warned


def make_claim(root: bytes, service: str, folders: Mapping[bytes, str], ledger: Path) -> Claim:
    """Return the claim of a site from its configuration, without the locations of its folders on disk."""
    return Claim(root, service, dict(folders), path=str(real(ledger)))


def placed(claim: Claim) -> Claim:
    """Return the claim with the real location of each mapped folder that is there now."""
    places = {}
    for path in claim.folders:
        place = _real(claim.root, path)
        try:
            status = os.stat(place)  # noqa: PTH116 - bytes
        except OSError:
            continue
        places[path] = (place, status.st_dev, status.st_ino)
    return replace(claim, places=places)


def _real(root: bytes, path: bytes) -> bytes:
    return os.path.realpath(os.path.join(root, path))  # noqa: PTH118 - bytes


def read_claim(text: str | None) -> Claim | None:
    """Return the claim that `Claim.text` wrote; None for no text or an invalid one."""
    try:
        return _CLAIMS.validate_json(text or "")
    except ValidationError:
        return None


def agreed_ledgers(text: str | None) -> tuple[str, ...]:
    """Return the ledgers that the fact AGREED lists."""
    try:
        return tuple(map(str, json.loads(text or "[]")))
    except (ValueError, TypeError):
        return ()


def neighbours(ledger: Path) -> Iterator[Neighbour]:
    """Yield the other ledgers in the folder of this ledger, by name; this ledger need not exist.

    Ledgers without a claim are left out. If the ledger's path is a link, the ledgers beside the link and those beside
    its target are included.
    """
    own = real(ledger)
    numbers = (number for folder in (ledger.parent, own.parent) for number in sorted(folder.glob(f"*{SUFFIX}")))
    for other in dict.fromkeys(real(number.with_name(number.name.removesuffix(SUFFIX))) for number in numbers):
        found = None if other == own else _look(other)
        if found is not None:
            yield found


def _look(ledger: Path) -> Neighbour | None:
    try:
        if not ledger.is_file():
            return None
        # Any release will do: the table of facts has always existed.
        store = Database(ledger, read_only=True)
        try:
            site, agreed = store.fact(SITE) or "", agreed_ledgers(store.fact(AGREED))
            claim = read_claim(store.fact(CLAIM))
        finally:
            store.close()
        held = is_held(ledger)
    except (LedgerError, OSError):
        return Neighbour(ledger, "", None)
    return None if claim is None else Neighbour(ledger, site, claim, held, agreed)


def duplicates_of(claim: Claim, others: Iterable[Neighbour]) -> Iterator[Neighbour]:
    """Yield the sites with ledgers beside this one that send some of its files to the same folder."""
    for neighbour in others:
        theirs = neighbour.claim
        if theirs is None or not _counts(neighbour, theirs, claim):
            continue
        if is_same_service(theirs.service, claim.service) and (shared := _shared(claim, theirs)):
            yield replace(neighbour, shared=shared)


def _counts(neighbour: Neighbour, theirs: Claim, ours: Claim) -> bool:
    """Return whether a neighbour counts as a site that may send: not if a person agreed to this site there."""
    follows, is_copy = STATES[theirs.state], theirs.ledger == ours.ledger
    counts = follows.counts_held if neighbour.is_held else follows.counts and not is_copy
    return counts and ours.path not in neighbour.agreed


def is_same_service(one: str, other: str) -> bool:
    """Return whether two addresses, as people write them, are the same."""
    return _address(one) == _address(other)


def _address(url: str) -> object:
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme.lower())
    except ValueError:
        return url
    return (parts.hostname or "").lower(), port, os.path.normpath("/" + parts.path.strip("/"))


def _shared(ours: Claim, theirs: Claim) -> dict[bytes, str]:
    """Return the folders that both sites send to the same destination; of two nested folders, the inner one."""
    here, there = ours.located(), theirs.located()
    # The same folder may be mounted at two paths.
    nodes = {found[1:]: found[0] for found in ours.places.values()}
    mounted = [(nodes.get(found[1:]), there.get(found[0])) for found in theirs.places.values()]
    there = {place: folder for place, folder in mounted if place and folder} | there
    # A folder goes where its parents go, unless it has a mapping of its own.
    both = {place: (_goes_to(here, place), _goes_to(there, place)) for place in (*here, *there)}
    return {place: one for place, (one, other) in both.items() if one and other and one.lower() == other.lower()}


def _goes_to(folders: Mapping[bytes, str], place: bytes) -> str | None:
    """Return the destination of a folder by the longest mapping that holds it, None if it is not mapped."""
    while place not in folders:
        above = os.path.dirname(place)  # noqa: PTH120 - bytes
        if above == place:
            return None
        place = above
    return folders[place]

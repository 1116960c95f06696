"""Detect other sites on this machine that send the same files to the same folder of the service.

A configuration that was copied for another site, and not changed in all places, makes such a duplicate. Neither ledger
knows what the other has sent, so each file would be uploaded twice. The site that claims the same files later waits for
a person, and its tree is not read. A site that has passed once goes on, and checks again only after its configuration
changes: nothing that another site does stops it. The claim of a waiting site does not count. Reading the claims of
other ledgers is left to `ledger.site_claims`.
"""

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from assetsync.core.names import printable
from assetsync.errors import RootElsewhere
from assetsync.ledger.file.ledger_files import real
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.site_claims import (
    AGREED,
    CLAIM,
    Claim,
    ClaimState,
    Neighbour,
    agreed_ledgers,
    neighbours,
    read_claim,
)
from assetsync.model import Clock
from assetsync.sync.brakes import BrakeControl

log = structlog.get_logger(__name__)

TWIN = "twin"
"""The kind of the brake."""

UNREADABLE_FIX = (
    "let the user of assetsync read it. Until then nobody knows whether its site sends the same files. If that site no"
    " longer exists, remove the ledger and its .epoch file"
)
"""The fix for a ledger beside this one that cannot be read."""

_NAMED = 3
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class DuplicateSite:
    """Another site, and the folders on disk that both sites mirror, each with its folder of the service."""

    neighbour: Neighbour
    shared: Mapping[bytes, str]

    def __str__(self) -> str:
        """Return a clause that names the site and the shared folders."""
        named = [f"{printable(place)} to folder {folder}" for place, folder in list(self.shared.items())[:_NAMED]]
        more = len(self.shared) - len(named)
        what = ", ".join(named) + (f" and {more:,} more" if more else "")
        return f"the site `{self.neighbour.site}` (ledger {self.neighbour.ledger}) sends {what}, too"

    @property
    def subject(self) -> str:
        """The subject of its brake."""
        return str(self.neighbour.ledger)


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
        before, pulled = self._claimed(), [brake for brake in self._ledger.reports.brakes() if brake.kind == TWIN]
        claim = self._claim(before)
        if _passed(before, claim):
            self._write(replace(claim, state=ClaimState.ACTIVE), before)
            return
        if pulled and before is not None and before.is_same(claim):
            raise RootElsewhere(pulled[0].detail)
        # Write the claim before reading the others': if two sites start at once, at least one sees the other.
        claim = replace(claim, state=ClaimState.ASKING)
        self._write(claim, before)
        others = list(neighbours(self._path))
        duplicate_sites = self._found(claim, others)
        still = {twin.subject for twin in duplicate_sites}
        self._brake_control.lift_others(TWIN, still, "this configuration no longer says the same as the other site's")
        # While a ledger cannot be read, each check reads it again.
        passed = ClaimState.BLIND if self._is_blind(others) else ClaimState.ACTIVE
        self._write(replace(claim, state=ClaimState.WAITING if duplicate_sites else passed), claim)
        for twin in duplicate_sites:
            self._brake_control.pull(TWIN, twin.subject, _sentence(twin), 1)
        if duplicate_sites:
            raise RootElsewhere(_sentence(duplicate_sites[0]))
        # The release of a brake whose cause was fixed must not cover a later mistake.
        self._brake_control.withdraw_others(TWIN, ())

    def expect(self) -> None:
        """Raise RootElsewhere if another site sends the same files and nobody agreed; pull no brake."""
        before = self._claimed()
        claim = self._claim(before)
        if _passed(before, claim):
            return
        for twin in self._found(claim, neighbours(self._path)):
            raise RootElsewhere(_sentence(twin))

    def _found(self, claim: Claim, others: Iterable[Neighbour]) -> list[DuplicateSite]:
        """Return the duplicate sites that nobody has agreed to; record those that a person has agreed to just now."""
        agreed = agreed_ledgers(self._ledger.reports.fact(AGREED))
        duplicate_sites = [twin for twin in duplicates_of(claim, others) if twin.subject not in agreed]
        allowed = [twin.subject for twin in duplicate_sites if self._brake_control.allowed(TWIN, twin.subject, 1)]
        if allowed and self._ledger.store.holds_lock:
            self._ledger.set_fact(AGREED, json.dumps(sorted({*agreed, *allowed})))
        return [twin for twin in duplicate_sites if twin.subject not in allowed]

    def _is_blind(self, others: Iterable[Neighbour]) -> bool:
        unreadable = [str(neighbour.ledger) for neighbour in others if neighbour.claim is None]
        if unreadable and not self._warned:
            log.warning("a ledger beside this one cannot be read", ledgers=unreadable, fix=UNREADABLE_FIX)
        self._warned = bool(unreadable)
        return bool(unreadable)

    def _claim(self, before: Claim | None) -> Claim:
        claim = placed(self._own_claim)
        if before is None:
            return replace(claim, ledger=secrets.token_hex(8))
        # A folder that is not there at the moment keeps its last location.
        places = {**before.places, **claim.places} if before.is_same(claim) else claim.places
        return replace(claim, ledger=before.ledger, places=places)

    def _claimed(self) -> Claim | None:
        return read_claim(self._ledger.reports.fact(CLAIM))

    def _write(self, claim: Claim, before: Claim | None) -> None:
        if claim != before:
            self._ledger.set_fact(CLAIM, claim.text())


def make_claim(root: bytes, service: str, folders: Mapping[bytes, str], ledger: Path) -> Claim:
    """Return the claim of a site from its configuration, without the locations of its folders on disk."""
    return Claim(root, service, dict(folders), path=str(real(ledger)))


def placed(claim: Claim) -> Claim:
    """Return the claim with the real location of each mapped folder that is there now."""
    places = {}
    for path in claim.folders:
        named = Path(os.fsdecode(claim.root), os.fsdecode(path))
        try:
            status = named.stat()
        except OSError:
            continue
        places[path] = (os.fsencode(os.path.realpath(named)), status.st_dev, status.st_ino)
    return replace(claim, places=places)


def duplicates_of(claim: Claim, others: Iterable[Neighbour]) -> Iterator[DuplicateSite]:
    """Yield the sites with ledgers beside this one that send some of its files to the same folder."""
    ours = _Placed(claim)
    for neighbour in others:
        theirs = neighbour.claim
        if theirs is None or not _counts(neighbour, theirs, claim):
            continue
        if not is_same_service(theirs.service, claim.service):
            continue
        shared = dict(_shared(ours, _Placed(theirs)))
        if shared:
            yield DuplicateSite(neighbour, shared)


def _passed(before: Claim | None, claim: Claim) -> bool:
    """Return whether a claim of the same configuration has passed before."""
    return before is not None and before.is_same(claim) and before.state is ClaimState.ACTIVE


def _counts(neighbour: Neighbour, theirs: Claim, ours: Claim) -> bool:
    """Return whether a neighbour counts as a site that may send.

    It does not if it waits for a person, or if a person agreed to this site there. While no process holds it, it does
    not either if it is a copy of this ledger, or if its site has not yet checked its own claim.
    """
    is_copy = bool(theirs.ledger) and theirs.ledger == ours.ledger
    if (is_copy or theirs.state is ClaimState.ASKING) and not neighbour.is_held:
        return False
    return theirs.state is not ClaimState.WAITING and ours.path not in neighbour.agreed


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


class _Placed:
    """The mapped folders of a claim, by their location on disk."""

    def __init__(self, claim: Claim) -> None:
        self.folders: dict[bytes, str] = {}
        self.nodes: dict[tuple[int, int], bytes] = {}
        for path, folder in claim.folders.items():
            named = (claim.root.rstrip(b"/") + b"/" + path).rstrip(b"/") or b"/"
            found = claim.places.get(path)
            place = os.path.realpath(named) if found is None else found[0]
            self.folders[place] = folder
            if found is not None:
                self.nodes[found[1:]] = place

    def goes_to(self, place: bytes) -> str | None:
        """Return the destination of a folder by the longest mapping that holds it, None if it is not mapped."""
        while place not in self.folders:
            above = os.path.dirname(place)  # noqa: PTH120 - bytes
            if above == place:
                return None
            place = above
        return self.folders[place]


def _shared(ours: _Placed, theirs: _Placed) -> Iterator[tuple[bytes, str]]:
    """Yield the folders that both sites send to the same destination; of two nested folders, the inner one."""
    for place, folder in ours.folders.items():
        # A folder goes where its parents go, unless it has a mapping of its own.
        if _is_same_folder(theirs.goes_to(place), folder):
            yield place, folder
    for place, folder in theirs.folders.items():
        if place not in ours.folders and _is_same_folder(ours.goes_to(place), folder):
            yield place, folder
    for node, place in ours.nodes.items():
        # The same folder is mounted at two paths.
        other = theirs.nodes.get(node)
        if other not in (None, place) and _is_same_folder(ours.folders[place], theirs.folders[other]):
            yield place, ours.folders[place]


def _is_same_folder(one: str | None, other: str) -> bool:
    """Return whether two ids name one folder of the service, which compares them without case."""
    return one is not None and one.lower() == other.lower()


def _sentence(twin: DuplicateSite) -> str:
    return (
        f"{twin}: each would upload what the other has uploaded. Correct the configuration that is wrong. If that is"
        " the other one, or if that site no longer exists, then release the brake"
    )

"""Other sites on this machine that send the same files to the same folder of the service.

A configuration that was copied for another site, and not changed in all places, makes such a twin: neither ledger knows
what the other has sent, and each file would be uploaded twice. The site that claimed them first goes on; the other one
waits for a person, and nothing of its tree is looked at.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from assetsync.core.names import printable
from assetsync.flow.lever import Lever
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.neighbours import CLAIM, Claim, Neighbour, neighbours, read_claim
from assetsync.ledger.owner import SITE
from assetsync.model import Clock

TWIN = "twin"
"""The kind of the brake."""

_AGREED = "twins"
_AT_ONCE = 10.0
"""Seconds: of two sites that claim the same within these, neither is the first."""


@dataclass(frozen=True, slots=True)
class Twin:
    """Another site, the `folder` on disk that both mirror, and the folder of the service that both send it to."""

    neighbour: Neighbour
    folder: bytes
    destfolderid: str
    is_first: bool

    def __str__(self) -> str:
        """Name it in a sentence."""
        return f"the site `{self.neighbour.site}` (ledger {self.neighbour.ledger}) sends {self._what}, too"

    @property
    def subject(self) -> str:
        """What its brake is about."""
        return f"{self.neighbour.ledger}: {self._what}"

    @property
    def _what(self) -> str:
        return f"{printable(self.folder)} to folder {self.destfolderid}"


class Twins:
    """Looks at the ledgers beside this one; used by one thread at a time."""

    def __init__(self, ledger: Ledger, clock: Clock, root: bytes, service: str, folders: Mapping[bytes, str]) -> None:
        """Take the root, the address of the service, and where each mapped folder goes, from the configuration."""
        self._ledger = ledger
        self._clock = clock
        self._lever = Lever(ledger, clock)
        self._root, self._service, self._folders = root, service, folders
        self._subjects: list[str] = []

    def claim(self) -> None:
        """Write down what this site mirrors; what it claimed before keeps its time."""
        before = self._claimed()
        claim = make_claim(self._root, self._service, self._folders, before, self._clock.now())
        if claim != before:
            self._ledger.set_fact(CLAIM, claim.text())

    def problem(self) -> tuple[str, str] | None:
        """Name the twins that were first, if any that nobody has agreed to: the subject of a brake and the sentence."""
        claim = make_claim(self._root, self._service, self._folders, self._claimed(), self._clock.now())
        first = [
            twin for twin in twins_of(claim, self._ledger.store.path, self._ledger.reports.fact(SITE)) if twin.is_first
        ]
        self._subjects = [twin.subject for twin in first]
        agreed = self._agreed()
        twins = [twin for twin in first if twin.subject not in agreed]
        subject = "; ".join(twin.subject for twin in twins)
        if not twins or self._lever.allowed(TWIN, subject, 1):
            return None
        detail = (
            f"{'; '.join(map(str, twins))}: each would upload what the other has uploaded. Correct the configuration"
            " that is wrong; remove the ledger of a site that is no more"
        )
        return subject, detail

    def agreed(self) -> None:
        """Remember those that were found last, because a person has agreed to them; one that is gone is forgotten."""
        if self._subjects != self._agreed():
            self._ledger.set_fact(_AGREED, json.dumps(self._subjects))

    def _claimed(self) -> Claim | None:
        return read_claim(self._ledger.reports.fact(CLAIM))

    def _agreed(self) -> list[str]:
        subjects: list[str] = json.loads(self._ledger.reports.fact(_AGREED) or "[]")
        return subjects


def make_claim(
    root: bytes, service: str, folders: Mapping[bytes, str], before: Claim | None = None, now: float = float("inf")
) -> Claim:
    """Make the claim of a site; what it claimed `before` it has since then, and all else since `now`."""
    root = os.path.realpath(root)
    known: dict[tuple[bytes, str], float] = {}
    if before is not None and (before.root, before.service) == (root, service):
        known = {(path, folder): before.since[path] for path, folder in before.folders.items()}
    return Claim(root, service, folders, {path: known.get((path, folder), now) for path, folder in folders.items()})


def twins_of(claim: Claim, ledger: Path, site: str | None) -> Iterator[Twin]:
    """Yield the sites whose ledgers lie beside this `site`'s and that send some of its files to the same folder."""
    ours = _on_disk(claim)
    for neighbour in neighbours(ledger, site):
        theirs = _on_disk(neighbour.claim) if neighbour.claim.service == claim.service else {}
        for folder, (destfolderid, since) in ours.items():
            for other, (other_id, other_since) in theirs.items():
                if other_id != destfolderid or not (_is_in(folder, other) or _is_in(other, folder)):
                    continue
                # Of two folders of which one lies in the other, both mirror the inner one, if nothing else maps it.
                both = max(folder, other, key=len)
                if _goes_to(ours, both) == _goes_to(theirs, both) == destfolderid:
                    yield Twin(neighbour, both, destfolderid, is_first=other_since < since + _AT_ONCE)


_Placed = dict[bytes, tuple[str, float]]
"""Mapped folders by their whole paths: where they go, and since when that is claimed."""


def _on_disk(claim: Claim) -> _Placed:
    return {
        (claim.root.rstrip(b"/") + b"/" + path).rstrip(b"/") or b"/": (folder, claim.since.get(path, 0.0))
        for path, folder in claim.folders.items()
    }


def _is_in(inner: bytes, outer: bytes) -> bool:
    return inner == outer or inner.startswith(outer.rstrip(b"/") + b"/")


def _goes_to(placed: _Placed, folder: bytes) -> str | None:
    """Give where a folder goes by the longest mapping that holds it."""
    holding = [mapped for mapped in placed if _is_in(folder, mapped)]
    return placed[max(holding, key=len)][0] if holding else None

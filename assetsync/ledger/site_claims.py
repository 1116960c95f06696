"""Claims of other sites: the ledgers beside this one, and what each of them mirrors.

A site records a claim in a fact of its ledger before it reads a file: which folders of which tree it sends to which
folders of which service. So two sites that would send the same files detect each other first. What follows from a
conflict is left to `sync.duplicate_sites`.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from assetsync.errors import LedgerError
from assetsync.ledger.file.database import Database, is_held
from assetsync.ledger.file.facts import LAYOUT, LAYOUT_LISTED, ROOT, SERVICE, SITE
from assetsync.ledger.file.ledger_files import SUFFIX, real

CLAIM = "claim"
"""The fact that holds the claim of a ledger's site."""

AGREED = "twins"
"""The fact that lists the ledgers that an operator has agreed to."""


class ClaimState(StrEnum):
    """The state of a claim: made but not compared with other claims yet, in force, or waiting for an operator.

    A BLIND claim is in force as far as could be checked: a ledger beside it could not be read, and is checked again.
    """

    ASKING = "asking"
    BLIND = "blind"
    ACTIVE = "active"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a site mirrors: `folders` maps each mapped path below `root` to a folder of `service`.

    `places` holds the real path, device and inode of each mapped folder that existed. `ledger` is a word that only
    copies of the ledger share, and `path` is the path of the ledger that the claim was made for.
    """

    root: bytes
    service: str
    folders: Mapping[bytes, str]
    places: Mapping[bytes, tuple[bytes, int, int]] = field(default_factory=dict)
    ledger: str = ""
    path: str = ""
    state: ClaimState = ClaimState.ACTIVE

    def is_same(self, other: "Claim") -> bool:
        """Return whether the same configuration made both claims, for the ledger at the same path."""
        ours, theirs = ((c.root, c.service, c.folders, c.path) for c in (self, other))
        return ours == theirs

    def text(self) -> str:
        """Return the claim in the form stored in the fact."""
        return json.dumps(
            {
                "root": self.root.hex(),
                "service": self.service,
                "folders": {path.hex(): folder for path, folder in self.folders.items()},
                "places": {path.hex(): [place.hex(), *of] for path, (place, *of) in self.places.items()},
                "ledger": self.ledger,
                "path": self.path,
                "state": self.state,
            }
        )


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another ledger and the claim of its site, None if unreadable; `is_held`: a process sends for it.

    `agreed` lists the ledgers that an operator has agreed to there.
    """

    ledger: Path
    site: str
    claim: Claim | None
    is_held: bool = False
    agreed: tuple[str, ...] = ()


def read_claim(text: str | None) -> Claim | None:
    """Return the claim that `Claim.text` wrote; None for no text or an invalid one."""
    try:
        fields = json.loads(text or "")
        return Claim(
            bytes.fromhex(fields["root"]),
            str(fields["service"]),
            {bytes.fromhex(path): str(folder) for path, folder in fields["folders"].items()},
            {
                bytes.fromhex(path): (bytes.fromhex(place), int(device), int(inode))
                for path, (place, device, inode) in fields["places"].items()
            },
            str(fields["ledger"]),
            str(fields["path"]),
            ClaimState(fields["state"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def neighbours(ledger: Path) -> Iterator[Neighbour]:
    """Yield the other ledgers in the folder of this ledger, by name; this ledger need not exist.

    Ledgers without a claim are left out, and so are ledgers of an earlier release that no process holds. If the
    ledger's path is a link, the ledgers beside the link and those beside its target are included.
    """
    seen = {real(ledger)}
    for folder in dict.fromkeys((ledger.parent, real(ledger).parent)):
        for number in sorted(folder.glob(f"*{SUFFIX}")):
            other = real(number.with_name(number.name.removesuffix(SUFFIX)))
            if other not in seen:
                seen.add(other)
                found = _look(other)
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
            claim = read_claim(store.fact(CLAIM)) or _earlier(store)
        finally:
            store.close()
        held = is_held(ledger)
    except (LedgerError, OSError):
        return Neighbour(ledger, "", None)
    if claim is None or not (claim.ledger or held):
        return None
    return Neighbour(ledger, site, claim, held, agreed)


def agreed_ledgers(text: str | None) -> tuple[str, ...]:
    """Return the ledgers that the fact AGREED lists."""
    try:
        return tuple(map(str, json.loads(text or "[]")))
    except (ValueError, TypeError):
        return ()


def _earlier(store: Database) -> Claim | None:
    """Return the claim of a site whose release wrote none, derived from its other facts."""
    root, service = store.fact(ROOT), store.fact(SERVICE)
    # Older releases wrote only LAYOUT.
    layout = store.fact(LAYOUT_LISTED) or store.fact(LAYOUT)
    if root is None or service is None or layout is None:
        return None
    try:
        folders = {bytes.fromhex(path): str(folder) for path, folder in json.loads(layout).items()}
    except (ValueError, AttributeError):
        return None
    return Claim(os.fsencode(root), service, folders)

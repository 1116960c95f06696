"""The ledgers of other sites that lie beside this one, and what each of them says it mirrors.

A site claims, in a fact of its ledger, which folders of which tree it sends to which folders of which service, before
it looks at a file. So two sites that would send the same files know of each other before they do. What follows from
that is for `sync.intake.duplicate_sites` to say.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from assetsync.errors import LedgerError
from assetsync.ledger.database import Database, is_held
from assetsync.ledger.epoch import SUFFIX
from assetsync.ledger.ledger_metadata import fact
from assetsync.ledger.owner import LAYOUT, LISTED, ROOT, SERVICE, SITE
from assetsync.ledger.place import real

CLAIM = "claim"
"""The fact that holds the claim of a ledger's site."""

AGREED = "twins"
"""The fact that names the ledgers that a person has agreed to."""


class ClaimState(StrEnum):
    """How a claim stands: it was made and not looked around yet, it holds, or its site waits for a person.

    One that is BLIND holds as far as could be seen: a ledger beside it could not be read, and is looked at again.
    """

    ASKING = "asking"
    BLIND = "blind"
    ACTIVE = "active"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a site mirrors: `folders` gives for each mapped path below the `root` the folder of the `service`.

    `places` gives where each mapped folder really lies, with its device and inode, as far as it was there. `ledger` is
    a word that only copies of the ledger share, and `path` where the one lies that the claim was made for.
    """

    root: bytes
    service: str
    folders: Mapping[bytes, str]
    places: Mapping[bytes, tuple[bytes, int, int]] = field(default_factory=dict)
    ledger: str = ""
    path: str = ""
    state: ClaimState = ClaimState.ACTIVE

    def is_same(self, other: "Claim") -> bool:
        """Whether the same configuration made both, for the ledger at the same path."""
        ours, theirs = ((c.root, c.service, c.folders, c.path) for c in (self, other))
        return ours == theirs

    def text(self) -> str:
        """Give it as it stands in the fact."""
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
    """Another ledger with the claim of its site, None where it cannot be read; a process may send for it (`is_held`).

    `agreed` names the ledgers that a person has agreed to there.
    """

    ledger: Path
    site: str
    claim: Claim | None
    is_held: bool = False
    agreed: tuple[str, ...] = ()


def read_claim(text: str | None) -> Claim | None:
    """Read what `Claim.text` gave; None where there is none, or what stands there is none."""
    try:
        said = json.loads(text or "")
        return Claim(
            bytes.fromhex(said["root"]),
            str(said["service"]),
            {bytes.fromhex(path): str(folder) for path, folder in said["folders"].items()},
            {
                bytes.fromhex(path): (bytes.fromhex(place), int(device), int(inode))
                for path, (place, device, inode) in said["places"].items()
            },
            str(said["ledger"]),
            str(said["path"]),
            ClaimState(said["state"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def neighbours(ledger: Path) -> Iterator[Neighbour]:
    """Yield the other ledgers in the folder of this one, by name; it need not exist itself.

    One without a claim is left out, and of an earlier release one that no process holds. Where the ledger is named
    through a link, those beside the link and those beside the file are meant.
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
        # Of whatever release it is: the facts have always been there.
        store = Database(ledger, read_only=True)
        try:
            site, agreed = fact(store, SITE) or "", agreed_ledgers(fact(store, AGREED))
            claim = read_claim(fact(store, CLAIM)) or _earlier(store)
        finally:
            store.close()
        held = is_held(ledger)
    except (LedgerError, OSError):
        return Neighbour(ledger, "", None)
    if claim is None or not (claim.ledger or held):
        return None
    return Neighbour(ledger, site, claim, held, agreed)


def agreed_ledgers(text: str | None) -> tuple[str, ...]:
    """Read the fact AGREED."""
    try:
        return tuple(map(str, json.loads(text or "[]")))
    except (ValueError, TypeError):
        return ()


def _earlier(store: Database) -> Claim | None:
    """Make the claim of a site whose release made none, from what it wrote down."""
    root, service = fact(store, ROOT), fact(store, SERVICE)
    # Older releases kept the other alone.
    layout = fact(store, LISTED) or fact(store, LAYOUT)
    if root is None or service is None or layout is None:
        return None
    try:
        folders = {bytes.fromhex(path): str(folder) for path, folder in json.loads(layout).items()}
    except (ValueError, AttributeError):
        return None
    return Claim(os.fsencode(root), service, folders)

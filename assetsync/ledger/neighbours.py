"""The ledgers of other sites that lie beside this one, and what each of them says it mirrors.

A site claims, in a fact of its ledger, which folders of which tree it sends to which folders of which service, before
it looks at a file. So two sites that would send the same files know of each other before they do. What follows from
that is for `flow.twins` to say.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from assetsync.errors import LedgerError
from assetsync.ledger.epoch import SUFFIX
from assetsync.ledger.facts import fact
from assetsync.ledger.owner import SITE
from assetsync.ledger.place import real
from assetsync.ledger.store import Store, is_held

CLAIM = "claim"
"""The fact that holds the claim of a ledger's site."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a site mirrors: `folders` gives for each mapped path below the `root` the folder of the `service`.

    `since` tells when each of them was claimed first, in seconds since the epoch. The root is a path without links.
    """

    root: bytes
    service: str
    folders: Mapping[bytes, str]
    since: Mapping[bytes, float] = field(default_factory=dict)

    def text(self) -> str:
        """Give it as it stands in the fact."""
        folders = {path.hex(): [folder, self.since.get(path, 0.0)] for path, folder in self.folders.items()}
        return json.dumps({"root": self.root.hex(), "service": self.service, "folders": folders})


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another ledger with the claim of its site."""

    ledger: Path
    site: str
    claim: Claim


def read_claim(text: str | None) -> Claim | None:
    """Read what `Claim.text` gave; None where there is none, or what stands there is none."""
    try:
        said = json.loads(text or "")
        folders = {bytes.fromhex(path): entry for path, entry in said["folders"].items()}
        return Claim(
            bytes.fromhex(said["root"]),
            str(said["service"]),
            {path: str(folder) for path, (folder, _since) in folders.items()},
            {path: float(since) for path, (_folder, since) in folders.items()},
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def neighbours(ledger: Path, site: str | None) -> Iterator[Neighbour]:
    """Yield the other ledgers in the folder of this one, by name; it need not exist itself.

    One without a claim is left out, and what cannot be read: it may be another program's. So is one of the same `site`
    that no process holds: somebody keeps a copy there.
    """
    ledger = real(ledger)
    for number in sorted(ledger.parent.glob(f"*{SUFFIX}")):
        other = number.with_name(number.name.removesuffix(SUFFIX))
        found = None if other == ledger or not other.is_file() else _look(other)
        if found is not None and (found.site != site or _is_held(other)):
            yield found


def _is_held(ledger: Path) -> bool:
    try:
        return is_held(ledger)
    except LedgerError:
        # Of two that may send, one is to wait.
        return True


def _look(ledger: Path) -> Neighbour | None:
    # Of whatever release it is: the facts have always been there.
    store = Store(ledger, read_only=True)
    try:
        site, claim = fact(store, SITE), read_claim(fact(store, CLAIM))
    except LedgerError:
        return None
    finally:
        store.close()
    return None if claim is None else Neighbour(ledger, site or "", claim)

"""Release brakes, resolve a doubt, settle drift, request an audit, adopt: what a person decides about the ledger."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Annotated, ClassVar

from pydantic import Field

from assetsync.config.document.fields import HexPath
from assetsync.core.names import printable
from assetsync.core.read_back import Expected, Reading, compare
from assetsync.errors import ServiceRefused, UsageError
from assetsync.ledger.file.facts import ADOPTS_TO, LAYOUT_LISTED
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.metadata_drift import NOT_AS_SENT, reason_of
from assetsync.ledger.rows import FileRow
from assetsync.model import Asset, Searches, State
from assetsync.sync.observer import Everywhere, Observer, names_of
from assetsync.sync.readback.auditor import ask_for_audit
from assetsync.sync.requests.request import HexPaths, OperatorRequest, current_row
from assetsync.text import plural

_PAGE = 500


@dataclass(frozen=True, slots=True)
class Resume(OperatorRequest):
    """Release the brake of this `number`, or all brakes; only those in `seen`, if the operator saw them before."""

    verb: ClassVar[str] = "resume"

    number: Annotated[int | None, Field(alias="id")] = None
    seen: tuple[int, ...] | None = None

    def as_seen(self, ledger: Ledger) -> "Resume":
        """See `OperatorRequest`: a brake that is pulled later stays pulled."""
        return replace(self, seen=tuple(self._pulled(ledger))) if self.number is None else self

    def check(self, ledger: Ledger) -> None:
        """See `OperatorRequest`."""
        if not self._pulled(ledger):
            others = ", ".join(str(brake.id) for brake in ledger.reports.brakes())
            hint = f"those that are: {others}" if others else "`assetsync status` would list it"
            raise UsageError(f"no brake{'' if self.number is None else f' {self.number}'} is pulled", hint=hint)

    def run(self, ledger: Ledger, _service: Searches, now: float) -> str:
        """See `OperatorRequest`."""
        pulled, then = self._pulled(ledger), ""
        if any(brake.kind == "missing" and brake.id in pulled for brake in ledger.reports.brakes()):
            # An audit pulled it, and the next one decides. The release may have expired when that one is due.
            ask_for_audit(ledger, now)
            then = "; an audit concludes what is missing: the daemon makes it, or the next `assetsync reconcile`"
        for number in pulled:
            # Each by its number: nobody has seen a brake that is pulled meanwhile.
            ledger.resume(number, now)
        return f"{plural(len(pulled), 'brake')} released: {', '.join(map(str, pulled))}{then}"

    def _pulled(self, ledger: Ledger) -> Sequence[int]:
        pulled = [brake.id for brake in ledger.reports.brakes() if self.number in (None, brake.id)]
        return pulled if self.seen is None else [number for number in pulled if number in self.seen]


@dataclass(frozen=True, slots=True)
class Resolve(OperatorRequest):
    """Decide a doubt: the asset `assetid` is the file at `path`, or with None the service does not have the file."""

    verb: ClassVar[str] = "doubt"

    path: HexPath
    assetid: Annotated[str | None, Field(alias="asset")]

    @property
    def may_send_again(self) -> bool:
        """See `OperatorRequest`."""
        return True

    def check(self, ledger: Ledger) -> None:
        """See `OperatorRequest`."""
        row = current_row(ledger, self.path)
        if row.state not in (State.IN_DOUBT, State.BLOCKED):
            raise UsageError(f"{printable(self.path)} is {row.state.words}, not in doubt")
        if self.assetid is not None and ledger.doubts.owned([self.assetid]) and row.assetid != self.assetid:
            raise UsageError(f"the asset {self.assetid} is another file's", hint="`assetsync files --json` shows whose")

    def run(self, ledger: Ledger, service: Searches, now: float) -> str:
        """See `OperatorRequest`."""
        row, named_path = current_row(ledger, self.path), printable(self.path)
        if self.assetid is None:
            return f"{named_path} is {ledger.decisions.resolve_as_absent(row, now)}"
        asset = find_asset(ledger, service, row, self.assetid)
        reading, difference = compare(Expected(asset.folder_id, row.size, row.md5), asset)
        if reading is Reading.DIFFERENT:
            # If this file took the asset, the file that it belongs to would miss it and be sent again.
            again = "`assetsync retry --send-again PATH` uploads the file anew"
            raise UsageError(
                f"the asset {self.assetid} is not {named_path}: {difference}",
                hint=f"look for the one that is, or use --absent; {again}",
            )
        return f"{named_path} is {ledger.decisions.resolve_as_asset(row, asset, now)}"


@dataclass(frozen=True, slots=True)
class SettleDrift(OperatorRequest):
    """Record that a person settled the drift of the files at `paths` and of the files below these folders.

    If `adopted`, the metadata of adopted assets is settled, and the drift is not.
    """

    verb: ClassVar[str] = "drift"

    paths: HexPaths
    adopted: bool = False

    def check(self, ledger: Ledger) -> None:
        """See `OperatorRequest`."""
        for path in self.paths:
            where = printable(path) or "the site"
            has_adopted = next(ledger.metadata_drift.adopted(path), None) is not None
            if self.adopted and not has_adopted:
                hint = "`assetsync drift list --adopted` lists those that do"
                raise UsageError(f"no adopted asset differs from its sidecars in {where}", hint=hint)
            if not self.adopted and next(ledger.metadata_drift.drifted(path), None) is None:
                hint = "`assetsync drift list` lists what has"
                hint += "; --adopted settles its adopted assets" if has_adopted else ""
                raise UsageError(f"nothing has drifted of {where}", hint=hint)

    def run(self, ledger: Ledger, _service: Searches, _now: float) -> str:
        """See `OperatorRequest`."""
        drift = ledger.metadata_drift
        if self.adopted:
            return f"{sum(map(drift.settle_asset, self._pages(drift.adopted))):,} settled"
        drifting = settled = 0
        for page in self._pages(drift.drifted):
            drifting += len(page)
            changed = [row for row in page if reason_of(row) != NOT_AS_SENT]
            settled += len(page) - len(changed)
            drift.settle_asset(row for row in page if row.not_as_sent is not None)
            settled += drift.settle(row for row in changed if row.metadata_differs or row.is_elsewhere)
        counts = {"settled": settled, "still drifting: fix the sidecar or the mapping": drifting - settled}
        return "; ".join(f"{count:,} {what}" for what, count in counts.items() if count)

    def _pages(self, found: Callable[[bytes], Iterator[FileRow]]) -> Iterator[list[FileRow]]:
        for rows in map(found, self.paths):
            while page := list(islice(rows, _PAGE)):
                yield page


@dataclass(frozen=True, slots=True)
class Audit(OperatorRequest):
    """Request an audit of each mapped folder; the daemon makes it."""

    verb: ClassVar[str] = "audit"

    def run(self, ledger: Ledger, _service: Searches, now: float) -> str:
        """See `OperatorRequest`."""
        ask_for_audit(ledger, now)
        return "an audit of each mapped folder is due: it begins once the service answers"


@dataclass(frozen=True, slots=True)
class Adopt(OperatorRequest):
    """List each mapped folder again, and adopt equal assets; for the known files, one of equal name and size is equal.

    Files that come later are not confirmed by it.
    """

    verb: ClassVar[str] = "adopt"

    def run(self, ledger: Ledger, _service: Searches, now: float) -> str:
        """See `OperatorRequest`."""
        ledger.set_fact(ADOPTS_TO, str(ledger.versions.newest()))
        # A ledger without the fact has listed no folder yet.
        for folder in sorted({*json.loads(ledger.reports.fact(LAYOUT_LISTED) or "{}").values()}):
            ledger.folder_listings.again(folder)
        ledger.queue.retry_blocked("resembles", now)
        return "each mapped folder is listed again before the next upload into it, and equal assets are adopted"


def find_asset(ledger: Ledger, service: Searches, row: FileRow, assetid: str) -> Asset:
    """Return an asset by its id. Search the index, then the file's folder, then by name in all folders.

    Raise UsageError if no search shows it, and ServiceError.
    """
    observer = Observer(Everywhere(service, float, [row.destfolderid]), ledger, float)
    with suppress(ServiceRefused):
        found = observer.ids([assetid]).get(assetid)
        if found is not None:
            return found
    in_folder = observer.folder(row.asset_folder or row.destfolderid, checked=False)
    for asset in chain(in_folder, observer.named(names_of(ledger, row))):
        if asset.id == assetid:
            return asset
    raise UsageError(f"the service shows no asset {assetid}", hint="copy its id from the service")

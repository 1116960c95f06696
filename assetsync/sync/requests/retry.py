"""Retry files that are blocked or in doubt, send files again, or look up doubts at once."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar

from assetsync.core.mapping import folders_above
from assetsync.core.names import printable
from assetsync.core.outcome import TOO_LARGE_FOR_PROXY
from assetsync.core.read_back import NEVER_PROCESSED, SAME_METADATA
from assetsync.core.settled import EMPTY
from assetsync.core.states import Event, allowed
from assetsync.errors import UsageError
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.rows import MISSING, FileRow
from assetsync.ledger.runs import ProxyLimit
from assetsync.model import Searches, State, Wanted
from assetsync.sync.requests.request import HexPaths, OperatorRequest, current_row, likeliest_row
from assetsync.text import quoted


@dataclass(frozen=True, slots=True)
class Retry(OperatorRequest):
    """Retry the files at `paths` and below these folders, or everything that is blocked or in doubt.

    With a `reason` only the files that are blocked for it. `send_again` uploads files although an asset may be there.
    """

    verb: ClassVar[str] = "retry"

    paths: HexPaths = ()
    send_again: bool = False
    reason: str | None = None

    @property
    def may_send_again(self) -> bool:
        """See `OperatorRequest`."""
        return self.send_again

    def check(self, ledger: Ledger) -> None:
        """See `OperatorRequest`."""
        if self.send_again and self.reason not in (None, MISSING, NEVER_PROCESSED):
            # An asset of such a file may well be in the service: many files at once would be many copies.
            raise UsageError(
                f"--send-again is not for all files with the reason {self.reason}", hint="name each by its path"
            )
        # Files with another reason, and folders, are no mistake: the reason selects the files.
        each_by_name = self.send_again and self.reason is None
        if each_by_name and not self.paths:
            hint = "each is uploaded anew, whatever is there; --reason missing selects those that an audit missed"
            raise UsageError("--send-again needs the paths of the files", hint=hint)
        for path in self.paths:
            _check_path(ledger, path, send_again=each_by_name)

    def run(self, ledger: Ledger, _service: Searches, now: float) -> str:
        """See `OperatorRequest`."""
        if self.send_again and self.reason is None:
            rows = (current_row(ledger, path) for path in self.paths)
        else:
            found = _retried(ledger, self.paths or [b""])
            rows = (
                row
                for row in found
                if self.reason is None or (row.state is State.BLOCKED and row.reason == self.reason)
            )
        counts = Counter(self._one(ledger, row, now) for row in rows)
        if not self.send_again:
            ledger.queue.release_folders(now)
        blocked = "" if self.reason is None else f" as {printable(self.reason)}"
        nothing = f"nothing is blocked{blocked or ' or in doubt'}"
        return "; ".join(f"{count:,} {what}" for what, count in counts.items()) or nothing

    def _one(self, ledger: Ledger, row: FileRow, now: float) -> str:
        """Retry one file, or send it again; return the result in words."""
        return _sent_again(ledger, row, now) if self.send_again else _tried(ledger, row, now)


@dataclass(frozen=True, slots=True)
class SendAgainWithoutMetadata(Retry):
    """Send the same files again as `Retry` with `send_again`, without metadata.

    An older release does not know the verb, and refuses the request: it would send the metadata.
    """

    verb: ClassVar[str] = "without_metadata"

    def _one(self, ledger: Ledger, row: FileRow, now: float) -> str:
        return _sent_again(ledger, row, now, without_metadata=True)


@dataclass(frozen=True, slots=True)
class _OfPaths(OperatorRequest):
    """A request for the files at `paths` and below these folders, and nothing else."""

    paths: HexPaths = ()

    def check(self, ledger: Ledger) -> None:
        """See `OperatorRequest`."""
        for path in self.paths:
            _check_path(ledger, path, send_again=False)


@dataclass(frozen=True, slots=True)
class LookUp(_OfPaths):
    """Make the next look-up of the doubts at and below `paths` due now, or of all; blocked files stay blocked."""

    verb: ClassVar[str] = "look"

    def run(self, ledger: Ledger, _service: Searches, now: float) -> str:
        """See `OperatorRequest`."""
        rows = _in_doubt(ledger, self.paths or [b""])
        count = sum(ledger.decisions.retry(row, now) is State.IN_DOUBT for row in rows)
        if not count:
            return "nothing is to be looked up: `assetsync retry` looks up what is blocked"
        return f"{count:,} to be looked up now: the daemon does it, or the next `assetsync reconcile`"


@dataclass(frozen=True, slots=True)
class _SendWithout(_OfPaths):
    """A request to send files without a part that they wait for; `option` is its name on the command line."""

    option: ClassVar[str]

    def check(self, ledger: Ledger) -> None:
        """See `OperatorRequest`."""
        if not self.paths:
            hint = "metadata cannot be sent later; `.` is all files"
            raise UsageError(f"{self.option} needs the paths of files or folders", hint=hint)
        # With slots, the dataclass is another class than the one that `super` without arguments would name.
        _OfPaths.check(self, ledger)


@dataclass(frozen=True, slots=True)
class SendWithoutMetadata(_SendWithout):
    """Let the files at `paths` and below these folders be sent without metadata that wait for a new field."""

    verb: ClassVar[str] = "new_field"
    option: ClassVar[str] = "--without-metadata"

    def run(self, ledger: Ledger, _service: Searches, now: float) -> str:
        """See `OperatorRequest`."""
        count = sum(ledger.queue.without_metadata(path, now) for path in self.paths)
        nothing = "no file waits for a new metadata field there; with --send-again, what was sent is sent again"
        return f"{count:,} to be sent without metadata" if count else nothing


@dataclass(frozen=True, slots=True)
class SendWithoutSidecar(_SendWithout):
    """Let the files at `paths` and below these folders be sent although their mapping requires sidecars."""

    verb: ClassVar[str] = "without_sidecar"
    option: ClassVar[str] = "--without-sidecar"

    def run(self, ledger: Ledger, _service: Searches, now: float) -> str:
        """See `OperatorRequest`."""
        count = sum(ledger.queue.without_sidecar(path, now) for path in self.paths)
        return f"{count:,} to be sent without a sidecar" if count else "no file waits for its sidecar there"


def _check_path(ledger: Ledger, path: bytes, *, send_again: bool) -> None:
    """Raise UsageError for a path that the ledger does not know, or that cannot be sent again."""
    below = next(ledger.reports.files(under=path or None), None)
    if below is not None and below.path != path:
        if send_again:
            named = printable(path) or "the root"
            below_it = f" {quoted(path)}" if path else ""
            listed = f"`assetsync files --state blocked{below_it}` lists those that wait for you"
            raise UsageError(f"{named} is a folder", hint=f"--send-again is for files, each by its name: {listed}")
        return
    row = current_row(ledger, path)
    if send_again and row.wanted is Wanted.OUTSIDE:
        raise UsageError(f"{printable(path)} was uploaded by hand", hint="`assetsync upload --send-again` sends it")
    if send_again and not allowed(row.state, Event.SENT_AGAIN):
        raise UsageError(f"{printable(path)} is {row.state.words}", hint="--send-again is for one that was sent")


def _retried(ledger: Ledger, paths: Collection[bytes]) -> Iterator[FileRow]:
    """Yield the files at these paths, and those below folders that are blocked or in doubt, each once; b"" is the root.

    The files below a folder may be too many for memory.
    """
    known = {path: likeliest_row(ledger, path) for path in sorted({*paths})}
    files = {row.id: row for row in known.values() if row is not None}
    yield from files.values()
    # Before the blocked files: a blocked file that is retried may be in doubt afterwards.
    yield from (row for row in _in_doubt(ledger, known) if row.id not in files)
    # A path that was a file once may be a folder by now.
    folders = {path for path, row in known.items() if row is None or row.wanted is not Wanted.YES}
    for folder in sorted(folders):
        if folders.isdisjoint(folders_above(folder)):
            # What was uploaded by hand is in no folder of the tree.
            below = ledger.reports.files(State.BLOCKED, history=not folder, under=folder or None)
            yield from (row for row in below if row.wanted in (Wanted.YES, Wanted.OUTSIDE) and row.id not in files)


def _in_doubt(ledger: Ledger, paths: Collection[bytes]) -> Iterator[FileRow]:
    """Yield the versions in doubt at and below these paths, each once, replaced and deleted ones too; b"" is all."""
    topmost = {*paths}
    for path in sorted(topmost):
        if topmost.isdisjoint(folders_above(path)):
            yield from ledger.reports.files(State.IN_DOUBT, history=True, under=path or None)


def _sent_again(ledger: Ledger, row: FileRow, now: float, *, without_metadata: bool = False) -> str:
    """Queue one file anew; return the result in words."""
    if row.wanted is Wanted.OUTSIDE:
        return "uploaded by hand: `assetsync upload --send-again` sends it"
    ledger.decisions.send_again(row, now, without_metadata=without_metadata)
    # The folder may hold a copy of which this ledger does not know.
    ledger.folder_listings.again(row.destfolderid)
    if without_metadata:
        return "to be sent again, without metadata"
    if row.reason == NEVER_PROCESSED and SAME_METADATA in (row.detail or ""):
        return f"to be sent again; {SAME_METADATA}, --without-metadata sends it without"
    return "to be sent again"


_TRIED_AGAIN = {
    "sidecar": "to be tried again, and blocked anew while the sidecar has its mistake",
    "keeps_changing": "to be tried again, and blocked anew while it has not been unchanged for an hour",
    "too_large": "to be tried again, and blocked anew while no limit was raised",
    TOO_LARGE_FOR_PROXY: "to be tried again, one after the other, and blocked anew while a proxy refuses its size",
}
_AFTER_RETRY = {
    State.QUEUED: "to be sent",
    State.SENDING: "on the way already",
    State.IN_DOUBT: "to be looked up again",
    State.STORED: "to be read back again",
    State.VERIFIED: "verified already",
    State.BLOCKED: "still blocked",
    State.SUPERSEDED: "replaced by a newer version",
    State.GONE: "no longer in the tree",
}


def _tried(ledger: Ledger, row: FileRow, now: float) -> str:
    """Retry one file; return the result in words."""
    if row.state is State.BLOCKED and row.reason == EMPTY[0]:
        return "still blocked: empty, which the service refuses"
    if row.wanted is Wanted.OUTSIDE and row.assetid is None and ledger.doubts.of(row.id) is None:
        return f"{'still blocked' if row.state is State.BLOCKED else 'not sent'}: `assetsync upload` sends it"
    reason = row.reason or ""
    kept = _kept(ledger, row)
    limit = ledger.runs.recorded(ProxyLimit) if reason == TOO_LARGE_FOR_PROXY else None
    if limit is not None and limit.refused is not None:
        ledger.runs.record(ProxyLimit, limit._replace(refused=None))
    state = ledger.decisions.retry(row, now) if kept is None else ledger.decisions.let_go(row, kept, now)
    if reason == MISSING and state is State.STORED:
        return "missing, to be looked for again"
    was_blocked = row.state is State.BLOCKED and state is State.QUEUED
    return _TRIED_AGAIN.get(reason, "to be tried again") if was_blocked else _AFTER_RETRY[state]


def _kept(ledger: Ledger, row: FileRow) -> str | None:
    """Return an equal asset in the folder of a file whose adopted asset is gone, None without one."""
    if not ledger.decisions.may_let_go(row):
        return None
    kept = ledger.equal_content.sighted(row, row.md5 or "")
    return kept[0].assetid if kept and not ledger.equal_content.is_missed(kept[0].assetid) else None

"""Carry out an operator's requests: retry, resume, resolve a doubt, settle drift, audit, upload by hand.

A command that holds the lock calls `carry_out` itself. If another process holds the lock, the command leaves the
request in the ledger, and that process takes it with `take_requests`. Reading the command line is left to `cli`.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from itertools import chain, islice

import structlog

from assetsync.core.mapping import folders_above
from assetsync.core.names import printable
from assetsync.core.settled import EMPTY
from assetsync.core.states import Event, allowed
from assetsync.core.verdict import Expected, Reading, compare
from assetsync.errors import AssetsyncError, ServiceError, UnknownPath, UsageError
from assetsync.ledger.ledger import Ledger, Request
from assetsync.ledger.repair import MISSING
from assetsync.ledger.rows import FileRow
from assetsync.model import Asset, Clock, SearchRequest, Service, State, Wanted
from assetsync.service.paging import every
from assetsync.sync.context import Context
from assetsync.sync.lookups import by_id, named, names_of
from assetsync.sync.readback.auditor import ask_for_audit
from assetsync.sync.upload import by_hand
from assetsync.text import plural

log = structlog.get_logger(__name__)

REFUSED = "refused: "
"""The prefix of an answer by which the holder refuses a request."""

UNANSWERED = "the service: "
"""The prefix of an answer after the service had to be asked and did not answer; nothing was done."""

_PAGE = 500
_UPLOADS = ("upload", "uploaded")


def take_requests(context: Context) -> int:
    """Carry out the requests in the ledger; return how many were neither `upload` nor `uploaded`."""
    requests = context.ledger.open_requests()
    for request in requests:
        context.ledger.answer_request(request.id, _answer(context, request), context.clock.now())
    lost = context.ledger.attempt_results.recover(context.clock.now(), by_hand=True)
    if lost:
        context.meter.doubted(lost)
        log.warning("in doubt after an upload by hand that ended without an outcome", files=lost)
    return sum(request.verb not in _UPLOADS for request in requests)


def asked_of(ledger: Ledger, verb: str, argument: dict[str, object]) -> dict[str, object]:
    """Return the argument for the holder; a `resume` of all brakes lists those that are pulled now."""
    if verb == "resume" and argument.get("id") is None:
        return {**argument, "seen": _pulled(ledger, argument)}
    return argument


def _answer(context: Context, request: Request) -> str:
    try:
        answer = _once(context, request)
    except ServiceError as error:
        answer = f"{UNANSWERED}{error}"
        log.warning("request refused", verb=request.verb, detail=str(error))
    except AssetsyncError as error:
        answer = f"{REFUSED}{error}"
        log.warning("request refused", verb=request.verb, detail=str(error))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        # Another release, or a person, wrote the request. It must not end the holder now and at every later start.
        detail = f"the request cannot be understood ({type(error).__name__})"
        answer = f"{REFUSED}{detail}"
        log.warning("request refused", verb=request.verb, detail=detail)
    else:
        # An audit has only been queued; the service may not answer.
        event = "request accepted" if request.verb == "audit" else "request carried out"
        log.info(event, verb=request.verb, answer=answer)
        if request.verb == "doubt":
            context.meter.decided("by_hand")
    return answer


def _once(context: Context, request: Request) -> str:
    """Carry out a request; one that may send a file again at most once, even if the process ended in between.

    Raise as `carry_out` does, and ValueError.
    """
    argument = request.argument
    if argument is None:
        raise ValueError("its argument is no object of JSON")
    may_send_again = request.verb == "doubt" or (request.verb == "retry" and argument.get("send_again"))
    if may_send_again and not context.ledger.begin_request(request.id):
        # The file may have been sent since: a second time would be another upload.
        raise UsageError(
            "the process ended while it did this, and it may be done", hint="`assetsync explain` tells, then ask again"
        )
    return carry_out(context.ledger, context.service, context.clock, request.verb, argument)


def carry_out(ledger: Ledger, service: Service, clock: Clock, verb: str, argument: dict[str, object]) -> str:
    """Carry out a request and return a sentence about the result. Paths in `argument` are hex of their bytes.

    retry: {"paths": [...], "send_again": bool, "reason": str | None}, paths of files or folders, no paths for all that
    is blocked or in doubt, with a reason for what is blocked for it · look: {"paths": [...]}, the same for doubts alone
    · resume: {"id": int | None}, no id for all, or for all of {"seen": [...]} · doubt: {"path": ..., "asset": ID |
    None}, None for absent · drift: {"paths": [...]}, paths of files or folders · audit: {}, which the daemon continues
    · upload: the value of `by_hand.ByHand.asked`, answered with `by_hand.Begun` as JSON · uploaded: the value of
    `by_hand.outcome_of`. Raise UsageError for a request that cannot be carried out, and ServiceError if the service had
    to be asked and failed.
    """
    now = clock.now()
    refuse(ledger, verb, argument)
    if verb == "retry":
        return _retry(ledger, argument, now)
    if verb == "look":
        return _look(ledger, _paths(argument), now)
    if verb == "resume":
        return _resume(ledger, _pulled(ledger, argument), now)
    if verb == "doubt":
        path = bytes.fromhex(str(argument["path"]))
        asset = argument.get("asset")
        return _resolve(ledger, service, path, None if asset is None else str(asset), now)
    if verb == "drift":
        return _settle(ledger, _paths(argument))
    if verb == "audit":
        ask_for_audit(ledger, now)
        return "an audit of each mapped folder is due: it begins once the service answers"
    if verb == "upload":
        return json.dumps(asdict(by_hand.begin(ledger, service, by_hand.ByHand.of(argument), now)))
    if verb == "uploaded":
        return by_hand.end(ledger, argument, now)
    raise UsageError(f"there is no request {verb}")


def refuse(ledger: Ledger, verb: str, argument: dict[str, object]) -> None:
    """Raise UsageError for a request that the ledger's state excludes; change nothing and send nothing."""
    if verb in ("retry", "look"):
        _refuse_retry(ledger, argument)
    elif verb == "resume" and not _pulled(ledger, argument):
        others = ", ".join(str(brake.id) for brake in ledger.reports.brakes())
        hint = f"those that are: {others}" if others else "`assetsync status` would list it"
        named = "no brake" if argument.get("id") is None else f"no brake {argument['id']}"
        raise UsageError(f"{named} is pulled", hint=hint)
    elif verb == "drift":
        for path in _paths(argument):
            if next(ledger.metadata_drift.drifted(path), None) is None:
                named = printable(path) or "the site"
                raise UsageError(f"nothing has drifted of {named}", hint="`assetsync drift list` lists what has")
    elif verb == "doubt":
        path = bytes.fromhex(str(argument["path"]))
        row = _current(ledger, path)
        if row.state not in (State.IN_DOUBT, State.BLOCKED):
            raise UsageError(f"{printable(path)} is {row.state.words}, not in doubt")
        assetid = argument.get("asset")
        if assetid is not None and ledger.doubts.owned([str(assetid)]) and row.assetid != assetid:
            raise UsageError(f"the asset {assetid} is another file's", hint="`assetsync files --json` tells whose")


def _refuse_retry(ledger: Ledger, argument: dict[str, object]) -> None:
    paths, reason, send_again = _paths(argument), argument.get("reason"), bool(argument.get("send_again"))
    if send_again and reason is not None:
        if reason != MISSING:
            # An asset of such a file may well be in the service: many files at once would be many copies.
            raise UsageError(
                f"--send-again is not for all files with the reason {reason}", hint="name each by its path"
            )
        # Files with another reason, and folders, are no mistake: the reason selects the files.
        send_again = False
    if send_again and not paths:
        hint = "each is uploaded anew, whatever is there; --reason missing selects those that an audit missed"
        raise UsageError("--send-again needs the paths of the files", hint=hint)
    for path in paths:
        below = next(ledger.reports.files(under=path or None), None)
        if below is not None and below.path != path:
            if send_again:
                named = printable(path) or "the root"
                listed = f"`assetsync files --state blocked{f' {named}' if path else ''}` lists those that wait for you"
                raise UsageError(f"{named} is a folder", hint=f"--send-again is for files, each by its name: {listed}")
            continue
        row = _current(ledger, path)
        if send_again and row.wanted is Wanted.OUTSIDE:
            raise UsageError(f"{printable(path)} was uploaded by hand", hint="`assetsync upload --send-again` sends it")
        if send_again and not allowed(row.state, Event.SENT_AGAIN):
            raise UsageError(f"{printable(path)} is {row.state.words}", hint="--send-again is for one that was sent")


def _retry(ledger: Ledger, argument: dict[str, object], now: float) -> str:
    paths, reason, send_again = _paths(argument), argument.get("reason"), bool(argument.get("send_again"))
    if send_again and reason is None:
        rows = (_current(ledger, path) for path in paths)
    else:
        found = _retried(ledger, paths or [b""])
        rows = (row for row in found if reason is None or (row.state is State.BLOCKED and row.reason == reason))
    counts = Counter((_sent_again if send_again else _tried)(ledger, row, now) for row in rows)
    if not send_again:
        ledger.queue.release_folders(now)
    nothing = "nothing is blocked or in doubt" if reason is None else f"nothing is blocked as {printable(str(reason))}"
    return "; ".join(f"{count:,} {what}" for what, count in counts.items()) or nothing


def _retried(ledger: Ledger, paths: Collection[bytes]) -> Iterator[FileRow]:
    """Yield the files at these paths, and those below folders that are blocked or in doubt, each once; b"" is the root.

    The files below a folder may be too many for memory.
    """
    known = {path: _likeliest(ledger, path) for path in sorted({*paths})}
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


def _sent_again(ledger: Ledger, row: FileRow, now: float) -> str:
    """Queue one file anew; return the result in words."""
    if row.wanted is Wanted.OUTSIDE:
        return "uploaded by hand: `assetsync upload --send-again` sends it"
    ledger.repair.send_again(row, now)
    return "to be sent again"


def _tried(ledger: Ledger, row: FileRow, now: float) -> str:
    """Retry one file; return the result in words."""
    if row.state is State.BLOCKED and row.reason == EMPTY[0]:
        return "still blocked: empty, which the service refuses"
    is_lost = row.assetid is None and ledger.doubts.of(row.id) is None
    if row.state is State.BLOCKED and row.wanted is Wanted.OUTSIDE and is_lost:
        return "still blocked: `assetsync upload` sends it"
    reason = row.reason or ""
    kept = _kept(ledger, row)
    state = ledger.repair.retry(row, now) if kept is None else ledger.repair.let_go(row, kept, now)
    if reason == MISSING and state is State.STORED:
        return "missing, to be looked for again"
    was_blocked = row.state is State.BLOCKED and state is State.QUEUED
    return _TRIED_AGAIN.get(reason, "to be tried again") if was_blocked else _AFTER_RETRY[state]


def _look(ledger: Ledger, paths: Sequence[bytes], now: float) -> str:
    """Make the next look-up of the doubts at and below these paths due now; no paths for all."""
    count = sum(ledger.repair.retry(row, now) is State.IN_DOUBT for row in _in_doubt(ledger, paths or [b""]))
    if not count:
        return "nothing is to be looked up: `assetsync retry` looks up what is blocked"
    return f"{count:,} to be looked up now: the daemon does it, or the next `assetsync reconcile`"


def _kept(ledger: Ledger, row: FileRow) -> str | None:
    """Return an equal asset in the folder of a file whose adopted asset is gone, None without one."""
    if not ledger.repair.may_let_go(row):
        return None
    kept = ledger.equal_content.sighted(row, row.md5 or "")
    return None if kept is None or ledger.equal_content.is_missed(kept) else kept


def _resume(ledger: Ledger, pulled: Sequence[int], now: float) -> str:
    then = ""
    if any(brake.kind == "missing" and brake.id in pulled for brake in ledger.reports.brakes()):
        # An audit pulled it, and the next one decides. The release may have expired when that one is due.
        ask_for_audit(ledger, now)
        then = "; an audit concludes what is missing: the daemon makes it, or the next `assetsync reconcile`"
    for number in pulled:
        # Each by its number: nobody has seen a brake that is pulled meanwhile.
        ledger.resume(number, now)
    return f"{plural(len(pulled), 'brake')} released: {', '.join(map(str, pulled))}{then}"


def _settle(ledger: Ledger, paths: Sequence[bytes]) -> str:
    """Record that a person settled the drift of these files and of the files below these folders."""
    drifting = settled = 0
    for path in paths:
        rows = ledger.metadata_drift.drifted(path)
        while page := list(islice(rows, _PAGE)):
            drifting += len(page)
            settled += ledger.metadata_drift.settle(row for row in page if row.metadata_differs or row.is_elsewhere)
    counts = {"settled": settled, "still drifting: fix the sidecar or the mapping": drifting - settled}
    return "; ".join(f"{count:,} {what}" for what, count in counts.items() if count)


_TRIED_AGAIN = {
    "sidecar": "to be tried again, and blocked anew while the sidecar has its mistake",
    "keeps_changing": "to be tried again, and blocked anew while it has not been unchanged for an hour",
    "too_large": "to be tried again, and blocked anew while no limit was raised",
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


def _resolve(ledger: Ledger, service: Service, path: bytes, assetid: str | None, now: float) -> str:
    row = _current(ledger, path)
    if assetid is None:
        return f"{printable(path)} is {ledger.repair.resolve_as_absent(row, now)}"
    asset = find_asset(ledger, service, row, assetid)
    reading, difference = compare(Expected(asset.folder_id, row.size, row.md5), asset)
    if reading is Reading.DIFFERENT:
        # If this file took the asset, the file that it belongs to would miss it and be sent again.
        raise UsageError(
            f"the asset {assetid} is not {printable(path)}: {difference}",
            hint="look for the one that is, or use --absent; `assetsync retry --send-again PATH` uploads the file anew",
        )
    return f"{printable(path)} is {ledger.repair.resolve_as_asset(row, asset, now)}"


def find_asset(ledger: Ledger, service: Service, row: FileRow, assetid: str) -> Asset:
    """Return an asset by its id. Search the index, then the file's folder, then by name in all folders.

    Raise UsageError if no search shows it, and ServiceError.
    """
    in_folder = SearchRequest(searchfor="%", folderid=row.asset_folder or row.destfolderid, dbdirect=True)
    found = by_id(service, [assetid]).get(assetid)
    if found is not None:
        return found
    for asset in chain(every(service.search, in_folder), named(service, names_of(ledger, row))):
        if asset.id == assetid:
            return asset
    raise UsageError(f"the service shows no asset {assetid}", hint="copy its id from the service")


def _current(ledger: Ledger, path: bytes) -> FileRow:
    row = _likeliest(ledger, path)
    if row is None:
        raise UnknownPath(printable(path))
    return row


def _likeliest(ledger: Ledger, path: bytes) -> FileRow | None:
    """Return the row that is most likely meant by a path, None without one.

    Several uploads by hand may share a path: those in doubt come first, then those that are blocked.
    """

    def rank(row: FileRow) -> int:
        if row.wanted is not Wanted.OUTSIDE or row.state not in (State.IN_DOUBT, State.BLOCKED):
            return 2
        return 0 if ledger.doubts.of(row.id) is not None else 1

    return min(ledger.reports.of_path(path), key=rank, default=None)


def _paths(argument: dict[str, object]) -> list[bytes]:
    """Return the paths of a request. Raise ValueError."""
    paths = argument.get("paths")
    return list(dict.fromkeys(bytes.fromhex(str(path)) for path in paths)) if isinstance(paths, list) else []


def _pulled(ledger: Ledger, argument: dict[str, object]) -> list[int]:
    """Return the numbers of the pulled brakes that a request means. Raise ValueError."""
    wanted, seen = argument.get("id"), argument.get("seen")
    pulled = [brake.id for brake in ledger.reports.brakes() if wanted is None or brake.id == int(str(wanted))]
    return [number for number in pulled if number in seen] if isinstance(seen, list) else pulled

"""Record the intent and the result of uploads by `assetsync upload`, in the process that holds the ledger.

Sending is left to the command: it sends the file itself, with its own permissions, between the calls of `begin` and
`end`. The command may run beside the daemon. From before `begin` until after `end` it holds the lock of its attempt
(`ledger.file.database.hold_by_hand`). If the process of the command ends without a result, `ledger.attempts.recover`
puts its attempt in doubt, and the doubt is resolved like any other.
"""

from dataclasses import dataclass
from itertools import islice

import structlog

from assetsync.core.names import printable, sent_name, sent_names
from assetsync.core.read_back import NEVER_PROCESSED
from assetsync.core.states import Event, allowed
from assetsync.errors import UsageError
from assetsync.ledger.file.database import is_sent_by_hand
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.queue import Intent, NameBusy, Outdated
from assetsync.ledger.rows import FileRow
from assetsync.ledger.versions import NewVersion
from assetsync.model import (
    Answer,
    Fault,
    Searches,
    Sent,
    State,
    Wanted,
)
from assetsync.sync.observer import Observer
from assetsync.text import quoted

log = structlog.get_logger(__name__)

_BATCH = 1000
_OF_IDENTITY = ("root", "service", "twin")
"""Kinds of brakes that are pulled because the tree, service or site may not be the ledger's."""

_AGAIN = "`--send-again` uploads it once more"
_OPEN = (State.SENDING, State.IN_DOUBT)
_REST = (State.SUPERSEDED, State.GONE)
_NOT_THERE = ("missing", "unseen", "different", NEVER_PROCESSED)
"""Reasons of a row whose asset is not known to hold its content."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The result of `begin`: MAY_SEND, THERE, MAY_BE_THERE or REFUSED, with a `message` for the operator.

    THERE: the folder holds the content already, as the asset `assetid` of the kind `filetype`.
    """

    what: str
    message: str = ""
    assetid: str | None = None
    filetype: str | None = None


MAY_SEND, THERE, MAY_BE_THERE, REFUSED = "may_send", "there", "may_be_there", "refused"


@dataclass(frozen=True, slots=True)
class ByHand:
    """An upload by hand. `intent.file_id` is ignored, and `intent.md5` is the MD5 of the whole file.

    `path` is relative to the root for a file of the tree whose mapping points to the same folder, else absolute.
    `send_again`: the operator wants a second asset of equal content.
    """

    path: bytes
    intent: Intent
    send_again: bool = False


def begin(ledger: Ledger, service: Searches, hand: ByHand, now: float) -> Begun:
    """Commit the intent of an upload by hand, unless the folder holds or may hold its content; may be repeated.

    Raise UsageError for an upload that is not possible, LedgerError, and ServiceError if the folder cannot be listed.
    """
    intent = hand.intent
    if ledger.doubts.in_flight(intent.boundary) is not None:
        return Begun(MAY_SEND)
    if not is_sent_by_hand(ledger.store.path, intent.boundary):
        raise UsageError("the upload was given up before it began")
    for brake in ledger.reports.brakes():
        if brake.kind in _OF_IDENTITY:
            raise UsageError(f"brake {brake.id} is pulled: {brake.detail}", hint=f"`assetsync resume {brake.id}` first")
    if ledger.folder_listings.needed_by_hand(intent.destfolderid):
        _list(ledger, service, hand, now)
    row = _add(ledger, hand, now)
    begun = row if isinstance(row, Begun) else _begin(ledger, hand, row, now)
    if begun.what != MAY_SEND and isinstance(row, FileRow) and row.wanted is Wanted.OUTSIDE:
        if begun.what == THERE:
            # An earlier upload that did not arrive no longer needs a person.
            ledger.decisions.retry(row, now)
        ledger.versions.forget(row.id)
    return begun


def end(ledger: Ledger, boundary: str, sent: Sent, now: float) -> str:
    """Record the result of an upload, and return a message with the new state of the file.

    Raise UsageError if its attempt is no longer in flight.
    """
    attempt = ledger.doubts.in_flight(boundary)
    if attempt is None:
        raise UsageError("no upload by hand of that boundary is in flight")
    outcomes, outcome, ids = ledger.attempt_results, sent.outcome, (attempt.id, attempt.file_id)
    row = ledger.doubts.file_of(attempt)
    match outcome.answer:
        case Answer.ACCEPTED:
            state = outcomes.accepted(*ids, sent, now)
        case Answer.DUPLICATE | Answer.DOUBT:
            outcomes.lost(*ids, sent, now)
            state = State.IN_DOUBT
        case Answer.REFUSED if outcome.fault not in (Fault.KEY, Fault.FOLDER):
            outcomes.refused(*ids, sent, now)
            state = State.BLOCKED
        case _:
            # A file of the tree is due in the queue again; nothing is left to do for any other file.
            outcomes.unsent(*ids, sent, now, now)
            state = State.QUEUED
    log.info("uploaded by hand", path=printable(row.path), state=state, assetid=outcome.assetid)
    return f"{printable(row.path)} is {state.words}"


def _list(ledger: Ledger, service: Searches, hand: ByHand, now: float) -> None:
    """Record the assets of the folder before the first POST into it.

    The daemon still has to list the folder: a verified upload by hand does not replace that listing. Raise BadAnswer
    if the listing does not show everything, unless the file is sent in any case.
    """
    folder = hand.intent.destfolderid
    contents = Observer(service, ledger, lambda: now).folder(folder, checked=not hand.send_again)
    assets = iter(contents if hand.send_again else contents.all())
    while batch := list(islice(assets, _BATCH)):
        owned = ledger.doubts.owned([asset.id for asset in batch])
        strangers = [asset for asset in batch if asset.id not in owned]
        ledger.assets.record(strangers, ledger.doubts.newest_attempt(), now)
    ledger.folder_listings.made_by_hand(folder)


def _add(ledger: Ledger, hand: ByHand, now: float) -> FileRow | Begun:
    """Return the row of the file, and add it if there is none; return `Begun` if an older version is undecided."""
    intent, path = hand.intent, hand.path
    folded = sent_name(path.rpartition(b"/")[2]).casefold()
    version = NewVersion(path, intent.stat, intent.destfolderid, folded, None)
    if path.startswith(b"/"):
        file_id = ledger.versions.add_by_hand(version, now)
        return next(row for row in ledger.reports.of_path(path) if row.id == file_id)
    for row in ledger.reports.of_path(path):
        if row.state in _OPEN and not _is_same(row, intent):
            return Begun(MAY_BE_THERE, f"an older version of {printable(path)} is {row.state.words}: wait for its end")
    current = ledger.versions.current_of(path)
    if current is None or not _is_same(current, intent):
        version = version._replace(replaces=None if current is None else current.id)
        ledger.versions.enqueue([version], now)
        current = ledger.versions.current_of(path)
    if current is None or current.destfolderid != intent.destfolderid or not _is_same(current, intent):
        raise UsageError(
            f"{printable(path)} has changed, or its mapping", hint="`assetsync reconcile` takes note, then ask again"
        )
    return current


def _is_same(row: FileRow, intent: Intent) -> bool:
    return row.size == intent.stat.size and (row.stat == intent.stat or row.md5 == intent.md5)


def _begin(ledger: Ledger, hand: ByHand, row: FileRow, now: float) -> Begun:
    if hand.send_again:
        if allowed(row.state, Event.SENT_AGAIN):
            ledger.decisions.send_again(row, now)
    else:
        existing = _existing(ledger, row) or _by_equal(ledger, hand, row, now)
        if existing is not None:
            return existing
        if row.state is State.BLOCKED:
            ledger.decisions.retry(row, now)
    try:
        ledger.queue.begin(hand.intent._replace(file_id=row.id), now)
    except (NameBusy, Outdated) as error:
        if row.state is State.BLOCKED and row.wanted is Wanted.OUTSIDE:
            ledger.queue.block(row.id, row.reason or "", row.detail or "", now)
        if isinstance(error, Outdated):
            return Begun(MAY_BE_THERE, f"{printable(row.path)} is being sent by another process, or has changed")
        name = printable(hand.intent.sent_name.encode())
        return Begun(MAY_BE_THERE, f"an upload of the name {name} into this folder is not decided yet")
    if row.wanted is not Wanted.OUTSIDE:
        # The metadata given by hand may differ from that of the mapping and the sidecars.
        ledger.metadata_drift.mark_unread(row.id)
    return Begun(MAY_SEND)


def _existing(ledger: Ledger, row: FileRow) -> Begun | None:
    """Return the result for a row whose content the service has, or may have; None if it was not stored."""
    path = printable(row.path)
    if _is_undecided(ledger, row):
        step = f"`assetsync explain {quoted(row.path)}`"
        return Begun(MAY_BE_THERE, f"the service may have this content: {path} is {row.state.words} ({step})")
    if row.assetid is not None and row.reason in _NOT_THERE:
        return Begun(REFUSED, f"{path}: {row.detail or f'the asset {row.assetid} is being looked for'}; {_AGAIN}")
    if row.assetid is not None:
        why = f"nothing was sent: this is {row.assetid} already ({path}, {row.state.words}); {_AGAIN}"
        return Begun(THERE, why, row.assetid, row.filetype)
    return None


def _by_equal(ledger: Ledger, hand: ByHand, row: FileRow, now: float) -> Begun | None:
    """Return the result for a file whose content the folder has, or may have, as something else; None if it is sent.

    A version counts even if its path still holds it: the operator is asked before the folder gets a second asset.
    """
    equal_content, md5 = ledger.equal_content, str(hand.intent.md5)
    not_there: FileRow | None = None
    for other in (*equal_content.equals(row, md5), *equal_content.unread(row)):
        if _is_undecided(ledger, other):
            return _existing(ledger, other)
        if other.assetid is not None and other.reason in _NOT_THERE:
            # Another version or an asset may have the content.
            not_there = not_there or other
        elif other.assetid is not None:
            may_take = row.wanted is Wanted.OUTSIDE and other.state in _REST
            return _taken_over(ledger, hand, row, other, now) if may_take else _existing(ledger, other)
    if sighted := equal_content.sighted(row, md5):
        assetid = sighted[0].assetid
        return Begun(THERE, f"nothing was sent: the folder holds this content as {assetid}; {_AGAIN}", assetid)
    equal = not_there or equal_content.may_have_stored_it(row, md5)
    if equal is not None:
        return _existing(ledger, equal)
    names = {hand.intent.sent_name, *sent_names(row.path.rpartition(b"/")[2])}
    first = next(iter(equal_content.resembling(row, names)), None)
    if first is None:
        return None
    what = "the same name and size" if first.is_exact else f"the same size, named {printable(first.name)}"
    return Begun(REFUSED, f"the folder holds {first.assetid} of {what}, and the service gives no MD5; {_AGAIN}")


def _is_undecided(ledger: Ledger, row: FileRow) -> bool:
    return row.state in _OPEN or (row.assetid is None and ledger.doubts.of(row.id) is not None)


def _taken_over(ledger: Ledger, hand: ByHand, row: FileRow, old: FileRow, now: float) -> Begun:
    """Take over the asset of a version at rest, because `orphans` lists it for removal; it is read back next."""
    intent, assetid, path = hand.intent, str(old.assetid), printable(old.path)
    if row.state is State.BLOCKED:
        ledger.decisions.retry(row, now)
    if not ledger.queue.adopt(row, assetid, str(intent.md5), intent.meta_digest, now):
        return Begun(MAY_BE_THERE, f"{path} has changed: ask again")
    why = f"nothing was sent: {assetid} of {path} ({old.state.words}) is taken over; {_AGAIN}"
    return Begun(THERE, why, assetid, old.filetype)

"""Decide what becomes of a queued file: it is sent, it waits, it is blocked, or the service has its content already.

Pure. `decide` receives the facts known so far and returns a decision, or `Gather` with the one fact that it needs next:
facts that cost more come later. The facts are in `facts`. Gathering them is left to `gather`, acting on the decision to
`prepare`, which of the queued files comes next to `queue`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from assetsync.core.backoff import LONGEST, WELL_WITHIN
from assetsync.core.doubt import MOST_NAMED, UNPROCESSED_PATIENCE
from assetsync.core.kinds import PATIENCE, PAUSE
from assetsync.core.names import printable
from assetsync.core.outcome import TOO_LARGE_FOR_PROXY, too_large_for_proxy
from assetsync.core.settled import EMPTY, KEEPS_CHANGING, MOST_CUTS, rest_after, unchanged_for
from assetsync.ledger.rows import NEW_FIELD, NO_SIDECAR, FileRow
from assetsync.sync.upload.facts import (
    Absent,
    Adopt,
    Fact,
    Facts,
    ListedAgain,
    MayBeAnothers,
    MayBeUploadOf,
    Requeue,
    Resembles,
    TakeOver,
    Unconfirmed,
    Unreadable,
)
from assetsync.text import moment, quoted
from assetsync.tree.body import difference

_LATER = 60.0
"""Seconds, at most, until the next try for a file that waits for the next scan, or for its folder of the service."""

_SOON = 5.0
"""Seconds, at least, until the next try for a file that waits for another upload to be decided, or for a listing."""


@dataclass(frozen=True, slots=True)
class Gather:
    """No decision yet: the fact that is needed next."""

    fact: Fact


class Send:
    """The file is sent."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The file is looked at again at `until` (seconds since the epoch); `why` is the sentence for an operator.

    `behind`: later files of its size wait with it, because they may be what is being uploaded as that version.
    `reason` is a word for what is counted apart.
    """

    until: float
    why: str
    behind: FileRow | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """The file is blocked for a reason word and sentence; with `due_at` it is tried again then (see `Queue.block`)."""

    reason: str
    detail: str
    due_at: float | None = None


class Vanished:
    """The file is gone from the tree."""


Decision = Send | Wait | Block | TakeOver | Adopt | Requeue | Vanished


def decide(facts: Facts) -> Decision | Gather:
    """Return what becomes of the file, or the fact that is needed next."""
    for rule in _RULES:
        decision = rule(facts)
        if decision is not None:
            return decision
    return Send()


def _mapped(facts: Facts) -> Decision | None:
    if facts.mapping is None or facts.mapping.destfolderid != facts.row.destfolderid:
        return Wait(facts.now + _LATER, "its mapping has changed: the next scan assigns its folder")
    return None


def _rested(facts: Facts) -> Decision | Gather | None:
    """Let a file that changes often wait until it has rested."""
    row, settle, now = facts.row, facts.settle, facts.now
    if row.send_again:
        return None
    if facts.past_uploads is None:
        return Gather(Fact.PAST_UPLOADS)
    if not facts.past_uploads and settle <= LONGEST:
        # Most files are new. A file is queued only once it has rested for `settle`.
        return None
    rest = rest_after(facts.past_uploads, settle, now)
    if rest.seconds <= settle <= LONGEST and not rest.is_blocked:
        # A file is queued only once it has rested for `settle`, so it has rested long enough.
        return None
    wait = rest.seconds - unchanged_for(row.stat, row.queued_at, facts.past_uploads, now)
    if wait <= 0:
        return None
    if rest.is_blocked:
        detail = (
            f"it changed during each of its last {MOST_CUTS} uploads or more, each of which may have left a damaged"
            " asset: it is sent once unchanged for an hour"
        )
        return Block(KEEPS_CHANGING, detail, now + wait)
    # Wait in steps: a due time further away would count as set by a clock that has since been set back.
    detail = f"changes often: waits until {moment(now + wait)}, longer if it changes again"
    return Wait(now + min(wait, WELL_WITHIN), detail)


def _not_being_processed(facts: Facts) -> Decision | Gather | None:
    """Let a file wait for an unprocessed asset of its name, for a day; it cannot be compared before."""
    listing, now = facts.listing, facts.now
    if listing is None:
        return Gather(Fact.LISTING)
    if listing.is_running:
        return Wait(now + _pause(facts), "waits until its folder of the service has been listed")
    if listing.unprocessed is None:
        return None
    if now - (listing.since or now) <= UNPROCESSED_PATIENCE:
        detail = f"the service still works on {listing.unprocessed}, an asset of this name that may be this file"
        return Wait(now + _LATER, detail)
    detail = (
        f"the folder has held {listing.unprocessed} of the same name for 24 hours without the service processing it, so"
        " that it cannot be told whether it is this file: look there, then `assetsync retry PATH`, or"
        " `assetsync retry --send-again PATH`"
    )
    return Block("unprocessed", detail)


def _still_without_sidecar(facts: Facts) -> Decision | Gather | None:
    """Let a file that waits for its own sidecar go on waiting; its content was compared before, and is not read."""
    if facts.row.reason != NO_SIDECAR or not _needs_sidecar(facts):
        return None
    if facts.has_sidecar is None:
        return Gather(Fact.HAS_SIDECAR)
    return None if facts.has_sidecar else _without_sidecar(facts.now)


def _needs_sidecar(facts: Facts) -> bool:
    return facts.mapping is not None and facts.mapping.needs_sidecar and not facts.row.without_sidecar


def _without_sidecar(now: float) -> Wait:
    detail = (
        "waits for its own sidecar, YAML or XMP, because its mapping says `sidecars: required`: it is sent when that"
        " comes; `assetsync retry --without-sidecar PATH` sends it without"
    )
    return Wait(now + WELL_WITHIN, detail, reason=NO_SIDECAR)


def _of_known_kind(facts: Facts) -> Decision | Gather | None:
    """Let a file wait while another one of its ending shows which kind it is, for the names of its metadata fields."""
    if facts.kind is None:
        return Gather(Fact.KIND)
    if facts.kind.by is None:
        return None
    detail = (
        f"waits for the answer to {printable(facts.kind.by)}, which shows the kind of files of this ending:"
        f" {PATIENCE:.0f} s at most"
    )
    return Wait(facts.now + PAUSE, detail)


def _there(facts: Facts) -> Decision | Gather | None:
    disk = facts.disk
    if disk is None:
        return Gather(Fact.DISK)
    if isinstance(disk, Unreadable):
        return Block("unreadable", disk.detail)
    if disk is Absent.FOLDER:
        # A disk may have been unmounted with all its files: the next scan and the brake decide.
        detail = "it is not there, nor is anything else in its mapped folder: the next scan decides"
        return Wait(facts.now + _LATER, detail)
    if isinstance(disk, Absent):
        return Vanished()
    return Requeue(disk) if difference(facts.row.stat, disk) else None


def _accepted_size(facts: Facts) -> Decision | None:
    size, most = facts.row.size, facts.rules.max_file_size
    if size == 0:
        return Block(*EMPTY)
    if most is not None and size > most:
        detail = (
            f"the file has {size:,} bytes and upload.max_file_size is {most:,}:"
            " raise the limit, then `assetsync retry PATH`, or ignore the file"
        )
        return Block("too_large", detail)
    return None


def _read_whole(facts: Facts) -> Decision | Gather | None:
    content = facts.content
    if content is None:
        return Gather(Fact.CONTENT)
    if isinstance(content, Requeue):
        return content
    if isinstance(content, Unreadable):
        return Block("unreadable", content.detail)
    if isinstance(content, MayBeUploadOf):
        # If an upload was cut before its file was read to the end, and its path holds another file now, only the
        # service can show what was sent.
        detail = (
            f"may be what was being uploaded as {printable(content.other.path)}: waits until that is decided"
            " (`assetsync doubt list`)"
        )
        return Wait(facts.now + _pause(facts), detail, content.other)
    return None


def _pause(facts: Facts) -> float:
    """Return the seconds until the next try for what may end at any moment; longer, the longer the file has waited."""
    return min(_LATER, max(_SOON, (facts.now - facts.row.queued_at) / 4))


def _use_equal(facts: Facts) -> Decision | Gather | None:
    """Use equal content of the service, or let the file wait until it is known whether there is any."""
    equal = facts.equal
    if equal is None:
        return Gather(Fact.EQUAL)
    if isinstance(equal, Unconfirmed):
        detail = (
            f"the folder holds this content as {equal.assetid}, which was not known when you asked to send the file"
            " again: look there, then `assetsync retry --send-again PATH` uploads it nevertheless"
        )
        return Block("unconfirmed", detail)
    if facts.row.send_again:
        return None
    if isinstance(equal, TakeOver | Adopt):
        return equal
    if isinstance(equal, MayBeUploadOf | MayBeAnothers | ListedAgain):
        return _not_known_yet(equal, facts.now)
    if isinstance(equal, Resembles):
        return _resembling(equal, facts.now)
    if isinstance(equal, Unreadable):
        detail = (
            f"{equal.detail}; what was uploaded from there may have been moved here:"
            " `assetsync retry --send-again PATH` uploads it in any case"
        )
        return Block("unreadable", detail)
    if facts.replaces is not None and not facts.rules.resend_changed:
        detail = (
            f"it changed since it was uploaded as {facts.replaces}, and policy.on_change is report:"
            " `assetsync retry --send-again PATH` uploads it as a new asset"
        )
        return Block("changed", detail)
    return None


def _not_known_yet(equal: MayBeUploadOf | MayBeAnothers | ListedAgain, now: float) -> Decision:
    match equal:
        case MayBeUploadOf(other):
            path = printable(other.path)
            return Wait(now + _SOON, f"an equal asset may come from the upload of {path}: waits until that is decided")
        case MayBeAnothers(assetid):
            detail = f"{assetid} has the same content and another file's name: waits until the first scan has ended"
            return Wait(now + _LATER, detail)
        case ListedAgain(assetid):
            detail = f"the last audit did not show {assetid}, which seemed to be this file: its folder was listed again"
            return Wait(now, detail)


def _resembling(found: Resembles, now: float) -> Decision:
    first, *others = found.assets
    if found.upload_of is not None:
        path = printable(found.upload_of.path)
        return Wait(
            now + _SOON, f"asset {first.assetid} may come from the upload of {path}: waits until that upload is decided"
        )
    what = "of the same name and size" if first.is_exact else "of the same size, whose name may be the file's"
    ids = [one.assetid for one in (first, *others)]
    more = f" and {len(ids) - MOST_NAMED:,} more" * (len(ids) > MOST_NAMED)
    named = "" if first.is_exact else f" ({printable(first.name)})"
    detail = (
        f"the folder holds {', '.join(ids[:MOST_NAMED])}{more}{named} {what}, and the service gives no MD5 to tell"
        " whether it is this file: `assetsync reconcile --adopt` takes such assets over,"
    )
    if not first.is_exact:
        detail += " where one asset fits one file, `assetsync doubt resolve PATH --asset ID` takes over the one named,"
    return Block("resembles", f"{detail} `assetsync retry --send-again PATH` uploads")


def _surely_absent(facts: Facts) -> Decision | None:
    """Let a file wait while its folder may hold it although nothing shows it, until a person has it sent."""
    if facts.listing is None or facts.listing.unsure is None or facts.row.send_again:
        return None
    return Wait(facts.now + _LATER, facts.listing.unsure)


def _described(facts: Facts) -> Decision | Gather | None:
    """Let a file wait for its sidecar: metadata cannot be sent afterwards."""
    sidecars, now = facts.sidecars, facts.now
    if sidecars is None:
        return Gather(Fact.METADATA)
    if sidecars.settles_in:
        return Wait(now + sidecars.settles_in, "waits until its sidecar has settled (watch.settle)")
    if sidecars.metadata is None:
        return Block("sidecar", sidecars.mistake)
    has_come = sidecars.has_own
    if not has_come and _needs_sidecar(facts):
        return _without_sidecar(now)
    waited = now - facts.row.queued_at
    # A file queued in the future was queued by a clock that has since been set back: do not wait.
    may_come = facts.mapping is not None and facts.mapping.sidecars and 0 <= waited < facts.rules.sidecar_wait
    if may_come and not has_come and not facts.row.is_without_metadata:
        # When the sidecar appears, the file is due at once.
        until = now + min(facts.rules.sidecar_wait - waited, LONGEST)
        return Wait(until, "waits for its sidecar, watch.sidecar_wait at most")
    return None


def _passed_by_proxy(facts: Facts) -> Decision | None:
    """Block a file of a size that a proxy before the service refuses; its content may be in the service already."""
    if facts.refused_size is None or facts.row.send_again:
        return None
    return Block(TOO_LARGE_FOR_PROXY, too_large_for_proxy(facts.refused_size))


def _with_known_fields(facts: Facts) -> Decision | Gather | None:
    """Let a file wait while another one shows whether the service processes files with a new field."""
    new, now = facts.new_field, facts.now
    if new is None:
        return Gather(Fact.NEW_FIELD)
    if new.name is None:
        return None
    first = printable(new.by[0])
    detail = f"waits until the service has processed {first}, the first file with the metadata field {new.name}"
    if new.is_tried:
        detail = (
            f"waits because the service has not processed {' and '.join(map(printable, new.by))}, the first files with"
            f" the metadata field {new.name}: add the field to the service and send one of them again (`assetsync retry"
            f" --send-again {quoted(new.by[0])}`), or `assetsync retry --without-metadata PATH` sends this file without"
        )
    return Wait(now + min(WELL_WITHIN, max(_SOON, (now - facts.row.queued_at) / 4)), detail, reason=NEW_FIELD)


_RULES: tuple[Callable[[Facts], Decision | Gather | None], ...] = (
    _mapped,
    _rested,
    _still_without_sidecar,
    _not_being_processed,
    _of_known_kind,
    _there,
    _accepted_size,
    _read_whole,
    _use_equal,
    _surely_absent,
    _passed_by_proxy,
    _described,
    _with_known_fields,
)

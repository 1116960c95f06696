"""The end of a simulation: a fair, quiet time in which everything must come to rest, and what must hold then."""

from typing import TYPE_CHECKING

from assetsync.core.doubt_grace import STORED_BY_NOW, UPLOAD_TIMES
from assetsync.core.settled import KEEPS_CHANGING
from assetsync.model import State
from assetsync.service.search import like_pattern

from .sim_answers import md5
from .sim_checks import Violation
from .sim_curated import judge_curated
from .sim_lies import ended
from .sim_own import judge_own
from .sim_partial import arrives_within, judge_partial
from .sim_refused_sizes import is_refused, judge_refused_sizes, raise_limit
from .sim_restless import judge_restless
from .sim_sidecars import judge_sidecars
from .sim_stuck import finish_unknown, is_stuck, was_finished
from .sim_tree import FOLDERS
from .sim_values import GRACE

if TYPE_CHECKING:
    from .simulation import Simulation

_ROUNDS = 400
_ROUNDS_AT_MOST = 20 * _ROUNDS
_MOST = 0.5
_ARRIVED_WITHIN = 50 * GRACE
ARRIVED_WITHIN_WHERE_MOST_FAIL = 100 * GRACE
"""Seconds within which all must have arrived though searches fail now and then, or though more than half of them do."""
_LONG_GRACE = 25 * GRACE
_SCAN_EVERY = 6
_OFTEN = 10 * _SCAN_EVERY
_RETRIES = (150, 250)
_LISTS_LIE = 100
"""Rounds in which a listing is capped still: files whose folder is known to keep names are sent all the same."""
_PATIENT = range(100, 220)
_ON_THE_WAY = (State.QUEUED, State.SENDING, State.IN_DOUBT)
_UNRESTED = (State.QUEUED, State.SENDING, State.IN_DOUBT, State.STORED)


def quiet(simulation: "Simulation") -> None:
    """Let nothing go wrong any more, release every brake, and let time pass until all is at rest.

    I7: raises Violation when it does not come to rest.
    """
    service = simulation.service
    service.speak_again()
    service.plans.clear()
    service.key_refused = False
    service.broken_searches = 0
    service.habits.limit = 0
    service.blind.clear()
    simulation.full_commits, simulation.crash_in = 0, -1
    simulation.recording.goes_on = False

    simulation.hand.kill()
    for fiber in list(simulation.baton.busy()):
        while fiber.busy:
            simulation.guarded(lambda f=fiber: f.resume(1_000), fiber.name)  # type: ignore[misc]
    finish_unknown(simulation)
    simulation.note("---- quiet from here on")
    simulation.pauses.end(None)
    rested, arrived = 0, False
    began, within = simulation.clock.true, _arrives_within(simulation)
    rounds = _ROUNDS if within is None else _ROUNDS_AT_MOST
    for number in range(rounds):
        if within is not None and not arrived and simulation.clock.true - began > within:
            break
        if simulation.site.brakes.pulled():
            simulation.person("resume", {})
        if number == _LISTS_LIE:
            expect_progress(simulation)
            service.mend_lists()
        if any(map(is_refused, _all(simulation))) and not any(row.state in _UNRESTED for row in _all(simulation)):
            raise_limit(simulation)
        if number in _RETRIES:
            # One file may wait for another that a person is asked about.
            simulation.person("retry", {})
        _send_phantoms_again(simulation)
        if number % _SCAN_EVERY == 0:
            simulation.start("scan", simulation.scan, 1_000_000)
            # One that is always under way leaves no time in which look-ups, which take as long, can be answered for.
            if simulation.variant.curated and (number < _OFTEN or number % _OFTEN == 0):
                simulation.start("read-back", simulation.audit, 1_000_000)
        simulation.guarded(simulation.look, "look")
        is_sending = simulation.send_all()
        simulation.start("read-back", simulation.read_back, 1_000_000)
        simulation.checks.always()
        rested = rested + 1 if _rests(simulation) else 0
        if within is not None and not arrived and _has_arrived(simulation):
            arrived = True
            service.habits.refusing = ""
            simulation.note(f"---- arrived after {simulation.clock.true - began:.0f} s")
        # A scan lies within these rounds, and nothing came of it.
        if rested > _SCAN_EVERY and service.habits.lies != ended(service.habits.lies):
            # What a false list kept undecided is decided by a true one.
            service.mend_lists()
            rested = 0
        if rested > _SCAN_EVERY:
            simulation.note(f"---- at rest after {simulation.clock.true - began:.0f} s")
            service.mend_searches()
            service.mend_uploads()
            service.mend_lists()
            return
        simulation.clock.advance(0.01 if is_sending else _pause(simulation))
        began += _pass_half_a_day(simulation)
        if simulation.variant.lacks and number in _PATIENT:
            # An upload in doubt waits for a day for an asset that is never processed.
            simulation.clock.advance(3600.0)
    left = [(r.path.decode(), r.state, r.reason, r.detail) for r in _all(simulation) if r.state in _UNRESTED]
    after = f"{number + 1} rounds, {simulation.clock.true - began:.0f} s"
    raise Violation(f"I7: not at rest after {after}: {left}, {simulation.site.gates.closed}")


def _send_phantoms_again(simulation: "Simulation") -> None:
    """Let a person send files again that were accepted and never shown, where their folder waits for them."""
    if simulation.service.habits.lies.hides:
        # The person reads that the key's user may not see the folder, and sees to that first.
        return
    ledger = simulation.site.context.ledger
    held = ledger.reports.holds(simulation.clock.now())
    for row in _all(simulation) if held else ():
        if row.state is State.BLOCKED and "shows no such asset" in row.detail and row.destfolderid in held:
            simulation.checks.allow(row)
            simulation.person("retry", {"paths": [row.path.hex()], "send_again": True})


def expect_progress(simulation: "Simulation") -> None:
    """I7: a capped list holds up no file of a folder that keeps names, if a search for its name finds little else."""
    if not simulation.service.habits.lies.cap:
        return
    store = simulation.site.context.ledger.store
    # A folder that is held waits for its listing, which may be out of date.
    held = simulation.site.context.ledger.reports.holds(simulation.clock.now())
    kept = {*store.column("SELECT destfolderid FROM folders WHERE names = 'kept'")} - held.keys()
    # Only a later upload that was read back shows that a lost one would have kept its name.
    undecided = {*map(tuple, store.rows("SELECT destfolderid, folded_name FROM attempts WHERE closed_at IS NULL"))}
    # A version waits for the doubt of an older one, whatever that was called when it was sent.
    older = {*store.column("SELECT path FROM files WHERE state = 'in_doubt'")}
    for row in _all(simulation):
        is_searchable = row.destfolderid in kept and not like_pattern(row.path.decode()[2:]).startswith("%")
        waits = row.state is State.QUEUED and row.wanted == "yes" and not simulation.waits_for_sidecar(row)
        # The first file of a new field may wait for its own reading back, whatever the lists show.
        waits = waits and row.reason != "new_field"
        waits = waits and row.path not in older and (row.destfolderid, row.folded_name) not in undecided
        if waits and is_searchable:
            raise Violation(f"I7: {row.path!r} waits for a list that is capped: {row.reason}, {row.detail}")


def _pass_half_a_day(simulation: "Simulation") -> float:
    """Let half a day pass for an upload whose grace is long, as after a crash and a jump of the clock; give seconds."""
    sql = "SELECT MAX(took) FROM attempts WHERE closed_at IS NULL AND why = 'unclean_stop' AND looked ->> '$.boot' = ?"
    clock = simulation.clock
    longest = simulation.site.context.ledger.store.rows(
        f"{sql} AND looked ->> '$.since' > ?", clock.boot(), clock.steady() - STORED_BY_NOW
    )[0][0]
    if UPLOAD_TIMES * (longest or 0.0) < _LONG_GRACE:
        return 0.0
    clock.advance(STORED_BY_NOW)
    return STORED_BY_NOW


def _arrives_within(simulation: "Simulation") -> float | None:
    """Give the seconds within which all must have arrived, None where nothing fails, or lists hold files up."""
    lies = simulation.service.habits.lies
    if lies != ended(lies):
        return None
    if simulation.variant.default_limits:
        return arrives_within(simulation)
    share = simulation.variant.failing
    if not share and not simulation.variant.failing_each:
        return None
    # A folder that is held when the clock is set back is held for as long, an hour at most.
    held = min(simulation.clock.set_back, 3600.0)
    return held + (ARRIVED_WITHIN_WHERE_MOST_FAIL if share > _MOST else _ARRIVED_WITHIN)


def _has_arrived(simulation: "Simulation") -> bool:
    """Whether nothing is on its way, but for the files of a folder into which every upload fails."""
    refusing = simulation.service.habits.refusing
    return not any(
        row.state in _ON_THE_WAY and row.wanted != "unmapped" and row.destfolderid != refusing
        for row in _all(simulation)
    )


def _rests(simulation: "Simulation") -> bool:
    simulation.service.settle()
    unrested = any(
        (_goes_on(row) or was_finished(simulation, row))
        and row.wanted != "unmapped"
        and not simulation.waits_for_good(row)
        for row in _all(simulation)
    )
    unread = simulation.site.context.ledger.versions.has_unread()
    waits = unread or len(simulation.site.settling) or simulation.site.brakes.pulled() or simulation.service.late
    return not unrested and not waits


def _goes_on(row) -> bool:
    """Whether a row goes on by itself: what is held for its changes does once it has rested."""
    return row.state in _UNRESTED or (row.state is State.BLOCKED and row.reason == KEEPS_CHANGING) or is_refused(row)


def _pause(simulation: "Simulation") -> float:
    """Give the time until something is due."""
    site, clock = simulation.site, simulation.clock
    ledger = site.context.ledger
    now = clock.now()
    if site.gates.closed is not None:
        return max(0.1, site.gates.closed.until - clock.steady())
    (verify_due,) = ledger.store.rows("SELECT MIN(due_at) FROM files WHERE state = 'stored'")[0]
    look = ledger.doubts.next_look()
    if look is not None and look <= now:
        # A round of look-ups that takes long may be over after the next is due, and a daemon goes on at once.
        return 0.01
    (held_due,) = ledger.store.rows(
        "SELECT MIN(due_at) FROM files WHERE state = 'blocked' AND reason = ?", KEEPS_CHANGING
    )[0]
    queue_due = ledger.queue.next_due()
    if simulation.variant.requires_sidecars or simulation.variant.lacks:
        # A file that waits for its sidecar, or for a field, may wait for ever.
        sql = (
            "SELECT MIN(due_at) FROM files WHERE state = 'queued' AND wanted = 'yes'"
            " AND COALESCE(reason, '') NOT IN ('no_sidecar', 'new_field')"
        )
        (queue_due,) = ledger.store.rows(sql)[0]
    dues = [queue_due, look, verify_due, held_due]
    waits = [due - now for due in dues if due is not None]
    settled = site.settling.next_due()
    if settled is not None:
        waits.append(settled - clock.steady())
    waits = [wait for wait in waits if wait > 0]
    if not waits and any(was_finished(simulation, row) for row in _all(simulation)):
        # It is looked at each hour.
        waits.append(60.0)
    return min(60.0, *waits, 60.0) + 0.01 if waits else 1.0


def _all(simulation: "Simulation"):
    return list(simulation.site.context.ledger.reports.files(history=True))


def judge(simulation: "Simulation") -> None:
    """I1, I4 and I5 at the end, after an audit of every folder."""
    simulation.clock.advance(simulation.service.habits.processing + simulation.service.habits.lag + 1.0)
    simulation.guarded(simulation.audit, "audit")
    # What was sent after the last scan is read with the next.
    simulation.guarded(simulation.read_drift, "read-back")
    rows = {row.path.decode(): row for row in _all(simulation) if row.wanted == "yes"}
    held = simulation.files.held
    if set(rows) != set(held):
        raise Violation(f"I1: the tree holds {sorted(held)}, the ledger {sorted(rows)}")
    assets = simulation.service.assets
    for path, row in sorted(rows.items()):
        if row.state is State.QUEUED and simulation.waits_for_good(row):
            continue
        if row.state is State.BLOCKED:
            if not _justified(simulation, path, row):
                raise Violation(f"I1: {path} is blocked for no reason: {row.reason}, {row.detail}")
            continue
        asset = assets.get(row.assetid or "")
        if row.state is not State.VERIFIED or asset is None:
            raise Violation(f"I1: {path} is {row.state} as {row.assetid}, which the service does not have")
        # A service that refuses copies has it elsewhere, perhaps.
        elsewhere = asset.folder != FOLDERS[path[0]] and not simulation.variant.refuses_copies and not asset.curated
        # A lost asset of a file that was renamed into another mapping is replaced by the one that a person put there.
        elsewhere = elsewhere and (asset.post is not None or "another folder" not in (row.drift or ""))
        if asset.content != held[path] or elsewhere:
            raise Violation(f"I1: {path} is verified as {asset.id}, which is other content or in another folder")
        if row.md5 is not None and row.md5 != md5(asset.content):
            raise Violation(f"I4: {path} is verified with another digest than {asset.id} has")
    _all_explained(simulation)
    judge_sidecars(simulation)
    judge_own(simulation)
    judge_curated(simulation)
    judge_restless(simulation)
    judge_partial(simulation)
    judge_refused_sizes(simulation)
    simulation.checks.counted()
    simulation.checks.secret()


def _justified(simulation: "Simulation", path: str, row) -> bool:
    """Whether a person is asked for a reason that the simulation knows of."""
    if row.reason in ("different", "undecidable", "unseen", "missing", "never_processed") and _is_curated(
        simulation, row
    ):
        return True
    if simulation.variant.lacks and "24 hours" in row.detail:
        # It may be an upload whose answer was lost, and that is never processed.
        return True
    match row.reason:
        case "unconfirmed":
            # An equal asset came after a person wanted another copy, or the ledger has forgotten what became of that.
            content = simulation.files.held[path]
            return simulation.checks.is_wanted_again(row.destfolderid, content)
        case "empty_file":
            return simulation.files.held[path] == b""
        case "sidecar":
            return simulation.files.said_of(path) is None
        case "resembles":
            # The cut of an older version may be of the size of this one: without digests a person is asked.
            return not simulation.variant.gives_md5
        case "refused_as_duplicate":
            return simulation.variant.refuses_copies
        case "undecidable" | "unseen" | "unprocessed":
            # The 24 hours of an asset that is not processed are told by the wall clock, which may have been set.
            jumped = "24 hours" in row.detail and simulation.clock.jumped >= 80_000
            may_be_moved = _is_strange_elsewhere(simulation, path, row)
            untold = row.reason == "undecidable" and _is_untold(simulation, row)
            return row.absences >= 4 or simulation.service.phantoms > 0 or jumped or may_be_moved or untold
        case "crashes":
            attempts = simulation.site.context.ledger.doubts.attempts(row.id, -1)
            return sum(attempt.why == "unclean_stop" for attempt in attempts) >= 5
        case "never_processed":
            # Of a phantom there is no asset.
            return is_stuck(simulation, row) or (simulation.service.phantoms > 0 and not _is_shown(simulation, row))
    return False


def _is_shown(simulation: "Simulation", row) -> bool:
    shown = simulation.site.context.ledger.assets.shown([row])
    return row.assetid in shown and shown[row.assetid].shown_at is not None


def _is_untold(simulation: "Simulation", row) -> bool:
    """Whether an asset of its size is named, and the service gives neither an MD5 nor the name that was sent.

    Until an upload into a folder is read back, the service may rename all of them: then the rest of a cut upload that
    happens to be of this size may be this file, too.
    """
    habits = simulation.service.habits
    changes_names = habits.renames or not habits.reads_latin
    return not habits.gives_md5 and any(
        asset.id in row.detail and len(asset.content) == row.size and (changes_names or not asset.whole)
        for asset in simulation.service.assets.values()
    )


def _is_curated(simulation: "Simulation", row) -> bool:
    """Whether people have deleted, moved or renamed an asset that is named, or an equal one."""
    service = simulation.service
    touched = {asset.id: asset.content for asset in service.assets.values() if asset.curated}
    touched |= {asset.id: asset.content for asset in service.deleted.values()}
    content = simulation.files.held[row.path.decode()]
    return content in touched.values() or any(assetid in row.detail for assetid in touched)


def _is_strange_elsewhere(simulation: "Simulation", path: str, row) -> bool:
    """Whether the asset that is named lies in another folder and is a person's, or is left over beside a person's.

    So is one of which a person had a copy sent again, or put one there by hand. Or it is the beginning of a longer file
    that we left: where that file is another by now, nothing shows any more that it was its beginning. Or the ledger
    has forgotten the upload that made it, with a disk that was rolled back, and its file was moved since.
    """
    attempts = {row[0] for row in simulation.site.context.ledger.store.rows("SELECT boundary FROM attempts")}
    assets, checks = simulation.service.assets.values(), simulation.checks
    by_hand = {(asset.folder, asset.content) for asset in assets if asset.post is None}
    return any(
        not asset.whole
        or asset.post not in attempts
        or (asset.folder, asset.content) in by_hand
        or checks.is_wanted_again(asset.folder, asset.content)
        for asset in assets
        if asset.id in row.detail and asset.folder != FOLDERS[path[0]]
    )


def _may_be_done(simulation: "Simulation", folder: str, content: bytes) -> bool:
    """Whether the ledger forgot what became of a person's wish for another copy: then the person is asked anew."""
    return simulation.forgot and simulation.checks.is_wanted_again(folder, content)


def _all_explained(simulation: "Simulation") -> None:
    """P2: whatever we made in the service is a file's, was a file's, or is listed with a word for it."""
    ledger = simulation.site.context.ledger
    known = {row.assetid for row in _all(simulation)}
    known |= {row[0] for row in ledger.store.rows("SELECT assetid FROM unowned WHERE why <> ''")}
    asked = "SELECT boundary FROM attempts WHERE closed_at IS NULL OR result = 'resolved'"
    by_person = {row[0] for row in ledger.store.rows(asked)}
    for asset in simulation.service.shown():
        copied = (asset.folder, asset.content) in simulation.checks.blind_copies
        copied = copied or _may_be_done(simulation, asset.folder, asset.content)
        # What an upload left in a folder that showed nothing was nobody's by the time it was shown.
        copied = copied or asset.folder == simulation.variant.lies.hides
        if simulation.service.is_killed(asset) and asset.post in by_person:
            # A person is or was asked about the upload; until it is processed, nothing shows that this is its asset.
            continue
        if asset.post is not None and asset.id not in known and not asset.curated and not copied:
            raise Violation(f"I1: nothing explains {asset.id}, {len(asset.content)} bytes of {asset.name}")

"""Read the current problems of a site, and send the notices about them through the configured channels.

The ledger records for each receiver what was reported to it, only once no notice waits for delivery there: after a
crash a notice may be delivered twice, but none is lost, and a receiver that is down repeats nothing for another. The
choice of notices is left to `core.notices`, delivery to `channel`.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from assetsync.app import Site
from assetsync.config.models import SiteConfig
from assetsync.core.gate import Closed
from assetsync.core.notices import AT_ONCE, DELAYS, KEPT, Delays, Kind, Notice, NoticeTracker, Problem
from assetsync.core.outcome import ANSWERS_LOST
from assetsync.core.pauses import OperatorPause
from assetsync.errors import LedgerDamaged, LedgerError, LedgerUnwritable, ServiceError
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.read_back import INDEX_STOPPED
from assetsync.ledger.reports import Reports
from assetsync.ledger.runs import DAY, HeldUp, Pause
from assetsync.log import register_address
from assetsync.model import Clock
from assetsync.notify.channel import Channel, Command, Undelivered, encoded
from assetsync.service.webhook import Webhook
from assetsync.sync.lookup_gates import KEY_REFUSED
from assetsync.text import files, moment, named_path, plural, printable, runnable

log = structlog.get_logger(__name__)


def current_problems(
    ledger: Ledger,
    pause: Closed | None,
    waiting: str | None,
    reported: Collection[str],
    now: float,
    *,
    sidecar_reminder: float | None = None,
) -> list[Problem]:
    """Return the current state of each kind that can be read at `now` (seconds since the epoch). Raise LedgerDamaged.

    `pause` is that of the gates, `waiting` the reason why a loop waits for the ledger's disk, `reported` holds the
    keys of the blocked files that were reported. `sidecar_reminder`: the seconds after which files that wait for their
    own sidecars are reported, None for never.
    """
    reports = ledger.reports
    is_refused = pause is not None and pause.reason == KEY_REFUSED
    out = {} if pause is None or is_refused else {"outage": printable(pause.detail)}
    if pause is not None and pause.loses_answers:
        out = {ANSWERS_LOST: printable(pause.detail)}
    since = {} if pause is None else dict.fromkeys(out, pause.since)
    found = []
    # During any other pause it is unknown whether the key is accepted.
    known = pause is None or is_refused
    key = [_named(Kind.KEY_REFUSED, {} if pause is None else {"key": printable(pause.detail)})] * known
    try:
        blocked = _blocked(reports, reported)
        brakes = reports.brakes()
        braked = {str(brake.id): printable(brake.detail) for brake in brakes[:KEPT]}
        stopped = reports.fact(INDEX_STOPPED)
        found += [
            blocked,
            Problem(Kind.BRAKE, braked, len(brakes)),
            _named(Kind.INDEX_STOPPED, {} if stopped is None else {"index": printable(stopped)}),
            _unread(ledger),
            _held_up(ledger, now),
            _paused(ledger.pauses.shown(now), now),
            _without_sidecar(reports, None if sidecar_reminder is None else now - sidecar_reminder),
        ]
        lately = [each for each in ledger.runs.vanished(now) if each.is_large and now - each.at < DAY]
        found.append(_named(Kind.VANISHED, {f"{each.at:.0f}": str(each) for each in lately}))
        folders = {
            folder: f"into folder {printable(folder)}: {printable(detail)}"
            for folder, detail in reports.unlisted().items()
        }
        if ANSWERS_LOST in out and (arrived := ledger.arrived(ledger.runs.at_hand(Pause))):
            out[ANSWERS_LOST] = f"{files(arrived)} arrived since; {out[ANSWERS_LOST]}"
        found += [_named(Kind.OUTAGE, out | folders, since), *key]
    except LedgerDamaged:
        raise
    except LedgerError as error:
        waiting = waiting or str(error)
        if out:
            found.append(_named(Kind.OUTAGE, out, since))
        found += key * is_refused
    return [Problem(Kind.ENDED), *found, ledger_problem(waiting)]


def ledger_problem(waiting: str | None) -> Problem:
    """Return the problem of a ledger that cannot be used because of `waiting`; with None it is in order."""
    return _named(Kind.LEDGER, {} if waiting is None else {"ledger": printable(waiting)})


def _named(kind: Kind, items: dict[str, str], since: dict[str, float] | None = None) -> Problem:
    return Problem(kind, items, len(items), since or {})


def _blocked(reports: Reports, reported: Collection[str]) -> Problem:
    rows = reports.blocked(KEPT)
    items = {f"{row.id}:{row.reason}": f"{printable(row.path)} ({row.reason})" for row in rows}
    count = len(rows) if len(rows) < KEPT else reports.count_blocked()
    # A reported file that is being sent again still counts: it may be blocked again in a moment.
    ids = {key: int(key.partition(":")[0]) for key in reported if key not in items}
    trying = reports.trying(ids.values()) if ids else set()
    return Problem(Kind.BLOCKED, items | {key: key for key, row_id in ids.items() if row_id in trying}, count)


def _unread(ledger: Ledger) -> Problem:
    scan = ledger.runs.last_scan()
    if scan is None:
        return Problem(Kind.TREE)
    # The brake of a missing folder that held files reports it.
    braked = {brake.subject for brake in ledger.reports.brakes() if brake.kind == "emptied"}
    missing = [name for name in scan.missing if name not in braked]
    items = {f"missing {name}": f"the mapped folder {name} is not there" for name in missing}
    # The key omits the reason in brackets, so that another reason causes no new notice.
    items |= {f"unreadable {blind.rpartition(' (')[0]}": blind for blind in scan.blind}
    return Problem(Kind.TREE, items, len(missing) + scan.unread)


def _without_sidecar(reports: Reports, before: float | None) -> Problem:
    rows = [] if before is None else reports.waiting_for_sidecar(before, KEPT)
    return _named(Kind.SIDECARS, {str(row.id): printable(row.path) for row in rows})


def _paused(pauses: Sequence[OperatorPause], now: float) -> Problem:
    """Return the pauses without an end that have lasted a day; each further day is a new item."""
    days = {pause: int((now - pause.since) // DAY) for pause in pauses if pause.until is None}
    items = {
        f"{pause.path.hex()} {pause.since:.0f} {day}": f"{named_path(pause.path)}, by {printable(pause.who)} since"
        f" {moment(pause.since)}{f' ({printable(pause.why)})' * bool(pause.why)}"
        for pause, day in days.items()
        if day > 0
    }
    return _named(Kind.PAUSE, items)


def _held_up(ledger: Ledger, now: float) -> Problem:
    held_up = ledger.runs.at_hand(HeldUp)
    if held_up is None or not held_up.everything:
        return Problem(Kind.DOUBTS)
    count, at = ledger.doubts.count(), held_up.decided_at
    soon = "the next is decided once look-ups prove what became of it"
    decided = soon if at is None or at <= now else f"the next can be decided at {moment(at)}"
    text = f"{plural(count, 'upload')} in doubt since {moment(held_up.since)}; {decided}"
    return _named(Kind.DOUBTS, {"doubts": text})


_REPORTED = "told"
"""The fact that holds what was reported: followed by a colon and the receiver's key, or alone in an older ledger."""

# `ended` does not apply at the next start, because the daemon runs again.
_STILL_DUE = "the next start sends those that still apply"
_EVERY = 2.0
_PATIENCE = 40.0  # longer than a command or an answer may take

Look = Callable[[Collection[str]], list[Problem]]
"""Return the current problems; takes the keys of the blocked files that were reported."""


Receiver = Callable[[Notice], None]
"""Deliver a notice; raises Undelivered."""


def receivers(config: SiteConfig, environ: Mapping[str, str]) -> dict[str, Receiver]:
    """Return the configured receivers, by their keys below `notify`. Raise ConfigError."""
    found: dict[str, Receiver] = {}
    if config.notify.webhook is not None:
        # A traceback may contain a webhook's address: anyone who knows its path may post there.
        register_address(config.notify.webhook)
        ca_file = str(config.service.ca_file) if config.service.ca_file else None
        webhook = Webhook(config.notify.webhook, ca_file=ca_file, proxy=config.service.proxy)

        def post(notice: Notice) -> None:
            try:
                webhook.send(encoded(notice))
            except ServiceError as error:
                raise Undelivered(f"notify.webhook: {error.message}") from error

        found["webhook"] = post
    if config.notify.command:
        found["command"] = Command(config.notify.command, environ)
    return found


@dataclass(slots=True)
class _Recipient:
    """A receiver with its channel, and what was reported to it; `saved` is what the ledger records of that."""

    name: str
    send: Receiver
    channel: Channel
    tracker: NoticeTracker
    saved: str = "{}"


class Notifications:
    """The notices of one site, and a thread for each of its receivers; false if there is no receiver.

    Before `attach`, only a ledger that cannot be opened and an error that ends the program can be reported.
    """

    def __init__(
        self, config: SiteConfig, environ: Mapping[str, str], clock: Clock, failed: Callable[[BaseException], None]
    ) -> None:
        """Start the threads, whose unexpected exceptions go to `failed`. Raise ConfigError."""
        self._clock = clock
        self._recipients = [
            _Recipient(name, send, Channel(name, send, failed), NoticeTracker(config.site))
            for name, send in receivers(config, environ).items()
        ]
        self._ledger: Ledger | None = None
        self._look: Look = lambda _reported: []
        for recipient in self._recipients:
            recipient.channel.start()

    def __bool__(self) -> bool:
        return bool(self._recipients)

    def attach(self, ledger: Ledger, look: Look) -> None:
        """Take up what earlier processes reported; `step` reports what `look` returns. Raise LedgerError."""
        older = ledger.reports.fact(_REPORTED)
        for recipient in self._recipients:
            recipient.saved = ledger.reports.fact(f"{_REPORTED}:{recipient.name}") or older or "{}"
            recipient.tracker.load(recipient.saved)
        self._ledger, self._look = ledger, look

    def step(self, delays: Delays = DELAYS) -> float:
        """Read the problems, send due notices and return the seconds until the next step. Raise LedgerDamaged."""
        self._report(self._look, delays)
        for recipient in self._recipients:
            self._save(recipient)
        return _EVERY

    def ended(self, error: BaseException) -> None:
        """Report that an error ends the program, unless that was reported shortly before."""
        items = {type(error).__name__: printable(str(error)) or type(error).__name__}
        self._report(lambda _reported: [Problem(Kind.ENDED, items, 1)])

    def waits_for_ledger(self, why: str) -> None:
        """Report that the ledger cannot be used yet; a step after `attach` reports that this is over."""
        self._report(lambda _reported: [ledger_problem(why)])

    def _report(self, look: Look, delays: Delays = AT_ONCE) -> None:
        for recipient in self._recipients:
            # Each with its own keys: a file that was reported to one receiver alone is new to another.
            problems = look(recipient.tracker.keys(Kind.BLOCKED))
            for found in recipient.tracker.step(problems, self._clock.now(), self._clock.steady(), delays):
                notice = replace(found, text=runnable(found.text), names=tuple(map(runnable, found.names)))
                about = {"channel": recipient.name, "about": str(notice.kind)}
                log.info("notice", **about, over=notice.is_over, text=notice.text)
                recipient.channel.post(notice)

    def _save(self, recipient: _Recipient) -> None:
        """Record what was reported to a receiver, if every notice was delivered or given up. Raise LedgerDamaged.

        If the ledger cannot be written, the next call retries.
        """
        saved = recipient.tracker.saved()
        if self._ledger is None or saved == recipient.saved or not recipient.channel.is_idle:
            return
        try:
            self._ledger.set_fact(f"{_REPORTED}:{recipient.name}", saved)
        except LedgerDamaged:
            raise
        except LedgerError as error:
            log.debug("the reported problems are not recorded yet", detail=str(error))
            return
        recipient.saved = saved

    def finish(self, patience: float) -> None:
        """Begin to close the channels: for `patience` seconds they repeat what fails, and each ends once none waits."""
        for recipient in self._recipients:
            recipient.channel.finish(patience)

    @property
    def is_delivering(self) -> bool:
        """Whether a channel has not ended; after `finish` it has a notice to deliver."""
        return any(recipient.channel.is_alive() for recipient in self._recipients)

    def close(self, patience: float) -> None:
        """Deliver the waiting notices within `patience` seconds, and record what was reported to each idle receiver.

        A program of `notify.channel` that still runs then is killed. A second call does nothing. Raise LedgerDamaged.
        """
        recipients, self._recipients = self._recipients, []
        until = time.monotonic() + patience
        for recipient in recipients:
            recipient.channel.finish()
        for recipient in recipients:
            recipient.channel.join(max(0.0, until - time.monotonic()))
            if isinstance(recipient.send, Command):
                recipient.send.cut()
        waiting = [recipient.name for recipient in recipients if not recipient.channel.is_idle]
        if waiting:
            log.warning("messages are not delivered", channels=waiting, next=_STILL_DUE)
        for recipient in recipients:
            self._save(recipient)
        self._ledger = None


def notify_once(site: Site, environ: Mapping[str, str]) -> None:
    """Report the current problems at the end of a single run, within `_PATIENCE` seconds.

    A pause that ended the run counts as an outage at once, because the next run may be an hour away. Raises
    LedgerDamaged, and ConfigError as `receivers` does.
    """
    ledger, now = site.context.ledger, site.context.clock.now
    notifications = Notifications(site.config, environ, site.context.clock, _unsent)
    reminder = site.config.watch.sidecar_reminder

    def look(reported: Collection[str]) -> list[Problem]:
        return current_problems(ledger, site.gates.closed, None, reported, now(), sidecar_reminder=reminder)

    notifications.attach(ledger, look)
    notifications.step(AT_ONCE)
    notifications.close(_PATIENCE)


def notify_failed(
    config: SiteConfig, environ: Mapping[str, str], clock: Clock, error: BaseException, ledger: Ledger | None
) -> None:
    """Report the error that ends a single run, within `_PATIENCE` seconds, unless an earlier run reported it.

    `ledger` is None if the run could not open it. Only a ledger that can be written keeps what was reported: without
    one, each run reports the error. Raises ConfigError as `receivers` does.
    """
    notifications = Notifications(config, environ, clock, _unsent)
    if ledger is not None:
        try:
            notifications.attach(ledger, lambda _reported: [])
        except LedgerError as unread:
            log.debug("the reported problems cannot be read", detail=str(unread))
    if isinstance(error, LedgerUnwritable):
        notifications.waits_for_ledger(str(error))
    else:
        notifications.ended(error)
    try:
        notifications.close(_PATIENCE)
    except LedgerDamaged as damaged:
        log.debug("the reported problems are not recorded", detail=str(damaged))


def _unsent(error: BaseException) -> None:
    log.error("messages are not sent because of an unexpected error", exc_info=error)

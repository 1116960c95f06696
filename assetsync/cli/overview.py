"""The status of each site of this server in one line, for `status --all` and `status --brief`.

Reading a ledger is left to `status.site_status`, the status of one site in sentences to `status.sentences`.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assetsync.cli import options
from assetsync.cli.entry import NOT_IN_SYNC, OK, USAGE, run_as
from assetsync.cli.output import coloured, note, write, write_json
from assetsync.config.outline import Outline
from assetsync.errors import AssetsyncError, ConfigError, LedgerDenied, LedgerMissing, UsageError
from assetsync.ledger.reports import view_ledger
from assetsync.status.document import as_object
from assetsync.status.sentences import headline, page_address, page_taken
from assetsync.status.site_status import Level, SiteStatus, read_status
from assetsync.text import plural, printable, span

_LONG_STOP = 3600.0
"""Seconds after which a person should know that nothing could be sent."""

_KEYS = (
    "level",
    "in_sync",
    "running",
    "not_running_since",
    "verified",
    "pending",
    "in_doubt",
    "blocked",
    "page",
    "scan_age_seconds",
)


@dataclass(frozen=True, slots=True)
class Site:
    """A configuration of this server with its status, or with the reason why the status cannot be read.

    `error` beside a status has the mistakes of a configuration whose process goes on with the old one. `owner` is the
    user who may read the ledger, if this user may not.
    """

    file: Path
    status: SiteStatus | None
    error: str = ""
    owner: int | None = None

    @property
    def needs_person(self) -> bool | None:
        """Whether a person is needed; None if the status cannot be read."""
        return None if self.status is None else bool(self.error) or needs_person(self.status)

    @property
    def rank(self) -> int:
        """The place among the sites: the worst come first."""
        if self.status is None:
            return 0
        if self.needs_person:
            return 1
        if self.status.level is not Level.IN_SYNC:
            return 2
        return 4 if page_taken(self.status) is None else 3


def needs_person(status: SiteStatus) -> bool:
    """Return whether the status asks for a person, nothing could be sent for an hour, or the last scan is old."""
    return status.level is Level.NEEDS_YOU or _is_stopped_for_long(status) or _lacks_scan(status)


def _is_stopped_for_long(status: SiteStatus) -> bool:
    """Return whether the service, or uploads in doubt, have stopped all uploads for an hour.

    Uploads resume by themselves, but a service that is away for so long may be away until a person looks.
    """
    pause, held_up = status.paused or status.ended_by, status.held_up
    stops = [] if pause is None else [pause.since]
    stops += [held_up.since] if held_up is not None and held_up.everything else []
    return any(status.at - since >= _LONG_STOP for since in stops)


def _lacks_scan(status: SiteStatus) -> bool:
    # The first scan of a large tree may run for long.
    return not status.running if status.scan_age is None else status.scan_age > status.late_after


def sentence(status: SiteStatus) -> str:
    """Return the headline, with what else a person must know: an old scan, an unreadable lock, or a page not shown."""
    more = [text for text in (status.unseen, page_taken(status)) if text is not None]
    if status.scan_age is not None and _lacks_scan(status):
        more.insert(0, f"no scan for {span(status.scan_age)}")
    said, rest = headline(status), "; ".join(more)
    if not more:
        return said
    return f"{said} {rest[0].upper()}{rest[1:]}." if said.endswith(".") else f"{said}; {rest}"


def exit_code(status: SiteStatus, *, brief: bool = False) -> int:
    """Return the exit code of `status`: NOT_IN_SYNC if no process watches, with `brief` also if a person is needed."""
    return NOT_IN_SYNC if not status.is_watched or (brief and needs_person(status)) else OK


def show_all(*, as_json: bool, brief: bool) -> int:
    """Write a line for each site of this server, the worst first, or with `brief` one line for all.

    Return the exit code: with `brief`, USAGE if a site cannot be read, NOT_IN_SYNC if one needs a person; without, the
    worst of `exit_code`.
    Raise UsageError if this server has no site, or hides which ones it has.
    """
    sites = sorted(_sites(), key=lambda site: (site.rank, site.file.stem))
    if not sites:
        raise UsageError(
            f"there is no configuration in {options.CONFIGURATIONS}", hint="`assetsync init` as root writes one"
        )
    if as_json:
        for site in sites:
            write_json(_object(site))
    elif brief:
        write(_summary(sites))
    else:
        for line in _lines(sites):
            write(line)
    if not brief:
        return max((exit_code(site.status) for site in sites if site.status is not None), default=OK)
    ranks = {site.rank for site in sites}
    return USAGE if 0 in ranks else NOT_IN_SYNC if 1 in ranks else OK


def _sites() -> Iterator[Site]:
    try:
        files = options.configurations(options.CONFIGURATIONS)
    except FileNotFoundError:
        return
    except OSError as error:
        message = f"the configurations in {options.CONFIGURATIONS} cannot be listed ({error.strerror})"
        raise UsageError(message, hint="run it as root, or as assetsync's user") from error
    for file in files:
        try:
            config = options.read_outline(file, os.environ)
        except ConfigError as error:
            if _belongs_to_others(file):
                note(f"{printable(str(file))} is left out: it has none of the keys of a configuration")
                continue
            mistakes, outline = _mistakes(error), options.outline_in_use(file)
            if outline is None:
                yield Site(file, None, mistakes)
                continue
            config = outline
        else:
            mistakes = ""
        try:
            yield Site(file, _status(config), mistakes)
        except LedgerMissing:
            yield Site(file, None, f"never started: there is no ledger at {config.ledger}")
        except AssetsyncError as error:
            owner = error.owner if isinstance(error, LedgerDenied) else None
            yield Site(file, None, f"cannot be read: {error.message}", owner)


def _belongs_to_others(file: Path) -> bool:
    from assetsync.config.load import is_configuration  # noqa: PLC0415 - slow to load, and rarely needed

    try:
        return not is_configuration(file.read_bytes())
    except OSError:
        # What may not be read may be a site.
        return False


def _mistakes(error: ConfigError) -> str:
    if isinstance(error.__cause__, OSError):
        return f"cannot be read: the configuration: {error.__cause__.strerror}"
    first, *more = error.mistakes
    first = f"has mistakes: {first}"
    return f"{first} (and {plural(len(more), 'more mistake')})" if more else first


def _status(config: Outline) -> SiteStatus:
    with closing(view_ledger(config.ledger, site=config.site)) as ledger:
        return read_status(config, ledger, time.time())


def _object(site: Site) -> dict[str, Any]:
    status = site.status
    known = {} if status is None else as_object(status)
    return {
        "site": site.file.stem if status is None else status.site,
        "config": printable(str(site.file)),
        "verdict": None if status is None else sentence(status),
        "needs_you": site.needs_person,
        **{key: known.get(key) for key in _KEYS},
        "detail": site.error or None,
    }


_COLOURS = ("red", "red", "yellow", "yellow", "green")


def _lines(sites: list[Site]) -> Iterator[str]:
    names = [printable(site.file.stem) for site in sites]
    pages = ["-" if site.status is None else page_address(site.status) or "-" for site in sites]
    width, room = max(map(len, names)), max(map(len, pages))
    for site, name, page in zip(sites, names, pages, strict=True):
        said = site.error if site.status is None else sentence(site.status)
        if site.error and site.status is not None:
            said = f"{site.error}; a process goes on with the old configuration: {said}"
        yield f"{coloured(f'{name:<{width}}', _COLOURS[site.rank])}  {page:<{room}}  {printable(said)}"
    owners = {site.owner for site in sites if site.owner is not None}
    for owner in sorted(owners):
        yield f"as the user of these ledgers: {run_as(owner, ['status', '--all'])}"


def _summary(sites: list[Site]) -> str:
    counted = (
        (0, "unknown"),
        (1, "in need of a person"),
        (2, "not in sync"),
        (3, "in sync without a page"),
        (4, "in sync"),
    )
    parts = [part for rank, words in counted if (part := _counted([s for s in sites if s.rank == rank], words))]
    return f"{plural(len(sites), 'site')}: {', '.join(parts)}"


def _counted(sites: Iterable[Site], words: str) -> str:
    names = [printable(site.file.stem) for site in sites]
    if not names:
        return ""
    return f"{len(names)} {words}" + ("" if words == "in sync" else f" ({', '.join(names)})")

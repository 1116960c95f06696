"""The checks of the ledger for `assetsync check`: its site, disk space, user, mappings, other sites and brakes.

Nothing is changed. Printing is left to `check`.
"""

import os
import shlex
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from assetsync.cli.daemon_user import check_as, systemd_makes_folder
from assetsync.cli.finding import Finding, Level, of_error
from assetsync.clock import SystemClock
from assetsync.config import SiteConfig, mappings
from assetsync.core.brakes import released_by
from assetsync.errors import LedgerDenied, LedgerError, LedgerMissing
from assetsync.ledger.file.database import holder_of
from assetsync.ledger.file.facts import ROOT, SERVICE
from assetsync.ledger.file.ledger_files import real
from assetsync.ledger.folders import Hold
from assetsync.ledger.ledger import Ledger, read_ledger
from assetsync.parts import claim_of, make_tree
from assetsync.sync.brakes import BrakeControl, pointed_to, subject_of
from assetsync.sync.duplicate_sites import (
    AGREED,
    CLAIM,
    UNREADABLE_FIX,
    agreed_ledgers,
    duplicates_of,
    is_same_service,
    neighbours,
    placed,
    read_claim,
)
from assetsync.text import amount, files, printable, user_name

_ROOM = 64 * 1024 * 1024


def look_at_ledger(config: SiteConfig) -> tuple[list[Finding], dict[str, Hold]]:
    """Return the findings about the ledger and the sites beside it, and the folders of the service that are held."""
    try:
        with closing(read_ledger(config.ledger, site=config.site)) as ledger:
            found = [
                _state(config, ledger),
                *_user(config),
                *_mappings(config, ledger),
                *_other_sites(config, ledger),
                *_brakes(ledger),
            ]
            return found, ledger.reports.holds(time.time())
    except LedgerError as error:
        may_look = os.access(config.ledger.parent, os.R_OK | os.X_OK, effective_ids=True)
        beside = _other_sites(config, None) if may_look else ()
        return [_unopened(config, error), *_user(config), *beside], {}


def _unopened(config: SiteConfig, error: LedgerError) -> Finding:
    """Return the finding about a ledger that cannot be read, or is not there yet."""
    path = config.ledger
    if isinstance(error, LedgerDenied):
        return Finding("ledger", Level.ERROR, error.message, check_as(error.owner, config))
    if not isinstance(error, LedgerMissing):
        return of_error("ledger", error)
    if not path.parent.is_dir():
        if systemd_makes_folder(config):
            message = f"no ledger yet; systemd makes {path.parent} for it when the unit starts"
            return Finding("ledger", Level.OK, message)
        fix = f"mkdir -p {shlex.quote(str(path.parent))}"
        return Finding("ledger", Level.ERROR, f"the folder {path.parent} is not there", fix)
    return _no_room(path) or Finding("ledger", Level.OK, f"no ledger yet; the first run creates {path}")


def _state(config: SiteConfig, ledger: Ledger) -> Finding:
    """Return whether the ledger belongs to this tree and service, and has disk space."""
    path = config.ledger
    known, root, service = ledger.versions.size(), ledger.reports.fact(ROOT), ledger.reports.fact(SERVICE)
    short = _no_room(path)
    if short is not None:
        return short
    if known and root not in (None, str(config.root)) and not make_tree(config).is_at(root.encode()):
        message = f"{path} was filled from the root {root}, and `root` is {config.root} now"
        fix = "correct `root`; or, if the same tree has moved, let a run pull the brake, then assetsync resume"
        return Finding("ledger", Level.WARNING, message, fix)
    if known and service not in (None, config.service.base_url):
        message = f"{path} was filled from {service}, and service.base_url is {config.service.base_url} now"
        fix = "correct it; or start a run, which continues only if it finds known assets there"
        return Finding("ledger", Level.WARNING, message, fix)
    holder = holder_of(real(path))
    if holder.unseen is not None:
        return Finding("ledger", Level.WARNING, holder.unseen)
    sends = ", and a process sends for it now" if holder.sends else ""
    return Finding("ledger", Level.OK, f"{path} knows {files(known)}{sends}")


def _user(config: SiteConfig) -> Iterator[Finding]:
    """Warn if this user does not own the ledger: the owner may not be able to read what this user can read."""
    user = os.geteuid()
    try:
        owner = config.ledger.stat().st_uid
    except OSError:
        # There is no ledger yet, or its error is reported.
        return
    # Root reads the tree with the owner's rights (`check._tree`).
    if user not in (0, owner):
        message = (
            f"the ledger belongs to the user {user_name(owner)}, and this is {user_name(user)}: files that"
            f" {user_name(owner)} cannot read are not reported here"
        )
        yield Finding("user", Level.WARNING, message, check_as(owner, config))


def _mappings(config: SiteConfig, ledger: Ledger) -> Iterator[Finding]:
    """Warn of mappings whose destination folder is not the one that their files were sent to."""
    before = {mapping: folder for mapping in mappings(config) if (folder := pointed_to(ledger, mapping))}
    brake_control = BrakeControl(ledger, SystemClock())
    agreed = {mapping for mapping in before if brake_control.allowed("destfolderid", subject_of(mapping), 1)}
    for mapping, folder in before.items():
        named = printable(mapping.path) or "."
        message = f"the mapping {named} pointed to folder {folder} of the service and points to {mapping.destfolderid}"
        if mapping in agreed:
            yield Finding("folders", Level.OK, f"{message}, which a person agreed to: the next run uses it")
            continue
        fix = "correct destfolderid; or, if it is meant, let a run pull the brake, then assetsync resume"
        yield Finding("folders", Level.WARNING, message, fix)


def _other_sites(config: SiteConfig, ledger: Ledger | None) -> Iterator[Finding]:
    """Warn of sites that have their ledgers beside this one and send to the same folders of the service."""
    claim = placed(claim_of(config))
    own = None if ledger is None else read_claim(ledger.reports.fact(CLAIM))
    agreed = () if ledger is None else agreed_ledgers(ledger.reports.fact(AGREED))
    claim = replace(claim, ledger="" if own is None else own.ledger)
    beside = list(neighbours(config.ledger))
    duplicate_sites = {twin.subject: twin for twin in duplicates_of(claim, beside)}
    for twin in (twin for subject, twin in duplicate_sites.items() if subject not in agreed):
        message = f"{twin}: each of the two would upload the files of the other again"
        fix = "correct the configuration that is wrong; delete the ledger of a site that was given up, and its .epoch"
        yield Finding("folders", Level.WARNING, message, fix)
    for neighbour in beside:
        theirs = neighbour.claim
        if theirs is None:
            message = f"the ledger {neighbour.ledger} beside this one cannot be read"
            yield Finding("ledger", Level.WARNING, message, UNREADABLE_FIX)
            continue
        is_other = is_same_service(theirs.service, claim.service) and theirs.ledger != (claim.ledger or None)
        shared = sorted({*theirs.folders.values()} & {*claim.folders.values()}) if is_other else []
        for folder in shared if str(neighbour.ledger) not in duplicate_sites else ():
            message = f"the site `{neighbour.site}` (ledger {neighbour.ledger}) sends to folder {folder}, too"
            fix = "give each site its own folders: an audit reports the files of the other site as unknown assets"
            yield Finding("folders", Level.WARNING, message, fix)


def _brakes(ledger: Ledger) -> Iterator[Finding]:
    """Warn of brakes that wait for a person."""
    for brake in ledger.reports.brakes():
        fix = f"{released_by(brake.kind)}: assetsync resume {brake.id}"
        yield Finding("brake", Level.WARNING, f"nothing is sent: {brake.detail}", fix)


def _no_room(path: Path) -> Finding | None:
    """Return the finding if the ledger's folder is not writable or its disk has less than `_ROOM` left, else None."""
    if not os.access(path.parent, os.W_OK, effective_ids=True):
        fix = "run as the user that owns it, or let assetsync's user write there"
        return Finding("ledger", Level.ERROR, f"the folder {path.parent} cannot be written", fix)
    disk = os.statvfs(path.parent)
    free = disk.f_bavail * disk.f_frsize
    if free < _ROOM:
        message = f"the disk of {path.parent} has {amount(free)} left, and the ledger's log alone may take 16 MB"
        return Finding("ledger", Level.WARNING, message, f"make room: {amount(_ROOM)} and more")
    return None

"""What `assetsync check` looks at: configuration, key, tree, watch limits, ledger and service. Changes nothing."""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from pydantic import SecretStr

from assetsync.amounts import amount, files, plural
from assetsync.cli.acting import read_key
from assetsync.cli.holder import holder_of
from assetsync.clock import ZONE_FIX, zone_warning
from assetsync.config import SiteConfig, key_file_warning, mappings
from assetsync.core.brakes import released_by
from assetsync.core.sidecar import FOLDER_SIDECAR, MAX_BYTES, SUFFIX, parse_sidecar
from assetsync.errors import (
    AssetsyncError,
    BadAnswer,
    ConfigError,
    FileUnreadable,
    LedgerError,
    LedgerMissing,
    NotRegular,
    RootMissing,
    ServiceError,
    SidecarError,
)
from assetsync.flow.probe import probe
from assetsync.flow.twins import UNREADABLE_FIX, is_same_service, placed, twins_of
from assetsync.ledger.ledger import read_ledger
from assetsync.ledger.neighbours import AGREED, CLAIM, agreed_ledgers, neighbours, read_claim
from assetsync.ledger.owner import ROOT, SERVICE
from assetsync.ledger.place import real
from assetsync.shown import printable
from assetsync.site import claim_of, make_plan, make_service, make_tree, service_address
from assetsync.tree.opening import Tree
from assetsync.tree.place import network_mounts
from assetsync.tree.report import ScanReport
from assetsync.tree.scan import scan

_WATCHES = Path("/proc/sys/fs/inotify/max_user_watches")
_NAMED = 10
_ROOM = 64 * 1024 * 1024


class Level(StrEnum):
    """How bad a finding is; with an error a run cannot begin."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Where(StrEnum):
    """On which side a finding is to be mended: here, or at the service."""

    HERE = "here"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: `what` in a word, the sentence, and what mends it where that says no such thing."""

    what: str
    level: Level
    message: str
    fix: str | None = None
    where: Where = Where.HERE


def look(path: Path, config: SiteConfig) -> Iterator[Finding]:
    """Look at everything, the cheap things first; raises nothing that a configuration can cause."""
    mapped = plural(len(config.folders), "folder")
    yield Finding("configuration", Level.OK, f"{path}: site {config.site}, {mapped} mapped")
    if (unknown := zone_warning(os.environ)) is not None:
        yield Finding("schedule", Level.WARNING, unknown, ZONE_FIX)
    yield from _mailing(config)
    key, said = _key(config)
    yield from said
    yield from _tree(config)
    yield _ledger(config)
    yield from _other_sites(config)
    yield from _brakes(config)
    if key is not None:
        yield from _service(config, key)


def _error(what: str, error: AssetsyncError, level: Level = Level.ERROR) -> Finding:
    return Finding(what, level, error.message, error.hint or None)


def _mailing(config: SiteConfig) -> Iterator[Finding]:
    """Warn of mappings whose uploads the service mails about: the mail holds the values that were passed."""
    for folder in config.folders:
        if folder.upload.debug or folder.upload.emailto is not None:
            message = f"for uploads from {folder.path}, the service mails what was passed, the API key included"
            fix = "take upload.debug and upload.emailto out of this mapping once the fault is found"
            yield Finding("folders", Level.WARNING, message, fix)


def _key(config: SiteConfig) -> tuple[SecretStr | None, list[Finding]]:
    """Read the key, once: it may come by a pipe."""
    try:
        key = read_key(config)
    except ConfigError as error:
        return None, [Finding("key", Level.ERROR, mistake) for mistake in error.mistakes]
    file = config.service.api_key_file
    if file is None:
        return key, [Finding("key", Level.OK, "the API key comes from the environment or systemd")]
    problem = key_file_warning(file)
    if problem is not None:
        return key, [Finding("key", Level.WARNING, problem, f"chmod 600 {file}")]
    return key, [Finding("key", Level.OK, f"{file} holds a key and only its owner can read it")]


def _tree(config: SiteConfig) -> Iterator[Finding]:
    """Scan the tree once: what a run would read, and what it could not."""
    report = ScanReport()
    plan = make_plan(config)
    tree = make_tree(config)
    sidecars = _Sidecars(tree)
    try:
        for seen in scan(tree, plan, report):
            if seen.is_sidecar:
                sidecars.see(seen.path)
    except RootMissing as error:
        yield _error("root", error)
        return
    seen_in = f"{files(report.files)} and {plural(sidecars.count, 'sidecar')} in {plural(report.folders, 'folder')}"
    left_out = f"{report.ignored:,} left out by rules, {report.special:,} links and devices skipped"
    yield Finding("tree", Level.OK, f"{config.root}: {seen_in}, {left_out}")
    for position in report.missing_mappings:
        folder = printable(plan.mappings.all[position].path)
        fix = "create or mount it, or correct `path` below `folders`"
        yield Finding("folders", Level.WARNING, f"the mapped folder {folder} is not there", fix)
    for path, reason in report.unreadable[:_NAMED]:
        yield Finding(
            "tree", Level.WARNING, f"{printable(path) or '.'} cannot be read: {reason}", "let assetsync's user read it"
        )
    if report.unreadable_count > _NAMED:
        more = report.unreadable_count - _NAMED
        yield Finding("tree", Level.WARNING, f"{more:,} more cannot be read", "mend those above first")
    yield from sidecars.findings()
    yield from _watching(config, report.folders)


class _Sidecars:
    """The sidecars of a tree: how many there are, the first with a mistake, and those that speak of no file."""

    def __init__(self, tree: Tree) -> None:
        self.count = 0
        self._tree = tree
        self._bad: list[SidecarError] = []
        self._stray: list[bytes] = []
        self._strays = 0

    def see(self, path: bytes) -> None:
        self.count += 1
        if len(self._bad) < _NAMED and (mistake := self._mistake(path)) is not None:
            self._bad.append(mistake)
        if not self._has_its_file(path):
            self._strays += 1
            if len(self._stray) < _NAMED:
                self._stray.append(path)

    def findings(self) -> Iterator[Finding]:
        for mistake in self._bad:
            yield _error("sidecar", mistake, Level.WARNING)
        for path in self._stray:
            fix = "name it after its file; if it is one to be uploaded itself, set `sidecars: off` for its mapping"
            yield Finding("sidecar", Level.WARNING, f"there is no file that {printable(path)} could speak of", fix)
        left = self._strays - len(self._stray)
        if left:
            yield Finding("sidecar", Level.WARNING, f"{left:,} more speak of no file", "mend those above first")

    def _mistake(self, path: bytes) -> SidecarError | None:
        try:
            parse_sidecar(self._tree.read_small(path, MAX_BYTES), printable(path))
        except SidecarError as error:
            return error
        except (FileUnreadable, NotRegular) as error:
            return SidecarError(printable(path), "it cannot be read", hint=error.message)
        return None

    def _has_its_file(self, path: bytes) -> bool:
        """Whether there is a file that it speaks of, or it speaks of a folder; True where that cannot be told."""
        if path.rpartition(b"/")[2] == FOLDER_SIDECAR:
            return True
        return not self._tree.is_absent(path.removesuffix(SUFFIX))


def _watching(config: SiteConfig, folders: int) -> Iterator[Finding]:
    mode = config.watch.mode
    network = network_mounts(bytes(config.root))
    if network and mode in ("auto", "inotify"):
        shown = ", ".join(printable(point) or "the root" for point in network[:_NAMED])
        yield Finding(
            "watch",
            Level.WARNING,
            f"on a network file system, where changes by others give no events: {shown}",
            "set watch.mode: polling, and schedule.rescan as short as you need",
        )
    if mode not in ("auto", "inotify"):
        return
    try:
        allowed = int(_WATCHES.read_text("ascii"))
    except (OSError, ValueError):
        yield Finding(
            "watch", Level.WARNING, f"{_WATCHES} cannot be read", "is inotify available? set watch.mode: polling"
        )
        return
    if folders > allowed:
        wanted = 2 ** (2 * folders - 1).bit_length()
        yield Finding(
            "watch",
            Level.WARNING,
            f"{plural(folders, 'folder')} to watch, and fs.inotify.max_user_watches is {allowed:,}",
            f"echo fs.inotify.max_user_watches={wanted} > /etc/sysctl.d/60-assetsync.conf && sysctl --system",
        )
    else:
        yield Finding("watch", Level.OK, f"{plural(folders, 'folder')} to watch, {allowed:,} watches allowed")


def _ledger(config: SiteConfig) -> Finding:
    path = config.ledger
    try:
        with closing(read_ledger(path, site=config.site)) as ledger:
            known, root, service = ledger.intake.size(), ledger.reports.fact(ROOT), ledger.reports.fact(SERVICE)
    except LedgerMissing:
        if not path.parent.is_dir():
            return Finding("ledger", Level.ERROR, f"the folder {path.parent} is not there", f"mkdir -p {path.parent}")
        return _no_room(path) or Finding("ledger", Level.OK, f"there is none yet; the first run makes {path}")
    except LedgerError as error:
        return _error("ledger", error)
    short = _no_room(path)
    if short is not None:
        return short
    tree = make_tree(config)
    if known and root not in (None, str(config.root)) and not tree.is_at(root.encode()):
        message = f"{path} was filled from the root {root}, and `root` is {config.root} now"
        fix = "correct `root`; or, if the same tree has moved, let a run pull the brake, then assetsync resume"
        return Finding("ledger", Level.WARNING, message, fix)
    if known and service not in (None, service_address(config)):
        message = f"{path} tells of the service at {service}, and service.base_url is {service_address(config)} now"
        fix = "correct it; or let a run ask there for what was sent: it goes on where that is shown, else it asks you"
        return Finding("ledger", Level.WARNING, message, fix)
    holder = holder_of(real(path))
    if holder.unseen is not None:
        return Finding("ledger", Level.WARNING, holder.unseen)
    sends = ", and a process sends for it now" if holder.sends else ""
    return Finding("ledger", Level.OK, f"{path} knows {files(known)}{sends}")


def _other_sites(config: SiteConfig) -> Iterator[Finding]:
    """Warn of sites whose ledgers lie beside this one, and that send to the same folders of the service."""
    claim = placed(claim_of(config))
    agreed: tuple[str, ...] = ()
    try:
        with closing(read_ledger(config.ledger, site=config.site)) as ledger:
            own = read_claim(ledger.reports.fact(CLAIM))
            agreed = agreed_ledgers(ledger.reports.fact(AGREED))
    except LedgerError:
        # There is none yet, or what is wrong with it was said.
        own = None
    claim = replace(claim, ledger="" if own is None else own.ledger)
    beside = list(neighbours(config.ledger))
    twins = {twin.subject: twin for twin in twins_of(claim, beside)}
    for twin in (twin for subject, twin in twins.items() if subject not in agreed):
        message = f"{twin}: of the two, each would upload what the other has uploaded"
        fix = "correct the configuration that is wrong; remove the ledger of a site that is no more, and its .epoch"
        yield Finding("folders", Level.WARNING, message, fix)
    for neighbour in beside:
        theirs = neighbour.claim
        if theirs is None:
            message = f"the ledger {neighbour.ledger} beside this one cannot be read"
            yield Finding("ledger", Level.WARNING, message, UNREADABLE_FIX)
            continue
        is_other = is_same_service(theirs.service, claim.service) and theirs.ledger != (claim.ledger or None)
        shared = sorted({*theirs.folders.values()} & {*claim.folders.values()}) if is_other else []
        for folder in shared if str(neighbour.ledger) not in twins else ():
            message = f"the site `{neighbour.site}` (ledger {neighbour.ledger}) sends to folder {folder}, too"
            fix = "give each site folders of its own: an audit takes the files of the other for unknown assets"
            yield Finding("folders", Level.WARNING, message, fix)


def _brakes(config: SiteConfig) -> Iterator[Finding]:
    """Tell of brakes that wait for a person."""
    try:
        with closing(read_ledger(config.ledger, site=config.site)) as ledger:
            pulled = ledger.reports.brakes()
    except LedgerError:
        # What is wrong with it was said.
        return
    for brake in pulled:
        fix = f"{released_by(brake.kind)}: assetsync resume {brake.id}"
        yield Finding("brake", Level.WARNING, f"nothing is sent: {brake.detail}", fix)


def _no_room(path: Path) -> Finding | None:
    """See whether the ledger's folder can be written and its disk has room; None where it is so."""
    if not os.access(path.parent, os.W_OK):
        fix = "run as the user that owns it, or let assetsync's user write there"
        return Finding("ledger", Level.ERROR, f"the folder {path.parent} cannot be written", fix)
    disk = os.statvfs(path.parent)
    free = disk.f_bavail * disk.f_frsize
    if free < _ROOM:
        message = f"the disk of {path.parent} has {amount(free)} left, and the ledger's log alone may take 16 MB"
        return Finding("ledger", Level.WARNING, message, f"make room: {amount(_ROOM)} and more")
    return None


def _answers(config: SiteConfig, folder: str) -> str:
    # Of the three operations of the interface none tells which folders there are.
    url = config.service.base_url
    return f"{url} answers a search in folder {folder}; whether there is one shows at the first upload"


def _service(config: SiteConfig, key: SecretStr) -> Iterator[Finding]:
    """Ask for a name that no asset has, in each mapped folder: the database answers fast, and the answer is short."""
    try:
        with closing(make_service(config, key)) as service:
            for folder in dict.fromkeys(mapping.destfolderid for mapping in mappings(config)):
                probe(service, folder)
                yield Finding("service", Level.OK, _answers(config, folder))
    except ConfigError as error:
        for mistake in error.mistakes:
            yield Finding("service", Level.ERROR, mistake)
    except BadAnswer as error:
        message = f"{error.message}: what answers at {config.service.base_url} is not the service"
        yield Finding("service", Level.ERROR, message, error.hint or "correct service.base_url", Where.SERVICE)
    except ServiceError as error:
        fix = error.hint or "see that the service runs and that service.base_url is its address"
        yield Finding("service", Level.ERROR, error.message, fix, Where.SERVICE)

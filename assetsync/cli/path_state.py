"""What the tree, configuration and ledger know of one path, as values: also when it is sent, and why not earlier.

Printing them is left to `explain`, and why a version waits to `sync.upload.next_try`. The service is not asked.
"""

import stat
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import NamedTuple

from assetsync.cli.daemon_user import acting_as, can_act_as, daemon_user
from assetsync.clock import SystemClock
from assetsync.config import SiteConfig, mappings
from assetsync.config.models import Schedule
from assetsync.core.mapping import IgnoreRules, Mappings, Plan
from assetsync.core.metadata import (
    FOLDER_SIDECAR,
    SUFFIX,
    described_by_xmp,
    folder_sidecars,
    is_xmp_name,
    sidecar_for,
)
from assetsync.errors import FileUnreadable, NotRegular, RootMissing, SidecarError, TreeError
from assetsync.ledger.file.database import holder_of
from assetsync.ledger.folders import Hold
from assetsync.ledger.ledger import Ledger, read_ledger
from assetsync.ledger.reports import Brake
from assetsync.ledger.rows import AttemptRow, FileRow
from assetsync.ledger.runs import Pause
from assetsync.model import Mapping, NextTry, State, Wanted
from assetsync.parts import make_preview, make_tree
from assetsync.sync.brakes import subject_of
from assetsync.sync.intake.sidecars import Recorded, Sidecars, processed_uploads
from assetsync.sync.upload.kinds import Kinds
from assetsync.sync.upload.next_try import Waits, next_try, pause_of, until_ended
from assetsync.text import amount, decoded, moment, printable, user_name
from assetsync.tree.safe_open import Tree

_ATTEMPTS = 20
_OF_A_MAPPING = ("destfolderid", "takeover")
_OF_THE_TREE = ("root", "twin")
_OF_WHAT_IS_GONE = (*_OF_THE_TREE, "emptied", "vanished")
_ON_DISK = {
    "absent": "no file",
    "folder": "a folder: `assetsync files` lists what is below it",
    "link": "a symbolic link: left out, see watch.follow_symlinks",
    "other": "neither a file nor a folder: left out",
    "outside": "no file of the tree: it was uploaded by hand",
}

_KIND_FROM = {
    "configured": "set by service.kinds",
    "learned": "learned from the answers of the service",
    "guessed": "guessed by the ending of its name",
}


class Disk(NamedTuple):
    """What the tree has at a path: a key of `_ON_DISK`, `file` or `unreadable`, and the same for a person."""

    kind: str
    detail: str
    size: int | None = None
    mtime: float | None = None


class Covered(NamedTuple):
    """What the configuration does with a path, for a person; the reason not to upload it, and the ignore rule."""

    detail: str
    reason: str | None = None
    rule: str | None = None


@dataclass
class SidecarReport:
    """The sidecars of a file and the metadata merged from all levels, or the first mistake in them.

    `origins` has the sidecar that gives each field of `metadata`, None for the mapping. `kind` is the kind of asset
    that names the fields, None if none of them depends on it; `kind_from` is `configured`, `learned` or `guessed`. For
    a sidecar: the file or folder that it describes, and the fields that it sets. `lines` are the same for a person.
    """

    sidecars: list[bytes] | None = None
    metadata: dict[str, str] | None = None
    origins: dict[str, bytes | None] = field(default_factory=dict)
    kind: str | None = None
    kind_from: str | None = None
    describes: bytes | None = None
    sets: list[str] | None = None
    mistake: str | None = None
    lines: list[str] = field(default_factory=list)

    def as_object(self) -> dict[str, object]:
        """Return the keys for JSON; `said` lists the sentences."""
        return {
            "said": self.lines,
            "sidecars": self.sidecars and [decoded(path) for path in self.sidecars],
            "metadata": self.metadata,
            "metadata_from": self.metadata
            and {name: None if path is None else decoded(path) for name, path in self.origins.items()},
            "expected_kind": self.kind,
            "expected_kind_from": self.kind_from,
            "describes": None if self.describes is None else decoded(self.describes),
            "sets": self.sets,
            "sidecar_error": self.mistake,
        }


class Version(NamedTuple):
    """A version of the file, its last attempts, and its next automatic step, None if there is none."""

    row: FileRow
    attempts: list[AttemptRow]
    next_try: NextTry | None


@dataclass(frozen=True, slots=True)
class PathState:
    """What is known of a path.

    `brake` asks a person to confirm the folder of its mapping. `holds` has all folders of the service that are held,
    `hold` is that of the mapping. `below` counts the files below a folder by state; it is None if neither the tree nor
    the ledger has such a folder. `paused` states when the pause of a folder by a person ends. `prospect` tells when the
    ledger will take in what it does not know yet.
    """

    path: bytes
    disk: Disk
    mapping: Mapping | None
    covered: Covered
    report: SidecarReport
    brake: Brake | None
    holds: dict[str, Hold]
    below: dict[str, int] | None
    versions: list[Version]
    paused: str | None = None
    prospect: str | None = None

    @property
    def hold(self) -> Hold | None:
        """The hold of the folder that the path is mapped to, None if it is not held."""
        return None if self.mapping is None else self.holds.get(self.mapping.destfolderid)


def read_path_state(config: SiteConfig, path: bytes) -> PathState:
    """Read what is known of a path, relative to the root or absolute. Raise as `read_ledger` does."""
    now = time.time()
    disk = _on_disk(config, path)
    is_folder = disk.kind == "folder"
    known = Mappings(mappings(config))
    position = known.for_directory(path if is_folder else path.rpartition(b"/")[0])
    mapping = None if position is None else known.all[position]
    covered = _covered(known, config.ignore, path, mapping, is_folder=is_folder)
    with closing(read_ledger(config.ledger, site=config.site)) as ledger:
        kinds = Kinds(ledger, SystemClock(), config.service)
        # A folder is not sent, so there is no metadata to print for it.
        processed = partial(processed_uploads, ledger, known)
        sidecars = Sidecars(
            make_tree(config),
            SystemClock(),
            config.service.field_names,
            kind_of=kinds.of,
            recorded=Recorded(processed=processed),
        )
        report = (
            SidecarReport() if is_folder or mapping is None else _read_sidecars(config, mapping, path, kinds, sidecars)
        )
        rows, brakes, holds = ledger.reports.of_path(path), ledger.reports.brakes(), ledger.reports.holds(now)
        sends = holder_of(ledger.store.path).sends
        pause = ledger.runs.at_hand(Pause) if sends else None
        preview = make_preview(config, ledger, SystemClock())
        read_back = partial(_next_read_back, ledger, config.schedule)
        waits = Waits(config, ledger, now, brakes, holds, sends, pause, preview, read_back)
        versions = [Version(row, ledger.doubts.attempts(row.id, _ATTEMPTS), next_try(row, waits)) for row in rows]
        below = None if rows else _below(ledger, path, is_there=is_folder)
        stopped = None if below is None else pause_of(path, ledger, now)
    subject = None if mapping is None else subject_of(mapping)
    asking = (brake for brake in brakes if brake.kind in _OF_A_MAPPING and brake.subject == subject)
    state = PathState(path, disk, mapping, covered, report, next(asking, None), holds, below, versions)
    paused = None if stopped is None else until_ended(stopped, now)
    settle = config.watch.settle if mapping is None else mapping.settle
    return replace(state, paused=paused, prospect=_prospect(state, brakes, settle, sends=sends))


def _on_disk(config: SiteConfig, path: bytes) -> Disk:
    """Return what the tree has at a path; if this is root, what the daemon's user can read of it."""
    if path.startswith(b"/"):
        return Disk("outside", _ON_DISK["outside"])
    daemon = daemon_user(config)
    if daemon is None or not can_act_as(daemon):
        return _look(make_tree(config), path)
    with acting_as(daemon):
        found = _look(make_tree(config), path)
    whose = f" (the daemon runs as {user_name(daemon.uid)})" if found.kind == "unreadable" else ""
    return found._replace(detail=found.detail + whose)


def _look(tree: Tree, path: bytes) -> Disk:
    try:
        found = tree.lstat(path)
        if found is not None:
            tree.open(path).close()
            mtime = found.mtime_ns / 1e9
            return Disk("file", f"{amount(found.size)}, written {moment(mtime)}", found.size, mtime)
        mode = tree.look(path).st_mode
    except (FileUnreadable, NotRegular, RootMissing) as error:
        return Disk("unreadable", printable(str(error)))
    except OSError:
        return Disk("absent", _ON_DISK["absent"])
    kind = "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "other"
    return Disk(kind, _ON_DISK[kind])


def _covered(
    known: Mappings, ignore: Sequence[str], path: bytes, mapping: Mapping | None, *, is_folder: bool
) -> Covered:
    if path.startswith(b"/"):
        return Covered(_ON_DISK["outside"], "outside")
    is_sidecar = not is_folder and Plan(known, ignore).is_sidecar(path)
    if mapping is None:
        if is_sidecar:
            detail = "no entry of `folders` covers it: it is read for the mapped folders below, not uploaded"
            return Covered(detail, "sidecar")
        return Covered("no entry of `folders` covers it, so it is not uploaded", "unmapped")
    shown = printable(mapping.path) or "."
    if is_sidecar:
        which = "XMP files" if is_xmp_name(path) else "*.yaml"
        return Covered(f"{shown}, where {which} are sidecars: it is read, not uploaded", "sidecar")
    rules = IgnoreRules(known, ignore)
    found = rules.rule(path, is_dir=is_folder)
    if found is not None:
        detail = f"{shown}, but it is left out: {rules.why(path, is_dir=is_folder)}"
        return Covered(detail, "ignored", printable(found[0].pattern))
    return Covered(f"{shown} → folder {mapping.destfolderid}")


def _read_sidecars(
    config: SiteConfig, mapping: Mapping, path: bytes, kinds: Kinds, sidecars: Sidecars
) -> SidecarReport:
    """Return what the sidecars say about a file, or what a sidecar says."""
    report = SidecarReport()
    tree = make_tree(config)
    folder, _, name = path.rpartition(b"/")
    try:
        if not Plan(Mappings(mappings(config)), config.ignore).is_sidecar(path):
            if mapping.sidecars or mapping.xmp:
                xmp = sidecars.xmp_file(path) if mapping.xmp else None
                by_yaml = (*folder_sidecars(path), sidecar_for(path)) if mapping.sidecars else ()
                names = (*by_yaml[:-1], *(xmp or ())[:1], *by_yaml[-1:])
                report.sidecars = [name for name in names if tree.lstat(name) is not None]
                report.lines.append(f"sidecars: {', '.join(map(printable, report.sidecars)) or 'none'}")
            merged, report.origins = sidecars.metadata_and_origins(path, mapping)
            if merged.depends_on_kind:
                report.kind, report.kind_from = kinds.of(path), kinds.source_of(path)
                report.lines.append(f"kind: {report.kind}, {_KIND_FROM[report.kind_from]}")
            sent = sidecars.to_send(path, mapping, merged).sent
            report.metadata = dict(sent.fields)
            report.origins = {name: report.origins[name] for name in report.metadata}
            report.lines += [
                f"metadata: {printable(key)} = {printable(value)} ({_level(report.origins.get(key), folder)})"
                for key, value in report.metadata.items()
            ]
            report.lines += [f"left out: {printable(each)}" for each in sent.left_out]
            return report
        if is_xmp_name(name):
            stem = described_by_xmp(path)
            report.describes = stem if tree.lstat(stem) is not None else stem + b".*"
            report.lines.append(f"describes: {printable(report.describes)}")
            level = sidecars.read_xmp(path, mapping)
            report.sets = [key for key, value in asdict(level).items() if value not in (None, ())]
            report.lines.append(f"metadata: {', '.join(report.sets) or 'none'}")
            return report
        if name == FOLDER_SIDECAR:
            report.describes = folder or b"."
            report.lines.append(f"describes: every file below {printable(report.describes)}")
        else:
            report.describes = path.removesuffix(SUFFIX)
            missing = "" if tree.lstat(report.describes) is not None else ", which is not there: it is not read"
            report.lines.append(f"describes: {printable(report.describes)}{missing}")
        own, _size = sidecars.read(path, mapping.upload)
        if own is not None:
            report.sets = [key for key, value in asdict(own).items() if value not in (None, ())]
            report.lines.append(f"metadata: {', '.join(report.sets) or 'none'}")
    except SidecarError as error:
        report.mistake = printable(str(error))
        report.lines.append(f"metadata: {report.mistake}")
    except (TreeError, RootMissing):
        # `Disk` reports that the tree cannot be read.
        pass
    return report


def _level(sidecar: bytes | None, folder: bytes) -> str:
    """Return where a field comes from; a sidecar in the file's own folder is named without it."""
    return "from the mapping" if sidecar is None else f"from {printable(sidecar.removeprefix(folder + b'/'))}"


def _below(ledger: Ledger, folder: bytes, *, is_there: bool) -> dict[str, int] | None:
    """Count the files below a folder by state; None if neither the tree nor the ledger has such a folder."""
    counts = Counter(row.state for row in ledger.reports.files(under=folder))
    if not counts and not is_there and next(ledger.reports.files(history=True, under=folder), None) is None:
        return None
    return {str(state): counts[state] for state in State if counts[state]}


def _prospect(state: PathState, brakes: Sequence[Brake], settle: float, *, sends: bool) -> str | None:
    """Return when the ledger takes in what it does not know of the tree, None if nothing is to be taken in."""
    kind = state.disk.kind
    if kind in ("absent", "folder") and any(version.row.wanted is Wanted.YES for version in state.versions):
        brake = next((brake for brake in brakes if brake.kind in _OF_WHAT_IS_GONE), None)
        if brake is None:
            return "it is gone from the tree: the next scan notices"
        return f"it is gone from the tree: nothing is concluded from that before brake {brake.id} is released"
    if state.versions or state.covered.reason is not None or kind not in ("file", "unreadable"):
        return None
    if kind == "unreadable":
        return "the ledger does not know it: it is recorded once it can be read"
    brake = next((brake for brake in brakes if brake.kind in _OF_THE_TREE), None)
    if brake is not None:
        return f"the ledger does not know it: nothing is looked at before brake {brake.id} is released"
    then = f"it is queued once it was unchanged for {settle:g} s, or when a scan finds it"
    return f"the ledger does not know it yet: {then if sends else 'the next run records it'}"


def _next_read_back(ledger: Ledger, times: Schedule) -> float | None:
    """Return the next run of the index or the verify job, in seconds since the epoch; None if neither is scheduled."""
    from assetsync.daemon.schedule import next_run  # noqa: PLC0415 - slow to load, and rarely needed

    last = ledger.runs.last()
    jobs = (("index", times.index), ("verify", times.verify))
    runs = [next_run(when, last[job].at if job in last else None) for job, when in jobs]
    return min((at for at in runs if at is not None), default=None)

"""Gather the facts on a file that `decide` asks for: from the ledger, the tree, its sidecars and its folder's listing.

Nothing is written, except what a listing of the folder records, and which file of an ending or with a new field goes
first. The file stays open, so that the file which is sent is the file on which was decided.
"""

from collections.abc import Callable
from typing import NamedTuple

from assetsync.core.mapping import Mappings
from assetsync.core.metadata import folder_sidecars, sent_fields, sidecar_for
from assetsync.core.sent_texts import digests
from assetsync.core.settled import is_settled
from assetsync.errors import FileChanged, FileUnreadable, NotRegular, RootMissing, SidecarError
from assetsync.ledger.queue import Intent
from assetsync.ledger.rows import FileRow
from assetsync.ledger.versions import Versions
from assetsync.model import Clock, FileStat, Mapping, UploadRequest
from assetsync.sync.context import Context
from assetsync.sync.intake.sidecars import Sidecars
from assetsync.sync.upload.dedupe import Dedupe
from assetsync.sync.upload.facts import (
    Absent,
    Content,
    Fact,
    Facts,
    FieldShown,
    KindShown,
    MayBeUploadOf,
    NothingEqual,
    Requeue,
    Rules,
    SidecarState,
    Unreadable,
)
from assetsync.sync.upload.folder_listing import FolderListing
from assetsync.sync.upload.kinds import NewFields
from assetsync.tree.body import FileBody, digest
from assetsync.tree.safe_open import OpenFile, Tree, expect_resources

_WRITTEN_PATIENCE = 60.0
"""Seconds beyond `settle` after which a file no longer waits for an unsettled sidecar."""

_MOST_WRITTEN = 10_000
_SOON = 0.025
"""Seconds of preparation after which the rest may take long, too."""
_QUICKLY_READ = 256 * 1024
"""Bytes up to which a file is read at once."""
_AGAIN = 1.0


class Ready(NamedTuple):
    """A file that may be sent: the intent to commit first, the form, and the body over the open file.

    `sidecar_changes` is the count of changes before the metadata was read. `depends_on_kind`: the names of some of its
    fields depend on its kind.
    """

    row: FileRow
    intent: Intent
    request: UploadRequest
    body: FileBody
    file: OpenFile
    sidecar_changes: int
    depends_on_kind: bool


def facts_of(row: FileRow, mappings: Mappings, rules: Rules, now: float) -> Facts:
    """Return the facts on a file that its row and the configuration show."""
    position = mappings.for_directory(row.path.rpartition(b"/")[0])
    if position is None:
        return Facts(row, rules, now, None, rules.settle)
    return Facts(row, rules, now, mappings.all[position], rules.settles[position])


def absent_at(tree: Tree, folder: bytes) -> Absent:
    """Return what a missing file of a mapped folder means: FOLDER if the folder is empty or unreadable, else FILE."""
    try:
        with tree.listed(folder) as (_fd, entries):
            return Absent.FOLDER if next(entries, None) is None else Absent.FILE
    except OSError as error:
        expect_resources(error)
        return Absent.FOLDER
    except RootMissing:
        return Absent.FOLDER


class SidecarStates:
    """The metadata of files, and the wait for sidecars that were written just now; shared by all workers."""

    def __init__(self, tree: Tree, clock: Clock, sidecars: Sidecars, versions: Versions, settle: float) -> None:
        self._tree = tree
        self._versions = versions
        self._clock = clock
        self._sidecars = sidecars
        self._settle = settle
        # Per unsettled sidecar: when the wait for it began, and when it was last checked (steady seconds).
        self._since: dict[bytes, tuple[float, float]] = {}

    def of(self, path: bytes, mapping: Mapping) -> SidecarState:
        """Return the metadata of a file, or the mistake in it. Raise RootMissing."""
        try:
            merged = self._sidecars.metadata_of(path, mapping)
            metadata = self._sidecars.to_send(path, mapping, merged)
        except SidecarError as error:
            written = [sidecar_for(path), *folder_sidecars(path), *self._xmp_of(path, mapping)]
            return SidecarState(None, str(error), max(map(self._settles_in, written)))
        if mapping.xmp and metadata.xmp is None and (wait := self._comes_back_in(path, mapping)):
            return SidecarState(metadata, settles_in=wait)
        written = [*metadata.own]
        # A folder sidecar with a time in the future does not count as being written: every file of the folder would
        # wait.
        if abs(self._clock.now() - metadata.folders_written) < self._settle:
            written += folder_sidecars(path)
        return SidecarState(metadata, settles_in=max(map(self._settles_in, written), default=0.0))

    def _xmp_of(self, path: bytes, mapping: Mapping) -> list[bytes]:
        """Return the path of the XMP file of a file, if it can be looked at."""
        try:
            found = self._sidecars.xmp_file(path) if mapping.xmp else None
        except SidecarError:
            return []
        return [] if found is None else [found[0]]

    def _comes_back_in(self, path: bytes, mapping: Mapping) -> float:
        """Return the seconds to wait for an XMP file that is gone: some programs move it away for a moment to write it.

        The wait ends when a scan or the watcher has recorded that it is gone, and past `settle`.
        """
        known = self._versions.known_xmp(path) if self._settle else None
        if known is None or self._xmp_of(path, mapping):
            return 0.0
        steady = self._clock.steady()
        left = self._waited_since(known, steady) + self._settle - steady
        # A wait shorter than the clock's resolution would be over at once, and asked for again without end.
        return max(_AGAIN, left) if left > 0 else 0.0

    def _settles_in(self, sidecar: bytes) -> float:
        """Return the seconds until a sidecar is settled; 0 if no wait is needed, or past the time-out."""
        settle, now, steady = self._settle, self._clock.now(), self._clock.steady()
        if not settle:
            return 0.0
        try:
            found = self._tree.lstat(sidecar)
        except (FileUnreadable, RootMissing):
            return 0.0
        if found is None or is_settled(found, now, settle):
            self._since.pop(sidecar, None)
            return 0.0
        if steady - self._waited_since(sidecar, steady) >= settle + _WRITTEN_PATIENCE:
            return 0.0
        # A sidecar dated before 1970 or in the future never settles: wait at least a second in any case.
        left = max(found.mtime_ns, found.ctime_ns) / 1e9 + settle - now
        return max(_AGAIN, min(left, settle))

    def _waited_since(self, sidecar: bytes, steady: float) -> float:
        """Return when the wait for a sidecar began, in steady seconds; it begins now if nobody has asked for long."""
        if len(self._since) > _MOST_WRITTEN:
            self._since.clear()
        since, asked = self._since.get(sidecar, (steady, steady))
        # If the last check was longer ago than the time-out, this is a new write, and the wait begins anew.
        since = steady if steady - asked > self._settle + _WRITTEN_PATIENCE else since
        self._since[sidecar] = since, steady
        return since


class Sources(NamedTuple):
    """Where the facts come from, beside the tree and the ledger of the context."""

    context: Context
    sidecars: Sidecars
    folder_listing: FolderListing
    dedupe: Dedupe
    new_fields: NewFields
    sidecar_states: SidecarStates


class Gathering:
    """The facts on one file, gathered as `decide` asks for them; `close` closes the file, if it was opened."""

    def __init__(self, sources: Sources, facts: Facts, name: str, before_wait: Callable[[], None]) -> None:
        """Start with no more facts; the file will be sent as `name`. For `before_wait` see `Preparer.prepare`."""
        self._name = name
        self._sources = sources
        self._context = sources.context
        self._ledger = sources.context.ledger
        self._tree = sources.context.tree
        self._sidecars = sources.sidecars
        self._facts = facts
        self._file: OpenFile | None = None
        self._body: FileBody | None = None
        self._before_wait = before_wait
        self._began = sources.context.clock.steady()
        self._sidecar_changes = 0

    def gather(self, fact: Fact) -> None:  # noqa: C901 - a case for each fact
        """Add a fact. Raise ReadStopped, and the errors of `Preparer.prepare`."""
        facts, row, mapping = self._facts, self._facts.row, self._facts.mapping
        assert mapping is not None, "no fact is needed on a file without a mapping"
        if self._context.clock.steady() - self._began > _SOON or (fact is Fact.CONTENT and row.size > _QUICKLY_READ):
            # The disk is slow, or has much to read.
            self._before_wait()
        try:
            match fact:
                case Fact.PAST_UPLOADS:
                    facts.past_uploads = self._ledger.queue.uploads_of(row)
                case Fact.LISTING:
                    self._sources.folder_listing.ensure(row.destfolderid)
                    facts.listing = self._sources.folder_listing.shows_of(row)
                case Fact.HAS_SIDECAR:
                    facts.has_sidecar = self._sources.sidecar_states.of(row.path, mapping).has_own
                case Fact.KIND:
                    facts.kind = self._kind(mapping)
                case Fact.DISK:
                    facts.disk = self._open(mapping)
                case Fact.CONTENT:
                    facts.content = self._read()
                case Fact.EQUAL:
                    md5 = facts.content.md5 if isinstance(facts.content, Content) else None
                    facts.equal = NothingEqual() if md5 is None else self._sources.dedupe.find(row, md5)
                    if not facts.rules.resend_changed:
                        facts.replaces = self._ledger.reports.asset_before(row)
                case Fact.METADATA:
                    facts.sidecars = self._metadata(mapping)
                case Fact.NEW_FIELD:
                    facts.new_field = self._new_field()
        except RootMissing:
            # The root may disappear after the file was opened.
            facts.disk = Absent.FOLDER
        facts.now = self._context.clock.now()

    def ready(self) -> Ready:
        """Return the file of which all facts are known."""
        row, content, sidecars = self._facts.row, self._facts.content, self._facts.sidecars
        assert isinstance(content, Content), "the content is gathered before a file is sent"
        assert sidecars is not None, "the metadata is gathered before a file is sent"
        assert sidecars.metadata is not None, "a file with a mistake in its metadata is not sent"
        assert self._body is not None, "the body is read before a file is sent"
        name, boundary, metadata = self._name, self._context.token(), sidecars.metadata
        place, sent = (row.destfolderid, name, boundary), metadata.sent
        texts = digests(metadata.texts)._asdict() | {"left_out": ", ".join(sent.left_out)}
        recorded = {key: text for key, text in texts.items() if text}
        # Empty if no field is sent; absent only where the fields are unknown.
        recorded["fields"] = sent_fields(metadata.fields, metadata.language)
        intent = Intent(row.id, *place, row.stat, content.md5, metadata.digest, metadata=recorded)
        request = UploadRequest(*place, sent.fields, metadata.language, metadata.options)
        depends_on_kind = metadata.depends_on_kind
        return Ready(row, intent, request, self._body, self._opened(), self._sidecar_changes, depends_on_kind)

    def close(self) -> None:
        """Close the file, if it was opened."""
        if self._file is not None:
            self._file.close()

    def _opened(self) -> OpenFile:
        assert self._file is not None, "the file is opened before it is read"
        return self._file

    def _kind(self, mapping: Mapping) -> KindShown:
        row, kinds = self._facts.row, self._sources.new_fields.kinds
        if row.is_without_metadata or kinds.is_settled(row.path):
            return KindShown()
        try:
            depends_on_kind = self._sidecars.metadata_of(row.path, mapping).depends_on_kind
        except (SidecarError, RootMissing):
            # The facts that follow show it.
            return KindShown()
        return KindShown(kinds.first_before(row) if depends_on_kind else None)

    def _new_field(self) -> FieldShown:
        metadata = None if self._facts.sidecars is None else self._facts.sidecars.metadata
        assert metadata is not None, "a file with a mistake in its metadata is not sent"
        return self._sources.new_fields.first_before(self._facts.row, dict(metadata.fields), metadata.digest)

    def _open(self, mapping: Mapping) -> FileStat | Absent | Unreadable:
        row = self._facts.row
        self._sidecar_changes = self._sidecars.cache.changes
        try:
            self._file = self._tree.open(row.path)
        except NotRegular:
            return Absent.FILE
        except FileUnreadable as error:
            if not error.vanished:
                return Unreadable(str(error))
            return absent_at(self._tree, mapping.path)
        return self._file.stat

    def _read(self) -> Content | Requeue | MayBeUploadOf | Unreadable:
        """Read a small file whole, and hash a large file if the service may have an equal one.

        A large file is hashed, too, if an upload of it was cut because the disk could not read it: it is sent only
        after its whole content was read.
        """
        row, file = self._facts.row, self._opened()
        self._body = FileBody(file, row.stat)
        try:
            md5 = self._body.load()
            if md5 is None:
                has_size = self._ledger.equal_content.has_size
                may_be_equal = has_size(row.id, row.destfolderid, row.size)
                may_be_others = may_be_equal and not row.send_again
                if may_be_others and (other := self._undecided()) is not None:
                    return MayBeUploadOf(other)
                if may_be_equal or self._ledger.queue.was_unreadable(row):
                    md5 = digest(file, row.stat, stop=self._context.heartbeat.tick, tap=self._context.progress.hashed)
                    # If it was renamed meanwhile, its new path may be queued, and nothing shows yet that both are one.
                    self._facts.disk = self._tree.lstat(row.path) or Absent.FILE
                # Ask again, because hashing may take long.
                if may_be_others and (other := self._undecided()) is not None:
                    return MayBeUploadOf(other)
        except FileChanged:
            return Requeue(file.restat())
        except FileUnreadable as error:
            return Unreadable(str(error))
        return Content(md5)

    def _undecided(self) -> FileRow | None:
        """Return a version whose undecided upload may have been the same file, None without one."""
        for other in self._ledger.equal_content.unread(self._facts.row):
            try:
                if not self._sources.dedupe.still_holds(other):
                    return other
            except FileUnreadable:
                # The other file may have been moved here: wait for its upload if its path cannot be read.
                return other
        return None

    def _metadata(self, mapping: Mapping) -> SidecarState:
        row = self._facts.row
        if row.is_without_metadata:
            return SidecarState(self._sidecars.no_metadata(row.path, mapping))
        return self._sources.sidecar_states.of(row.path, mapping)

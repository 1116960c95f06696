"""A site on a real disk with a real ledger, beside a service that fits into one class and a clock that is set by hand.

The service stores, forgets, cuts and refuses as a script says; what its answers mean is read by `core.outcome`.
"""

import hashlib
import json
import math
import os
import random
import re
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from assetsync.app import Site, build
from assetsync.config import load_config
from assetsync.core.kinds import ending_of, guess_kind
from assetsync.core.outcome import Reply, read_giving_up, read_silence, read_upload_answer
from assetsync.errors import (
    AssetsyncError,
    BadAnswer,
    FileChanged,
    KeyRefused,
    ServiceElsewhere,
    ServiceError,
    ServiceRefused,
    ServiceUnreachable,
)
from assetsync.ledger.assets import Shown
from assetsync.ledger.ledger import Ledger, open_ledger
from assetsync.ledger.reports import Finding
from assetsync.ledger.rows import FileRow
from assetsync.model import AddressProbe, Asset, Body, Meter, SearchRequest, Sent, SentExtent, State, UploadRequest
from assetsync.service.multipart import closing
from assetsync.sync.intake.watch_queue import Looker, WatchQueue
from assetsync.sync.requests.request import OperatorRequest
from assetsync.sync.upload.queue import Step

FOLDER = "F1"
OTHER = "F2"
PROBE = "assetsync-probe"

_QUIET = 5
"""Ticks in a row without a commit, after which a world lives by leaps."""
_LEAP = 5.0
"""Seconds."""

MESSAGES = {
    "duplicate": "File already exists in Razuna",
    "unknown_folder": "Specified folder 'F1' does not exist",
    "key": "Login not valid! Check API Key",
    "too_large": "Error 10001",
    "no_filedata": "Missing 'filedata' parameter",
}


class ManualClock:
    """Stands until it is moved; `wait` moves it. It starts a day ahead of the disk, so that files have settled."""

    def __init__(self, start: float) -> None:
        self._lock = threading.Lock()
        self._now = start
        self._steady = 1000.0
        self._boot = "boot-1"
        self.stopped = False

    def now(self) -> float:
        return self._now

    def steady(self) -> float:
        return self._steady

    def boot(self) -> str:
        return self._boot

    def wait(self, seconds: float) -> bool:
        if seconds:
            self.advance(seconds)
            time.sleep(0.0002)
        return self.stopped

    def advance(self, seconds: float) -> None:
        with self._lock:
            self._now += seconds
            self._steady += seconds

    def set_now(self, now: float) -> None:
        """Let the wall clock jump."""
        self._now = now

    def reboot(self) -> None:
        self._boot = f"{self._boot}+"
        self._steady = 1.0


@dataclass
class Stored:
    """One asset of the fake service; None as `indexed_at` is not in the index."""

    id: str
    folder: str
    name: str
    content: bytes
    processed_at: float
    indexed_at: float | None
    meta: tuple[tuple[str, str], ...] = ()
    file_type: str = "original"
    stored_at: float = 0.0

    @property
    def md5(self) -> str:
        return md5(self.content)


class FakeService:
    """`model.Service` in memory. `script` holds what happens to the next uploads, after that all are accepted.

    A script's entries: accept, lost_after (stored, no answer), lost_before, unreachable, a word of MESSAGES,
    ("cut", k) for k bytes of file and closing boundary stored without an answer, ("id", ID) for an answer with that id,
    a Reply for that answer before anything is stored.
    """

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.assets: dict[str, Stored] = {}
        self._made = 0
        self.script: deque[str | tuple[str, object] | Reply] = deque()
        self.posts: list[UploadRequest] = []
        self.searches: list[SearchRequest] = []
        self.indexed: list[list[str]] = []
        self.down = False
        self.key_refused = False
        self.gives_md5 = True
        # Whether names come back as ISO-8859-1, whether a workflow stores uploads under names of its own, and whether
        # several blanks in a row come back as one.
        self.shows_latin1 = False
        self.renames = False
        self.folds_blanks = False
        # What a probe of the address for uploads shows, and how many came.
        self.probed = AddressProbe(is_right=True)
        self.probes = 0
        # What replaces the description and keywords of an upload: of a PDF those that it holds itself.
        self.keeps_own: Callable[[Stored], tuple[str, str] | None] = lambda _asset: None
        # Which uploads it accepts and never processes, and of which it stores nothing.
        self.never_processes: Callable[[Stored], bool] = lambda _asset: False
        self.drops: Callable[[Stored], bool] = lambda _asset: False
        # What kind of asset a file of this name, or of this ending, is taken for; others are guessed.
        self.kinds: dict[str, str] = {}
        # Whether `available` selects what is processed or not, as in some releases.
        self.honours_available = False
        # What an answer of the database holds: at most so many rows of a page (0: all rows, whatever is asked for), or
        # of every listing; whether each row states the true total, in place of none; whether equal sort keys come in
        # another order each time; the folders that the key's user may not see.
        self.page = 0
        self.cap = 0
        self.states_total = False
        self.is_unordered = False
        self.unseen: set[str] = set()
        self.processing: float = 0.0
        # As of when its database shows what is stored; a replica may lag.
        self.shows_as_of: Callable[[float], float] = lambda _now: float("inf")
        self.index_lag: float | None = 0.0
        self.index_call = "adds"
        # Of which sizes, in bytes, no upload arrives.
        self.loses: Callable[[int], bool] = lambda _size: False
        self.before_upload: Callable[[UploadRequest], None] = lambda _request: None
        self.during_upload: Callable[[UploadRequest], None] = lambda _request: None
        # Called after each chunk that has come; and whether what has come is stored where the rest does not.
        self.receiving: Callable[[UploadRequest], None] = lambda _request: None
        self.stores_cuts = False
        self.during_search: Callable[[SearchRequest], None] = lambda _request: None
        # Whether an answer has come to an upload.
        self.has_answered: Callable[[UploadRequest], bool] = lambda _request: True
        # Which searches are refused, as to a user who is no administrator, and the folders without a right.
        self.refuses: Callable[[SearchRequest], bool] = lambda _request: False
        self.without_right: set[str] = set()
        self.linked: dict[tuple[str, str], Stored] = {}
        self.in_flight = 0
        self.most_in_flight = 0
        self.closed = False
        self.account = "account"

    def put(self, content: bytes, name: str, folder: str = FOLDER, assetid: str | None = None, **said) -> Stored:
        now = self._clock.now()
        self._made += 1
        assetid = assetid or f"A{self._made:031d}"
        lag = self.index_lag
        indexed_at = None if lag is None else now + self.processing + lag
        asset = Stored(assetid, folder, name, content, now + self.processing, indexed_at, stored_at=now, **said)
        self.assets[assetid] = asset
        return asset

    def upload(self, request: UploadRequest, body: Body) -> Sent:
        with self._lock:
            self.before_upload(request)
            self.posts.append(request)
            what = "lost_before" if self.loses(body.size) else "accept"
            what = "unreachable" if self.down else self.script.popleft() if self.script else what
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            sent = self._upload(request, body, what)
            while not self.has_answered(request):
                time.sleep(0.001)
            return sent
        finally:
            with self._lock:
                self.in_flight -= 1

    def probe_uploads(self) -> AddressProbe:
        self.probes += 1
        return self.probed

    def close_kept(self) -> None:
        return

    def _upload(self, request: UploadRequest, body: Body, what: str | tuple[str, object] | Reply) -> Sent:
        left = SentExtent.NOTHING
        parts = []
        try:
            if what == "unreachable":
                return Sent(read_silence(left, "connection refused"), left, 0, "")
            self.during_upload(request)
            for chunk in body.chunks():
                left = SentExtent.PART
                parts.append(chunk)
                self.receiving(request)
        except AssetsyncError as error:
            outcome = read_giving_up(left, str(error), changed=isinstance(error, FileChanged))
            if parts and self.stores_cuts:
                self.put(b"".join(parts), request.filename, request.destfolderid)
            return Sent(outcome, left, body.bytes_sent, body.md5)
        content = b"".join(parts)
        with self._lock:
            left, outcome = self._answer(request, content, what)
        return Sent(outcome, left, body.bytes_sent, body.md5)

    def _answer(self, request, content, what):
        silence = read_silence(SentExtent.ALL, "connection reset")
        if what == "lost_before":
            return SentExtent.ALL, silence
        if isinstance(what, Reply):
            return SentExtent.ALL, read_upload_answer(what, SentExtent.ALL, size=len(content))
        if isinstance(what, tuple) and what[0] == "cut":
            whole = content + closing(request.boundary)
            self.put(whole[: what[1]], request.filename, request.destfolderid)
            return SentExtent.PART, read_silence(SentExtent.PART, "connection reset")
        if isinstance(what, str) and what in MESSAGES:
            return SentExtent.ALL, read_upload_answer(_xml(1, MESSAGES[what]), SentExtent.ALL)
        given = what[1] if isinstance(what, tuple) else None
        renamed = f"workflow {self._made}" if self.renames else ""
        name = f"{renamed}.{request.filename.rpartition('.')[2]}" if renamed else request.filename
        asset = self.put(content, name, request.destfolderid, given, meta=request.meta)
        if self.never_processes(asset):
            asset.processed_at, asset.indexed_at = math.inf, None
        if self.drops(asset):
            del self.assets[asset.id]
        if what == "lost_after":
            return SentExtent.ALL, silence
        return SentExtent.ALL, read_upload_answer(
            _xml(0, "success", asset.id, self._kind_of(asset), renamed), SentExtent.ALL
        )

    @contextmanager
    def search(self, request: SearchRequest) -> Iterator[Iterator[Asset]]:
        with self._lock:
            self.searches.append(request)
        self.during_search(request)
        self._raise_trouble()
        if self.refuses(request):
            raise ServiceRefused("Data not supported", code="errorCode.expressionError")
        with self._lock:
            shown = [self._shown(asset) for asset in self.assets.values() if self._matches(asset, request)]
            shown += [self._linked(asset) for asset in self.linked.values() if self._matches(asset, request)]
            if request.dbdirect:
                shown = self._listed(shown, request)
        yield iter(shown)

    def index(self, assetids: Sequence[str]) -> str:
        self._raise_trouble()
        with self._lock:
            self.indexed.append(list(assetids))
            if self.index_call == "wipes":
                for asset in self.assets.values():
                    asset.indexed_at = None
            if self.index_call != "noop":
                for assetid in assetids:
                    # Of unknown ids it says nothing (observed).
                    if assetid in self.assets:
                        self.assets[assetid].indexed_at = self._clock.now()
        return "Indexing successfully triggered"

    def close(self) -> None:
        self.closed = True

    def _raise_trouble(self) -> None:
        if self.down:
            raise ServiceUnreachable("nothing answers at the service", hint="look there")
        if self.key_refused:
            raise KeyRefused("the service refuses the API key")

    def _matches(self, asset: Stored, request: SearchRequest) -> bool:
        if request.folderid and asset.folder not in request.folderid.split(","):
            return False
        if asset.folder in self.without_right or (request.folderid == "" and not request.dbdirect):
            # An empty folderid shows nothing in the index (observed).
            return False
        if request.dbdirect and asset.stored_at > self.shows_as_of(self._clock.now()):
            return False
        if self.honours_available and (asset.processed_at > self._clock.now()) is not (request.available == "0"):
            return False
        if request.dbdirect:
            like = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in request.searchfor)
            return re.fullmatch(like, asset.name, re.IGNORECASE | re.DOTALL) is not None
        if asset.indexed_at is None or asset.indexed_at > self._clock.now():
            return False
        return request.searchfor == "*" or asset.id in re.findall(r"id:([A-Za-z0-9-]+)", request.searchfor)

    def _listed(self, shown: list[Asset], request: SearchRequest) -> list[Asset]:
        """Return the rows of an answer of the database, of all that it found."""
        if self.is_unordered:
            random.Random(len(self.searches)).shuffle(shown)
        if self.page or self.cap:
            by_size = (request.sortby or "").startswith("size")
            shown.sort(key=lambda asset: asset.size if by_size else asset.filename.casefold())
            shown = shown[::-1] if request.sortby == "sizedesc" else shown
        shown = [asset for asset in shown if asset.folder_id not in self.unseen]
        if self.states_total:
            shown = [replace(asset, columns={**asset.columns, "totalassetscount": len(shown)}) for asset in shown]
        shown = shown[: self.cap] if self.cap else shown
        if self.page:
            start = (request.startrow or 1) - 1
            shown = shown[start : start + min(self.page, request.maxrows or self.page)]
        return shown

    def _shown(self, asset: Stored) -> Asset:
        name = asset.name.encode("latin-1", "replace").decode("latin-1") if self.shows_latin1 else asset.name
        name = re.sub(" +", " ", name) if self.folds_blanks else name
        if asset.processed_at > self._clock.now():
            return Asset(asset.id, asset.folder, name, 0, None, self._shown_kind(asset))
        digest = asset.md5 if self.gives_md5 else None
        columns: dict[str, object] = {"file_type": asset.file_type, **self._texts(asset)}
        return Asset(asset.id, asset.folder, name, len(asset.content), digest, self._shown_kind(asset), columns)

    def _linked(self, asset: Stored) -> Asset:
        return replace(self._shown(asset), is_alias=True)

    def link(self, assetid: str, folder: str) -> None:
        """Show an asset in another folder, too, as an alias that a person made."""
        self.linked[assetid, folder] = replace(self.assets[assetid], folder=folder)

    def _texts(self, asset: Stored) -> dict[str, object]:
        kind, said = self._kind_of(asset), dict(asset.meta)
        names = ("file_desc", "file_keywords")
        if kind in ("img", "vid", "aud"):
            names = (f"{kind}_description", f"{kind}_keywords")
        texts = self.keeps_own(asset) or tuple(said.get(name, "") for name in names)
        return dict(zip(("description", "keywords"), (self._as_shown(text) for text in texts), strict=True))

    def _as_shown(self, text: str) -> str:
        return text.encode("latin-1", "replace").decode("latin-1") if self.shows_latin1 else text

    def _kind_of(self, asset: Stored) -> str:
        name = os.fsencode(asset.name)
        return self.kinds.get(asset.name) or self.kinds.get(ending_of(name)) or guess_kind(name)

    def _shown_kind(self, asset: Stored) -> str:
        return "doc" if self._kind_of(asset) == "other" else self._kind_of(asset)

    @property
    def contents(self) -> list[bytes]:
        """What is stored, in order."""
        return sorted(asset.content for asset in self.assets.values())


class World:
    """A root, a configuration, a ledger and the fake service; parts of the site are driven by the test."""

    def __init__(self, base: Path, clock: ManualClock, **said) -> None:
        self.base = base
        self.clock = clock
        self.root = base / "root"
        self.root.mkdir(exist_ok=True)
        self.service = FakeService(clock)
        self.meter: Meter | None = None
        self._said = said
        self._opened: Site | None = None

    @property
    def ledger_path(self) -> Path:
        return Path(self._said.get("ledger", self.base / "ledger.db"))

    def config(self):
        said = {
            "site": "test",
            "root": str(self.root),
            "ledger": str(self.ledger_path),
            "service": {
                "base_url": "http://127.0.0.1:1/dam",
                "upload_url": "http://127.0.0.1:1/dam/index.cfm",
                "read_timeout": "20s",
            },
            "folders": [{"path": ".", "destfolderid": FOLDER}],
            "upload": {"workers": "2", "doubt_grace": "20s", "lookup_lag": "0s"},
            "watch": {"settle": "0s"},
            "schedule": {"index": "60s", "verify": "60s"},
        }
        for section, value in self._said.items():
            said[section] = {**said[section], **value} if isinstance(said.get(section), dict) else value
        file = self.base / "config.yaml"
        file.write_text(json.dumps(said), "utf-8")
        return load_config(file, {})

    @property
    def site(self) -> Site:
        if self._opened is None:
            config = self.config()
            ledger = open_ledger(self.ledger_path, site=config.site)
            self._opened = build(config, ledger, self.service, self.clock, random.Random(7), meter=self.meter)
        return self._opened

    @property
    def ledger(self) -> Ledger:
        return self.site.context.ledger

    def close(self) -> None:
        if self._opened is not None:
            self._opened.context.ledger.close()
            self._opened = None

    def restart(self, **said) -> None:
        """End the process without a word and begin another, with another configuration where something is said."""
        self.close()
        self._said |= said
        self.site.begin()

    def write(self, path: str | bytes, content: bytes = b"content", *, mtime: float | None = None) -> Path:
        full = self.root / os.fsdecode(path)
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(content)
        if mtime is not None:
            os.utime(full, (mtime, mtime))
        return full

    def fail_for(
        self,
        *folders: str,
        probes: bool = False,
        listings_only: bool = False,
        takes: float = 0.0,
        retry_after: float | None = None,
        times: float = float("inf"),
    ) -> list[float]:
        """Let look-ups of some folders fail from now on, each after so many seconds; gives when they were asked for."""
        asked: list[float] = []

        def fail(request: SearchRequest) -> None:
            fails = request.searchfor == "%" if listings_only else probes or request.searchfor != PROBE
            if request.folderid in folders and fails and len(asked) < times:
                asked.append(self.clock.steady())
                self.clock.advance(takes)
                if retry_after is not None:
                    raise BadAnswer("too many requests", retry_after=retry_after)
                raise ServiceUnreachable("the service did not answer in time")

        self.service.during_search = fail
        return asked

    def look_up(self) -> int:
        """Look up the due doubts; return how many of them got an answer."""
        looks = "SELECT id, looks FROM attempts WHERE closed_at IS NULL"
        before = {tuple(row) for row in self.ledger.store.rows(looks)}
        self.site.resolver.step()
        return len(before - {tuple(row) for row in self.ledger.store.rows(looks)})

    def scan(self):
        return self.site.rescan.run()

    def hint(self, path: str | bytes) -> int:
        """Look at a path as the daemon does when its watcher saw something there; gives how many files may be due."""
        hints = WatchQueue()
        hints.add(os.fsencode(path))
        site = self.site
        return Looker(site.context, site.plan, site.single_looks, hints, site.sidecars.cache).step(0)

    def send(self) -> int:
        """Send until nothing is due; gives how many files were handled."""
        count = 0
        while self.site.uploader.step() is Step.WORKED:
            count += 1
        return count

    def scan_and_send(self) -> int:
        self.scan()
        self.read_again()
        return self.send()

    def read_again(self) -> int:
        """Read the files that only look changed; gives how many were read."""
        count = 0
        while read := self.site.rescan.read_again()[0]:
            count += read
        return count

    def live(self, seconds: float, *, tick: float = 1.0) -> None:
        """Let every part do its work for so long, at each tick and at the last one.

        While nothing is committed, five seconds pass at once: what becomes due then is done late, as on a busy machine.
        """
        until = self.clock.steady() + seconds
        quiet, before = 0, -1
        while self.clock.steady() < until:
            site = self.site
            if site.gates.closed is not None and site.gates.check_due():
                site.gates.check()
            site.count_pauses()
            site.try_what_waited()
            if site.gates.closed is None:
                site.intake.look_again()
                self.read_again()
                if site.service_identity.is_known:
                    self.send()
            self._look_up(site)
            commits, before = before, self.ledger.store._commits.count
            quiet = quiet + 1 if commits == before else 0
            last = until - tick - self.clock.steady()
            self.clock.advance(max(tick, min(_LEAP, last)) if quiet >= _QUIET else tick)

    def _look_up(self, site: Site) -> None:
        try:
            if site.gates.closed is None or site.gates.lookups_answered:
                site.service_identity.make_sure()
                site.resolver.step()
                site.indexer.step()
                site.verifier.step()
        except ServiceElsewhere:
            # A brake waits for a person.
            pass
        except ServiceError as error:
            site.gates.lookup_failed(error)

    def ask(self, request: OperatorRequest) -> str:
        """Carry out what an operator asks for, and return the answer."""
        return request.carry_out(self.ledger, self.service, self.clock)

    def row(self, path: str | bytes) -> FileRow:
        found = self.ledger.versions.current_of(os.fsencode(path))
        assert found is not None, f"{path!r} has no current row"
        return found

    def shown(self, path: str | bytes) -> Shown:
        """What is known of the asset of the current row of a path."""
        row = self.row(path)
        return self.ledger.assets.shown([row]).get(row.assetid or "", Shown())

    def states(self) -> dict[str, State]:
        return {os.fsdecode(row.path): row.state for row in self.ledger.reports.files()}

    def history(self, path: str) -> list[State]:
        return [row.state for row in self.ledger.reports.of_path(os.fsencode(path))]

    def orphans(self) -> list[Finding]:
        return list(self.ledger.reports.orphans(self.clock.now() + 1))

    def posted(self) -> list[str]:
        return [request.filename for request in self.service.posts]


class FullDisk:
    """A disk under a ledger: from `fill` on commits fail, `left` of them, or until `empty`."""

    def __init__(self, ledger: Ledger, left: int) -> None:
        self._commits = ledger.store._commits
        self.left = left

    def fill(self) -> None:
        self._commits._commit = self._fail

    def empty(self) -> None:
        del self._commits._commit

    def _fail(self, _conn: object) -> None:
        self.left -= 1
        if not self.left:
            self.empty()
        raise sqlite3.OperationalError("database or disk is full")


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest().upper()


def _xml(code: int, message: str, assetid: str = "", kind: str = "", renamed: str = "") -> Reply:
    text = (
        f"<Response><responsecode>{code}</responsecode><message>{message}</message><assetid>{assetid}</assetid>"
        f"<filetype>{kind}</filetype><renamefilebody>{renamed}</renamefilebody></Response>"
    )
    return Reply(200, "text/xml", text.encode())

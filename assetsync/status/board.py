"""Build the answers about a running site: the page, its JSON, metrics, health check and icon, and the guide.

HTTP, and the decision which requests are answered, are left to `server`.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, partial
from urllib.parse import parse_qs

from assetsync import guide
from assetsync.config import SiteConfig
from assetsync.errors import LedgerError
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.path_search import STEP
from assetsync.ledger.rows import FileRow
from assetsync.log import redact
from assetsync.model import Clock, NextTry
from assetsync.status.document import as_object
from assetsync.status.file_page import FilePage
from assetsync.status.find import FindPage
from assetsync.status.metrics import CONTENT_TYPE, Metrics
from assetsync.status.page import Page
from assetsync.status.shell import policy
from assetsync.status.site_status import Level, Live, SiteStatus, read_status
from assetsync.text import moment

_FRESH_SECONDS = 1.0
_SPARING = 20
_PATIENCE = 2.0
_STALE = 60.0

_INDEX_EVERY = 5.0
_INDEX_PAUSE = 4.0
"""How much longer than a step of indexing the pause after it takes, so that the start of a large site stays quick."""

_MOST_FIELDS = 8

_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><circle cx="16" cy="16" r="13" fill="{}"/>'
    '<path d="{}" fill="none" stroke="#fff" stroke-width="3.5" stroke-linecap="round" stroke-linejoin="round"/></svg>'
)
_ICONS = {
    Level.IN_SYNC: _ICON.format("#1a7f4b", "M10 17l4.5 4.5L22.5 12"),
    "noted": _ICON.format("#8a5300", "M10 17l4.5 4.5L22.5 12"),
    Level.UNDER_WAY: _ICON.format("#2563ab", "M16 22V10m-5 5l5-5 5 5"),
    Level.NEEDS_YOU: _ICON.format("#b3261e", "M16 9v9m0 5v.1"),
}


@dataclass(frozen=True, slots=True)
class Reply:
    """A finished answer: HTTP status, media type, body; `policy` is its Content-Security-Policy."""

    status: int
    kind: str
    body: bytes
    policy: str = "default-src 'none'; frame-ancestors 'none'"


@cache
def guide_page(page: guide.Page) -> Reply:
    """Return a page of the guide; as Markdown if the library that makes HTML of it is missing."""
    try:
        text = guide.as_html(page, served=True)
    except ImportError:
        return Reply(200, "text/plain; charset=utf-8", page.text.encode())
    return Reply(200, "text/html; charset=utf-8", text.encode(), policy(guide.style()))


class Board:
    """The answers of one site; any thread may call it."""

    def __init__(
        self,
        config: SiteConfig,
        ledger: Ledger,
        clock: Clock,
        metrics: Metrics,
        live: Callable[[], Live],
        *,
        next_try: Callable[[FileRow], NextTry | None],
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._clock = clock
        self._metrics = metrics
        self._live = live
        self._page = Page()
        self._find = FindPage(ledger, bytes(config.root))
        self._file = FilePage(config, ledger, next_try)
        self._searches = threading.Lock()
        self._lock = threading.Lock()
        self._kept: SiteStatus | None = None
        self._kept_until = 0.0
        metrics.show(self.status, live)

    def status(self, patience: float = _PATIENCE) -> SiteStatus:
        """Return the status of the site, cached for a second, and up to a minute if the ledger is slow to read.

        If another thread reads it for longer than `patience` seconds, return the cached status, but only for a minute:
        while the disk hangs, an old status must not report for hours that all is well. Raise LedgerError.
        """
        if not self._lock.acquire(timeout=patience):
            if self._kept is None or self._clock.steady() - self._kept_until > _STALE:
                raise LedgerError("the ledger answers slowly", hint="check whether its disk is busy")
            return self._kept
        try:
            began = self._clock.steady()
            if self._kept is None or began >= self._kept_until:
                self._kept = read_status(self._config.outline, self._ledger, self._clock.now())
                ended = self._clock.steady()
                self._kept_until = ended + min(_STALE, max(_FRESH_SECONDS, _SPARING * (ended - began)))
            return self._kept
        finally:
            self._lock.release()

    def answers(self) -> dict[str, Callable[[], Reply]]:
        """Return the function for each path; a function raises LedgerError if the ledger cannot be read."""
        return {
            "/": self._as_page,
            "/status.json": self._as_json,
            "/metrics": lambda: Reply(200, CONTENT_TYPE, self._metrics.exposition()),
            "/healthz": self._health,
            "/icon.svg": lambda: Reply(200, "image/svg+xml", _ICONS[self.status().badge].encode()),
            "/guide/": lambda: guide_page(guide.contents()),
            **{f"/guide/{topic}": partial(guide_page, page) for topic, page in guide.pages().items()},
        }

    def questions(self) -> dict[str, Callable[[str], Reply]]:
        """Return the function for each path whose answer depends on the query; raise as those of `answers` do."""
        return {"/files": self._as_files, "/file": self._as_file}

    def index_paths(self) -> float:
        """Index some paths for the search; return the seconds to wait before the next call. Raise LedgerError."""
        began = self._clock.steady()
        if self._find.search.step() < STEP:
            return _INDEX_EVERY
        return _INDEX_PAUSE * (self._clock.steady() - began)

    def close(self) -> None:
        """Drop the index of the search."""
        self._find.search.close()

    def _as_files(self, query: str) -> Reply:
        return self._found(200, asked=_value_of(query, "q").decode("utf-8", "replace"))

    def _as_file(self, query: str) -> Reply:
        path = _value_of(query, "path")
        text = self._file.render(path, self._clock.now())
        if text is None:
            return self._found(404, unknown=path or None)
        return Reply(200, "text/html; charset=utf-8", text.encode(), self._file.policy)

    def _found(self, status: int, *, asked: str = "", unknown: bytes | None = None) -> Reply:
        # One search at a time: many at once would take the processor from the uploads.
        if not self._searches.acquire(timeout=_PATIENCE):
            raise LedgerError("the search is busy", hint="try again in a moment")
        try:
            now, sent = self._clock.now(), self._live().sent
            text = self._find.render(self._config.site, asked, now, sent, unknown=unknown)
        finally:
            self._searches.release()
        return Reply(status, "text/html; charset=utf-8", text.encode(), self._find.policy)

    def _as_page(self) -> Reply:
        text = self._page.render(self.status(), self._live(), self._clock.now())
        return Reply(200, "text/html; charset=utf-8", text.encode(), self._page.policy)

    def _as_json(self) -> Reply:
        live = self._live()
        daemon = {
            "version": live.version,
            "started_at": moment(live.started_at),
            "late": list(live.late),
            "settling": live.settling,
            "next_runs": {job: moment(at) for job, at in live.next_runs.items()},
            "watch": asdict(live.trust) | {"canary_at": moment(live.trust.canary_at)},
        }
        text = redact(json.dumps(as_object(self.status()) | {"daemon": daemon}))
        return Reply(200, "application/json", text.encode() + b"\n")

    def _health(self) -> Reply:
        """Return 503 if a loop is late, else 200; a busy ledger or a service that is down is not unhealthy."""
        late = self._live().late
        text = f"late: {', '.join(late)}\n" if late else "ok\n"
        return Reply(503 if late else 200, "text/plain; charset=utf-8", text.encode())


def _value_of(query: str, name: str) -> bytes:
    """Return the first value of a field in a query, b"" without one."""
    try:
        fields = parse_qs(query, errors="surrogateescape", max_num_fields=_MOST_FIELDS)
    except ValueError:
        return b""
    return fields.get(name, [""])[0].encode("utf-8", "surrogateescape")

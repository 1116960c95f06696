"""Render the page of one file: what `explain` knows from the ledger, and the file's history.

No file of the tree is opened, and the service is not asked. The sentences are those of `file_sentences`.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from assetsync.config import SiteConfig, mappings
from assetsync.config.values import ASSETID
from assetsync.core.mapping import Mappings
from assetsync.ledger.folders import Hold
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.metadata_drift import adopted_difference_of, drift_of
from assetsync.ledger.rows import AttemptRow, FileRow
from assetsync.log import redact
from assetsync.model import NextTry, State, Wanted
from assetsync.status.file_sentences import attempt_line, error_of, meaning_of, next_try_text
from assetsync.status.find import named, shown, words_of
from assetsync.status.sentences import about, step_for
from assetsync.status.shell import ago, coded, shell
from assetsync.status.site_status import Level
from assetsync.text import amount, quoted, runnable

_VERSIONS = 20
_ATTEMPTS = 20
_LEVELS = {
    State.VERIFIED: Level.IN_SYNC,
    State.BLOCKED: Level.NEEDS_YOU,
}


class FilePage:
    """The pages of the files of one site; any thread may render one.

    `next_try` returns the next automatic step for a version, None if there is none.
    """

    def __init__(self, config: SiteConfig, ledger: Ledger, next_try: Callable[[FileRow], NextTry | None]) -> None:
        self._config = config
        self._ledger = ledger
        self._mappings = Mappings(mappings(config))
        self._next_try = next_try
        self._shell = shell("file.html", "page.css", "files.css")

    @property
    def policy(self) -> str:
        """The Content-Security-Policy of the page."""
        return self._shell.policy

    def render(self, path: bytes, now: float) -> str | None:
        """Return the document about a path; None if the ledger does not know it. Raise LedgerError."""
        rows = self._ledger.reports.of_path(path, _VERSIONS + 1)
        if not rows:
            return None
        first, *older = rows[:_VERSIONS]
        holds = self._ledger.reports.holds(now)
        return self._shell.render(
            named(path)
            | {
                "site": self._config.site,
                "level": _LEVELS.get(first.state, Level.UNDER_WAY),
                "current": self._version(first, holds, now),
                "older": [self._version(row, holds, now) for row in older],
                "has_more": len(rows) > _VERSIONS,
            },
        )

    def _version(self, row: FileRow, holds: dict[str, Hold], now: float) -> dict[str, Any]:
        due = self._next_try(row)
        is_blocked = row.state is State.BLOCKED and row.wanted in (Wanted.YES, Wanted.OUTSIDE)
        error = error_of(row, holds)
        differences = filter(None, (drift_of(row), adopted_difference_of(row)))
        return {
            "words": words_of(row),
            "means": meaning_of(row, due),
            "on_disk": None if row.wanted is Wanted.YES else row.wanted,
            "why": None if error is None else _sentence(row, error),
            "next": None if due is None else _sentence(row, next_try_text(due, now)),
            "help": _help(row) if is_blocked else None,
            "differences": [shown(each) for each in differences],
            "size": amount(row.size),
            "md5": row.md5 or "not known yet",
            "written": ago(now, row.mtime_ns / 1e9),
            "queued": ago(now, row.queued_at),
            "uploaded": None if row.uploaded_at is None else ago(now, row.uploaded_at),
            "verified": None if row.verified_at is None else ago(now, row.verified_at),
            "asset": row.assetid and shown(row.assetid),
            "asset_from": "found in the service" if row.id_from == "adopted" else "given by the service",
            "asset_link": self._asset_link(row.assetid),
            "folder": shown(row.asset_folder or row.destfolderid),
            "mapping": self._mapping_of(row.path),
            "attempts": [_attempt(attempt) for attempt in self._ledger.doubts.attempts(row.id, _ATTEMPTS)],
        }

    def _asset_link(self, assetid: str | None) -> str | None:
        address = self._config.service.asset_url
        if assetid is None or address is None:
            return None
        return address.replace(ASSETID, quote(assetid, safe=""))

    def _mapping_of(self, path: bytes) -> str | None:
        position = None if path.startswith(b"/") else self._mappings.for_directory(path.rpartition(b"/")[0])
        return None if position is None else shown(self._mappings.all[position].path or b".")


def _sentence(row: FileRow, text: str) -> Markup:
    return coded(redact(runnable(about(row, text))))


def _help(row: FileRow) -> Markup:
    # The path is put in last: a backtick in it marks no code.
    return coded(runnable(step_for(row.reason))).replace("{path}", redact(quoted(row.path)))


def _attempt(attempt: AttemptRow) -> str:
    return shown(" ".join(attempt_line(attempt)).removeprefix("attempt "))

"""Render the page on which people find a file: the search, what is being sent, what comes next, the last deliveries.

The page of one file is in `file_page`; what is searched, and how, is left to `ledger.path_search`.
"""

from typing import Any
from urllib.parse import quote

from assetsync.ledger.deliveries import Delivered, Deliveries, InFlight
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.path_search import LONGEST, PathSearch
from assetsync.ledger.rows import FileRow
from assetsync.log import redact
from assetsync.model import State
from assetsync.status.sentences import percent
from assetsync.status.shell import ago, shell
from assetsync.text import amount, files, printable, span

_RESULTS = 50
_DELIVERIES = 50
_IN_FLIGHT = 64
_NEXT = 10
_FULL = 100


def words_of(row: FileRow) -> str:
    """Return the state of a version as the pages for people without a shell name it."""
    return "Waiting for its sidecar" if row.waits_for_sidecar else _WORDS[row.state]


_WORDS = {
    State.QUEUED: "Waiting",
    State.SENDING: "Being sent",
    State.IN_DOUBT: "In doubt",
    State.STORED: "Sent, not read back yet",
    State.VERIFIED: "In the service, verified",
    State.BLOCKED: "Blocked",
    State.SUPERSEDED: "Replaced by a newer version",
    State.GONE: "No longer in the tree",
}


class FindPage:
    """The page of one site; any thread may render it."""

    def __init__(self, ledger: Ledger, root: bytes) -> None:
        self.search = PathSearch(ledger.store)
        self._ledger = ledger
        self._deliveries = Deliveries(ledger.store)
        self._root = root.rstrip(b"/") + b"/"
        self._shell = shell("files.html", "page.css", "files.css")

    @property
    def policy(self) -> str:
        """The Content-Security-Policy of the page."""
        return self._shell.policy

    def render(self, site: str, asked: str, now: float, sent: dict[int, int], *, unknown: bytes | None = None) -> str:
        """Return the document: the files that match `asked`, or without it what is being sent.

        `sent` holds the sent bytes of large files in flight by the ids of their versions. `unknown` is a path that the
        ledger does not know. Raise LedgerError.
        """
        asked = asked.strip()[:LONGEST]
        values: dict[str, Any] = {"asked": asked, "heading": "Files", "activity": None}
        values |= {"results": None, "more": None, "searched": None, "is_all": True}
        values["unknown"] = None if unknown is None else shown(unknown)
        if asked:
            values |= self._found(asked)
        elif unknown is None:
            values["activity"] = self._activity(now, sent)
        return self._shell.render(values | {"site": site})

    def _found(self, asked: str) -> dict[str, Any]:
        rows = self._ledger.reports.of_asset(asked)
        if rows:
            return {"heading": f"1 file for asset {shown(rows[0].assetid or '')}", "results": [_result(rows[0])]}
        found = self.search.find(asked.removeprefix(self._root.decode("utf-8", "surrogateescape")), _RESULTS)
        count = len(found.files) + found.more
        heading = f"{files(count) if count else 'No file'} found"
        if not found.is_all:
            heading = f"More than {files(count)} found" if count else "No file found so far"
        covered = self.search.covered()
        return {
            "heading": heading,
            "results": [_result(row) for row in found.files],
            "more": f"{'' if found.is_all else 'more than '}{found.more:,}" if found.more else None,
            "searched": None if covered == 1 else percent(covered),
            "is_all": found.is_all,
        }

    def _activity(self, now: float, sent: dict[int, int]) -> dict[str, Any]:
        return {
            "sending": [
                _in_flight(each, now, sent.get(each.file_id)) for each in self._deliveries.in_flight(_IN_FLIGHT)
            ],
            "next": [_coming(row, now) for row in self._deliveries.next(_NEXT)],
            "delivered": [_delivered(each, now) for each in self._deliveries.last(_DELIVERIES)],
        }


def shown(text: str | bytes) -> str:
    """Return a text from outside as the pages show it: without control characters and secrets."""
    return redact(printable(text))


def link(path: bytes) -> str:
    """Return the address of a file's page, relative to that of the other pages."""
    return f"file?path={quote(path, safe='/')}"


def named(path: bytes) -> dict[str, str]:
    """Return a file's name, the folder above it, and the address of its page."""
    folder, _, name = path.rpartition(b"/")
    return {"name": shown(name), "folder": shown(folder), "link": link(path)}


def _result(row: FileRow) -> dict[str, Any]:
    return named(row.path) | {"state": row.state, "words": words_of(row)}


def _in_flight(upload: InFlight, now: float, sent: int | None) -> dict[str, Any]:
    """Return an upload: the sent bytes are only counted for large files, others are sent within a moment."""
    seconds = max(0.001, now - upload.started_at)
    rate = None if sent is None else sent / seconds
    left = None if sent is None or not rate else max(0.0, (upload.size - sent) / rate)
    return named(upload.path) | {
        "size": amount(upload.size),
        "percent": None if sent is None or not upload.size else min(_FULL, _FULL * sent // upload.size),
        "rate": None if rate is None else f"{amount(rate)}/s",
        "left": None if left is None else span(left),
    }


def _coming(row: FileRow, now: float) -> dict[str, Any]:
    wait = row.due_at - now
    due = f"not before {span(wait)} from now" if wait > 0 else None
    return named(row.path) | {
        "size": amount(row.size),
        "due": "when its sidecar has come" if row.waits_for_sidecar else due,
    }


def _delivered(each: Delivered, now: float) -> dict[str, Any]:
    return named(each.path) | {"size": amount(each.size), "words": _WORDS[each.state], "at": ago(now, each.at)}

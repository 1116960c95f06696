"""Encode calls of searchIndex (interface section 4.2) and read the answers.

An answer is not always JSON: the documented sample is not. `client` sends the calls; `sync.readback.indexer` decides
when they are due.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote_plus

from assetsync.errors import BadAnswer, UsageError
from assetsync.service.errors import refusal_in, text_of
from assetsync.service.json_stream import charset_of
from assetsync.service.search import Call, checked_id

EVERYTHING = "all"
"""The word for every asset in a call of searchIndex, which is therefore not a valid id."""

BATCH_COUNT = 200
"""Most ids in one call."""

BATCH_LENGTH = 7000
"""Most encoded characters of one call's list: it still fits in a request line of 8,192 bytes (observed)."""

INDEX_LIMIT = 64 * 1024
"""Largest answer in bytes."""

_VALUE = r"""\s*[:=]\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^,}"']*))"""
_FORMS = {
    name: re.compile(rf"""(?<![A-Za-z0-9_])["']?{name}["']?""" + _VALUE, re.IGNORECASE)
    for name in ("responsecode", "message")
}


def batches(assetids: Iterable[str]) -> Iterator[list[str]]:
    """Yield the ids without repetitions, in their order, as lists that fit into one call.

    Raise UsageError for an invalid id. `all` is invalid, because it would rebuild the whole index.
    """
    batch: list[str] = []
    length = 0
    for assetid in dict.fromkeys(assetids):
        size = len(quote_plus(f"{checked_id(assetid)},"))
        if len(batch) == BATCH_COUNT or length + size > BATCH_LENGTH:
            yield batch
            batch, length = [], 0
        batch.append(assetid)
        length += size
    if batch:
        yield batch


def index_call(assetids: Sequence[str]) -> Call:
    """Return the call that requests indexing of these ids, or of everything with the single word `all`.

    Raise UsageError for an empty list and for an invalid id, such as `all` among other ids.
    """
    if not assetids:
        raise UsageError("no ids to index", hint="give at least one asset id")
    everything = [assetid.lower() for assetid in assetids] == [EVERYTHING]
    ids = EVERYTHING if everything else ",".join(checked_id(assetid) for assetid in assetids)
    return Call((("method", "searchIndex"),), (("assetid", ids),))


def read_index_answer(content_type: str, body: bytes) -> str:
    """Return the message of a success, which means only that the call was accepted.

    Observed: also for unknown ids, and while the database is down. Raise KeyRefused or ServiceRefused for an error
    answer, BadAnswer for an answer that is not in the interface's form.
    """
    text = body.decode(charset_of(content_type), "replace").strip()
    if not text.startswith("{") or not text.endswith("}"):
        raise BadAnswer("the answer to searchIndex is not in the interface's form", hint="check service.base_url")
    record = _read_json(text)
    if record is None:
        # Not strictly JSON, as the documented sample.
        found = {name: form.search(text) for name, form in _FORMS.items()}
        record = {name: (m["double"] or m["single"] or m["bare"] or "").strip() for name, m in found.items() if m}
    if (error := refusal_in(record)) is not None:
        raise error
    if not text_of(record.get("responsecode")):
        raise BadAnswer("the answer to searchIndex has no result code")
    return text_of(record.get("message"))


def _read_json(text: str) -> dict[str, object] | None:
    """Return the values of an answer by lower-case name; None if it is not JSON."""
    try:
        record = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    named = {name.lower(): value for name, value in record.items()}
    match named:
        case {"columns": [*columns], "data": [[*row], *_]}:
            # The form of error answers to a search.
            return {str(name).lower(): value for name, value in zip(columns, row, strict=False)}
    return named

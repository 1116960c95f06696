"""Split ids into calls of searchIndex (interface section 4.2) and read the answers.

An answer is not always JSON: the documented sample is not. `client` sends the calls; `sync.readback.indexer` decides
when they are due.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote_plus

from assetsync.errors import BadAnswer, KeyRefused
from assetsync.service.errors import refusal, text_of
from assetsync.service.json_stream import charset_of
from assetsync.service.search import checked_id

BATCH_COUNT = 200
"""Most ids in one call."""

BATCH_LENGTH = 7000
"""Most encoded characters of one call's list: it still fits in a request line of 8,192 bytes (observed)."""

_LIMIT = 64 * 1024
_VALUE = r"""\s*[:=]\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^,}"']*))"""
_CODE = re.compile(r"""(?<![A-Za-z0-9_])["']?responsecode["']?""" + _VALUE, re.IGNORECASE)
_MESSAGE = re.compile(r"""(?<![A-Za-z0-9_])["']?message["']?""" + _VALUE, re.IGNORECASE)


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


def read_index_answer(content_type: str, body: bytes) -> tuple[str, str]:
    """Return the result code and the message as texts, however they are quoted.

    Code "0" means only that the call was accepted (observed: also for unknown ids, and while the database is down).
    Raise KeyRefused for a refused key, BadAnswer for an answer that is not in the interface's form, and ServiceRefused
    for an error answer without a result code.
    """
    text = body.decode(charset_of(content_type), "replace").strip()
    if not text.startswith("{") or not text.endswith("}") or len(body) > _LIMIT:
        raise BadAnswer("the answer to searchIndex is not in the interface's form", hint="check service.base_url")
    code, message = _strict(text) or _loose(text)
    if isinstance(error := refusal(code, message), KeyRefused) and code != "0":
        raise error
    return code, message


def _strict(text: str) -> tuple[str, str] | None:
    try:
        record = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, Mapping):
        return None
    named = {str(name).lower(): value for name, value in record.items()}
    columns, data = named.get("columns"), named.get("data")
    if isinstance(columns, list) and isinstance(data, list) and data and isinstance(data[0], list):
        # The form of error answers to a search.
        named = {str(name).lower(): value for name, value in zip(columns, data[0], strict=False)}
    code = text_of(named.get("responsecode"))
    if not code:
        if "message" not in named:
            raise BadAnswer("the answer to searchIndex has no result code")
        raise refusal(text_of(named.get("errorcode")), text_of(named.get("message")))
    return code, text_of(named.get("message"))


def _loose(text: str) -> tuple[str, str]:
    code = _CODE.search(text)
    if code is None or not _matched(code):
        raise BadAnswer("the answer to searchIndex has no result code")
    message = _MESSAGE.search(text)
    return _matched(code), _matched(message) if message else ""


def _matched(match: re.Match[str]) -> str:
    value = next((group for group in match.group("double", "single", "bare") if group is not None), "")
    return value.strip()

"""searchIndex (interface section 4.2): how many ids go into one call, and what its answer says.

The answer is not always JSON: the documented sample is not. Sending the call is `client`'s, when it is due `flow`'s.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote_plus

from assetsync.errors import BadAnswer, KeyRefused
from assetsync.service.errors import refusal, text_of
from assetsync.service.json_stream import charset_of
from assetsync.service.query import checked_id

BATCH_COUNT = 200
"""Ids in one call at most."""

BATCH_LENGTH = 7000
"""Characters of one call's list at most, encoded: a request line of 8,192 bytes would still hold it (observed)."""

_LIMIT = 64 * 1024
_VALUE = r"""\s*[:=]\s*(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'|(?P<bare>[^,}"']*))"""
_CODE = re.compile(r"""(?<![A-Za-z0-9_])["']?responsecode["']?""" + _VALUE, re.IGNORECASE)
_MESSAGE = re.compile(r"""(?<![A-Za-z0-9_])["']?message["']?""" + _VALUE, re.IGNORECASE)


def batches(assetids: Iterable[str]) -> Iterator[list[str]]:
    """Yield the ids once each, in their order, as lists that fit into one call.

    Raises UsageError for what is no id. `all` is none: rebuilding the whole index is never a matter of a list.
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
    """Give the result code and the message as texts, whatever they were quoted with.

    Code "0" says that the call was taken, nothing more (observed: it comes for unknown ids and with the database down).
    Raises KeyRefused for a refused key, BadAnswer for what is no such answer.
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
        # The form in which a search states its errors.
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

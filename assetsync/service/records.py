"""Read search answers as a stream of assets; memory does not grow with the number of rows.

It reads the formats of interface section 4.1: rows and JSONP as a stream, columns and WDDX whole and with a limit. It
raises error answers as errors. `client` supplies the bytes and `json_stream` scans JSON values.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import itemgetter
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from assetsync.core.outcome import is_sound_id
from assetsync.errors import BadAnswer
from assetsync.model import Asset
from assetsync.service.errors import refusal_in, text_of
from assetsync.service.json_stream import SlidingText, charset_of, cut
from assetsync.service.redaction import REPLACEMENT
from assetsync.text import decoded


def read_wddx(page: str) -> tuple[list[object], list[object]]:
    """Return the names and the columns (a list of values each) of a packet's record set.

    Raise BadAnswer for an unsound packet, KeyRefused or ServiceRefused for a packet that reports an error.
    """
    if "xmlns" in page:
        # The parser stores the namespace with every name, so a long namespace in a long answer would fill the memory.
        raise BadAnswer("the search answer is not sound XML")
    try:
        packet: Element = fromstring(page.strip(), forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, LookupError) as exc:
        raise BadAnswer("the search answer is not sound XML") from exc
    recordset = packet.find("./data/recordset")
    if recordset is None:
        stated = {var.get("name", "").lower(): _value(var[0]) for var in packet.iterfind(".//var") if len(var)}
        raise refusal_in(stated) or BadAnswer("the search answer is WDDX without a record set")
    names: list[object] = [field.get("name", "") for field in recordset]
    columns: list[object] = [[_value(value) for value in field] for field in recordset]
    counted = recordset.get("rowCount", "")
    if any(isinstance(column, list) and str(len(column)) != counted for column in columns):
        raise BadAnswer(f"the search answer does not hold the {counted[:20]!r} rows that it counts")
    return names, columns


def _value(element: Element) -> object:
    if element.tag == "null":
        return None
    if element.tag == "boolean":
        return element.get("value", "").lower() == "true"
    # Control characters are separate elements: <char code="0A"/>.
    text = (element.text or "") + "".join(_char(child) + (child.tail or "") for child in element)
    if element.tag == "number":
        try:
            number = float(text)
        except ValueError:
            return text
        return int(number) if number.is_integer() else number
    return text


def _char(element: Element) -> str:
    try:
        return chr(int(element.get("code", ""), 16)) if element.tag == "char" else ""
    except (ValueError, OverflowError):
        return ""


_is_md5 = re.compile(r"[0-9A-Fa-f]{32}").fullmatch
_is_folder = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
_LARGEST = 2**62

LONGEST_TEXT = 1000
"""Characters of a name or kind that are kept: more than any file system allows and than is ever sent (240)."""


class Columns(Mapping[str, object]):
    """The columns of one row by name, looked up on access; of columns with equal names the last one counts."""

    __slots__ = ("_at", "_row")

    def __init__(self, at: Mapping[str, int], row: Sequence[object]) -> None:
        self._at = at
        self._row = row

    def __getitem__(self, name: str) -> object:
        return self._row[self._at[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)


@dataclass(frozen=True, slots=True)
class FolderIds:
    """How the rows of an answer name their folders.

    `spelling` has the ids as the client writes them, by their small letters: services compare ids without case and
    answer with their own spelling. `unnamed` returns the id of a row that names none, "" if it is unknown.
    """

    spelling: Mapping[str, str] = field(default_factory=dict)
    unnamed: Callable[[], str] = str


class RowReader:
    """A reader for the rows of one answer.

    `names` are the answer's columns (interface section 2); `secrets` are redacted in names and kinds. A row without a
    readable asset is counted in `unreadable` and skipped, because one bad name must not hide a whole folder.
    """

    def __init__(
        self, names: Sequence[object], secrets: Sequence[str] = (), folder_ids: FolderIds | None = None
    ) -> None:
        self.unreadable = 0
        self._secrets = tuple(secrets)
        self._folder_ids = folder_ids or FolderIds()
        # The folder of the last row, as it was answered and as it is written: most rows are of one folder.
        self._last_folder = ("", "")
        # Lower case on one database, upper case on another (observed).
        self.names = tuple(name.lower() if isinstance(name, str) else "" for name in names)
        self._width = len(self.names)
        self._at = {name: number for number, name in enumerate(self.names)}
        # A column that the answer lacks is read from the None that `read` appends to each row.
        needed = ("id", "size", "md5hash", "folder_id", "filename", "kind", "isalias")
        self._pick = itemgetter(*(self._at.get(name, self._width) for name in needed))
        self._code = self._at.get("responsecode")

    def read(self, row: object) -> Asset | None:
        """Return the asset of one row, None for an unreadable row.

        Raise KeyRefused or ServiceRefused for an error row, BadAnswer for rows without an id column.
        """
        if not isinstance(row, list) or len(row) != self._width:
            self.unreadable += 1
            return None
        # Fast comparisons come before the tolerant parsing, because one answer may hold 100,000 rows.
        columns = Columns(self._at, row)
        row.append(None)
        assetid, size_text, md5, folder, name, kind, alias = self._pick(row)
        # Rows of assets have the number 0, error rows the text "1" (observed).
        if self._code is not None and row[self._code] not in (0, "0"):
            error = refusal_in(columns)
            if error is not None:
                raise error
        # If the service returns the API key as an id, it must not enter the ledger.
        if not isinstance(assetid, str) or not is_sound_id(assetid) or self._hidden(assetid) is not assetid:
            if "id" not in columns:
                raise refusal_in(columns) or BadAnswer("the search answer has rows without ids")
            self.unreadable += 1
            return None
        size = _size(size_text)
        return Asset(
            assetid,
            self._folder(folder if isinstance(folder, str) else text_of(folder)),
            # Not trimmed: a trailing blank is part of the name.
            self._text(name if isinstance(name, str) else text_of(name)),
            size if size is not None else _size(columns.get("size_num")),
            md5.upper() if isinstance(md5, str) and _is_md5(md5) else None,
            self._text(kind if isinstance(kind, str) else text_of(kind)),
            columns,
            alias in ("1", 1),
        )

    def _text(self, text: str) -> str:
        """Return a text fit for storage: cut to LONGEST_TEXT, without secrets and without lone surrogates."""
        if len(text) > LONGEST_TEXT:
            text = text[:LONGEST_TEXT]
        # JSON can encode a lone surrogate (`\\ud800`), which no database accepts.
        return self._hidden(text if text.isascii() else decoded(text))

    def _folder(self, folder: str) -> str:
        """Return a folder's id as the client writes it.

        Return "" if the id is unknown, invalid, or holds a secret, because the next query will contain it.
        """
        if not folder:
            return self._folder_ids.unnamed()
        if folder != self._last_folder[0]:
            is_sound = _is_folder(folder) and self._hidden(folder) is folder
            self._last_folder = folder, self._folder_ids.spelling.get(folder.lower(), folder) if is_sound else ""
        return self._last_folder[1]

    def _hidden(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, REPLACEMENT)
        return text


def _size(value: object) -> int | None:
    """Return a size in bytes from a text or a number; None if it is not a whole number from 0 to 2**62."""
    if isinstance(value, str):
        if value.isdigit() and value.isascii() and len(value) < 19:  # noqa: PLR2004 - below 2**62
            return int(value)
        value = value.strip()
        if not value.isascii() or len(value) > 20:  # noqa: PLR2004 - longer than any size of 64 bits
            return None
        try:
            number = float(value)
        except ValueError:
            return None
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        number = value
    else:
        return None
    if not 0 <= number <= _LARGEST or number != int(number):
        return None
    return int(number)


WHOLE_LIMIT = 8 * 1024 * 1024
"""Largest answer in characters that is read whole: by columns, or WDDX."""

_KEPT = frozenset({"columns", "data", "rowcount", "responsecode", "message", "errorcode", "detail", "id"})

_CALLBACK = re.compile(r"[A-Za-z_$][\w$.]{0,99}\s*\(")
_TAG = re.compile(r"<[^>]{0,200}>")


class RecordStream:
    """An iterator over the assets of one search answer.

    `secrets` are redacted in names and kinds. The answer is complete only if the iteration ends without an error: an
    answer that was cut, or that goes on after its end, raises BadAnswer after its last row. Error answers raise
    KeyRefused or ServiceRefused.
    """

    def __init__(
        self,
        content_type: str,
        chunks: Iterable[bytes],
        secrets: Sequence[str] = (),
        folder_ids: FolderIds | None = None,
    ) -> None:
        self._text = SlidingText(chunks, charset_of(content_type))
        self._secrets = secrets
        self._folder_ids = folder_ids
        self._reader: RowReader | None = None
        self._assets: Iterator[Asset] = self._read()

    def begin(self) -> None:
        """Read up to the first row, so that an unusable answer raises before the caller uses the stream."""
        self._assets = chain([*islice(self._assets, 1)], self._assets)

    @property
    def unreadable(self) -> int:
        """The number of unreadable rows so far."""
        return self._reader.unreadable if self._reader else 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns in lower case; empty until the first row was read."""
        return self._reader.names if self._reader else ()

    def __iter__(self) -> Iterator[Asset]:
        return self

    def __next__(self) -> Asset:
        return next(self._assets)

    def _read(self) -> Iterator[Asset]:
        text = self._text
        first = text.peek()
        if first == "<":
            page = self._text.rest(WHOLE_LIMIT)
            if "<wddxPacket" not in page[:1000]:
                words = " ".join(_TAG.sub(" ", page[:2000]).split())
                # While the search server is down, the answer is HTML labelled as JSON (observed).
                raise BadAnswer(f'the search answer is a page, not a result: "{words[:160]}"')
            names, columns = read_wddx(page)
            self._reader = RowReader(names, self._secrets, self._folder_ids)
            yield from self._assets_of(_rows_of_columns(columns))
        elif first == "{":
            yield from self._object()
        elif text.match(_CALLBACK, 200):
            yield from self._object()
            text.take(")")
            if text.peek() == ";":
                text.take(";")
        elif first == "":
            raise BadAnswer("the search answer is empty")
        else:
            raise BadAnswer(f"the search answer begins with {first!r}, which is no form of the interface")
        if text.peek():
            raise BadAnswer("the search answer goes on after its end")

    def _object(self) -> Iterator[Asset]:
        text = self._text
        record: dict[str, object] = {}
        text.take("{")
        while text.peek() != "}":
            name = text.value()
            if not isinstance(name, str) or name.lower() in record:
                raise BadAnswer("the search answer is not an object of distinct names")
            name = name.lower()
            text.take(":")
            is_data = name == "data"
            if is_data and self._reader is not None and text.peek() == "[":
                record[name] = None
                yield from self._assets_of(self._rows())
            else:
                # Rows before COLUMNS were not observed, but the names of a JSON object have no order.
                value = text.value(WHOLE_LIMIT) if is_data and text.peek() == "{" else text.value()
                if name == "columns" and isinstance(value, list):
                    self._reader = RowReader(value, self._secrets, self._folder_ids)
                # Unused values are dropped, because their number has no limit.
                if name in _KEPT:
                    record[name] = value
            if text.peek() != ",":
                break
            text.take(",")
        text.take("}")
        yield from self._late(record)

    def _late(self, record: dict[str, object]) -> Iterator[Asset]:
        """Yield the assets of rows that could not be streamed; raise the error that the object reports."""
        data = record.get("data")
        if "data" not in record or self._reader is None:
            raise refusal_in(record) or BadAnswer("the search answer is JSON without columns and data")
        if isinstance(data, dict):
            columns = {str(name).lower(): values for name, values in data.items()}
            rows = _rows_of_columns([columns.get(name) for name in self._reader.names])
            if record.get("rowcount", len(rows)) != len(rows):
                raise cut()
            yield from self._assets_of(rows)
        elif isinstance(data, list):
            yield from self._assets_of(data)
        elif data is not None:
            raise BadAnswer("the data of the search answer is neither rows nor columns")

    def _assets_of(self, rows: Iterable[object]) -> Iterator[Asset]:
        assert self._reader is not None
        read = self._reader.read
        for row in rows:
            asset = read(row)
            if asset is not None:
                yield asset

    def _rows(self) -> Iterator[object]:
        text = self._text
        text.take("[")
        if text.takes("]"):
            return
        while True:
            yield text.value(is_row=True)
            if not text.takes(","):
                break
        text.take("]")


def _rows_of_columns(columns: Sequence[object]) -> list[object]:
    lists = [column for column in columns if isinstance(column, list)]
    if len(lists) != len(columns) or len({len(column) for column in lists}) > 1:
        raise BadAnswer("the columns of the search answer are not of one length")
    return [list(row) for row in zip(*lists, strict=True)]

"""Search answers as a stream of assets, in memory that does not grow with the number of rows.

Reads what section 4.1 of the interface names: rows (streamed), columns, JSONP and WDDX (read whole, bounded), and tells
error answers from them. Where the bytes come from is left to `client`, what a row means to `rows`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from assetsync.errors import BadAnswer
from assetsync.model import Asset
from assetsync.service.errors import refusal_in, text_of
from assetsync.service.json_stream import MALFORMED, SlidingText, charset_of, cut
from assetsync.service.wddx import read_wddx
from assetsync.text import decoded

_is_sound_id = re.compile(r"[A-Za-z0-9-]{1,64}").fullmatch
_is_md5 = re.compile(r"[0-9A-Fa-f]{32}").fullmatch
_is_folder = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
_LARGEST = 2**62

LONGEST_TEXT = 1000
"""Characters of a name or a kind that are kept: more than any file system has, and than was ever sent (240)."""


class Columns(Mapping[str, object]):
    """The columns of one row by name, looked up only when they are asked for; the last one of a name counts."""

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


class RowReader:
    """Reads the rows of one answer; `names` are its columns (interface section 2), `secrets` are hidden in texts.

    Rows in which no asset can be seen are counted in `unreadable`: one bad name must not hide a whole folder.
    """

    def __init__(self, names: Sequence[object], secrets: Sequence[str] = ()) -> None:
        self.unreadable = 0
        self._secrets = tuple(secrets)
        # Lower case on one database, upper case on another (observed).
        self.names = tuple(name.lower() if isinstance(name, str) else "" for name in names)
        self._width = len(self.names)
        self._at = {name: number for number, name in enumerate(self.names)}
        # What is not among the columns is read off the None that is put behind each row.
        needed = ("id", "size", "md5hash", "folder_id", "filename", "kind")
        self._pick = itemgetter(*(self._at.get(name, self._width) for name in needed))
        self._code = self._at.get("responsecode")

    def read(self, row: object) -> Asset | None:
        """Give the asset of one row, None for an unreadable one.

        Raises KeyRefused or ServiceRefused for an error row, BadAnswer for rows that are not about assets.
        """
        if not isinstance(row, list) or len(row) != self._width:
            self.unreadable += 1
            return None
        # Plain comparisons stand before the tolerant readings below: one answer may hold 100,000 rows.
        columns = Columns(self._at, row)
        row.append(None)
        assetid, size_text, md5, folder, name, kind = self._pick(row)
        # Rows carry the number 0, error rows the text "1" (observed).
        if self._code is not None and row[self._code] not in (0, "0"):
            error = refusal_in(columns)
            if error is not None:
                raise error
        # A service that gives the API key for an id must not bring it into the ledger.
        if not isinstance(assetid, str) or not _is_sound_id(assetid) or self._hidden(assetid) is not assetid:
            if "id" not in columns:
                raise refusal_in(columns) or BadAnswer("the search answer has rows without ids")
            self.unreadable += 1
            return None
        size = _size(size_text)
        return Asset(
            assetid,
            self._folder(folder if isinstance(folder, str) else text_of(folder)),
            # Not trimmed: a blank at its end belongs to the name.
            self._text(name if isinstance(name, str) else text_of(name)),
            size if size is not None else _size(columns.get("size_num")),
            md5.upper() if isinstance(md5, str) and _is_md5(md5) else None,
            self._text(kind if isinstance(kind, str) else text_of(kind)),
            columns,
        )

    def _text(self, text: str) -> str:
        """Give a text as it may be kept: not endless, without the secrets, without halves of characters."""
        if len(text) > LONGEST_TEXT:
            text = text[:LONGEST_TEXT]
        # JSON can write half a character (`\\ud800`), which no database takes.
        return self._hidden(text if text.isascii() else decoded(text))

    def _folder(self, folder: str) -> str:
        """Give a folder's id, empty for what is none: it goes into the next query."""
        return folder if _is_folder(folder) and self._hidden(folder) is folder else ""

    def _hidden(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, "***")
        return text


def _size(value: object) -> int | None:
    """Give a size in bytes from a text or a number; None for what is no whole number of bytes."""
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
"""Characters of an answer that must be read whole: by columns, or WDDX."""

EARLY_LIMIT = 2 * 1024 * 1024
"""Characters of the rows that are kept until their columns are named, where an answer names them last."""

_KEPT = frozenset({"columns", "data", "rowcount", "responsecode", "message", "errorcode", "detail", "id"})

_CALLBACK = re.compile(r"[A-Za-z_$][\w$.]{0,99}\s*\(")
_TAG = re.compile(r"<[^>]{0,200}>")


class RecordStream:
    """The assets of one search answer, one after the other.

    `secrets` are hidden in what is read. The answer is complete only when the iteration ended by itself: one that was
    cut, or that holds anything after its end, raises BadAnswer after its last row. Error answers raise KeyRefused or
    ServiceRefused.
    """

    def __init__(self, content_type: str, chunks: Iterable[bytes], secrets: Sequence[str] = ()) -> None:
        self._text = SlidingText(chunks, charset_of(content_type))
        self._secrets = secrets
        self._reader: RowReader | None = None
        self._assets = self._read()
        self._first: Asset | None = None

    def begin(self) -> None:
        """Read up to the first row, so that an answer that is none is told before anyone relies on it."""
        self._first = next(self._assets, None)

    @property
    def unreadable(self) -> int:
        """Rows so far in which no asset could be seen."""
        return self._reader.unreadable if self._reader else 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns' names in lower case, once the first row was read."""
        return self._reader.names if self._reader else ()

    def __iter__(self) -> Iterator[Asset]:
        return self

    def __next__(self) -> Asset:
        first, self._first = self._first, None
        return next(self._assets) if first is None else first

    def _read(self) -> Iterator[Asset]:
        text = self._text
        first = text.peek()
        if first == "<":
            yield from self._markup()
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
            if name == "data" and text.peek() == "[":
                record[name] = None
                if self._reader is None:
                    # DATA before COLUMNS: not seen, but the order of an object's names says nothing.
                    record[name] = self._early_rows()
                else:
                    yield from self._assets_of(self._rows())
            else:
                record[name] = value = text.value(WHOLE_LIMIT) if name == "data" else text.value()
                if name == "columns" and isinstance(value, list):
                    self._reader = RowReader(value, self._secrets)
                if name not in _KEPT:
                    # There may be any number of other names; what they hold is nobody's matter.
                    del record[name]
            if text.peek() != ",":
                break
            text.take(",")
        text.take("}")
        yield from self._late(record)

    def _late(self, record: dict[str, object]) -> Iterator[Asset]:
        """Give the rows that could not be read in passing, and the errors that an object states."""
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

    def _markup(self) -> Iterator[Asset]:
        page = self._text.rest(WHOLE_LIMIT)
        if "<wddxPacket" not in page[:1000]:
            words = " ".join(_TAG.sub(" ", page[:2000]).split())
            # Observed: with the search server down, the answer is HTML labelled as JSON.
            raise BadAnswer(f'the search answer is a page, not a result: "{words[:160]}"')
        names, columns = read_wddx(page)
        self._reader = RowReader(names, self._secrets)
        yield from self._assets_of(_rows_of_columns(columns))

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
        if text.peek() == "]":
            text.take("]")
            return
        while True:
            yield from text.rows()
            row = text.row()
            yield None if row is MALFORMED else row
            if text.peek() != ",":
                break
            text.take(",")
        text.take("]")

    def _early_rows(self) -> list[object]:
        rows: list[object] = []
        start = self._text.position
        for row in self._rows():
            rows.append(row)
            if self._text.position - start > EARLY_LIMIT:
                raise BadAnswer(f"the search answer holds over {EARLY_LIMIT} characters before it names the columns")
        return rows


def _rows_of_columns(columns: Sequence[object]) -> list[object]:
    lists = [column for column in columns if isinstance(column, list)]
    if len(lists) != len(columns) or len({len(column) for column in lists}) > 1:
        raise BadAnswer("the columns of the search answer are not of one length")
    return [list(row) for row in zip(*lists, strict=True)]

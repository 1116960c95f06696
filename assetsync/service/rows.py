"""One row of a search answer as an Asset: columns by name without case, ids checked, sizes and MD5 tolerant.

Which rows there are, and in what form they came, is left to `recordset`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

from assetsync.errors import BadAnswer
from assetsync.model import Asset
from assetsync.service.refusal import refusal_in, text_of
from assetsync.shown import decoded

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

"""Read one multipart body as it comes in, also a cut one: keep fields in memory, write the file part to disk.

Checking keys and folders is left to the caller, who decides at the start of the file part whether to keep the file.
Memory use does not depend on the size of the file.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, MultipartState, parse_options_header

_MOST_FIELD_BYTES: Final = 4 * 1024 * 1024
_HEAD: Final = 64 * 1024
_QUOTED: Final = r'"((?:[^"\\]|\\.)*)"'
_PLAIN: Final = re.compile(r"multipart/form-data\s*;\s*boundary=[^\s\";,]+", re.IGNORECASE)
_NAME: Final = re.compile(rf";\s*name={_QUOTED}", re.IGNORECASE)
_FILENAME: Final = re.compile(rf";\s*filename={_QUOTED}", re.IGNORECASE)


def boundary_of(content_type: str | None) -> bytes | None:
    """Return the boundary of a multipart/form-data header, None for any other content type."""
    kind, options = parse_options_header(content_type)
    return options.get(b"boundary") if kind == b"multipart/form-data" else None


def is_plain(content_type: str | None) -> bool:
    """Return whether the boundary of a form is a plain token at the end of the header; True if there is no boundary.

    A live installation never answers a form with any other boundary, until it is restarted (observed).
    """
    return boundary_of(content_type) is None or _PLAIN.fullmatch((content_type or "").strip()) is not None


class FilePart:
    """The file part of a body: its name as sent, and its bytes in a file, which the first write creates."""

    def __init__(self, sent_name: str, path: Path | None) -> None:
        self.sent_name = sent_name
        self.path = path
        self.size = 0
        self.complete = False
        self.head = b""
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._stream: BinaryIO | None = None

    @property
    def md5(self) -> str:
        """The MD5 of the received bytes, upper-case hex."""
        return self._md5.hexdigest().upper()

    def write(self, data: bytes) -> None:
        """Write the next bytes; without a path, only count them."""
        self.size += len(data)
        if self.path is None:
            return
        if self._stream is None:
            self._stream = self.path.open("wb")
        if len(self.head) < _HEAD:
            self.head += data[: _HEAD - len(self.head)]
        self._md5.update(data)
        self._stream.write(data)

    def close(self) -> None:
        """Close the file on disk."""
        if self._stream is not None:
            self._stream.close()

    def discard(self) -> None:
        """Remove the file from disk."""
        self.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)


class FormReader:
    """A reader for the bytes of a body in order; after `finish` it holds the fields and the file part.

    `wanted` is called once, with the fields before the file part, and returns whether to keep the bytes of the file.
    """

    def __init__(self, boundary: bytes, path: Path, wanted: Callable[[Mapping[str, str]], bool]) -> None:
        self.fields: dict[str, str] = {}
        self.file: FilePart | None = None
        self.late = False  # a part follows the file part (forbidden by interface section 4.3)
        self.torn = False  # the body was cut outside the file part, or cannot be parsed
        self._path = path
        self._wanted = wanted
        self._headers = bytearray()
        self._field: str | None = None
        self._value = bytearray()
        self._field_bytes = 0
        self._in_file = False
        self._ended = False
        self._held = len(boundary) + 8  # more than the parser holds back for a possible boundary
        self._tail = b""
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._part_begins,
                "on_header_field": self._header_name,
                "on_header_value": self._header_text,
                "on_header_end": self._header_ends,
                "on_headers_finished": self._headers_finished,
                "on_part_data": self._part_data,
                "on_part_end": self._part_ends,
                "on_end": self._all_ends,
            },
        )

    def feed(self, data: bytes) -> None:
        """Parse the next bytes of the body; bytes after a syntax error are dropped."""
        if self.torn or not data:
            return
        self._tail = data[-self._held :] if len(data) >= self._held else (self._tail + data)[-self._held :]
        try:
            self._parser.write(data)
        except FormParserError:
            self.torn = True

    def finish(self) -> None:
        """End the body, complete or cut; bytes held back as a possible boundary then become part of the file.

        The live service, too, keeps a part of an incomplete last boundary (observed).
        """
        if self._in_file and self.file is not None and self._parser.state == MultipartState.PART_DATA:
            held = self._parser.index
            self.file.write(self._tail[len(self._tail) - held :])
        elif not self._ended and not self._in_file:
            self.torn = True
        if self.file is not None:
            self.file.close()

    def _part_begins(self) -> None:
        self._headers.clear()
        self._value.clear()
        self._field = None
        self.late = self.late or self.file is not None

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._headers += data[start:end]

    def _header_text(self, data: bytes, start: int, end: int) -> None:
        if not self._headers.endswith(b":") and b":" not in self._headers.rpartition(b"\n")[2]:
            self._headers += b":"
        self._headers += data[start:end]

    def _header_ends(self) -> None:
        self._headers += b"\n"

    def _headers_finished(self) -> None:
        disposition = next(
            (
                line.partition(":")[2]
                for line in self._headers.decode("utf-8", "replace").split("\n")
                if line.lower().startswith("content-disposition:")
            ),
            "",
        )
        name = _NAME.search(disposition)
        filename = _FILENAME.search(disposition)
        if name is None:
            return
        if filename is None:
            self._field = name[1]
        elif name[1].lower() == "filedata" and self.file is None:
            self.file = FilePart(filename[1], self._path if self._wanted(self.fields) else None)
            self._in_file = True

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file and self.file is not None:
            self.file.write(data[start:end])
        elif self._field is not None:
            self._field_bytes += end - start
            if self._field_bytes > _MOST_FIELD_BYTES:
                raise FormParserError("the fields are too long")
            self._value += data[start:end]

    def _part_ends(self) -> None:
        if self._in_file and self.file is not None:
            self.file.complete = True
            self._in_file = False
        elif self._field is not None:
            self.fields[self._field] = self._value.decode("utf-8", "replace")

    def _all_ends(self) -> None:
        self._ended = True

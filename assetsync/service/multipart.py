"""The form of one upload as bytes, and the request body that knows how much of itself has left.

Pure framing and iteration: the file is read and checked by the Body it is given, the bytes are sent by `client`.
The order and form are the interface's (section 4.3), the strictness comes from what was observed: a quoted boundary,
anything after it, a body that ends inside a field, or a field as the last part hang a thread of the service.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from urllib.parse import quote, urlencode

from assetsync.errors import FileChanged, UsageError
from assetsync.model import Body, SentExtent, UploadRequest

Credential = Literal["api_key", "sessiontoken"]
"""How the key is passed: as a form field, or as the URL parameter of section 4.3's form for file-only clients."""

SLICE = 256 * 1024
"""Bytes of a large piece handed over at once: the transport copies what a write leaves over, again and again."""

_KEPT = 32
"""How many forms are kept, but for what is the file's own: those of a few folders."""

_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,70}")
_META_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
# `"` must be sent as %22: `\"` makes the upload fail (observed). A backslash before the closing quote would make one,
# and what stands before a slash is taken for a folder.
_UNSAFE_IN_NAME = re.compile(r'[\x00-\x1f\x7f-\x9f"\\/]')


@dataclass(frozen=True, slots=True)
class Framed:
    """One upload's form around the file: `head`, then the file's bytes, then `tail`; `length` counts all three.

    `query` is what goes into the URL: empty unless the credential is a sessiontoken.
    """

    head: bytes
    tail: bytes
    content_type: str
    size: int
    query: str = ""

    @property
    def length(self) -> int:
        """Bytes of the whole body."""
        return len(self.head) + self.size + len(self.tail)


def frame(request: UploadRequest, api_key: str, size: int, *, credential: Credential = "api_key") -> Framed:
    """Frame a file of `size` bytes (interface section 4.3): fields first, the file last, nothing after it.

    With `sessiontoken` the four parameters of the file-only form go into the URL, and a form field is written only for
    what that form has no place for. Raises UsageError for a request that no form can carry.
    """
    if not _TOKEN.fullmatch(request.boundary):
        raise UsageError("a boundary of this form cannot be sent", hint="use 1 to 70 letters, digits, - and _")
    query, names, parts = _constant(request._replace(filename="", boundary=""), api_key, credential)
    delimiter = f"--{request.boundary}".encode("ascii")
    if any(delimiter in part for part in parts):
        name = next(name for name, part in zip(names, parts, strict=True) if delimiter in part)
        raise UsageError(f"the value of {name} contains the form's boundary", hint="send it with another boundary")
    head = delimiter + delimiter.join((*parts, _file_header(delimiter, request.filename)))
    return Framed(head, closing(request.boundary), f"multipart/form-data; boundary={request.boundary}", size, query)


@lru_cache(maxsize=_KEPT)
def _constant(
    request: UploadRequest, api_key: str, credential: Credential
) -> tuple[str, tuple[str, ...], tuple[bytes, ...]]:
    """Give what is the same for many files of a folder: the address's query, the fields' names, and their bytes."""
    in_url, fields = parameters(request, api_key, credential=credential)
    return urlencode(in_url), tuple(name for name, _ in fields), tuple(_field(name, value) for name, value in fields)


def parameters(
    request: UploadRequest, api_key: str, *, credential: Credential = "api_key"
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Give the parameters of an upload in their order: those for the address, and those for the form.

    Raises UsageError for the name of a metadata field that cannot be sent.
    """
    leading = [
        ("fa", "c.apiupload"),
        (credential, api_key),
        ("destfolderid", request.destfolderid),
        # Always said: the service's own default is to extract.
        ("zip_extract", "1" if request.options.zip_extract else "0"),
    ]
    fields = _optional_fields(request)
    return ([], leading + fields) if credential == "api_key" else (leading, fields)


def closing(boundary: str) -> bytes:
    """Give the bytes that end a body after its file: part of what a cut upload may leave in a damaged asset."""
    return f"\r\n--{boundary}--\r\n".encode("ascii")


def sent_filename(filename: str) -> str:
    """Give the name as it stands between the quotes of the file part: what the service takes for the file's name."""
    escaped = _UNSAFE_IN_NAME.sub(lambda unsafe: quote(unsafe[0], safe=""), filename)
    return escaped.encode("utf-8", "replace").decode("utf-8")


def _optional_fields(request: UploadRequest) -> list[tuple[str, str]]:
    options = request.options
    fields: list[tuple[str, str]] = []
    if request.meta:
        fields += [("metadata", "1"), ("meta_lang_id_r", request.language)]
        for name, value in request.meta:
            if not _META_NAME.fullmatch(name) or name.lower() == "lang_id_r":
                raise UsageError(
                    f"the metadata field {name!r} cannot be sent", hint="use 1 to 64 letters, digits and _"
                )
            fields.append((f"meta_{name}", value))
    if options.skip_event:
        fields.append(("skip_event", ",".join(options.skip_event)))
    if options.debug:
        fields.append(("debug", "1"))
    texts = (
        ("upl_template", options.upl_template),
        ("emailto", options.emailto),
        ("redirectto", options.redirectto),
        ("redirecttoparams", options.redirecttoparams),
    )
    fields += [(name, value) for name, value in texts if value is not None]
    return fields


def _field(name: str, value: str) -> bytes:
    """Give a field as it stands between two delimiters."""
    part = f'\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
    try:
        return part.encode("utf-8")
    except UnicodeEncodeError as exc:
        # `from None`: the foreign error carries the whole value, and the value may be the key.
        raise UsageError(f"the value of {name} is not text at character {exc.start}", hint="correct it") from None


def _file_header(delimiter: bytes, filename: str) -> bytes:
    name = sent_filename(filename).encode()
    if not name or delimiter in name:
        raise UsageError("a file of this name cannot be sent", hint="rename it")
    disposition = b'\r\nContent-Disposition: form-data; name="filedata"; filename="%b"' % name
    return disposition + b"\r\nContent-Type: application/octet-stream\r\n\r\n"


class Sending:
    """The body of one request, handed over once, in pieces; `left` is the truth about how much of it has left.

    Call `prepare` before connecting, so that a file that cannot be opened costs no connection. The fields, the file's
    header and its first bytes are one piece, its last bytes and the closing boundary another, or the same.
    """

    def __init__(self, framed: Framed, body: Body) -> None:
        self.left = SentExtent.NOTHING
        self._framed = framed
        self._chunks = iter(body.chunks())
        self._first: bytes | None = None
        self._taken = 0
        self._started = False

    def prepare(self) -> None:
        """Read the first piece; raises what the Body raises, or FileChanged where it is longer or shorter than said."""
        self._first = self._take()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the request's body once; raises FileChanged, or what the Body raises, inside the file part."""
        if self._started:
            raise RuntimeError("a body is sent once")
        self._started = True
        if self._first is None:
            self.prepare()
        piece, self._first = self._framed.head + (self._first or b""), None
        while True:
            complete = self._taken == self._framed.size
            if complete:
                piece += self._framed.tail
            # Set before the piece is handed over: a write that fails may have sent any part of it.
            self.left = SentExtent.PART
            yield from _sliced(piece)
            if complete:
                # Reached only when the transport came back for more, hence had written the last piece.
                self.left = SentExtent.ALL
                return
            piece = self._take()

    def _take(self) -> bytes:
        """Read one chunk of the file; of the last one, only after the Body has said that there is no more."""
        size = self._framed.size
        chunk = next((chunk for chunk in self._chunks if chunk), b"")
        self._taken += len(chunk)
        if self._taken == size and chunk:
            self._taken += len(next((more for more in self._chunks if more), b""))
        if self._taken > size or (not chunk and self._taken < size):
            word = "more" if self._taken > size else "fewer"
            raise FileChanged(f"the file holds {word} bytes than the {size} that were promised")
        return chunk


def _sliced(piece: bytes) -> Iterator[bytes]:
    if len(piece) <= 2 * SLICE:
        yield piece
        return
    view = memoryview(piece)
    for start in range(0, len(view), SLICE):
        yield bytes(view[start : start + SLICE])

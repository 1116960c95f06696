"""Encode the form of one upload, and iterate over its body while it tracks how much has left.

The module does no I/O: the `Body` reads and checks the file, and `client` sends the bytes. Order and form of the fields
come from the interface (section 4.3). The framing is strict because each of these hangs a thread of the service
(observed): a quoted boundary, anything after the boundary, a body that ends inside a field, a field as the last part.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple
from urllib.parse import quote, urlencode

from assetsync.config.document.metadata import form_field
from assetsync.errors import FileChanged, Unusable, UsageError
from assetsync.model import Body, SentExtent, UploadRequest

Credential = Literal["api_key", "sessiontoken"]
"""Where the key is sent: in a form field, or in the URL parameter for file-only clients (interface section 4.3)."""

_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,70}")
# `"` must be sent as %22, because `\"` makes the upload fail (observed). A backslash at the end of a name would form
# `\"` with the closing quote. The service takes the text before a slash for a folder.
_UNSAFE_IN_NAME = re.compile(r'[\x00-\x1f\x7f-\x9f"\\/]')


class Framed(NamedTuple):
    """The form of one upload: `head`, then `size` bytes of the file, then `tail`.

    `query` is the query string for the URL; it is empty unless the credential is a sessiontoken.
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
    """Return the form for a file of `size` bytes (interface section 4.3): fields first, the file last.

    With `sessiontoken`, the four parameters of the file-only form go into the URL, and all others become form fields.
    Raise UsageError for a request that no form can carry.
    """
    if not _TOKEN.fullmatch(request.boundary):
        raise UsageError("a boundary of this form cannot be sent", hint="use 1 to 70 letters, digits, - and _")
    in_url, fields = parameters(request, api_key, credential=credential)
    delimiter = f"--{request.boundary}".encode("ascii")
    parts = []
    for name, value in fields:
        part = _field(name, value)
        if delimiter in part:
            raise UsageError(f"the value of {name} contains the form's boundary", hint="send it with another boundary")
        parts.append(part)
    filename = sent_filename(request.filename).encode()
    if not filename or delimiter in filename:
        raise UsageError("a file of this name cannot be sent", hint="rename it")
    file_header = b'\r\nContent-Disposition: form-data; name="filedata"; filename="%b"' % filename
    file_header += b"\r\nContent-Type: application/octet-stream\r\n\r\n"
    head = delimiter + delimiter.join((*parts, file_header))
    content_type = f"multipart/form-data; boundary={request.boundary}"
    return Framed(head, closing(request.boundary), content_type, size, urlencode(in_url))


def parameters(
    request: UploadRequest, api_key: str, *, credential: Credential = "api_key"
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the parameters of an upload in their order: those for the URL, and those for the form.

    Raise UsageError if the name of a metadata field cannot be sent.
    """
    options = request.options
    leading = [
        ("fa", "c.apiupload"),
        (credential, api_key),
        ("destfolderid", request.destfolderid),
        # Always sent, because the service extracts by default.
        ("zip_extract", "1" if options.zip_extract else "0"),
    ]
    fields: list[tuple[str, str]] = []
    if request.meta:
        fields += [("metadata", "1"), ("meta_lang_id_r", request.language)]
        for name, value in request.meta:
            try:
                fields.append((form_field(name), value))
            except Unusable as exc:
                problem = f"the metadata field {name!r} cannot be sent"
                raise UsageError(problem, hint="use 1 to 64 letters, digits and _") from exc
    if options.skip_event:
        fields.append(("skip_event", ",".join(options.skip_event)))
    if options.debug:
        fields.append(("debug", "1"))
    texts = ("upl_template", "emailto", "redirectto", "redirecttoparams")
    fields += [(name, value) for name in texts if (value := getattr(options, name)) is not None]
    return ([], leading + fields) if credential == "api_key" else (leading, fields)


def closing(boundary: str) -> bytes:
    """Return the bytes that end a body after its file; a cut upload may leave a part of them in a damaged asset."""
    return f"\r\n--{boundary}--\r\n".encode("ascii")


def sent_filename(filename: str) -> str:
    """Return the name as sent between the quotes of the file part; the service uses it as the file's name."""
    escaped = _UNSAFE_IN_NAME.sub(lambda unsafe: quote(unsafe[0], safe=""), filename)
    return escaped.encode("utf-8", "replace").decode("utf-8")


def _field(name: str, value: str) -> bytes:
    """Return the bytes of a field between two delimiters; raises UsageError if the value is not text."""
    part = f'\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
    try:
        return part.encode("utf-8")
    except UnicodeEncodeError as exc:
        # `from None`: the original error contains the whole value, which may be the key.
        raise UsageError(f"the value of {name} is not text at character {exc.start}", hint="correct it") from None


class Sending:
    """The body of one request, iterated once, in pieces; `left` records how much of it has left.

    Call `prepare` before connecting, so that an unreadable file costs no connection. The first piece holds the fields,
    the file's header and its first chunk; the last piece holds the file's last chunk and the closing boundary. A body
    whose file has one chunk is one piece.
    """

    def __init__(self, framed: Framed, body: Body) -> None:
        self.left = SentExtent.NOTHING
        self._framed = framed
        self._chunks = body.chunks()
        self._first: bytes | None = None
        self._taken = 0
        self._started = False

    def prepare(self) -> None:
        """Read the first chunk; raises the errors of the Body, and FileChanged if its length is not the framed size."""
        self._first = self._take()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the request's body once; raises FileChanged and the errors of the Body inside the file part."""
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
            # Set before the piece is yielded, because a failed write may have sent any part of the piece.
            self.left = SentExtent.PART
            yield piece
            if complete:
                # Reached only when the transport asks for the next piece, so it has written the last piece.
                self.left = SentExtent.ALL
                return
            piece = self._take()

    def close(self) -> None:
        """End the reading of the file, of which a thread may read the next chunks ahead."""
        self._chunks.close()

    def _take(self) -> bytes:
        """Return one chunk of the file; the last chunk only after the Body has ended.

        Raise FileChanged if the Body is longer or shorter than the framed size.
        """
        size = self._framed.size
        chunk = next((chunk for chunk in self._chunks if chunk), b"")
        self._taken += len(chunk)
        if self._taken == size and chunk:
            self._taken += len(next((more for more in self._chunks if more), b""))
        if self._taken > size or (not chunk and self._taken < size):
            word = "more" if self._taken > size else "fewer"
            raise FileChanged(f"the file holds {word} bytes than the {size} that were promised")
        return chunk

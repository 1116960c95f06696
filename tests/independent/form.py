"""A multipart form as the service reads it, whole or cut; what a client does against the interface is collected."""

import re
from dataclasses import dataclass, field

from .dialect import names

FIELDS = {
    *names(
        "fa api_key sessiontoken destfolderid debug emailto metadata meta_lang_id_r redirectto redirecttoparams "
        "skip_event upl_template zip_extract"
    )
}


@dataclass
class Form:
    """The fields as text, the file's name (None: no file part came) and bytes, and whether its boundary followed."""

    said: dict[str, str] = field(default_factory=dict)
    name: str | None = None
    content: bytes = b""
    closed: bool = False
    complaints: list[str] = field(default_factory=list)


def read_form(content_type: str, body: bytes, *, whole: bool) -> Form:
    """Take a body apart (interface section 4.3); `whole`: all bytes that its length announced came."""
    form = Form()
    found = re.fullmatch(r"multipart/form-data; ?boundary=([A-Za-z0-9'()+_,./:=?-]{1,70})", content_type)
    if not found:
        form.complaints.append(f"content type {content_type!r}")
        return form
    rest, delimiter = b"\r\n" + body, b"\r\n--" + found[1].encode()
    while rest.startswith(delimiter + b"\r\n"):
        head, _, rest = rest[len(delimiter) + 2 :].partition(b"\r\n\r\n")
        end = rest.find(delimiter)
        value, rest = (rest, b"") if end < 0 else (rest[:end], rest[end:])
        _take(form, dict(re.findall(r'; (\w+)="([^"]*)"', head.decode())), value, closed=end >= 0)
    if whole and rest.rstrip(b"\r\n") != delimiter + b"--":
        form.complaints.append("a body without its last boundary")
    metadata = [key for key in form.said if key.startswith("meta_")]
    form.complaints += [f"upload field {key!r}" for key in form.said.keys() - FIELDS - {*metadata}]
    if metadata and (form.said.get("metadata") != "1" or "meta_lang_id_r" not in form.said):
        form.complaints.append("metadata without metadata=1 and a language")
    return form


def _take(form: Form, words: dict[str, str], value: bytes, *, closed: bool) -> None:
    if "filename" in words:
        form.name, form.content, form.closed = words["filename"], value, closed
        if words.get("name") != "filedata":
            form.complaints.append(f"a file in the field {words.get('name')!r}")
        return
    if form.name is not None:
        form.complaints.append("a field after the file")
    if not closed:
        form.complaints.append("a body cut inside the fields")
    form.said[words.get("name", "")] = value.decode()

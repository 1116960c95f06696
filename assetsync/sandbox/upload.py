"""The upload operation (interface section 4.3): parse the form, refuse it, with the checks in order, or store it.

A request that was cut in its file part is stored, too, as a damaged asset (observed). An archive is unpacked. Receiving
the body is left to `app`, writing the answer to `answers`.
"""

import hashlib
import mmap
import re
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email.message import Message
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

from assetsync.sandbox.faults import Active, FaultKind
from assetsync.sandbox.settings import SandboxSettings
from assetsync.sandbox.store import NewAsset, Store, extension_of, filetype_of, new_id, rewritten

# An upload with a name of 304 characters failed (observed); the exact limit is unknown.
_LONGEST_NAME: Final = 255
LOGIN_NOT_VALID: Final = (
    "Login not valid! Check user API Key and ensure with your administrator that the user has appropriate permissions"
    " for access."
)
_MISSING: Final = "Upload failed Error at line 1, column 33"
_CREDENTIALS: Final = ("api_key", "sessiontoken")
_CUSTOM_FIELD: Final = "metacf_"
_PREVIEW: Final = ".jpg"
"""The ending that the service appends to the name of a video, for its preview (observed)."""
_MOST_MEMBERS: Final = 10_000
_MOST_UNPACKED_BYTES: Final = 4 * 1024 * 1024 * 1024
_CHUNK: Final = 256 * 1024
_DAMAGED_ARCHIVE: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)
_MOST_FIELD_BYTES: Final = 4 * 1024 * 1024
_MOST_HEADER_BYTES: Final = 64 * 1024
_PLAIN: Final = re.compile(r"multipart/form-data\s*;\s*boundary=[^\s\";,]+", re.IGNORECASE)
_HEADERS: Final = re.compile(rb"((?:[!-9;-~]+:[^\r\n]*\r\n)*)\r\n")
_DISPOSITION: Final = re.compile(r"^content-disposition:.*", re.IGNORECASE | re.MULTILINE)
_QUOTED: Final = r'"((?:[^"\\]|\\.)*)"'
_NAME: Final = re.compile(rf";\s*name={_QUOTED}", re.IGNORECASE)
_FILENAME: Final = re.compile(rf";\s*filename={_QUOTED}", re.IGNORECASE)

_TEXT_COLUMNS: Final = {
    "img": ("img_description", "img_keywords"),
    "vid": ("vid_description", "vid_keywords", "vid_title"),
    "aud": ("aud_description", "aud_keywords"),
    "doc": ("file_desc", "file_keywords"),
    "other": ("file_desc", "file_keywords"),
}
_OF_PICTURES: Final = (
    "authorsposition captionwriter category ciadrcity ciadrctry ciadrextadr ciadrpcode ciadrregion ciemailwork"
    " citelwork ciurlwork city colorspace copyrightstatus country countrycode creator credit datecreated description"
    " headline instructions intellectualgenre location resunit rights scene source state subjectcode"
    " supplementalcategories title transmissionreference urgency usageterms webstatement xres yres"
)
_PICTURE_COLUMNS: Final = frozenset(_OF_PICTURES.split())
_FILE_NAME: Final = "meta_file_name"


def boundary_of(content_type: str) -> bytes | None:
    """Return the boundary of a multipart/form-data header, None for any other content type."""
    header = Message()
    header["Content-Type"] = content_type
    return (header.get_boundary() or "").encode() if header.get_content_type() == "multipart/form-data" else None


def is_plain(content_type: str) -> bool:
    """Return whether the boundary of a form is a plain token at the end of the header; True if there is no boundary.

    A live installation never answers a form with any other boundary, until it is restarted (observed).
    """
    return boundary_of(content_type) is None or _PLAIN.fullmatch(content_type.strip()) is not None


@dataclass(slots=True)
class Form:
    """A multipart body: its fields, and the name, the bytes and the completeness of its file part.

    `sent_name` is None without a file part. `late` is set if a part follows the file part (forbidden by interface
    section 4.3), `torn` if the body was cut outside the file part or cannot be parsed.
    """

    fields: dict[str, str] = field(default_factory=dict)
    sent_name: str | None = None
    content: memoryview | bytes = b""
    complete: bool = False
    late: bool = False
    torn: bool = False


def read_form(spool: Path, content_type: str) -> Form:
    """Parse a spooled body; the file is mapped, so that the kernel can drop its pages from memory at any time.

    A body of the type application/x-www-form-urlencoded has fields and no file part.
    """
    boundary = boundary_of(content_type)
    if content_type.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded":
        with spool.open("rb") as stream:
            text = stream.read(_MOST_FIELD_BYTES).decode("utf-8", "replace")
        return Form(dict(parse_qsl(text, keep_blank_values=True)))
    if not boundary:
        return Form()
    with spool.open("rb") as stream:
        empty = spool.stat().st_size == 0
        return parse_form(b"" if empty else mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), boundary)


def parse_form(body: bytes | mmap.mmap, boundary: bytes) -> Form:
    """Parse a body, complete or cut; the content of the file part is a view of the body.

    A part of an incomplete last boundary belongs to the file, as in the live service (observed).
    """
    form = Form()
    ends = rb"--" + re.escape(boundary) + rb"(--|\r\n)"
    delimiter = re.compile(rb"[\r\n]*" + ends).match(body)
    next_delimiter = re.compile(rb"\r\n" + ends)
    field_bytes = 0
    while delimiter is not None and delimiter[1] != b"--":
        form.late = form.late or form.sent_name is not None
        headers = _HEADERS.match(body, delimiter.end(), delimiter.end() + _MOST_HEADER_BYTES)
        if headers is None:
            delimiter = None
            break
        disposition = _DISPOSITION.search(headers[1].decode("utf-8", "replace"))
        said = disposition[0] if disposition else ""
        name, filename = _NAME.search(said), _FILENAME.search(said)
        start = headers.end()
        delimiter = next_delimiter.search(body, start)
        end = delimiter.start() if delimiter else len(body)
        if name and not filename:
            field_bytes += end - start
            if field_bytes > _MOST_FIELD_BYTES:
                delimiter = None
            elif delimiter:
                form.fields[name[1]] = body[start:end].decode("utf-8", "replace")
        elif name and filename and name[1].lower() == "filedata" and form.sent_name is None:
            form.sent_name = filename[1]
            form.content = memoryview(body)[start:end]
            form.complete = delimiter is not None
            if delimiter is None:
                return form
    form.torn = delimiter is None
    return form


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one upload; for a refused duplicate, `assetid` is the rewritten file name (observed).

    `renamed` is the new name, without its extension, from a workflow.
    """

    message: str
    code: int = 1
    assetid: str = ""
    filetype: str = ""
    renamed: str = ""


def key_is_valid(given: Mapping[str, str], settings: SandboxSettings, active: Active) -> bool:
    """Return whether the credential is valid; in an upload's URL its name is sessiontoken (interface section 5)."""
    if FaultKind.KEY_REFUSED in active:
        return False
    return next((given[name] for name in _CREDENTIALS if name in given), None) == settings.api_key


class Uploads:
    """Refuse or store uploads."""

    def __init__(self, store: Store, settings: SandboxSettings) -> None:
        self._store = store
        self._settings = settings

    def accept(self, given: Mapping[str, str], form: Form, length: int, active: Active) -> Result | None:
        """Refuse or store one upload of `length` bytes; return None for a request that gets the login page."""
        limit = self._settings.max_content_length
        if limit is not None and length > limit:
            return Result("The content exceeds the maximum content-length of an HTTP request", code=10001)
        if given.get("fa", "").lower() != "c.apiupload":
            return None
        if not key_is_valid(given, self._settings, active):
            return Result(LOGIN_NOT_VALID)
        if form.torn:
            return Result("Upload failed Error at line 1, column 1 the form ended too early.")
        if form.sent_name is None:
            return Result("Missing 'filedata' parameter")
        if form.late:
            return Result("Upload failed The form fields must precede the field 'filedata'")
        if FaultKind.FOLDER_CASE in active:
            spelled = {folder.lower(): folder for folder in self._store.folders()}
            named = given.get("destfolderid", "")
            given = {**given, "destfolderid": spelled.get(named.lower(), named)}
        # The service keeps only the last component (observed).
        name = re.split(r"[/\\]", form.sent_name)[-1]
        return self._file_refusal(given, name, form) or self._stored(given, name, form, active)

    def _file_refusal(self, given: Mapping[str, str], name: str, form: Form) -> Result | None:
        folder = given.get("destfolderid")
        language = given.get("meta_lang_id_r", "")
        if self._settings.documented and given.get("metadata") == "1" and not language.isdecimal():
            return Result(f"{_MISSING} arguments.thestruct.meta_lang_id_r doesn't exist.")
        if folder is None:
            return Result(f"{_MISSING} arguments.thestruct.destfolderid doesn't exist.")
        if not self._store.has_folder(folder):
            return Result(f"Specified folder '{folder}' does not exist")
        if '\\"' in str(form.sent_name) or len(name) > _LONGEST_NAME:
            return Result("Upload failed Error at line 1, column 1 the file name cannot be used.")
        if not form.content or not name:
            return Result("Upload failed There was no appropriate FILE found in the upload")
        if self._settings.duplicate_check:
            md5 = hashlib.md5(form.content, usedforsecurity=False).hexdigest().upper()
            if self._store.has_content(md5):
                return Result("File already exists in Razuna", assetid=rewritten(name))
        return None

    def _stored(self, given: Mapping[str, str], name: str, form: Form, active: Active) -> Result:
        assetid = new_id()
        result = Result("success", 0, assetid, filetype_of(extension_of(name), self._settings.file_kinds))
        if max(name) > "\uffff":
            # The service reports success and an identifier, but never stores a name beyond the basic plane (observed).
            return result
        longest = self._settings.longest_name or len(name) + len(_PREVIEW)
        if result.filetype == "vid" and len(name + _PREVIEW) > longest:
            # The same: no column holds the name.
            return result
        fields, is_whole = self._kept(given)
        is_stuck = result.filetype != "img" and (len(name) > longest or not is_whole)
        if self._settings.renames:
            result = replace(result, renamed=f"workflow-{assetid[:8]}")
            name = f"{result.renamed}.{extension_of(name)}".rstrip(".")
        if FaultKind.NAMES_LOST in active:
            name = f"{assetid}.{extension_of(name)}".rstrip(".")
        if self._settings.refuses_fields:
            name = fields.get(_FILE_NAME) or name
        fields, is_processed = kept_fields(fields, result.filetype, self._settings)
        hidden = active.get(FaultKind.INVISIBLE)
        # The folder's rights are not looked at before the upload is stored, and its metadata is lost (observed).
        may_describe = self._settings.right_on(given["destfolderid"]) == "write"
        asset = NewAsset(
            id=assetid,
            folder_id=given["destfolderid"],
            filename=name,
            content=(form.content,),
            fields=fields if may_describe else {},
            damaged=not form.complete,
            hidden_for=hidden.seconds if hidden else 0.0,
            never_processed=FaultKind.NEVER_PROCESSED in active or is_stuck or not is_processed,
        )
        self._store.add(asset)
        if is_archive(name) and form.complete and given.get("zip_extract", "1").lower() in ("1", "true", "yes"):
            self._unpack(asset)
        return result

    def _kept(self, given: Mapping[str, str]) -> tuple[dict[str, str], bool]:
        """Return the fields to store, and whether these are all: the first unknown custom field ends the metadata."""
        known, kept, is_whole = self._settings.custom_fields, {}, True
        for name, value in given.items():
            is_custom = name.startswith(_CUSTOM_FIELD)
            is_whole = is_whole and (known is None or not is_custom or name.removeprefix(_CUSTOM_FIELD) in known)
            if name not in _CREDENTIALS and (is_whole or not name.startswith(("meta_", _CUSTOM_FIELD))):
                kept[name] = value
        return kept, is_whole

    def _unpack(self, archive: NewAsset) -> None:
        """Store the members of an archive as assets with identifiers and subfolders of their own (observed).

        Stop at the first damaged file. Skip folders, empty and encrypted files, and files beyond the limits of this
        module. The name of a member never becomes part of a path on disk.
        """
        total = 0
        with suppress(*_DAMAGED_ARCHIVE), zipfile.ZipFile(self._store.content(archive.id)) as opened:
            for info in opened.infolist()[:_MOST_MEMBERS]:
                total += info.file_size
                parts = [part for part in info.filename.split("/") if part not in ("", ".", "..")]
                unusable = info.is_dir() or not parts or info.file_size == 0 or info.flag_bits & 1
                if unusable or total > _MOST_UNPACKED_BYTES:
                    continue
                folder = archive.folder_id
                for name in parts[:-1]:
                    folder = self._store.subfolder(folder, name)
                with opened.open(info) as source:
                    content = iter(partial(source.read, _CHUNK), b"")
                    self._store.add(
                        replace(archive, id=new_id(), folder_id=folder, filename=parts[-1], content=content, fields={})
                    )


def kept_fields(fields: Mapping[str, str], filetype: str, settings: SandboxSettings) -> tuple[dict[str, str], bool]:
    """Return the form fields whose values the database keeps, and whether the asset is processed (observed).

    A name with an underscore is a column of the texts, any other a column of pictures; a column that is not there ends
    the whole update of a picture, and the processing of any other asset.
    """
    kept = dict(fields)
    columns = {
        name: name.removeprefix("meta_").lower()
        for name in fields
        if name.startswith("meta_") and name not in ("meta_lang_id_r", _FILE_NAME)
    }
    if fields.get("metadata", "").lower() not in ("1", "true", "yes"):
        return kept, True
    is_picture, is_processed = filetype == "img", True
    lost: set[str] = set()
    if settings.refuses_fields:
        of_texts = {name for name, column in columns.items() if "_" in column}
        of_pictures = columns.keys() - of_texts
        has_unknown = any(columns[name] not in _TEXT_COLUMNS[filetype] for name in of_texts)
        if not is_picture:
            lost, is_processed = of_pictures, not has_unknown
        elif has_unknown:
            lost = set(columns)
        elif any(columns[name] not in _PICTURE_COLUMNS for name in of_pictures):
            lost = of_pictures
    if settings.bmp_only:
        beyond = {name for name in fields if max(fields[name], default="") > "\uffff"}
        beyond &= columns.keys() | {name for name in fields if name.startswith("metacf_")}
        is_processed = is_processed and (is_picture or not beyond)
        lost |= beyond
    return {name: value for name, value in kept.items() if name not in lost}, is_processed


def is_archive(name: str) -> bool:
    """Return whether a file of this name may be unpacked."""
    return extension_of(name) == "zip"

"""Derive what the service derives from a file's name and first bytes: a rewritten name, the kind, a picture's size.

Pure: reading and storing are left to `upload` and `store`.
"""

import re
import unicodedata
from typing import Final

# An upload with a name of 304 characters failed (observed); the exact limit is unknown.
LONGEST_NAME: Final = 255

_TYPES: Final = {
    "img": "ai bmp cr2 dng eps gif heic jpe jpeg jpg nef png psd svg tga tif tiff webp",
    "vid": "3gp avi flv m4v mkv mov mp4 mpeg mpg mxf ogv webm wmv",
    "aud": "aac aif aiff flac m4a mp3 oga ogg wav wma",
    "doc": "csv doc docx html htm md odp ods odt pdf ppt pptx rtf txt xls xlsx xml",
}
_TYPE_OF: Final = {extension: kind for kind, names in _TYPES.items() for extension in names.split()}
_DOCTYPES: Final = {"pdf": ("pdf",), "xls": ("xls", "xlsx"), "doc": ("doc", "docx")}

_PNG: Final = b"\x89PNG\r\n\x1a\n"


def without_folder(sent: str) -> str:
    """Return the name without folders (observed: the service keeps only the last component)."""
    return re.split(r"[/\\]", sent)[-1]


def rewritten(name: str) -> str:
    """Return the name for `filename_org`: blanks become `_`, accents are folded, others are dropped (observed)."""
    folded = unicodedata.normalize("NFKD", name.replace(" ", "_"))
    return re.sub(r"[^A-Za-z0-9._-]", "", folded)


def extension_of(name: str) -> str:
    """Return the text after the last dot in lower case; empty without a dot."""
    return name.rpartition(".")[2].lower() if "." in name else ""


def filetype_of(extension: str) -> str:
    """Return img, vid, aud, doc or other (interface section 4.3)."""
    return _TYPE_OF.get(extension, "other")


def doctype_extensions(doctype: str) -> tuple[str, ...]:
    """Return the extensions of a doctype; for `other`, the extensions that it excludes (interface section 4.1)."""
    if doctype == "other":
        return tuple(extension for group in _DOCTYPES.values() for extension in group)
    return _DOCTYPES.get(doctype, ())


def beyond_basic_plane(name: str) -> bool:
    """Return whether a character is outside the basic plane; the service silently loses such files (observed)."""
    return any(ord(character) > 0xFFFF for character in name)  # noqa: PLR2004


def picture_size(head: bytes) -> tuple[int, int]:
    """Return width and height of a PNG, GIF or JPEG from its first bytes; (0, 0) if they do not contain them."""
    if head.startswith(_PNG) and len(head) >= 24:  # noqa: PLR2004 - the IHDR chunk is at a fixed offset
        return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
    if head.startswith((b"GIF87a", b"GIF89a")) and len(head) >= 10:  # noqa: PLR2004
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head.startswith(b"\xff\xd8"):
        return _jpeg_size(head)
    return 0, 0


def _jpeg_size(head: bytes) -> tuple[int, int]:
    """Walk the segments up to the frame header, which holds height and width."""
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:  # noqa: PLR2004
        marker = head[at + 1]
        # SOF0 to SOF15, without DHT (C4), JPG (C8) and DAC (CC), whose markers are in the same range.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # noqa: PLR2004
            return int.from_bytes(head[at + 7 : at + 9]), int.from_bytes(head[at + 5 : at + 7])
        at += 2 + int.from_bytes(head[at + 2 : at + 4])
    return 0, 0

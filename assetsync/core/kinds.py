"""Decide which kind of asset a file becomes: guess it by the ending of its name, and learn it from the answers.

The kind decides the names of the form fields for description and keywords (`core.metadata`). Pure: what was learned of
an ending is a value. Keeping it, and letting one file of a new ending go first, is left to `sync.upload.kinds`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_ENDINGS = {
    "img": "ai arw bmp cr2 cr3 crw dcr dng emf eps gif heic heif ico indd jfif jp2 jpe jpeg jpg mef mos mrw nef "
    "nrw orf pcx pef pict png ppm psb psd raf raw rw2 sr2 srf svg tga tif tiff webp x3f",
    "vid": "3g2 3gp asf avi divx dv f4v flv m2t m2ts m2v m4v mkv mov mp4 mpe mpeg mpg mts mxf ogv qt rm swf ts "
    "vob webm wmv",
    "aud": "aac aif aifc aiff amr ape au flac m4a m4b mid midi mp2 mp3 mpa oga ogg opus ra snd wav wma",
    "doc": "csv doc docm docx dot dotx epub htm html key md numbers odg odp ods odt pages pdf pot potx pps ppsx "
    "ppt pptm pptx rtf tsv txt vsd vsdx xls xlsb xlsm xlsx xml",
}
_KIND_OF = {ending: kind for kind, endings in _ENDINGS.items() for ending in endings.split()}

PATIENCE = 60.0
"""Seconds for which files of an ending wait for the first ones of them; after that the present rule decides."""

PAUSE = 2.0
"""Seconds until a file that waits for a first one is looked at again."""


def ending_of(path: bytes) -> str:
    """Return the text after the last dot of a file's name or path, in lower case; "" without a dot."""
    _, dot, ending = path.rpartition(b"/")[2].rpartition(b".")
    return ending.decode("utf-8", "surrogateescape").lower() if dot else ""


def guess_kind(path: bytes) -> str:
    """Return `img`, `vid`, `aud`, `doc` or `other` by the ending of a file's name or path, without regard to case."""
    return guess_kind_of(ending_of(path))


def guess_kind_of(ending: str) -> str:
    """Return the same by an ending that `ending_of` returned."""
    return _KIND_OF.get(ending, "other")


@dataclass(frozen=True, slots=True)
class Ending:
    """What the answers of a service show of an ending.

    `kind` is the learned kind, None while the guess holds. `contrary` is the last answer, if it was against the rule.
    `is_settled`: an answer has confirmed the rule, or two have made it.
    """

    kind: str | None = None
    contrary: str | None = None
    is_settled: bool = False

    def answered(self, kind: str, rule: str, fields_table: Mapping[str, tuple[str, str]]) -> "Ending":
        """Return what is known after an answer of this `kind` to a file for which `rule` is the present kind.

        Kinds with the same field names in `fields_table` count as equal. Two equal answers in a row against the rule
        become the rule: a single damaged file proves nothing.
        """
        if fields_table[kind] == fields_table[rule]:
            return Ending(self.kind, None, is_settled=True)
        if self.contrary is not None and fields_table[kind] == fields_table[self.contrary]:
            return Ending(kind, None, is_settled=True)
        return Ending(self.kind, kind, self.is_settled)

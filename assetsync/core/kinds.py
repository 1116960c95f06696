"""The kind of an asset, guessed from its ending before the service names it.

The guess only chooses metadata field names; the answer's `filetype` tells the truth, and a difference is shown as drift
by `verify`. The endings are those that a service of this kind processes as pictures, videos, sounds and documents.
"""

_ENDINGS = {
    "img": "ai arw bmp cr2 cr3 crw dcr dng emf eps gif heic heif ico indd jfif jp2 jpe jpeg jpg mef mos mrw nef "
    "nrw orf pcx pef pict png ppm psb psd raf raw rw2 sr2 srf svg tga tif tiff webp x3f",
    "vid": "3g2 3gp asf avi divx dv f4v flv m2t m2ts m2v m4v mkv mov mp4 mpe mpeg mpg mts mxf ogv qt rm swf ts "
    "vob webm wmv",
    "aud": "aac aif aifc aiff amr ape au flac m4a m4b mid midi mp2 mp3 mpa oga ogg opus ra snd wav wma",
    "doc": "csv doc docm docx dot dotx epub htm html key md numbers odg odp ods odt pages pdf pot potx pps ppsx "
    "ppt pptm pptx rtf tsv txt vsd vsdx xls xlsb xlsm xlsx xml",
}
_KIND_OF = {ending.encode(): kind for kind, endings in _ENDINGS.items() for ending in endings.split()}


def guess_kind(name: bytes) -> str:
    """Guess `img`, `vid`, `aud`, `doc` or `other` from the ending of a file's name or path, without regard to case."""
    return _KIND_OF.get(name.rpartition(b".")[2].lower(), "other") if b"." in name else "other"

"""Read sidecars, merge the metadata of several levels, and turn the result into form fields.

Pure: bytes and values go in, values come out. Reading the files is left to the tree, sending the fields to the service.
Every value stays the text that was written; only the placeholders in a mapping's own metadata are replaced.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import ValidationError

from assetsync.config.document.loader import NotPlain, Problem, load
from assetsync.config.document.metadata import (
    CUSTOM_FIELD,
    KINDS,
    PLACEHOLDER,
    TEXT_BYTES,
    FieldNames,
    Sidecar,
    is_never_sent,
    unknown_custom_field,
)
from assetsync.config.document.problems import dotted, problems_of
from assetsync.core.names import printable, shown_text
from assetsync.errors import SidecarError
from assetsync.model import Mapping as FolderMapping
from assetsync.model import Metadata, UploadOptions
from assetsync.text import plural

MAX_BYTES = 64 * 1024
MAX_TOGETHER = 256 * 1024
"""Most characters of metadata for a file, all levels together: the fields of a form are held and sent in one piece."""

SUFFIX = b".yaml"
FOLDER_SIDECAR = b"_folder.yaml"
_XMP = b".xmp"
XMP_ENDINGS = tuple(dict.fromkeys(bytes(ending) for ending in product(*zip(_XMP, _XMP.upper(), strict=True))))
"""The ending of XMP files in all letter cases, the usual one first."""

DEFAULT_LANGUAGE = "1"
_STANDS_FOR = {"{{": "{", "}}": "}"}
# Marks that only follow another character are left out with it.
_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff][\u200d\ufe0e\ufe0f]*")
_ONLY_OF = {
    "img": "pictures", "vid": "videos", "aud": "audio files", "doc": "documents", "other": "documents",
}  # fmt: skip
_KEYS = [field.name for field in fields(Metadata) if field.name not in ("meta", "custom")]

NO_CUSTOM_FIELDS: Mapping[str, str] = MappingProxyType({})
"""The custom fields of a configuration that names none."""


def is_sidecar_name(name: bytes) -> bool:
    """Return whether a file of this name is a sidecar where sidecars are on; with an upper-case ending it is not."""
    return name.endswith(SUFFIX)


def is_xmp_name(name: bytes) -> bool:
    """Return whether a file of this name is an XMP file, in any letter case."""
    return name[-4:].lower() == _XMP


def xmp_names(name: bytes, endings: Sequence[bytes] = XMP_ENDINGS) -> tuple[bytes, ...]:
    """Return the names that the XMP file of a file may have; the first that exists is the only one that counts.

    `photo.jpg.xmp` is for `photo.jpg` alone, `photo.xmp` for every file of that stem.
    """
    stem = name.rpartition(b".")[0]
    return tuple(base + ending for base in ((name, stem) if stem else (name,)) for ending in endings)


def own_sidecars(name: bytes, mapping: FolderMapping, endings: Sequence[bytes] = XMP_ENDINGS) -> tuple[bytes, ...]:
    """Return the names that the own sidecars of a file of this name may have, its XMP file included."""
    return (sidecar_for(name),) * mapping.sidecars + (xmp_names(name, endings) if mapping.xmp else ())


def described_by_xmp(path: bytes) -> bytes:
    """Return the path of an XMP file without its ending: a file that it describes, and the stem of all others."""
    return path[: -len(_XMP)]


def sidecar_for(path: bytes) -> bytes:
    """Return the path of the sidecar of the file at `path`."""
    return path + SUFFIX


def folder_sidecars(path: bytes) -> tuple[bytes, ...]:
    """Return the paths of the folder sidecars that apply to the file at `path`, from the root down."""
    *folders, _name = path.split(b"/")
    return tuple(b"/".join((*folders[:depth], FOLDER_SIDECAR)) for depth in range(len(folders) + 1))


def parse_sidecar(data: bytes, path: str, custom_fields: Mapping[str, str] = NO_CUSTOM_FIELDS) -> Metadata:
    """Return the metadata in the bytes of the sidecar at `path`; an empty sidecar has none.

    `custom_fields` holds the ids of the custom fields by the names that a sidecar may use.
    Raise SidecarError, with line and column, for the first mistake in it; the message never quotes the content.
    """
    if len(data) > MAX_BYTES:
        raise SidecarError(
            printable(path), f"it is larger than {MAX_BYTES // 1024} KiB", hint="check that this is a sidecar"
        )
    try:
        document = load(data, none_words=False)
    except NotPlain as exc:
        raise _error(path, exc.problem) from exc
    if document.problems:
        raise _error(path, document.problems[0])
    if document.value in (None, ""):
        # The file holds only comments, or only `---`.
        return Metadata()
    try:
        sidecar = Sidecar.model_validate(document.value)
    except ValidationError as exc:
        found = problems_of(exc, document, Sidecar)
        raise _error(path, min(found, key=lambda problem: (problem.line, problem.column))) from None
    for name in sidecar.custom:
        at = ("custom", name)
        if (unknown := unknown_custom_field(name, custom_fields)) is not None:
            raise _error(path, Problem(at, *unknown, *document.mark(at)))
    return replace(
        sidecar.metadata(),
        zip_extract=sidecar.upload.zip_extract,
        skip_event=sidecar.upload.skip_event,
        upl_template=sidecar.upload.upl_template,
    )


def _error(path: str, problem: Problem) -> SidecarError:
    key = dotted(problem.path)
    text = f"{key}: {problem.problem}" if key else problem.problem
    return SidecarError(printable(path), text, line=problem.line, column=problem.column, hint=problem.hint)


def merge(levels: Sequence[Metadata]) -> Metadata:
    """Merge the levels, the most general first: a later level replaces a key, and in `meta` and `custom` a name.

    An empty text replaces too: it removes the value of a level above.
    """
    merged: dict[str, Any] = {}
    meta: dict[str, str] = {}
    custom: dict[str, str] = {}
    for level in levels:
        meta.update(level.meta)
        custom.update(level.custom)
        merged.update((key, value) for key in _KEYS if (value := getattr(level, key)) is not None)
    return Metadata(**merged, meta=tuple(meta.items()), custom=tuple(custom.items()))


def expand(metadata: Metadata, path: bytes) -> Metadata:
    """Replace `{dir}`, `{dirs}` and `{stem}` in the metadata of a mapping for the file at `path` (from the root).

    `dir` is the name of the file's folder; `dirs` is all folders from the root down, joined with `/` (in keywords with
    `,`, so that each becomes a keyword); `stem` is the file's name without its ending. Only for the level of a mapping,
    before `merge`: braces in a sidecar stay braces.
    """
    *folders, name = (shown_text(part) for part in path.split(b"/"))
    stem = name.rpartition(".")[0] or name
    parts = {"dir": folders[-1] if folders else "", "dirs": "/".join(folders), "stem": stem}
    in_keywords = {**parts, "dirs": ",".join(folders)}

    keywords = metadata.keywords
    if isinstance(keywords, tuple):
        filled = (_fill(item, in_keywords) for item in keywords)
        keywords = tuple(keyword for keyword in filled if keyword)
    elif keywords is not None:
        keywords = _fill(keywords, in_keywords)
    return replace(
        metadata,
        description=None if metadata.description is None else _fill(metadata.description, parts),
        keywords=keywords,
        location=None if metadata.location is None else _fill(metadata.location, parts),
        meta=tuple((name, _fill(value, parts)) for name, value in metadata.meta),
        custom=tuple((name, _fill(value, parts)) for name, value in metadata.custom),
    )


def _fill(text: str, parts: Mapping[str, str]) -> str:
    """Replace the placeholders in a text that the configuration has checked."""
    return PLACEHOLDER.sub(lambda found: _STANDS_FOR.get(found.group()) or parts[found.group(1)], text)


def form_fields(
    metadata: Metadata,
    kind: str,
    fields_table: Mapping[str, tuple[str, str]],
    custom_fields: Mapping[str, str] = NO_CUSTOM_FIELDS,
) -> tuple[tuple[str, str], ...]:
    """Return the (name without `meta_`, value) pairs to send for a file of this kind (interface section 4.3).

    `fields_table` holds the names of the description and keywords fields by kind, `custom_fields` the ids of the custom
    fields by name; the name of a custom field's pair is its whole form field. Each name is sent once: an entry of
    `meta` takes precedence over all other keys. An empty value is not sent.
    """
    description, keywords = fields_table[kind]
    joined = ",".join(metadata.keywords) if isinstance(metadata.keywords, tuple) else metadata.keywords
    custom = {CUSTOM_FIELD + custom_fields[name]: value for name, value in metadata.custom}
    fields = {description: metadata.description, keywords: joined, "location": metadata.location}
    fields |= custom | dict(metadata.meta)
    return tuple((name, value) for name, value in fields.items() if value)


class FieldMistake(NamedTuple):
    """A field that keeps a file from being sent: its name, the problem and the fix."""

    name: str
    problem: str
    hint: str


class Sendable(NamedTuple):
    """The fields of a file that are sent, what is left out, in words, and the first mistake in them."""

    fields: tuple[tuple[str, str], ...]
    left_out: tuple[str, ...] = ()
    mistake: FieldMistake | None = None


NOTHING = Sendable(())
"""What is sent for a file without metadata."""


def sendable(
    fields: Sequence[tuple[str, str]],
    kind: str,
    names: FieldNames,
    proven: Callable[[str], Collection[str]] = lambda _kind: (),
) -> Sendable:
    """Return what of the fields that `form_fields` returned is sent for a file of this kind (observed).

    A field that only other kinds have is left out, and so are characters that the service cannot hold. A field that
    no kind has is a mistake, unless `proven` returns it among those with which assets of a kind were processed; so is a
    value that is too long.
    """
    sent: list[tuple[str, str]] = []
    left_out: list[str] = []
    mistake: FieldMistake | None = None
    for name, given in fields:
        kinds = names.kinds_of(name)
        if not kinds and not is_never_sent(name):
            kinds = tuple(each for each in KINDS if name in proven(each))
        if not kinds:
            mistake = mistake or FieldMistake(name, *names.problem_with(name))
        elif kind not in kinds:
            having = " and ".join(dict.fromkeys(_ONLY_OF[each] for each in kinds))
            left_out.append(f"{name} (only {having} have it)")
        else:
            value, count = _BEYOND_BMP.subn("", given) if names.bmp_only else (given, 0)
            if count:
                left_out.append(f"{plural(count, 'character')} of {name} (outside the Basic Multilingual Plane)")
                if name == names.by_kind[kind][1]:
                    value = ",".join(filter(str.strip, value.split(",")))
            too_long = _too_long(value, names.most_of(name, kind))
            mistake = mistake or (FieldMistake(name, too_long, "shorten it") if too_long else None)
            sent += [(name, value)] if value.strip() or value == given else []
    return Sendable(tuple(sent), tuple(left_out), mistake)


def _too_long(value: str, most: int) -> str | None:
    if most and len(value) > most:
        return f"it has {len(value):,} characters, and the service keeps {most:,}"
    if not most and len(value) > TEXT_BYTES // 4 and (size := len(value.encode("utf-8", "replace"))) > TEXT_BYTES:
        return f"it has {size:,} bytes, and the service keeps {TEXT_BYTES:,}"
    return None


def field_error(data: bytes, path: str, mistake: FieldMistake, keys: Collection[tuple[str, ...]]) -> SidecarError:
    """Return the error for a mistake in the sidecar at `path`, with its line; `keys` are those that may set the field.

    `data` are the bytes of the sidecar.
    """
    try:
        marks = load(data, none_words=False).marks
    except NotPlain:
        # It was written just now.
        marks = {}
    at = next((key for key in (("meta", mistake.name), *keys) if key in marks), ("meta", mistake.name))
    return _error(path, Problem(at, mistake.problem, mistake.hint, *marks.get(at, (0, 0))))


def check_together(fields: Sequence[tuple[str, str]], path: str) -> None:
    """Raise SidecarError if the metadata of the file at `path`, all levels together, is too long for a form."""
    if sum(len(name) + len(value) for name, value in fields) > MAX_TOGETHER:
        problem = f"its sidecar and those of its folders together hold over {MAX_TOGETHER // 1024} KiB of metadata"
        raise SidecarError(printable(path), problem, hint="shorten them")


def language_of(metadata: Metadata) -> str:
    """Return the number of the metadata's language, `meta_lang_id_r`; English if none is set."""
    return metadata.language or DEFAULT_LANGUAGE


def upload_options(metadata: Metadata, allowed: UploadOptions) -> UploadOptions:
    """Return the options of the upload: those of the mapping, with the three that a sidecar may replace."""
    return allowed._replace(
        zip_extract=allowed.zip_extract if metadata.zip_extract is None else metadata.zip_extract,
        skip_event=allowed.skip_event if metadata.skip_event is None else metadata.skip_event,
        upl_template=allowed.upl_template if metadata.upl_template is None else metadata.upl_template,
    )


def check_skip_event(metadata: Metadata, allowed: UploadOptions, path: str) -> None:
    """Raise SidecarError if the sidecar at `path` skips an event that its mapping does not skip."""
    beyond = [event for event in metadata.skip_event or () if event not in allowed.skip_event]
    if beyond:
        names = ", ".join(beyond)
        problem = f"upload.skip_event: the mapping does not allow to skip {names}"
        hint = "remove it here, or add it to upload.skip_event of the mapping in the configuration"
        raise SidecarError(printable(path), problem, hint=hint)


def sent_fields(fields: Sequence[tuple[str, str]], language: str) -> str:
    """Return the names of fields, with commas, after a short digest of them and their language; "" without fields."""
    if not fields:
        return ""
    known = hashlib.sha256(json.dumps([sorted(fields), language]).encode()).hexdigest()[:16]
    return f"{known} {','.join(name for name, _value in fields)}"


def digest(fields: Sequence[tuple[str, str]], options: UploadOptions, language: str = DEFAULT_LANGUAGE) -> str:
    """Return a digest (SHA-256, hex) of all that shapes an asset except its bytes: if it differs later, there is drift.

    The order of the fields does not matter. `debug`, `emailto` and the redirect are excluded, because they leave no
    trace in an asset.
    """
    parts = {
        "fields": sorted(fields),
        "language": language if fields else None,
        "zip_extract": options.zip_extract,
        "skip_event": sorted(options.skip_event),
        "upl_template": options.upl_template,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

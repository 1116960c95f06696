"""Define the metadata keys of sidecars and of a mapping's `metadata`, and the upload options of a sidecar.

The names that the service knows are here (interface sections 4.3 and 6, observed "Upload"), and the values in documents
are checked against them. Merging several levels and building form fields are left to `core.metadata`.
"""

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, WithJsonSchema, field_validator

from assetsync.config.document.fields import LIST, SCALARS, Flag, Section, Text
from assetsync.errors import Unusable
from assetsync.model import Metadata

KINDS = ("img", "vid", "aud", "doc", "other")
# Kind → names of the fields for description and keywords. The names for images are documented, the others were
# observed. A kind that the service shows as a document has the fields of a document.
METADATA_FIELDS: dict[str, tuple[str, str]] = {
    "img": ("img_description", "img_keywords"),
    "vid": ("vid_description", "vid_keywords"),
    "aud": ("aud_description", "aud_keywords"),
    "doc": ("file_desc", "file_keywords"),
    "other": ("file_desc", "file_keywords"),
}
TEXT_BYTES = 65_535
"""Most bytes (UTF-8) of a field that is a text."""
_TEXT = 0
# Columns of the table `xmp` of release 1.9.6, by the characters that they hold.
_PICTURE_FIELDS = {
    1000: "subjectcode creator title authorsposition captionwriter ciadrextadr category source headline city credit",
    500: "urgency ciadrcity ciadrctry ciadrregion location intellectualgenre transmissionreference country countrycode"
    " scene state",
    300: "ciadrpcode ciemailwork ciurlwork citelwork",
    200: "datecreated",
    50: "colorspace",
    30: "xres yres",
    20: "resunit",
    _TEXT: "img_description img_keywords supplementalcategories description instructions usageterms copyrightstatus"
    " webstatement rights",
}
_DOCUMENT_FIELDS = dict.fromkeys(METADATA_FIELDS["doc"], _TEXT)
FIELDS: Mapping[str, Mapping[str, int]] = {
    "img": {name: most for most, names in _PICTURE_FIELDS.items() for name in names.split()},
    "vid": dict.fromkeys((*METADATA_FIELDS["vid"], "vid_title"), _TEXT),
    "aud": dict.fromkeys(METADATA_FIELDS["aud"], _TEXT),
    "doc": _DOCUMENT_FIELDS,
    "other": _DOCUMENT_FIELDS,
}
"""Kind → the fields that release 1.9.6 has for it → the most characters of a value; 0: `TEXT_BYTES`. Any other field
with an underscore destroys the texts of a picture, and keeps any other asset from being processed (observed)."""

_NEVER_SENT = frozenset({"file_name", "lang_id_r", "host_id", "id_inc", "id_r", "asset_type"})
# The kinds whose fields begin so; a field without an underscore is one of pictures.
_PREFIXES = {"img_": ("img",), "vid_": ("vid",), "aud_": ("aud",), "file_": ("doc", "other")}

XMP_PROPERTIES = (
    *("dc:description", "dc:title", "dc:subject", "dc:creator", "dc:rights", "lr:hierarchicalSubject"),
    *("photoshop:Headline", "photoshop:City", "photoshop:State", "photoshop:Country", "photoshop:Credit"),
    *("Iptc4xmpCore:Location", "Iptc4xmpCore:CountryCode", "xmp:Rating", "xmp:Label", "photoshop:DateCreated"),
)
"""The properties of XMP files that can be sent, by their usual names."""

XMP_TO_DESCRIPTION, XMP_TO_KEYWORDS, XMP_TO_LOCATION = "description", "keywords", "location"
XMP_FIELDS = {
    "dc:description": XMP_TO_DESCRIPTION,
    "dc:subject": XMP_TO_KEYWORDS,
    "Iptc4xmpCore:Location": XMP_TO_LOCATION,
}
"""Property → key of a sidecar or field that it becomes. The interface names no field for the other properties."""


class FieldNames(NamedTuple):
    """The names of the service's metadata fields.

    `by_kind` has the fields of description and keywords by kind, `custom` the ids of custom fields by name, `xmp` what
    each property of XMP files becomes: a key of a sidecar, a metadata field, or the name of a custom field. `listed`
    has the further fields that the service has, in lower case. `bmp_only`: the service cannot hold characters outside
    the Basic Multilingual Plane.
    """

    by_kind: Mapping[str, tuple[str, str]] = METADATA_FIELDS
    custom: Mapping[str, str] = MappingProxyType({})
    xmp: Mapping[str, str] = XMP_FIELDS
    listed: Collection[str] = frozenset()
    bmp_only: bool = True

    def kinds_of(self, name: str) -> tuple[str, ...]:
        """Return the kinds of assets that have a field; none if it is not known, or never sent."""
        if _is_custom_field(name):
            return KINDS
        if is_never_sent(name):
            return ()
        column = name.lower()
        known = tuple(kind for kind in KINDS if column in FIELDS[kind] or name in self.by_kind[kind])
        if known or column not in self.listed:
            return known
        of_all = KINDS if "_" in column else ("img",)
        return next((kinds for prefix, kinds in _PREFIXES.items() if column.startswith(prefix)), of_all)

    def most_of(self, name: str, kind: str) -> int:
        """Return the most characters of a field's value; 0 if it is a text."""
        return FIELDS[kind].get(name.lower(), _TEXT)

    def problem_with(self, name: str) -> tuple[str, str]:
        """Return problem and fix of a field that no kind of asset has."""
        if is_never_sent(name):
            return "the field is never sent: it is not metadata, and would rename or move the asset", "remove it"
        known = [*dict.fromkeys(known for kind in KINDS for known in (*FIELDS[kind], *self.listed))]
        close = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
        nearest = f"did you mean `{close[0]}`? " if close else ""
        problem = "the service is not known to have this field, and an unknown one destroys the other metadata"
        return problem, f"{nearest}If your service has it, add it to service.meta_fields of the configuration"


OFF = "off"
"""What a property becomes that is not to be sent, although it is by default."""

# Interface section 6.
EVENTS = (
    "on_pre_process",
    "on_file_add", "on_file_edit", "on_file_move", "on_file_remove",
    "on_folder_add", "on_folder_edit", "on_folder_move", "on_folder_remove",
)  # fmt: skip
PLACEHOLDERS = ("dir", "dirs", "stem")
# `{dir}` is replaced; `{{` and `}}` are a brace each; any other brace is a mistake.
PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_META_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
CUSTOM_FIELD = "metacf_"
"""The beginning of the form field of a custom field; the id of the custom field follows (observed, source)."""
_CUSTOM_ID = re.compile(r"[A-Za-z0-9-]{1,64}")
_LANGUAGE = re.compile(r"[0-9]{1,9}")
_ENDING = re.compile(r"[^\s./]{1,32}")


def check_meta_name(name: str) -> str:
    """Return the name of a metadata field (without meta_); raise Unusable for a name that cannot be sent."""
    if not _META_NAME.fullmatch(name) and not _is_custom_field(name):
        raise Unusable("it is not a valid name of a metadata field", "use 1 to 64 of the characters A-Z a-z 0-9 _")
    if name.lower() == "lang_id_r":
        raise Unusable("the language is not a metadata field", "write it as `language: 1`, outside `meta`")
    return name


def check_field_name(name: str) -> str:
    """Return the name of a field that the service is said to have; raise Unusable for one that is never sent."""
    if is_never_sent(check_meta_name(name)):
        raise Unusable("it is never sent", "remove it: it is not metadata, and would rename or move the asset")
    return name


def is_never_sent(name: str) -> bool:
    """Return whether a field is part of the service's own records, and not metadata."""
    return name.lower() in _NEVER_SENT or name.lower().endswith("_id_r")


def _is_custom_field(name: str) -> bool:
    return name.startswith(CUSTOM_FIELD) and _CUSTOM_ID.fullmatch(name.removeprefix(CUSTOM_FIELD)) is not None


def form_field(name: str) -> str:
    """Return the form field that a metadata field is sent as: a custom field as it is, any other with `meta_`.

    Raise Unusable for a name that cannot be sent.
    """
    return check_meta_name(name) if _is_custom_field(name) else f"meta_{check_meta_name(name)}"


def custom_field_id(value: str) -> str:
    """Return the id of a custom field."""
    if not _CUSTOM_ID.fullmatch(value):
        raise Unusable("it is not the id of a custom field", "copy the id from the service: letters, digits and -")
    return value


def unknown_custom_field(name: str, known: Collection[str]) -> tuple[str, str] | None:
    """Return problem and fix if no custom field of the configuration has this name; None if one has."""
    if name in known:
        return None
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    fix = f"did you mean `{close[0]}`?" if close else "add it with its id to service.custom_fields of the configuration"
    return "no custom field has this name", fix


def ending(value: str) -> str:
    """Return the ending of file names, in lower case and without a dot."""
    found = value.lower().removeprefix(".")
    if not _ENDING.fullmatch(found):
        raise Unusable("it is not an ending of file names", "write what follows the last dot, such as cr3")
    return found


def xmp_property(name: str) -> str:
    """Return the name of a property of XMP files that can be sent."""
    if name not in XMP_PROPERTIES:
        close = get_close_matches(name, XMP_PROPERTIES, n=1, cutoff=0.6)
        fix = f"did you mean `{close[0]}`?" if close else f"the properties are {', '.join(XMP_PROPERTIES)}"
        raise Unusable("it is not a property of XMP files that can be sent", fix)
    return name


def _keywords(value: object) -> object:
    if isinstance(value, str):
        return value
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise Unusable("it must be a list of texts, or one text", "write it as [harbour, dawn]")
    return tuple(value)


def _events(value: object) -> object:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise Unusable("it must be a list of event names", "write it as [on_file_add]")
    names = tuple(name.strip() for name in names)
    if not set(names) <= set(EVENTS):
        raise Unusable("it holds an unknown event", f"the events are {', '.join(EVENTS)}")
    return tuple(dict.fromkeys(names))


def _language(value: object) -> object:
    if not isinstance(value, str) or not _LANGUAGE.fullmatch(value):
        raise Unusable("it must be the number of a language", "write digits only, such as 1 for English")
    return value


def group(value: object) -> object:
    """Treat a key with nothing below it as an empty group; in a sidecar it is read as an empty text."""
    if value == "":
        return {}
    if not isinstance(value, dict | BaseModel):
        raise Unusable("it must be a group of `name: value` lines", "write the names below it, indented")
    return value


_EVENT_LIST = {"type": "array", "items": {"type": "string", "enum": list(EVENTS)}}
Events = Annotated[
    tuple[str, ...], BeforeValidator(_events), WithJsonSchema({"anyOf": [{"type": "string"}, _EVENT_LIST]})
]
Keywords = Annotated[tuple[str, ...] | str, BeforeValidator(_keywords), WithJsonSchema({"anyOf": [*SCALARS, LIST]})]
MetaName = Annotated[str, AfterValidator(check_meta_name)]


class Said(Section):
    """The keys that a sidecar and a mapping's `metadata` share; every value is the text that was written."""

    description: Text | None = None
    keywords: Keywords | None = None
    location: Text | None = None
    language: Annotated[str, BeforeValidator(_language), WithJsonSchema({"type": ["string", "integer"]})] | None = None
    meta: Annotated[dict[MetaName, Text], BeforeValidator(group)] = Field(default_factory=dict)
    custom: Annotated[dict[str, Text], BeforeValidator(group)] = Field(default_factory=dict)

    def metadata(self) -> Metadata:
        """Return the value that the rest of the program uses."""
        return Metadata(
            description=self.description,
            keywords=self.keywords,
            location=self.location,
            language=self.language,
            meta=tuple(self.meta.items()),
            custom=tuple(self.custom.items()),
        )


class SaidWithPlaceholders(Said):
    """A mapping's `metadata`: its texts may contain parts of the path."""

    @field_validator("description", "keywords", "location", "meta", "custom")
    @classmethod
    def _placeholders_are_known(cls, value: Any) -> Any:
        texts = [value] if isinstance(value, str) else value.values() if isinstance(value, dict) else value or ()
        for text in texts:
            for found in PLACEHOLDER.finditer(text):
                if found.group() not in {"{{", "}}"} and found.group(1) not in PLACEHOLDERS:
                    known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
                    raise Unusable("it holds an unknown placeholder", f"use {known}, and {{{{ for a brace itself")
        return value


class SidecarUpload(Section):
    """The three options of an upload that a sidecar may set."""

    upl_template: Text | None = None
    skip_event: Events | None = None
    zip_extract: Flag | None = None


class Sidecar(Said):
    """All keys of a sidecar."""

    upload: Annotated[SidecarUpload, BeforeValidator(group)] = SidecarUpload()

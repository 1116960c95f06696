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
    each property of XMP files becomes: a key of a sidecar, a metadata field, or the name of a custom field.
    """

    by_kind: Mapping[str, tuple[str, str]] = METADATA_FIELDS
    custom: Mapping[str, str] = MappingProxyType({})
    xmp: Mapping[str, str] = XMP_FIELDS


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

"""Define how a value of a document is read: the base of all models, and the types of their fields.

Every value arrives as text, because the loader produces nothing else. The readers here also accept a value that is
already of the right type, so that code can build a model. A reader that cannot use its text raises Unusable.

`WithJsonSchema` is what the JSON Schema of the configuration accepts. It includes numbers and flags, because other YAML
parsers read some texts as such.
"""

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema, model_validator

from assetsync.errors import Unusable

FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_WHOLE = re.compile(r"[0-9]{1,18}")


class Section(BaseModel):
    """Base of every model: frozen, unknown keys refused, values never shown in errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def none_is_unsaid(cls, value: Any) -> Any:
        """Treat a key without a value as absent if None has no meaning for its field, so that the default applies."""
        if not isinstance(value, dict):
            return value
        never_none = {name for name, field in cls.model_fields.items() if type(None) not in get_args(field.annotation)}
        return {name: given for name, given in value.items() if given is not None or name not in never_none}


def _from_hex(value: object) -> object:
    return bytes.fromhex(value) if isinstance(value, str) else value


HexPath = Annotated[bytes, BeforeValidator(_from_hex), PlainSerializer(bytes.hex)]
"""A path in JSON: the hex of its bytes."""


def one_text(value: object) -> object:
    """Return the value, or raise Unusable for a list or a mapping where a text is required."""
    if isinstance(value, list | tuple | dict):
        raise Unusable(
            "it must be one text", "write it on one line, with quotes around it if it holds any of `: # [ {`"
        )
    return value


def _flag(value: object) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in FLAGS:
        return FLAGS[value.lower()]
    raise Unusable("it must be yes or no", "write true or false (or yes, no, on, off)")


def _whole(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise Unusable("it must be a whole number", "write digits only, such as 4")


def _texts(value: object) -> object:
    if isinstance(value, str):
        raise Unusable("it must be a list", 'write it as ["one", "two"]')
    if not isinstance(value, list | tuple):
        raise Unusable("it must be a list of texts", 'write it as ["one", "two"]')
    if not all(isinstance(item, str) for item in value):
        raise Unusable("every item of the list must be a text", "put quotes around the others")
    return tuple(value)


SCALARS = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
"""The types as which other YAML parsers read a text, as JSON Schemas."""

LIST = {"type": "array", "items": {"anyOf": SCALARS}}
"""The JSON Schema of a list of texts."""

Flag = Annotated[
    bool,
    BeforeValidator(_flag),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "string", "enum": list(FLAGS)}]}),
]
REQUIRED = "required"


def _flag_or_required(value: object) -> object:
    if isinstance(value, str) and value.lower() == REQUIRED:
        return REQUIRED
    try:
        return _flag(value)
    except Unusable:
        raise Unusable("it must be on, off or required", "write one of these") from None


FlagOrRequired = Annotated[
    bool | Literal["required"],
    BeforeValidator(_flag_or_required),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "string", "enum": [*FLAGS, REQUIRED]}]}),
]
Whole = Annotated[int, BeforeValidator(_whole)]
Text = Annotated[str, BeforeValidator(one_text), WithJsonSchema({"anyOf": SCALARS})]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts), WithJsonSchema(LIST)]

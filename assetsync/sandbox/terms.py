"""Derive the text that the index searches from the name and the metadata of an asset.

Interpreting a query is left to `query`. Both use the same form: words in lower case with a blank around each.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

_WORD: Final = re.compile(r"[^\W_]+")
_CUSTOM_FIELD: Final = "metacf_"
_MARK: Final = "\x1f"  # `str.split` treats it as a blank, so no normalised text holds it


class IndexedText(NamedTuple):
    """The columns that the index searches."""

    t_any: str
    t_name: str
    t_description: str
    t_keywords: str
    t_labels: str
    t_custom: str


def words(text: str) -> str:
    """Return the words in order, then the tokens that are not a single word (so that `note.txt` is found)."""
    lowered = text.lower()
    tokens = [token for token in lowered.split() if not _WORD.fullmatch(token)]
    found = _WORD.findall(lowered)
    return f" {' '.join(found)} {' '.join(tokens)} "


def label_mark(label: str) -> str:
    """Return a label in the form of the column `t_labels`."""
    return f"{_MARK}{_normalised(label)}{_MARK}"


def custom_mark(field_id: str, value: str) -> str:
    """Return a value of a custom field in the form of the column `t_custom`."""
    return f"{_MARK}{field_id.lower()}={_normalised(value)}{_MARK}"


def _normalised(text: str) -> str:
    return " ".join(text.lower().split())


def said_of(filetype: str, fields: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return the description and keywords of an upload: those for its kind, and only with metadata=1 (observed)."""
    if fields.get("metadata", "").lower() not in ("1", "true", "yes"):
        return None, None
    description, keywords = (
        (f"meta_{filetype}_description", f"meta_{filetype}_keywords")
        if filetype in ("img", "vid", "aud")
        else ("meta_file_desc", "meta_file_keywords")
    )
    return fields.get(description), fields.get(keywords)


def indexed_text(
    filename: str, description: str | None, keywords: str | None, fields: Mapping[str, str]
) -> IndexedText:
    """Return all searched text of an asset.

    Custom fields are form fields `metacf_<id>` (observed), with several values separated by commas. The interface
    cannot set labels; the sandbox reads them from `meta_labels`, separated by commas, so that label queries can be
    tried.
    """
    metadata = " ".join(value for name, value in fields.items() if "meta_" in name or name.startswith(_CUSTOM_FIELD))
    custom = "".join(
        custom_mark(name.removeprefix(_CUSTOM_FIELD), each)
        for name, value in fields.items()
        if name.startswith(_CUSTOM_FIELD)
        for each in value.split(",")
    )
    labels = "".join(label_mark(each) for each in fields.get("meta_labels", "").split(",") if each.strip())
    return IndexedText(
        t_any=words(f"{filename} {metadata}"),
        t_name=words(filename),
        t_description=words(description or ""),
        t_keywords=words(keywords or ""),
        t_labels=labels,
        t_custom=custom,
    )

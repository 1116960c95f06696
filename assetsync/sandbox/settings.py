"""The settings of a sandbox, fixed while it runs. `faults` holds what can be switched while it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field
from pydantic.dataclasses import dataclass

Dialect: TypeAlias = Literal["observed", "documented"]
IndexMode: TypeAlias = Literal["adds", "noop", "wipes"]
StartRow: TypeAlias = Literal["row", "page"]
Strays: TypeAlias = Literal["missing", "redirect", "html"]
FileKind: TypeAlias = Literal["img", "vid", "aud", "doc", "other"]
Right: TypeAlias = Literal["none", "read", "write"]
DIALECTS, INDEX_MODES, STARTROWS = get_args(Dialect), get_args(IndexMode), get_args(StartRow)
STRAYS, FILE_KINDS, RIGHTS = get_args(Strays), get_args(FileKind), get_args(Right)
_Seconds: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSettings:
    """The settings of one sandbox; times are in seconds, sizes in bytes.

    `folders` maps the identifier of each folder that exists from the start to its name; with `auto_folders` every other
    identifier is accepted, too. `port` 0 takes a free port. Without `data_dir` the data is removed when the sandbox
    stops.

    `dialect` is `observed` (the answers of a live installation) or `documented` (the interface to the letter). Every
    caller names it.
    `index_mode` selects the effect of searchIndex: `adds` puts the given assets into the index, `noop` does nothing,
    `wipes` empties the whole index and then adds them. With `self_index` the installation also indexes each asset by
    itself after processing it. In both cases a search through the index shows an asset `index_delay` later, and never
    before it is processed. An asset is processed `processing_delay` after its upload.

    `startrow` selects what the parameter of that name counts in a search through the index: rows (documented), or
    pages (observed in some releases). With `twice` such a search returns and counts every row twice (observed in some
    releases). Without `md5` no answer has an MD5. With `latin1` the dialect `documented`, too, sends names as
    ISO-8859-1 with `?` for other characters. With `folds_blanks` searches show several blanks in a row as one, while
    the database keeps them (observed). With `renames` a workflow stores each upload under a new name and returns this
    name in `renamefilebody`. With `pdf_keeps_own` the subject and keywords of a PDF replace the description and
    keywords of its upload, also if the PDF has none (observed). With `renditions` a search returns a second row, of a
    smaller rendition, for each processed picture, unless `showrenditions=false`. `file_kinds` maps endings in lower
    case to the kind that files of the ending are taken for, in place of the usual one (RAW files are other in some
    installations, observed).

    `rights` are those of the key's user on each folder; without it the user is an administrator. A user with `rights`
    cannot search without `folderid`, sees nothing of a folder without a right, and an upload of a user who may not
    write is stored without its metadata (observed). An upload of more than `proxy_limit` bytes is refused by a proxy in
    front: 413 with a page, and the connection is closed while the body is sent (observed with nginx).
    With `refuses_fields` a metadata field that the database has no column for empties the texts of a picture, and any
    other asset with it is never processed; the field `file_name` renames the asset. With `bmp_only` the database has
    three-byte `utf8`: a value with a character outside the Basic Multilingual Plane is lost on a picture, and any other
    asset with it is never processed. With `one_language` searches show the texts in English only (all observed).
    With `custom_fields`, the ids of all custom fields, any other one in an upload drops the metadata after it from a
    picture, and an upload of another kind is never processed (observed). Documents and audio with names of more than
    `longest_name` characters are never processed, and of such a video nothing is stored: `.jpg` is appended to its name
    (observed).

    `strays` selects the answer of the addresses below `/razuna` that are not of the interface: 404, a redirect to a
    login page, or that page itself (both observed where the path of the tenant was left out).

    Raise ValueError for any other value.
    """

    dialect: Dialect
    api_key: str = field(default="sandbox-key", repr=False)
    folders: Mapping[str, str] = field(default_factory=dict)
    auto_folders: bool = False
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    data_dir: Path | None = None
    index_mode: IndexMode = "noop"
    startrow: StartRow = "row"
    strays: Strays = "missing"
    twice: bool = False
    renditions: bool = False
    pdf_keeps_own: bool = False
    refuses_fields: bool = False
    bmp_only: bool = False
    one_language: bool = False
    md5: bool = True
    latin1: bool = False
    folds_blanks: bool = False
    renames: bool = False
    file_kinds: Mapping[str, FileKind] = field(default_factory=dict)
    rights: Mapping[str, Right] | None = None
    proxy_limit: int | None = None
    custom_fields: Sequence[str] | None = None
    longest_name: Annotated[int, Field(ge=1)] | None = None
    self_index: bool = True
    index_delay: _Seconds = 0.0
    processing_delay: _Seconds = 0.0
    latency: _Seconds = 0.0
    duplicate_check: bool = False
    max_content_length: int | None = None
    keep_alive: bool = False
    seed: int = 0

    @property
    def documented(self) -> bool:
        """Return whether the answers follow the interface to the letter."""
        return self.dialect == "documented"

    def right_on(self, folder: str) -> Right:
        """Return the right of the key's user on a folder."""
        return "write" if self.rights is None else self.rights.get(folder, "none")

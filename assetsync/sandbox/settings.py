"""The settings of a sandbox, fixed while it runs. `faults` holds what can be switched while it runs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from assetsync.errors import UsageError

DIALECTS: Final = ("observed", "documented")
INDEX_MODES: Final = ("adds", "noop", "wipes")
STARTROWS: Final = ("row", "page")
_HIGHEST_PORT: Final = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSettings:
    """The settings of one sandbox; times are in seconds, sizes in bytes.

    `folders` maps the identifier of each folder that exists from the start to its name; with `auto_folders` every other
    identifier is accepted, too. `port` 0 takes a free port. Without `data_dir` the data is removed when the sandbox
    stops.

    `dialect` is `observed` (the answers of a live installation) or `documented` (the interface to the letter).
    `index_mode` selects the effect of searchIndex: `adds` puts the given assets into the index, `noop` does nothing,
    `wipes` empties the whole index and then adds them. With `self_index` the installation also indexes each asset by
    itself after processing it. In both cases a search through the index shows an asset `index_delay` later, and never
    before it is processed. An asset is processed `processing_delay` after its upload.

    `startrow` selects what the parameter of that name counts in a search through the index: rows (documented), or
    pages (observed in some releases). With `twice` such a search returns and counts every row twice (observed in some
    releases). Without `md5` no answer has an MD5. With `latin1` the dialect `documented`, too, sends names as
    ISO-8859-1 with `?` for other characters. With `renames` a workflow stores each upload under a new name and returns
    this name in `renamefilebody`. With `renditions` a search returns a second row, of a smaller rendition, for each
    processed picture, unless `showrenditions=false`.

    Raise UsageError for any other value.
    """

    api_key: str = field(default="sandbox-key", repr=False)
    folders: Mapping[str, str] = field(default_factory=dict)
    auto_folders: bool = False
    host: str = "127.0.0.1"
    port: int = 0
    data_dir: Path | None = None
    dialect: str = "observed"
    index_mode: str = "noop"
    startrow: str = "row"
    twice: bool = False
    renditions: bool = False
    md5: bool = True
    latin1: bool = False
    renames: bool = False
    self_index: bool = True
    index_delay: float = 0.0
    processing_delay: float = 0.0
    latency: float = 0.0
    duplicate_check: bool = False
    max_content_length: int | None = None
    keep_alive: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise UsageError for a value that the sandbox cannot use."""
        for name, value, allowed in (
            ("dialect", self.dialect, DIALECTS),
            ("index_mode", self.index_mode, INDEX_MODES),
            ("startrow", self.startrow, STARTROWS),
        ):
            if value not in allowed:
                raise UsageError(f"The sandbox has no {name} {value!r}", hint=f"use one of {', '.join(allowed)}")
        if not 0 <= self.port <= _HIGHEST_PORT:
            raise UsageError(
                f"The sandbox cannot listen on port {self.port}", hint="choose another, or 0 for a free one"
            )
        for name, seconds in (
            ("index_delay", self.index_delay),
            ("processing_delay", self.processing_delay),
            ("latency", self.latency),
        ):
            if not 0 <= seconds < math.inf:
                raise UsageError(f"The sandbox cannot wait {seconds} seconds", hint=f"give {name} as 0 or more")

    @property
    def documented(self) -> bool:
        """Return whether the answers follow the interface to the letter."""
        return self.dialect == "documented"

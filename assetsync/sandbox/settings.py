"""What a sandbox is made with: fixed while it runs.

What can be switched while it runs are the faults, in `faults`.
"""

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
    """The settings of one sandbox; times are seconds, sizes bytes.

    `folders` maps the identifier of each folder that exists from the start to its name; with `auto_folders` every other
    identifier is accepted too. `port` 0 takes a free one. Without `data_dir` the data lives until the sandbox stops.

    `dialect` is `observed` (what a live installation answers) or `documented` (the interface to the letter).
    `index_mode` says what searchIndex does: `adds` the given assets, nothing (`noop`), or `wipes` the whole index
    before it adds them. `self_index` is whether the installation indexes by itself. Either way an asset is found
    through the index `index_delay` after the cause, and never before it is processed, `processing_delay` after the
    upload.

    `startrow` says what the parameter of that name counts through the index: rows as documented, or pages as in some
    releases (observed). With `twice`, every row comes twice through the index and is counted so (observed of some).
    Without `md5` no answer has an MD5, and with `latin1` names come as ISO-8859-1 with `?` for other characters also as
    documented. With `renames` a workflow stores each upload under a name of its own and gives it in `renamefilebody`.
    With `renditions`, a processed picture is shown with a second, smaller one, unless `showrenditions=false`.

    Raises UsageError when a value is not one of those.
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
        """Refuse what no part of the sandbox could act on."""
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
        """Whether the answers follow the interface to the letter."""
        return self.dialect == "documented"

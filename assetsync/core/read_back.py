"""Decide whether an asset that was read back is the file that was sent, and when to look again.

Pure. Searching is left to `sync.readback.verifier`; the reaction to a difference follows from the table in
`core.states`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from types import MappingProxyType
from typing import NamedTuple

from assetsync.core.names import framed_length
from assetsync.model import LONGEST_NAME, Asset

UNSEEN_PATIENCE = 600.0
"""Seconds of answered look-ups without the asset after which an accepted upload is in doubt (seen with emoji names)."""

NEVER_PROCESSED = "never_processed"
"""The reason word of a file whose accepted asset the service has not processed for too long."""

SAME_METADATA = "sent again with the same metadata, it will not be processed either"
"""What the sentence about such a file adds if its metadata can be the reason."""

LOOK_AGAIN = 3600.0
"""Seconds until the next look at an asset that counts as never processed."""

_LOOKS = 10
"""Answered look-ups, after the first, that must show an asset unprocessed before it counts as never processed."""

_LOOKS_IN = 20
"""A look-up counts if this part of the patience (1/20) has passed since the last one that counted.

So ten of them take half of the patience: a wall clock that is set forward does not use it up by itself.
"""

INDEX_LAG = 60.0
"""Seconds by which the index is usually behind: many services index once a minute (observed)."""

_UNKNOWN_WAIT = 10.0
_LEAST_PAUSE = 0.5
_GATHER = 5.0
_INDEX_LOOKS = (1 / 4, 13 / 12)
"""When the index is searched again for an upload, in parts of its lag after the upload: at 15 and 65 seconds."""


@dataclass(frozen=True, slots=True)
class ReadBackWaits:
    """How long reading back waits, in seconds.

    `longest`: at most between two looks at an asset · `index_lag`: how far the index may be behind an upload ·
    `unprocessed_after`: until an accepted asset counts as never processed.
    """

    longest: float
    index_lag: float
    unprocessed_after: float


class Reading(StrEnum):
    """The result of reading an asset back."""

    EQUAL = "equal"
    MOVED = "moved"
    DIFFERENT = "different"
    NOT_YET = "not processed yet"


@dataclass(frozen=True, slots=True)
class Unprocessed:
    """The answered look-ups that showed an asset unprocessed: the first, how many count since, and the last of these.

    Times are in seconds since the epoch.
    """

    since: float
    looks: int
    last: float

    @classmethod
    def first(cls, now: float) -> "Unprocessed":
        """Return the look-ups after the first one."""
        return cls(now, 0, now)

    def again(self, now: float, patience: float) -> "Unprocessed":
        """Return the look-ups after another one; `patience` is in seconds.

        A first look-up in the future was dated by a clock that has been set back since: the time begins anew.
        """
        if now < self.since:
            return Unprocessed.first(now)
        if 0 <= now - self.last < patience / _LOOKS_IN:
            return self
        return Unprocessed(self.since, self.looks + 1, now)

    def is_never(self, now: float, patience: float) -> bool:
        """Return whether the asset counts as never processed."""
        return now - self.since >= patience and self.looks >= _LOOKS


class Suspects(NamedTuple):
    """What of an upload can keep the service from processing it, in words; pictures are processed all the same.

    Both were observed.
    """

    in_name: Sequence[str] = ()
    in_metadata: Sequence[str] = ()

    @classmethod
    def of(
        cls, sent_name: str, values: Mapping[str, str] = MappingProxyType({}), new: Collection[str] = ()
    ) -> "Suspects":
        """Return what can be the reason in a name and in the `values` of metadata fields, by name.

        With the fields in `new`, the service has processed nothing yet.
        """
        length = framed_length(sent_name)
        in_name = [f"its name of {length} characters"] * (length > LONGEST_NAME)
        fields = [f"the field {name}, with which nothing has been processed yet" for name in values if name in new]
        beyond = [name for name, value in values.items() if max(value, default="") > "\uffff"]
        return cls(in_name, fields + [f"a character outside the Basic Multilingual Plane in {name}" for name in beyond])

    @property
    def sentence(self) -> str:
        """The continuation of a sentence about a file that was never processed."""
        reasons = " or ".join([*self.in_name, *self.in_metadata])
        return f"; the reason can be {reasons}" if reasons else ", perhaps because it was stopped in between"


@dataclass(frozen=True, slots=True)
class Expected:
    """The ledger's values for an asset."""

    folder_id: str
    size: int
    md5: str | None


def compare(expected: Expected, asset: Asset) -> tuple[Reading, str]:
    """Compare an asset with the file that was sent; the second value names the difference.

    Names and dates are never compared (observed: the service rewrites them). A value that the service does not return
    is not compared: without MD5 the size decides, without size the MD5; a folder that is not named may be the expected.
    """
    if not asset.processed:
        return Reading.NOT_YET, "the service has not processed it yet"
    if asset.md5 is not None and expected.md5 is not None and asset.md5 != expected.md5:
        return Reading.DIFFERENT, f"its MD5 in the service is {asset.md5}, in the file {expected.md5}"
    if asset.size is not None and asset.size != expected.size:
        return Reading.DIFFERENT, f"it has {asset.size:,} bytes in the service, the file {expected.size:,}"
    if asset.folder_id not in (expected.folder_id, ""):
        return Reading.MOVED, f"it is in folder {asset.folder_id} of the service, not in {expected.folder_id}"
    return Reading.EQUAL, ""


def new_version(assetid: str | None, difference: str) -> str:
    """Return the sentence about an asset that was verified and holds something else by now."""
    return (
        f"the asset {assetid} has a new version in the service: {difference}; copy it into the tree if it is the right"
        " one, else `assetsync retry --send-again PATH` uploads the file as another asset"
    )


def next_look(waited: float, longest: float, lag: float = 0.0) -> float:
    """Return the seconds until an asset is looked for again that was sent `waited` seconds ago; the pauses grow.

    While the index may be up to `lag` seconds behind, there are only two more looks: each search that is too early
    costs as much as the one that shows the asset. If the wall clock was set back in the meantime, the wait is unknown,
    and the pause is in between.
    """
    if waited < 0:
        return min(_UNKNOWN_WAIT, longest)
    looks = (part * lag for part in _INDEX_LOOKS)
    # A look is left out if this one comes in its second half.
    following = next((at - waited for at in looks if waited <= at / 2), waited / 3)
    return min(max(_LEAST_PAUSE, following), longest)


def gathered(due_at: float, pause: float) -> float:
    """Return when to look after a pause that ends at `due_at`: one search shall serve many assets.

    Assets whose pauses end within the same five seconds are looked for together. A short pause stays as it is.
    """
    return due_at if pause < 2 * _GATHER else ceil(due_at / _GATHER) * _GATHER

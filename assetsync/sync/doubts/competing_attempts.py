"""Whether an asset may be what another upload made, and so is not for a doubt to take, or no proof of a cut.

A name is never proof of whose an asset is: the service gives several back alike. Reads nothing and decides nothing.
"""

from collections.abc import Iterable, Mapping

from assetsync.core.names import is_exactly, is_others, is_shown_as, may_be
from assetsync.ledger.doubts import CompetingAttempt
from assetsync.ledger.rows import AttemptRow
from assetsync.model import Asset


def claims(
    rival: CompetingAttempt, asset: Asset, seen_to: int, attempt: AttemptRow, beginnings: Mapping[int, str]
) -> bool:
    """Whether the rival may have made an asset, or left it when it was cut, rather than the attempt.

    `seen_to`: the newest attempt when a look-up first showed the asset · `beginnings`: the MD5s of the first so many
    bytes that the rival sent, as far as they are known.
    """
    if rival.refused:
        # It made nothing, and may wait for a person for ever.
        return False
    if _may_have_begun(rival, asset, seen_to, attempt, beginnings.get(asset.size or 0)):
        return True
    return not rival.waived and _may_have_made(rival, asset, seen_to, attempt)


def is_unsure(competing_attempts: Iterable[CompetingAttempt], asset: Asset, seen_to: int, attempt: AttemptRow) -> bool:
    """Return whether the name of an asset without MD5 does not tell that this attempt made it.

    So it is where the name is only similar to the name sent, or where another undecided upload of other content and
    equal size may have come back under it, too.
    """
    if asset.md5 is not None or is_exactly(attempt.sent_name, asset.filename):
        return False
    return not is_shown_as(attempt.sent_name, asset.filename) or any(
        rival.attempt_id <= seen_to
        and (rival.folder_id, rival.size) == (attempt.destfolderid, attempt.size)
        and not (rival.waived or rival.refused or rival.md5 == attempt.md5 is not None)
        and is_shown_as(rival.sent_name, asset.filename)
        for rival in competing_attempts
    )


def is_renamed(competing_attempts: Iterable[CompetingAttempt], asset: Asset, attempt: AttemptRow) -> bool:
    """Return whether an asset under another name may be this upload, where the service may have renamed it.

    An asset with an MD5 proves itself, and so does one whose name is that of another open upload.
    """
    if asset.md5 is not None or asset.folder_id not in (attempt.destfolderid, ""):
        return False
    return not any(not rival.waived and is_shown_as(rival.sent_name, asset.filename) for rival in competing_attempts)


def _may_have_begun(
    rival: CompetingAttempt, asset: Asset, seen_to: int, attempt: AttemptRow, beginning: str | None
) -> bool:
    """Whether another attempt may have been cut there, so that an asset that is not ours whole is no proof of a cut.

    Two files may well begin alike, and a name come back as either; `beginning` is the MD5 of so many bytes of the
    other, where it is known. One that was taken for absent, or ended by a person, is among them: that was about what
    could be seen then. An earlier upload of the same file is, too.
    """
    # Without a size nothing is known to be a part.
    if asset.size in (attempt.size, None) or asset.folder_id not in (rival.folder_id, "") or rival.attempt_id > seen_to:
        return False
    return may_be(rival.sent_name, asset.filename) and beginning in (None, asset.md5)


def _may_have_made(rival: CompetingAttempt, asset: Asset, seen_to: int, attempt: AttemptRow) -> bool:
    """Whether an asset may be what another open attempt made whole, or has its name: not ours to take, or not yet."""
    # An attempt that began after the asset was first seen cannot have made it.
    may_have = rival.attempt_id <= seen_to and rival.size == asset.size
    may_have = may_have and (rival.md5 is None or asset.md5 is None or rival.md5 == asset.md5)
    if rival.folder_id != attempt.destfolderid or asset.size != attempt.size:
        # What another upload may have made whole is neither our copy nor what a cut left of ours.
        whole = may_have and rival.folder_id == asset.folder_id
    else:
        # Of two that sent the same, whoever looks first may take it, once nobody waits for an answer.
        whole = may_have and rival.in_flight
    same_folder = rival.folder_id == attempt.destfolderid
    return whole or (same_folder and is_others(attempt.sent_name, rival.sent_name, asset.filename))

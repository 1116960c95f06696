"""Compare an asset with competing attempts: such an asset must not be taken for a doubt, or is no proof of a cut.

A name never proves which attempt made an asset, because the service may return several names in the same form. These
functions read nothing; the judgement is left to `core.doubt`.
"""

from collections.abc import Iterable, Mapping

from assetsync.core.names import is_exactly, is_others, is_shown_as, may_be
from assetsync.ledger.doubts import CompetingAttempt
from assetsync.ledger.rows import AttemptRow
from assetsync.model import Asset


def claims(
    rival: CompetingAttempt, asset: Asset, seen_to: int, attempt: AttemptRow, beginnings: Mapping[int, str]
) -> bool:
    """Return whether the competing attempt `rival` may have made an asset, or left it when it was cut.

    `seen_to`: the newest attempt when a look-up first showed the asset · `beginnings`: the known MD5s of the first
    bytes that the rival sent, by length.
    """
    if rival.refused:
        # A refused attempt made nothing, and may wait for an operator for ever.
        return False
    if _may_have_begun(rival, asset, seen_to, attempt, beginnings.get(asset.size or 0)):
        return True
    return not rival.waived and _may_have_made(rival, asset, seen_to, attempt)


def is_unsure(competing_attempts: Iterable[CompetingAttempt], asset: Asset, seen_to: int, attempt: AttemptRow) -> bool:
    """Return whether the name of an asset without MD5 fails to prove that this attempt made it.

    The name fails if it is only similar to the sent name. It also fails if the service may show another undecided
    upload of equal size and other content under the same name.
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
    """Return whether an asset under another name may be this upload, renamed by the service.

    An asset with an MD5 is never such an asset, because its MD5 decides. Nor is an asset under the name of another open
    upload.
    """
    if asset.md5 is not None or asset.folder_id not in (attempt.destfolderid, ""):
        return False
    return not any(not rival.waived and is_shown_as(rival.sent_name, asset.filename) for rival in competing_attempts)


def _may_have_begun(
    rival: CompetingAttempt, asset: Asset, seen_to: int, attempt: AttemptRow, beginning: str | None
) -> bool:
    """Return whether a cut of the rival may have left an asset, so that it is no proof of a cut of this attempt.

    Two files may begin alike, and the service may show one name for both. `beginning` is the MD5 of the rival's first
    bytes up to the size of the asset, if known. A rival that was judged absent or ended by an operator counts as well,
    because that decision rested on what was visible then. So does an earlier upload of the same file.
    """
    # An asset without a size is not known to be a part of a file.
    if asset.size in (attempt.size, None) or asset.folder_id not in (rival.folder_id, "") or rival.attempt_id > seen_to:
        return False
    return may_be(rival.sent_name, asset.filename) and beginning in (None, asset.md5)


def _may_have_made(rival: CompetingAttempt, asset: Asset, seen_to: int, attempt: AttemptRow) -> bool:
    """Return whether another open attempt may have made an asset whole, or whether the asset has the rival's name."""
    # An attempt that began after a look-up showed the asset cannot have made it.
    may_have = rival.attempt_id <= seen_to and rival.size == asset.size
    may_have = may_have and (rival.md5 is None or asset.md5 is None or rival.md5 == asset.md5)
    if rival.folder_id != attempt.destfolderid or asset.size != attempt.size:
        # An asset that another upload may have made whole is neither the copy in question nor a part left by a cut.
        whole = may_have and rival.folder_id == asset.folder_id
    else:
        # If two attempts sent the same content, the first to look may take the asset once the rival is not in flight.
        whole = may_have and rival.in_flight
    same_folder = rival.folder_id == attempt.destfolderid
    return whole or (same_folder and is_others(attempt.sent_name, rival.sent_name, asset.filename))

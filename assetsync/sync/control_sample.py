"""Listings of a folder of the service, believed only where they show something that is known to lie there.

A search that answers with nothing at all, while its database is restored or since the key has lost a right, looks like
a folder in which nothing arrived: what is in doubt would be sent a second time. So of a folder in which nothing of ours
is shown, some of what was read back from it is asked for in all folders, because people may have moved it.
"""

from collections.abc import Iterator, Sequence

import structlog

from assetsync.core.names import sent_name
from assetsync.errors import BadAnswer, ServiceError, ServiceRefused
from assetsync.ledger.control_samples import ControlSamples, KnownAsset
from assetsync.model import Asset, SearchRequest, Service
from assetsync.service.paging import every
from assetsync.service.query import like_pattern
from assetsync.sync.context import Context
from assetsync.sync.global_lookup import is_broad

log = structlog.get_logger(__name__)

_BATCH = 500
_WITNESSES = 3
_LOOKED_AT = 20


def expect_shown(service: Service, known: Sequence[KnownAsset], where: str, *, hint: str) -> None:
    """Raise BadAnswer where the service, which shows nothing of ours in `where`, shows none of these in any folder.

    Where nobody is known who could be asked for, nothing is expected. Raises ServiceError where it does not answer.
    """
    if known and not is_shown(service, known):
        raise BadAnswer(
            f"the service shows nothing of ours in {where}, nor anywhere the asset {known[0].assetid} that it showed"
            " before: nothing is concluded from that",
            hint=hint,
        )


def is_shown(service: Service, known: Sequence[KnownAsset]) -> bool:
    """Whether the service shows one of these, in any folder; they are asked for by name. Raises ServiceError."""
    wanted: dict[str, set[str]] = {}
    for path, name, assetid in known:
        # It lies there by the name that was sent, also where the file has another by now.
        pattern = like_pattern(name or sent_name(path.rpartition(b"/")[2]))
        wanted.setdefault(pattern, set()).add(assetid)
    # Of a name that is not ASCII little is sure, and much else has the rest of it.
    for pattern in sorted(wanted, key=lambda pattern: pattern.count("%")):
        request = SearchRequest(searchfor=pattern, dbdirect=True)
        if any(asset.id in wanted[pattern] for asset in every(service.search, request)):
            return True
    return False


def shown_sample(service: Service, witnesses: ControlSamples, since: Sequence[int]) -> int:
    """Return the attempt of an accepted upload that the service shows, 0 where it shows none that was asked for.

    `since`: attempts after which a sample may begin, to be newer than one doubt or another. It begins after the last of
    them where there is one, else after some. It is asked for by its name, in all folders, because people may have moved
    it. A search that fails shows nothing: the round then has no control sample.
    """
    if not since:
        return 0
    samples = witnesses.sent_after(max(since), _LOOKED_AT) or witnesses.sent_after(min(since), _LOOKED_AT, newest=True)
    for sample in [each for each in samples if not is_broad(each.asset.sent_name or "")][:_WITNESSES]:
        try:
            if is_shown(service, [sample.asset]):
                return sample.attempt_id
        except ServiceError as error:
            log.debug("the control sample cannot be looked for", detail=str(error))
            if not isinstance(error, BadAnswer | ServiceRefused):
                # The next one would fail as well, perhaps after a time-out.
                return 0
    return 0


class CheckedListing:
    """Lists folders; shared by whoever concludes something from what is not shown."""

    def __init__(self, context: Context) -> None:
        self._ledger = context.ledger
        self._service = context.service

    def listing(self, destfolderid: str) -> Iterator[Asset]:
        """Yield every asset of the folder that its database shows (interface section 4.1).

        Raises ServiceError; BadAnswer, at the end, where neither the folder nor the service shows what was read back
        from there before.
        """
        batch: list[str] = []
        is_ours = False
        request = SearchRequest(searchfor="%", folderid=destfolderid, dbdirect=True)
        for asset in every(self._service.search, request):
            if not is_ours:
                batch.append(asset.id)
                if len(batch) >= _BATCH:
                    is_ours, batch = bool(self._ledger.doubts.owned(batch)), []
            yield asset
        if not is_ours and not self._ledger.doubts.owned(batch):
            expect_shown(
                self._service,
                self._ledger.witnesses.read_back_last(destfolderid, _WITNESSES),
                "the folder",
                hint="may the key's user see the folder? If all of it was deleted in the service, `assetsync audit`",
            )

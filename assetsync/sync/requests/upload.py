"""Begin and end an upload by hand: the requests by which `assetsync upload` has its intent and its result recorded.

The rules for them are left to `sync.upload.by_hand`.
"""

import json
from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar

from pydantic import PlainSerializer

from assetsync.config.document.fields import HexPath
from assetsync.errors import UsageError
from assetsync.ledger.ledger import Ledger
from assetsync.ledger.queue import Intent
from assetsync.model import Answer, Outcome, Searches, Sent, SentExtent
from assetsync.sync.requests.request import OperatorRequest
from assetsync.sync.upload import by_hand

_AS_OBJECT = PlainSerializer(lambda value: value._asdict())
"""A named tuple is an object in JSON, by the names of its fields."""


@dataclass(frozen=True, slots=True)
class BeginUpload(OperatorRequest):
    """Commit the intent of an upload by hand, as in `by_hand.ByHand`; answered with `by_hand.Begun` as JSON."""

    verb: ClassVar[str] = "upload"

    path: HexPath
    intent: Annotated[Intent, _AS_OBJECT]
    send_again: bool = False

    def run(self, ledger: Ledger, service: Searches, now: float) -> str:
        """See `OperatorRequest`."""
        hand = by_hand.ByHand(self.path, self.intent, self.send_again)
        return json.dumps(asdict(by_hand.begin(ledger, service, hand, now)))


@dataclass(frozen=True, slots=True)
class EndUpload(OperatorRequest):
    """Record the result of the upload by hand whose attempt has this `boundary`; the other fields as in `model.Sent`.

    An older release does not record how long the upload `took`.
    """

    verb: ClassVar[str] = "uploaded"

    boundary: str
    outcome: Annotated[Outcome, _AS_OBJECT]
    left: SentExtent
    handed: int
    md5: str
    took: float = 0.0

    def check(self, _ledger: Ledger) -> None:
        """See `OperatorRequest`."""
        if self.outcome.answer is Answer.ACCEPTED and not self.outcome.assetid:
            raise UsageError("an accepted upload has an id")

    def run(self, ledger: Ledger, _service: Searches, now: float) -> str:
        """See `OperatorRequest`."""
        sent = Sent(self.outcome, self.left, self.handed, self.md5, self.took)
        return by_hand.end(ledger, self.boundary, sent, now)

"""Begin and end an upload by hand: the requests by which `assetsync upload` has its intent and its result recorded.

The rules for them are left to `sync.upload.by_hand`.
"""

import json
from dataclasses import asdict, dataclass
from typing import ClassVar, Self

from assetsync.ledger.ledger import Ledger
from assetsync.model import Searches, Sent
from assetsync.sync.requests.request import Argument, OperatorRequest
from assetsync.sync.upload import by_hand
from assetsync.sync.upload.by_hand import ByHand


@dataclass(frozen=True, slots=True)
class BeginUpload(OperatorRequest):
    """Commit the intent of an upload by hand; answered with `by_hand.Begun` as JSON."""

    verb: ClassVar[str] = "upload"

    upload: ByHand

    @classmethod
    def of(cls, argument: Argument) -> Self:
        """See `OperatorRequest`."""
        return cls(ByHand.of(argument))

    def argument(self) -> dict[str, object]:
        """See `OperatorRequest`."""
        return self.upload.asked()

    def run(self, ledger: Ledger, service: Searches, now: float) -> str:
        """See `OperatorRequest`."""
        return json.dumps(asdict(by_hand.begin(ledger, service, self.upload, now)))


@dataclass(frozen=True, slots=True)
class EndUpload(OperatorRequest):
    """Record the result of the upload by hand whose attempt has this `boundary`."""

    verb: ClassVar[str] = "uploaded"

    boundary: str
    sent: Sent

    @classmethod
    def of(cls, argument: Argument) -> Self:
        """See `OperatorRequest`."""
        return cls(str(argument["boundary"]), by_hand.sent_of(argument))

    def argument(self) -> dict[str, object]:
        """See `OperatorRequest`."""
        return by_hand.outcome_of(self.boundary, self.sent)

    def run(self, ledger: Ledger, _service: Searches, now: float) -> str:
        """See `OperatorRequest`."""
        return by_hand.end(ledger, self.boundary, self.sent, now)

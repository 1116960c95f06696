"""Carry out, in the process that holds the ledger, the requests that commands left in the ledger.

A command that can take the lock carries out its request itself. Reading the command line is left to `cli`.
"""

import structlog

from assetsync.errors import AssetsyncError, ServiceError, UsageError
from assetsync.ledger.ledger import Request
from assetsync.sync.context import Context
from assetsync.sync.requests.decisions import Adopt, Audit, Resolve, Resume, SettleDrift
from assetsync.sync.requests.pause import EndPause, PauseUploads
from assetsync.sync.requests.request import REFUSED, UNANSWERED, Argument, OperatorRequest
from assetsync.sync.requests.retry import (
    LookUp,
    Retry,
    SendAgainWithoutMetadata,
    SendWithoutMetadata,
    SendWithoutSidecar,
)
from assetsync.sync.requests.upload import BeginUpload, EndUpload

log = structlog.get_logger(__name__)

_LOOKED_UP = "each is looked up before it is sent again"

_KINDS: dict[str, type[OperatorRequest]] = {
    kind.verb: kind
    for kind in (
        *(Retry, SendAgainWithoutMetadata, LookUp, SendWithoutSidecar, SendWithoutMetadata),
        *(Resume, PauseUploads, EndPause, Resolve, SettleDrift, Audit, Adopt, BeginUpload, EndUpload),
    )
}


def read_request(verb: str, argument: Argument) -> OperatorRequest:
    """Return a request of the ledger as a value. Raise UsageError for an unknown verb, and as `OperatorRequest.of`."""
    kind = _KINDS.get(verb)
    if kind is None:
        raise UsageError(f"there is no request {verb}")
    return kind.of(argument)


def take_requests(context: Context) -> int:
    """Carry out the requests in the ledger; return how many were no part of an upload by hand."""
    requests = context.ledger.open_requests()
    for request in requests:
        context.ledger.answer_request(request.id, _answer(context, request), context.clock.now())
    lost = context.ledger.attempt_results.recover(context.clock.now(), by_hand=True)
    if lost:
        context.meter.doubted(lost)
        log.warning("in doubt after an upload by hand that ended without an outcome", files=lost, next=_LOOKED_UP)
    return sum(request.verb not in (BeginUpload.verb, EndUpload.verb) for request in requests)


def _answer(context: Context, request: Request) -> str:
    try:
        answer = _carry_out_once(context, request)
    except ServiceError as error:
        prefix, detail = UNANSWERED, str(error)
    except AssetsyncError as error:
        prefix, detail = REFUSED, str(error)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        # Another release, or a person, wrote the request. It must not end the holder now and at every later start.
        prefix, detail = REFUSED, f"the request cannot be understood ({type(error).__name__})"
    else:
        # An audit has only been queued; the service may not answer.
        event = "request accepted" if request.verb == Audit.verb else "request carried out"
        log.info(event, verb=request.verb, answer=answer)
        if request.verb == Resolve.verb:
            context.meter.decided("by_hand")
        return answer
    log.warning("request refused", verb=request.verb, detail=detail)
    return f"{prefix}{detail}"


def _carry_out_once(context: Context, request: Request) -> str:
    """Carry out a request; one that may send a file again at most once, even if the process ended in between.

    Raise as `OperatorRequest.carry_out` does, and ValueError, KeyError and TypeError for a malformed request.
    """
    if request.argument is None:
        raise ValueError("its argument is no object of JSON")
    asked = read_request(request.verb, request.argument)
    is_old = request.id <= context.ledger.old_requests
    if asked.may_send_again and (is_old or not context.ledger.begin_request(request.id)):
        # The file may have been sent since: a second time would be another upload.
        raise UsageError(
            "the process ended before it did this, or the ledger is an older copy: it may be done",
            hint="`assetsync explain` shows it, then ask again",
        )
    return asked.carry_out(context.ledger, context.service, context.clock)

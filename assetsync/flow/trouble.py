"""What a failed call to the service says about the service, in the words of the gate."""

from assetsync.errors import BadAnswer, KeyRefused, ServiceElsewhere, ServiceError, ServiceUnreachable


def describe(error: ServiceError) -> tuple[str, float | None]:
    """Give the stable word for a failure, and the seconds that the service asked to be left alone, if it did."""
    if isinstance(error, KeyRefused):
        return "key_refused", None
    if isinstance(error, ServiceElsewhere):
        return "elsewhere", None
    if isinstance(error, ServiceUnreachable):
        return "unreachable", error.retry_after
    if isinstance(error, BadAnswer):
        return "bad_answer", error.retry_after
    return "refused", None

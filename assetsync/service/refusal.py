"""The error answers of searchassets and searchIndex, turned into the errors of this package.

What is no error answer, rows and forms, is read by `recordset` and `indexing`.
"""

from collections.abc import Mapping

from assetsync.core.messages import KEY_HELP
from assetsync.core.outcome import refuses_key
from assetsync.errors import KeyRefused, ServiceError, ServiceRefused

_TEXT_LIMIT = 300


def refusal(code: str, message: str) -> ServiceError:
    """Make the error for a result code that is not 0 and the service's message: KeyRefused or ServiceRefused."""
    if refuses_key(message):
        return KeyRefused("the service refuses the API key", hint=KEY_HELP)
    said = " ".join(message.split())[:_TEXT_LIMIT] or "no message"
    return ServiceRefused(f'the service answered with an error: "{said}" (code {code[:64] or "none"})', code=code[:64])


def refusal_in(record: Mapping[str, object]) -> ServiceError | None:
    """Make the error that a record of lower-case names states, or None where it states none.

    Two forms were seen: `responsecode` "1" with a message, and `message` with `errorcode`, whose detail says more.
    """
    code = text_of(record.get("responsecode"))
    if code not in ("", "0"):
        return refusal(code, text_of(record.get("message")))
    if code == "" and "message" in record and "id" not in record:
        message = f"{text_of(record['message'])} {text_of(record.get('detail'))}".strip()
        return refusal(text_of(record.get("errorcode")), message)
    return None


def text_of(value: object) -> str:
    """Give a text or number of an answer as a trimmed text; anything else, and null, is empty."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return ""

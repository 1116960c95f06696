"""List the known messages of the service and their meaning for an upload, in one table (observed, "Upload").

Deciding the outcome, which also depends on how much of the request was sent, is left to `core.outcome`.
"""

import re
from dataclasses import dataclass

from assetsync.model import Answer, Fault


@dataclass(frozen=True, slots=True)
class Message:
    """A known message of the service with its meaning; `pattern` is matched from its beginning, without regard to case.

    `answer` is REFUSED only if it is known that nothing was stored; `shown` is the message in its readable form.
    """

    reason: str
    answer: Answer
    fault: Fault
    shown: str
    pattern: re.Pattern[str]
    detail: str
    codes: frozenset[str] = frozenset()

    def says(self, code: str, message: str) -> bool:
        """Return whether an answer with this code and message (its whitespace collapsed) is this known message."""
        return code in self.codes or self.pattern.match(message) is not None


def _starts(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


KEY_HELP = (
    "check the key and its user's permissions, then reload the daemon to read a new one (systemctl reload); a key that"
    " was refused once may stay refused for a day"
)
"""The hint for a refused key; the service caches a refusal for up to a day (observed)."""

MESSAGES = (
    # A wrong key: seen in the XML, and for search and index alike; with `redirectto` the message is "nosession". A key
    # that was refused once was still refused after it had become valid (cached for up to a day).
    Message(
        "key_refused",
        Answer.REFUSED,
        Fault.KEY,
        "Login not valid! …",
        _starts(r"login not valid!|nosession\Z"),
        f"the service refuses the API key: {KEY_HELP}",
    ),
    # Seen with an id of the right form that names no folder. The service checks it before it looks at the file.
    Message(
        "unknown_folder",
        Answer.REFUSED,
        Fault.FOLDER,
        "Specified folder '…' does not exist",
        _starts(r"specified folder '.*' does not exist\.?\Z"),
        "the service has no such folder: correct destfolderid in the configuration",
    ),
    # Seen when the part is missing or has another name; a proxy that drops the body has the same effect.
    Message(
        "no_filedata",
        Answer.REFUSED,
        Fault.FILE,
        "Missing 'filedata' parameter",
        _starts(r"missing 'filedata' parameter\.?\Z"),
        "the service found no file in the upload: check the proxies between here and the service, then retry",
    ),
    # Seen for files of 0 bytes. The pattern is anchored at its end: other texts that begin with "Upload failed" are
    # doubtful.
    Message(
        "empty_file",
        Answer.REFUSED,
        Fault.FILE,
        "Upload failed There was no appropriate FILE found in the upload",
        _starts(r"upload failed\s+there was no appropriate file found in the upload\.?\Z"),
        "the service rejects empty files: the file is sent once it has content",
    ),
    # Interface section 7. The number must be the error's number: "Error at line 10001" is another error.
    Message(
        "too_large",
        Answer.REFUSED,
        Fault.FILE,
        "Error 10001",
        _starts(
            r"(?!.*\berror at line\b)(?:.*\berror(?: code| no\.?| number)?\s*[:#=]?\s*10001\b|10001\s*(?:\Z|[:;,.-]))"
        ),
        "the file is larger than the service accepts in one request (error 10001): raise its limit, or leave the file "
        "out with max_file_size",
        codes=frozenset({"10001"}),
    ),
    # The service compares MD5s over the whole host. <assetid> then holds a converted file name (observed), so it is not
    # read.
    Message(
        "duplicate",
        Answer.DUPLICATE,
        Fault.FILE,
        "File already exists in Razuna",
        _starts(r"file already exists\b"),
        "the service reports this content as a duplicate, and names no asset",
    ),
    # Seen with a parameter missing; the error path of a stored upload sends the same text (source).
    Message(
        "error_at_line",
        Answer.DOUBT,
        Fault.SERVICE,
        "Upload failed Error at line …",
        _starts(r"upload failed\s+error at line\b"),
        "the service failed during the upload, and may have stored a part",
    ),
)
"""Every message of an upload that was seen or is documented. A message in no row is a doubt: `unknown_message`."""


def known_message(code: str, text: str) -> Message | None:
    """Return the row that matches an answer with this result code and message; None for an unknown one."""
    plain = " ".join(text.split())
    return next((message for message in MESSAGES if message.says(code, plain)), None)

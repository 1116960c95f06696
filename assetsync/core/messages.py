"""The messages of the service that are known, in one table: what each means for an upload (observed, "Upload").

What follows from a message is `core.outcome`'s, which also knows what had left when it came.
"""

import re
from dataclasses import dataclass

from assetsync.model import Answer, Fault


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the service that is known, with what it means; matched from its beginning, without case.

    `answer` is REFUSED only where it is known that nothing was stored; `amounts` is the message as people read it.
    """

    reason: str
    answer: Answer
    fault: Fault
    shown: str
    pattern: re.Pattern[str]
    detail: str
    codes: frozenset[str] = frozenset()

    def says(self, code: str, message: str) -> bool:
        """Whether an answer with this code and message (its blanks made single) is this one."""
        return code in self.codes or self.pattern.match(message) is not None


def _starts(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


KEY_HELP = (
    "check the key and its user's permissions, and let a daemon read a new one (systemctl reload); a key that was"
    " refused once may stay refused for a day"
)
"""What helps with a key that is refused; a refusal is cached for up to a day (observed)."""

MESSAGES = (
    # A wrong key: seen in the XML and for search and index alike; with `redirectto` the message is "nosession". A key
    # that was refused once was still refused after it had been made valid (cached for up to a day).
    Message(
        "key_refused",
        Answer.REFUSED,
        Fault.KEY,
        "Login not valid! …",
        _starts(r"login not valid!|nosession\Z"),
        f"the service refuses the API key: {KEY_HELP}",
    ),
    # Seen with an id of the right form that names no folder. Checked by the service before it looks at the file.
    Message(
        "unknown_folder",
        Answer.REFUSED,
        Fault.FOLDER,
        "Specified folder '…' does not exist",
        _starts(r"specified folder '.*' does not exist\.?\Z"),
        "the service knows no such folder: correct destfolderid in the configuration",
    ),
    # Seen when the part is missing or has another name; a proxy that drops the body looks the same.
    Message(
        "no_filedata",
        Answer.REFUSED,
        Fault.FILE,
        "Missing 'filedata' parameter",
        _starts(r"missing 'filedata' parameter\.?\Z"),
        "the service saw no file in the upload: check what stands between here and the service, then retry",
    ),
    # Seen for files of 0 bytes. Anchored to its end: other texts that begin "Upload failed" are doubtful.
    Message(
        "empty_file",
        Answer.REFUSED,
        Fault.FILE,
        "Upload failed There was no appropriate FILE found in the upload",
        _starts(r"upload failed\s+there was no appropriate file found in the upload\.?\Z"),
        "the service refuses empty files: it is sent once it has content",
    ),
    # Interface section 7. The number must stand as the error's number: "Error at line 10001" is something else.
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
    # Compares MD5 over the whole host. <assetid> then holds a converted file name (observed), hence it is not read.
    Message(
        "duplicate",
        Answer.DUPLICATE,
        Fault.FILE,
        "File already exists in Razuna",
        _starts(r"file already exists\b"),
        "the service says that it already has this content, and names no asset",
    ),
    # Seen with a parameter missing; the same text comes from the error path of a stored upload (source).
    Message(
        "error_at_line",
        Answer.DOUBT,
        Fault.SERVICE,
        "Upload failed Error at line …",
        _starts(r"upload failed\s+error at line\b"),
        "the service failed inside the upload, which can leave something stored",
    ),
)
"""Every message of an upload that was seen or is documented. What is in no row is a doubt: `unknown_message`."""


def known_message(code: str, text: str) -> Message | None:
    """Find the row that an answer with this result code and message is; None for one that nobody has seen."""
    plain = " ".join(text.split())
    return next((message for message in MESSAGES if message.says(code, plain)), None)

"""Compare the description and keywords that were sent, or that sidecars give, with those that the service shows.

Pure. A ledger keeps no text, only a digest of each field that was sent. So a difference can be named precisely only if
the text is known from the sidecars; reading these is left to `sync.readback.sent_metadata`.
"""

import hashlib
import re
from typing import NamedTuple

_DIGEST_BYTES = 8
_BETWEEN_KEYWORDS = re.compile(r"[,;\n]")
_UNKNOWN = re.compile(r"\?+")


class SentTexts(NamedTuple):
    """The digests of the description and keywords of an upload; None for a field that is not compared."""

    description: str | None = None
    keywords: str | None = None


class Texts(NamedTuple):
    """A description and keywords as text; None for a text that is not known."""

    description: str | None = None
    keywords: str | None = None


NOT_COMPARED = SentTexts()
"""The digests of an upload without metadata, or by hand."""

UNKNOWN = Texts()

AS_SENT = Texts("other than was sent", "others than were sent")
"""Words for a field that differs from what was sent."""

IN_SIDECARS = Texts("other than in the sidecars", "others than in the sidecars")
"""Words for a field that differs from what the sidecars give."""


def digests(texts: Texts) -> SentTexts:
    """Return the digests of texts that are sent; an empty text is not sent."""
    return SentTexts(*(_digest(name, text) if text else None for name, text in texts._asdict().items()))


def differences(sent: SentTexts, shown: Texts, known: Texts, others: Texts = AS_SENT) -> list[str]:
    """Return what the service shows in place of what was sent, in words; `known` holds the sent texts, if known.

    `others` holds the words for a field that is neither empty nor cut. White space is folded, and the order of
    keywords does not matter. A character outside ISO-8859-1 equals `?`, because the service shows it so (observed). A
    field that the answer does not have is not compared.
    """
    found = []
    for name, digest in sent._asdict().items():
        text: str | None = getattr(shown, name)
        if digest is None or text is None or _digest(name, text) == digest:
            continue
        found.append(f"{_NAMED[name]} {_difference(_folded(text), getattr(known, name)) or getattr(others, name)}")
    return found


_NAMED = {"description": "the description is", "keywords": "the keywords are"}


def _difference(shown: str, sent: str | None) -> str | None:
    if not shown:
        return "empty"
    if sent is not None and _folded(sent).startswith(shown):
        return f"cut after {len(shown):,} characters"
    return None


def _digest(name: str, text: str) -> str | None:
    normalised = _keywords(text) if name == "keywords" else _folded(text)
    return hashlib.blake2b(normalised.encode(), digest_size=_DIGEST_BYTES).hexdigest() if normalised else None


def _keywords(text: str) -> str:
    return ",".join(sorted(filter(None, map(_folded, _BETWEEN_KEYWORDS.split(text)))))


def _folded(text: str) -> str:
    """Return a text with single blanks, and with a single `?` for each run of characters outside ISO-8859-1."""
    return _UNKNOWN.sub("?", " ".join(text.encode("latin-1", "replace").decode("latin-1").split()))

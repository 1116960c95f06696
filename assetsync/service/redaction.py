"""Keeps the API key out of what the service says: it may quote the key, escape it, or give it for an asset's id.

Pure. Whatever was read from an answer goes through here before it leaves the package, because it may be shown, logged
or written into the ledger by parts that know no key.
"""

import re
from dataclasses import replace
from urllib.parse import quote, quote_plus

from assetsync.core.outcome import read_silence
from assetsync.model import Answer, Outcome, SentExtent

REPLACEMENT = "***"


class Redaction:
    """Replaces one secret, plain or URL-encoded, in texts and outcomes; an empty secret is none."""

    def __init__(self, secret: str) -> None:
        encoded = {quote(secret), quote(secret, safe=""), quote_plus(secret)}
        lowered = {re.sub("%[0-9A-F]{2}", lambda found: found.group().lower(), form) for form in encoded}
        # The longest first, so that no form leaves the rest of a longer one behind.
        self.forms = tuple(sorted({secret, *encoded, *lowered} - {""}, key=len, reverse=True))

    def text(self, text: str) -> str:
        """Give a text without the secret."""
        for form in self.forms:
            text = text.replace(form, REPLACEMENT)
        return text

    def body(self, body: bytes) -> bytes:
        """Give the bytes of an answer without the secret, as far as it stands in them unescaped."""
        for form in self.forms:
            body = body.replace(form.encode(), REPLACEMENT.encode())
        return body

    def outcome(self, outcome: Outcome, left: SentExtent) -> Outcome:
        """Give the outcome of an upload without the secret; one that names it as the asset's id names no asset."""
        if outcome.assetid is not None and self.text(outcome.assetid) != outcome.assetid:
            problem = "the service answered success and gave the API key for an asset id"
            silent = read_silence(left, problem, reason="unsound_id", retry_after=outcome.retry_after)
            outcome = replace(
                outcome,
                answer=Answer.DOUBT,
                reason=silent.reason,
                detail=silent.detail,
                fault=silent.fault,
                assetid=None,
            )
        told = (outcome.detail, outcome.responsecode, outcome.message, outcome.renamefilebody, outcome.comingfrom)
        if not any(form in text for text in told if text for form in self.forms):
            return outcome
        return replace(
            outcome,
            detail=self.text(outcome.detail),
            responsecode=self._maybe(outcome.responsecode),
            message=self._maybe(outcome.message),
            renamefilebody=self._maybe(outcome.renamefilebody),
            comingfrom=self._maybe(outcome.comingfrom),
        )

    def _maybe(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)

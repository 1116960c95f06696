"""Redact the API key in answers of the service, which may quote the key, URL-encode it or return it as an asset id.

The module does no I/O. Outcomes, messages, raw answers and the fields of assets are redacted before they leave the
package, because parts that do not know the key show them, log them or write them into the ledger. `Asset.columns` is
not redacted here: the command line redacts its output through `log`.
"""

import re
from urllib.parse import quote, quote_plus

from assetsync.core.outcome import read_silence
from assetsync.model import Answer, Outcome, SentExtent

REPLACEMENT = "***"


class Redaction:
    """A filter that replaces one secret, plain or URL-encoded, in texts and outcomes; an empty secret is ignored."""

    def __init__(self, secret: str) -> None:
        encoded = {quote(secret), quote(secret, safe=""), quote_plus(secret)}
        lowered = {re.sub("%[0-9A-F]{2}", lambda found: found.group().lower(), form) for form in encoded}
        # Longest form first, so that replacing a shorter form leaves no rest of a longer form.
        self.forms = tuple(sorted({secret, *encoded, *lowered} - {""}, key=len, reverse=True))

    def text(self, text: str) -> str:
        """Return the text with the secret redacted."""
        for form in self.forms:
            text = text.replace(form, REPLACEMENT)
        return text

    def body(self, body: bytes) -> bytes:
        """Return the bytes of an answer with the secret redacted, except where it is escaped in other ways."""
        for form in self.forms:
            body = body.replace(form.encode(), REPLACEMENT.encode())
        return body

    def outcome(self, outcome: Outcome, left: SentExtent) -> Outcome:
        """Return an upload's outcome with the secret redacted.

        If the asset id contains the secret, the id is dropped and the outcome becomes a doubt.
        """
        if outcome.assetid is not None and self.text(outcome.assetid) != outcome.assetid:
            problem = "the service answered success and gave the API key for an asset id"
            silent = read_silence(left, problem, reason="unsound_id", retry_after=outcome.retry_after)
            outcome = outcome._replace(
                answer=Answer.DOUBT,
                reason=silent.reason,
                detail=silent.detail,
                fault=silent.fault,
                assetid=None,
            )
        texts = (outcome.detail, outcome.responsecode, outcome.message, outcome.renamefilebody, outcome.comingfrom)
        if not any(form in text for text in texts if text for form in self.forms):
            return outcome
        return outcome._replace(
            detail=self.text(outcome.detail),
            responsecode=self._maybe(outcome.responsecode),
            message=self._maybe(outcome.message),
            renamefilebody=self._maybe(outcome.renamefilebody),
            comingfrom=self._maybe(outcome.comingfrom),
        )

    def _maybe(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)

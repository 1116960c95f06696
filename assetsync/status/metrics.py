"""Count the work of `sync` since the process began, and export it for Prometheus.

The current status of the site is left to `gauges`. Every series has the label `site`; no series holds a path, a name or
a text of the service. Only this module and `gauges` use prometheus-client.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram, Summary, disable_created_metrics, generate_latest

from assetsync.ledger.runs import JOBS
from assetsync.model import Answer, Sent
from assetsync.status.gauges import Gauges
from assetsync.status.live import Live
from assetsync.status.standing import Standing

_SECOND, _MINUTE, _HOUR = 1, 60, 3600
_FINDABLE = (
    *(_SECOND, 2, 5, 10, 30),
    *(_MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 30 * _MINUTE),
    *(_HOUR, 2 * _HOUR, 6 * _HOUR, 12 * _HOUR, 24 * _HOUR),
)
_DECIDED = ("found", "damaged", "absent", "undecidable", "by_hand")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The meter of one process (`model.Meter`) and its exposition; counters begin at 0."""

    def __init__(self, site: str) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._site = site
        self._registry = registry = CollectorRegistry()

        def counter(name: str, help_text: str, *labels: str) -> Counter:
            return Counter(f"assetsync_{name}", help_text, ("site", *labels), registry=registry)

        self._uploads = counter("uploads", "Uploads whose end is written down, by what their answer meant.", "result")
        self._failures = counter("upload_failures", "Uploads that were not accepted, by the reason.", "reason")
        self._bytes = counter("upload_bytes", "Bytes of files that were handed to the network.")
        self._retries = counter("upload_retries", "Uploads of files that had been sent before.")
        self._opened = counter("doubts_opened", "Uploads and assets that came in doubt.")
        self._decided = counter("doubts_decided", "Doubts that ended, by how.", "how")
        self._findable = Histogram(
            "assetsync_settled_to_findable_seconds",
            "From the moment a file had settled until its asset was found through the service's index.",
            ("site",),
            buckets=_FINDABLE,
            registry=registry,
        )
        self._jobs = Summary(
            "assetsync_job_duration_seconds", "How long regular work took.", ("site", "job"), registry=registry
        )
        self._begin()

    def show(self, standing: Callable[[], Standing], live: Callable[[], Live]) -> None:
        """Export the status of the site and of the process too."""
        self._registry.register(Gauges(self._site, standing, live))

    def exposition(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)

    def attempted(self, sent: Sent, *, again: bool) -> None:
        """Count one POST."""
        outcome = sent.outcome
        self._uploads.labels(self._site, str(outcome.answer)).inc()
        self._bytes.labels(self._site).inc(sent.handed)
        if outcome.answer is not Answer.ACCEPTED:
            self._failures.labels(self._site, outcome.reason or str(outcome.answer)).inc()
        if again:
            self._retries.labels(self._site).inc()

    def doubted(self, count: int = 1) -> None:
        """Count doubts that began."""
        self._opened.labels(self._site).inc(count)

    def decided(self, how: str) -> None:
        """Count a doubt that ended."""
        self._decided.labels(self._site, how).inc()

    def findable(self, seconds: float) -> None:
        """Record the seconds from a file's settling until its asset was found; a negative value counts as 0.

        The value is negative after the clock was set back.
        """
        self._findable.labels(self._site).observe(max(0.0, seconds))

    def ran(self, job: str, seconds: float) -> None:
        """Record how many seconds a run of a job took."""
        self._jobs.labels(self._site, job).observe(seconds)

    def _begin(self) -> None:
        """Create every series at the start: a series that starts with its first event has no rate before the second."""
        for counter in (self._bytes, self._retries, self._opened, self._findable):
            counter.labels(self._site)
        for answer in Answer:
            self._uploads.labels(self._site, str(answer))
        for how in _DECIDED:
            self._decided.labels(self._site, how)
        for job in JOBS:
            self._jobs.labels(self._site, job)

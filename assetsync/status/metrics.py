"""Export the work of `sync` since the process began, and the current status of the site, for Prometheus.

Every series has the label `site`; no series holds a path, a name or a text of the service. Gauges are read when
Prometheus asks. Only this module uses prometheus-client.
"""

import math
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    Summary,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from assetsync.errors import LedgerError
from assetsync.ledger.runs import JOBS
from assetsync.model import Answer, Sent, State
from assetsync.status.site_status import Live, SiteStatus

_AT_REST = (State.SUPERSEDED, State.GONE)
_Values = Iterable[tuple[tuple[str, ...], float]]


class Gauges(Collector):
    """The collector of the status and the live values; if the ledger cannot be read, of the live values only."""

    def __init__(self, site: str, status: Callable[[], SiteStatus], live: Callable[[], Live]) -> None:
        self._site = site
        self._status = status
        self._live = live
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family."""
        try:
            status = self._status()
        except LedgerError:
            status = None
        yield self._gauge("ledger_readable", "Whether the ledger could be read for this answer.", status is not None)
        if status is not None:
            yield from self._of_site(status)
            yield from self._of_work(status)
        yield from self._of_process(self._live())
        for family in self._process.collect():
            # Only this label tells the sites on one machine apart.
            family.samples = [s._replace(labels={"site": self._site, **s.labels}) for s in family.samples]
            yield family

    def _of_site(self, status: SiteStatus) -> Iterator[Metric]:
        counts = status.counts
        states = [((str(state),), counts.of(state)) for state in State if state not in _AT_REST]
        yield self._labelled("files", "Files of the tree by state.", ["state"], states)
        yield self._gauge("verified_bytes", "Bytes of the verified files.", counts.bytes_verified)
        yield self._gauge("in_sync", "Whether everything of the last, complete scan is verified.", status.in_sync)
        yield self._gauge("doubts_open", "Uploads whose arrival is unknown.", status.in_doubt)
        yield self._gauge(
            "files_waiting_for_sidecar",
            "Files that wait for their own sidecars, because their mapping requires one.",
            counts.waiting_for_sidecar,
        )
        yield self._gauge(
            "oldest_waiting_seconds", "Age of the oldest file that is not yet verified.", status.oldest_age
        )
        yield self._gauge(
            "metadata_drift",
            "Files whose metadata changed after the upload, or was not kept by the service.",
            status.drift_count,
        )
        vanished = sum(each.count for each in status.vanished)
        yield self._gauge("vanished_week", "Files that vanished from the tree in the last 7 days.", vanished)
        yield self._gauge("brakes", "Brakes that wait for an operator.", len(status.brakes))
        yield self._gauge("ledger_full", "Whether the ledger's disk is full.", status.without_room is not None)
        yield self._gauge("folders_held", "Folders of the service with uploads on hold.", len(status.holds))
        yield self._gauge(
            "index_stopped", "Whether calls of searchIndex have stopped.", status.index_stopped is not None
        )

    def _of_work(self, status: SiteStatus) -> Iterator[Metric]:
        pause, scan = status.paused, status.last_scan
        yield self._gauge(
            "paused_seconds",
            "How long the service has kept sending paused; 0 if not paused.",
            # After the clock was set back, report 0.
            max(0.0, status.at - pause.since) if pause else 0.0,
        )
        held_up = status.held_up
        stopped = held_up.since if held_up is not None and held_up.everything else status.at
        yield self._gauge(
            "doubts_stop_seconds",
            "How long uploads in doubt have stopped all sending; 0 if they do not.",
            max(0.0, status.at - stopped),
        )
        yield self._gauge(
            "doubts_folders_waiting",
            "Folders of the service whose files wait until uploads in doubt are decided.",
            0 if held_up is None else len(held_up.folders),
        )
        paused = [((pause.reason,), 1.0)] if pause else []
        yield self._labelled("paused", "Why sending is paused; absent if not paused.", ["reason"], paused)
        of_site = int(status.site_pause is not None)
        scopes = [(("site",), of_site), (("folder",), len(status.pauses) - of_site)]
        yield self._labelled("operator_pauses", "Pauses by persons.", ["scope"], scopes)
        ends = [pause.ends_at(status.at) for pause in status.pauses]
        yield self._gauge(
            "operator_pauses_end_timestamp_seconds",
            "When the last of the pauses by persons ends; +Inf for a pause without an end, 0 without a pause.",
            max((math.inf if end is None else end for end in ends), default=0.0),
        )
        if scan is not None:
            yield self._gauge("last_scan_complete", "Whether the last scan could read all of the tree.", scan.complete)
            yield self._gauge(
                "last_scan_missing_folders",
                "Mapped folders that the last scan did not find.",
                len(status.missing_folders),
            )
            yield self._gauge(
                "last_scan_unreadable", "Files and folders that the last scan could not read.", scan.unreadable
            )
        runs = [((job,), run.at) for job, run in status.last_runs.items()]
        yield self._labelled("job_last_success_timestamp_seconds", "When scheduled work last ended.", ["job"], runs)

    def _of_process(self, live: Live) -> Iterator[Metric]:
        yield self._labelled("build_info", "The release.", ["version"], [((live.version,), 1.0)])
        nexts = [((job,), at) for job, at in live.next_runs.items()]
        yield self._labelled("job_next_timestamp_seconds", "When scheduled work starts next.", ["job"], nexts)
        yield self._gauge("loops_late", "Loops that missed their deadline.", len(live.late))
        yield self._gauge("files_settling", "Files that have not settled yet.", live.settling)
        yield self._counter("adopted", "Files that took over an asset without an upload.", live.adopted)
        trust = live.trust
        yield self._labelled("watch_mode", "How changes are detected.", ["mode"], [((trust.mode,), 1.0)])
        yield self._gauge("watch_polling", "Whether the tree is scanned every minute instead.", trust.polling)
        for name, help_text, value in (
            ("watch_folders", "Mapped folders at the last scan.", trust.folders),
            ("watch_folders_watched", "Folders that the kernel watched at the last scan.", trust.watched),
            ("watch_limit", "fs.inotify.max_user_watches.", trust.limit),
            ("watch_canary_timestamp_seconds", "When the watcher last proved that it works.", trust.canary_at),
        ):
            if value is not None:
                yield self._gauge(name, help_text, value)
        yield self._counter("watch_overflows", "Overflows of the kernel's queue of events.", trust.overflows)
        yield self._counter("watch_restarts", "Watchers restarted because they did not answer.", trust.made_anew)

    def _gauge(self, name: str, help_text: str, value: float) -> Metric:
        return self._labelled(name, help_text, [], [((), float(value))])

    def _labelled(self, name: str, help_text: str, labels: list[str], values: _Values) -> Metric:
        family = GaugeMetricFamily(f"assetsync_{name}", help_text, labels=["site", *labels])
        for own, value in values:
            family.add_metric([self._site, *own], value)
        return family

    def _counter(self, name: str, help_text: str, value: float) -> Metric:
        family = CounterMetricFamily(f"assetsync_{name}", help_text, labels=["site"])
        family.add_metric([self._site], value)
        return family


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

        self._uploads = counter("uploads", "Recorded uploads, by result.", "result")
        self._failures = counter("upload_failures", "Uploads that were not accepted, by the reason.", "reason")
        self._bytes = counter("upload_bytes", "Bytes of files sent.")
        self._retries = counter("upload_retries", "Uploads of files that were sent before.")
        self._opened = counter("doubts_opened", "Doubts that began.")
        self._decided = counter("doubts_decided", "Doubts that ended, by result.", "how")
        self._findable = Histogram(
            "assetsync_settled_to_findable_seconds",
            "From the moment a file had settled until its asset was found through the service's index.",
            ("site",),
            buckets=_FINDABLE,
            registry=registry,
        )
        self._jobs = Summary(
            "assetsync_job_duration_seconds", "How long scheduled work took.", ("site", "job"), registry=registry
        )
        # Create every series at the start: a series that starts with its first event has no rate before the second.
        for unlabelled in (self._bytes, self._retries, self._opened, self._findable):
            unlabelled.labels(site)
        for answer in Answer:
            self._uploads.labels(site, str(answer))
        for how in _DECIDED:
            self._decided.labels(site, how)
        for job in JOBS:
            self._jobs.labels(site, job)

    def show(self, status: Callable[[], SiteStatus], live: Callable[[], Live]) -> None:
        """Export the status of the site and of the process too."""
        self._registry.register(Gauges(self._site, status, live))

    def exposition(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)

    def attempted(self, sent: Sent, *, again: bool) -> None:
        """Count one POST."""
        outcome = sent.outcome
        self._uploads.labels(self._site, str(outcome.answer)).inc()
        self._bytes.labels(self._site).inc(sent.bytes_sent)
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

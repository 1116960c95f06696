"""Export the status of a site and its process as metrics, read at each scrape and never stored.

Counters of what the process did are left to `metrics`.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from assetsync.errors import LedgerError
from assetsync.model import State
from assetsync.status.live import Live
from assetsync.status.standing import Standing

_AT_REST = (State.SUPERSEDED, State.GONE)
_Values = Iterable[tuple[tuple[str, ...], float]]


class Gauges(Collector):
    """The collector of the status and the live values; if the ledger cannot be read, of the live values only."""

    def __init__(self, site: str, standing: Callable[[], Standing], live: Callable[[], Live]) -> None:
        self._site = site
        self._standing = standing
        self._live = live
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family."""
        try:
            standing = self._standing()
        except LedgerError:
            standing = None
        yield self._gauge("ledger_readable", "Whether the ledger could be read for this answer.", standing is not None)
        if standing is not None:
            yield from self._of_site(standing)
            yield from self._of_work(standing)
        yield from self._of_process(self._live())
        for family in self._process.collect():
            # Only this label tells the sites on one machine apart.
            family.samples = [s._replace(labels={"site": self._site, **s.labels}) for s in family.samples]
            yield family

    def _of_site(self, standing: Standing) -> Iterator[Metric]:
        counts = standing.counts
        states = [((str(state),), counts.of(state)) for state in State if state not in _AT_REST]
        yield self._labelled("files", "Files of the tree by what the service knows of them.", ["state"], states)
        yield self._gauge("verified_bytes", "Bytes of the verified files.", counts.bytes_verified)
        yield self._gauge("in_sync", "Whether everything of the last, complete scan is verified.", standing.in_sync)
        yield self._gauge("doubts_open", "Uploads of which it is not known whether they arrived.", standing.in_doubt)
        yield self._gauge(
            "oldest_waiting_seconds", "For how long the file that waits longest has been waiting.", standing.oldest_age
        )
        yield self._gauge(
            "metadata_drift", "Files of which the tree says what the service does not.", standing.drift_count
        )
        yield self._gauge("brakes", "Brakes that wait for a person.", len(standing.brakes))
        yield self._gauge("ledger_full", "Whether the ledger's disk is full.", standing.without_room is not None)
        yield self._gauge("folders_held", "Folders of the service that are held back.", len(standing.holds))
        yield self._gauge(
            "index_stopped", "Whether searchIndex is not called any more.", standing.index_stopped is not None
        )

    def _of_work(self, standing: Standing) -> Iterator[Metric]:
        pause, scan = standing.paused, standing.last_scan
        yield self._gauge(
            "paused_seconds",
            "For how long sending has been paused because of the service; 0 while it is not.",
            # After the clock was set back, report 0.
            max(0.0, standing.at - pause.since) if pause else 0.0,
        )
        paused = [((pause.reason,), 1.0)] if pause else []
        yield self._labelled("paused", "Why sending is paused; absent while it is not.", ["reason"], paused)
        if scan is not None:
            yield self._gauge("last_scan_complete", "Whether the last scan could read all of the tree.", scan.complete)
            yield self._gauge(
                "last_scan_missing_folders", "Mapped folders that it did not find.", len(standing.missing_folders)
            )
            yield self._gauge("last_scan_unreadable", "Files and folders that it could not read.", scan.unreadable)
        runs = [((job,), run.at) for job, run in standing.last_runs.items()]
        yield self._labelled(
            "job_last_success_timestamp_seconds", "When regular work last came to its end.", ["job"], runs
        )

    def _of_process(self, live: Live) -> Iterator[Metric]:
        yield self._labelled("build_info", "The release.", ["version"], [((live.version,), 1.0)])
        nexts = [((job,), at) for job, at in live.next_runs.items()]
        yield self._labelled("job_next_timestamp_seconds", "When regular work starts next.", ["job"], nexts)
        yield self._gauge("loops_late", "Loops that missed their deadline.", len(live.late))
        yield self._gauge("files_settling", "Files that are not at rest yet.", live.settling)
        yield self._counter("adopted", "Files that got their asset without an upload.", live.adopted)
        trust = live.trust
        yield self._labelled("watch_mode", "How changes are noticed.", ["mode"], [((trust.mode,), 1.0)])
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
        yield self._counter("watch_restarts", "Watchers made anew because they did not answer.", trust.made_anew)

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

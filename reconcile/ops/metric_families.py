"""The metrics that count events: names, labels and buckets, of controller-runtime where it has the same.

A new metric or label is an entry here, the line that counts it in `metrics`, and a row of
docs/reference/metrics.md.
"""

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.registry import Collector

RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
QUEUE_BUCKETS = tuple(float(f"1e{exponent}") for exponent in range(-8, 4))
REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
SIZE_BUCKETS = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
"""In bytes, as client-go has them; the others are in seconds."""
WAIT_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)


class MetricFamilies:
    """Every counter, histogram and settable gauge of one manager, in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(name, text, labels, buckets=buckets, registry=registry)

        runtime, queue, rest = "controller_runtime", "workqueue", "rest_client"
        by, by_queue, by_host = "controller", ("name", "controller"), ("verb", "host")
        self.runs = counter(f"{runtime}_reconcile_total", "Runs by result.", by, "result")
        self.errors = counter(f"{runtime}_reconcile_errors_total", "Failed runs, terminal ones included.", by)
        self.terminal = counter(
            f"{runtime}_terminal_reconcile_errors_total", "Failed runs that are not retried.", by
        )
        self.panics = counter(
            f"{runtime}_reconcile_panics_total", "Runs that failed by an error in the code.", by
        )
        self.timeouts = counter(
            f"{runtime}_reconcile_timeouts_total", "Runs that exceeded their timeout.", by
        )
        self.seconds = histogram(
            f"{runtime}_reconcile_time_seconds", "Duration of runs.", RECONCILE_BUCKETS, by
        )
        self.max_concurrent = gauge(
            f"{runtime}_max_concurrent_reconciles", "Workers that the controller may have.", by
        )
        self.adds = counter(f"{queue}_adds_total", "Keys that became ready.", *by_queue)
        self.retries = counter(f"{queue}_retries_total", "Keys added with back-off.", *by_queue)
        self.waited = histogram(
            f"{queue}_queue_duration_seconds", "Time a key waited for a worker.", QUEUE_BUCKETS, *by_queue
        )
        self.worked = histogram(
            f"{queue}_work_duration_seconds", "Time a worker spent on a key.", QUEUE_BUCKETS, *by_queue
        )
        self.requests = counter(
            f"{rest}_requests_total", "Requests to the API server.", "code", "method", "host"
        )
        self.request_seconds = histogram(
            f"{rest}_request_duration_seconds", "Duration of requests but streams.", REQUEST_BUCKETS, *by_host
        )
        self.request_bytes = histogram(
            f"{rest}_request_size_bytes", "Size of request bodies.", SIZE_BUCKETS, *by_host
        )
        self.response_bytes = histogram(
            f"{rest}_response_size_bytes", "Size of response bodies but streams.", SIZE_BUCKETS, *by_host
        )
        self.certificates = counter(
            "certwatcher_read_certificate_total", "Attempts to read the serving certificate."
        )
        self.certificate_errors = counter(
            "certwatcher_read_certificate_errors_total", "Failed attempts to read the serving certificate."
        )
        self.own_writes = histogram(
            "reconcile_own_write_wait_seconds",
            "Time a read waited until the cache showed own writes.",
            WAIT_BUCKETS,
            by,
        )
        self.behind = counter(
            "reconcile_own_write_timeouts_total", "Waits for own writes that ran out, relist included.", by
        )
        self.storms = counter("reconcile_storms_total", "Keys found to wake themselves.", by)
        self.storming = gauge("reconcile_storms_active", "Keys slowed because they wake themselves.", by)
        self.loop_lag = histogram(
            "reconcile_event_loop_lag_seconds", "Delay of the event loop.", WAIT_BUCKETS
        )

    def __iter__(self) -> Iterator[Collector]:
        yield from vars(self).values()

"""The metrics that count events: names, labels and buckets, of controller-runtime where it has the same.

A new metric or label is an entry here, its count in `metrics`, and a row of docs/reference/metrics.md.
"""

from collections.abc import Iterator, Sequence

from attrs import frozen
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.registry import Collector

from reconcile.ops.histograms import HistogramFamily

RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
QUEUE_BUCKETS = tuple(float(f"1e{exponent}") for exponent in range(-8, 4))
REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
SIZE_BUCKETS = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
"""In bytes, as client-go has them; the others are in seconds."""
WEBHOOK_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
HAND_OVER_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
REACTION_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
CONVERGENCE_BUCKETS = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
WAIT_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)


class MetricFamilies:
    def __init__(self, registry: CollectorRegistry) -> None:
        run = _Maker(registry, "controller_runtime", ("controller",))
        self.runs = run.counter("reconcile_total", "Runs by result.", "result")
        self.errors = run.counter("reconcile_errors_total", "Failed runs, terminal ones included.")
        self.terminal = run.counter("terminal_reconcile_errors_total", "Failed runs that are not retried.")
        self.panics = run.counter("reconcile_panics_total", "Runs that failed by an error in the code.")
        self.timeouts = run.counter("reconcile_timeouts_total", "Runs that exceeded their timeout.")
        self.seconds = run.run_histogram("reconcile_time_seconds", "Duration of runs.", RECONCILE_BUCKETS)
        self.max_concurrent = run.gauge("max_concurrent_reconciles", "Workers that the controller may have.")

        queue = _Maker(registry, "workqueue", ("name", "controller"), QUEUE_BUCKETS)
        self.adds = queue.counter("adds_total", "Keys that became ready.")
        self.retries = queue.counter("retries_total", "Keys added with back-off.")
        self.waited = queue.run_histogram("queue_duration_seconds", "Time a key waited for a worker.")
        self.worked = queue.run_histogram("work_duration_seconds", "Time a worker spent on a key.")

        answer = _Maker(registry, "rest_client", ("code", "method", "host"))
        self.requests = answer.counter("requests_total", "Requests to the API server.")
        rest = _Maker(registry, "rest_client", ("verb", "host"), SIZE_BUCKETS)
        self.request_seconds = rest.histogram(
            "request_duration_seconds", "Duration of requests but streams.", REQUEST_BUCKETS
        )
        self.request_bytes = rest.histogram("request_size_bytes", "Size of request bodies.")
        self.response_bytes = rest.histogram("response_size_bytes", "Size of response bodies but streams.")

        files = _Maker(registry, "certwatcher_read_certificate", ())
        self.certificates = files.counter("total", "Attempts to read the serving certificate.")
        self.certificate_errors = files.counter(
            "errors_total", "Failed attempts to read the serving certificate."
        )

        calls = _Maker(registry, "controller_runtime_webhook", ("webhook",), WEBHOOK_BUCKETS)
        self.webhook_requests = calls.counter("requests_total", "Calls of webhooks by status.", "code")
        self.webhook_seconds = calls.histogram("latency_seconds", "Duration of calls of webhooks.")
        hooks = _Maker(registry, "reconcile_webhook", ("webhook",))
        self.webhook_results = hooks.counter("calls_total", "Calls of webhooks by result.", "result")
        self.webhook_certificate = _Maker(registry, "reconcile_webhook", ()).gauge(
            "certificate_days", "Days until the certificate of the webhooks expires; NaN without one."
        )
        self.webhook_certificate.set(float("nan"))  # 0 would be one that has expired

        defined = _Maker(registry, "reconcile_definition", ("definition",))
        self.rewritten = defined.gauge("rewritten_objects", "Objects rewritten by the pass that migrates.")
        self.not_rewritten = defined.gauge("failed_objects", "Objects that this pass could not rewrite.")
        self.finished = defined.gauge("finished", "Whether definition and objects are as the classes are.")

        shard = _Maker(registry, "reconcile_shard", ("outcome",), HAND_OVER_BUCKETS)
        self.handed_over = shard.counter("hand_overs_total", "Buckets that came or went, by how.")
        self.hand_over_seconds = shard.histogram(
            "hand_over_seconds",
            "Time from owning a bucket to working on it, or from its last new run to its release.",
        )

        own = _Maker(registry, "reconcile", ("controller",), WAIT_BUCKETS)
        self.own_writes = own.run_histogram(
            "own_write_wait_seconds", "Time a read waited until the cache showed own writes."
        )
        self.behind = own.counter(
            "own_write_timeouts_total", "Waits for own writes that ran out, relist included."
        )
        self.storms = own.counter("storms_total", "Keys found to wake themselves.")
        self.storming = own.gauge("storms_active", "Keys slowed because they wake themselves.")
        self.reacted = own.run_histogram(
            "reaction_seconds", "Time from a change seen to the start of the run for it.", REACTION_BUCKETS
        )
        self.converged = own.run_histogram(
            "convergence_seconds", "Time from a generation seen to observed and ready.", CONVERGENCE_BUCKETS
        )
        self.rested = own.counter("idle_runs_total", "Runs that a resync alone woke.", "wrote")
        loop = _Maker(registry, "reconcile_event_loop", (), WAIT_BUCKETS)
        self.loop_lag = loop.histogram("lag_seconds", "Delay of the event loop.")

    def __iter__(self) -> Iterator[Collector]:
        yield from vars(self).values()


@frozen
class _Maker:
    registry: CollectorRegistry
    prefix: str
    labels: tuple[str, ...]
    buckets: Sequence[float] = ()

    def counter(self, name: str, text: str, *more: str) -> Counter:
        return Counter(f"{self.prefix}_{name}", text, (*self.labels, *more), registry=self.registry)

    def gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"{self.prefix}_{name}", text, self.labels, registry=self.registry)

    def histogram(self, name: str, text: str, buckets: Sequence[float] = ()) -> Histogram:
        buckets, name = buckets or self.buckets, f"{self.prefix}_{name}"
        return Histogram(name, text, self.labels, buckets=buckets, registry=self.registry)

    def run_histogram(self, name: str, text: str, buckets: Sequence[float] = ()) -> HistogramFamily:
        """One that the manager's event loop alone observes, for each run."""
        name = f"{self.prefix}_{name}"
        return HistogramFamily(name, text, self.labels, buckets or self.buckets, self.registry)

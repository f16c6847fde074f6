"""What a manager tells Prometheus: controller-runtime's metrics under its names, and some of our own.

Counters and histograms are told of events; what is a level (depths, ages, sizes) is read from the
manager's status when it is asked for, so it costs nothing in between. Labels hold names of
controllers, kinds, hosts, methods and codes: never those of objects, nor paths or messages.
Only a manager that has its metrics collected imports this, and with it prometheus-client.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

import anyio
from attrs import define, field, frozen
from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from informers import ApiError, Response, StreamingResponse, Transport
from reconcile.controller.reconcile_run import Outcome, ReconcileTimeout
from reconcile.ops.manager_status import ManagerStatus
from workqueue import QueueMetrics

RECONCILE_BUCKETS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60),
)
QUEUE_BUCKETS = tuple(float(f"1e{exponent}") for exponent in range(-8, 4))
REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
SIZE_BUCKETS = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
"""In bytes; client-go's."""
WAIT_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
"""These and the first three are in seconds; the latter are those of controller-runtime and client-go."""

PRIORITIES = 25
"""So many priorities of a queue get a depth of their own; the rest share EXCEEDED."""
EXCEEDED = "exceeded_cardinality_limit"

LAG_INTERVAL = 0.5
NO_ANSWER = "<error>"
"""The code of a request that no answer came to, as client-go has it."""

_NOTHING: Mapping[str, str] = {}
_FAULTS_OF_CODE = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError),
    *(NotImplementedError, RecursionError, MemoryError),
)


def is_panic(error: Exception | None) -> bool:
    """Whether a run ended by what would be a panic in Go: a fault of the code, not of the world.

    A wrong index, key, attribute, type or number, an assertion, a recursion without end. Errors of the
    API, time-outs, OSError, ValueError and exceptions of an author's own are failures, no panics.
    """
    return isinstance(error, _FAULTS_OF_CODE)


class Metrics:
    """The metrics of one manager, in a registry of its own or in one that is given.

    `status` is asked at each scrape, in the manager's event loop. `lease` is the name of the Lease, if
    there is one.
    """

    def __init__(
        self,
        status: Callable[[], ManagerStatus],
        *,
        registry: CollectorRegistry | None = None,
        lease: str = "",
    ) -> None:
        own = registry is None
        self.registry = registry if registry is not None else CollectorRegistry()
        if own:
            ProcessCollector(registry=self.registry)
            GCCollector(registry=self.registry)
        self._families = _Families(self.registry)
        self._levels = Levels(status, lease)
        self.registry.register(self._levels)

    def controller(self, name: str, workers: int) -> "_ControllerMetrics":
        """Where to tell what happens in one controller; its series begin at 0 now."""
        self._families.max_concurrent.labels(name).set(workers)
        return _ControllerMetrics(name, self._families)

    def metered(self, transport: Transport) -> Transport:
        """The same way to the server, with every request counted."""
        families = self._families
        return MeteredTransport(
            transport,
            families.requests,
            families.request_seconds,
            families.request_bytes,
            families.response_bytes,
        )

    def certificate_read(self, read: bool) -> None:
        """The serving certificate was read, or could not be."""
        self._families.certificates.inc()
        if not read:
            self._families.certificate_errors.inc()

    async def watch_loop(self) -> None:
        """Measure again and again how late the event loop is, until cancelled."""
        while True:
            due = anyio.current_time() + LAG_INTERVAL
            await anyio.sleep(LAG_INTERVAL)
            self._families.loop_lag.observe(max(0.0, anyio.current_time() - due))

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """All of it in the format that an Accept header asks for, and the type of that."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def close(self) -> None:
        """Take everything out of the registry, so that another manager can use it."""
        for collector in (*self._families.all(), self._levels):
            self.registry.unregister(collector)


class _Families:
    """Everything that is told of events."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        histogram = partial(Histogram, registry=registry)
        by, queue = ["controller"], ["name", "controller"]
        self.runs = counter(
            "controller_runtime_reconcile_total", "Reconciles by how they ended.", ["controller", "result"]
        )
        self.errors = counter(
            "controller_runtime_reconcile_errors_total", "Reconciles that failed, terminally too.", by
        )
        self.terminal = counter(
            "controller_runtime_terminal_reconcile_errors_total", "Reconciles that failed for good.", by
        )
        self.panics = counter(
            "controller_runtime_reconcile_panics_total", "Reconciles that ended by a fault of the code.", by
        )
        self.timeouts = counter(
            "controller_runtime_reconcile_timeouts_total", "Reconciles that took too long.", by
        )
        self.seconds = histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long reconciles took.",
            by,
            buckets=RECONCILE_BUCKETS,
        )
        self.max_concurrent = Gauge(
            "controller_runtime_max_concurrent_reconciles",
            "Workers of the controller.",
            by,
            registry=registry,
        )
        self.adds = counter("workqueue_adds_total", "Keys that became ready.", queue)
        self.retries = counter("workqueue_retries_total", "Keys that were added with back-off.", queue)
        self.waited = histogram(
            "workqueue_queue_duration_seconds",
            "How long keys waited for a worker.",
            queue,
            buckets=QUEUE_BUCKETS,
        )
        self.worked = histogram(
            "workqueue_work_duration_seconds",
            "How long keys were worked on.",
            queue,
            buckets=QUEUE_BUCKETS,
        )
        self.requests = counter(
            "rest_client_requests_total", "Requests to the API server.", ["code", "method", "host"]
        )
        self.request_seconds = histogram(
            "rest_client_request_duration_seconds",
            "How long whole answers took; streams are not in it.",
            ["verb", "host"],
            buckets=REQUEST_BUCKETS,
        )
        by_host = ["verb", "host"]
        self.request_bytes = histogram(
            "rest_client_request_size_bytes", "Bodies that were sent.", by_host, buckets=SIZE_BUCKETS
        )
        self.response_bytes = histogram(
            "rest_client_response_size_bytes",
            "Bodies of whole answers; streams are not in it.",
            by_host,
            buckets=SIZE_BUCKETS,
        )
        self.certificates = counter(
            "certwatcher_read_certificate_total", "Attempts to read the serving certificate."
        )
        self.certificate_errors = counter("certwatcher_read_certificate_errors_total", "Those that failed.")
        self.own_writes = histogram(
            "reconcile_own_write_wait_seconds",
            "How long reads waited for the cache to show own writes.",
            by,
            buckets=WAIT_BUCKETS,
        )
        self.behind = counter(
            "reconcile_own_write_timeouts_total", "Waits for own writes that were in vain, a relist too.", by
        )
        self.storms = counter("reconcile_storms_total", "Keys that were found to wake themselves.", by)
        self.storming = Gauge(
            "reconcile_storms_active", "Keys that wake themselves, and are slowed.", by, registry=registry
        )
        self.loop_lag = histogram(
            "reconcile_event_loop_lag_seconds",
            "How late the event loop was.",
            buckets=WAIT_BUCKETS,
        )

    def all(self) -> Iterator[Collector]:
        """Every one of them."""
        yield from vars(self).values()


class _ControllerMetrics:
    """The series of one controller, looked up once."""

    def __init__(self, name: str, families: _Families) -> None:
        self.queue: QueueMetrics = _QueueMetrics(name, families)
        self._results = {
            result: families.runs.labels(name, result)
            for result in ("success", "error", "requeue", "requeue_after")
        }
        self._errors = families.errors.labels(name)
        self._terminal = families.terminal.labels(name)
        self._panics = families.panics.labels(name)
        self._timeouts = families.timeouts.labels(name)
        self._seconds = families.seconds.labels(name)
        self._own_writes = families.own_writes.labels(name)
        self._behind = families.behind.labels(name)
        self._storms = families.storms.labels(name)
        self._storming = families.storming.labels(name)

    def run_ended(self, outcome: Outcome, seconds: float) -> None:
        """Count a run."""
        self._results[outcome.name].inc()
        self._seconds.observe(seconds)
        if outcome.error is None:
            return
        self._errors.inc()
        if outcome.terminal:
            self._terminal.inc()
        if is_panic(outcome.error):
            self._panics.inc()
        if isinstance(outcome.error, ReconcileTimeout):
            self._timeouts.inc()

    def caught_up(self, seconds: float, behind: bool) -> None:
        """Count a wait for own writes."""
        self._own_writes.observe(seconds)
        if behind:
            self._behind.inc()

    def storms(self, active: int, begun: int) -> None:
        """Set how many keys are in a loop."""
        self._storming.set(active)
        if begun:
            self._storms.inc(begun)


class _QueueMetrics:
    """The series of one queue, looked up once."""

    def __init__(self, name: str, families: _Families) -> None:
        self._adds = families.adds.labels(name, name)
        self._retries = families.retries.labels(name, name)
        self._waited = families.waited.labels(name, name)
        self._worked = families.worked.labels(name, name)

    def added(self, priority: int) -> None:
        self._adds.inc()

    def retried(self) -> None:
        self._retries.inc()

    def started(self, priority: int, waited: float) -> None:
        self._waited.observe(waited)

    def ended(self, worked: float) -> None:
        self._worked.observe(worked)


@define(eq=False)
class Levels(Collector):
    """What holds at the moment of a scrape."""

    status: Callable[[], ManagerStatus]
    lease: str = ""
    _priorities: dict[str, set[int]] = field(factory=dict, init=False)

    def describe(self) -> Iterable[Metric]:
        """The same families without values: registering must not ask a manager that has not started."""
        return self._families(ManagerStatus("", False, (), ()))

    def collect(self) -> Iterable[Metric]:
        """The families with their values."""
        return self._families(self.status())

    def _families(self, status: ManagerStatus) -> Iterable[Metric]:
        return [*self._queues(status), *_informers(status), *_servers(status), *self._leadership(status)]

    def _queues(self, status: ManagerStatus) -> Iterable[Metric]:
        by, queue = ["controller"], ["name", "controller"]
        active = GaugeMetricFamily(
            "controller_runtime_active_workers", "Workers that are at work.", labels=by
        )
        depth = GaugeMetricFamily("workqueue_depth", "Keys that are ready.", labels=[*queue, "priority"])
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds", "Ages of the runs under way, summed up.", labels=queue
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds", "Age of the oldest run under way.", labels=queue
        )
        for controller in status.controllers:
            name = controller.name
            active.add_metric([name], controller.queue.working)
            unfinished.add_metric([name, name], controller.queue.unfinished_seconds)
            longest.add_metric([name, name], controller.queue.longest_running_seconds)
            for priority, count in self._depths(name, controller.queue.depths).items():
                depth.add_metric([name, name, priority], count)
        return active, depth, unfinished, longest

    def _depths(self, name: str, depths: Mapping[int, int]) -> Mapping[str, int]:
        """Depth by label. A priority that had a series keeps it, at 0 where nothing is ready."""
        known = self._priorities.setdefault(name, {0})
        for priority in sorted(depths, reverse=True):
            if len(known) < PRIORITIES:
                known.add(priority)
        shown = {str(priority): depths.get(priority, 0) for priority in sorted(known)}
        others = [count for priority, count in depths.items() if priority not in known]
        return {**shown, EXCEEDED: sum(others)} if others else shown

    def _leadership(self, status: ManagerStatus) -> Iterable[Metric]:
        master = GaugeMetricFamily(
            "leader_election_master_status", "Whether this process leads: 1 or 0.", labels=["name"]
        )
        if self.lease:
            master.add_metric([self.lease], int(status.leading))
        return (master,)


def _servers(status: ManagerStatus) -> Iterable[Metric]:
    reachable = GaugeMetricFamily(
        "reconcile_api_server_reachable", "Whether the API server answers: 1 or 0.", labels=["cluster"]
    )
    outages = CounterMetricFamily(
        "reconcile_api_server_outages", "Outages of the API server that have begun.", labels=["cluster"]
    )
    for cluster in status.clusters:
        reachable.add_metric([cluster.name], int(cluster.reachable))
        outages.add_metric([cluster.name], cluster.outages)
    return reachable, outages


def _informers(status: ManagerStatus) -> Iterable[Metric]:
    by = ["resource"]
    families: dict[str, Metric] = {
        "objects": GaugeMetricFamily("reconcile_informer_objects", "Objects in the store.", labels=by),
        "bytes": GaugeMetricFamily("reconcile_informer_bytes", "Bytes of their bodies.", labels=by),
        "synced": GaugeMetricFamily("reconcile_informer_synced", "Whether the first list is in.", labels=by),
        "version": GaugeMetricFamily(
            "reconcile_informer_resource_version", "What the store has reached.", labels=by
        ),
        "lag": GaugeMetricFamily(
            "reconcile_informer_silence_seconds", "Since the server last said anything.", labels=by
        ),
        "backlog": GaugeMetricFamily(
            "reconcile_informer_backlog", "Changes that the slowest handler has yet to hear of.", labels=by
        ),
        "restarts": CounterMetricFamily(
            "reconcile_informer_restarts", "Connections after the first.", labels=by
        ),
        "relists": CounterMetricFamily("reconcile_informer_relists", "Lists after the first.", labels=by),
        "failures": CounterMetricFamily(
            "reconcile_informer_failures", "Requests and streams that broke.", labels=by
        ),
        "skipped": CounterMetricFamily(
            "reconcile_informer_skipped", "States of objects that could not be read.", labels=by
        ),
    }
    for informer in status.informers:
        for name, family in families.items():
            value = getattr(informer, name)
            if value is not None:
                family.add_metric([informer.resource], float(value))  # type: ignore[attr-defined]
    return families.values()


@frozen(eq=False)
class MeteredTransport:
    """Counts requests on their way through."""

    inner: Transport
    requests: Counter
    seconds: Histogram
    sent: Histogram
    received: Histogram

    @property
    def server(self) -> str:
        """That of the transport within."""
        return self.inner.server

    @property
    def host(self) -> str:
        """The server without scheme and path."""
        return urlsplit(self.server).netloc or self.server

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = _NOTHING,
        headers: Mapping[str, str] = _NOTHING,
        body: bytes | None = None,
    ) -> Response:
        """Send one request."""
        sent_at = anyio.current_time()
        try:
            response = await self.inner.request(method, path, query, headers, body)
        except ApiError:
            self._count(method, NO_ANSWER)
            raise
        finally:
            self.seconds.labels(method, self.host).observe(anyio.current_time() - sent_at)
        self._count(method, str(response.status))
        self.sent.labels(method, self.host).observe(len(body or b""))
        self.received.labels(method, self.host).observe(len(response.body))
        return response

    def stream(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = _NOTHING,
        headers: Mapping[str, str] = _NOTHING,
    ) -> AbstractAsyncContextManager[StreamingResponse]:
        """Send one request and read its answer as it comes."""
        return self._stream(method, path, query, headers)

    async def aclose(self) -> None:
        """Close the transport within."""
        await self.inner.aclose()

    @asynccontextmanager
    async def _stream(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> AsyncIterator[StreamingResponse]:
        answered = False
        try:
            async with self.inner.stream(method, path, query, headers) as response:
                answered = True
                self._count(method, str(response.status))
                yield response
        except ApiError:
            if not answered:
                self._count(method, NO_ANSWER)
            raise

    def _count(self, method: str, code: str) -> None:
        self.requests.labels(code, method, self.host).inc()

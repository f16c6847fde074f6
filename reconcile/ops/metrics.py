"""The metrics of a manager for Prometheus: controller-runtime's under its names, and some of its own.

Labels never hold names of objects, paths or messages. prometheus-client is imported only with this module.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import anyio
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder

from informers import ApiError, Response, StreamingResponse, Transport
from informers.transport import HttpRequest, PassingTransport
from reconcile.controller.run_result import ReconcileTimeout, RunResult
from reconcile.ops.manager_status import ManagerStatus
from reconcile.ops.metric_families import MetricFamilies
from reconcile.ops.metric_levels import LevelCollector
from workqueue import QueueMetrics

LAG_SECONDS: Final = 0.5
"""Between two measurements of the event loop's delay."""
NO_ANSWER: Final = "<error>"
"""The code of a request without an answer, as client-go has it."""

# OSError, ValueError, timeouts, errors of the API and an author's own exceptions are failures of the world.
_CODE_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError),
    *(NotImplementedError, RecursionError, MemoryError),
)


def is_panic(error: Exception | None) -> bool:
    """Whether a run failed by what would be a panic in Go: an error in the code, not in the world."""
    return isinstance(error, _CODE_ERRORS)


class Metrics:
    """The metrics of one manager. `status` is asked at each scrape, in the manager's event loop."""

    def __init__(
        self,
        status: Callable[[], ManagerStatus],
        *,
        registry: CollectorRegistry | None = None,
        lease: str = "",
    ) -> None:
        self.registry = CollectorRegistry() if registry is None else registry
        if registry is None:
            ProcessCollector(registry=self.registry)
            GCCollector(registry=self.registry)
        self._families = MetricFamilies(self.registry)
        self._levels = LevelCollector(status, lease)
        self.certificate_days: Callable[[], float] | None = None
        """For how many more days the certificate of the webhooks is valid; None without one."""
        self.registry.register(self._levels)

    def controller(self, name: str, workers: int) -> "_ControllerSeries":
        """The series of one controller, which exist from now on, at 0."""
        self._families.max_concurrent.labels(name).set(workers)
        return _ControllerSeries(name, self._families)

    def metered(self, transport: Transport) -> Transport:
        return _MeteredTransport(transport, self._families)

    def certificate_read(self, succeeded: bool) -> None:
        self._families.certificates.inc()
        if not succeeded:
            self._families.certificate_errors.inc()

    def webhook_called(self, webhook: str, status: int, result: str, seconds: float) -> None:
        """Count a call that was answered; from any thread."""
        self._families.webhook_requests.labels(webhook, str(status)).inc()
        self._families.webhook_results.labels(webhook, result).inc()
        self._families.webhook_seconds.labels(webhook).observe(seconds)

    def webhook_certificate(self, days: Callable[[], float]) -> None:
        """`days` is asked at each scrape for how many more days the certificate of the webhooks is valid."""
        self.certificate_days = days
        self._families.webhook_certificate.set_function(days)

    def handed_over(self, hand_over: str, seconds: float) -> None:
        """Count a bucket that came or went."""
        self._families.handed_over.labels(hand_over).inc()
        self._families.hand_over_seconds.labels(hand_over).observe(seconds)

    def objects_rewritten(self, definition: str, done: int, failed: int) -> None:
        """What the pass over the stored objects of a kind has come to."""
        self._families.rewritten.labels(definition).set(done)
        self._families.not_rewritten.labels(definition).set(failed)

    def definition_finished(self, definition: str, finished: bool) -> None:
        """Whether a definition and its objects are at the versions of the classes."""
        self._families.finished.labels(definition).set(finished)

    async def watch_loop(self) -> None:
        while True:
            due = anyio.current_time() + LAG_SECONDS
            await anyio.sleep(LAG_SECONDS)
            self._families.loop_lag.observe(max(0.0, anyio.current_time() - due))

    def text(self, accept: str = "") -> tuple[bytes, str]:
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def close(self) -> None:
        for collector in (*self._families, self._levels):
            self.registry.unregister(collector)


class _ControllerSeries:
    """The series of one controller, looked up once: a run must not pay for `labels`."""

    def __init__(self, name: str, families: MetricFamilies) -> None:
        self.queue: QueueMetrics = _QueueSeries(name, families)
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
        self._reacted = families.reacted.labels(name)
        self._converged = families.converged.labels(name)
        self._rested = {wrote: families.rested.labels(name, str(wrote).lower()) for wrote in (True, False)}
        self._storms = families.storms.labels(name)
        self._storming = families.storming.labels(name)

    def run_ended(self, outcome: RunResult, seconds: float) -> None:
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
        self._own_writes.observe(seconds)
        if behind:
            self._behind.inc()

    def reacted(self, seconds: float) -> None:
        self._reacted.observe(seconds)

    def converged(self, seconds: float) -> None:
        self._converged.observe(seconds)

    def rested(self, wrote: bool) -> None:
        self._rested[wrote].inc()

    def storms(self, active: int, begun: int) -> None:
        self._storming.set(active)
        if begun:
            self._storms.inc(begun)


class _QueueSeries:
    def __init__(self, name: str, families: MetricFamilies) -> None:
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


class _MeteredTransport(PassingTransport):
    def __init__(self, inner: Transport, families: MetricFamilies) -> None:
        super().__init__(inner)
        self._families = families
        self._host = urlsplit(inner.server).netloc or inner.server

    async def request(self, request: HttpRequest) -> Response:
        method = request.method
        families, sent_at = self._families, anyio.current_time()
        try:
            response = await self._inner.request(request)
        except ApiError:
            self._count(request.method, NO_ANSWER)
            raise
        finally:
            families.request_seconds.labels(method, self._host).observe(anyio.current_time() - sent_at)
        self._count(request.method, str(response.status))
        families.request_bytes.labels(method, self._host).observe(len(request.body or b""))
        families.response_bytes.labels(method, self._host).observe(len(response.body))
        return response

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[StreamingResponse]:
        answered = False
        try:
            async with self._inner.stream(request) as response:
                answered = True
                self._count(request.method, str(response.status))
                yield response
        except ApiError:
            # An error after the answer began comes from the reader: the request is counted already.
            if not answered:
                self._count(request.method, NO_ANSWER)
            raise

    def _count(self, method: str, code: str) -> None:
        self._families.requests.labels(code, method, self._host).inc()

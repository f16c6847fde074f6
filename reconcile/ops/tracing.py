"""Traces of a manager for OpenTelemetry: a span for each run, with requests as children and causes as links.

A run links to its cause if that happened in this process and was traced: the write that woke it, the run
before it, or the span in which it was triggered. Attributes name controllers, objects, methods and paths;
errors are redacted; bodies, queries and headers are never included. Only a manager with a tracer provider
imports this, and with it opentelemetry-api.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

import msgspec
from attrs import define, field
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    TracerProvider,
    get_current_span,
    use_span,
)

from informers import Key, Response, Transport
from informers.transport import HttpRequest, PassingTransport
from reconcile.controller.run_history import ActiveRun
from reconcile.runs.run_request import Cause, Request

REMEMBERED = 4096
"""How many writes, runs and triggers are kept as possible causes."""


class _WrittenMetadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""


class _Written(msgspec.Struct):
    kind: str = ""
    metadata: _WrittenMetadata = msgspec.field(default_factory=_WrittenMetadata)


_decode = msgspec.json.Decoder(_Written).decode


@define(eq=False)
class _CauseSpans:
    _spans: OrderedDict[Hashable, SpanContext] = field(factory=OrderedDict, init=False)

    def note(self, what: Hashable, span: Span) -> None:
        context = span.get_span_context()
        if not context.is_valid:
            return
        self._spans[what] = context
        self._spans.move_to_end(what)
        if len(self._spans) > REMEMBERED:
            self._spans.popitem(last=False)

    def of(self, what: Hashable) -> SpanContext | None:
        return self._spans.get(what)


class Traces:
    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("reconcile")
        self._origins = _CauseSpans()

    def controller(self, name: str) -> "_RunSpans":
        return _RunSpans(name, self._tracer, self._origins)

    def traced(self, transport: Transport) -> Transport:
        return _TracedTransport(transport, self._tracer, self._origins)


@define(eq=False)
class _RunSpans:
    _name: str
    _tracer: Tracer
    _origins: _CauseSpans

    @contextmanager
    def run(self, run: ActiveRun) -> Iterator[None]:
        span = self._tracer.start_span(
            f"reconcile {self._name}",
            Context(),  # a root span: the span in which the manager was started is not its parent
            kind=SpanKind.CONSUMER,
            links=self._links(run),
            attributes={
                "reconcile.controller": self._name,
                "reconcile.namespace": run.request.namespace,
                "reconcile.name": run.request.name,
                "reconcile.attempt": run.attempt,
                "reconcile.causes": [str(cause) for cause in run.causes],
            },
        )
        self._origins.note((self._name, run.request), span)
        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                yield
        finally:
            _conclude(span, run)

    def triggered(self, request: Request, cause: Cause) -> None:
        self._origins.note((self._name, request, cause), get_current_span())

    def _links(self, run: ActiveRun) -> list[Link]:
        links = []
        for cause in run.causes:
            context = self._origins.of(self._origin(run.request, cause))
            if context is not None:
                links.append(Link(context, {"reconcile.cause": str(cause)}))
        return links

    def _origin(self, request: Request, cause: Cause) -> Hashable:
        if cause.resource is not None:
            return (cause.resource.kind, cause.key, cause.version)
        if cause.verb == "triggered":
            return (self._name, request, cause)
        return (self._name, request)


def _conclude(span: Span, run: ActiveRun) -> None:
    outcome = run.outcome
    span.set_attribute("reconcile.result", "cancelled" if outcome is None else outcome.name)
    if outcome is not None:
        span.set_attribute("reconcile.id", outcome.reconcile_id)
        if outcome.error is not None:
            span.set_attribute("error.type", type(outcome.error).__name__)
            span.set_status(Status(StatusCode.ERROR, outcome.message))
    span.end()


class _TracedTransport(PassingTransport):
    """A span for each request that is sent within another span; streams have none."""

    def __init__(self, inner: Transport, tracer: Tracer, origins: _CauseSpans) -> None:
        super().__init__(inner)
        self._tracer = tracer
        self._origins = origins

    async def request(self, request: HttpRequest) -> Response:
        if not get_current_span().get_span_context().is_valid:
            return await self._inner.request(request)
        attributes = {
            "http.request.method": request.method,
            "url.path": request.path,
            "server.address": self.server,
        }
        with self._tracer.start_as_current_span(
            f"{request.method} {plural_of(request.path)}",
            kind=SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                response = await self._inner.request(request)
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR))
                raise
            self._conclude(span, request, response)
            return response

    def _conclude(self, span: Span, request: HttpRequest, response: Response) -> None:
        span.set_attribute("http.response.status_code", response.status)
        if response.status >= 400:
            span.set_attribute("error.type", str(response.status))
            span.set_status(Status(StatusCode.ERROR))
        elif not request.reads:
            self._note(response, span)

    def _note(self, response: Response, span: Span) -> None:
        try:
            written = _decode(response.body)
        except msgspec.MsgspecError:
            return
        metadata = written.metadata
        if metadata.resourceVersion.isdecimal():
            key = Key(metadata.namespace, metadata.name)
            self._origins.note((written.kind, key, int(metadata.resourceVersion)), span)


def plural_of(path: str) -> str:
    """The resource of a path, with its subresource: `pods`, `sites/status`; for other paths the path."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        rest = rest[2:]
    if not rest:
        return path
    return rest[0] if len(rest) < 3 else f"{rest[0]}/{rest[2]}"

"""An object's life as a trace of OpenTelemetry, in OTLP/JSON as collectors and trace viewers take it.

One span for the life, below it one for each run, below these one for each write, and links from a run to
what led to it. Ids follow from controller, key and run: the same run has the same ids in every export, so
links between the lives of two objects meet. Form: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from reconcile.status.life_form import Life, LifeRun, WokenBy, Written

_INTERNAL: Final = 1
_CLIENT: Final = 3
_CONSUMER: Final = 5
_OK: Final = 1
_ERROR: Final = 2
_TRACE_DIGITS: Final = 32
_SPAN_DIGITS: Final = 16


def trace_of(life: Life) -> Mapping[str, Any]:
    """The ExportTraceServiceRequest of a life, as JSON has it."""
    spans = [_life_span(life), *(span for run in reversed(life.runs) for span in _run_spans(run, life))]
    resource = {
        "attributes": _attributes({"service.name": life.controller, "k8s.cluster.name": life.cluster})
    }
    return {
        "resourceSpans": [
            {"resource": resource, "scopeSpans": [{"scope": {"name": "reconcile"}, "spans": spans}]}
        ]
    }


def _life_span(life: Life) -> Mapping[str, Any]:
    begins = min((run.started for run in life.runs), default=life.now)
    return {
        "traceId": _trace_id(life.controller, life.key),
        "spanId": _span_id(life.controller, life.key),
        "name": f"{life.kind} {life.key}",
        "kind": _INTERNAL,
        "startTimeUnixNano": _nanoseconds(begins),
        "endTimeUnixNano": _nanoseconds(max(life.now, begins)),
        "attributes": _attributes(
            {
                **_named(life),
                "k8s.object.uid": life.uid,
                "reconcile.health": life.health,
                "reconcile.reason": life.reason,
                "reconcile.state": life.why.state,
                "reconcile.why": life.why.sentence,
            }
        ),
    }


def _run_spans(run: LifeRun, life: Life) -> Iterator[Mapping[str, Any]]:
    ended = life.now if run.ended is None else run.ended
    yield {
        "traceId": _trace_id(life.controller, life.key),
        "spanId": _id_of_run(run, life),
        "parentSpanId": _span_id(life.controller, life.key),
        "name": f"reconcile {life.controller}",
        "kind": _CONSUMER,
        "startTimeUnixNano": _nanoseconds(run.started),
        "endTimeUnixNano": _nanoseconds(max(ended, run.started)),
        "attributes": _attributes(
            {
                **_named(life),
                "reconcile.id": run.id,
                "reconcile.attempt": run.attempt,
                "reconcile.result": run.result,
                "reconcile.causes": [cause.what for cause in run.woken_by],
                "reconcile.reads": [f"{read.kind} {read.key or '(list)'}" for read in run.reads],
                "reconcile.writes": [write.text for write in run.writes],
                "reconcile.error": run.error,
                "reconcile.at": run.at,
            }
        ),
        "links": [_link(cause, life) for cause in run.woken_by if cause.origin is not None],
        "status": {"code": _ERROR, "message": run.error} if run.error else {"code": _OK},
    }
    for number, write in enumerate(run.writes):
        if write.at is not None:
            yield _write_span(number, write, run, life, write.at)


def _write_span(number: int, write: Written, run: LifeRun, life: Life, at: float) -> Mapping[str, Any]:
    return {
        "traceId": _trace_id(life.controller, life.key),
        "spanId": _span_id(*_place_of_run(run, life), str(number)),
        "parentSpanId": _id_of_run(run, life),
        "name": f"{write.verb} {write.kind}",
        "kind": _CLIENT,
        "startTimeUnixNano": _nanoseconds(at),
        "endTimeUnixNano": _nanoseconds(at + max(0.0, write.seconds or 0.0)),
        "attributes": _attributes(
            {
                "reconcile.object": f"{write.kind} {write.key}",
                "reconcile.write": write.text,
                "reconcile.fields": [
                    f"{field.path}: {field.old or 'absent'} -> {field.new or 'absent'}"
                    for field in write.fields or ()
                ],
            }
        ),
    }


def _link(cause: WokenBy, life: Life) -> Mapping[str, Any]:
    """To the write that woke the run, if it is in this life, or else to the run that wrote."""
    origin = cause.origin
    assert origin is not None
    span = _span_id(origin.controller, origin.key, origin.run)
    if (origin.controller, origin.key) == (life.controller, life.key):
        span = _id_of_write(origin.run, cause, life) or span
    return {
        "traceId": _trace_id(origin.controller, origin.key),
        "spanId": span,
        "attributes": _attributes({"reconcile.cause": cause.what}),
    }


def _id_of_write(reconcile_id: str, cause: WokenBy, life: Life) -> str:
    writer = next((run for run in life.runs if run.id == reconcile_id), None)
    if writer is None or not cause.kind:
        return ""
    for number, write in reversed(list(enumerate(writer.writes))):
        if write.at is not None and (write.kind, write.key) == (cause.kind, cause.key):
            return _span_id(*_place_of_run(writer, life), str(number))
    return ""


# --- ids, times, values -------------------------------------------------------------------------------


def _place_of_run(run: LifeRun, life: Life) -> tuple[str, str, str]:
    # A run without an id is under way, or was cancelled: it is told apart by when it began.
    return life.controller, life.key, run.id or f"at {run.started}"


def _id_of_run(run: LifeRun, life: Life) -> str:
    return _span_id(*_place_of_run(run, life))


def _trace_id(*parts: str) -> str:
    return _digest(parts)[:_TRACE_DIGITS]


def _span_id(*parts: str) -> str:
    return _digest(parts)[-_SPAN_DIGITS:]


def _digest(parts: Iterable[str]) -> str:
    # No part contains a line end: names are those of Kubernetes.
    return sha256("\n".join(parts).encode(errors="replace")).hexdigest()


def _nanoseconds(seconds: float) -> str:
    """Text, as 64 bits do not fit a number of JSON. A float of today holds microseconds, and no more."""
    return str(max(0, round(seconds * 1_000_000)) * 1000)


def _named(life: Life) -> Mapping[str, str]:
    """As the spans of a running manager name their object (`reconcile.ops.tracing`)."""
    namespace, _, name = life.key.rpartition("/")
    return {
        "reconcile.controller": life.controller,
        "reconcile.kind": life.kind,
        "reconcile.namespace": namespace,
        "reconcile.name": name,
    }


def _attributes(values: Mapping[str, str | int | Sequence[str]]) -> Sequence[Mapping[str, Any]]:
    """Attributes, without those that are empty."""
    return [
        {"key": name, "value": _value(value)} for name, value in values.items() if value not in ("", [], ())
    ]


def _value(value: str | int | Sequence[str]) -> Mapping[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"arrayValue": {"values": [{"stringValue": each} for each in value]}}

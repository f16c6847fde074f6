"""A span for each run, its requests within it, and links to what caused it."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from reconcile import Context, Controller, ObjectMeta, Result
from reconcile.kinds import ConfigMap
from reconcile.ops.tracing import REMEMBERED, Traces, plural_of
from tests.helpers.managers import Toy, World, keep_size, played
from tests.helpers.scenarios import in_world


class Traced:
    """A tracer provider, and what came to it."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def spans(self, name: str) -> Sequence[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def traced() -> Traced:
    return Traced()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@in_world(played)
async def test_a_run_is_a_root_span_and_its_requests_are_its_children(world: World, traced: Traced) -> None:
    with traced.provider.get_tracer("test").start_as_current_span("the application"):
        async with world.running(Controller(Toy, keep_size), traces=traced.provider):
            await world.make("a", size=3)
            await anyio.sleep(5)
    (run,) = traced.spans("reconcile toy")
    (patch,) = traced.spans("PATCH toys/status")
    assert run.parent is None
    assert patch.parent == run.get_span_context()
    said = attributes(run)
    assert len(said.pop("reconcile.id")) == 8
    (cause,) = said.pop("reconcile.causes")
    assert cause.startswith("toys.toys.example.com default/a added at ")
    assert said == {
        "reconcile.controller": "toy",
        "reconcile.namespace": "default",
        "reconcile.name": "a",
        "reconcile.attempt": 0,
        "reconcile.result": "success",
    }
    assert attributes(patch) == {
        "http.request.method": "PATCH",
        "url.path": "/apis/toys.example.com/v1/namespaces/default/toys/a/status",
        "server.address": "embedded",
        "http.response.status_code": 200,
    }
    assert [span for span in traced.spans("GET toys") if span.parent is None] == []


@in_world(played)
async def test_a_run_links_to_the_write_of_another_controller_that_caused_it(
    world: World, traced: Traced
) -> None:

    async def make_a_child(ctx: Context[Toy]) -> None:
        if await ctx.client.find(ConfigMap, "child", "default") is None:
            await ctx.client.create(ConfigMap(metadata=ObjectMeta("child", "default")))

    async def look(ctx: Context[ConfigMap]) -> None: ...

    controllers = (Controller(Toy, make_a_child, writes=[ConfigMap]), Controller(ConfigMap, look))
    async with world.running(*controllers, traces=traced.provider):
        await world.make("a")
        await anyio.sleep(5)
    (made,) = traced.spans("POST configmaps")
    (run,) = traced.spans("reconcile configmap")
    (link,) = run.links
    assert link.context == made.get_span_context()
    assert "configmaps default/child added at " in str((link.attributes or {})["reconcile.cause"])


@in_world(played)
async def test_a_run_links_to_the_previous_run_and_to_the_span_that_triggered_it(
    world: World, traced: Traced
) -> None:
    runs = 0

    async def twice(ctx: Context[Toy]) -> Result | None:
        nonlocal runs
        runs += 1
        return Result(requeue_after=3) if runs == 1 else None

    controller = Controller(Toy, twice)
    async with world.running(controller, traces=traced.provider) as manager:
        await world.make("a")
        await anyio.sleep(10)
        with traced.provider.get_tracer("test").start_as_current_span("a click"):
            manager.trigger(controller, "default/a", "a button was clicked")
        await anyio.sleep(5)
    first, second, third = traced.spans("reconcile toy")
    (click,) = traced.spans("a click")
    assert [link.context for link in second.links] == [first.get_span_context()]
    assert [link.context for link in third.links] == [click.get_span_context()]
    assert attributes(first)["reconcile.result"] == "requeue_after"


@in_world(played)
async def test_a_failure_is_recorded_by_kind_and_message_and_a_cancelled_run_ends_its_span(
    world: World, traced: Traced
) -> None:

    async def fail(ctx: Context[Toy]) -> None:
        if ctx.object.name == "hangs":
            await anyio.sleep(3600)
        raise ValueError("no wheels")

    async with world.running(Controller(Toy, fail), traces=traced.provider):
        await world.make("fails")
        await world.make("hangs")
        await anyio.sleep(0.5)
    spans = {attributes(span)["reconcile.name"]: span for span in traced.spans("reconcile toy")}
    failed, hung = spans["fails"], spans["hangs"]
    assert (failed.status.status_code, failed.status.description) == (
        StatusCode.ERROR,
        "ValueError: no wheels",
    )
    assert attributes(failed)["error.type"] == "ValueError"
    assert failed.events == ()
    assert attributes(hung)["reconcile.result"] == "cancelled"


def test_the_number_of_possible_causes_is_bounded(traced: Traced) -> None:
    traces = Traces(traced.provider)
    with traced.provider.get_tracer("test").start_as_current_span("one") as span:
        for number in range(REMEMBERED + 10):
            traces._origins.note(number, span)
    assert len(traces._origins._spans) == REMEMBERED
    assert traces._origins.of(9) is None
    assert traces._origins.of(10) is not None


@pytest.mark.parametrize(
    ("path", "plural"),
    [
        ("/api/v1/namespaces/default/pods", "pods"),
        ("/api/v1/namespaces/default/pods/a/status", "pods/status"),
        ("/api/v1/namespaces/default", "namespaces"),
        ("/api/v1/namespaces/default/finalize", "namespaces/finalize"),
        ("/apis/example.com/v1/sites/a", "sites"),
        ("/version", "/version"),
    ],
)
def test_the_span_of_a_request_does_not_contain_an_object_name(path: str, plural: str) -> None:
    assert plural_of(path) == plural


def test_a_manager_without_traces_never_imports_opentelemetry() -> None:
    code = """
import sys, anyio
from reconcile import Manager
async def main():
    async with Manager(embedded=True, environ={}):
        pass
anyio.run(main)
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    subprocess.run((sys.executable, "-c", code), check=True)

"""Whether the largest objects that a schema admits block the event loop or take much memory."""

import copy
import gc
import itertools
import time
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from attrs import frozen

from informers import ApiError, Response
from informers.transport import HttpRequest, PassingTransport
from reconcile.client.client import Client
from reconcile.controller.declaration import Controller
from reconcile.embedded import InProcessTransport
from reconcile.models import Object, definition_of, encode, kind_of
from reconcile.runs.run_request import Request
from reconcile.testing.fake_client import FakeClient
from reconcile.testing.single_run import executor_of, request_of

HOLD_SECONDS = 0.1
MEMORY_BYTES = 50_000_000
_TAKES_NOTHING = 0.01
"""A run shorter than this (s) cannot have taken much memory; counting bytes takes a second run."""
OBJECT_BYTES = 1_000_000
"""An API server accepts requests of 1.5 MB; the rest is for the fields that it adds."""


@frozen
class LoadMeasurement:
    """What one large field cost: most processor seconds between requests, peak bytes (0: not measured)."""

    path: str
    hold: float
    memory: int

    def __str__(self) -> str:
        return f"{self.path}: blocked the loop for {self.hold * 1000:.0f} ms, took {self.memory / 1e6:.0f} MB"


class Unbounded(AssertionError):
    """Objects that block the event loop for too long or take too much memory, as `measured`."""

    def __init__(self, measured: Sequence[LoadMeasurement]) -> None:
        super().__init__("\n".join(["one object can make a manager lose its Lease:", *map(str, measured)]))
        self.measured = measured


async def assert_bounded(
    controller: Controller[Any],
    obj: Object,
    client: FakeClient,
    *,
    hold: float = HOLD_SECONDS,
    memory: int = MEMORY_BYTES,
) -> Sequence[LoadMeasurement]:
    """Run the controller on the largest variations of `obj`; raise `Unbounded` if one costs too much.

    Each variation has one list, mapping, number or text as large as the kind's schema admits; one that the
    server refuses is left out. `obj` is valid, has an item in each list that matters, and is not on the
    server of `client`, which holds whatever else a run needs. `hold` limits this thread's processor time
    between two requests (seconds, without the server's own), `memory` the bytes. Returns all measurements.
    """
    client.serve(controller)
    definition = definition_of(controller.kind)
    version = next(one for one in definition["spec"]["versions"] if one["storage"])
    schema = version["schema"]["openAPIV3Schema"]["properties"].get("spec") or {}
    body = encode(obj)
    body.pop("status", None)
    measured = []
    with _other_objects_frozen():
        for path, spec in largest(body.get("spec") or {}, schema, "spec"):
            found = await _measure(controller, {**body, "spec": spec}, client, path)
            if found is not None and found.hold > hold:
                # Processors are shared: what is slow only once is not the object's doing.
                again = await _measure(controller, {**body, "spec": spec}, client, path)
                found = found if again is None else min(found, again, key=lambda one: one.hold)
            if found is not None:
                measured.append(found)
    excessive = [one for one in measured if one.hold > hold or one.memory > memory]
    if excessive:
        raise Unbounded(excessive)
    return measured


# --- the largest objects ---------------------------------------------------------------------------------


def largest(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    """Each variation of a value with one part as large as its schema admits, and the path of that part."""
    if isinstance(value, Mapping):
        yield from _of_mapping(value, schema, path)
    elif isinstance(value, list | tuple):
        yield from _of_list(value, schema, path)
    elif isinstance(value, str) and "enum" not in schema and schema.get("format") != "date-time":
        yield path, "x" * min(schema.get("maxLength", OBJECT_BYTES), OBJECT_BYTES)
        if value.isdigit():
            yield path, "9" * min(schema.get("maxLength", 9), 9)
    elif isinstance(value, int) and not isinstance(value, bool):
        limit = 2**31 - 1 if schema.get("format") == "int32" else 2**63 - 1
        yield path, schema.get("maximum", limit)
        yield path, min(schema.get("maximum", limit), 50_000_000)


def _of_mapping(value: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, part in value.items():
        inner = (schema.get("properties") or {}).get(name) or schema.get("additionalProperties") or {}
        for found, larger in largest(part, inner if isinstance(inner, Mapping) else {}, f"{path}.{name}"):
            yield found, {**value, name: larger}
    if schema.get("additionalProperties") or schema.get("x-kubernetes-preserve-unknown-fields"):
        sample = next(iter(value.values()), "x")
        count = _count(sample, schema.get("maxProperties"))
        yield f"{path}.*", {**value, **{f"x{number}": sample for number in range(count)}}


def _of_list(value: Sequence[Any], schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    inner = schema.get("items") or {}
    for index, part in enumerate(value[:1]):
        for found, larger in largest(part, inner, f"{path}[{index}]"):
            yield found, [larger, *value[1:]]
    if value:
        count = _count(value[0], schema.get("maxItems"))
        yield f"{path}[*]", [_renamed(value[0], number) for number in range(count)]


def _count(sample: Any, most: int | None) -> int:
    fitting = OBJECT_BYTES // (len(msgspec.json.encode(sample)) + 12)
    return fitting if most is None else min(fitting, most)


def _renamed(item: Any, number: int) -> Any:
    if isinstance(item, str):
        return f"{item}{number}"
    if not isinstance(item, Mapping):
        return item
    renamed = copy.copy(dict(item))
    for name, value in item.items():
        if name.lower().endswith("name") and isinstance(value, str):
            renamed[name] = f"{value}{number}"
    return renamed


# --- measuring ---------------------------------------------------------------------------------------------


@contextmanager
def _other_objects_frozen() -> Iterator[None]:
    """Keep the collector from looking through all other objects of the test's process, again and again."""
    if gc.get_freeze_count() > len(gc.get_objects()):
        yield  # the process froze its objects itself, and unfreezing would undo that
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


async def _measure(
    controller: Controller[Any], body: Mapping[str, Any], client: FakeClient, path: str
) -> LoadMeasurement | None:
    held: list[float] = []
    for traced in (False, True):
        if held and held[0] < _TAKES_NOTHING:
            break
        transport = InProcessTransport(client.server.copy(client.clock), settle=True)
        resource = kind_of(controller.kind).resource
        collection = resource.path(body["metadata"].get("namespace", ""))
        answer = await transport.request(HttpRequest("POST", collection, body=msgspec.json.encode(body)))
        if answer.status >= 400:
            return None
        meter = _LoadMeter(transport, traced)
        await _run(controller, request_of(controller, _key(body)), meter, client)
        held.append(meter.most)
    return LoadMeasurement(path, held[0], int(held[1]) if len(held) > 1 else 0)


def _key(body: Mapping[str, Any]) -> str:
    metadata = body["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}".lstrip("/")


async def _run(
    controller: Controller[Any], request: Request, meter: "_LoadMeter", client: FakeClient
) -> None:
    watched = Client(meter, clock=client.clock)
    executor, _ = executor_of(controller, watched)
    if meter.traced:
        tracemalloc.start()
    try:
        meter.begin()
        await executor.run(request)
        meter.end()
        await _wake(controller, request, watched, meter)
    finally:
        if meter.traced:
            tracemalloc.stop()


async def _wake(controller: Controller[Any], request: Request, client: Client, meter: "_LoadMeter") -> None:
    """Call the mapping functions of the watches, as each change of the object does."""
    try:
        obj = await client.get(controller.kind, request.name, request.namespace)
    except ApiError:
        return
    for watch in controller.watches:
        if watch.by is not None:
            meter.begin()
            found: Any = watch.by(obj)
            for _ in itertools.chain(found if isinstance(found, list | tuple) else ()):
                pass
            meter.end()


class _LoadMeter(PassingTransport):
    """Measures what happens between requests: processor seconds, or bytes if `traced`."""

    def __init__(self, inner: Any, traced: bool) -> None:
        super().__init__(inner)
        self.traced, self.most = traced, 0.0
        self._since, self._kept = 0.0, 0.0

    def begin(self) -> None:
        if self.traced:
            tracemalloc.reset_peak()
            self._since = tracemalloc.get_traced_memory()[0]
        else:
            self._since = time.thread_time()

    def end(self) -> None:
        if not self.traced:
            self.most = max(self.most, time.thread_time() - self._since)
            return
        now, peak = tracemalloc.get_traced_memory()
        self.most = max(self.most, self._kept + peak - self._since)
        self._kept += now - self._since

    async def request(self, request: HttpRequest) -> Response:
        self.end()
        try:
            return await self._inner.request(request)
        finally:
            self.begin()

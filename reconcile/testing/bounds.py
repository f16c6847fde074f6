"""Can the largest objects that a schema admits hold the event loop, or take much memory?"""

import copy
import gc
import itertools
import time
import tracemalloc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from attrs import define, field, frozen

from informers import ApiError, Response, get_logger
from informers.transport import PassingTransport
from reconcile.client.client import Client
from reconcile.controller.blocking import InStep
from reconcile.controller.declaration import Controller
from reconcile.controller.event_recorder import recorder_of
from reconcile.controller.reconcile_run import RunExecutor
from reconcile.embedded import InProcessTransport
from reconcile.models import Object, definition_of, encode, kind_of
from reconcile.runs.requests import Request
from reconcile.testing.fake import FakeClient
from reconcile.testing.once import request_of

HOLD_SECONDS = 0.1
MEMORY_BYTES = 50_000_000
_TAKES_NOTHING = 0.01
"""Who works for less than this (s) cannot have taken much; to count bytes takes a run of its own."""
OBJECT_BYTES = 1_000_000
"""An API server takes requests of 1.5 MB; something is left for its own fields."""


@frozen
class Weighed:
    """What one large object came to.

    `path` is the field that was made large, `hold` the longest time (s, of the processor) between two
    requests, `memory` the most that was taken, in bytes; 0 where `hold` is too short for it to be much.
    """

    path: str
    hold: float
    memory: int

    def __str__(self) -> str:
        return f"{self.path}: held the loop {self.hold * 1000:.0f} ms, took {self.memory / 1e6:.0f} MB"


class Unbounded(AssertionError):
    """Objects that hold the event loop for too long, or take too much memory; `weighed` says which."""

    def __init__(self, weighed: Sequence[Weighed]) -> None:
        super().__init__("\n".join(["an object can end leadership for all others:", *map(str, weighed)]))
        self.weighed = weighed


async def assert_bounded(
    controller: Controller[Any],
    obj: Object,
    client: FakeClient,
    *,
    hold: float = HOLD_SECONDS,
    memory: int = MEMORY_BYTES,
) -> Sequence[Weighed]:
    """Run the controller over the largest variations of `obj`; raise `Unbounded` if one is too much.

    Each variation has one field as large as the schema of the kind admits: a list or mapping of as many
    items as fit into an object, a number at its maximum, a long text. `obj` is one that makes sense, with an
    item in each list that matters, and is not on the server of `client`, which has what a run needs besides.
    A variation that the server refuses is left out. `hold` is in seconds of this thread's processor time
    between two requests, without the server's own; `memory` in bytes. Returns what all of them came to.
    """
    for kind in controller.kinds:
        client.serve(kind)
    definition = definition_of(controller.kind)
    version = next(one for one in definition["spec"]["versions"] if one["storage"])
    schema = version["schema"]["openAPIV3Schema"]["properties"].get("spec") or {}
    body = encode(obj)
    body.pop("status", None)
    weighed = []
    for path, spec in largest(body.get("spec") or {}, schema, "spec"):
        found = await _weigh(controller, {**body, "spec": spec}, client, path)
        if found is not None and found.hold > hold:
            # Processors are shared: what was slow once and is not the second time was not the object's doing.
            again = await _weigh(controller, {**body, "spec": spec}, client, path)
            found = found if again is None else min(found, again, key=lambda one: one.hold)
        if found is not None:
            weighed.append(found)
    too_much = [one for one in weighed if one.hold > hold or one.memory > memory]
    if too_much:
        raise Unbounded(too_much)
    return weighed


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


# --- weighing ---------------------------------------------------------------------------------------------


async def _weigh(
    controller: Controller[Any], body: Mapping[str, Any], client: FakeClient, path: str
) -> Weighed | None:
    held: list[float] = []
    for traced in (False, True):
        if held and held[0] < _TAKES_NOTHING:
            break
        transport = InProcessTransport(client.server.copy(client.clock), settle=True)
        resource = kind_of(controller.kind).resource
        collection = resource.path(body["metadata"].get("namespace", ""))
        answer = await transport.request("POST", collection, body=msgspec.json.encode(body))
        if answer.status >= 400:
            return None
        scales = _Scales(transport, traced)
        await _run(controller, request_of(controller, _key(body)), scales, client)
        held.append(scales.most)
    return Weighed(path, held[0], int(held[1]) if len(held) > 1 else 0)


def _key(body: Mapping[str, Any]) -> str:
    metadata = body["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}".lstrip("/")


async def _run(controller: Controller[Any], request: Request, scales: "_Scales", client: FakeClient) -> None:
    watched = Client(scales, clock=client.clock)
    recorder = recorder_of(controller, watched)
    executor = RunExecutor(
        controller, watched, recorder, get_logger(f"reconcile.{controller.name}"), InStep()
    )
    # What the test's process has besides would be looked through for garbage, again and again.
    gc.collect()
    gc.freeze()
    if scales.traced:
        tracemalloc.start()
    try:
        scales.begin()
        await executor.run(request)
        scales.end()
        await _wake(controller, request, watched, scales)
    finally:
        gc.unfreeze()
        if scales.traced:
            tracemalloc.stop()


async def _wake(controller: Controller[Any], request: Request, client: Client, scales: "_Scales") -> None:
    """What the watches ask of the object each time that it changes."""
    try:
        obj = await client.get(controller.kind, request.name, request.namespace)
    except ApiError:
        return
    for watch in controller.watches:
        if watch.by is not None:
            scales.begin()
            found: Any = watch.by(obj)
            for _ in itertools.chain(found if isinstance(found, list | tuple) else ()):
                pass
            scales.end()


@define(eq=False, init=False)
class _Scales(PassingTransport):
    """Measures what lies between requests: seconds of the processor, or with `traced` bytes."""

    traced: bool
    most: float = field(default=0.0)

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

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = {},
        headers: Mapping[str, str] = {},
        body: bytes | None = None,
    ) -> Response:
        self.end()
        try:
            return await self._inner.request(method, path, query, headers, body)
        finally:
            self.begin()

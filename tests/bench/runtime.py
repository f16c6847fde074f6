"""What a controller costs: a reconcile on top of its event, how soon it comes, and both beside kopf.

The reconcilers do nothing; one of them reads its object first. Each measurement runs in a process of its own;
where a server is involved it is another process that sends bytes it has ready, the same ones to us and to
kopf, over plain HTTP.

`sync_run_us_per_object` and `update_us` are of a whole manager over TLS, with 20,000 objects of 2 KB: CPU of
its process from its start to the last first run, and for an update. It runs as a program, by `main()`. Each
run reads its object, and then asks for the next change by one send on a socket, which counts too.
"""

import asyncio
import gc
import itertools
import json
import logging
import os
import random
import time
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import anyio
import uvloop
from attrs import field, frozen

from informers import HttpRequest, Informer, SystemClock, Transport
from informers.kubernetes import connect
from reconcile import Context, Controller, Manager, Object, kind_of, resource
from reconcile.embedded import ApiServer
from tests.bench import _start
from tests.bench import informers as objects
from tests.bench._byte_server import SENT_AT, Content, Steps, serving
from tests.bench._harness import Figures, measured
from tests.bench.embedded import DEFINITIONS, ask
from tests.bench.informers import packed
from tests.helpers.definitions import definition

KEYS = 5_000
BURST = 20_000
PACED = 10_000
PER_SECOND = 2_000
ROUNDS = 3
WHOLE = 20_000


@frozen
class SiteSpec:
    image: str = ""
    replicas: int = 1
    settings: Mapping[str, str] = field(factory=dict)


@frozen
class SiteStatus:
    ready: int = 0


@resource("example.com/v1")
class Site(Object):
    spec: SiteSpec = SiteSpec()
    status: SiteStatus = SiteStatus()


# --- what the server has ready --------------------------------------------------------------------


def site(number: int, version: int, generation: int) -> dict[str, Any]:
    """A custom resource of 1.3 KB, of which 0.9 are left without managed fields."""
    made = objects.site(number, random.Random(number), version)
    made["metadata"]["generation"] = generation
    made["spec"]["replicas"] = generation
    made["spec"]["settings"] = {f"setting-{k}": f"value-{number}-{k}" for k in range(4)}
    return made


def first_state(count: int) -> bytes:
    lines = [objects.event("ADDED", packed(site(number, number + 1, 1))) for number in range(count)]
    return b"".join(lines) + objects.bookmark(count)


def changes(count: int, image: str = "") -> list[bytes]:
    changed = [site(number, count + number + 1, 2) for number in range(count)]
    for made in changed:
        made["spec"]["image"] = image or made["spec"]["image"]
    return [objects.event("MODIFIED", packed(made)) for made in changed]


def listed(count: int) -> bytes:
    items = [site(number, number + 1, 1) for number in range(count)]
    metadata = {"resourceVersion": str(count)}
    return packed({"kind": "SiteList", "apiVersion": "example.com/v1", "metadata": metadata, "items": items})


def _documents() -> dict[str, bytes]:
    """Discovery, as the embedded server answers it."""
    server = ApiServer(clock=SystemClock())
    ask(server, "POST", DEFINITIONS, packed(definition("Site")))
    groups = json.loads(ask(server, "GET", "/apis"))["groups"]
    versions = [f"/apis/{version['groupVersion']}" for group in groups for version in group["versions"]]
    return {path: ask(server, "GET", path) for path in ("/api", "/api/v1", "/apis", *versions)}


def content(count: int, paced: bool) -> Content:
    """Lists, discovery, and a change of each object; if `paced`, with the time of it as its image."""
    image, per_second = (SENT_AT.decode(), PER_SECOND) if paced else ("", float("inf"))
    return Content(first_state(count), changes(count, image), listed(count), _documents(), per_second)


def whole_content(count: int) -> Content:
    """Objects of 2 KB, and an update of each."""
    made = [objects.site(number, random.Random(number), number + 1) for number in range(count)]
    lines = [objects.event("ADDED", packed(one)) for one in made]
    updates: list[bytes] = []
    for number, one in enumerate(made):
        one["metadata"] |= {"resourceVersion": str(count + number + 1), "generation": 4}
        one["spec"]["replicas"] = number
        updates.append(objects.event("MODIFIED", packed(one)))
    # One more for the last run, which asks for the next one too.
    return Content(
        b"".join(lines) + objects.bookmark(count), [*updates, updates[-1]], listed(0), _documents()
    )


# --- what runs in a process of its own ------------------------------------------------------------


class Counted:
    """A reconciler that counts its runs; `all_done` once there were as many as it was told of."""

    def __init__(self) -> None:
        self.runs = 0
        self.wanted = 0
        self.late: list[float] = []
        self.timed = False
        self.all_done = anyio.Event()

    def ran(self, ctx: Context[Site]) -> None:
        if self.timed:
            self.late.append((time.monotonic_ns() - int(ctx.object.spec.image)) / 1e6)
        self.count()

    def count(self) -> None:
        self.runs += 1
        if self.runs == self.wanted:
            self.all_done.set()

    async def more(self, count: int) -> None:
        self.all_done, self.wanted = anyio.Event(), count
        if self.runs < count:
            await self.all_done.wait()


def _managed(counted: Counted, transport: Transport, reads: bool = False) -> Manager:
    async def reconcile(ctx: Context[Site]) -> None:
        if reads:
            assert ctx.object.spec.replicas
        counted.ran(ctx)

    return Manager(Controller(Site, reconcile), transport=transport, environ={})


async def overhead() -> Figures:
    """A burst of changes that is in memory: what a controller costs more than a handler that does nothing."""
    first, burst = first_state(BURST), b"".join(changes(BURST))
    alone, reconciled, reading = [], [], []
    for _round in range(ROUNDS):
        alone.append(await _informed(first, burst))
        reconciled.append(await _reconciled(first, burst))
        reading.append(await _reconciled(first, burst, reads=True))
    least, run, run_reading = median(alone), median(reconciled), median(reading)
    return {"us": (run - least) / BURST * 1e6, "reading_us": (run_reading - least) / BURST * 1e6}


async def _informed(first: bytes, burst: bytes) -> float:
    transport = objects.Gated(first, burst)
    informer = Informer(transport, kind_of(Site).resource)
    informer.add_handler(lambda delta: None)
    async with anyio.create_task_group() as group:
        group.start_soon(informer.run)
        await informer.wait_synced()
        gc.collect()
        began = time.process_time()
        transport.gate.set()
        assert await informer.wait_version(2 * BURST, 60)
        taken = time.process_time() - began
        group.cancel_scope.cancel()
    return taken


async def _reconciled(first: bytes, burst: bytes, reads: bool = False) -> float:
    transport, counted = objects.Gated(first, burst), Counted()
    async with _managed(counted, transport, reads):
        await counted.more(BURST)
        gc.collect()
        began = time.process_time()
        transport.gate.set()
        await counted.more(2 * BURST)
        taken = time.process_time() - began
        assert counted.runs == 2 * BURST
    return taken


@asynccontextmanager
async def connected(kubeconfig: str) -> AsyncIterator[Transport]:
    transport = await connect(kubeconfig)
    try:
        yield transport
    finally:
        await transport.aclose()


async def latency(kubeconfig: str) -> Figures:
    """From the moment that the server sends a change until a reconciler has it in hand."""
    counted = Counted()
    async with connected(kubeconfig) as transport, _managed(counted, transport):
        await counted.more(PACED)
        counted.timed = True
        gc.collect()
        await transport.request(HttpRequest("GET", "/changes"))
        await counted.more(2 * PACED)
    late = sorted(counted.late)
    return {"p50": late[len(late) // 2], "p99": late[len(late) * 99 // 100]}


async def ours(kubeconfig: str) -> Figures:
    """CPU seconds of this process for a change of every object, each reconciled."""
    counted = Counted()
    async with connected(kubeconfig) as transport, _managed(counted, transport):
        await counted.more(KEYS)
        gc.collect()
        began = time.process_time()
        await transport.request(HttpRequest("GET", "/changes"))
        await counted.more(2 * KEYS)
        taken = time.process_time() - began
        assert counted.runs == 2 * KEYS
    return {"cpu": taken}


async def _connect_once(kubeconfig: str) -> None:
    async with connected(kubeconfig):
        pass


def whole(kubeconfig: str, loop: str) -> Figures:
    """CPU of a manager's process: until each object has run, and then for one update after another."""
    asyncio.run(_connect_once(kubeconfig))  # so that what reads a kubeconfig is imported before
    os.environ["KUBECONFIG"] = kubeconfig
    steps, runs, taken = Steps(kubeconfig), itertools.count(1), list[float]()

    def begin_updates() -> None:
        taken.append(time.process_time())
        steps.next()

    async def reconcile(ctx: Context[Site]) -> None:
        assert ctx.object.spec.image
        run = next(runs)
        if run in (WHOLE, 2 * WHOLE):
            taken.append(time.process_time())
        if run == WHOLE:
            asyncio.get_running_loop().call_later(0.1, begin_updates)
        elif run == 2 * WHOLE:
            manager.stop()
        elif run > WHOLE:
            steps.next()

    manager = Manager(Controller(Site, reconcile), environ={})
    gc.collect()
    begun = time.process_time()
    manager.main(loop_factory=uvloop.new_event_loop if loop == "uvloop" else None)
    synced, began, ended = taken
    return {"sync_run_us": (synced - begun) / WHOLE * 1e6, "update_us": (ended - began) / WHOLE * 1e6}


def whole_manager() -> Figures:
    """The best of several rounds, each with a server of its own."""
    taken: dict[str, list[Figures]] = {"asyncio": [], "uvloop": []}
    for _ in range(ROUNDS):
        for loop, rounds in taken.items():
            with serving(whole_content, WHOLE, tls=True) as (_, kubeconfig):
                rounds.append(measured(__name__, "whole", kubeconfig, loop))
    best = {
        loop: {name: min(one[name] for one in rounds) for name in ("sync_run_us", "update_us")}
        for loop, rounds in taken.items()
    }
    return {
        "runtime.sync_run_us_per_object": best["asyncio"]["sync_run_us"],
        "runtime.update_us": best["asyncio"]["update_us"],
        "runtime.sync_run_uvloop_us_per_object": best["uvloop"]["sync_run_us"],
        "runtime.update_uvloop_us": best["uvloop"]["update_us"],
    }


async def kopf(url: str) -> Figures:
    """The same with kopf: a handler of events that does nothing."""
    import kopf

    counted, registry, stop, ready = Counted(), kopf.OperatorRegistry(), asyncio.Event(), asyncio.Event()

    @kopf.on.login(registry=registry)  # type: ignore[arg-type]
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=url)

    @kopf.on.event("example.com", "v1", "sites", registry=registry)
    async def handle(**_: Any) -> None:
        counted.count()

    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.peering.standalone = True
    logging.getLogger("kopf").setLevel(logging.WARNING)
    operator = kopf.operator(
        registry=registry, settings=settings, clusterwide=True, stop_flag=stop, ready_flag=ready
    )
    running = asyncio.create_task(operator)
    await counted.more(KEYS)
    await asyncio.sleep(1)  # its watch opens after the list
    gc.collect()
    began = time.process_time()
    await anyio.to_thread.run_sync(urllib.request.urlopen, f"{url}/changes")
    await counted.more(2 * KEYS)
    taken = time.process_time() - began
    assert counted.runs == 2 * KEYS
    stop.set()
    await running
    return {"cpu": taken}


def figures() -> Figures:
    with serving(content, 0, False, tls=True) as (url, kubeconfig):
        empty = _start.figures(Path(kubeconfig).parent, url)
    with serving(content, PACED, True) as (_, kubeconfig):
        late = measured(__name__, "latency", kubeconfig)
    more = measured(__name__, "overhead")
    mine, theirs = [], []
    with serving(content, KEYS, False) as (url, kubeconfig):
        for _ in range(ROUNDS):
            mine.append(KEYS / measured(__name__, "ours", kubeconfig)["cpu"])
            theirs.append(KEYS / measured(__name__, "kopf", url)["cpu"])
    return (
        empty
        | whole_manager()
        | {
            "runtime.reconcile_overhead_us": more["us"],
            "runtime.reconcile_overhead_reading_us": more["reading_us"],
            "runtime.event_to_reconcile_p50_ms": late["p50"],
            "runtime.event_to_reconcile_p99_ms": late["p99"],
            "runtime.events_per_cpu_s": median(mine),
            "runtime.kopf_events_per_cpu_s": median(theirs),
            "runtime.ratio_to_kopf_events_per_s": median(mine) / median(theirs),
        }
    )

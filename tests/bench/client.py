"""What a reconciler's usual calls cost: a typed read from the cache, an apply that changes nothing, a write.

A write is a status patch over TLS, one at a time, to another process that answers with the object. Its CPU is
that of this process alone.
"""

import gc
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any, cast

import anyio
import msgspec
from attrs import frozen

from informers import Cache
from informers.kubernetes import connect
from reconcile import Client, Condition, Object, ObjectMeta, kind_of, resource
from reconcile.client.client import bound, core_of
from reconcile.client.own_writes import Journal
from reconcile.testing import FakeClient
from tests.bench._byte_server import Content, serving

SITES = 1_000
ROUNDS = 7
WRITTEN = "site-0"


@frozen
class Spec:
    image: str = ""
    replicas: int = 1
    pull_secret: str | None = None


@frozen
class Status:
    ready: int = 0
    conditions: tuple[Condition, ...] = ()


@resource("example.com/v1")
class Site(Object):
    spec: Spec = Spec()
    status: Status = Status()


def figures() -> dict[str, float]:
    """Microseconds of CPU time a call."""
    with serving(_answers, tls=True) as (_, kubeconfig):
        written = anyio.run(_written, kubeconfig)
    return anyio.run(_measure) | {"client.write_us": written}


def _answers() -> Content:
    path = f"{kind_of(Site).resource.path('default')}/{WRITTEN}"
    body = msgspec.json.encode(_found(_site(WRITTEN)))
    return Content(b"", [], documents={path: body, f"{path}/status": body})


async def _written(kubeconfig: str) -> float:
    transport = await connect(kubeconfig)
    client = Client(transport)
    site = await client.get(Site, WRITTEN, "default")
    rounds = []
    for _ in range(ROUNDS):
        gc.collect()
        began = time.process_time_ns()
        for number in range(SITES):
            await client.raw.merge(site, {"status": {"ready": number}}, subresource="status")
        rounds.append((time.process_time_ns() - began) / SITES / 1000)
    await transport.aclose()
    return median(rounds)


async def _measure() -> dict[str, float]:
    fake = FakeClient()
    fake.serve(Site)
    for number in range(SITES):
        fake.add(_site(f"site-{number}"))
    client = bound(_cached(fake), Journal(), "bench")
    resource = kind_of(Site).resource
    keys = [snapshot.key for snapshot in await client.raw.snapshots(resource)]
    intents = [_site(key.name, key.namespace) for key in keys]
    for intent in intents:
        await client.apply(intent)
    client = _cached(fake, client)
    sent = len(fake.transport.requests)
    taken = {
        "client.cached_get_us": await _timed(lambda n: client.get(Site, keys[n].name, keys[n].namespace)),
        "client.cached_snapshot_us": await _timed(lambda n: client.raw.snapshot(resource, keys[n])),
        "client.noop_apply_us": await _timed(lambda n: client.apply(intents[n])),
    }
    assert len(fake.transport.requests) == sent, "a call of the measurement went to the server"
    return taken


def _found(site: Site) -> dict[str, Any]:
    """What the server has of it."""
    fake = FakeClient(site)
    return cast(dict[str, Any], fake.request("GET", kind_of(Site).resource.path(*site.key)))


def _site(name: str, namespace: str = "default") -> Site:
    spec = Spec(image=f"registry.example.com/sites/{name}:1", replicas=3, pull_secret="pull")
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "sites"}
    return Site(metadata=ObjectMeta(name, namespace, labels=labels), spec=spec)


def _cached(fake: FakeClient, of: Client | None = None) -> Client:
    """A client (or `of`, with what it remembers) whose cache holds what the server has."""
    cache = Cache(fake.transport, clock=fake.clock)
    path = kind_of(Site).resource.path()
    listed = fake.request("GET", path)
    informer = cache.declare(kind_of(Site).resource)
    informer.mark_applies("bench")
    items = [informer._read(msgspec.json.encode(item)) for item in listed["items"]]
    informer.store.replace(items, int(listed["metadata"]["resourceVersion"]))
    if of is None:
        return Client(fake.transport, cache=cache, clock=fake.clock)
    core_of(of).cache = cache
    return of


async def _timed(call: Callable[[int], Awaitable[object]]) -> float:
    rounds = []
    for _ in range(ROUNDS):
        gc.collect()
        began = time.process_time_ns()
        for number in range(SITES):
            await call(number)
        rounds.append((time.process_time_ns() - began) / SITES / 1000)
    return median(rounds)

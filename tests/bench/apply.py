"""What applies cost at size: writes of a restart with nothing to do, memory and time of the marks a child."""

import gc
import sys
import time

import anyio
import msgspec

from informers import Cache, Informer
from reconcile import Client, Intent, ObjectMeta, OwnerReference, kind_of
from reconcile.kinds import ConfigMap, Deployment, DeploymentSpec, LabelSelector
from reconcile.testing import FakeClient

CHILDREN = 12_000
MANAGER = "tenants"
POINTER = 8
CONFIG = kind_of(ConfigMap).resource
DEPLOYMENT = kind_of(Deployment).resource


def figures() -> dict[str, float]:
    """Requests for changes, bytes, microseconds of CPU time."""
    return anyio.run(_measure)


async def _measure() -> dict[str, float]:
    fake = FakeClient()
    writer = fake.with_options(field_manager=MANAGER)
    bodies = [await _stored(fake, writer, config(0)), await _stored(fake, writer, deployment(0))]
    texts = [[_renamed(body, number) for number in range(CHILDREN)] for body in bodies]
    fake.transport.requests.clear()
    client, bytes_each, mark_us = _restarted(fake, texts[0])
    for number in range(CHILDREN):
        await client.apply(config(number))
    return {
        "apply.restart_writes": float(len(fake.transport.writes)),
        "apply.bytes_per_child": bytes_each,
        "apply.mark_us": mark_us,
        "apply.mark_us_deployment": _restarted(fake, texts[1])[2],
    }


def config(number: int) -> Intent[ConfigMap]:
    return Intent(ConfigMap, metadata=_metadata(number), data={"tenant": _name(number), "tier": "standard"})


def deployment(number: int) -> Intent[Deployment]:
    labels = {"app": _name(number)}
    ports = [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
    environment = [{"name": f"SETTING_{n}", "value": str(n)} for n in range(6)]
    container = {"name": "web", "image": "registry.example.com/web:1", "ports": ports, "env": environment}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = DeploymentSpec(selector=LabelSelector(labels), template=template, replicas=2)
    return Intent(Deployment, metadata=_metadata(number), spec=spec)


def _metadata(number: int) -> ObjectMeta:
    uid = f"00000000-0000-4000-8000-{number:012}"
    owner = OwnerReference("example.com/v1", "Tenant", _name(number), uid, controller=True)
    return ObjectMeta(_name(number), "default", labels={"tenant": _name(number)}, owner_references=(owner,))


def _name(number: int) -> str:
    return f"tenant-{number:06}"


async def _stored(fake: FakeClient, writer: Client, intent: Intent[ConfigMap] | Intent[Deployment]) -> bytes:
    made = await writer.apply(intent)
    return msgspec.json.encode(fake.request("GET", kind_of(made).resource.path(*made.key)))


def _renamed(body: bytes, number: int) -> bytes:
    uid = b"00000000-0000-4000-8000-%012d"
    return body.replace(_name(0).encode(), _name(number).encode()).replace(uid % 0, uid % number)


def _restarted(fake: FakeClient, texts: list[bytes]) -> tuple[Client, float, float]:
    """A client whose cache was just filled; bytes that the marks take of each object, and time for them."""
    resource = DEPLOYMENT if b'"Deployment"' in texts[0] else CONFIG
    cache = Cache(fake.transport, clock=fake.clock)
    informer = cache.declare(resource)
    plain_us = _read_us(informer, texts)
    informer.mark_applies(MANAGER)
    marked_us = _read_us(informer, texts)
    store = informer.store
    store.replace([informer._read(text) for text in texts], 1)
    taken = sum(
        POINTER + sys.getsizeof(snapshot.applied) + len(store.noted(snapshot.key)) for snapshot in store
    )
    assert all(snapshot.applied for snapshot in store)
    client = Client(fake.transport, cache=cache, clock=fake.clock, field_manager=MANAGER)
    return client, taken / len(texts), marked_us - plain_us


def _read_us(informer: Informer, texts: list[bytes]) -> float:
    gc.collect()
    began = time.process_time()
    for text in texts:
        informer._read(text)
    return (time.process_time() - began) / len(texts) * 1e6

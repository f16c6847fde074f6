"""What an informer costs: CPU and memory of a sync, CPU of an event, the longest stall, reads.

Objects are prepared with names, uids and values of their own. The server of a sync is another
process that sends bytes it has ready, over TLS; each measurement runs in a process of its own.

`bytes_beside_object` is what the store, its indexes and what snapshots share ask of the allocator for each
object, less the stored body: the same in every run. `metadata_bytes_per_object` is the growth of the process,
less the bodies, with what the allocator rounds up and a share of all that a connection takes.
"""

import asyncio
import gc
import json
import os
import random
import time
import tracemalloc
import uuid
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from informers import APIResource, HttpRequest, Informer, InformerOptions, Key, StreamingResponse
from informers.kubernetes import connect
from tests.bench._byte_server import Content, serving
from tests.bench._harness import Figures, best_us, measured, resident

OBJECTS = 20_000
EVENTS = 20_000
MANY = 100_000
SITES = APIResource("example.com", "v1", "Site", "sites")
PODS = APIResource("", "v1", "Pod", "pods")


# --- objects --------------------------------------------------------------------------------------


def site(number: int, chance: random.Random, version: int) -> dict[str, Any]:
    """A custom resource of 2 KB."""
    return {
        "apiVersion": "example.com/v1",
        "kind": "Site",
        "metadata": _metadata(f"site-{number}", number, chance, version),
        "spec": {
            "image": f"registry.example.com/sites/{_hex(chance, 12)}:{_hex(chance, 8)}",
            "replicas": chance.randrange(9),
            "settings": {f"setting-{k}": _hex(chance, 32) for k in range(26)},
        },
        "status": {"ready": chance.randrange(9), "observedGeneration": 3, "conditions": [_condition(chance)]},
    }


def pod(number: int, chance: random.Random, version: int) -> dict[str, Any]:
    """A pod of 3.8 KB."""
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": _metadata(f"pod-{_hex(chance, 5)}-{number}", number, chance, version),
        "spec": {
            "nodeName": f"node-{chance.randrange(500)}",
            "serviceAccountName": "default",
            "containers": [_container(k, chance) for k in range(3)],
            "volumes": [{"name": f"data-{k}", "emptyDir": {"sizeLimit": "1Gi"}} for k in range(2)],
        },
        "status": {
            "phase": "Running",
            "podIP": ".".join(str(chance.randrange(256)) for _ in range(4)),
            "conditions": [_condition(chance) for _ in range(4)],
            "containerStatuses": [
                {"name": f"c{k}", "ready": True, "containerID": f"containerd://{_hex(chance, 64)}"}
                for k in range(3)
            ],
        },
    }


def _container(number: int, chance: random.Random) -> dict[str, Any]:
    return {
        "name": f"c{number}",
        "image": f"registry.example.com/team/app-{number}@sha256:{_hex(chance, 64)}",
        "env": [{"name": f"VARIABLE_{k}", "value": _hex(chance, 24)} for k in range(6)],
        "resources": {"limits": {"cpu": "500m", "memory": f"{chance.randrange(4096)}Mi"}},
        "volumeMounts": [{"name": f"data-{k}", "mountPath": f"/data/{k}"} for k in range(2)],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _metadata(name: str, number: int, chance: random.Random, version: int) -> dict[str, Any]:
    # Ten objects for each owner, in its namespace, as the garbage collector demands.
    owner = number // 500 * 50 + number % 50
    return {
        "name": name,
        "namespace": f"team-{number % 50}",
        "uid": str(uuid.UUID(int=chance.getrandbits(128))),
        "resourceVersion": str(version),
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": f"app-{owner}", "hash": _hex(chance, 10), "tier": "front"},
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": f"app-{owner}",
                "uid": owner_uid(owner),
                "controller": True,
            }
        ],
        "managedFields": [
            {
                "manager": "controller",
                "operation": "Update",
                "time": "2026-01-01T00:00:00Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {f"f:field-{k}": {} for k in range(6)}},
            }
        ],
    }


def owner_uid(number: int) -> str:
    """The uid of an owner, of which each has ten objects."""
    return str(uuid.UUID(int=number + (1 << 100)))


def _condition(chance: random.Random) -> dict[str, Any]:
    return {
        "type": f"Type{chance.randrange(4)}",
        "status": "True",
        "reason": "AllIsWell",
        "message": _hex(chance, 40),
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def _hex(chance: random.Random, digits: int) -> str:
    return f"{chance.getrandbits(4 * digits):0{digits}x}"


def encoded(kind: str, number: int, seed: int, version: int) -> bytes:
    make = pod if kind == "pods" else site
    return packed(make(number, random.Random(f"{seed}/{number}"), version))


def packed(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def event(kind: str, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), body)


def bookmark(version: int) -> bytes:
    annotations = {"k8s.io/initial-events-end": "true"}
    metadata = {"resourceVersion": str(version), "annotations": annotations}
    return event("BOOKMARK", json.dumps({"metadata": metadata}).encode())


def first_state(kind: str, objects: int) -> bytes:
    """All lines of a streaming list. Object n has version n + 1."""
    lines = [event("ADDED", encoded(kind, number, 1, number + 1)) for number in range(objects)]
    return b"".join(lines) + bookmark(objects)


def updates(kind: str, objects: int, changes: int | None = None) -> list[bytes]:
    """A line for a change of each of the objects, or of the first `changes`: new are content and version."""
    changed = []
    for number in range(objects if changes is None else changes):
        before = json.loads(encoded(kind, number, 1, number + 1))
        before["metadata"]["resourceVersion"] = str(objects + number + 1)
        before["status"]["observedGeneration"] = number
        changed.append(event("MODIFIED", packed(before)))
    return changed


def content(kind: str) -> Content:
    return Content(first_state(kind, OBJECTS), updates(kind, OBJECTS))


# --- what runs in a process of its own ------------------------------------------------------------


class Stall:
    """How long a task that wants a turn each millisecond was kept waiting at most, in seconds.

    `longest` leaves out the time in which this thread was ready to run and other programs had the
    processors; blocking calls and page faults count. `wall` is by the clock alone.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.longest = self.wall = 0.0
        self.waits = array("d")

    def percentile(self, percent: int) -> float:
        """The wait, in seconds, that so many of a hundred turns did not exceed."""
        return sorted(self.waits)[len(self.waits) * percent // 100]

    async def run(self) -> None:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as schedule:  # noqa: ASYNC230
            while True:
                queued, now = _queued(schedule.fileno()), time.perf_counter()
                await asyncio.sleep(0.001)
                wall = time.perf_counter() - now - 0.001
                self.wall = max(self.wall, wall)
                self.waits.append(wall - _queued(schedule.fileno()) + queued)
                self.longest = max(self.longest, self.waits[-1])


def _queued(schedule: int) -> float:
    """Seconds for which a thread has waited for a processor; 0 where the kernel does not count them."""
    counted = os.pread(schedule, 100, 0).split()
    return int(counted[1]) / 1e9 if len(counted) == 3 else 0.0


async def sync(kubeconfig: str, kind: str, compress: str) -> Figures:
    """Follow until synced, then take a change of every object."""
    transport = await connect(kubeconfig)
    resource = PODS if kind == "pods" else SITES
    informer = Informer(transport, resource, options=InformerOptions(compress=compress == "yes"))
    heard = 0

    def handler(delta: Any) -> None:
        nonlocal heard
        heard += 1

    informer.add_handler(handler)
    stall = Stall()
    gc.collect()
    memory, cpu = resident(), time.process_time()
    async with anyio.create_task_group() as group:
        group.start_soon(stall.run)
        group.start_soon(informer.run)
        await informer.wait_synced()
        synced_cpu, synced_stall = time.process_time() - cpu, stall.longest
        synced_wall = stall.wall
        gc.collect()
        grown = resident() - memory
        stored = sum(len(snapshot.raw) for snapshot in informer.store)
        bodies = informer.store.size
        await anyio.sleep(0.1)
        stall.begin()
        heard = 0
        cpu = time.process_time()
        await transport.request(HttpRequest("GET", "/changes"))
        assert await informer.wait_version(2 * OBJECTS, 30)
        changed_cpu = time.process_time() - cpu
        assert heard == OBJECTS
        group.cancel_scope.cancel()
    await transport.aclose()
    return {
        "cpu_us_per_object": synced_cpu / OBJECTS * 1e6,
        "memory_ratio": grown / stored,
        "metadata_bytes": (grown - bodies) / OBJECTS,
        "socket_cpu_us_per_event": changed_cpu / OBJECTS * 1e6,
        "max_stall_ms": max(synced_stall, stall.longest) * 1e3,
        "max_stall_wall_ms": max(synced_wall, stall.wall) * 1e3,
        "resident": grown,
        "cpu": synced_cpu,
        "object_bytes": stored / OBJECTS,
    }


async def dicts(kubeconfig: str, kind: str) -> Figures:
    """What many write instead: json.loads on each line, into a dict."""
    transport = await connect(kubeconfig)
    gc.collect()
    memory, cpu = resident(), time.process_time()
    objects: dict[tuple[str, str], Any] = {}
    query = {"watch": "true", "sendInitialEvents": "true"}
    async with transport.stream(HttpRequest("GET", "/api/v1/pods", query)) as stream:
        rest = b""
        async for chunk in stream.chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                read = json.loads(line)
                if read["type"] == "BOOKMARK":
                    break
                metadata = read["object"]["metadata"]
                objects[metadata["namespace"], metadata["name"]] = read["object"]
            if len(objects) == OBJECTS:
                break
    figures = {"cpu": time.process_time() - cpu, "resident": float(resident() - memory)}
    await transport.aclose()
    return figures


class Gated:
    """A transport that hands over a first state that is in memory, and the rest once `gate` is set."""

    server = "memory"

    def __init__(self, first: bytes, rest: bytes = b"") -> None:
        self.first, self.rest = first, rest
        self.gate = anyio.Event()

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[StreamingResponse]:
        yield StreamingResponse(200, {}, self._read())

    async def _read(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self.first), 1 << 18):
            yield self.first[start : start + (1 << 18)]
        await self.gate.wait()
        for start in range(0, len(self.rest), 1 << 18):
            yield self.rest[start : start + (1 << 18)]
        await anyio.sleep_forever()

    async def request(self, request: HttpRequest) -> Any:
        raise NotImplementedError

    async def aclose(self) -> None:
        pass


async def events(kind: str) -> Figures:
    """A burst of changes that is in memory, to a handler that does nothing; the stall it makes."""
    transport = Gated(first_state(kind, EVENTS), b"".join(updates(kind, EVENTS)))
    informer = Informer(transport, PODS)
    informer.add_handler(lambda delta: None)
    stall = Stall()
    async with anyio.create_task_group() as group:
        group.start_soon(informer.run)
        await informer.wait_synced()
        group.start_soon(stall.run)
        await anyio.sleep(0.01)
        cpu = time.process_time()
        transport.gate.set()
        assert await informer.wait_version(2 * EVENTS, 30)
        cpu = time.process_time() - cpu
        group.cancel_scope.cancel()
    return {
        "cpu_us": cpu / EVENTS * 1e6,
        "max_stall_ms": stall.longest * 1e3,
        "max_stall_wall_ms": stall.wall * 1e3,
    }


async def beside() -> Figures:
    """What a store takes for each object beside its body, without a connection."""
    informer = Informer(Gated(first_state("sites", OBJECTS)), SITES)
    gc.collect()
    tracemalloc.start()
    async with anyio.create_task_group() as group:
        group.start_soon(informer.run)
        await informer.wait_synced()
        await anyio.sleep(0.1)  # the transport lets go of what it has handed over
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
        group.cancel_scope.cancel()
    return {"bytes": (taken - informer.store.size) / OBJECTS}


async def reads() -> Figures:
    """Of a store of many objects: one by key, those of an owner, one decoded."""
    informer = Informer(Gated(first_state("sites", MANY)), SITES)
    async with anyio.create_task_group() as group:
        group.start_soon(informer.run)
        await informer.wait_synced()
        store = informer.store
        keys = random.Random(1).sample([snapshot.key for snapshot in store], 10_000)
        wanted = [Key(*key) for key in keys]
        get = best_us(lambda: [store.get(key) for key in wanted]) / len(wanted)
        owners = [owner_uid(number) for number in random.Random(2).sample(range(MANY // 10), 5_000)]
        owned = best_us(lambda: [store.by_index("owner", uid) for uid in owners]) / len(owners)
        assert all(len(store.by_index("owner", uid)) == 10 for uid in owners)
        group.cancel_scope.cancel()
    return {"get_us": get, "list_by_owner_us": owned}


def calmest(name: str, *arguments: str) -> Figures:
    """Of three measurements the one with the shortest stall: what else the machine does only adds to it."""
    runs: list[Figures] = [measured(__name__, name, *arguments) for _ in range(3)]
    return min(runs, key=lambda taken: taken["max_stall_ms"])


def figures() -> Figures:
    with serving(content, "sites", tls=True) as (_, kubeconfig):
        small = calmest("sync", kubeconfig, "sites", "no")
        small_packed = measured(__name__, "sync", kubeconfig, "sites", "yes")
        plain = measured(__name__, "dicts", kubeconfig, "sites")
    with serving(content, "pods", tls=True) as (_, kubeconfig):
        large = measured(__name__, "sync", kubeconfig, "pods", "no")
        large_packed = measured(__name__, "sync", kubeconfig, "pods", "yes")
    burst, many = calmest("events", "sites"), measured(__name__, "reads")
    scaled = measured("tests.bench._scale", "scaled")
    return {
        "informers.sync_cpu_us_per_object": small["cpu_us_per_object"],
        "informers.sync_cpu_us_per_object_4k": large["cpu_us_per_object"],
        "informers.memory_ratio": small["memory_ratio"],
        "informers.memory_ratio_4k": large["memory_ratio"],
        "informers.memory_ratio_compressed_2k": small_packed["memory_ratio"],
        "informers.memory_ratio_compressed_4k": large_packed["memory_ratio"],
        "informers.sync_cpu_us_per_object_compressed": small_packed["cpu_us_per_object"],
        "informers.metadata_bytes_per_object": small["metadata_bytes"],
        "informers.bytes_beside_object": measured(__name__, "beside")["bytes"],
        "informers.event_cpu_us": burst["cpu_us"],
        "informers.socket_cpu_us_per_event": small["socket_cpu_us_per_event"],
        "informers.max_stall_ms": max(small["max_stall_ms"], burst["max_stall_ms"]),
        "informers.max_stall_wall_ms": max(small["max_stall_wall_ms"], burst["max_stall_wall_ms"]),
        "informers.ratio_to_dicts_cpu": small["cpu"] / plain["cpu"],
        "informers.ratio_to_dicts_rss": small["resident"] / plain["resident"],
        "informers.scale_sync_s": scaled["sync_s"],
        "informers.scale_relist_s": scaled["relist_s"],
        "informers.scale_mb": scaled["sync_mb"],
        "informers.stall_p99_ms": scaled["longest_p99_ms"],
        "informers.stall_max_ms": scaled["longest_max_ms"],
        "informers.get_us": many["get_us"],
        "informers.list_by_owner_us": many["list_by_owner_us"],
    }

"""What the storm guard costs a controller in which there is no storm."""

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Sequence
from statistics import median

import msgspec

from informers import Delta, Key, Snapshot, get_logger
from reconcile import Cause, Client, Request, Result, Storms, kind_of
from reconcile.kinds import ConfigMap
from reconcile.runs.run_record import RunRecord
from reconcile.runs.write_events import Answered, Sent
from reconcile.storms import Echoes
from reconcile.storms.echoes import EchoObserver
from reconcile.storms.guard import StormGuard
from reconcile.testing import FakeClient

Figures = dict[str, float]

RUNS = 50_000
ROUNDS = 5
KEYS = 20_000
RESOURCE = kind_of(ConfigMap).resource


def _guard() -> StormGuard:
    client: Client = FakeClient()
    log = get_logger("bench")
    return StormGuard(Storms(), RESOURCE, "bench", client, lambda *_: None, log)


def _state(name: str, version: int) -> Snapshot:
    metadata = {"name": name, "namespace": "default", "uid": "u", "resourceVersion": str(version)}
    return Snapshot.from_json(msgspec.json.encode({"kind": "ConfigMap", "metadata": metadata}))


async def _guarded(requests: Sequence[Request], delta: Delta, cause: Cause) -> float:
    """One run each, woken by one change, as the runner goes about it; the time of an empty loop taken off."""
    guard, echoes = _guard(), Echoes()
    result, causes = Result(), (cause,)
    began = time.process_time()
    for _ in requests:
        pass
    empty = time.process_time() - began
    began = time.process_time()
    for request in requests:
        echoes.classify(request, RESOURCE, delta)
        guard.note_trigger(request, RESOURCE, delta)
        assert not guard.storming
        assert not guard.tracking
        known = echoes.begin(request, causes)
        record = RunRecord()
        record.causes = known
        record.note_read(RESOURCE, request.key)
        echoes.end(request, wrote=bool(record.writes))
        if record.writes or guard.storming:
            await guard.run_ended(request, record, result, delta.new, began)
        else:
            guard.idle_run_ended(request, began)
    return time.process_time() - began - empty


async def _overhead() -> float:
    """ns a reconcile."""
    requests = [Request("default", f"key-{number}") for number in range(RUNS)]
    delta = Delta(_state("key", 1), _state("key", 2))
    cause = Cause("updated", RESOURCE, Key("default", "key"), 2)
    gc.collect()
    taken = [await _guarded(requests, delta, cause) for _ in range(ROUNDS)]
    return median(taken) / RUNS * 1e9


async def _bytes_per_key() -> float:
    """What is left of keys that wrote once, a while ago or just now, and are quiet."""
    guard, echoes = _guard(), Echoes()
    key = Key("default", "child")
    base, written = _state("child", 1), _state("child", 2)
    body = {"metadata": {"resourceVersion": "1"}}
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(KEYS):
        request = Request("default", f"key-{number}")
        record = RunRecord()
        write = Answered(Sent("PATCH", RESOURCE, key, "", body, base), written)
        for observer in (record, EchoObserver(echoes, request)):
            observer.answered(write)
        await guard.run_ended(request, record, Result(), base, float(number))
        echoes.classify(request, RESOURCE, Delta(base, written))
        echoes.begin(request, ())
        echoes.end(request, wrote=False)
        guard.idle_run_ended(request, float(number) + 1)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used / KEYS


def figures() -> Figures:
    return {
        "storms.overhead_ns_per_reconcile": asyncio.run(_overhead()),
        "storms.bytes_per_key": asyncio.run(_bytes_per_key()),
    }

"""An informer of very many objects: memory, time to sync, and how long other tasks wait meanwhile.

A task that wants a turn each millisecond notes how long it waited: during the sync, while the informer lists
everything again because the server has forgotten its version (410), and during changes of 20,000 objects.
"""

import gc
import time
from collections.abc import Callable
from functools import partial

import anyio

from informers import Informer, InformerOptions
from informers.kubernetes import connect
from tests.bench import informers as objects
from tests.bench._byte_server import Content, Steps, serving
from tests.bench._harness import Figures, measured, resident

MANY = 100_000
MILLION = 1_000_000
CHANGED = 20_000
PHASES = ("sync", "relist", "change")
EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired","code":410}}\n'

PARTIAL = b"""{"type":"%s","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",\
"metadata":{\
"name":"pod-%06x-%d","namespace":"team-%d","uid":"00000000-0000-4000-8000-%012x","resourceVersion":"%d",\
"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":"app-%d","hash":"%010x","tier":"front"},\
"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"app-%d",\
"uid":"00000000-0000-4000-9000-%012x","controller":true}]}}}
"""


def content(count: int) -> Content:
    """Pods of 4 KB; the first step makes a watch end with 410, the second sends the changes."""
    changes = objects.updates("pods", count, CHANGED)
    return Content(objects.first_state("pods", count), [EXPIRED, b"".join(changes)])


def million_content(count: int) -> Content:
    """Metadata of 0.5 KB."""
    return Content(
        b"".join(map(_partial_line, range(count))) + objects.bookmark(count),
        [EXPIRED, b"".join(_partial_line(number, count) for number in range(CHANGED))],
    )


def _partial_line(number: int, later: int = 0) -> bytes:
    kind = b"MODIFIED" if later else b"ADDED"
    name = (number * 7919 % (1 << 24), number, number % 500, number, later + number + 1)
    return PARTIAL % (kind, *name, number // 10, number * 104_729, number // 10, number // 10)


async def followed(kubeconfig: str, count: str, metadata_only: str) -> Figures:
    """Time, CPU and waits of each phase, and the memory that has come by its end."""
    number = int(count)
    transport, steps = await connect(kubeconfig), Steps(kubeconfig)
    options = InformerOptions(metadata_only=metadata_only == "yes")
    informer = Informer(transport, objects.PODS, options=options)
    informer.add_handler(lambda delta: None)
    stalls = objects.Stall()
    figures: Figures = {}
    gc.collect()
    memory = resident()

    async def phase(name: str, act: Callable[[], None], done: Callable[[], bool]) -> None:
        stalls.begin()
        began, cpu = time.monotonic(), time.process_time()
        act()
        assert await informer.wait_until(done, 600)
        await anyio.sleep(0.1)  # it may have been the last thing before a long pause
        figures[f"{name}_s"] = time.monotonic() - began - 0.1
        figures[f"{name}_cpu_s"] = time.process_time() - cpu
        figures[f"{name}_p99_ms"] = stalls.percentile(99) * 1e3
        figures[f"{name}_max_ms"] = stalls.longest * 1e3
        figures[f"{name}_mb"] = (resident() - memory) / 1e6

    async with anyio.create_task_group() as group:
        group.start_soon(stalls.run)
        await phase("sync", partial(group.start_soon, informer.run), lambda: informer.synced)
        await phase("relist", steps.next, lambda: informer.status().relists == 1)
        await phase("change", steps.next, lambda: informer.store.version >= number + CHANGED)
        assert len(informer.store) == number
        group.cancel_scope.cancel()
    await transport.aclose()
    return figures


def _run(make: Callable[[int], Content], count: int, metadata_only: str) -> Figures:
    with serving(make, count, tls=True) as (_, kubeconfig):
        taken: Figures = measured(__name__, "followed", kubeconfig, str(count), metadata_only)
    for which in ("p99", "max"):
        taken[f"longest_{which}_ms"] = max(taken[f"{phase}_{which}_ms"] for phase in PHASES)
    return taken


def scaled() -> Figures:
    """With 100,000 pods of 4 KB."""
    return _run(content, MANY, "no")


def million() -> Figures:
    """With the metadata of a million pods; this process and its server take 3 GB."""
    return _run(million_content, MILLION, "yes")

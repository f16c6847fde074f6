"""What compression in the background saves and costs, for 100,000 pods of 4 KB without reads.

Each measurement is made in a process of its own, with the default or with `compress=False`. The minutes that
an informer waits are seconds here. Stalls and CPU are of the first walk, which compresses every body, and are
measured apart from each other: the task that notes how long it waits takes CPU too.
"""

import gc
import time
from collections.abc import AsyncIterator, Sequence

import anyio

from informers import Informer, InformerOptions, Snapshot
from informers import background_compression as background
from tests.bench import informers as objects
from tests.bench._harness import Figures, measured, resident

MANY = 100_000
BATCH = 50
SECONDS = 1.0


class Made(objects.Gated):
    """A transport that makes each object when it is read, so that their text takes no memory."""

    async def _read(self) -> AsyncIterator[bytes]:
        for start in range(0, MANY, BATCH):
            numbers = range(start, start + BATCH)
            yield b"".join(objects.event("ADDED", objects.encoded("pods", n, 1, n + 1)) for n in numbers)
        yield objects.bookmark(MANY)
        await anyio.sleep_forever()


async def at_rest(compress: str, stalls: str) -> Figures:
    """Memory once nothing more is to be compressed, and what the walk took."""
    background.PERIOD = SECONDS
    options = InformerOptions(compress=None if compress == "default" else False)
    informer = Informer(Made(b""), objects.PODS, options=options)
    stall = objects.Stall()
    gc.collect()
    memory = resident()
    async with anyio.create_task_group() as group:
        group.start_soon(informer.run)
        await informer.wait_synced()
        gc.collect()
        figures = {"synced_mb": (resident() - memory) / 1e6}
        if compress == "default":
            while not informer.status().compressing:
                await anyio.sleep(0.01)
            if stalls == "stalls":
                group.start_soon(stall.run)
            cpu = time.process_time()
            while not all(snapshot.compressed for snapshot in last_of(informer)):
                await anyio.sleep(0.5)
            figures["walk_us"] = (time.process_time() - cpu) / MANY * 1e6
            if stalls == "stalls":
                figures["p99_ms"] = stall.percentile(99) * 1e3
                figures["max_ms"] = stall.longest * 1e3
        await anyio.sleep(1)
        figures["mb"] = (resident() - memory) / 1e6
        group.cancel_scope.cancel()
    return figures


def last_of(informer: Informer) -> Sequence[Snapshot]:
    """The objects of the namespace that a walk comes to last."""
    namespaces = [*informer.store.index_values("namespace")]
    return informer.store.by_index("namespace", namespaces[-1])


def figures() -> Figures:
    never = measured(__name__, "at_rest", "never", "")
    default = measured(__name__, "at_rest", "default", "")
    watched = measured(__name__, "at_rest", "default", "stalls")
    return {
        "compression.never_mb": never["mb"],
        "compression.default_mb": default["mb"],
        "compression.walk_us_per_object": default["walk_us"],
        "compression.stall_p99_ms": watched["p99_ms"],
        "compression.stall_max_ms": watched["max_ms"],
    }

"""A manager for many virtual hours under random faults: does anything of it grow?

`python -m tests.reconcile.soak` plays 30 hours; the tests play fewer. Toys come, change and go, and the
weather between manager and server changes all the time: none, outages, refusals, resets, cut streams. A
manager that loses its lease is followed by another one in the same process, which has to have let go of all.
At the end of each hour, in fair weather and with a known number of toys, what is there is counted.
"""

import argparse
import asyncio
import gc
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import anyio
from attrs import frozen

from reconcile import LeaderElection
from reconcile.controller.declaration import DEFAULT_WORKERS
from reconcile.errors import NotFound
from reconcile.testing import simulate
from tests.controller.outage import Weather, fair, refused
from tests.controller.test_outages import TOYS, Shop, stumbling, unauthorized
from tests.helpers.managers import Toy
from tests.helpers.tasks import beside
from tests.workqueue.leak import resident_megabytes

HOURS = 30
CALM = 900.0
"""Seconds of fair weather before each count: whatever backs off or is collected late is done by then."""
WARM_UP = 1
"""Hours after which all that is kept for good is there."""

OBJECTS = 1.12
MEGABYTES = 8.0
"""By which factor the interpreter's objects, and by how many megabytes the process, may grow after that.

Caches that are emptied when they are full (owners, finalizers, decoded objects) let both go up and down.
"""


@frozen
class Count:
    """What is there at the end of an hour; `tasks` without the workers that a controller may have."""

    tasks: int
    streams: int
    files: int
    objects: int
    megabytes: float
    starts: int
    requests: int


def grown(counts: Sequence[Count]) -> list[str]:
    """What has grown since the warm-up, in words."""
    before, after = counts[WARM_UP - 1], counts[-1]
    found = [
        f"{what}: {getattr(before, what)} -> {getattr(after, what)}"
        for what in ("tasks", "streams", "files")
        if getattr(after, what) > getattr(before, what)
    ]
    if after.objects > before.objects * OBJECTS:
        found.append(f"objects: {before.objects} -> {after.objects}")
    if after.megabytes > before.megabytes + MEGABYTES:
        found.append(f"megabytes: {before.megabytes:.1f} -> {after.megabytes:.1f}")
    return found


def play(hours: int, seed: int, *, tell: bool = False) -> Sequence[Count]:
    """Play so many virtual hours; the counts at the end of each."""
    counts: list[Count] = []

    async def run() -> None:
        shop = Shop(seed, history=500)
        await shop.stock(TOYS)
        async with beside(shop.server.run), beside(shop.keep_open, LeaderElection("shop", identity="only")):
            for hour in range(hours):
                await _trouble(shop, (hour + 1) * 3600 - CALM)
                await _calm(shop, hour + 2)
                await anyio.sleep((hour + 1) * 3600 - anyio.current_time())
                counts.append(_count(shop))
                if tell:
                    print(f"soak: hour {hour + 1}: {counts[-1]}", flush=True)

    logging.disable()  # lines that a test keeps are not what should be weighed
    try:
        simulate(run, seed=seed, limit_seconds=hours * 3600 + 60)
    finally:
        logging.disable(logging.NOTSET)
    return counts


async def _trouble(shop: Shop, until: float) -> None:
    """Changes and weather, both at random, until a time."""
    chance = shop.chance
    weathers: list[Weather] = [fair, fair, refused, unauthorized, stumbling(chance)]
    change_weather = anyio.current_time()
    while anyio.current_time() < until:
        if anyio.current_time() >= change_weather:
            shop.line.break_down(chance.choice(weathers), cut=chance.random() < 0.5)
            change_weather += chance.uniform(5, 300)
        await _change(shop)
        await anyio.sleep(chance.uniform(1, 60))


async def _change(shop: Shop) -> None:
    chance, client = shop.chance, shop.client
    name = f"toy-{chance.randrange(TOYS)}"
    try:
        toy = await client.get(Toy, name, "default")
    except NotFound:
        await shop.make(name, size=chance.randrange(100))
        return
    if chance.random() < 0.3:
        await client.delete(toy)
    else:
        await client.raw.merge(toy, {"spec": {"size": chance.randrange(100)}})


async def _calm(shop: Shop, size: int) -> None:
    shop.line.weather = fair
    for number in range(TOYS):
        if await shop.client.find(Toy, f"toy-{number}", "default") is None:
            await shop.make(f"toy-{number}", size=size)
    await shop.resize(size)
    await anyio.sleep(CALM - 60)
    assert await shop.is_done(size), "the toys are not as they should be"


def _count(shop: Shop) -> Count:
    requests = len(shop.line.sent)
    shop.line.sent.clear()
    megabytes = resident_megabytes()
    names = [task.get_name() for task in asyncio.all_tasks()]
    # Workers are started as keys wait, so the number of those that are allowed says nothing.
    workers = sum(name.endswith("Runner._work") for name in names)
    return Count(
        tasks=len(names) - min(workers, DEFAULT_WORKERS),
        streams=shop.line.streams,
        files=len(list(Path("/proc/self/fd").iterdir())),
        objects=len(gc.get_objects()),
        megabytes=megabytes,
        starts=shop.starts,
        requests=requests,
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hours", type=int, default=HOURS, help=f"virtual hours ({HOURS})")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the weather, the changes and the schedule (0)"
    )
    chosen = parser.parse_args(arguments)
    began = time.monotonic()
    found = grown(play(max(chosen.hours, WARM_UP + 1), chosen.seed, tell=True))
    print(
        f"soak: {chosen.hours} virtual hours in {time.monotonic() - began:.0f} s, grown: {found or 'nothing'}"
    )
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

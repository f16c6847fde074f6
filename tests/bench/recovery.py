"""What follows an outage of the API server: how long until all is done, and how many requests come first.

10,000 objects change in each outage, so each key has a request to send when it is over. Time is virtual and
the server answers at once: what is left is the time that is waited, without the work itself. The outages
are of 1, 10 and 60 s without a limit of requests, and of 10 s under the default one, where only the first
second counts.
"""

import anyio

from reconcile import Controller
from tests.controller.outage import World, fair, played, refused
from tests.helpers.managers import Toy, keep_size

KEYS = 10_000
OUTAGES = (1, 10, 60)
WORKERS = 50
SETTLED = 45.0
"""Seconds between two outages, so that none is taken for a flap of the one before."""
Figures = dict[str, float]


async def outage(world: World, seconds: float, size: int) -> tuple[float, int]:
    """An outage in which all objects change: seconds from its end to the last write, requests in one."""
    last = [0.0]
    world.line.break_down(refused)
    await world.resize(size)
    world.server.log.on_change(lambda _: last.append(anyio.current_time()))
    await anyio.sleep(seconds)
    world.line.weather = fair
    ended = anyio.current_time()
    await anyio.sleep(SETTLED)
    (first, _, _), *_ = world.line.sent_between(ended, ended + SETTLED)
    requests = max(len(world.line.sent_between(begin, begin + 1)) for begin in (ended, first))
    return last[-1] - ended, requests


def measured(seconds: tuple[float, ...], qps: float) -> list[tuple[float, int]]:
    """The figures of these outages, one after the other, for a manager with so many requests a second."""
    found: list[tuple[float, int]] = []

    async def scenario(world: World) -> None:
        async with world.running(Controller(Toy, keep_size, workers=WORKERS), client_qps=qps):
            await anyio.sleep(KEYS / (qps or KEYS) + SETTLED)
            for number, span in enumerate(seconds):
                found.append(await outage(world, span, size=number + 2))
            assert qps or await world.sizes() == {len(seconds) + 1}

    played(scenario, toys=KEYS)
    return found


def figures() -> Figures:
    free = measured(OUTAGES, 0.0)
    limited = measured((10,), 50.0)
    each = {
        f"recovery.seconds_to_rest_after_{seconds}_s": rest
        for seconds, (rest, _) in zip(OUTAGES, free, strict=True)
    }
    return {
        "recovery.seconds_to_rest": max(each.values()),
        **each,
        "recovery.requests_first_second": float(max(requests for _, requests in (*free, *limited))),
    }

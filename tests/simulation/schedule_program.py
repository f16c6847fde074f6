"""Prints a schedule; run as a program of its own, to compare processes with one another."""

import asyncio
import sys

import anyio

from reconcile.testing.virtual_clock import VirtualClock
from reconcile.testing.virtual_time import simulate


async def trace(clock: VirtualClock) -> list[str]:
    """What a crowd of tasks did, in order: sleeps, locks, cancelled scopes and sets of tasks among it."""
    lines: list[str] = []
    lock = anyio.Lock()

    async def work(name: int) -> None:
        try:
            for _ in range(3):
                async with lock:
                    lines.append(f"{anyio.current_time():.6f} {name} holds the lock")
                await anyio.sleep(round(clock.random(), 1))
            await anyio.sleep_forever()
        finally:
            lines.append(f"{anyio.current_time():.6f} {name} ends {clock.uuid()}")

    async with anyio.create_task_group() as tasks:
        for name in range(8):
            tasks.start_soon(work, name)
        await anyio.sleep(20)
        tasks.cancel_scope.cancel()

    done, _ = await asyncio.wait([asyncio.ensure_future(asyncio.sleep(0, n)) for n in range(8)])
    lines.append(f"done, as the set has them: {[task.result() for task in done]}")
    return lines


if __name__ == "__main__":
    seed = int(sys.argv[1])
    print("\n".join(simulate(trace, VirtualClock(seed), seed=seed)))

"""Working a queue step by step."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Protocol, TypeVar, TypeVarTuple

import anyio
import trio.testing
from attrs import define, field

from workqueue import Item, Work, WorkQueue

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


class Simulate(Protocol):
    """Run a function to its end in virtual time, which begins at 0."""

    def __call__(
        self,
        fn: Callable[[*Arguments], Awaitable[T]],
        *args: *Arguments,
        seed: int = 0,
        limit_seconds: float = 3600,
    ) -> T: ...


def simulate_trio(
    fn: Callable[[*Arguments], Awaitable[T]], *args: *Arguments, seed: int = 0, limit_seconds: float = 3600
) -> T:
    """As `reconcile.testing.simulate`, on trio, which knows neither seeds nor a limit."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    return anyio.run(fn, *args, backend="trio", backend_options={"clock": clock})


async def take(queue: WorkQueue[K]) -> tuple[Work[K], Item[K]]:
    work = queue.get()
    return work, await work.__aenter__()


async def end(work: Work[K], error: BaseException | None = None) -> None:
    await work.__aexit__(None if error is None else type(error), error, None)


async def drained(queue: WorkQueue[K]) -> list[K]:
    """The keys that are ready, in their order, each worked on."""
    keys = []
    while len(queue):
        async with queue.get() as item:
            keys.append(item.key)
    return keys


async def starts(queue: WorkQueue[K], seconds: float) -> list[tuple[K, float]]:
    """Which keys one worker is given in a while, and how many seconds from now."""
    began, taken = anyio.current_time(), []
    with anyio.move_on_after(seconds):
        while True:
            async with queue.get() as item:
                taken.append((item.key, anyio.current_time() - began))
    return taken


@define
class Recorded:
    """Metrics that are kept as they come."""

    added_priorities: list[int] = field(factory=list)
    retries: int = 0
    waits: list[float] = field(factory=list)
    runs: list[float] = field(factory=list)

    def added(self, priority: int) -> None:
        self.added_priorities.append(priority)

    def retried(self) -> None:
        self.retries += 1

    def started(self, priority: int, waited: float) -> None:
        self.waits.append(waited)

    def ended(self, worked: float) -> None:
        self.runs.append(worked)


def virtual(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs an async test in virtual time; a parameter `seed` is also that of the run."""

    @functools.wraps(test)
    def run(simulate: Simulate, **arguments: Any) -> None:
        simulate(functools.partial(test, **arguments), seed=arguments.get("seed", 0))

    given = inspect.signature(test).parameters.values()
    needed = inspect.signature(run, follow_wrapped=False).parameters["simulate"]
    del run.__wrapped__  # type: ignore[attr-defined]
    run.__signature__ = inspect.Signature([needed, *given])  # type: ignore[attr-defined]
    return run

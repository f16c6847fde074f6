"""Keys that do not come from a cluster: from a stream, a ticker, any asynchronous iterator.

A source is followed while its controller works. One that fails is logged and restarted with back-off; one
that ends is not.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias

import anyio
import structlog
from anyio.abc import TaskGroup
from attrs import define, field, frozen

from informers import Clock
from informers.functions import check_function
from reconcile.controller.triggers import INITIAL_PRIORITY, EnqueueKey
from reconcile.runs.run_request import Cause, Named, Request, as_request
from reconcile.runs.supervision import supervise

SOURCE_PATIENCE = 120.0
"""Seconds after which the log says for which source the workers wait."""
TICK_JITTER = 0.1
"""The share by which ticks vary, so that managers that were started together do not poll in step."""


@frozen
class Synced:
    """The type of `SYNCED`."""


SYNCED = Synced()
"""Yielded by a source once it has delivered all that it knew at its start."""


@frozen
class SourceContext:
    """The argument of a source: `objects` gives the keys of the controller's cached objects."""

    objects: Callable[[], Iterable[Request]]
    clock: Clock


Start: TypeAlias = Callable[[SourceContext], AsyncIterable[Named | Synced]]


@frozen
class Source:
    """An origin of keys. `start` is called at the start, and again after each failure.

    With `initial`, workers wait until it has yielded `SYNCED`; the keys before that have the low priority of
    objects that exist at the start.
    """

    start: Start
    name: str = "source"
    initial: bool = field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_function(self.start, f"Source {self.name!r}: start=", "context", "stream")


def as_source(source: "Source | Start | AsyncIterable[Named | Synced]") -> Source:
    """A source as it is; a function that starts one, such as an asynchronous generator; an iterator.

    An anyio memory stream is an iterator, and goes on after a failure; a generator that has failed cannot, so
    give the function, not its result.
    """
    if isinstance(source, Source):
        return source
    if isinstance(source, AsyncIterable):
        return Source(lambda _: source, type(source).__name__)
    return Source(source, getattr(source, "__name__", "source"))


def ticker(seconds: float) -> Source:
    """Runs all objects of the controller every `seconds` (up to a tenth more), to poll something outside.

    All come at once; `every=` of a controller spreads them. Raises ValueError unless `seconds` is above 0.
    """
    if not seconds > 0:
        raise ValueError(f"ticker: expected a number of seconds above 0, got {seconds}")

    async def tick(context: SourceContext) -> AsyncIterator[Named | Synced]:
        while True:
            await anyio.sleep(seconds * (1 + TICK_JITTER * context.clock.random()))
            for request in context.objects():
                yield request

    return Source(tick, "ticker")


@define(eq=False)
class SourceTasks:
    """Follows the sources of a controller, and enqueues their keys; `objects` gives those of all objects."""

    sources: Sequence[Source]
    objects: Callable[[], Iterable[Request]]
    enqueue: EnqueueKey
    clock: Clock
    log: structlog.stdlib.BoundLogger

    async def start(self, group: TaskGroup) -> None:
        """Start them in `group`, and wait until those with `initial` have yielded SYNCED."""
        known: list[tuple[str, anyio.Event]] = []
        for source in self.sources:
            synced = anyio.Event()
            follow = partial(self._follow, source, synced)
            group.start_soon(supervise, follow, source.name, self.clock, self.log)
            if source.initial:
                known.append((source.name, synced))
        for name, synced in known:
            with anyio.move_on_after(SOURCE_PATIENCE):
                await synced.wait()
            if not synced.is_set():
                self.log.warning("waiting for a source to yield SYNCED after its initial keys", source=name)
                await synced.wait()

    async def _follow(self, source: Source, synced: anyio.Event) -> None:
        async for item in source.start(SourceContext(self.objects, self.clock)):
            if isinstance(item, Synced):
                synced.set()
                continue
            try:
                request = as_request(item)
            except (TypeError, ValueError) as error:  # one bad item: the stream may have more, so it goes on
                self.log.error(
                    "a source yielded a value that does not name an object",
                    source=source.name,
                    error=str(error),
                )
                continue
            initial = source.initial and not synced.is_set()
            cause = Cause("triggered", note=source.name)
            self.enqueue(request, cause, INITIAL_PRIORITY if initial else 0)
        synced.set()

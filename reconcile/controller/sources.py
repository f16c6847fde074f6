"""Keys that do not come from a cluster: from a stream, a ticker, any asynchronous iterator.

A source is followed while its controller works. One that fails is logged and restarted with back-off; one
that ends is not.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import TypeAlias

import anyio
from attrs import field, frozen

from informers import Clock
from informers.functions import check_function
from reconcile.runs.run_request import Named, Request

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

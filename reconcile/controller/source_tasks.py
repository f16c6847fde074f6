"""The sources of a controller at work: each has a task of its own, and is started anew when it fails."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import anyio
import structlog
from anyio.abc import TaskGroup
from attrs import define

from informers import Clock, Informer, Snapshot
from reconcile.controller.sources import Source, SourceContext, Synced
from reconcile.runs.run_request import Cause, Request, as_request
from reconcile.runs.supervision import supervise

SOURCE_PATIENCE = 120.0
"""After so many seconds the log says for which source the workers wait."""


@define(eq=False)
class SourceTasks:
    """Follows the sources of a controller; what they yield goes to `enqueue`."""

    sources: Sequence[Source]
    informer: Informer
    enqueue: Callable[[Request, Cause, bool], None]
    clock: Clock
    log: structlog.stdlib.BoundLogger
    cluster: str = ""
    keeps: Callable[[Snapshot], bool] = lambda snapshot: True

    async def start(self, group: TaskGroup) -> None:
        """Start them in `group`, and wait for what those with `initial` know at their start."""
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
                self.log.warning(
                    "waits for what a source knows at its start: it has to yield SYNCED", source=name
                )
                await synced.wait()

    async def _follow(self, source: Source, synced: anyio.Event) -> None:
        async for item in source.start(SourceContext(self.objects, self.clock)):
            if isinstance(item, Synced):
                synced.set()
                continue
            try:
                request = as_request(item)
            except (TypeError, ValueError) as error:  # the stream may have more, so it is not started anew
                self.log.error("a source yielded what names no object", source=source.name, error=str(error))
                continue
            initial = source.initial and not synced.is_set()
            self.enqueue(request, Cause("triggered", note=source.name), initial)
        synced.set()

    def objects(self) -> Iterator[Request]:
        """The keys of all objects that the controller keeps, as cached now."""
        return (Request(*one.key, self.cluster) for one in self.informer.store if self.keeps(one))

"""The sources of a running controller: each has a task, which is restarted when it fails."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import anyio
import structlog
from anyio.abc import TaskGroup
from attrs import define

from informers import Clock
from reconcile.controller.sources import Source, SourceContext, Synced
from reconcile.controller.triggers import INITIAL_PRIORITY, EnqueueKey
from reconcile.runs.run_request import Cause, Request, as_request
from reconcile.runs.supervision import supervise

SOURCE_PATIENCE = 120.0
"""Seconds after which the log says for which source the workers wait."""


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

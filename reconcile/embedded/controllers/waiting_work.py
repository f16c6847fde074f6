"""The work of controllers that awaits conversion, which nothing else may wait for."""

import math
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup

from reconcile.embedded.controllers.readability import Readability
from reconcile.embedded.controllers.storage_migrations import Migrations
from reconcile.embedded.log import StorageKey

# Seconds after which conversions that failed are tried again.
RETRY: Final = 1.0

Job = tuple[str, StorageKey]


class WaitingWork:
    """Migrates stored objects, and converts those that the other controllers have to read.

    Each resource is attended to by itself, since its webhook may take half a minute to fail.
    """

    def __init__(self, migrations: Migrations, readable: Readability, settle: Callable[[], None]) -> None:
        self._migrations = migrations
        self._readable = readable
        self._settle = settle
        self._busy: set[Job] = set()
        self._woken = anyio.Event()
        self._seen = False

    @property
    def pending(self) -> bool:
        return self._migrations.pending or self._readable.pending

    def wake(self) -> None:
        """Let `run` look for new work."""
        if self.pending and not self._seen:
            self._woken.set()
        self._seen = self.pending

    async def once(self) -> None:
        """Try all of it once."""
        async with anyio.create_task_group() as group:
            self._start(group)

    async def run(self) -> None:
        """Try all of it again and again, until cancelled."""
        async with anyio.create_task_group() as group:
            while True:
                self._woken = anyio.Event()
                self._start(group)
                with anyio.move_on_after(RETRY if self.pending else math.inf):
                    await self._woken.wait()

    def _start(self, group: TaskGroup) -> None:
        for job, attend in self._jobs():
            if job not in self._busy:
                self._busy.add(job)
                group.start_soon(self._attend, job, attend)

    def _jobs(self) -> Iterator[tuple[Job, Callable[[], Awaitable[None]]]]:
        for resource in self._migrations.resources():
            yield ("migrate", resource), partial(self._migrations.sync, resource)
        for resource in self._readable.resources():
            yield ("read", resource), partial(self._read, resource)

    async def _attend(self, job: Job, attend: Callable[[], Awaitable[None]]) -> None:
        try:
            await attend()
        finally:
            self._busy.discard(job)

    async def _read(self, resource: StorageKey) -> None:
        if await self._readable.prove(resource):
            self._settle()

"""The work of controllers that awaits conversion or admission, which nothing else may wait for."""

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskGroup

from reconcile.embedded.controllers.deletion_clearance import DeletionClearance
from reconcile.embedded.controllers.readability import Readability
from reconcile.embedded.controllers.storage_migrations import Migrations
from reconcile.embedded.controllers.version_caches import VersionCaches
from reconcile.embedded.log import StorageKey

# Seconds after which what failed is tried again.
RETRY: Final = 1.0

# Seconds between two looks at the same work, which may be under way.
_PAUSE: Final = 0.005

Name = tuple[str, StorageKey]
Job = tuple[Name, Callable[[], Awaitable[None]]]


class WaitingWork:
    """Migrates stored objects, converts those that the other controllers have to read, and asks about those
    that they delete.

    `run` also fills the caches of versions. Each resource is attended to by itself, since its webhook may
    take half a minute to fail.
    """

    def __init__(
        self,
        migrations: Migrations,
        readable: Readability,
        caches: VersionCaches,
        clearance: DeletionClearance,
        settle: Callable[[], None],
    ) -> None:
        self._migrations = migrations
        self._caches = caches
        self._readable = readable
        self._clearance = clearance
        self._settle = settle
        self._busy: set[Name] = set()
        self._woken = anyio.Event()
        self._seen = False
        self._noted = 0
        self._advanced = False

    @property
    def pending(self) -> bool:
        return self._migrations.pending or self._readable.pending or self._clearance.pending

    @property
    def _open(self) -> bool:
        return self.pending or bool(self._caches.resources())

    def wake(self) -> None:
        """Let `run` look for new work."""
        found = self._open
        if (found and not self._seen) or self._clearance.noted != self._noted:
            self._woken.set()
        self._seen, self._noted = found, self._clearance.noted

    async def once(self) -> None:
        """Try all of it once, and what follows from it."""
        self._advanced = True
        while self._advanced and self.pending:
            self._advanced = False
            async with anyio.create_task_group() as group:
                self._start(group, self._jobs())

    async def run(self) -> None:
        """Try all of it again and again, until cancelled."""
        async with anyio.create_task_group() as group:
            while True:
                self._woken = anyio.Event()
                self._start(group, (*self._jobs(), *self._cold()))
                self._seen = self._open
                with anyio.move_on_after(self._delay()):
                    await self._woken.wait()

    def _delay(self) -> float:
        """Seconds until something is to be tried again."""
        if self._clearance.pending:
            return min(RETRY, max(_PAUSE, self._clearance.seconds()))
        return RETRY if self._seen else math.inf

    def _start(self, group: TaskGroup, jobs: Iterable[Job]) -> None:
        for name, attend in jobs:
            if name not in self._busy:
                self._busy.add(name)
                group.start_soon(self._attend, name, attend)

    def _jobs(self) -> Iterator[Job]:
        for resource in self._migrations.resources():
            yield ("migrate", resource), partial(self._migrations.sync, resource)
        for resource in self._readable.resources():
            yield ("read", resource), partial(self._read, resource)
        for resource in self._clearance.resources():
            yield ("delete", resource), partial(self._ask, resource)

    def _cold(self) -> Iterator[Job]:
        for resource in self._caches.resources():
            yield ("warm", resource), partial(self._caches.warm, resource)

    async def _attend(self, name: Name, attend: Callable[[], Awaitable[None]]) -> None:
        try:
            await attend()
        finally:
            self._busy.discard(name)

    async def _read(self, resource: StorageKey) -> None:
        if await self._readable.prove(resource):
            self._go_on()

    async def _ask(self, resource: StorageKey) -> None:
        if await self._clearance.ask(resource):
            self._go_on()

    def _go_on(self) -> None:
        """Do what has become possible, and look for what follows from it."""
        self._advanced = True
        self._settle()
        self._woken.set()

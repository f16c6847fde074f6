"""Managers in virtual time that keep what the pages show, and the lives of their objects."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from reconcile import Controller, Manager
from reconcile.controller.run_ends import RunEnds
from reconcile.controller.write_details import WriteDetails
from reconcile.ops.debug_actions import DebugActions
from reconcile.status.object_life import ObjectLives
from tests.helpers.managers import World


def lives_of(manager: Manager, world: World) -> ObjectLives:
    return ObjectLives(DebugActions(lambda: manager._runners), manager.status, world.clock)


@asynccontextmanager
async def lived(
    world: World, *controllers: Controller[Any], **options: Any
) -> AsyncIterator[tuple[Manager, ObjectLives]]:
    """A manager that runs and keeps details as one with pages does, before there is any object."""
    async with world.running(*controllers, **options) as manager:
        for runner in manager._runners:
            runner.history.details, runner.history.ends = WriteDetails(), RunEnds()
        yield manager, lives_of(manager, world)

"""Work that goes on beside a test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio


@asynccontextmanager
async def beside(work: Callable[..., Awaitable[Any]], *arguments: Any) -> AsyncIterator[None]:
    """Runs `work(*arguments)` in a task, which is cancelled at the end of the block."""
    async with anyio.create_task_group() as group:
        group.start_soon(work, *arguments)
        yield
        group.cancel_scope.cancel()

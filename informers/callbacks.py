"""Lets timers, and other callbacks of an asyncio loop, start tasks of anyio's task groups."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

_HAS_SNIFFIO = find_spec("sniffio") is not None
"""Without it anyio itself looks for a running loop."""


class _Entered(threading.local):
    count = 0
    before: str | None = None


_entered = _Entered()


@contextmanager
def callbacks_of_asyncio() -> Iterator[None]:
    """Have callbacks of this thread known as those of asyncio, until the last of all that entered leaves.

    Where sniffio is installed, anyio asks it which library runs. It knows asyncio by the present task, and a
    callback has none: unless `anyio.run` began it all, no callback could start a task.
    """
    if not _HAS_SNIFFIO:
        yield
        return
    import sniffio

    if not _entered.count:
        _entered.before, sniffio.thread_local.name = sniffio.thread_local.name, "asyncio"
    _entered.count += 1
    try:
        yield
    finally:
        _entered.count -= 1
        if not _entered.count:
            sniffio.thread_local.name = _entered.before

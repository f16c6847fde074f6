"""What an interpreter can do, what is wrong with some, and what its collector need not visit."""

import gc
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

# 3.14.5 went back to the collector of 3.13: https://github.com/python/cpython/issues/148726
_FIRST, _FIXED = (3, 14, 0), (3, 14, 5)


def collects_in_increments(
    name: str = sys.implementation.name,
    version: Sequence[int] = sys.version_info[:3],
    free_threaded: bool | None = None,
) -> bool:
    """Whether this is CPython 3.14.0 to 3.14.4, whose garbage collector works in increments.

    It may fall behind what a long-lived process leaves in cycles: users saw several times the memory.
    Free-threaded builds have a collector of their own.
    """
    if name != "cpython" or not _FIRST <= tuple(version) < _FIXED:
        return False
    if free_threaded is None:
        # Only here: it reads how Python was built, a module of 600 KB.
        free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    return not free_threaded


@contextmanager
def present_objects_spared() -> Iterator[Callable[[], None]]:
    """Gives a function: from its first call until the end, the collector spares all that exists at that call.

    A full collection visits every module, class and function again and finds nothing in cycles: it holds the
    event loop for about 50 ms. For a process that is the manager's alone: an application may have cycles that
    it wants to lose later. Does nothing where objects are frozen already.
    """
    may_freeze = gc.get_freeze_count() == 0
    frozen = False

    def spare() -> None:
        nonlocal frozen
        if may_freeze and not frozen:
            frozen = True
            gc.freeze()

    try:
        yield spare
    finally:
        if frozen:
            gc.unfreeze()


def has_gil() -> bool:
    """Whether threads take turns: not in a free-threaded build, unless an extension module needs turns."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())

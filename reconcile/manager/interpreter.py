"""What is known to be wrong with an interpreter."""

import sys
import sysconfig
from collections.abc import Sequence

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

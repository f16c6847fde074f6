"""Whether a function that an author gives fits its place, and what it is called in a message."""

from collections.abc import Callable
from functools import partial
from typing import Any


def name_of(function: Callable[..., Any]) -> str:
    """What a message calls a function: `keep_site`, `Sites.keep`."""
    while isinstance(function, partial):
        function = function.func
    name: str = getattr(function, "__qualname__", "") or type(function).__qualname__
    return name

"""Keeps code that only observes a run, such as the storm guard, from failing it."""

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from itertools import count
from typing import Any, TypeVar, cast

from informers import get_logger
from informers.logs import is_worth_a_line

F = TypeVar("F", bound=Callable[..., Any])

_log = get_logger("reconcile.diagnostics")
_failures = count(1)


def observing(instead: Callable[..., Any]) -> Callable[[F], F]:
    """Decorate a function whose failure is logged; `instead`, a plain function, then gives the result."""

    def decorate(function: F) -> F:
        @wraps(function)
        def observe(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                _note(function, error)
                return instead(*args, **kwargs)

        @wraps(function)
        async def observe_later(*args: Any, **kwargs: Any) -> Any:
            try:
                return await function(*args, **kwargs)
            except Exception as error:
                _note(function, error)
                return instead(*args, **kwargs)

        return cast(F, observe_later if iscoroutinefunction(function) else observe)

    return decorate


def _note(function: Callable[..., object], error: Exception) -> None:
    times = next(_failures)
    if is_worth_a_line(times):
        name = getattr(function, "__qualname__", repr(function))
        _log.warning(
            "a diagnostic failed; the run goes on without it", function=name, times=times, exc_info=error
        )

"""Checks functions that authors pass in, and names them in messages.

What can be seen when a function is passed is refused then. A signature can be hidden (a builtin, a wrapper
with `*args`); what shows only in a call is left to the caller.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

Kind = Literal["either", "async", "plain", "many", "stream"]
"""What a place takes: `either` an `async def` or a plain function; `plain` ones, `many` also generators;
`stream`: what returns an asynchronous iterator."""


def name_of(function: Any) -> str:
    """The name of a function in messages: `keep_site`, `Sites.keep`."""
    while isinstance(function, partial):
        function = function.func
    name: str = getattr(function, "__qualname__", "") or type(function).__qualname__
    return name


def is_async(function: Any) -> bool:
    """Whether calling it gives a coroutine: for an `async def`, and a partial or a method of one."""
    return _is(inspect.iscoroutinefunction, function)


def check_function(function: Any, place: str, takes: str, kind: Kind) -> None:
    """Raise TypeError, with both names and the reason, if a function does not fit the place that takes it.

    `place` is how the author writes it, `Watch(Secret): by=`; `takes` names its arguments: `old, new`.
    """
    if not callable(function):
        raise TypeError(f"{place} expected a function of ({takes}), got {type(function).__name__}")
    if problem := _kind_problem(function, kind):
        raise TypeError(f"{place} {name_of(function)} {problem}")
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return  # a builtin, for one, may not say
    try:
        signature.bind(*takes.replace(" ", "").split(",") if takes else ())
    except TypeError as error:
        has = f"{name_of(function)}({', '.join(signature.parameters)})"
        raise TypeError(f"{place} is called with ({takes}), and {has} does not take that: {error}") from None


def _kind_problem(function: Any, kind: Kind) -> str:
    streams = _is(inspect.isasyncgenfunction, function)
    if kind == "stream":
        return (
            "is an `async def` that yields nothing: expected an asynchronous generator, or a function "
            "that returns an asynchronous iterator"
            if is_async(function)
            else ""
        )
    if streams:
        return "is an asynchronous generator: it has a `yield`, and nothing takes what it yields"
    if kind == "plain" and is_async(function):
        return "is an `async def`: expected a plain function, which is called at each change and cannot wait"
    if kind == "many":
        return _kind_problem(function, "plain") if is_async(function) else ""
    if _is(inspect.isgeneratorfunction, function):
        return "is a generator: it has a `yield`, and nothing takes what it yields"
    if kind == "async" and not is_async(function):
        return "is a plain function: expected an `async def`"
    return ""


def _is(test: Callable[[Any], bool], function: Any) -> bool:
    return test(function) or test(getattr(function, "__call__", None))  # noqa: B004 - the method itself

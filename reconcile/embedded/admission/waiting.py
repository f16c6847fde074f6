"""Writes without waiting, for callers that have no event loop to wait on."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from reconcile.embedded.refusals import must_wait

T = TypeVar("T")


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that never has to wait.

    Raises ApiFailure: 500 for one that would have to: it is ended where it waits, and has written nothing.
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    # Closing raises GeneratorExit at the await, so that the admission can release what it holds.
    coroutine.close()
    raise must_wait()

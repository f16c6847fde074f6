"""Writes without waiting, for callers that have no event loop to wait on."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.refusals import internal

T = TypeVar("T")


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that never has to wait.

    Raises:
        ApiFailure: 500 for one that would have to: it is ended where it waits, and has written nothing.
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    # Closing raises GeneratorExit at the await, so that the admission can release what it holds.
    coroutine.close()
    raise _must_wait()


def _must_wait() -> ApiFailure:
    return internal("admission has to wait for an answer: await ApiServer.respond() in place of handle()")

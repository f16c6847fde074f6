"""What the background task of an object gets, and the pace at which it may ask for runs."""

import asyncio
from collections.abc import Awaitable, Callable
from threading import get_ident
from typing import Generic, TypeVar

import structlog
from attrs import define, field, frozen

from informers import Clock
from reconcile.models import Object
from reconcile.runs.run_request import Cause, Request
from workqueue import TokenBucket

T = TypeVar("T", bound=Object)

TRIGGERS_AT_ONCE = 10
TRIGGERS_PER_SECOND = 1.0
"""What the task of one object may ask for: a stream may tell of more changes than anyone can act on."""


@frozen
class Background(Generic[T]):
    """The argument of an object's background task."""

    request: Request
    uid: str
    log: structlog.stdlib.BoundLogger
    clock: Clock
    _current: Callable[[], T | None]
    _enqueue: Callable[[Cause], None]

    @property
    def object(self) -> T | None:
        """The object as cached now; None once it is gone. Raises DecodeError."""
        return self._current()

    def trigger(self, cause: str = "") -> None:
        """Have the object reconciled; `cause` says why, in a few words. From any thread.

        After ten at once, once a second: what asks more often joins the next one, with its cause.
        """
        self._enqueue(Cause("triggered", note=cause))


@define(eq=False)
class PacedTrigger:
    """Asks for the runs of one object, within its pace, from the event loop in which it was made."""

    enqueue: Callable[[Cause], None]
    _bucket: TokenBucket = field(
        factory=lambda: TokenBucket(TRIGGERS_PER_SECOND, TRIGGERS_AT_ONCE), init=False
    )
    _loop: asyncio.AbstractEventLoop = field(factory=asyncio.get_running_loop, init=False)
    _thread: int = field(factory=get_ident, init=False)
    _waiting: asyncio.TimerHandle | None = field(default=None, init=False)
    _cause: Cause | None = field(default=None, init=False)
    _ended: bool = field(default=False, init=False)

    def ask(self, cause: Cause) -> None:
        if get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.ask, cause)
            return
        if self._ended:
            return
        if self._waiting is not None:
            self._cause = cause
            return
        delay = self._bucket.next_delay(None, self._loop.time())
        if delay <= 0:
            self.enqueue(cause)
            return
        self._cause = cause
        self._waiting = self._loop.call_later(delay, self._send)

    def end(self) -> None:
        """Ask for nothing that still waits: the object has gone, or another process works on it."""
        self._ended = True
        if self._waiting is not None:
            self._waiting.cancel()

    def _send(self) -> None:
        self._waiting = None
        if self._cause is not None:
            self.enqueue(self._cause)


BackgroundFunction = Callable[[Background[T]], Awaitable[None]]

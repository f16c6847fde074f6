"""Writes that only the present leader, or the present holder of a bucket, may send.

The last check is at the socket: a write may have waited for a connection, TLS or credentials, or in a process
that stood still. A write that was sent is abandoned when its right ends before the answer.
"""

from typing import Protocol

import anyio
from attrs import define

from informers import ApiError, OutcomeUnknown, Response, Transport
from informers.transport import HttpRequest, PassingTransport, last_check
from reconcile.runs.tenure import Tenure, tenure_here


class NotLeading(ApiError):
    """A write was not sent because leadership is not certain at this moment."""


class BucketNotHeld(NotLeading):
    """A write of a run was not sent because another replica has, or will have, the bucket of its object."""


class WriteGuard(Protocol):
    """The right to write, which may end while a write is under way."""

    @property
    def refusal(self) -> str:
        """Why nothing may be written now; empty if it may."""
        ...

    @property
    def loss(self) -> str:
        """In a few words, that the right has ended."""
        ...

    def write_begins(self) -> anyio.CancelScope:
        """A scope for one write, cancelled when the right ends."""
        ...

    def write_ends(self, scope: anyio.CancelScope) -> None:
        """To be called with the scope of each write."""
        ...


@define
class _Permit:
    """Called when a write is about to be sent: notes that it was, or raises."""

    guard: WriteGuard
    error: type[NotLeading]
    request: str
    sent: bool = False

    def __call__(self) -> None:
        self.check()
        self.sent = True

    def check(self) -> None:
        if why := self.guard.refusal:
            raise self.error(f"{self.request} was not sent: {why}")


async def send_guarded(
    inner: Transport, request: HttpRequest, guard: WriteGuard, error: type[NotLeading] = NotLeading
) -> Response:
    """Send a write under `guard`. Raises `error` if it was not sent, OutcomeUnknown if it was abandoned."""
    permit = _Permit(guard, error, str(request))
    permit.check()  # at once too, before it occupies a connection
    scope = guard.write_begins()
    try:
        with scope, last_check(permit):
            return await inner.request(request)
    finally:
        guard.write_ends(scope)
    if permit.sent:
        raise OutcomeUnknown(f"{guard.loss} before the answer came", permit.request)
    raise error(f"{permit.request} was not sent: {guard.loss} before")


@define(eq=False)
class _TenureGuard:
    tenure: Tenure

    @property
    def refusal(self) -> str:
        return f"this replica does not hold bucket {self.tenure.label} any more" if self.tenure.ended else ""

    @property
    def loss(self) -> str:
        return f"bucket {self.tenure.label} was given up"

    def write_begins(self) -> anyio.CancelScope:
        return self.tenure.write_begins()

    def write_ends(self, scope: anyio.CancelScope) -> None:
        self.tenure.write_ends(scope)


class HeldTransport(PassingTransport):
    """Sends a write of a run only while the bucket of the run's object is held, in the epoch of the run.

    That includes writes of tasks and threads which the run started. Reads, and writes of no run, pass.
    """

    async def request(self, request: HttpRequest) -> Response:
        """Raises BucketNotHeld for a write not sent, OutcomeUnknown for one sent as the bucket went."""
        tenure = None if request.reads else tenure_here()
        if tenure is None:
            return await self._inner.request(request)
        return await send_guarded(self._inner, request, _TenureGuard(tenure), BucketNotHeld)

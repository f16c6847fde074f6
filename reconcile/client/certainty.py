"""For how long a process is certain that it holds its Lease, and the guard of writes that need that."""

import anyio
from attrs import define, field, frozen

from informers import Clock, Response, Transport
from informers.transport import HttpRequest, PassingTransport
from reconcile.client.guarded_writes import send_guarded


class LeadershipLost(Exception):
    """This manager no longer leads, and stops at once."""


@frozen
class LeaseTerms:
    """The times of an election in seconds. Raises ValueError unless duration > renew_deadline > 1.2 retry."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __attrs_post_init__(self) -> None:
        if not self.duration > self.renew_deadline > 1.2 * self.retry > 0:
            raise ValueError(
                f"a Lease needs duration > renew_deadline > 1.2 x retry > 0 (in seconds), got "
                f"{self.duration:g}, {self.renew_deadline:g}, {self.retry:g}"
            )


@define(eq=False)
class Certainty:
    """Until when a Lease is certainly held, by the local monotonic clock alone; at first it is not."""

    clock: Clock
    _until: float = field(default=float("-inf"), init=False)
    _writes: set[anyio.CancelScope] = field(factory=set, init=False)

    @property
    def holds(self) -> bool:
        return self.time() < self._until

    @property
    def deadline(self) -> float:
        """When it ends, by the loop's clock."""
        return self._until - self.clock.suspended()

    @property
    def refusal(self) -> str:
        """Why nothing may be written now; empty while certainty holds."""
        return "" if self.holds else "this manager does not lead"

    @property
    def loss(self) -> str:
        """That certainty has ended, for messages."""
        return "leadership ended"

    def time(self) -> float:
        """Seconds that pass for other machines too: the loop's clock stops while this one is suspended."""
        return anyio.current_time() + self.clock.suspended()

    def extend(self, until: float) -> None:
        """Be certain until that time, and no longer."""
        self._until = until
        for scope in self._writes:
            scope.deadline = self.deadline

    def end(self) -> None:
        """Be certain no more: writes under way are abandoned."""
        self.extend(float("-inf"))

    def write_begins(self) -> anyio.CancelScope:
        """A scope for one write, cancelled when certainty ends."""
        scope = anyio.CancelScope(deadline=self.deadline)
        self._writes.add(scope)
        return scope

    def write_ends(self, scope: anyio.CancelScope) -> None:
        self._writes.discard(scope)


class LedTransport(PassingTransport):
    """Sends writes only while a Lease is certainly held; reads and watches always, for a warm standby.

    A write that was sent is abandoned when certainty ends before its answer.
    """

    def __init__(self, inner: Transport, certainty: Certainty) -> None:
        super().__init__(inner)
        self._certainty = certainty

    async def request(self, request: HttpRequest) -> Response:
        """Raises NotLeading for a write not sent, OutcomeUnknown for one sent as leadership ended."""
        if request.reads:
            return await self._inner.request(request)
        return await send_guarded(self._inner, request, self._certainty)

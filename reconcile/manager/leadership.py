"""Leader election by a Lease: at most one manager writes at a time.

Only the local monotonic clock counts, plus, for the leader, the time for which its machine was suspended;
times of other processes are never compared. A leader is certain until `renew_deadline` after it *sent* its
last successful renewal, and standbys wait for `duration` after they *saw* it: the difference is the safety
margin. (client-go's leaderelection, L1-L9, without its known faults: a request that hangs cannot prolong
leadership, and another holder ends it at once.) A Lease is a hint, not a fence: versions and uids protect
writes.
"""

import platform

import anyio
from attrs import define, evolve, frozen

from informers import (
    AlreadyExists,
    ApiError,
    Clock,
    NotFound,
    OutcomeUnknown,
    Response,
    StaleVersion,
    Transport,
    get_logger,
)
from informers.transport import HttpRequest, PassingTransport, last_check
from reconcile.client.client import Client
from reconcile.kinds import Lease, LeaseSpec
from reconcile.models import ObjectMeta, kind_of

_log = get_logger("reconcile.leadership")


class LeadershipLost(Exception):
    """This manager no longer leads, and stops at once."""


class NotLeading(ApiError):
    """A write was not sent because leadership is not certain at this moment."""


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


@frozen
class Sighting:
    """A state of the Lease, unchanged for this process since that time (monotonic seconds)."""

    lease: Lease
    since: float


def sighted(before: Sighting | None, lease: Lease, now: float) -> Sighting:
    """The sighting after reading `lease`: an unchanged record keeps its age."""
    if before is not None and before.lease.spec == lease.spec and before.lease.uid == lease.uid:
        return evolve(before, lease=lease)
    return Sighting(lease, now)


def is_free(seen: Sighting, identity: str, now: float) -> bool:
    """Whether `identity` may take the Lease: it has no holder, or is its own, or was not renewed in time."""
    holder = seen.lease.spec.holder_identity
    if not holder or holder == identity:
        return True
    return now >= seen.since + (seen.lease.spec.lease_duration_seconds or 0)


def claim(before: LeaseSpec, identity: str, terms: LeaseTerms, now: str) -> LeaseSpec:
    """The record of `identity` as the holder: a takeover counts as a transition, a renewal does not."""
    renewing = before.holder_identity == identity
    transitions = before.lease_transitions or 0
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=int(terms.duration),
        acquire_time=before.acquire_time if renewing else now,
        renew_time=now,
        lease_transitions=transitions if renewing or before.holder_identity is None else transitions + 1,
    )


@frozen
class LeaderElection:
    """The Lease, and this candidate's unique `identity`, by default its host's name and a random part."""

    name: str
    namespace: str = "default"
    identity: str = ""

    def identified(self, clock: Clock) -> "LeaderElection":
        """The same with an identity."""
        return self if self.identity else evolve(self, identity=f"{platform.node()}_{clock.uuid()}")


_DEFAULT_TERMS = LeaseTerms()


class LeaderElector:
    """Holds one Lease. `client` must bypass the guard of `LedTransport`, or no renewal could ever be sent."""

    def __init__(self, client: Client, election: LeaderElection, terms: LeaseTerms = _DEFAULT_TERMS) -> None:
        self.election = election.identified(client.clock)
        self.terms = terms
        self._client = client
        self._seen: Sighting | None = None
        self._certain_until = float("-inf")
        self._writes: set[anyio.CancelScope] = set()

    @property
    def is_leader(self) -> bool:
        return self._time() < self._certain_until

    def write_begins(self) -> anyio.CancelScope:
        """A scope for one write, cancelled when leadership ends or is not renewed in time."""
        scope = anyio.CancelScope(deadline=self._deadline())
        self._writes.add(scope)
        return scope

    def write_ends(self, scope: anyio.CancelScope) -> None:
        self._writes.discard(scope)

    @property
    def leader(self) -> str:
        return "" if self._seen is None else self._seen.lease.spec.holder_identity or ""

    async def acquire(self) -> None:
        while not await self._attempt():
            await self._wait_for_change()
        _log.info("leading", lease=self._place, identity=self.election.identity)

    async def hold(self) -> None:
        """Renew until a renewal fails for too long, or another holder is seen. Raises LeadershipLost."""
        terms = self.terms
        while True:
            await anyio.sleep(terms.retry)
            with anyio.move_on_at(self._deadline()):
                # A deadline that passed during the sleep, as when the loop was blocked, cancels only at the
                # next wait, and before it a renewal might be sent, too late for the writes that were cut.
                while self.is_leader and not await self._attempt():
                    if self._seen is not None and not self._is_mine(self._seen):
                        self._lose(f"{self._place} is held by {self._seen.lease.spec.holder_identity!r}")
                    # Sooner than the usual pace: a failed renewal must leave time for several more before
                    # the deadline.
                    await anyio.sleep(terms.retry / 4)
            if not self.is_leader:
                self._lose(f"{self._place} could not be renewed within {terms.renew_deadline:g} s")

    async def release(self) -> None:
        """Release the Lease, so that a standby takes it at once. Call it when nothing writes any more."""
        if self._seen is None or not self._is_mine(self._seen):
            return
        # First stop being the leader, then let others know: the other way round two could lead.
        self._be_certain_until(float("-inf"))
        spec = evolve(self._seen.lease.spec, holder_identity="", lease_duration_seconds=1)
        with anyio.move_on_after(self.terms.renew_deadline):
            try:
                await self._client.raw.update(self._seen.lease.replace(spec=spec), whole=True)
            except ApiError as error:
                _log.warning("the lease could not be released", lease=self._place, error=str(error))

    async def _attempt(self) -> bool:
        # Certainty counts from before the request: the answer may take long, and standbys count from when
        # the server stored it, which is later.
        asked_at = self._time()
        try:
            # Half the deadline, so that one request that hangs leaves time for a second attempt.
            with anyio.fail_after(max(1.0, self.terms.renew_deadline / 2)):
                taken = await self._take()
        except (ApiError, TimeoutError) as error:
            _log.info("the lease was not taken", lease=self._place, error=str(error) or "no answer in time")
            return False
        if taken:
            self._be_certain_until(asked_at + self.terms.renew_deadline)
        return taken

    def _be_certain_until(self, time: float) -> None:
        self._certain_until = time
        for scope in self._writes:
            scope.deadline = self._deadline()

    def _time(self) -> float:
        """Seconds that pass for other machines too: the loop's clock stops while this one is suspended."""
        return anyio.current_time() + self._client.clock.suspended()

    def _deadline(self) -> float:
        """When certainty ends, by the loop's clock."""
        return self._certain_until - self._client.clock.suspended()

    async def _take(self) -> bool:
        if self._seen is not None and self._is_mine(self._seen):
            try:
                return await self._write(self._seen.lease)
            except (StaleVersion, NotFound):
                pass  # another process wrote or deleted it: read it again
        place = (self.election.name, self.election.namespace)
        found = await self._client.find(Lease, *place, live=True)
        if found is None:
            return await self._create()
        self._seen = sighted(self._seen, found, anyio.current_time())
        if not is_free(self._seen, self.election.identity, anyio.current_time()):
            return False
        try:
            return await self._write(found)
        except StaleVersion:
            return False

    async def _write(self, lease: Lease) -> bool:
        spec = claim(lease.spec, self.election.identity, self.terms, self._now())
        written = await self._client.raw.update(lease.replace(spec=spec), whole=True)
        self._seen = Sighting(written, anyio.current_time())
        return True

    async def _create(self) -> bool:
        spec = claim(LeaseSpec(), self.election.identity, self.terms, self._now())
        metadata = ObjectMeta(self.election.name, self.election.namespace)
        try:
            written = await self._client.create(Lease(metadata=metadata, spec=spec))
        except AlreadyExists:
            return False
        self._seen = Sighting(written, anyio.current_time())
        return True

    async def _wait_for_change(self) -> None:
        with anyio.move_on_after(self._patience()):
            if self._seen is not None:
                await self._until_written(self._seen.lease)
            else:
                await anyio.sleep_forever()

    def _patience(self) -> float:
        """Seconds until the next read: soon after the Lease runs out, if that is sooner than usual."""
        retry, chance = self.terms.retry, self._client.clock.random()
        # Standbys that all read at once would all try to take a released Lease at once (client-go's jitter).
        usual = retry * (1 + 1.2 * chance)
        if self._seen is None:
            return usual
        held = self._seen.since + (self._seen.lease.spec.lease_duration_seconds or 0) - anyio.current_time()
        return min(usual, max(held, 0.0) + retry * (0.1 + 0.9 * chance))

    async def _until_written(self, lease: Lease) -> None:
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={lease.name}",
            "resourceVersion": lease.metadata.resource_version,
        }
        path = kind_of(Lease).resource.path(lease.namespace)
        try:
            async with self._client.transport.stream(HttpRequest("GET", path, query)) as stream:
                async for _ in stream.chunks:
                    return
        except ApiError as error:
            _log.debug("cannot watch the lease", lease=self._place, error=str(error))
        # A watch only makes a takeover faster. Without it the read after `_patience` is enough.
        await anyio.sleep_forever()

    def _lose(self, reason: str) -> None:
        self._be_certain_until(float("-inf"))
        raise LeadershipLost(reason)

    def _is_mine(self, seen: Sighting) -> bool:
        return seen.lease.spec.holder_identity == self.election.identity

    def _now(self) -> str:
        return self._client.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    @property
    def _place(self) -> str:
        return f"{self.election.namespace}/{self.election.name}"


@define
class _Permit:
    """Called when a write is about to be sent: notes that it was, or raises NotLeading."""

    elector: LeaderElector
    request: str
    sent: bool = False

    def __call__(self) -> None:
        self.check()
        self.sent = True

    def check(self) -> None:
        if not self.elector.is_leader:
            raise NotLeading(f"{self.request} was not sent: this manager does not lead")


class LedTransport(PassingTransport):
    """Sends writes only while leadership is certain; reads and watches always, for a warm standby.

    The last check is at the socket: a write may have waited for a connection, TLS or credentials, or in a
    process that stood still. A write that was sent is abandoned when certainty ends before its answer.
    """

    def __init__(self, inner: Transport, elector: LeaderElector) -> None:
        super().__init__(inner)
        self._elector = elector

    async def request(self, request: HttpRequest) -> Response:
        """Raises NotLeading for a write not sent, OutcomeUnknown for one sent as leadership ended."""
        if request.reads:
            return await self._inner.request(request)
        permit = _Permit(self._elector, str(request))
        permit.check()  # at once too, before it occupies a connection
        scope = self._elector.write_begins()
        try:
            with scope, last_check(permit):
                return await self._inner.request(request)
        finally:
            self._elector.write_ends(scope)
        if permit.sent:
            raise OutcomeUnknown("leadership ended before the answer came", permit.request)
        raise NotLeading(f"{permit.request} was not sent: leadership ended before")


__all__ = ["LeaderElection", "LeaderElector", "LeadershipLost", "LeaseTerms", "LedTransport", "NotLeading"]

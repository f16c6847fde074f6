"""Leader election by a Lease: at most one manager writes at a time.

Only the local monotonic clock counts, plus, for the leader, the time for which its machine was suspended;
times of other processes are never compared. A leader is certain until `renew_deadline` after it *sent* its
last successful renewal, and standbys wait for `duration` after they *saw* it: the difference is the safety
margin. (client-go's leaderelection, L1-L9, without its known faults: a request that hangs cannot prolong
leadership, and another holder ends it at once.) A Lease is a hint, not a fence: versions and uids protect
writes.
"""

import math

import anyio
from attrs import evolve, frozen

from informers import (
    AlreadyExists,
    ApiError,
    NotFound,
    PreconditionFailed,
    StaleVersion,
    get_logger,
)
from informers.transport import HttpRequest
from reconcile.client.certainty import Certainty, LeadershipLost, LeaseTerms
from reconcile.client.client import Client
from reconcile.kinds import Lease, LeaseSpec
from reconcile.manager.leader_election import LeaderElection
from reconcile.models import ObjectMeta, kind_of

_log = get_logger("reconcile.leadership")


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
        lease_duration_seconds=math.ceil(terms.duration),
        acquire_time=before.acquire_time if renewing else now,
        renew_time=now,
        lease_transitions=transitions if renewing or before.holder_identity is None else transitions + 1,
    )


_DEFAULT_TERMS = LeaseTerms()


class LeaderElector:
    """Holds one Lease. `client` must bypass the guard of `LedTransport`, or no renewal could ever be sent."""

    def __init__(self, client: Client, election: LeaderElection, terms: LeaseTerms = _DEFAULT_TERMS) -> None:
        self.election = election.identified(client.clock)
        self.terms = terms
        self._client = client
        self._seen: Sighting | None = None
        self.certainty = Certainty(client.clock)

    @property
    def is_leader(self) -> bool:
        return self.certainty.holds

    @property
    def leader(self) -> str:
        return "" if self._seen is None else self._seen.lease.spec.holder_identity or ""

    @property
    def epoch(self) -> int:
        """Grows with each change of the leader, from 1 on, while the Lease is not deleted; 0 for others."""
        if self._seen is None or not self._is_mine(self._seen):
            return 0
        return (self._seen.lease.spec.lease_transitions or 0) + 1

    async def acquire(self) -> None:
        while not await self._attempt():
            await self._wait_for_change()
        _log.info("leading", lease=self._place, identity=self.election.identity)

    async def hold(self) -> None:
        """Renew until a renewal fails for too long, or another holder is seen. Raises LeadershipLost."""
        terms = self.terms
        while True:
            await anyio.sleep(terms.retry)
            with anyio.move_on_at(self.certainty.deadline):
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
        self.certainty.end()
        spec = evolve(self._seen.lease.spec, holder_identity="", lease_duration_seconds=1)
        with anyio.move_on_after(self.terms.renew_deadline):
            try:
                await self._client.raw.update(self._seen.lease.replace(spec=spec), whole=True)
            except ApiError as error:
                _log.warning("the lease could not be released", lease=self._place, error=str(error))

    async def _attempt(self) -> bool:
        # Certainty counts from before the request: the answer may take long, and standbys count from when
        # the server stored it, which is later.
        asked_at = self.certainty.time()
        try:
            # Half the deadline, so that one request that hangs leaves time for a second attempt.
            with anyio.fail_after(max(1.0, self.terms.renew_deadline / 2)):
                taken = await self._take()
        except (ApiError, TimeoutError) as error:
            _log.info("the lease was not taken", lease=self._place, error=str(error) or "no answer in time")
            return False
        if taken:
            self.certainty.extend(asked_at + self.terms.renew_deadline)
        return taken

    async def _take(self) -> bool:
        if self._seen is not None and self._is_mine(self._seen):
            try:
                return await self._write(self._seen.lease)
            except (StaleVersion, NotFound, PreconditionFailed):
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
        self.certainty.end()
        raise LeadershipLost(reason)

    def _is_mine(self, seen: Sighting) -> bool:
        return seen.lease.spec.holder_identity == self.election.identity

    def _now(self) -> str:
        return self._client.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    @property
    def _place(self) -> str:
        return f"{self.election.namespace}/{self.election.name}"


__all__ = ["LeaderElection", "LeaderElector", "LeadershipLost", "LeaseTerms"]

"""The Lease of a member: it says that the member lives, and what became of its buckets.

Only the member writes it, until another one deletes it as that of a dead member, at the very version that was
not renewed in time. So a renewal that succeeds proves that the member was not taken for dead before, and one
that finds the Lease gone ends the member.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Never

import anyio
from attrs import evolve

from informers import AlreadyExists, ApiError, NotFound, PreconditionFailed, StaleVersion, get_logger
from informers.broadcast import Broadcast
from informers.logs import is_worth_a_line
from reconcile.client.certainty import Certainty, LeadershipLost, LeaseTerms
from reconcile.client.client import Client
from reconcile.kinds import Lease, LeaseSpec
from reconcile.models import ObjectMeta
from reconcile.sharding.assignment import MemberRecord
from reconcile.sharding.options import Sharding

RING_LABEL: Final = "reconcile-runtime/ring"
"""On all Leases of a ring: its name."""
RECORD: Final = "reconcile-runtime/member"
"""The annotation with what a member says of itself."""

_log = get_logger("reconcile.sharding")


def member_lease_name(ring: str, identity: str) -> str:
    """The name of the Lease of a member."""
    return f"{ring}-{identity}"


class MemberLease:
    """Keeps the Lease of one member, with what `record` says. `client` must bypass every guard of writes."""

    def __init__(
        self,
        client: Client,
        sharding: Sharding,
        terms: LeaseTerms,
        certainty: Certainty,
        record: Callable[[], MemberRecord],
    ) -> None:
        self.certainty = certainty
        self._client = client
        self._sharding = sharding
        self._terms = terms
        self._record = record
        self._lease: Lease | None = None
        self._said = ""
        self._acquired = ""
        self._failures = 0
        self._asked = False
        self._changed = Broadcast()
        self._lock = anyio.Lock()

    @property
    def name(self) -> str:
        return member_lease_name(self._sharding.name, self._sharding.identity)

    @property
    def says_all(self) -> bool:
        """Whether the server has what the record says now."""
        return self._lease is not None and self._said == self._record().to_text()

    async def join(self) -> None:
        """Create the Lease, however long that takes. Raises LeadershipLost if its name is taken."""
        await self._until_written(self._terms.retry)
        _log.info("joined the ring", ring=self._sharding.place, member=self._sharding.identity)

    def say(self) -> None:
        """Write soon what the record says now; without that it is written with the next renewal."""
        self._asked = True
        self._changed.notify()

    async def hold(self) -> None:
        """Renew until a renewal fails for too long, or the Lease is gone. Raises LeadershipLost."""
        terms = self._terms
        while True:
            with anyio.move_on_after(terms.retry):
                await self._changed.wait_until(lambda: self._asked and not self.says_all)
            # A deadline that passed meanwhile, as when the loop was blocked, cancels only at the next wait,
            # and before it a renewal might be sent, too late for the writes that were cut.
            with anyio.move_on_at(self.certainty.deadline):
                if self.certainty.holds:
                    await self._until_written(terms.retry / 4)
            if not self.certainty.holds:
                self._lose(f"could not be renewed within {terms.renew_deadline:g} s")

    async def say_now(self) -> None:
        """Write what the record says. Raises LeadershipLost, as `hold` does."""
        with anyio.move_on_at(self.certainty.deadline):
            while not self.says_all:  # it may change while it is written
                await self._until_written(self._terms.retry / 4)
        if not self.says_all:
            self._lose(f"could not be renewed within {self._terms.renew_deadline:g} s")

    async def leave(self) -> None:
        """Delete the Lease, for others to take over at once; only when nothing writes any more."""
        self.certainty.end()
        if self._lease is None:
            return
        with anyio.move_on_after(self._terms.renew_deadline):
            try:
                await self._say_goodbye(self._lease)
                await self._client.delete(self._lease)
            except ApiError as error:
                _log.warning(
                    "the Lease of this member could not be deleted", lease=self.name, error=str(error)
                )

    async def _say_goodbye(self, lease: Lease) -> None:
        """Without it a deletion might be by others, and others would wait until the Lease has run out."""
        text = evolve(self._record(), draining=True, left=True).to_text()
        with suppress(ApiError):
            self._lease = await self._client.raw.update(self._renewed(lease, text), whole=True)

    async def _until_written(self, pause: float) -> None:
        while True:
            if await self._attempt():
                return
            await anyio.sleep(pause)

    async def _attempt(self) -> bool:
        async with self._lock:
            # Certainty counts from before the request: the answer may take long, and others count from when
            # they saw what the server stored, which is later.
            asked_at = self.certainty.time()
            try:
                with anyio.move_on_after(max(1.0, self._terms.renew_deadline / 2)) as scope:
                    await self._write()
            except (ApiError, TimeoutError) as error:
                self._tell(str(error) or "no answer in time")
                return False
            if scope.cancelled_caught:
                self._tell("no answer in time")
                return False
            self._failures = 0
            self.certainty.extend(asked_at + self._terms.renew_deadline)
            return True

    def _tell(self, why: str) -> None:
        self._failures += 1
        if self._lease is not None:
            _log.info("the Lease of this member was not renewed", lease=self.name, error=why)
        elif is_worth_a_line(self._failures):
            _log.warning("this member cannot join the ring yet", ring=self._sharding.place, error=why)

    async def _write(self) -> None:
        text = self._record().to_text()
        self._asked = False  # what is asked for from now on may come too late for this write
        if self._lease is None:
            self._lease = await self._created(text)
        else:
            try:
                self._lease = await self._client.raw.update(self._renewed(self._lease, text), whole=True)
            except (StaleVersion, NotFound, PreconditionFailed):
                # A lost answer, or someone's annotation: then it is still this one, and written next time.
                self._lease = await self._found(self._lease.uid)
                raise
        self._said = text

    async def _created(self, text: str) -> Lease:
        self._acquired = self._acquired or self._now()
        spec = LeaseSpec(acquire_time=self._acquired)
        metadata = ObjectMeta(self.name, self._sharding.namespace)
        try:
            return await self._client.create(self._renewed(Lease(metadata=metadata, spec=spec), text))
        except AlreadyExists:
            # By a first attempt whose answer was lost; or else of another process with this identity.
            found = await self._found("")
            if found.spec.acquire_time != spec.acquire_time:
                self._lose(
                    f"is that of another process with the identity {self._sharding.identity!r}: "
                    "leave identity= out, or give each process one that none had before"
                )
            # Others count from that first attempt: this member is certain only once it has renewed.
            return await self._client.raw.update(self._renewed(found, text), whole=True)

    async def _found(self, uid: str) -> Lease:
        found = await self._client.find(Lease, self.name, self._sharding.namespace, live=True)
        if found is None or (uid and found.uid != uid):
            self._lose("was deleted: this member was taken for dead")
        return found

    def _renewed(self, lease: Lease, text: str) -> Lease:
        spec = evolve(
            lease.spec,
            holder_identity=self._sharding.identity,
            lease_duration_seconds=math.ceil(self._terms.duration),
            renew_time=self._now(),
        )
        # Holder and label each time: without them, changed by hand, others would not see that it lives.
        labels = {**lease.metadata.labels, RING_LABEL: self._sharding.name}
        annotations = {**lease.metadata.annotations, RECORD: text}
        metadata = evolve(lease.metadata, labels=labels, annotations=annotations)
        return lease.replace(spec=spec, metadata=metadata)

    def _lose(self, reason: str) -> Never:
        self.certainty.end()
        raise LeadershipLost(f"the Lease {self._sharding.namespace}/{self.name} {reason}")

    def _now(self) -> str:
        return f"{self._client.clock.now().replace(tzinfo=None).isoformat(timespec='microseconds')}Z"

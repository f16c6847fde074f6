"""A member of a ring at work: executes what `member_steps` decides."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import anyio
from anyio.abc import TaskGroup
from attrs import define, evolve, field

from informers import get_logger
from informers.broadcast import Broadcast
from reconcile.sharding.assignment import Holding, MemberRecord
from reconcile.sharding.hand_overs import HandOverMetrics, HandOvers
from reconcile.sharding.member_lease import MemberLease
from reconcile.sharding.member_steps import (
    CatchingUp,
    CatchUp,
    CaughtUp,
    Close,
    Drop,
    Ended,
    Followed,
    Hold,
    Input,
    Leaving,
    MemberState,
    Output,
    Warm,
    record,
    step,
)
from reconcile.sharding.options import Sharding
from reconcile.sharding.ring import Ring

LATER_SECONDS = 1.0
"""How long the informers go on as they are, where nothing that the member is to work on waits for them."""

HANDED_OVER_SECONDS = 2.0
"""How long a member that leaves waits until its released buckets have new owners, before its Lease goes."""

_log = get_logger("reconcile.sharding")


class BucketWork(Protocol):
    """The work on buckets, as a member directs it."""

    async def follow(self, buckets: frozenset[int]) -> None:
        """Have the informers follow exactly these buckets; returns when their objects are listed."""
        ...

    async def catch_up(self, buckets: Collection[int], reached: Mapping[str, int] | None) -> None:
        """Wait until the caches have reached these versions; None: what the server has now."""
        ...

    def hold(self, epochs: Mapping[int, int]) -> None:
        """Work on the keys of these buckets, each under its epoch."""
        ...

    def close(self, buckets: Collection[int]) -> Sequence[Collection[int]]:
        """Begin no more runs in these buckets; returns them in the parts that are to be released apart.

        A bucket without runs does not wait for those of another.
        """
        ...

    async def release(self, buckets: Collection[int]) -> None:
        """Wait until no run is under way in closed buckets; writes are seen then."""
        ...

    def drop(self, buckets: Collection[int]) -> None:
        """Write nothing more in these buckets; what is under way is cut."""
        ...

    def seen(self) -> Mapping[str, int]:
        """The highest versions that the caches show, by resource."""
        ...

    def late(self) -> bool:
        """Whether keys wait for too long because of this process."""
        ...


@define(eq=False)
class Member:
    """One member, while `run` runs. `base` is what it says of itself besides its buckets."""

    sharding: Sharding
    ring: Ring
    lease: MemberLease
    work: BucketWork
    base: MemberRecord = field(factory=MemberRecord)
    metrics: HandOverMetrics | None = None
    state: MemberState = field(init=False)
    changes: Broadcast = field(factory=Broadcast, init=False)
    """Of its state."""
    _following: frozenset[int] = field(default=frozenset(), init=False)
    _hand_overs: HandOvers = field(init=False)
    _tasks: TaskGroup | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.state = MemberState(self.sharding.identity)
        self._hand_overs = HandOvers(self.sharding.leading, self.metrics)

    @property
    def record(self) -> MemberRecord:
        """What it says of itself now."""
        return record(self.state, evolve(self.base, late=self.work.late()))

    @property
    def holdings(self) -> Mapping[int, Holding]:
        """What it owns by the assignment that it sees."""
        found = enumerate(self.state.view.assignment.holdings)
        return {bucket: holding for bucket, holding in found if holding.owner == self.sharding.identity}

    async def run(self) -> None:
        """Take part until cancelled. Raises LeadershipLost, and AssignmentError as `Ring.check` does."""
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self._follow)
            while True:
                self.ring.check()
                self._give(self.ring.view)
                await self.ring.changes.wait()

    async def drain(self) -> None:
        """Have others take over all buckets one by one, as far as there are others."""
        self.say(evolve(self.base, draining=True))
        while self.holdings and self._others():
            with anyio.move_on_after(1.0):  # others may leave too, without a change here
                await self.changes.wait()

    async def leave(self) -> None:
        """Close all buckets, and wait until nothing of them is under way, and others have them."""
        if self._tasks is None:
            return  # it has not taken part yet
        self._give(Leaving())
        await self.changes.wait_until(lambda: self.state.idle)
        await self.lease.say_now()
        with anyio.move_on_after(HANDED_OVER_SECONDS):
            # A bucket that it may not release has no phase any more: others get it once its Lease is gone.
            # Without others, nobody owns the rest then: who comes next need not wait for this Lease.
            while self.state.wanted:
                await self.changes.wait()

    def _others(self) -> bool:
        mine = self.sharding.identity
        return any(name != mine and not one.draining for name, one in self.ring.records.items())

    # --- steps ------------------------------------------------------------------------------------

    def _give(self, *inputs: Input) -> None:
        said = record(self.state, self.base)
        outputs: list[Output] = []
        for given in inputs:
            self.state, more = step(self.state, given)
            self._hand_overs.note(given, self.state, more, anyio.current_time())
            outputs += more
        self._execute(outputs)
        if record(self.state, self.base).says_more_than(said):
            self.lease.say()
        self.changes.notify()

    def _execute(self, outputs: Sequence[Output]) -> None:
        """Buckets together that change together: each wait and each list is for all of them."""
        tasks = self._tasks
        assert tasks is not None
        holds: dict[int, int] = {}
        drops: list[int] = []
        closes: dict[int, int] = {}
        catching_up: dict[bool, dict[int, int]] = {}
        for output in outputs:
            match output:
                case Hold(bucket, epoch):
                    holds[bucket] = epoch
                case Drop(bucket):
                    drops.append(bucket)
                case Close(bucket, epoch):
                    closes[bucket] = epoch
                case CatchUp(bucket, epoch, clean):
                    catching_up.setdefault(clean, {})[bucket] = epoch
        if drops:
            self.work.drop(drops)
        if holds:
            self.work.hold(holds)
        for clean, epochs in catching_up.items():
            tasks.start_soon(self._catch_up, epochs, clean)
        for part in self.work.close(closes) if closes else ():
            tasks.start_soon(self._release, {bucket: closes[bucket] for bucket in part})

    async def _follow(self) -> None:
        while True:
            await self.changes.wait_until(lambda: not self._follows_all)
            with anyio.move_on_after(LATER_SECONDS):
                await self.changes.wait_until(lambda: not self._has_time())
            wanted = self.state.wanted
            await self.work.follow(wanted)
            self._following = wanted
            self._give(Followed(wanted))

    @property
    def _follows_all(self) -> bool:
        # A bucket that was not wanted for a moment counts as not followed.
        return self.state.wanted == self.state.followed == self._following

    def _has_time(self) -> bool:
        """Whether a change of what is followed can wait, as others wait for what goes on.

        It is a new watch and a look through all objects, on the server that the others use, and maybe on
        their machine. So buckets that are only lost, and those to come that others work on, come after the
        ones that are being handed over.
        """
        state = self.state
        gained = state.wanted - self._following
        if not gained:
            return state.wanted == state.followed
        holdings, mine = state.view.assignment.holdings, self.sharding.identity
        others_work = all(holdings[bucket].owner != mine for bucket in gained)
        return others_work and bool(state.in_phase(Warm) or state.in_phase(CatchingUp))

    async def _catch_up(self, epochs: Mapping[int, int], clean: bool) -> None:
        reached = self.state.view.assignment.reached if clean else None
        await self.work.catch_up(epochs, reached)
        self._give(*(CaughtUp(bucket, epoch) for bucket, epoch in epochs.items()))

    async def _release(self, epochs: Mapping[int, int]) -> None:
        await self.work.release(epochs)
        # After the last run: the caches show all that it wrote, so these versions cover it.
        seen = {**self.base.seen, **self.work.seen()}
        self.base = evolve(self.base, seen=seen)
        self._give(*(Ended(bucket, epoch) for bucket, epoch in epochs.items()))

    def say(self, base: MemberRecord) -> None:
        """Say this of itself, besides its buckets."""
        self.base = base
        self.lease.say()

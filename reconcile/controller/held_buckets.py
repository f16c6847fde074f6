"""The buckets that this replica holds at present, and the runs that work on their objects.

A replica of a sharded manager holds some buckets (`reconcile.client.buckets`). Its controllers run only the
keys of objects in them. A bucket that is to go to another replica is closed first: its keys are handed out no
more, while runs under way go on. Once it is dropped, nothing may be written under it.
"""

from collections.abc import Collection, Iterator, Set
from contextlib import contextmanager

import anyio
from attrs import define, field

from informers import Snapshot
from reconcile.client.buckets import Buckets
from reconcile.client.certainty import Certainty
from reconcile.client.guarded_writes import BucketNotHeld
from reconcile.controller.deadlines import RunLimit
from reconcile.runs.run_record import RunRecord
from reconcile.runs.run_request import Request
from reconcile.runs.tenure import Tenure, within

LEASE_RAN_OUT = "the run did not begin: the Lease of this member has run out"


@define(eq=False)
class HeldBuckets:
    """The buckets of one manager: its member holds, closes and drops them, its controllers ask.

    With `only`, all objects are in that one bucket: for controllers that need all of them in one replica.
    No run begins unless the member is certain of its Lease, if `certainty` tells.
    """

    buckets: Buckets
    only: int | None = None
    certainty: Certainty | None = None
    _tenures: dict[int, Tenure] = field(factory=dict, init=False)
    _open: set[int] = field(factory=set, init=False)

    def bucket_of(self, snapshot: Snapshot) -> int:
        return self.buckets.of(snapshot.uid) if self.only is None else self.only

    def holds(self, snapshot: Snapshot) -> bool:
        """Whether runs of that object may begin: its bucket is held, and not closed."""
        return self.bucket_of(snapshot) in self._open

    def tenure_of(self, snapshot: Snapshot) -> Tenure | None:
        """What a run of that object may work under; None if none may begin."""
        return self._tenures[self.bucket_of(snapshot)] if self.holds(snapshot) else None

    @property
    def held(self) -> Collection[int]:
        """The buckets that are held, also those that are closed."""
        return self._tenures.keys()

    def epoch(self, bucket: int) -> int:
        """The epoch in which a bucket is held; 0 if it is not."""
        tenure = self._tenures.get(bucket)
        return 0 if tenure is None else tenure.epoch

    def hold(self, bucket: int, epoch: int) -> None:
        """Hold a bucket, in place of an earlier epoch if it is another; one that was closed opens again."""
        if self.epoch(bucket) != epoch:
            self.drop([bucket])
            self._tenures[bucket] = Tenure(bucket, epoch, self.buckets.label(bucket))
        self._open.add(bucket)

    def close(self, buckets: Collection[int]) -> None:
        """Let no more runs begin; those under way go on, and may write."""
        self._open.difference_update(buckets)

    def drop(self, buckets: Collection[int]) -> None:
        """Have nothing written any more by runs in these buckets."""
        self.close(buckets)
        for bucket in buckets:
            tenure = self._tenures.pop(bucket, None)
            if tenure is not None:
                tenure.end()


@define(eq=False)
class HeldRun:
    """A run, and the tenures under which it works: of its object, and of deleted ones of the same name."""

    runs: "HeldRuns"
    request: Request
    record: RunRecord
    limit: RunLimit
    cancelled: bool = field(default=False, init=False)
    _tenures: list[Tenure] = field(factory=list, init=False)

    @contextmanager
    def on(self, snapshot: Snapshot) -> Iterator[bool]:
        """While inside, work on an object; false if its bucket is not held, so that nothing may be done."""
        tenure = self.runs.held.tenure_of(snapshot)
        if tenure is None:
            yield False
            return
        certainty = self.runs.held.certainty
        if certainty is not None and not certainty.holds:
            # The process stood still, and is about to end: others may have its buckets by now.
            raise BucketNotHeld(LEASE_RAN_OUT)
        self.record.tenure = tenure
        self._tenures.append(tenure)
        with within(tenure):
            yield True

    @property
    def has_begun(self) -> bool:
        return bool(self._tenures)

    @property
    def buckets(self) -> Iterator[int]:
        return (tenure.bucket for tenure in self._tenures)

    def is_in(self, buckets: Collection[int]) -> bool:
        return any(bucket in buckets for bucket in self.buckets)

    @property
    def given_up(self) -> bool:
        """Whether it was cancelled, or its bucket is gone."""
        epoch = self.runs.held.epoch
        return self.cancelled or any(not epoch(tenure.bucket) for tenure in self._tenures)

    def cancel(self) -> None:
        self.cancelled = True
        self.limit.cancel()

    def end(self) -> None:
        self.runs.end(self)


@define(eq=False)
class HeldRuns:
    """The runs of one controller that are under way."""

    held: HeldBuckets
    _runs: dict[Request, HeldRun] = field(factory=dict, init=False)
    _one_ended: anyio.Event | None = field(default=None, init=False)

    def begin(self, request: Request, record: RunRecord, limit: RunLimit) -> HeldRun:
        run = self._runs[request] = HeldRun(self, request, record, limit)
        return run

    def end(self, run: HeldRun) -> None:
        del self._runs[run.request]
        ended, self._one_ended = self._one_ended, None
        if ended is not None:
            ended.set()

    def __contains__(self, request: Request) -> bool:
        """Whether a run of that key has begun, and not just waits for writes of earlier ones."""
        run = self._runs.get(request)
        return run is not None and run.has_begun

    def at_work_in(self, buckets: Collection[int]) -> Set[int]:
        """Those of these buckets in which runs work."""
        return {bucket for run in self._runs.values() for bucket in run.buckets} & {*buckets}

    async def ended(self, buckets: Collection[int]) -> None:
        """Wait until no run works in these buckets."""
        while any(run.is_in(buckets) for run in self._runs.values()):
            self._one_ended = self._one_ended or anyio.Event()
            await self._one_ended.wait()

    def cancel(self, buckets: Collection[int]) -> None:
        for run in [*self._runs.values()]:
            if run.is_in(buckets):
                run.cancel()

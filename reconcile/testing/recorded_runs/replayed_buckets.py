"""The buckets that a recorded replica had of the objects, as its recording says."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from attrs import define, field

from informers import APIResource, Informer
from informers.informer_share import Share
from reconcile.client.buckets import Buckets as BucketNumbers
from reconcile.client.certainty import Certainty
from reconcile.controller.declaration import Controller
from reconcile.controller.held_buckets import LEASE_RAN_OUT, HeldBuckets, HeldRuns
from reconcile.controller.reconcile_run import RunExecutor
from reconcile.controller.runner import Runner
from reconcile.recording.recorded_events import Buckets, resource_of
from reconcile.runs.run_request import Request
from reconcile.sharding.shared_kinds import Sharing, share_of
from reconcile.testing.recorded_runs.replayed_world import ReplayClock, replayed


class _RecordedCertainty(Certainty):
    """Whether the replica was certain of its Lease as the present run began: the run says so."""

    @property
    def holds(self) -> bool:
        run = replayed.get()
        return run is None or run.trace.ended is None or LEASE_RAN_OUT not in run.trace.ended.message


class _EndedLater(HeldRuns):
    """A run that is cancelled goes on until `strike`, at its recorded end.

    One whose answer had come just then took a further step before its cancellation: that is recorded.
    """

    def cancel(self, buckets: Collection[int]) -> None:
        for run in self._runs.values():
            run.cancelled = run.cancelled or run.is_in(buckets)

    def strike(self, request: Request) -> None:
        run = self._runs.get(request)
        if run is not None and run.cancelled:
            run.limit.cancel()


@define(eq=False)
class ReplayedBuckets:
    """Of one recording; `shared` are the resources of which a cache follows a part."""

    numbers: BucketNumbers
    shared: Mapping[APIResource, Sharing]
    certainty: Certainty
    _objects: HeldBuckets = field(init=False)
    _leading: HeldBuckets = field(init=False)
    _executors: list[RunExecutor[Any]] = field(factory=list, init=False)
    _runners: list[Runner[Any]] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self._objects = HeldBuckets(self.numbers, certainty=self.certainty)
        self._leading = HeldBuckets(self.numbers, only=self.numbers.count, certainty=self.certainty)

    @classmethod
    def of(cls, options: Mapping[str, Any], clock: ReplayClock) -> "ReplayedBuckets | None":
        """Those of a recording with these options; None where it is not of a replica. Raises ValueError."""
        found = options.get("sharding")
        if not isinstance(found, Mapping):
            return None
        shared = found.get("shared")
        kinds = shared.items() if isinstance(shared, Mapping) else ()
        numbers = BucketNumbers(int(found.get("buckets") or 0))
        return cls(
            numbers,
            {resource_of(str(text)): Sharing(how) for text, how in kinds},
            _RecordedCertainty(clock),
        )

    def of_controller(self, controller: Controller[Any]) -> HeldBuckets:
        return self._objects if controller.sharded else self._leading

    def share(self, resource: APIResource, followed: Collection[int] = ()) -> Share | None:
        """What the cache of a resource follows of it; None: all of it. Before the ring, nothing."""
        sharing, buckets = self.shared.get(resource), [bucket for bucket in followed if bucket >= 0]
        return None if sharing is None else share_of(sharing, self.numbers, buckets)

    def admit(self, executor: RunExecutor[Any], runner: Runner[Any]) -> None:
        """Direct a controller, too."""
        executor.runs = _EndedLater(self.of_controller(executor.controller))
        self._executors.append(executor)
        self._runners.append(runner)

    def change(self, event: Buckets, informer_of: Callable[[str], Informer | None]) -> None:
        """Carry out what the replica got or lost."""
        match event.op:
            case "follow":
                share = self.share(resource_of(event.subject), event.buckets)
                informer = informer_of(event.subject)
                if informer is not None and share is not None:
                    informer.narrow(share)
            case "hold" | "hold unclean":
                for bucket, epoch in zip(event.buckets, event.epochs, strict=False):
                    self._of(bucket).hold(bucket, epoch)
                for executor in self._executors if event.op == "hold unclean" else ():
                    executor.distrust_cache()
            case "close":
                for bucket in event.buckets:
                    self._of(bucket).close([bucket])
            case "drop":
                for runner in self._runners:
                    runner.cancel_runs(event.buckets)
                for bucket in event.buckets:
                    self._of(bucket).drop([bucket])
            case "forget":
                for runner in self._runners:
                    if runner.controller.name == event.subject:
                        runner.cancel_runs(event.buckets)
                        runner.forget(event.buckets)

    def strike(self, executor: RunExecutor[Any], request: Request) -> None:
        """End the run of a key if it was cancelled: it had ended here."""
        if isinstance(executor.runs, _EndedLater):
            executor.runs.strike(request)

    def _of(self, bucket: int) -> HeldBuckets:
        return self._leading if bucket == self.numbers.count else self._objects

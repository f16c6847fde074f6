"""What must hold of replicas that share the objects of an operator: each object has one owner at a time.

Who owns what is read from the changes of the assignment on the server, for only that is certain.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from attrs import frozen

from reconcile.client.buckets import Buckets
from reconcile.embedded.log import StorageKey
from reconcile.models import kind_of
from reconcile.runs.run_request import Request
from reconcile.sharding.assignment import Assignment, Holding
from reconcile.sharding.ring import ASSIGNMENT, assignment_name
from reconcile.testing.manager_identity import identity_of, is_life_of
from reconcile.testing.run_records import KeyRun, Standstill, TimedChange
from reconcile.testing.world import ProcessView, World

LEASES: Final[StorageKey] = ("coordination.k8s.io", "leases")


@frozen
class _Stint:
    """One run of an object, and until when it counts: until its process stood still and lost its Lease."""

    run: KeyRun
    ends: float


def one_owner(world: World) -> Iterator[str]:
    """Of replicas that share objects, no two work on one object at a time, and only its owner writes."""
    if world.sharding is not None:
        yield from _runs_at_one_time(world)
        yield from _writes_of_former_owners(world)


def owned(world: World) -> Iterator[str]:
    """Each bucket has an owner that lives, and each object has been run by the present owner."""
    if world.sharding is None:
        return
    history = assignments(world)
    if not history:
        yield "there is no assignment of buckets"
        return
    _, assignment = history[-1]
    living = {identity_of(one.number, one.lives): one for one in world.processes if one.alive}
    for bucket, holding in enumerate(assignment.holdings):
        if living and holding.owner not in living:
            yield f"bucket {bucket} has no living owner, but {holding.owner or 'none'}"
        if holding.next_owner:
            yield f"bucket {bucket} is still on its way to {holding.next_owner}"
    yield from _objects_never_run(world, assignment, living)


def _objects_never_run(world: World, assignment: Assignment, living: dict[str, ProcessView]) -> Iterator[str]:
    assert world.sharding is not None
    ran = {
        (identity_of(run.process, run.life), run.controller, run.request, run.tenure.epoch)
        for run in world.runs
        if run.tenure is not None
    }
    buckets = Buckets(world.sharding.buckets)
    for controller in world.processes[0].controllers:
        resource = kind_of(controller.kind).resource
        for stored in world.server.log.snapshot((resource.group, resource.plural)):
            bucket = buckets.of(stored.uid) if controller.sharded else world.sharding.leading
            holding = assignment.holdings[bucket]
            request = Request(stored.key.namespace, stored.key.name)
            if (
                holding.owner in living
                and (holding.owner, controller.name, request, holding.epoch) not in ran
            ):
                yield f"{controller.name} never ran {stored.key} since {holding.owner} owns bucket {bucket}"


# --- runs -----------------------------------------------------------------------------------------


def _runs_at_one_time(world: World) -> Iterator[str]:
    stints: dict[Any, list[_Stint]] = defaultdict(list)
    for run in world.runs:
        if run.tenure is not None:
            # By bucket: an object of the same name with another uid may belong to another replica.
            stints[run.controller, run.request, run.tenure.bucket].append(
                _Stint(run, _counts_until(world, run))
            )
    for (controller, request, _), found in stints.items():
        found.sort(key=lambda stint: stint.run.started)
        for number, one in enumerate(found):
            for other in found[number + 1 :]:
                if other.run.started >= one.ends:
                    break  # and so have those after it
                if other.run.process != one.run.process and one.run.started < other.ends:
                    then = f"manager {other.run.process} from {other.run.started:.3f} s on"
                    before = f"manager {one.run.process} until {one.ends:.3f} s"
                    yield f"{controller} ran {request} in {then}, and in {before}"


def _counts_until(world: World, run: KeyRun) -> float:
    """The end of a run; of one that stood still until its process was taken for dead, when that began."""
    (process,) = (one for one in world.processes if one.number == run.process)
    for still in process.standstills:
        inside = still.life == run.life and run.started <= still.began < run.ended
        if inside and _lacks_lease(world, identity_of(run.process, run.life), still):
            return still.began
    return run.ended


def _lacks_lease(world: World, identity: str, still: Standstill) -> bool:
    """Whether the Lease was gone when a standstill began, or went during it."""
    assert world.sharding is not None
    name = f"{world.sharding.name}-{identity}"
    gone = False
    for one in world.changes:
        if one.at > still.ends:
            break
        if one.change.resource == LEASES and one.change.key.name == name:
            gone = one.change.new is None
            if gone and one.at >= still.began:
                return True
    return gone


# --- reads ----------------------------------------------------------------------------------------


def caught_up(world: World) -> Iterator[str]:
    """Of replicas that share objects, each begins with what runs of former owners wrote to an object."""
    if world.sharding is None:
        return
    written, given = _written_by_runs(world), _when_given(world)
    resources = {one.name: kind_of(one.kind).resource for one in world.processes[0].controllers}
    for run in world.runs:
        if run.tenure is None:
            continue
        resource, tenure = resources[run.controller], run.tenure
        for one in written[(resource.group, resource.plural), run.request.key, tenure.bucket]:
            # A request that was still on its way when its owner was given up may arrive later.
            if (
                one.epoch < tenure.epoch
                and run.read < one.version
                and one.at <= given[tenure.bucket, tenure.epoch]
            ):
                what = f"what epoch {one.epoch} of bucket {tenure.bucket} wrote at {one.at:.3f} s"
                who = f"manager {run.process} in epoch {tenure.epoch}"
                yield f"{run.controller} ran {run.request} at {run.started:.3f} s by {who}, without {what}"


@frozen
class _Write:
    at: float
    version: int
    epoch: int


def _written_by_runs(world: World) -> Mapping[Any, Sequence[_Write]]:
    """The changes of each object that runs asked for, by the buckets of these runs."""
    written: dict[Any, list[_Write]] = defaultdict(list)
    for one in world.changes:
        if one.tenure is not None and one.change.new is not None:
            place = one.change.resource, one.change.key, one.tenure.bucket
            written[place].append(_Write(one.at, one.change.version, one.tenure.epoch))
    return written


def _when_given(world: World) -> Mapping[tuple[int, int], float]:
    """When each bucket was given away under each epoch."""
    given: dict[tuple[int, int], float] = {}
    for at, assignment in assignments(world):
        for bucket, holding in enumerate(assignment.holdings):
            given.setdefault((bucket, holding.epoch), at)
    return given


# --- writes ---------------------------------------------------------------------------------------


def _writes_of_former_owners(world: World) -> Iterator[str]:
    history = assignments(world)
    times = [at for at, _ in history]
    for process in world.processes:
        for request in process.transport.requests:
            tenure = request.tenure
            # What was refused at the socket had waited in the process, and was never sent.
            if tenure is None or not request.mutating or request.server_status is None or request.outside:
                continue
            number = bisect_left(times, request.at)
            if not number:
                yield f"{request.summary} at {request.at:.3f} s by manager {process.number}, before any owner"
                continue
            holding = history[number - 1][1].holdings[tenure.bucket]
            if _is_of_another(holding, tenure.epoch, process.number):
                sent = f"{request.summary} at {request.at:.3f} s by manager {process.number}"
                bucket = f"bucket {tenure.bucket}, which {holding.owner} owned in {holding.epoch}"
                yield f"{sent}, in epoch {tenure.epoch} of {bucket}"


def _is_of_another(holding: Holding, epoch: int, process: int) -> bool:
    """Whether the bucket is another process's by then, so that only that one may run and write there.

    An assignment that was begun anew has no owners at first, as all members may still go by the former one.
    """
    return holding.epoch >= epoch and bool(holding.owner) and not is_life_of(holding.owner, process)


def assignments(world: World) -> Sequence[tuple[float, Assignment]]:
    """Each assignment that the server had, and from when on."""
    assert world.sharding is not None
    name = assignment_name(world.sharding.name)
    return [
        (one.at, Assignment.from_text(text))
        for one in world.changes
        if one.change.resource == LEASES and one.change.key.name == name and (text := _text(one))
    ]


def _text(one: TimedChange) -> str:
    if one.change.new is None:
        return ""
    text: str = msgspec.json.decode(one.change.new.body)["metadata"]["annotations"][ASSIGNMENT]
    return text

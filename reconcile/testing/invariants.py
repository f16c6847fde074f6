"""What must hold of every controller, whatever it is for: checked of each run without being asked.

Those of a world at rest are functions of it, as an author's own are; the others look at a run that has ended.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from informers import Key
from reconcile.embedded.log import StorageKey, Stored
from reconcile.embedded.protocol.object_metadata import StoredOwner
from reconcile.models import kind_of
from reconcile.testing.once import describe
from reconcile.testing.requests import group_of, namespace_of, target_of

if TYPE_CHECKING:
    from reconcile.testing.world import World

_LEASES: StorageKey = ("coordination.k8s.io", "leases")
_MINUTE = 60.0

Place = tuple[StorageKey, Key]
_OBSERVED = re.compile(rb'"observedGeneration":(\d+)')
_GENERATION = re.compile(rb'"generation":(\d+)')


# --- of a world at rest ---------------------------------------------------------------------------


def orphans(world: "World") -> None:
    """Nothing is left whose owners have gone; no children, of the kinds that a controller owns, of nobody."""
    _check_children(world)
    for place, stored in _touched(world):
        if stored.owners and not stored.deleting and not any(_lives(world, stored, o) for o in stored.owners):
            owners = ", ".join(f"{owner.kind} {owner.name}" for owner in stored.owners)
            world.violate("orphans", f"{_name(place)} is left, and its owner is not there: {owners}")


def _check_children(world: "World") -> None:
    for controller in world.processes[0].controllers:
        if controller.owns and not world.has_any(controller.kind):
            kinds = {(r.group, r.plural) for r in (kind_of(kind).resource for kind in controller.owns)}
            for place in _made(world):
                if place[0] in kinds:
                    parent = controller.kind.__name__
                    world.violate("orphans", f"{_name(place)} is left, and there is no {parent} any more")


def _made(world: "World") -> Iterator[Place]:
    """What managers have made in this run, and is there without a living owner.

    What an act of the scenario, a step with `world.user`, or the server made is not theirs to take away.
    """
    asked = _created(world)
    for place, stored in _touched(world):
        owned = any(_lives(world, stored, owner) for owner in stored.owners)
        if not owned and not stored.deleting and place not in world.stage.made and asked(place):
            yield place


def _created(world: "World") -> Callable[[Place], bool]:
    """Whether a manager asked for an object that was not there before this run."""
    first: dict[Place, bool] = {}
    for one in world.changes:
        first.setdefault((one.change.resource, one.change.key), one.change.old is None)
    named: set[Place] = set()
    generated: list[tuple[StorageKey, str, str]] = []
    for process in world.processes:
        for request in process.transport.requests:
            if not request.effective or request.verb not in ("create", "patch", "update"):
                continue
            plural, name = target_of(request.path)
            resource = (group_of(request.path), plural)
            namespace = namespace_of(request.path)
            metadata = {} if name else (request.body or {}).get("metadata") or {}
            name = name or metadata.get("name") or ""
            if name:
                named.add((resource, Key(namespace, name)))
            elif metadata.get("generateName"):
                generated.append((resource, namespace, metadata["generateName"]))

    def asked(place: Place) -> bool:
        if not first.get(place):
            return False
        resource, key = place
        return place in named or any(
            (resource, key.namespace) == (kind, namespace) and key.name.startswith(prefix)
            for kind, namespace, prefix in generated
        )

    return asked


def finalizers(world: "World") -> None:
    """No object that is to go is still held by a finalizer of these controllers."""
    held = {
        finalizer
        for process in world.processes
        for controller in process.controllers
        for finalizer in controller.finalizers
    }
    for place, stored in _touched(world):
        if stored.deleting:
            for finalizer in sorted(held.intersection(stored.finalizers)):
                world.violate("finalizers", f"{_name(place)} is to go, and {finalizer} still holds it")


AT_REST: Sequence[Callable[["World"], None]] = (orphans, finalizers)


def check_requests(world: "World") -> None:
    """No object was asked for too often since the world was last at rest."""
    for process in world.processes:
        made = process.transport.requests
        counts = Counter(
            (request.verb, request.path)
            for request in made[world.requests_seen.get(process.number, 0) :]
            if request.verb != "watch" and target_of(request.path)[0] not in ("leases", "events")
        )
        world.requests_seen[process.number] = len(made)
        for (verb, path), count in counts.items():
            if count > world.scenario.most_requests:
                world.violate("requests", f"{count} times {verb.upper()} {path} until it came to rest")


# --- of a run that has ended ----------------------------------------------------------------------


def check_history(world: "World") -> None:
    """Note what was wrong on the way."""
    _check_generations(world)
    _check_back_off(world)
    _check_leader(world)


def _check_generations(world: "World") -> None:
    for happened in world.changes:
        stored = happened.change.new
        if stored is None or _is_in_order(stored.body):
            continue
        body = stored.decode()
        generation = body["metadata"].get("generation", 0)
        for where, observed in _observed(body.get("status") or {}):
            if observed > generation:
                place = _name((happened.change.resource, happened.change.key))
                world.violate("generations", f"{place}: {where} is {observed}, of generation {generation}")


def _is_in_order(body: bytes) -> bool:
    """Whether it can be seen without reading it that no generation is observed before its time."""
    observed = [int(number) for number in _OBSERVED.findall(body)]
    return not observed or max(observed) <= min(
        int(number) for number in _GENERATION.findall(body) or (b"0",)
    )


def _observed(status: dict[str, Any]) -> Iterator[tuple[str, int]]:
    if isinstance(status.get("observedGeneration"), int):
        yield "status.observedGeneration", status["observedGeneration"]
    for condition in status.get("conditions") or ():
        if isinstance(condition, dict) and isinstance(condition.get("observedGeneration"), int):
            yield f"observedGeneration of {condition.get('type')}", condition["observedGeneration"]


def _check_back_off(world: "World") -> None:
    failed: dict[Any, deque[float]] = defaultdict(deque)
    for run in world.runs:
        if run.outcome != "error":
            continue
        times = failed[run.process, run.controller, run.request]
        times.append(run.started)
        while times[0] < run.started - _MINUTE:
            times.popleft()
        if len(times) > world.scenario.most_failures:
            world.violate(
                "backs-off", f"{run.controller} failed for {run.request} {len(times)} times within a minute"
            )
            times.clear()


def _check_leader(world: "World") -> None:
    if world.scenario.leader_election is None:
        return
    times, holders = [0.0], [""]
    for happened in world.changes:
        if happened.change.resource == _LEASES and happened.change.new is not None:
            times.append(happened.at)
            holders.append(happened.change.new.decode()["spec"].get("holderIdentity") or "")
    for process in world.processes:
        for request in process.transport.requests:
            if not request.mutating or target_of(request.path)[0] == "leases":
                continue
            holder = holders[bisect_right(times, request.at) - 1]
            if not holder.startswith(f"manager-{process.number}."):
                text = f"{describe(request)} at {request.at:.3f} s by manager {process.number}"
                world.violate("leader", f"{text}, while {holder or 'nobody'} led")


# --- looking --------------------------------------------------------------------------------------


def _touched(world: "World") -> Iterator[tuple[Place, Stored]]:
    """The objects that changed in this run, and are there."""
    for place in dict.fromkeys((one.change.resource, one.change.key) for one in world.changes):
        stored = world.server.log.get(*place)
        if stored is not None:
            yield place, stored


def _lives(world: "World", child: Stored, owner: StoredOwner) -> bool:
    group = owner.api_version.rpartition("/")[0]
    resource = world.server.resources.by_kind(group, owner.kind)
    if resource is None:
        return False
    namespace = child.key.namespace if resource.namespaced else ""
    found = world.server.log.get(resource.storage_key, Key(namespace, owner.name))
    return found is not None and found.uid == owner.uid


def _name(place: Place) -> str:
    (_, plural), key = place
    return f"{plural} {key}"

"""What must hold of every controller, and is checked in every run.

`AT_REST` has those that are checked after each step, `OF_A_RUN` those that are checked once, at the end. Each
needs a line in docs/explanation/simulation.md.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from informers import Key
from reconcile.embedded.log import StorageKey, Stored
from reconcile.embedded.protocol.object_metadata import StoredOwner
from reconcile.models import kind_of
from reconcile.testing.manager_identity import is_life_of
from reconcile.testing.service_invariants import doubles, leaks
from reconcile.testing.shard_invariants import LEASES, caught_up, one_owner, owned
from reconcile.testing.world import World

FreeInvariant: TypeAlias = Callable[[World], Iterator[str]]
"""Yields a text for each violation."""
ObjectKey: TypeAlias = tuple[StorageKey, Key]

_MINUTE = 60.0
_OBSERVED = re.compile(rb'"observedGeneration":(\d+)')
_GENERATION = re.compile(rb'"generation":(\d+)')


# --- of a world at rest ---------------------------------------------------------------------------


def requests(world: World) -> Iterator[str]:
    """No object was asked for too often since the world was last at rest."""
    for process in world.processes:
        made = world.requests_since_rest(process)
        counts = Counter((request.verb, request.path) for request in made if request.verb != "watch")
        for (verb, path), count in counts.items():
            if count > world.most_requests:
                yield f"{verb.upper()} {path} {count} times until the world was at rest"


def orphans(world: World) -> Iterator[str]:
    """No object outlives its owners, and no child of a controller outlives the last parent."""
    yield from _children_without_parents(world)
    for key, stored in _changed_objects(world):
        if (
            stored.owners
            and not stored.deleting
            and not any(_exists(world, stored, o) for o in stored.owners)
        ):
            owners = ", ".join(f"{owner.kind} {owner.name}" for owner in stored.owners)
            yield f"{_name(key)} is left without its owner: {owners}"


def _children_without_parents(world: World) -> Iterator[str]:
    for controller in world.processes[0].controllers:
        if controller.owns and not world.has_any(controller.kind):
            kinds = {(r.group, r.plural) for r in (kind_of(kind).resource for kind in controller.owns)}
            for key in _made_by_managers(world):
                if key[0] in kinds:
                    yield f"{_name(key)} is left, and there is no {controller.kind.__name__} any more"


def _made_by_managers(world: World) -> Iterator[ObjectKey]:
    """Objects without a living owner that managers, and not users or the server, created in this run."""
    asked = _created_by_managers(world)
    for key, stored in _changed_objects(world):
        owned = any(_exists(world, stored, owner) for owner in stored.owners)
        if not owned and not stored.deleting and key not in world.actor.made and asked(key):
            yield key


def _created_by_managers(world: World) -> Callable[[ObjectKey], bool]:
    """Whether a manager asked for an object that did not exist before this run."""
    is_new: dict[ObjectKey, bool] = {}
    for one in world.changes:
        is_new.setdefault((one.change.resource, one.change.key), one.change.old is None)
    named: set[ObjectKey] = set()
    generated: list[tuple[StorageKey, str, str]] = []
    for process in world.processes:
        for request in process.transport.requests:
            if not request.effective or request.outside or request.verb not in ("create", "patch", "update"):
                continue
            target = request.target
            resource = (target.group, target.resource)
            metadata = {} if target.name else (request.body or {}).get("metadata") or {}
            name = target.name or metadata.get("name") or ""
            if name:
                named.add((resource, Key(target.within, name)))
            elif metadata.get("generateName"):
                generated.append((resource, target.within, metadata["generateName"]))

    def asked(key: ObjectKey) -> bool:
        if not is_new.get(key):
            return False
        resource, (namespace, name) = key
        return key in named or any(
            (resource, namespace) == (kind, within) and name.startswith(prefix)
            for kind, within, prefix in generated
        )

    return asked


def finalizers(world: World) -> Iterator[str]:
    """No object that is being deleted is still held by a finalizer of these controllers."""
    own = {
        finalizer
        for process in world.processes
        for controller in process.controllers
        for finalizer in controller.finalizers
    }
    for key, stored in _changed_objects(world):
        if stored.deleting:
            for finalizer in sorted(own.intersection(stored.finalizers)):
                yield f"{_name(key)} is being deleted, and {finalizer} still holds it"


# --- of a run that has ended ----------------------------------------------------------------------


def generations(world: World) -> Iterator[str]:
    """No observedGeneration is ahead of its object's generation."""
    for one in world.changes:
        stored = one.change.new
        if stored is None or _is_in_order(stored.body):
            continue
        body = stored.decode()
        generation = body["metadata"].get("generation", 0)
        for where, observed in _observed(body.get("status") or {}):
            if observed > generation:
                name = _name((one.change.resource, one.change.key))
                yield f"{name}: {where} is {observed}, but its generation is {generation}"


def _is_in_order(body: bytes) -> bool:
    """Whether bytes alone show that no generation is observed too early: decoding each change is too slow."""
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


def backs_off(world: World) -> Iterator[str]:
    """No key fails too often within a minute."""
    failed: dict[Any, deque[float]] = defaultdict(deque)
    for run in world.runs:
        if run.outcome != "error":
            continue
        times = failed[run.process, run.controller, run.request]
        times.append(run.started)
        while times[0] < run.started - _MINUTE:
            times.popleft()
        if len(times) > world.most_failures:
            yield f"{run.controller} failed for {run.request} {len(times)} times within a minute"
            times.clear()


def leader(world: World) -> Iterator[str]:
    """With a Lease, only its holder writes."""
    if not world.elects_leader:
        return
    times, holders = [0.0], [""]
    for one in world.changes:
        if one.change.resource == LEASES and one.change.new is not None:
            times.append(one.at)
            holders.append(one.change.new.decode()["spec"].get("holderIdentity") or "")
    for process in world.processes:
        for request in process.transport.requests:
            if not request.mutating or request.outside or request.target.resource == "leases":
                continue  # nothing outside the cluster can check a Lease
            holder = holders[bisect_right(times, request.at) - 1]
            if not is_life_of(holder, process.number):
                text = f"{request.summary} at {request.at:.3f} s by manager {process.number}"
                yield f"{text}, while {holder or 'no manager'} led"


AT_REST: Mapping[str, FreeInvariant] = {
    "requests": requests,
    "orphans": orphans,
    "finalizers": finalizers,
    "owned": owned,
    "leaks": leaks,
    "doubles": doubles,
}
OF_A_RUN: Mapping[str, FreeInvariant] = {
    "generations": generations,
    "backs-off": backs_off,
    "leader": leader,
    "one-owner": one_owner,
    "caught-up": caught_up,
}
FOUND_ON_THE_WAY = ("converges", "stays", "extra-run", "end-state", "creates", "deletes", "lost", "declared")
"""Invariants of the course of a run, which the code that runs a scenario checks itself."""


def names() -> Sequence[str]:
    """The names that `Scenario(without=)` may leave out."""
    return (*FOUND_ON_THE_WAY, *AT_REST, *OF_A_RUN)


def check(world: World, invariants: Mapping[str, FreeInvariant]) -> None:
    for name, invariant in invariants.items():
        for text in invariant(world):
            world.violate(name, text)


# --- objects --------------------------------------------------------------------------------------


def _changed_objects(world: World) -> Iterator[tuple[ObjectKey, Stored]]:
    """The existing objects that changed in this run."""
    for key in dict.fromkeys((one.change.resource, one.change.key) for one in world.changes):
        stored = world.server.log.get(*key)
        if stored is not None:
            yield key, stored


def _exists(world: World, child: Stored, owner: StoredOwner) -> bool:
    group = owner.api_version.rpartition("/")[0]
    resource = world.server.resources.by_kind(group, owner.kind)
    if resource is None:
        return False
    namespace = child.key.namespace if resource.namespaced else ""
    found = world.server.log.get(resource.storage_key, Key(namespace, owner.name))
    return found is not None and found.uid == owner.uid


def _name(key: ObjectKey) -> str:
    (_, plural), name = key
    return f"{plural} {name}"

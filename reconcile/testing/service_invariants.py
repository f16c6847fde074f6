"""What must hold of the services outside the cluster, and how what they have is compared between runs."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from reconcile.models import Object, kind_of
from reconcile.testing.fake_services.service_laws import Owner
from reconcile.testing.fake_services.service_resources import Resources
from reconcile.testing.world import World

Place = tuple[str, str, str]
"""Service and collection, nothing, and the identity of a resource."""


def leaks(world: World) -> Iterator[str]:
    """No resource of a service is left whose owner in the cluster is gone."""
    known: dict[type[Object], set[str]] = {}
    for service, resources in _all(world):
        for value in resources.all():
            owner = _owner(resources, value)
            if owner is None or _was_forced(world, owner):
                continue
            kind, name = owner
            if kind not in known:
                known[kind] = set(_names(world, kind))
            if name not in known[kind]:
                body = resources.body_of(value)
                what = f"{body.get(resources.declared.id)} of {service}/{resources.declared.name}"
                yield f"{what} is left, and there is no {kind.__name__} {name}"


def doubles(world: World) -> Iterator[str]:
    """No resource of a service exists twice."""
    for service, resources in _all(world):
        ids: dict[str, list[str]] = defaultdict(list)
        for value in resources.all():
            owner = _owner(resources, value)
            if (owner is None and world.actor.forced) or (owner is not None and _was_forced(world, owner)):
                continue  # the one may be left of an object whose finalizers a user took away
            ids[_likeness(resources, value)].append(str(resources.body_of(value)[resources.declared.id]))
        for alike in ids.values():
            if len(alike) > 1:
                yield f"{', '.join(alike)} of {service}/{resources.declared.name} are the same resource"


def places_outside(world: World) -> Iterator[tuple[Place, Any]]:
    """What the services have, and what else has a `state()`, as it is compared between runs."""
    for service, resources in _all(world):
        for value in resources.all():
            yield _place(service, resources, resources.identity_of(value)), resources.compared(value)
    state = getattr(world.outside, "state", None)
    if not world.services and callable(state):
        for name, value in dict(state()).items():
            yield ("outside", "", str(name)), value


def writes_outside(world: World) -> tuple[Counter[Place], Counter[Place]]:
    """How often each resource of the services was created, and how often deleted."""
    creates: Counter[Place] = Counter()
    deletes: Counter[Place] = Counter()
    for service, resources in _all(world):
        for counts, into in ((resources.creates, creates), (resources.deletes, deletes)):
            for identity, count in counts.items():
                into[_place(service, resources, identity)] += count
    return creates, deletes


def _place(service: str, resources: Resources[Any], identity: str) -> Place:
    return f"{service}/{resources.declared.name}", "", identity


def _all(world: World) -> Iterator[tuple[str, Resources[Any]]]:
    for service in world.services:
        for resources in service.collections.values():
            yield service.name, resources


def _owner(resources: Resources[Any], value: Any) -> Owner | None:
    return None if resources.declared.owner is None else resources.declared.owner(value)


def _was_forced(world: World, owner: Owner) -> bool:
    """Whether a user took the finalizers of an owner away, so that no controller could clean up after it."""
    kind, name = owner
    resource = kind_of(kind).resource
    forced = [key for storage, key in world.actor.forced if storage == (resource.group, resource.plural)]
    if not forced:
        return False
    uids = {
        stored.uid
        for one in world.changes
        if one.change.key in forced and (stored := one.change.old or one.change.new) is not None
    }
    return name in uids or any(name in (str(key), key.name) for key in forced)


def _names(world: World, kind: type[Object]) -> Iterator[str]:
    for obj in world.objects(kind):
        yield from (str(obj.key), obj.name, obj.metadata.uid)


def _likeness(resources: Resources[Any], value: Any) -> str:
    identity = resources.declared.identity
    return repr(resources.compared(value)) if identity is None else str(identity(value))

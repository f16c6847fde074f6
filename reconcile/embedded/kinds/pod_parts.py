"""The parts of a pod spec that several rules walk through."""

from collections.abc import Iterator
from typing import Final

from reconcile.embedded.kinds.built_in_kind import Object

# The order of VisitContainersWithPath in pkg/apis/core/pods/helpers.go.
_CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
HOOKS: Final = ("postStart", "preStop")


def each(obj: Object, name: str) -> list[Object]:
    """The objects of a list that may be absent."""
    items = obj.get(name)
    return [item or {} for item in items] if items else []


def part(obj: Object, *names: str) -> Object:
    """A part of an object, at any depth; empty if it is absent."""
    for name in names:
        obj = obj.get(name) or {}
    return obj


def containers_of(spec: Object) -> list[Object]:
    """Every container of a pod: init containers, containers, ephemeral ones."""
    return [container for name in _CONTAINER_LISTS for container in each(spec, name)]


def all_containers(spec: Object, path: str) -> Iterator[tuple[str, Object]]:
    """Every container of a pod, with its path."""
    for name in _CONTAINER_LISTS:
        for index, container in enumerate(each(spec, name)):
            yield f"{path}.{name}[{index}]", container


def hooks_of(container: Object) -> Iterator[Object]:
    lifecycle = part(container, "lifecycle")
    yield from (lifecycle[name] for name in HOOKS if lifecycle.get(name) is not None)


def probes_of(container: Object) -> Iterator[Object]:
    yield from (container[name] for name in PROBES if container.get(name) is not None)


def is_sidecar(container: Object) -> bool:
    """Whether an init container runs as long as its pod."""
    return container.get("restartPolicy") == "Always"

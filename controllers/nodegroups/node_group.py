"""A group of nodes: which objects are groups, and which sizes they may have."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attrs import evolve, field, frozen

from reconcile import Object
from reconcile.blocks import NodeTemplate

from .group_annotations import (
    MAX_SIZE,
    MIN_SIZE,
    PAUSED,
    BadAnnotation,
    GroupOptions,
    bounds_of,
    options_of,
    template_of,
)
from .machine import Machine, provider_id

GroupKind = Literal["MachineDeployment", "MachineSet", "MachinePool"]
REMOVING = "reconcile-runtime/removing-machines"
"""Annotation of a group: the machines whose removal its replicas already count."""


class GroupRefused(Exception):
    """A change of a group is refused; nothing was changed."""


@frozen
class NodeGroup:
    """A group as one run sees it.

    Attributes:
        size: How many nodes it should have.
        template: What a new node offers; None if unknown.
        is_rolling: Whether its machines are being replaced.
        removing: The machines whose removal `size` already counts.
        faults: What is wrong with its options.
        provider_ids: The instances of a MachinePool.
    """

    kind: GroupKind
    namespace: str
    name: str
    uid: str
    size: int
    smallest: int
    largest: int
    object: Object
    options: GroupOptions = field(factory=GroupOptions)
    template: NodeTemplate | None = None
    is_rolling: bool = False
    machines: tuple[Machine, ...] = ()
    provider_ids: tuple[str, ...] = ()
    removing: tuple[str, ...] = ()
    faults: tuple[str, ...] = field(default=())

    @property
    def id(self) -> str:
        """Its name in status, events and the expressions of priorities."""
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def existing(self) -> int:
        """How many nodes exist; failed, pending and deleted machines have none."""
        if self.kind == "MachinePool":
            return len(self.provider_ids)
        return sum(machine.state == "running" for machine in self.machines)

    @property
    def instances(self) -> int:
        """How many instances exist or are being created, without those being deleted."""
        if self.kind == "MachinePool":
            return len(self.provider_ids)
        return sum(machine.state != "deleting" for machine in self.machines)


def still_going(group: NodeGroup, counted: Sequence[str], size: int) -> tuple[str, ...]:
    """The machines whose removal a size counts and that will really be removed.

    They are at most the instances beyond the size: if Cluster API removed another machine instead, or the
    size grew again, one of them stays.
    """
    known = {*group.provider_ids, *(one.name for one in group.machines if one.state != "deleting")}
    alive = [name for name in counted if name in known]
    return tuple(sorted(alive)[: max(0, group.instances - size)])


@frozen
class UnsizedObject:
    """`is_fault`: a mistake in its annotations. `default`: the first replicas if it has none."""

    id: str
    reason: str
    is_fault: bool = False
    default: int | None = None
    object: Object | None = None


def shrunk(group: NodeGroup, now: int, size: int) -> int:
    """At most `size` nodes instead of `now`. Raises GroupRefused if existing ones would be removed."""
    if size < min(now, group.existing):
        raise GroupRefused(f"attempt to delete existing nodes - desired:{size} existing:{group.existing}")
    return min(now, size)


def read_group(
    manifest: Mapping[str, Any], obj: Object, infrastructure: Mapping[str, Any] | None = None
) -> NodeGroup | UnsizedObject:
    """An object of Cluster API as a group without machines, or why it is not sized."""
    metadata, spec = manifest["metadata"], manifest.get("spec") or {}
    kind: GroupKind = manifest["kind"]
    name, annotations = metadata["name"], metadata.get("annotations") or {}
    called = f"{kind}/{metadata['namespace']}/{name}"
    owners = {one["kind"] for one in metadata.get("ownerReferences") or ()}
    if kind == "MachineSet" and "MachineDeployment" in owners:
        return UnsizedObject(called, "its MachineDeployment is sized")
    if metadata.get("deletionTimestamp"):
        return UnsizedObject(called, "it is being deleted")
    try:
        bounds = bounds_of(annotations)
        template = template_of(annotations, spec.get("template") or {}, infrastructure or {})
    except BadAnnotation as error:
        return UnsizedObject(called, str(error), is_fault=True)
    except ValueError:
        return UnsizedObject(called, "its infrastructure template has an invalid capacity", is_fault=True)
    if bounds.largest == 0:
        return UnsizedObject(called, "its largest size is 0")
    if spec.get("paused") or PAUSED in annotations:
        return UnsizedObject(called, "it is paused")
    size = spec.get("replicas")
    if size is None:
        # As Cluster API's webhook defaults it: to 1 unless there are both bounds.
        default = bounds.smallest if MIN_SIZE in annotations and MAX_SIZE in annotations else 1
        return UnsizedObject(called, "it has no replicas yet", default=default, object=obj)
    if size == 0 and template is None:
        return UnsizedObject(called, "it has no nodes, and what they would offer is not known")
    options, faults = options_of(annotations)
    return NodeGroup(
        kind,
        metadata["namespace"],
        name,
        obj.uid,
        size,
        bounds.smallest,
        bounds.largest,
        obj,
        options,
        template,
        is_rolling=_is_rolling(manifest),
        provider_ids=tuple(provider_id(one) for one in spec.get("providerIDList") or ()),
        removing=tuple(filter(None, annotations.get(REMOVING, "").split(","))),
        faults=tuple(faults),
    )


def with_machines(
    group: NodeGroup, machines: Sequence[Machine], owners: Mapping[str, tuple[str, ...]]
) -> NodeGroup:
    """The group with its own machines; `owners` are the owners of MachineSets, by uid."""
    if group.kind == "MachinePool":
        return evolve(group, removing=still_going(group, group.removing, group.size))
    own = [
        machine
        for machine in machines
        if group.uid in machine.owners or any(group.uid in owners.get(one, ()) for one in machine.owners)
    ]
    found = evolve(group, machines=tuple(sorted(own, key=lambda machine: machine.name)))
    return evolve(found, removing=still_going(found, group.removing, group.size))


def _is_rolling(manifest: Mapping[str, Any]) -> bool:
    if manifest["kind"] != "MachineDeployment":
        return False
    status = manifest.get("status") or {}
    if status.get("observedGeneration", 0) < manifest["metadata"].get("generation", 0):
        return True
    current = status.get("upToDateReplicas", status.get("updatedReplicas"))
    return current is not None and bool(status.get("replicas", 0) > current)

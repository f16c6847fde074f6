"""cluster-autoscaler's tables about groups: what one is, its sizes, its machines."""

from collections.abc import Mapping
from typing import Any

import pytest

from controllers.nodegroups.cluster_reads import BadDiscovery, DiscoveryTerm
from controllers.nodegroups.group_annotations import CAPACITY, template_of
from controllers.nodegroups.machine import MachineState, read_machine
from controllers.nodegroups.node_group import (
    GroupRefused,
    NodeGroup,
    UnsizedObject,
    read_group,
    shrunk,
    with_machines,
)
from tests.controllers.nodegroups import STORED, group, machine


def a_group(
    machines: Mapping[str, MachineState], size: int, bounds: tuple[str, str] = ("1", "10")
) -> NodeGroup:
    """A group with machines by name and state."""
    found = read_group(group("g", size, bounds), STORED)
    assert isinstance(found, NodeGroup)
    return with_machines(found, [machine(name, state, STORED.uid) for name, state in machines.items()], {})


# What a group is.


CPU, MEMORY = {CAPACITY + "cpu": "2"}, {CAPACITY + "memory": "4Gi"}


@pytest.mark.rule("capi-2d-from-zero")
@pytest.mark.parametrize(
    ("annotations", "capacity", "known"),
    [
        ({**CPU, **MEMORY}, {}, True),
        (CPU, {}, False),
        (MEMORY, {}, False),
        ({}, {}, False),
        ({}, {"cpu": "1", "memory": "1Gi"}, True),
        ({}, {"cpu": "1"}, False),
        ({**CPU, **MEMORY}, {"cpu": "1", "memory": "1Gi"}, True),
        (CPU, {"nvidia.com/gpu": "1"}, False),
        (CPU, {"memory": "1Gi"}, True),
    ],
)
def test_a_group_can_grow_from_zero_if_cpu_and_memory_are_known(
    annotations: Mapping[str, str], capacity: Mapping[str, str], known: bool
) -> None:
    assert (template_of(annotations, {}, {"capacity": capacity}) is not None) is known
    found = read_group(group("g", 0, ("0", "3"), **annotations), STORED, {"capacity": capacity})
    assert isinstance(found, NodeGroup) is known


@pytest.mark.rule("capi-2d-replica-defaulting")
@pytest.mark.parametrize(("bounds", "default"), [((None, "7"), 1), (("0", "7"), 0), (("3", "7"), 3)])
def test_missing_replicas_are_derived_from_the_bounds(
    bounds: tuple[str | None, str | None], default: int
) -> None:
    found = read_group(group("g", None, bounds), STORED)
    assert isinstance(found, UnsizedObject)
    assert found.default == default


@pytest.mark.rule("node-groups-discovery")
def test_discovery_combines_namespace_cluster_and_labels() -> None:
    term = DiscoveryTerm.parse("clusterapi:namespace=stage,clusterName=one,team=a", "own")
    one = group("g")
    assert not term.means(one)
    one["metadata"]["labels"] = {"team": "a"}
    assert term.means(one)
    assert not DiscoveryTerm.parse("clusterapi:namespace=other", "stage").means(one)
    assert not DiscoveryTerm.parse("clusterapi:clusterName=two", "stage").means(one)
    assert DiscoveryTerm.parse("clusterapi:", "stage").means(one)
    assert DiscoveryTerm.parse("clusterapi:namespace=*", "x").means(one)


@pytest.mark.rule("node-groups-discovery")
@pytest.mark.parametrize("text", ["", "clusterapi", "aws:namespace=a", "clusterapi:namespace"])
def test_an_invalid_term_of_discovery_is_refused(text: str) -> None:
    with pytest.raises(BadDiscovery):
        DiscoveryTerm.parse(text, "own")


# Sizes.


RUNNING: Mapping[str, MachineState] = {"a": "running", "b": "running", "c": "running"}


@pytest.mark.rule("capi-2d-decrease")
@pytest.mark.parametrize(
    ("machines", "now", "size", "left"),
    [
        (RUNNING, 4, 3, 3),
        ({**RUNNING, "d": "deleting"}, 4, 3, 3),
        ({**RUNNING, "d": "failed"}, 4, 3, 3),
        ({**RUNNING, "d": "pending"}, 4, 3, 3),
        ({**RUNNING, "d": "pending", "e": "failed"}, 5, 3, 3),
        ({"a": "running", "b": "running", "c": "pending", "d": "failed", "e": "deleting"}, 5, 2, 2),
        (RUNNING, 3, 2, None),
        (RUNNING, 4, 5, 4),
        (RUNNING, 2, 2, 2),
    ],
)
def test_only_nodes_that_never_came_can_be_given_up(
    machines: Mapping[str, MachineState], now: int, size: int, left: int | None
) -> None:
    one = a_group(machines, now)
    if left is not None:
        assert shrunk(one, now, size) == left
        return
    with pytest.raises(GroupRefused, match=f"existing nodes - desired:{size} existing:3"):
        shrunk(one, now, size)


# Machines.


@pytest.mark.rule("capi-2d-instances")
@pytest.mark.parametrize(
    ("status", "spec", "metadata", "state"),
    [
        ({}, {}, {}, "pending"),
        ({"phase": "Running"}, {"providerID": "x:///1"}, {}, "running"),
        ({}, {"providerID": "x:///1"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "deleting"),
        ({"failureReason": "NoQuota"}, {}, {}, "failed"),
        ({"deprecated": {"v1beta1": {"failureMessage": "no"}}}, {"providerID": "x:///1"}, {}, "failed"),
    ],
)
def test_an_instance_has_the_state_of_its_machine(
    status: Mapping[str, Any], spec: Mapping[str, Any], metadata: Mapping[str, Any], state: str
) -> None:
    named = {"name": "m", "namespace": "stage", "uid": "m", **metadata}
    assert read_machine({"metadata": named, "spec": spec, "status": status}, STORED).state == state

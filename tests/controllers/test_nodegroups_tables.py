"""cluster-autoscaler's tables about groups: what one is, its bounds, what its nodes offer, its sizes."""

import datetime
from collections.abc import Mapping
from typing import Any

import pytest

from controllers.nodegroups.annotations import (
    CAPACITY,
    MAX_SIZE,
    MIN_SIZE,
    OPTIONS,
    PAUSED,
    BadAnnotation,
    Bounds,
    Options,
    bounds_of,
    options_of,
    template_of,
)
from controllers.nodegroups.groups import (
    NodeGroup,
    NoGroup,
    Refused,
    decreased,
    default_size,
    increased,
    read_group,
    with_machines,
)
from controllers.nodegroups.look import BadDiscovery, ClusterApi, Term
from controllers.nodegroups.machines import Machine, provider_id, read_machine
from reconcile import ObjectMeta
from reconcile.blocks import Taint, amounts_of
from tests.controllers.nodegroups import CAPACITIES, group

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
MACHINE = ClusterApi("cluster.x-k8s.io", "v1beta2").kind("Machine")
SOME = MACHINE(metadata=ObjectMeta("some", "stage", uid="some-uid", creation_timestamp=NOW))


def read(**given: Any) -> NodeGroup | NoGroup:
    return read_group(group("g", **given), SOME)


def a_group(machines: Mapping[str, str], size: int, bounds: tuple[str, str] = ("1", "10")) -> NodeGroup:
    """A group with machines by name and state."""
    found = read_group(group("g", size, bounds), SOME)
    assert isinstance(found, NodeGroup)
    made = [
        Machine(name, name, SOME, NOW, f"x:///{name}", state=state, owners=("some-uid",))  # type: ignore[arg-type]
        for name, state in machines.items()
    ]
    return with_machines(found, made, {})


# Annotations.


@pytest.mark.rule("capi-2d-bounds")
@pytest.mark.parametrize(
    ("smallest", "largest", "found"),
    [
        (None, None, Bounds(0, 0)),
        (None, "3", Bounds(0, 3)),
        ("0", "0", Bounds(0, 0)),
        ("0", "1", Bounds(0, 1)),
        ("2", "2", Bounds(2, 2)),
    ],
)
def test_bounds_are_read_and_one_that_is_missing_is_0(
    smallest: str | None, largest: str | None, found: Bounds
) -> None:
    said = {MIN_SIZE: smallest, MAX_SIZE: largest}
    assert bounds_of({name: value for name, value in said.items() if value is not None}) == found


@pytest.mark.rule("capi-2d-bounds")
@pytest.mark.parametrize(
    ("smallest", "largest", "named"),
    [
        ("-1", "1", MIN_SIZE),
        ("not-an-int", "1", MIN_SIZE),
        ("0", "-1", MAX_SIZE),
        ("0", "not-an-int", MAX_SIZE),
        ("1", "0", MAX_SIZE),
        ("1", "٣", MAX_SIZE),
    ],
)
def test_bounds_without_a_meaning_are_named(smallest: str, largest: str, named: str) -> None:
    with pytest.raises(BadAnnotation) as caught:
        bounds_of({MIN_SIZE: smallest, MAX_SIZE: largest})
    assert caught.value.annotation == named


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
def test_a_group_can_grow_from_zero_where_cpu_and_memory_are_known(
    annotations: Mapping[str, str], capacity: Mapping[str, str], known: bool
) -> None:
    template = template_of(annotations, {}, {"capacity": capacity})
    assert (template is not None) is known
    found = read_group(group("g", 0, ("0", "3"), **annotations), SOME, {"capacity": capacity})
    assert isinstance(found, NodeGroup) is known


@pytest.mark.rule("capi-2d-template")
def test_annotations_say_what_a_node_will_offer_and_stand_over_the_infrastructure() -> None:
    said = {
        "cpu": "2",
        "memory": "2048Mi",
        "ephemeral-disk": "100Gi",
        "maxPods": "42",
        "gpu-type": "amd.com/gpu",
        "gpu-count": "2",
        "labels": "zone=a,team=b",
        "taints": "a=b:NoSchedule,c:NoExecute",
    }
    annotations = {CAPACITY + name: value for name, value in said.items()}
    machine = {
        "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "mine": "not for the node"}},
        "spec": {"taints": [{"key": "a", "value": "x", "effect": "NoSchedule"}]},
    }
    status = {"capacity": {"cpu": "9", "hugepages-2Mi": "1Gi"}, "nodeInfo": {"architecture": "arm64"}}
    template = template_of(annotations, machine, status)
    assert template is not None
    assert template.free == amounts_of(
        {
            "cpu": "2",
            "memory": "2Gi",
            "ephemeral-storage": "100Gi",
            "pods": "42",
            "amd.com/gpu": "2",
            "hugepages-2Mi": "1Gi",
        }
    )
    assert template.labels == {
        "kubernetes.io/arch": "arm64",
        "kubernetes.io/os": "linux",
        "node-role.kubernetes.io/worker": "",
        "zone": "a",
        "team": "b",
    }
    assert template.taints == (Taint("a", "b", "NoSchedule"), Taint("c", "", "NoExecute"))


@pytest.mark.rule("capi-2d-template")
def test_without_a_number_a_node_takes_110_pods() -> None:
    template = template_of({**CPU, **MEMORY}, {}, {})
    assert template is not None
    assert template.free["pods"] == 110_000


@pytest.mark.rule("node-groups-bad-input")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cpu", "two"),
        ("memory", "-1"),
        ("labels", "a"),
        ("taints", "a"),
        ("taints", "a=b:Never"),
        ("gpu-count", "x"),
    ],
)
def test_a_capacity_without_a_meaning_is_a_fault_that_names_its_annotation(name: str, value: str) -> None:
    found = read_group(group("g", 1, **{**CAPACITIES, CAPACITY + name: value}), SOME)
    assert isinstance(found, NoGroup)
    assert (found.is_fault, CAPACITY + name in found.reason) == (True, True)


@pytest.mark.rule("capi-2d-options")
def test_options_of_a_group_stand_over_the_defaults_and_bad_ones_are_named() -> None:
    said = {
        "scaledownutilizationthreshold": "0.7",
        "scaledowngpuutilizationthreshold": "0.1",
        "scaledownunneededtime": "10m",
        "scaledownunreadytime": "1h",
        "maxnodeprovisiontime": "25m",
        "maxnodestartuptime": "90s",
    }
    found, faults = options_of({OPTIONS + name: value for name, value in said.items()})
    assert (found, faults) == (Options(700, 100, 600.0, 3600.0, 1500.0, 90.0), [])
    bad = {OPTIONS + "scaledownunneededtime": "soon", OPTIONS + "scaledownutilizationthreshold": "2"}
    found, faults = options_of(bad)
    assert found == Options()
    assert [fault.split()[1] for fault in faults] == [
        OPTIONS + "scaledownutilizationthreshold",
        OPTIONS + "scaledownunneededtime",
    ]


# What a group is.


@pytest.mark.rule("capi-2d-new-node-group")
@pytest.mark.parametrize("kind", ["MachineDeployment", "MachineSet", "MachinePool"])
@pytest.mark.parametrize(
    ("bounds", "replicas", "what"),
    [
        (("-1", "1"), 1, "fault"),
        (("1", "x"), 1, "fault"),
        (("2", "1"), 1, "fault"),
        (("0", "0"), 1, "none"),
        (("1", "10"), 0, "none"),
        (("2", "2"), 1, "group"),
        (("1", "10"), 1, "group"),
    ],
)
def test_what_is_a_group_is_told_by_its_bounds_and_replicas(
    kind: str, bounds: tuple[str, str], replicas: int, what: str
) -> None:
    found = read_group(group("g", replicas, bounds, kind), SOME)
    told = "group" if isinstance(found, NodeGroup) else "fault" if found.is_fault else "none"
    assert told == what


@pytest.mark.rule("capi-2d-paused")
def test_a_paused_object_is_no_group_by_spec_or_by_annotation() -> None:
    by_annotation = read(**{PAUSED: "true"})
    paused = group("g")
    by_spec = read_group({**paused, "spec": {**paused["spec"], "paused": True}}, SOME)
    assert [type(one) for one in (by_annotation, by_spec)] == [NoGroup, NoGroup]


@pytest.mark.parametrize(
    ("kind", "status", "rolling"),
    [
        ("MachineDeployment", {}, False),
        ("MachineDeployment", {"replicas": 3}, False),
        ("MachineDeployment", {"replicas": 3, "upToDateReplicas": 3}, False),
        ("MachineDeployment", {"replicas": 3, "upToDateReplicas": 2}, True),
        ("MachineDeployment", {"replicas": 3, "updatedReplicas": 2}, True),
        ("MachineDeployment", {"replicas": 3, "upToDateReplicas": 3, "observedGeneration": 1}, True),
        ("MachineDeployment", {"replicas": 3, "upToDateReplicas": 3, "observedGeneration": 2}, False),
        ("MachineSet", {"replicas": 3, "upToDateReplicas": 2}, False),
    ],
)
def test_a_machine_deployment_rolls_while_machines_are_of_another_template(
    kind: str, status: dict[str, int], rolling: bool
) -> None:
    given = group("g", 3, kind=kind)
    if "observedGeneration" in status:
        given["metadata"]["generation"] = 2
    found = read_group({**given, "status": status}, SOME)
    assert isinstance(found, NodeGroup)
    assert found.is_rolling is rolling


@pytest.mark.rule("capi-2d-new-node-group")
def test_a_machine_set_of_a_machine_deployment_is_no_group_of_its_own() -> None:
    owned = group("g", kind="MachineSet")
    owner = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "name": "d", "uid": "d"}
    owned["metadata"]["ownerReferences"] = [owner]
    found = read_group(owned, SOME)
    assert isinstance(found, NoGroup)
    assert not found.is_fault


@pytest.mark.rule("capi-2d-replica-defaulting")
@pytest.mark.parametrize(
    ("new", "old", "bounds", "size"),
    [
        (5, None, ("3", "7"), 5),
        (None, None, (None, None), 1),
        (None, None, ("3", None), 1),
        (None, None, (None, "7"), 1),
        (None, None, ("3", "7"), 3),
        (None, 1, ("3", "7"), 3),
        (None, 9, ("3", "7"), 7),
        (None, 4, ("3", "7"), 4),
    ],
)
def test_replicas_that_are_not_given_come_of_the_bounds(
    new: int | None, old: int | None, bounds: tuple[str | None, str | None], size: int
) -> None:
    said = {name: value for name, value in zip((MIN_SIZE, MAX_SIZE), bounds, strict=True) if value}
    assert default_size(new, old, said) == size


@pytest.mark.rule("capi-2d-replica-defaulting")
@pytest.mark.parametrize("bounds", [("abc", "7"), ("3", "abc")])
def test_replicas_do_not_come_of_bounds_without_a_meaning(bounds: tuple[str, str]) -> None:
    with pytest.raises(BadAnnotation):
        default_size(None, None, dict(zip((MIN_SIZE, MAX_SIZE), bounds, strict=True)))


@pytest.mark.rule("node-groups-discovery")
def test_discovery_goes_by_namespace_cluster_and_labels_together() -> None:
    term = Term.parse("clusterapi:namespace=stage,clusterName=one,team=a", "own")
    one = group("g")
    assert not term.means(one)
    one["metadata"]["labels"] = {"team": "a"}
    assert term.means(one)
    assert not Term.parse("clusterapi:namespace=other", "stage").means(one)
    assert not Term.parse("clusterapi:clusterName=two", "stage").means(one)
    assert Term.parse("clusterapi:", "stage").means(one)
    assert Term.parse("clusterapi:namespace=*", "x").means(one)


@pytest.mark.rule("node-groups-discovery")
@pytest.mark.parametrize("text", ["", "clusterapi", "aws:namespace=a", "clusterapi:namespace"])
def test_a_term_of_discovery_without_a_meaning_is_refused(text: str) -> None:
    with pytest.raises(BadDiscovery):
        Term.parse(text, "own")


# Sizes.


@pytest.mark.rule("capi-2d-increase")
def test_a_group_grows_by_one_or_more_and_not_past_its_largest_size() -> None:
    three = a_group(dict.fromkeys(("a", "b", "c"), "running"), 3)
    assert increased(three, 3, 1) == 4
    for delta in (-1, 0):
        with pytest.raises(Refused):
            increased(three, 3, delta)
    with pytest.raises(Refused, match="size increase too large - desired:11 max:10"):
        increased(three, 3, 8)


RUNNING = {"a": "running", "b": "running", "c": "running"}


@pytest.mark.rule("capi-2d-decrease")
@pytest.mark.parametrize(
    ("machines", "size", "delta", "left"),
    [
        (RUNNING, 4, -1, 3),
        ({**RUNNING, "d": "deleting"}, 4, -1, 3),
        ({**RUNNING, "d": "failed"}, 4, -1, 3),
        ({**RUNNING, "d": "pending"}, 4, -1, 3),
        ({**RUNNING, "d": "pending", "e": "failed"}, 5, -2, 3),
        ({"a": "running", "b": "running", "c": "pending", "d": "failed", "e": "deleting"}, 5, -3, 2),
        (RUNNING, 3, -1, None),
        (RUNNING, 4, 1, None),
        (RUNNING, 4, 0, None),
    ],
)
def test_what_never_came_can_be_taken_back_and_nothing_else(
    machines: Mapping[str, str], size: int, delta: int, left: int | None
) -> None:
    one = a_group(machines, size)
    if left is not None:
        assert decreased(one, size, delta) == left
        return
    with pytest.raises(Refused):
        decreased(one, size, delta)


# Machines.


def machine(status: Mapping[str, Any], spec: Mapping[str, Any] = {}, **metadata: Any) -> Machine:
    manifest = {
        "metadata": {"name": "m", "namespace": "stage", "uid": "m", **metadata},
        "spec": dict(spec),
        "status": dict(status),
    }
    return read_machine(manifest, SOME)


@pytest.mark.rule("capi-2d-instances")
@pytest.mark.parametrize(
    ("status", "spec", "metadata", "instance"),
    [
        ({}, {}, {}, ("pending-machine-m", "Creating", "")),
        ({"phase": "Running"}, {"providerID": "x:///1"}, {}, ("x:/1", "Running", "")),
        (
            {},
            {"providerID": "x:///1"},
            {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            ("x:/1", "Deleting", ""),
        ),
        ({"failureReason": "NoQuota"}, {}, {}, ("failed-machine-m", "Creating", "NoQuota")),
        (
            {"deprecated": {"v1beta1": {"failureMessage": "no"}}},
            {"providerID": "x:///1"},
            {},
            ("x:/1", "Creating", "Failed"),
        ),
    ],
)
def test_the_state_of_an_instance_is_that_of_its_machine(
    status: Mapping[str, Any],
    spec: Mapping[str, Any],
    metadata: Mapping[str, Any],
    instance: tuple[str, str, str],
) -> None:
    found = machine(status, spec, **metadata).instance
    assert (found.id, found.state, found.error) == instance


@pytest.mark.rule("capi-2d-provider-ids")
def test_provider_ids_are_one_whatever_the_number_of_slashes_and_differ_by_all_else() -> None:
    assert provider_id("aws:////zone/i-1") == provider_id("aws:///zone/i-1")
    assert provider_id("azure:///a/virtualMachines/0") != provider_id("azure:///b/virtualMachines/0")
    assert provider_id("plain") == "plain"

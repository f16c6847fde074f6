"""Groups and machines as they are read, whole: which objects are groups, whose machines, what is going."""

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve

from controllers.nodegroups.group_annotations import (
    DELETE_MACHINE,
    MARKED,
    MAX_SIZE,
    OPTIONS,
    PAUSED,
    GroupOptions,
)
from controllers.nodegroups.machine import Machine, MachineState, provider_id, read_machine
from controllers.nodegroups.node_group import (
    REMOVING,
    NodeGroup,
    UnsizedObject,
    read_group,
    still_going,
    with_machines,
)
from reconcile import ObjectMeta
from tests.controllers.nodegroups import API, CAPACITIES, MADE, STORED, group, machine


def plain(kind: Any = "MachineDeployment", size: int = 3, **given: Any) -> NodeGroup:
    """A group of the uid `m-uid`, from 1 to 10 nodes."""
    return NodeGroup(kind, "stage", "g", "m-uid", size, 1, 10, STORED, **given)


def manifest(
    spec: dict[str, Any] | None = None, kind: str = "MachineDeployment", **metadata: Any
) -> dict[str, Any]:
    made = group("g", 3, kind=kind)
    metadata = {**made["metadata"], **metadata}
    return {**made, "metadata": metadata, "spec": {**made["spec"], **(spec or {})}}


# Which objects are groups.


@pytest.mark.rule("capi-2d-new-node-group")
def test_a_group_has_its_name_bounds_options_and_a_template_of_its_nodes() -> None:
    said = {**CAPACITIES, OPTIONS + "scaledownunneededtime": "5m", OPTIONS + "maxnodestartuptime": "x"}
    given = group("g", 3, ("2", "9"), "MachineSet", **said, **{REMOVING: "b,,a"})
    given["metadata"]["ownerReferences"] = [{"kind": "Cluster", "name": "one"}]
    given["spec"]["template"]["metadata"]["labels"] = {"node-role.kubernetes.io/worker": ""}
    found = read_group(given, STORED, {"capacity": {"cpu": "1", "nvidia.com/gpu": "1"}})
    assert isinstance(found, NodeGroup)
    assert found.template is not None
    assert found == NodeGroup(
        "MachineSet",
        "stage",
        "g",
        "m-uid",
        3,
        2,
        9,
        STORED,
        GroupOptions(unneeded=300.0),
        found.template,
        removing=("b", "a"),
        faults=(f"annotation {OPTIONS}maxnodestartuptime: expected a duration such as 10m",),
    )
    assert found.template.free["cpu"] == 4000
    assert found.template.free["nvidia.com/gpu"] == 1000
    assert "node-role.kubernetes.io/worker" in found.template.labels
    assert found.id == "MachineSet/stage/g"


@pytest.mark.rule("capi-2d-new-node-group")
def test_a_machine_pool_has_the_instances_that_it_lists() -> None:
    found = read_group(manifest({"providerIDList": ["x:////a", "x:///b"]}, "MachinePool"), STORED)
    assert found == plain("MachinePool", provider_ids=("x:/a", "x:/b"))
    assert (plain("MachinePool").instances, plain("MachinePool").existing) == (0, 0)


@pytest.mark.rule("capi-2d-new-node-group", "capi-2d-paused", "node-groups-bad-input")
@pytest.mark.parametrize(
    ("given", "infrastructure", "none"),
    [
        (
            manifest(kind="MachineSet", ownerReferences=[{"kind": "MachineDeployment"}]),
            {},
            UnsizedObject("MachineSet/stage/g", "its MachineDeployment is sized"),
        ),
        (manifest(deletionTimestamp="2026-01-01T00:00:00Z"), {}, UnsizedObject("", "it is being deleted")),
        (manifest(annotations=None), {}, UnsizedObject("", "its largest size is 0")),
        (manifest({"paused": True}), {}, UnsizedObject("", "it is paused")),
        (group("g", **{PAUSED: ""}), {}, UnsizedObject("", "it is paused")),
        (
            group("g", 0),
            {"capacity": {"cpu": "1"}},
            UnsizedObject("", "it has no nodes, and what they would offer is not known"),
        ),
        (
            group("g", None, ("2", "5")),
            {},
            UnsizedObject("", "it has no replicas yet", default=2, object=STORED),
        ),
        (
            group("g", 1, ("1", "many")),
            {},
            UnsizedObject("", f"annotation {MAX_SIZE}: expected a number of nodes, 0 or more", is_fault=True),
        ),
        (
            group("g"),
            {"capacity": {"cpu": "many"}},
            UnsizedObject("", "its infrastructure template has an invalid capacity", is_fault=True),
        ),
    ],
)
def test_an_object_that_is_not_sized_has_a_reason_and_may_be_a_fault(
    given: dict[str, Any], infrastructure: dict[str, Any], none: UnsizedObject
) -> None:
    assert read_group(given, STORED, infrastructure) == evolve(
        none, id=none.id or "MachineDeployment/stage/g"
    )


@pytest.mark.rule("capi-2d-new-node-group")
def test_a_machine_deployment_owned_by_another_one_is_a_group() -> None:
    owned = manifest(ownerReferences=[{"kind": "MachineDeployment"}])
    assert isinstance(read_group(owned, STORED), NodeGroup)


@pytest.mark.rule("node-groups-rollout")
@pytest.mark.parametrize(
    ("generation", "status", "rolling"),
    [
        (1, {}, True),
        (1, None, True),
        (1, {"observedGeneration": 1}, False),
        (2, {"observedGeneration": 3, "upToDateReplicas": 0}, False),
        (1, {"observedGeneration": 1, "replicas": 1, "upToDateReplicas": 0}, True),
        (1, {"observedGeneration": 1, "replicas": 3, "upToDateReplicas": 3, "updatedReplicas": 0}, False),
        (1, {"observedGeneration": 1, "replicas": 2, "upToDateReplicas": 3}, False),
        (1, {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 2}, True),
    ],
)
def test_a_deployment_is_rolling_until_its_newest_generation_is_observed_on_all_machines(
    generation: int, status: dict[str, int] | None, rolling: bool
) -> None:
    found = read_group({**manifest(generation=generation), "status": status}, STORED)
    assert isinstance(found, NodeGroup)
    assert found.is_rolling is rolling


# Machines of groups.


@pytest.mark.rule("capi-2d-delete-undo")
@pytest.mark.parametrize(
    ("counted", "size", "going"),
    [
        (("c", "a"), 2, ("a", "c")),
        (("c", "a"), 3, ("a",)),
        (("c", "a"), 4, ()),
        (("c", "a"), 5, ()),
        (("a", "d", "gone"), 0, ("a",)),
        ((), 0, ()),
    ],
)
def test_no_more_counted_machines_are_still_being_removed_than_the_size_falls_short(
    counted: tuple[str, ...], size: int, going: tuple[str, ...]
) -> None:
    states: Sequence[MachineState] = ("running", "pending", "failed", "deleting", "running")
    assert still_going(plain(machines=tuple(map(machine, "abcde", states))), counted, size) == going


@pytest.mark.rule("capi-2d-delete-undo")
def test_a_group_has_its_own_machines_or_those_of_its_machine_sets_by_name() -> None:
    machines = [
        machine("d", "running", "set-uid"),
        machine("c", "running", "other-uid", "m-uid"),
        machine("b", "running", "other-uid"),
        machine("a", "running", "first-uid", "set-uid"),
        machine("e"),
    ]
    owners = {"set-uid": ("x-uid", "m-uid"), "other-uid": ("x-uid",)}
    found = with_machines(plain(size=2, removing=("c", "b")), machines, owners)
    assert found == plain(size=2, machines=(machines[3], machines[1], machines[0]), removing=("c",))


@pytest.mark.rule("capi-2d-delete-undo")
def test_a_machine_pool_has_instances_and_no_machines() -> None:
    pool = plain("MachinePool", 1, provider_ids=("x:/a", "x:/b"), removing=("x:/b", "x:/a"))
    found = with_machines(pool, [machine("a", "running", "m-uid")], {})
    assert found == evolve(pool, removing=("x:/a",))


@pytest.mark.rule("capi-2d-instances")
def test_all_fields_of_a_machine_are_read() -> None:
    metadata = {
        "name": "m",
        "namespace": "stage",
        "uid": "u",
        "annotations": {DELETE_MACHINE: "", MARKED: "true"},
        "ownerReferences": [{"uid": "a"}, {"uid": "b"}],
    }
    status = {"failureReason": "NoQuota", "failureMessage": "no quota is left"}
    found = read_machine({"metadata": metadata, "spec": {"providerID": "x:///m"}, "status": status}, STORED)
    assert found == Machine("m", "u", STORED, MADE, "x:/m", True, True, "failed", ("a", "b"))
    bare = {"metadata": {"name": "m", "uid": "u", "annotations": None}, "spec": None}
    assert read_machine(bare, STORED) == Machine("m", "u", STORED, MADE)
    for name, marks in ((DELETE_MACHINE, (True, False)), (MARKED, (False, True))):
        one = read_machine({"metadata": {**metadata, "annotations": {name: ""}}}, STORED)
        assert (one.marked, one.marked_by_us) == marks


@pytest.mark.rule("capi-2d-instances")
@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({"phase": "Deleting"}, "deleting"),
        ({"phase": "Deleting", "failureReason": "Gone"}, "deleting"),
        ({"phase": "Failed"}, "failed"),
        ({"failureMessage": "no"}, "failed"),
        ({"deprecated": {"v1beta1": {"failureReason": "NoQuota"}}}, "failed"),
        ({"deprecated": {"v1beta1": None}}, "running"),
        ({"deprecated": {"v1beta1": {"failureReason": None}}, "phase": "Running"}, "running"),
    ],
)
def test_a_terminal_failure_of_a_machine_is_read_from_three_places(
    status: dict[str, Any], state: str
) -> None:
    given = {"metadata": {"name": "m", "uid": "u"}, "spec": {"providerID": "x"}, "status": status}
    assert read_machine(given, STORED).state == state


@pytest.mark.rule("node-groups-bad-input")
def test_a_machine_that_was_never_stored_has_no_age() -> None:
    unstored = API.kind("Machine")(metadata=ObjectMeta("m", "stage"))
    with pytest.raises(ValueError, match=r"^a machine that no server has stored$"):
        read_machine({"metadata": {"name": "m", "uid": "u"}}, unstored)


@pytest.mark.rule("capi-2d-provider-ids")
@pytest.mark.parametrize(
    ("said", "one"),
    [
        ("aws:////zone//i-1", "aws:/zone/i-1"),
        ("aws:/zone/i-1", "aws:/zone/i-1"),
        ("a:b://c", "a:b:/c"),
        ("a://b//c:d", "a:/b/c:d"),
        ("//no//scheme", "//no//scheme"),
        ("", ""),
    ],
)
def test_in_a_provider_id_only_the_slashes_after_the_scheme_are_collapsed(said: str, one: str) -> None:
    assert provider_id(said) == one

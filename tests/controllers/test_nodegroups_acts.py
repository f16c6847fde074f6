"""Sizes and machines on a server: what is written, what is not, and what two writers do to each other."""

from typing import Any

import anyio
import pytest

from controllers.nodegroups.group_annotations import DELETE_MACHINE, MARKED
from controllers.nodegroups.group_writes import (
    NodeRemoval,
    delete_nodes,
    grow_to,
    plan_removal,
    set_first_size,
    shrink_to,
    unmark_strays,
)
from controllers.nodegroups.node_group import REMOVING, GroupRefused, NodeGroup
from reconcile import Object, ObjectMeta, Unstructured
from reconcile.errors import (
    Forbidden,
    Invalid,
    OutcomeUnknown,
    PreconditionFailed,
    ServerError,
    ServerTimeout,
    StaleVersion,
)
from reconcile.kinds import Namespace
from reconcile.testing import FakeClient, LoseReply, Refuse
from tests.controllers.nodegroups import (
    API,
    MACHINES,
    add_machines,
    definitions,
    group,
    groups_of,
    marked,
    size_of,
)
from tests.controllers.world import NAMESPACE

STAMP = "2026-01-01T00:00:00Z"
KINDS = ("MachineDeployment", "MachineSet", "MachinePool")


async def server(*objects: dict[str, Any], published: bool = False) -> FakeClient:
    client = FakeClient(Namespace(metadata=ObjectMeta(NAMESPACE)))
    for definition in definitions() if published else MACHINES.definitions(scaled=KINDS):
        await client.apply(definition)
    for one in objects:
        await client.create(one)
    return client


async def sized(client: FakeClient, kind: str = "MachineDeployment", name: str = "g") -> int:
    found = await client.get(API.kind(kind), name, NAMESPACE, live=True)
    return int(found["spec"]["replicas"])


async def three(**given: Any) -> tuple[FakeClient, NodeGroup]:
    """A group of three nodes."""
    client = await server(group("g", 3, **given))
    await add_machines(client, "g", ("a", "b", "c"))
    return client, (await groups_of(client))["g"]


@pytest.mark.rule("capi-2d-setsize")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_size_can_be_set_to_5_and_to_0_which_really_is_0(kind: str) -> None:
    client = await server(group("g", 1, ("0", "10"), kind), published=True)
    obj = await client.get(API.kind(kind), "g", NAMESPACE, live=True)
    assert await client.scale(obj, lambda _: 5) == 5
    assert await sized(client, kind) == 5
    assert await client.scale(obj, lambda _: 0) == 0
    assert await sized(client, kind) == 0


@pytest.mark.rule("capi-2d-replicas-live")
async def test_the_size_of_a_group_is_the_one_on_the_server() -> None:
    client, before = await three()
    await client.scale(before.object, lambda _: 7)
    assert (await groups_of(client))["g"].size == 7


@pytest.mark.rule("capi-2d-increase")
async def test_two_writers_that_each_add_one_add_two() -> None:
    client, one = await three()
    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(client.scale, one.object, lambda size: size + 1)
    assert await sized(client) == 5


@pytest.mark.rule("capi-2d-lost-update")
async def test_growing_does_not_undo_a_concurrent_increase() -> None:
    client, one = await three()
    await client.scale(one.object, lambda _: 8)
    assert await grow_to(client, one, 5) == 8
    assert await sized(client) == 8


@pytest.mark.rule("capi-2d-increase")
async def test_a_group_grows_to_its_largest_size_at_most() -> None:
    client, one = await three()
    assert [await grow_to(client, one, size) for size in (4, 11)] == [4, 10]
    assert await sized(client) == 10


@pytest.mark.rule("capi-2d-decrease")
async def test_a_decrease_stops_at_the_existing_number() -> None:
    client = await server(group("g", 5))
    await add_machines(client, "g", ("a", "b", "c"))
    one = (await groups_of(client))["g"]
    assert await shrink_to(client, one, 4) == 4
    with pytest.raises(GroupRefused):
        await shrink_to(client, one, 2)
    assert await shrink_to(client, one, 3) == 3
    sent = len(client.transport.writes)
    assert [await shrink_to(client, one, size) for size in (3, 7)] == [3, 3]
    assert (await sized(client), len(client.transport.writes)) == (3, sent)


# Taking nodes away.


@pytest.mark.rule("capi-2d-delete-nodes")
async def test_a_removal_plan_has_the_remaining_steps_or_a_refusal() -> None:
    client, one = await three(bounds=("2", "10"))
    await delete_nodes(client, one, ["b"], STAMP)
    one = (await groups_of(client))["g"]
    plan = plan_removal(one, ["c", "b"], 3)
    assert ([machine.name for machine in plan.mark], plan.count) == (["c"], ("c",))
    assert plan_removal(one, ["b"]) == NodeRemoval((), ())
    with pytest.raises(GroupRefused) as refused:
        plan_removal(one, ["c", "a"])
    assert str(refused.value) == f"group {one.id} would have 0 nodes, fewer than 2"
    with pytest.raises(GroupRefused) as refused:
        plan_removal(one, ["z", "a", "y"])
    assert str(refused.value) == f"y, z: not in group {one.id}"


@pytest.mark.rule("capi-2d-delete-nodes")
@pytest.mark.parametrize("size", [2, 0])
async def test_the_minimum_size_is_enforced_against_the_server_and_leaves_no_mark(size: int) -> None:
    client, one = await three(bounds=("2" if size else "0", "10"))
    live = await client.get(API.kind("MachineDeployment"), "g", NAMESPACE, live=True)
    await client.raw.merge(live, {"spec": {"replicas": size}}, guard={})
    with pytest.raises(GroupRefused, match=f"would have {size - 1} nodes"):
        await delete_nodes(client, one, ["a"], STAMP)
    assert (await marked(client), await sized(client)) == (set(), size)


@pytest.mark.rule("capi-2d-delete-nodes")
async def test_nodes_counted_earlier_stay_counted_when_others_are_added() -> None:
    client, one = await three()
    await delete_nodes(client, one, ["a"], STAMP)
    await delete_nodes(client, one, ["b"], STAMP)
    live = await client.get(API.kind("MachineDeployment"), "g", NAMESPACE, live=True)
    assert live.metadata.annotations[REMOVING] == "a,b"
    assert await delete_nodes(client, one, ["a", "b"], STAMP) == 0
    found = await client.list(API.kind("Machine"), NAMESPACE, live=True)
    marks = {one.name: one.metadata.annotations.get(MARKED) for one in found}
    assert (marks, await sized(client)) == ({"a": "true", "b": "true", "c": None}, 1)


@pytest.mark.rule("capi-2d-delete-nodes")
@pytest.mark.parametrize(("names", "left"), [("ac", 1), ("abc", 0)])
async def test_removed_nodes_are_marked_and_reduce_the_size_by_their_number(names: str, left: int) -> None:
    client, one = await three(bounds=("0", "10"))
    assert await delete_nodes(client, one, list(names), STAMP) == len(names)
    assert (await marked(client), await sized(client)) == (set(names), left)


@pytest.mark.rule("capi-2d-delete-nodes")
async def test_nodes_that_are_already_being_removed_are_not_counted_twice() -> None:
    client, one = await three()
    await delete_nodes(client, one, ["a"], STAMP)
    assert await delete_nodes(client, one, ["a"], STAMP) == 0, "from a view older than the write"
    assert await sized(client) == 2
    again = (await groups_of(client))["g"]
    assert await delete_nodes(client, again, ["a"], STAMP) == 0
    assert await sized(client) == 2


@pytest.mark.rule("capi-2d-delete-nodes")
async def test_nodes_of_another_group_are_refused_before_anything_changes() -> None:
    client = await server(group("g", 3), group("h", 1))
    await add_machines(client, "g", ("a", "b", "c"))
    await add_machines(client, "h", ("x",))
    sent = len(client.transport.writes)
    with pytest.raises(GroupRefused, match="x: not in group"):
        await delete_nodes(client, (await groups_of(client))["g"], ["a", "x"], STAMP)
    assert len(client.transport.writes) == sent


@pytest.mark.rule("capi-2d-delete-nodes")
async def test_a_node_of_a_machine_pool_is_removed_if_its_instance_belongs_to_the_pool() -> None:
    pool = group("g", 2, kind="MachinePool")
    pool["spec"]["providerIDList"] = ["x:///a", "x:///b"]
    client = await server(pool)
    one = (await groups_of(client))["g"]
    with pytest.raises(GroupRefused):
        await delete_nodes(client, one, ["x:/z"], STAMP)
    await delete_nodes(client, one, ["x:/a"], STAMP)
    await delete_nodes(client, one, ["x:/a"], STAMP)
    assert await sized(client, "MachinePool") == 1


@pytest.mark.rule("capi-2d-delete-undo")
@pytest.mark.parametrize("error", [Forbidden(403, "Forbidden", "no"), Invalid(422, "Invalid", "no")])
async def test_marks_are_removed_if_the_size_cannot_be_written(error: Exception) -> None:
    client, one = await three()
    client.fail("patch", "*/machinedeployments/g", error)
    with pytest.raises(type(error)):
        await delete_nodes(client, one, ["a", "b"], STAMP)
    assert (await marked(client), await sized(client)) == (set(), 3)


@pytest.mark.rule("capi-2d-delete-undo")
@pytest.mark.parametrize("fault", [LoseReply(), Refuse(500, applied=True), Refuse(500)])
async def test_after_a_lost_answer_the_same_nodes_are_not_counted_again(fault: LoseReply | Refuse) -> None:
    client, one = await three()
    client.fail("patch", "*/machinedeployments/g", fault)
    with pytest.raises((OutcomeUnknown, ServerError)):
        await delete_nodes(client, one, ["a"], STAMP)
    again = (await groups_of(client))["g"]
    await delete_nodes(client, again, ["a"], STAMP)
    assert (await marked(client), await sized(client)) == ({"a"}, 2)


@pytest.mark.rule("capi-2d-delete-undo")
async def test_nodes_marked_before_a_crash_are_counted_by_the_next_attempt() -> None:
    client, one = await three()
    client.fail("patch", "*/machinedeployments/g", 504)
    with pytest.raises(ServerTimeout):
        await delete_nodes(client, one, ["a"], STAMP)
    assert (await marked(client), await sized(client)) == ({"a"}, 3)
    await delete_nodes(client, (await groups_of(client))["g"], ["a"], STAMP)
    assert (await marked(client), await sized(client)) == ({"a"}, 2)


@pytest.mark.rule("capi-2d-lost-update")
async def test_concurrent_removals_of_different_nodes_both_succeed() -> None:
    client, one = await three()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(delete_nodes, client, one, ["a"], STAMP)
        tasks.start_soon(delete_nodes, client, one, ["b"], STAMP)
    assert (await marked(client), await sized(client)) == ({"a", "b"}, 1)


@pytest.mark.rule("capi-2d-delete-machines")
async def test_machines_that_are_already_being_deleted_satisfy_the_request() -> None:
    client = await server(group("g", 4))
    await add_machines(client, "g", ("m1", "m3"))
    await add_machines(client, "g", ("m2", "m4"), phase="Deleting")
    one = (await groups_of(client))["g"]
    removal = plan_removal(one, ["m2", "m4"])
    assert (removal.mark, removal.count) == ((), ())
    assert await delete_nodes(client, one, ["m2", "m4"], STAMP) == 0


@pytest.mark.rule("capi-2d-replica-defaulting")
async def test_a_group_without_replicas_gets_its_first_ones_unless_it_has_them_by_then() -> None:
    client = await server(group("g", None, ("2", "5")))
    obj = await client.get(API.kind("MachineDeployment"), "g", NAMESPACE, live=True)
    await set_first_size(client, obj, 2)
    await set_first_size(client, obj, 4)
    assert await size_of(client, "g") == 2


@pytest.mark.rule("capi-2d-delete-undo")
async def test_a_counted_machine_that_stayed_because_another_was_deleted_can_be_removed_later() -> None:
    client, one = await three()
    await delete_nodes(client, one, ["a"], STAMP)
    other = await client.get(API.kind("Machine"), "b", NAMESPACE, live=True)
    await client.delete(other)
    assert await delete_nodes(client, (await groups_of(client))["g"], ["a"], STAMP) == 1
    assert await sized(client) == 1


@pytest.mark.rule("capi-2d-delete-undo")
async def test_a_mark_left_by_a_lost_answer_is_removed_and_manual_marks_are_not() -> None:
    client, one = await three()
    client.fail("patch", "*/machines/a", LoseReply())
    with pytest.raises(OutcomeUnknown):
        await delete_nodes(client, one, ["a"], STAMP)
    own = await client.get(API.kind("Machine"), "b", NAMESPACE, live=True)
    await client.raw.merge(own, {"metadata": {"annotations": {DELETE_MACHINE: "yes"}}}, guard={})
    assert await marked(client) == {"a", "b"}
    await unmark_strays(client, (await groups_of(client))["g"])
    assert await marked(client) == {"b"}


@pytest.mark.rule("capi-2d-delete-undo")
async def test_the_mark_of_a_recreated_machine_is_not_removed() -> None:
    client, one = await three()
    client.fail("patch", "*/machines/a", LoseReply())
    with pytest.raises(OutcomeUnknown):
        await delete_nodes(client, one, ["a"], STAMP)
    seen = (await groups_of(client))["g"]
    live = await client.get(API.kind("Machine"), "a", NAMESPACE, live=True)
    await client.delete(live)
    await client.create({**live.body, "metadata": {"name": "a", "namespace": NAMESPACE}})
    again = await client.get(API.kind("Machine"), "a", NAMESPACE, live=True)
    await client.raw.merge(again, {"metadata": {"annotations": {DELETE_MACHINE: "yes"}}}, guard={})
    with pytest.raises(PreconditionFailed):
        await unmark_strays(client, seen)
    assert await marked(client) == {"a"}


# Cluster API's rows about patches, which are the client's.


def labelled(live: Unstructured) -> Unstructured:
    labels = {**live.metadata.labels, "seen": "yes"}
    body = {**live.body, "metadata": {**live["metadata"], "labels": labels}}
    return live.with_metadata(labels=labels).replace(body=body)


@pytest.mark.rule("capi-2d-patch")
async def test_nothing_is_sent_if_nothing_has_changed() -> None:
    client, one = await three()
    sent = len(client.transport.writes)
    kind: Any = type(one.object)
    await client.modify(kind, "g", NAMESPACE, lambda live: live)
    await client.modify(kind, "g", NAMESPACE, lambda live: live, subresource="status")
    assert len(client.transport.writes) == sent


@pytest.mark.rule("capi-2d-patch")
async def test_a_resolvable_conflict_is_resolved_on_fresh_state() -> None:
    client, one = await three()
    kind: Any = type(one.object)
    client.fail("patch", "*/machinedeployments/g", StaleVersion(409, "Conflict", "changed"))
    await client.modify(kind, "g", NAMESPACE, labelled)
    assert (await client.get(kind, "g", NAMESPACE, live=True)).metadata.labels["seen"] == "yes"


@pytest.mark.rule("capi-2d-patch")
async def test_an_unresolvable_conflict_is_an_error() -> None:
    client, one = await three()
    await client.raw.merge(one.object, {"metadata": {"labels": {"other": "1"}}}, guard={})
    version = {"resourceVersion": one.object.metadata.resource_version}
    with pytest.raises(StaleVersion):
        await client.raw.merge(one.object, {"spec": {"replicas": 9}}, guard=version)


@pytest.mark.rule("capi-2d-patch")
async def test_a_patch_does_not_apply_to_a_recreated_object() -> None:
    client, one = await three()
    await client.delete(one.object)
    await client.create(group("g", 1))
    replaced: Object = one.object
    with pytest.raises(PreconditionFailed):
        await client.raw.merge(replaced, {"metadata": {"labels": {"mine": "1"}}})
    with pytest.raises(PreconditionFailed):
        await grow_to(client, one, 5)

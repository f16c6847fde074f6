"""Changing what is there: only what changed is sent, and nobody else's work is undone."""

from typing import Any

import pytest
from attrs import frozen

from informers import Cache, InformerOptions, PreconditionFailed, StaleVersion
from reconcile import Client, Condition, Object, ObjectMeta, kind_of, resource
from reconcile.client.client import core_of
from reconcile.kinds import ConfigMap
from reconcile.models import unstructured_kind
from reconcile.testing import FakeClient, Fault, FaultPlan, RefuseAsStale, When
from tests.helpers.definitions import definition
from tests.helpers.scenarios import simulated
from tests.helpers.tasks import beside


@frozen
class Step:
    name: str = ""
    image: str = ""


@frozen
class Spec:
    count: int = 0
    steps: tuple[Step, ...] = ()


@frozen
class Status:
    seen: int = 0
    conditions: tuple[Condition, ...] = ()


@resource("example.com/v1")
class Plan(Object):
    """A kind of which the server knows more than the model."""

    spec: Spec = Spec()
    status: Status = Status()


LOOSE = definition("Plan")
PLAN = {
    "apiVersion": "example.com/v1",
    "kind": "Plan",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {
        "count": 1,
        "steps": [
            {"name": "build", "image": "a:1", "env": [{"name": "X", "value": ""}], "zero": 0},
            {"name": "test", "image": "b:1", "deep": {"er": [1, {"x": False}]}},
        ],
        "unknown": {"a": ["b"]},
    },
}
PATH = "/apis/example.com/v1/namespaces/default/plans/p"


def planned(*faults: Fault) -> FakeClient:
    client = FakeClient(LOOSE, plan=FaultPlan(faults))
    client.add(PLAN)
    return client


async def stored(client: Client) -> dict[str, Any]:
    found = await client.raw.snapshot(kind_of(Plan).resource, (await client.get(Plan, "p", "default")).key)
    assert found is not None
    return found.to_dict()


def last_body(client: FakeClient) -> Any:
    return client.transport.writes[-1].body


@pytest.mark.rule("write-1")
async def test_a_draft_sends_the_changes_and_the_uid() -> None:
    client = planned()
    plan = await client.get(Plan, "p", "default")
    async with client.editing(plan) as draft:
        draft.spec.count = 0
        draft.metadata.labels["tier"] = "web"
    body = last_body(client)
    assert body == {"spec": {"count": 0}, "metadata": {"labels": {"tier": "web"}, "uid": plan.uid}}
    assert (await stored(client))["spec"] == {**PLAN["spec"], "count": 0}  # type: ignore[dict-item]
    assert plan.spec.count == 1


@pytest.mark.rule("write-1")
async def test_a_draft_that_ends_unchanged_sends_nothing() -> None:
    client = planned()
    async with client.editing(await client.get(Plan, "p", "default")) as draft:
        draft.spec.count = 5
        draft.spec.steps.append(Step("x"))
        draft.spec.count = 1
        draft.spec.steps.pop()
    assert client.transport.writes == []


async def test_nothing_is_sent_after_an_exception() -> None:
    client = planned()
    with pytest.raises(RuntimeError, match="on the way"):
        async with client.editing(await client.get(Plan, "p", "default")) as draft:
            draft.spec.count = 5
            raise RuntimeError("on the way")
    assert client.transport.writes == []


async def test_editing_needs_an_object_that_was_read() -> None:
    with pytest.raises(ValueError, match="has no uid"):
        async with planned().editing(Plan(metadata=ObjectMeta("p", "default"))):
            raise AssertionError("an intent cannot be edited")


async def test_an_object_without_a_model_is_edited_as_a_dict() -> None:
    client = planned()
    plain = await client.get(unstructured_kind("example.com/v1", "Plan"), "p", "default")
    async with client.editing(plain) as draft:
        draft["spec"]["steps"][0]["image"] = "a:2"
        draft["spec"]["new"] = False
        draft["metadata"]["labels"] = {"l": ""}
    after = await stored(client)
    assert after["spec"]["new"] is False
    assert after["metadata"]["labels"] == {"l": ""}
    assert after["spec"]["steps"][0] == {**PLAN["spec"]["steps"][0], "image": "a:2"}  # type: ignore[index]
    assert plain["spec"]["steps"][0]["image"] == "a:1"


@pytest.mark.rule("write-3")
@pytest.mark.parametrize("how", ["editing", "modify"])
async def test_members_that_the_model_does_not_know_survive_inside_a_changed_list(how: str) -> None:
    client = planned()
    plan = await client.get(Plan, "p", "default")
    if how == "editing":
        async with client.editing(plan) as draft:
            draft.spec.steps[1].image = "b:2"
            draft.spec.steps.insert(0, Step("lint", "l:1"))
    else:
        build, test = plan.spec.steps
        steps = (Step("lint", "l:1"), build, Step(test.name, "b:2"))
        await client.modify(
            Plan, "p", "default", lambda p: p.replace(spec=Spec(count=p.spec.count, steps=steps))
        )
    first, second = PLAN["spec"]["steps"]  # type: ignore[index]
    spec = (await stored(client))["spec"]
    assert spec["steps"] == [{"name": "lint", "image": "l:1"}, first, {**second, "image": "b:2"}]
    assert spec["unknown"] == {"a": ["b"]}
    assert last_body(client)["metadata"] == {
        "uid": plan.uid,
        "resourceVersion": plan.metadata.resource_version,
    }


@pytest.mark.rule("write-2")
async def test_a_list_that_another_writer_changed_meanwhile_is_not_overwritten() -> None:
    client = planned()
    plan = await client.get(Plan, "p", "default")
    client.request("PATCH", PATH, {"spec": {"steps": [{"name": "theirs"}]}})
    with pytest.raises(StaleVersion):
        async with client.editing(plan) as draft:
            draft.spec.steps[0].image = "a:2"
    assert (await stored(client))["spec"]["steps"] == [{"name": "theirs"}]


@pytest.mark.rule("write-4")
async def test_a_recreated_object_is_never_patched() -> None:
    client = planned()
    plan = await client.get(Plan, "p", "default")
    await client.delete(plan)
    client.add(PLAN)
    with pytest.raises(PreconditionFailed, match="replaced"):
        async with client.editing(plan) as draft:
            draft.spec.count = 9
    with pytest.raises(PreconditionFailed):
        await client.raw.merge(plan, {"spec": {"count": 9}})
    assert (await stored(client))["spec"]["count"] == 1


@pytest.mark.rule("patch-1")
async def test_a_patch_of_an_object_that_was_not_read_is_refused_unless_the_guard_is_waived() -> None:
    client = planned()
    named = Plan(metadata=ObjectMeta("p", "default"))
    with pytest.raises(ValueError, match="would be blind"):
        await client.raw.merge(named, {"spec": {"count": 2}})
    with pytest.raises(ValueError, match="would be blind"):
        await client.raw.merge(named.with_metadata(uid="u"), {"spec": {"steps": []}})
    assert client.transport.writes == []
    await client.raw.merge(named, {"spec": {"count": 2}}, guard={})
    assert (await stored(client))["spec"]["count"] == 2


@pytest.mark.rule("patch-1")
async def test_every_diff_carries_the_uid_and_a_diff_of_a_list_also_the_version() -> None:
    client = planned()
    plan = await client.get(Plan, "p", "default")
    await client.raw.merge(plan, {"spec": {"count": 2}})
    assert last_body(client)["metadata"] == {"uid": plan.uid}
    plan = await client.get(Plan, "p", "default")
    await client.raw.merge(plan, {"spec": {"steps": None}})
    assert last_body(client)["metadata"] == {
        "uid": plan.uid,
        "resourceVersion": plan.metadata.resource_version,
    }


async def test_a_client_without_a_cache_remembers_none_of_its_writes() -> None:
    client = planned()
    for _ in range(3):
        await client.modify(Plan, "p", "default", lambda p: p.replace(spec=Spec(p.spec.count + 1)))
    assert not core_of(client).journal


async def test_modify_does_not_continue_with_a_recreated_object() -> None:
    client = planned()

    def replaced(plan: Plan) -> Plan:
        client.request("DELETE", PATH, {})
        client.add(PLAN)
        return plan.replace(spec=Spec(count=9))

    with pytest.raises((PreconditionFailed, StaleVersion)):
        await client.modify(Plan, "p", "default", replaced)
    assert (await stored(client))["spec"]["count"] == 1


@simulated
async def test_modify_retries_while_others_write_and_finally_gives_up() -> None:
    def refused(times: int) -> Fault:
        return Fault(When("patch", times=times), RefuseAsStale())

    client = planned(refused(19))
    await client.modify(Plan, "p", "default", lambda p: p.replace(spec=Spec(2)))
    assert (await stored(client))["spec"]["count"] == 2
    client = planned(refused(20))
    with pytest.raises(StaleVersion):
        await client.modify(Plan, "p", "default", lambda p: p.replace(spec=Spec(2)))


async def test_a_status_write_that_changes_other_fields_is_refused_before_it_is_sent() -> None:
    client = planned()
    with pytest.raises(ValueError, match=r"changes status alone, and this one changes spec"):
        await client.modify(Plan, "p", "default", lambda p: p.replace(spec=Spec(3)), subresource="status")
    assert client.transport.writes == []


@simulated
async def test_a_path_that_the_cache_dropped_is_diffed_against_a_live_read() -> None:
    client = FakeClient(ConfigMap(metadata=ObjectMeta("c", "default"), data={"a": "1", "b": "2"}))
    cache = Cache(client.transport, defaults=InformerOptions(drop=("/data",)), clock=client.clock)
    cache.declare(kind_of(ConfigMap).resource)
    cached = Client(client.transport, cache=cache, clock=client.clock)
    async with beside(cache.run):
        await cache.wait_synced()
        known = await cached.get(ConfigMap, "c", "default")
        assert known.data == {}
        async with cached.editing(known) as draft:
            draft.data["a"] = "3"
        assert last_body(client) == {"data": {"a": "3"}, "metadata": {"uid": known.uid}}
        await cached.raw.merge(await cached.get(ConfigMap, "c", "default"), {"data": {"b": "4"}})
        assert "resourceVersion" in last_body(client)["metadata"]
    assert (await client.get(ConfigMap, "c", "default")).data == {"a": "3", "b": "4"}

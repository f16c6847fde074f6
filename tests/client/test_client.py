"""What the client promises of writes: conflict-free where it can be, and never blind."""

from typing import Any

import pytest

from reconcile import Client, ObjectMeta
from reconcile.client.client import bound, core_of
from reconcile.errors import NotFound, OutcomeUnknown, OwnedByOther, PreconditionFailed, StaleVersion
from reconcile.kinds import ConfigMap, Deployment
from reconcile.testing import Edit, FakeClient, Fault, FaultPlan, LoseReply, Meanwhile, When
from tests.helpers.deployments import deployment

SETTINGS = ConfigMap(metadata=ObjectMeta("settings", "default"), data={"a": "1", "b": "2"})


def settings(**data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta("settings", "default"), data=data)


async def stored(client: Client) -> ConfigMap:
    return await client.get(ConfigMap, "settings", "default")


async def test_a_missing_object_raises_not_found_with_its_name() -> None:
    with pytest.raises(NotFound, match='configmaps "nobody" not found'):
        await FakeClient().get(ConfigMap, "nobody", "default")
    assert await FakeClient().find(ConfigMap, "nobody", "default") is None


async def test_create_needs_a_namespace_for_a_namespaced_kind() -> None:
    with pytest.raises(ValueError, match="has no namespace"):
        await FakeClient().create(ConfigMap(metadata=ObjectMeta("x")))


async def test_an_update_of_an_old_version_is_stale() -> None:
    client = FakeClient(SETTINGS)
    old = await stored(client)
    await client.raw.update(old.replace(data={"a": "new"}))
    with pytest.raises(StaleVersion):
        await client.raw.update(old.replace(data={"a": "newer"}))


async def test_without_force_a_field_of_another_manager_is_a_conflict_that_names_it() -> None:
    client = FakeClient()
    await bound(client, core_of(client).journal, "first").apply(settings(a="1"))
    with pytest.raises(OwnedByOther, match="first") as caught:
        await bound(client, core_of(client).journal, "second").apply(settings(a="2"), force=False)
    assert [cause.field for cause in caught.value.causes] == [".data.a"]


async def test_modify_sends_nothing_when_nothing_changes() -> None:
    client = FakeClient(SETTINGS)
    await client.modify(ConfigMap, "settings", "default", lambda config: config)
    assert client.transport.writes == []


async def test_delete_with_if_unchanged_refuses_a_changed_object() -> None:
    client = FakeClient(SETTINGS)
    old = await stored(client)
    client.fail("delete", ConfigMap, Meanwhile(Edit("", {"metadata": {"labels": {"keep": ""}}})))
    with pytest.raises(StaleVersion):
        await client.delete(old, if_unchanged=True)
    assert (await stored(client)).metadata.labels == {"keep": ""}
    await client.delete(await stored(client), if_unchanged=True)
    assert await client.find(ConfigMap, "settings", "default") is None


async def test_delete_with_if_unchanged_reports_a_recreated_object_as_replaced() -> None:
    client = FakeClient(SETTINGS)
    old = await stored(client)
    await client.delete(old, if_unchanged=True)
    client.add(SETTINGS)
    with pytest.raises(PreconditionFailed):
        await client.delete(old, if_unchanged=True)


async def test_delete_with_if_unchanged_needs_an_object_that_was_read() -> None:
    with pytest.raises(ValueError, match="was not read"):
        await FakeClient(SETTINGS).delete(SETTINGS, if_unchanged=True)


async def test_deleting_an_object_that_is_gone_is_not_an_error() -> None:
    client = FakeClient(SETTINGS)
    old = await stored(client)
    await client.delete(old)
    await client.delete(old)


async def test_a_scale_is_changed_only_if_it_has_the_expected_number() -> None:
    client = FakeClient(deployment(replicas=3))
    made = await client.get(Deployment, "d", "default")
    await client.raw.set_scale(made, 0, expect=3)
    assert (await client.get(Deployment, "d", "default")).spec.replicas == 0
    with pytest.raises(StaleVersion, match="has 0 replicas, not 3"):
        await client.raw.set_scale(made, 5, expect=3)
    assert (await client.get(Deployment, "d", "default")).spec.replicas == 0
    await client.raw.set_scale(made, 2, expect=0)
    assert (await client.get(Deployment, "d", "default")).spec.replicas == 2


async def test_after_a_lost_reply_the_outcome_is_unknown_and_the_write_may_have_happened() -> None:
    client = FakeClient(plan=FaultPlan((Fault(When("create"), LoseReply()),)))
    with pytest.raises(OutcomeUnknown):
        await client.create(SETTINGS)
    assert (await stored(client)).data == SETTINGS.data


async def test_lists_can_be_restricted_by_namespace_labels_and_owner() -> None:
    owner = ConfigMap(metadata=ObjectMeta("owner", "default"))
    client = FakeClient(owner)
    owner = await client.get(ConfigMap, "owner", "default")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid}
    client.add(ConfigMap(metadata=ObjectMeta("one", "default", labels={"x": "1", "y": "2"})))
    client.add(ConfigMap(metadata=ObjectMeta("two", "kube-system", labels={"x": "1"})))
    child = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "child", "ownerReferences": [reference]},
    }
    client.add(child)

    async def names(**narrow: Any) -> list[str]:
        return sorted(o.name for o in await client.list(ConfigMap, **narrow))

    assert await names() == ["child", "one", "owner", "two"]
    assert await names(namespace="kube-system") == ["two"]
    assert await names(labels={"x": "1"}) == ["one", "two"]
    assert await names(labels={"x": "1"}, namespace="default") == ["one"]
    assert await names(owner=owner) == ["child"]

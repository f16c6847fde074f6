"""What a caller may ask of single writes: propagation, grace, dry runs, names, subresources."""

from typing import Any

import anyio
import pytest

from reconcile import Client, Context, Controller, Intent, ObjectMeta, kind_of
from reconcile.client.client import bound
from reconcile.client.own_writes import Journal
from reconcile.errors import NotFound
from reconcile.kinds import ConfigMap, Deployment, Pod
from reconcile.owners import with_owner
from reconcile.testing import FakeClient
from tests.helpers.deployments import deployment
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world, simulated
from tests.helpers.tasks import beside

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
RUNNING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
SCHEDULED = {**POD, "spec": {**POD["spec"], "nodeName": "n"}, "status": RUNNING}


async def family() -> FakeClient:
    """A config map, and one that it owns and whose end it waits for."""
    client = FakeClient(ConfigMap(metadata=ObjectMeta("parent", "default")))
    parent = await client.get(ConfigMap, "parent", "default")
    client.add(with_owner(ConfigMap(metadata=ObjectMeta("child", "default")), parent, controller=True))
    return client


@pytest.mark.parametrize(
    ("propagation", "left"), [("Background", []), ("Foreground", []), ("Orphan", ["child"])]
)
@simulated
async def test_the_propagation_policy_decides_about_dependents(propagation: Any, left: list[str]) -> None:
    client = await family()
    async with beside(client.server.run):
        await client.delete(await client.get(ConfigMap, "parent", "default"), propagation=propagation)
        assert client.transport.writes[-1].body["propagationPolicy"] == propagation
        await anyio.sleep(30)
        found = [one for one in await client.list(ConfigMap, "default") if not one.name.startswith("kube")]
        assert [one.name for one in found] == left
        assert all(one.metadata.owner_references == () for one in found)


@pytest.mark.parametrize(("grace", "gone"), [(0, True), (5, False), (None, False)])
async def test_a_pod_is_deleted_with_the_given_grace_period(grace: int | None, gone: bool) -> None:
    client = FakeClient(SCHEDULED)
    pod = await client.get(Pod, "p", "default")
    await client.delete(pod, grace_seconds=grace)
    found = await client.find(Pod, "p", "default")
    assert (found is None) is gone
    if found is not None:
        body = client.request("GET", "/api/v1/namespaces/default/pods/p")
        assert body["metadata"]["deletionGracePeriodSeconds"] == (30 if grace is None else grace)


async def test_a_pod_is_bound_and_evicted_through_its_subresources() -> None:
    client = FakeClient(POD)
    pod = await client.get(Pod, "p", "default")
    journal = Journal()
    target = {"apiVersion": "v1", "kind": "Node", "name": "n"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": target}
    await bound(client, journal).raw.create_subresource(pod, "binding", binding)
    assert journal
    assert client.request("GET", "/api/v1/namespaces/default/pods/p")["spec"]["nodeName"] == "n"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    await client.raw.create_subresource(pod, "eviction", eviction)
    assert (await client.get(Pod, "p", "default")).terminating


async def test_a_dry_run_is_validated_by_the_server_and_changes_nothing() -> None:
    client = FakeClient(
        SCHEDULED, deployment(), ConfigMap(metadata=ObjectMeta("c", "default"), data={"a": "1"})
    )
    config = await client.get(ConfigMap, "c", "default")
    deployed = await client.get(Deployment, "d", "default")
    version = await client.raw.version(kind_of(ConfigMap).resource)
    journal = Journal()
    dry = bound(client, journal).with_options(dry_run=True)
    assert (await dry.create(ConfigMap(metadata=ObjectMeta("new", "default")))).uid
    assert (await dry.raw.update(config.replace(data={"a": "2"}))).data == {"a": "2"}
    async with dry.editing(config) as draft:
        draft.data["a"] = "3"
    await dry.modify(ConfigMap, "c", "default", lambda c: c.replace(data={}))
    await dry.apply(Intent(ConfigMap, metadata=ObjectMeta("c", "default"), data={"a": "4"}))
    await dry.scale(deployed, lambda now: now + 1)
    await dry.raw.set_scale(deployed, 7, expect=1)
    await dry.delete(config)
    await dry.raw.delete_all(ConfigMap, "default")
    assert await client.raw.version(kind_of(ConfigMap).resource) == version
    assert await client.get(ConfigMap, "c", "default") == config
    assert not journal
    with pytest.raises(NotFound):
        await dry.modify(ConfigMap, "absent", "default", lambda c: c)


@in_world(played)
async def test_writes_are_recorded_under_the_name_of_controller_or_manager(world: World) -> None:
    async def keep(ctx: Context[Toy]) -> None:
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("by-controller"), data={}))

    async with world.running(Controller(Toy, keep, owns=[ConfigMap], name="toys"), name="shop") as manager:
        await world.make()
        await manager.client.create(ConfigMap(metadata=ObjectMeta("by-manager", "default")))
        other = manager.client.with_options(field_manager="other")
        await other.create(ConfigMap(metadata=ObjectMeta("by-other", "default")))
        await anyio.sleep(5)
    asked = [r for r in world.transport.writes if "configmaps" in r.path]
    managers = {str(request.query["fieldManager"]) for request in asked}
    assert managers == {"toys.example.com/toys", "other", "shop"}
    assert len(asked) == 3


async def test_options_that_are_not_set_are_not_sent() -> None:
    client = FakeClient(ConfigMap(metadata=ObjectMeta("c", "default")))
    plain = Client(client.transport, clock=client.clock)
    await plain.delete(await plain.get(ConfigMap, "c", "default"))
    assert client.transport.writes[-1].body.keys() == {"apiVersion", "kind", "preconditions"}
    assert client.transport.writes[-1].query == {}

"""Two versions of a kind, wherever a server is told what to serve."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from reconcile import Context, Controller, Manager, Object, resource
from reconcile.commands.dev_command import Development
from reconcile.commands.dev_sources import Sources
from reconcile.commands.embedded_cluster import embedded_cluster
from reconcile.commands.targets import Operator
from reconcile.manager.installed_definitions import install_missing
from reconcile.models import definition_of, unstructured_kind
from reconcile.testing import Apply, FakeClient, ManagerRunner, Scenario, VirtualCluster, eventually, sweep
from tests.helpers.tasks import beside
from tests.testing.doors import NEW, OLD, Door, OlderDoor
from tests.testing.doors_apart import PlainDoor
from tests.testing.doors_beside import OldestDoor

pytestmark = pytest.mark.rule("model-versions")


async def keep(ctx: Context[Any]) -> None:
    ctx.status(open=ctx.object.spec.colour == "blue")


DEFINITION = unstructured_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False)
doors = Controller(Door, keep)
older_doors = Controller(OlderDoor, keep)


@pytest.mark.parametrize("objects", [(NEW, OLD), (OLD, NEW)])
async def test_a_fake_client_serves_both_versions_whichever_comes_first(objects: tuple[Object, ...]) -> None:
    client = FakeClient(*objects)
    assert {door.name for door in await client.list(Door)} == {"new", "old"}
    assert (await client.get(OlderDoor, "new", "default")).spec.locks == 2
    assert (await client.get(Door, "old", "default")).spec.locks == 3


async def test_a_version_with_a_separate_class_is_added_to_the_served_ones() -> None:
    client = FakeClient(NEW)
    client.serve(OldestDoor)
    client.serve(OldestDoor)
    assert [door.name for door in await client.list(OldestDoor)] == ["new"]
    assert [door.name for door in await client.list(OlderDoor)] == ["new"]


async def test_a_version_that_would_lose_fields_is_refused_by_name() -> None:
    client = FakeClient(NEW)
    with pytest.raises(TypeError, match=r"only v1 has \.spec\.locks, which a write in v2 loses: give both"):
        client.serve(PlainDoor)


async def test_a_built_in_kind_that_is_not_served_is_refused_with_the_reason() -> None:
    claim = resource("resource.k8s.io/v1")(type("ResourceClaim", (Object,), {"__annotations__": {}}))
    with pytest.raises(TypeError, match=r"resource.k8s.io/v1 ResourceClaim is built into Kubernetes"):
        FakeClient().serve(claim)


async def test_controllers_may_use_different_versions(
    cluster: VirtualCluster, manager: ManagerRunner
) -> None:
    async with manager(doors):
        await cluster.client.create(OLD)
        await eventually(lambda: is_open(cluster.client, Door))
    async with manager(older_doors):
        await cluster.client.create(NEW)
        await eventually(lambda: is_seen(cluster.client))


async def is_open(client: Any, kind: Any) -> bool:
    found: bool = (await client.get(kind, "old", "default")).status.open
    return found


async def is_seen(client: Any) -> bool:
    return (await client.get(Door, "new", "default")).status.open is False


async def test_an_embedded_manager_serves_both() -> None:
    async with Manager(doors, embedded=True, environ={}) as running:
        await running.client.create(OLD)
        await eventually(lambda: is_open(running.client, Door), within=10)
        await running.add(Controller(OldestDoor, keep, name="oldest"))
        assert (await running.client.get(OldestDoor, "old", "default")).spec.locks == 3


def test_a_sweep_serves_both_versions() -> None:
    sweep(Scenario(controllers=lambda: doors, steps=[Apply(OLD), Apply(NEW)]))


async def test_the_commands_install_both_versions(tmp_path: Path) -> None:
    async with embedded_cluster(tmp_path / "kubeconfig", nodes=0) as cluster:
        await install_missing(cluster.client, [Door])
        await cluster.client.create(OLD)
        assert (await cluster.client.get(Door, "old", "default")).spec.locks == 3


async def test_dev_installs_both_versions_and_reloads_changes(tmp_path: Path) -> None:
    operator = Operator("doors", ("tests.testing.doors:doors",), Manager(doors, environ={}))
    work = Development(Sources("doors"), operator, Console(quiet=True), None)
    async with embedded_cluster(tmp_path / "kubeconfig", nodes=0) as cluster:
        for _ in range(2):
            async with beside(work._run_manager, cluster):
                await eventually(lambda: cluster.client.list(Door))
        await cluster.client.create(OLD)
        assert (await cluster.client.get(Door, "old", "default")).spec.locks == 3


async def test_an_installed_definition_keeps_its_storage_version() -> None:
    client = FakeClient(definition_of(OldestDoor))
    client.serve(Door)
    answer = client.request(
        "GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/doors.example.com", {}
    )
    stored = {version["name"]: version["storage"] for version in answer["spec"]["versions"]}
    assert stored == {"v1alpha1": True, "v1": False, "v1beta1": False}

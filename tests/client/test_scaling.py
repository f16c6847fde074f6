"""/scale: read, compared, replaced or applied; and the selector that autoscalers read."""

from typing import Any

import pytest
from attrs import frozen

from reconcile import Context, Controller, LabelSelector, Object, ObjectMeta, kind_of, resource
from reconcile.client.client import bound
from reconcile.client.object_selectors import parse_labels
from reconcile.client.own_writes import Journal
from reconcile.errors import NotFound, OwnedByOther, PreconditionFailed, ServerError
from reconcile.kinds import Deployment
from reconcile.models import Scale
from reconcile.testing import FakeClient, run_once
from tests.helpers.deployments import deployment


@frozen
class FleetSpec:
    replicas: int = 1
    image: str = ""


@frozen
class FleetStatus:
    replicas: int = 0
    selector: str = ""
    note: str = ""


@resource("example.com/v1", scale=Scale())
class Fleet(Object):
    spec: FleetSpec = FleetSpec()
    status: FleetStatus = FleetStatus()


FLEET = Fleet(metadata=ObjectMeta("f", "default"), spec=FleetSpec(2, "i:1"))


async def replicas(client: FakeClient, kind: type[Object]) -> int:
    found: Any = await client.get(kind, "f", "default")
    count: int = found.spec.replicas
    return count


@pytest.mark.rule("scale-1")
async def test_the_replicas_are_owned_by_apply_and_nothing_else_is() -> None:
    client = FakeClient(deployment("f", replicas=2))
    fleet = await client.get(Deployment, "f", "default")
    autoscaler = client.with_options(field_manager="autoscaler")
    with pytest.raises(OwnedByOther, match="replicas"):
        await autoscaler.raw.apply_scale(fleet, 3)
    assert await autoscaler.raw.apply_scale(fleet, 3, force=True) == 3
    assert await replicas(client, Deployment) == 3
    stored = client.request("GET", kind_of(Deployment).resource.path("default", "f"))
    (entry,) = [one for one in stored["metadata"]["managedFields"] if one["manager"] == "autoscaler"]
    assert (entry["operation"], entry["subresource"]) == ("Apply", "scale")
    assert entry["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
    with pytest.raises(OwnedByOther):
        await client.raw.apply_scale(fleet, 5)
    assert await autoscaler.raw.apply_scale(fleet, 0) == 0
    assert await replicas(client, Deployment) == 0
    before = await client.get(Deployment, "f", "default")
    assert await autoscaler.raw.apply_scale(fleet, 0) == 0
    assert await client.get(Deployment, "f", "default") == before


@pytest.mark.rule("scale-1")
async def test_the_scale_of_a_custom_object_cannot_be_applied_as_on_a_real_server() -> None:
    client = FakeClient(FLEET)
    with pytest.raises(ServerError):
        await client.raw.apply_scale(await client.get(Fleet, "f", "default"), 3, force=True)
    assert await replicas(client, Fleet) == 2


@pytest.mark.rule("scale-1", "write-4")
async def test_a_scale_is_not_applied_to_a_recreated_object() -> None:
    client = FakeClient(deployment("f", replicas=2))
    fleet = await client.get(Deployment, "f", "default")
    await client.delete(fleet)
    with pytest.raises(NotFound):
        await client.raw.apply_scale(fleet, 3, force=True)
    client.add(deployment("f", replicas=2))
    with pytest.raises(PreconditionFailed):
        await client.raw.apply_scale(fleet, 3, force=True)
    assert await replicas(client, Deployment) == 2


@pytest.mark.rule("scale-1")
async def test_an_applied_scale_is_recorded_like_any_write_and_a_dry_run_is_not() -> None:
    client = FakeClient(deployment("f", replicas=2))
    fleet = await client.get(Deployment, "f", "default")
    journal = Journal()
    client_of_run = bound(client, journal)
    await client_of_run.with_options(dry_run=True).raw.apply_scale(fleet, 3, force=True)
    assert not journal
    assert await replicas(client, Deployment) == 2
    await client_of_run.raw.apply_scale(fleet, 3, force=True)
    assert journal


@pytest.mark.rule("scale-2")
async def test_the_selector_of_the_scale_subresource_is_filled_from_a_typed_one() -> None:
    selector = LabelSelector({"fleet": "f", "app": "x"})

    async def keep(ctx: Context[Fleet]) -> None:
        ctx.status(replicas=ctx.object.spec.replicas, selector=selector)

    client = FakeClient(FLEET)
    assert (await run_once(Controller(Fleet, keep), FLEET, client)).error is None
    fleet = await client.get(Fleet, "f", "default")
    assert fleet.status == FleetStatus(2, "app=x,fleet=f")
    scale = await client.raw.read_subresource(fleet, "scale")
    assert scale["status"] == {"replicas": 2, "selector": "app=x,fleet=f"}
    assert len(parse_labels(scale["status"]["selector"])) == 2
    assert (await run_once(Controller(Fleet, keep), FLEET, client)).writes == []


async def test_a_selector_in_another_status_field_is_refused() -> None:
    async def keep(ctx: Context[Fleet]) -> None:
        ctx.status(note=LabelSelector({"a": "b"}))

    done = await run_once(Controller(Fleet, keep), FLEET, FakeClient(FLEET))
    assert "note" in str(done.error)

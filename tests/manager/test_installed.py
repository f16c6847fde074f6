"""A kind that cannot be scaled where it is installed is told at the start of a manager."""

from typing import Any

import anyio
import pytest
from attrs import frozen

from reconcile import Context, Controller, Manager, Object, ObjectMeta, resource
from reconcile.errors import DefinitionMismatch
from reconcile.kinds import ConfigMap
from reconcile.manager.installed_definitions import check_scales
from reconcile.models import Scale, definition_of
from reconcile.testing import FakeClient


@frozen
class FleetSpec:
    replicas: int = 1


@frozen
class FleetStatus:
    replicas: int = 0
    selector: str = ""


@resource("example.com/v1", scale=Scale())
class Fleet(Object):
    spec: FleetSpec = FleetSpec()
    status: FleetStatus = FleetStatus()


def without_scale(version: dict[str, Any]) -> None:
    del version["subresources"]["scale"]


def without_status(version: dict[str, Any]) -> None:
    del version["subresources"]["status"]


def without_default(version: dict[str, Any]) -> None:
    del schema(version)["spec"]["properties"]["replicas"]["default"]


def without_selector(version: dict[str, Any]) -> None:
    del schema(version)["status"]["properties"]["selector"]


def schema(version: dict[str, Any]) -> Any:
    return version["schema"]["openAPIV3Schema"]["properties"]


async def installed(change: Any) -> FakeClient:
    definition = definition_of(Fleet)
    change(definition["spec"]["versions"][0])
    client = FakeClient()
    await client.apply(definition)
    return client


@pytest.mark.rule("model-scale")
@pytest.mark.parametrize(
    ("change", "missing"),
    [
        (without_scale, "it has no scale subresource"),
        (without_status, "it has no status subresource"),
        (without_default, ".spec.replicas has no default there"),
        (without_selector, ".status.selector is not a string there"),
    ],
)
async def test_the_error_names_what_is_missing_in_the_installed_definition(change: Any, missing: str) -> None:
    client = await installed(change)
    with pytest.raises(
        DefinitionMismatch, match="Apply the definition that `reconcile crds` prints"
    ) as caught:
        await check_scales(client.transport, [Fleet])
    assert caught.value.missing == (missing,)


async def test_a_definition_that_meets_the_contract_passes() -> None:
    client = await installed(lambda version: None)
    await check_scales(client.transport, [Fleet])


async def test_a_kind_that_is_not_served_is_skipped_by_the_check() -> None:
    await check_scales(FakeClient().transport, [Fleet])


async def test_a_manager_does_not_start_with_a_definition_that_cannot_be_scaled() -> None:
    client = await installed(without_scale)
    ran: list[str] = []

    async def keep(ctx: Context[Fleet]) -> None:
        ran.append(ctx.object.name)

    await client.create(Fleet(metadata=ObjectMeta("a", "default")))
    with anyio.fail_after(10), pytest.raises(DefinitionMismatch, match="fleets"):
        await Manager(Controller(Fleet, keep), transport=client.transport).run()
    assert ran == []


@pytest.mark.rule("model-scale")
async def test_a_controller_added_to_a_running_manager_is_checked_too() -> None:
    client = await installed(without_default)

    async def keep(ctx: Context[Any]) -> None:
        pass

    async with Manager(Controller(ConfigMap, keep), transport=client.transport) as manager:
        with pytest.raises(DefinitionMismatch, match=r"\.spec\.replicas has no default there"):
            await manager.add(Controller(Fleet, keep))
        assert [controller.name for controller in manager.status().controllers] == ["configmap"]
        assert [informer.resource for informer in manager.status().informers] == ["configmaps"]
        await client.apply(definition_of(Fleet))
        await manager.add(Controller(Fleet, keep))
        assert [controller.name for controller in manager.status().controllers] == ["configmap", "fleet"]

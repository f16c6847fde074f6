"""Which controllers answer for a kind, and which one for a name."""

import anyio
import pytest

from reconcile import Controller, Object, ObjectMeta, Request, resource
from reconcile.ops.debug_actions import DebugActions
from tests.helpers.managers import Toy, World, idle, played
from tests.helpers.scenarios import in_world


@in_world(played)
async def test_a_name_addresses_one_controller_of_a_kind_and_the_kind_all_of_them(world: World) -> None:
    await world.make("a")
    async with world.running(
        Controller(Toy, idle, name="toys"), Controller(Toy, idle, name="Audit")
    ) as manager:
        await anyio.sleep(5)
        actions = DebugActions(lambda: manager._runners)

        def paused() -> set[str]:
            return {runner.name for runner in manager._runners if Request("default", "a") in runner.resting}

        assert actions.act("pause", "", "default/a", "toys")["controllers"] == ["toys"]
        assert paused() == {"toys"}
        actions.act("pause", "Audit", "default/a")
        assert paused() == {"toys", "Audit"}
        actions.act("resume", "toys", "default/a")  # the plural of the kind too
        assert paused() == set()
        (explained,) = actions.explain("", "default/a", "Audit")["controllers"]
        assert explained["controller"] == "Audit"


@resource("rbac.authorization.k8s.io/v1", plural="clusterroles", kind="ClusterRole", namespaced=False)
class Role(Object):
    pass


@in_world(played)
async def test_a_name_with_a_colon_is_no_cluster(world: World) -> None:
    await world.client.create(Role(metadata=ObjectMeta("system:shop")))
    async with world.running(Controller(Role, idle)) as manager:
        await anyio.sleep(5)
        actions = DebugActions(lambda: manager._runners)
        assert [request.name for _, request in actions.found("ClusterRole", "system:shop")] == ["system:shop"]


@in_world(played)
async def test_an_unknown_name_or_kind_is_answered_with_those_that_are_here(world: World) -> None:
    await world.make("a")
    async with world.running(Controller(Toy, idle, name="audit")) as manager:
        actions = DebugActions(lambda: manager._runners)
        with pytest.raises(LookupError, match="no controller here is named 'toys'; there are: audit"):
            actions.act("pause", "", "default/a", "toys")
        with pytest.raises(LookupError, match="no controller here has the kind 'pod'; there are: Toy"):
            actions.act("pause", "pod", "default/a")

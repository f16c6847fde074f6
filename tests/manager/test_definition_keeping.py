"""Managers that bring definitions and stored objects to the versions of their classes."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest
from attrs import define, field

from informers.transport import HttpRequest, PassingTransport, Response, Transport
from reconcile import Context, Controller, Manager, Object, Write, resource
from reconcile.controller.permissions import definition_permissions, permissions_of
from reconcile.embedded import InProcessTransport, service_account
from reconcile.errors import ConfigurationError, DefinitionRefused
from reconcile.manager.definition_keeping import wanted_definitions
from reconcile.manager.leadership import LeaderElection
from reconcile.manager.option_checks import check_options
from reconcile.manager.option_list import complete_options
from reconcile.testing.virtual_time import simulate
from reconcile.webhooks.wanted_definitions import wanted_definition
from tests.webhooks.coloured_lamps import ColouredLamp
from tests.webhooks.lamps import GROUP as LAMPS
from tests.webhooks.lamps import Lamp, LampSpec, LampStatus
from tests.webhooks.migrating_shops import (
    DEFINITION,
    GROUP,
    THIRD,
    Killing,
    Shops,
    WithoutMigrations,
    first_release,
    release,
)
from tests.webhooks.shops import Shop, ShopAlpha, ShopBeta

COUNT = 5_000 if "SWEEP_RUNS" in os.environ else 600
"""Stored objects: more than one page."""
OBJECTS_A_LIFE = COUNT * 2 // 5


async def paint(ctx: Context[Shop]) -> None:
    if ctx.object.spec.color is None:
        await ctx.client.raw.merge(ctx.object, {"spec": {"color": "red"}})


def controller() -> Controller[Shop]:
    return Controller(Shop, paint, name="painter", writes=[Write(Shop, "patch")])


def manager(shops: Shops, transport: Transport | None = None, **options: Any) -> Manager:
    return Manager(
        controller(),
        environ={},
        transport=transport or shops.transport,
        clock=shops.clock,
        client_qps=0,
        **{"definitions": "apply", **options},
    )


async def until(done: Callable[[], Any]) -> None:
    while not await done():
        await anyio.sleep(1)


async def is_migrated(shops: Shops) -> bool:
    return bool((await shops.definition())["status"]["storedVersions"] == ["v1"])


@pytest.mark.parametrize("migrates", [True, False])
def test_a_manager_serves_its_versions_before_the_first_lists_and_migrates_when_it_leads(
    migrates: bool,
) -> None:
    async def story() -> None:
        shops = await first_release(3, migrates=migrates)
        async with manager(shops):
            await until(lambda: is_migrated(shops))
            await anyio.sleep(5)
        assert shops.stored_as() == {f"{GROUP}/v1"}
        assert {spec["color"] for spec in (await shops.specs("v1")).values()} == {"red"}
        reasons = {event["reason"] for event in await events(shops)}
        assert reasons == {"DefinitionChanged", "ObjectsMigrated", *(() if migrates else ("StoredVersions",))}

    simulate(story)


async def events(shops: Shops) -> list[dict[str, Any]]:
    listed = await shops.ask("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
    return [item for item in listed["items"] if item["regarding"]["kind"] == "CustomResourceDefinition"]


def test_a_shadow_and_a_manager_that_only_checks_change_no_definition() -> None:
    async def story() -> None:
        shops = await first_release(1)
        before = await shops.definition()
        beta = Controller(ShopBeta, idle)
        for options in ({"definitions": "check"}, {"definitions": "apply", "dry_run": True}):
            running: Any = {**options, "clock": shops.clock, "transport": shops.transport}
            async with Manager(beta, environ={}, **running):
                await anyio.sleep(60)
        assert await shops.definition() == before

    simulate(story)


async def idle(ctx: Context[Any]) -> None: ...


def test_a_manager_of_an_older_release_ends_with_the_next_step() -> None:
    async def story() -> None:
        shops = await first_release(1)
        await shops.ask("PATCH", DEFINITION, {"spec": {"conversion": {"webhook": None, "strategy": "None"}}})
        with pytest.raises(DefinitionRefused, match="serve webhooks, or keep one version"):
            await manager(shops).run()

    simulate(story)


@pytest.mark.rule("definitions-kept")
def test_a_release_that_is_rolled_back_to_works_on_the_definition_of_the_newer_one() -> None:
    async def story() -> None:
        shops = Shops()
        assert await shops.rollout(wanted_definition([ColouredLamp])).finish()
        lamp = {"apiVersion": f"{LAMPS}/v1", "kind": "Lamp", "metadata": {"name": "a"}}
        lamps = f"/apis/{LAMPS}/v1/namespaces/default/lamps"
        await shops.ask("POST", lamps, {**lamp, "spec": {"watts": 2, "colour": "red"}})
        lights = Controller(PlainLamp, light, name="lights", writes=[Write(PlainLamp, "patch")])
        options: Any = {"definitions": "apply", "clock": shops.clock, "transport": shops.transport}
        async with Manager(lights, environ={}, **options):
            await anyio.sleep(60)
        found = await shops.ask("GET", f"{lamps}/a")
        assert found["spec"] == {"watts": 3, "colour": "red"}
        assert found["status"] == {"lit": True}
        (event,) = await events(shops)
        assert event["reason"] == "DefinitionRefused"
        assert event["regarding"]["uid"] == await uid_of_lamps(shops)
        assert "default/a: spec.colour (a string of 3 characters): is gone" in event["note"]

    simulate(story)


async def uid_of_lamps(shops: Shops) -> str:
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/lamps.{LAMPS}"
    return str((await shops.ask("GET", path))["metadata"]["uid"])


@resource(f"{LAMPS}/v1", kind="Lamp")
class PlainLamp(Object):
    spec: LampSpec = LampSpec()
    status: LampStatus = LampStatus()


async def light(ctx: Context[PlainLamp]) -> None:
    ctx.status(lit=True)
    async with ctx.client.editing(ctx.object) as draft:
        draft.spec.watts = 3


@pytest.mark.parametrize("migrates", [True, False])
def test_the_rights_of_the_manifests_suffice(migrates: bool) -> None:
    async def story() -> None:
        shops = await first_release(3, migrates=migrates)
        rights = [*permissions_of([controller()]), *definition_permissions([Shop])]
        await grant(shops, [right.rule() for right in rights])
        transport = InProcessTransport(shops.server, settle=True, user=ACCOUNT)
        limited = transport if migrates else WithoutMigrations(transport)
        async with manager(shops, limited):
            await until(lambda: is_migrated(shops))
            await until(lambda: painted(shops))
        assert await shops.rollout(THIRD, limited).finish()
        assert [version["name"] for version in (await shops.definition())["spec"]["versions"]] == ["v1"]

    simulate(story)


def test_without_the_right_to_migrations_the_manager_rewrites_objects_itself() -> None:
    async def story() -> None:
        shops = await first_release(3)
        rights = [*permissions_of([controller()]), *definition_permissions([Shop])]
        rights = [right for right in rights if right.group != "storagemigration.k8s.io"]
        await grant(shops, [right.rule() for right in rights])
        limited = InProcessTransport(shops.server, settle=True, user=ACCOUNT)
        assert await shops.rollout(release(Shop, ShopBeta, ShopAlpha), limited).finish()
        assert shops.stored_as() == {f"{GROUP}/v1"}
        assert "StoredVersions" in shops.reports.reasons

    simulate(story)


ACCOUNT = service_account("shop-system", "shop")


async def grant(shops: Shops, rules: list[dict[str, Any]]) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1"
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "shop"}}
    await shops.ask("POST", f"{roles}/clusterroles", {**head, "kind": "ClusterRole", "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "shop"}
    account = {"kind": "ServiceAccount", "namespace": "shop-system", "name": "shop"}
    binding = {**head, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [account]}
    await shops.ask("POST", f"{roles}/clusterrolebindings", binding)


def test_a_definition_with_functions_gets_the_webhook_of_the_service() -> None:
    (wanted,) = wanted_definitions([controller()], "shop-system/shop")
    service = {"namespace": "shop-system", "name": "shop", "path": f"/convert/shops.{GROUP}", "port": 443}
    webhook = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
    assert wanted.body["spec"]["conversion"] == {"strategy": "Webhook", "webhook": webhook}
    (lamps,) = wanted_definitions([Controller(Lamp, idle)], "shop-system/shop")
    assert lamps.body["spec"]["conversion"] == {"strategy": "None"}


def test_a_manager_creates_a_definition_with_its_webhook() -> None:
    async def story() -> None:
        shops = Shops()
        async with manager(shops, webhook_service="shop-system/shop"):
            await anyio.sleep(30)
            definition = await shops.definition()
        assert definition["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["name"] == "shop"

    simulate(story)


def test_the_objects_of_a_controller_that_is_added_later_are_migrated_too() -> None:
    async def story() -> None:
        shops = await first_release(3)
        lamps: Any = Controller(Lamp, idle)
        options: Any = {"definitions": "apply", "clock": shops.clock, "transport": shops.transport}
        async with Manager(lamps, environ={}, **options) as running:
            await anyio.sleep(30)
            assert not await is_migrated(shops)
            await running.add(controller())
            await until(lambda: is_migrated(shops))
            await until(lambda: painted(shops))
        assert shops.stored_as() == {f"{GROUP}/v1"}

    simulate(story)


def test_of_several_clusters_the_first_has_the_service_of_the_webhooks() -> None:
    async def story() -> None:
        east, west = await first_release(1), await first_release(1)
        clusters = {"east": east.transport, "west": west.transport}
        lamps: Any = Controller(Lamp, idle, clusters="east")
        options: Any = {
            "definitions": "apply",
            "clock": east.clock,
            "webhook_service": "shop-system/shop-hooks",
        }
        async with Manager(controller(), lamps, environ={}, clusters=clusters, **options):
            for shops in (east, west):
                await until(partial(is_migrated, shops))
        services = [await service_of(shops) for shops in (east, west)]
        assert services == ["shop-hooks", "shop"]
        assert await served_groups(west) == await served_groups(east) - {LAMPS}

    simulate(story)


async def service_of(shops: Shops) -> str:
    webhook = (await shops.definition())["spec"]["conversion"]["webhook"]
    return str(webhook["clientConfig"]["service"]["name"])


async def served_groups(shops: Shops) -> set[str]:
    return {group["name"] for group in (await shops.ask("GET", "/apis"))["groups"]}


def test_definitions_of_other_projects_are_left_alone() -> None:
    kind = resource("other.example.com/v1", as_installed=True)(type("Other", (Object,), {}))
    assert wanted_definitions([Controller(kind, idle)]) == []
    assert definition_permissions([kind]) == []


def test_definitions_are_not_applied_with_roles_of_single_namespaces() -> None:
    options = complete_options({"definitions": "apply", "namespaces": ["a"]})
    with pytest.raises(ConfigurationError, match="changes definitions of the whole cluster"):
        check_options(options, [controller()])


class Mortal(Killing):
    """Ends its manager at the first write of the definition, and at the rewritten object of that number."""

    def _strikes(self, request: HttpRequest) -> bool:
        if rewrites(request):
            return super()._strikes(request)
        return request.method == "PUT" and request.path.startswith(DEFINITION)


def rewrites(request: HttpRequest) -> bool:
    return request.method == "PATCH" and request.query.get("fieldManager") == "reconcile-storage-migration"


async def live_and_die(shops: Shops, mortal: Mortal) -> None:
    with mortal.scope:
        async with manager(shops, mortal):
            await until(lambda: is_migrated(shops))


@pytest.mark.rule("definitions-restart")
@pytest.mark.timeout(600)
def test_managers_killed_at_each_write_migrate_every_object_under_a_running_controller() -> None:
    async def story() -> None:
        shops = await first_release(COUNT, migrates=False)
        before = await shops.specs("v1beta1")
        lives = 0
        while not await is_migrated(shops):
            lives += 1
            assert lives < 40
            # Every other process dies before its write is carried out, and so achieves less.
            await live_and_die(shops, Mortal(shops.transport, OBJECTS_A_LIFE * lives, lives % 2 == 0))
            assert len(await shops.specs("v1beta1")) == COUNT
        assert lives > 4
        async with manager(shops):
            await until(lambda: painted(shops))
        after = await shops.specs("v1")
        assert shops.stored_as() == {f"{GROUP}/v1"}
        sizes = {name: spec["size"] for name, spec in before.items()}
        assert {name: spec["replicas"] for name, spec in after.items()} == sizes
        # The next release has the class of v1 alone.
        assert await shops.rollout(THIRD).finish()
        assert [version["name"] for version in (await shops.definition())["spec"]["versions"]] == ["v1"]
        assert len(await shops.specs("v1")) == COUNT

    simulate(story, limit_seconds=7200)


async def painted(shops: Shops) -> bool:
    return all(spec.get("color") == "red" for spec in (await shops.specs("v1")).values())


def test_only_the_leader_migrates_and_a_standby_ends_what_it_began() -> None:
    async def story() -> None:
        shops = await first_release(20, migrates=False)
        first = Mortal(shops.transport, 10, late=True)
        writes = Migrating(shops.transport)
        async with anyio.create_task_group() as group:
            group.start_soon(led, shops, first, "a")
            await anyio.sleep(1)
            group.start_soon(led, shops, writes, "b")
            await anyio.sleep(9)
            assert writes.count == 0
            await until(lambda: is_migrated(shops))
            group.cancel_scope.cancel()
        assert writes.count > 0
        assert shops.stored_as() == {f"{GROUP}/v1"}

    simulate(story)


async def led(shops: Shops, transport: Any, identity: str) -> None:
    election = LeaderElection("shops", identity=identity)
    with getattr(transport, "scope", anyio.CancelScope()):
        await manager(shops, transport, leader_election=election).run()


@define(eq=False)
class Migrating(PassingTransport):
    """Counts the objects that its manager rewrites."""

    _inner: Transport
    count: int = field(default=0, init=False)

    async def request(self, request: HttpRequest) -> Response:
        self.count += rewrites(request)
        return await self._inner.request(request)

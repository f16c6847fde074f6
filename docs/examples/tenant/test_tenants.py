"""The operator's tests: what a tenant gets, what it cannot take over, and every single fault."""

import os

import pytest
from tenants import SETTINGS, Tenant, TenantSpec, tenants

from reconcile import ObjectMeta
from reconcile.errors import Invalid
from reconcile.kinds import ConfigMap, Namespace, RoleBinding
from reconcile.testing import Apply, Delete, Edit, FakeClient, Scenario, World, run_once, sweep

RUNS = int(os.environ.get("SWEEP_RUNS", "25")) or None  # of the sweep; 0: all
SHOP = Tenant(metadata=ObjectMeta("shop"), spec=TenantSpec(admins=("ada",)))


def settings(proxy: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(SETTINGS.name, SETTINGS.namespace), data={"proxy": proxy})


async def copy_of_settings(client: FakeClient) -> dict[str, str]:
    return dict((await client.get(ConfigMap, SETTINGS.name, "shop")).data)


async def test_a_tenant_gets_a_namespace_with_its_children() -> None:
    client = FakeClient(settings("proxy-1"), SHOP)
    done = await run_once(tenants, SHOP, client)
    assert done.writes == [
        "apply namespaces shop",
        "apply resourcequotas shop/tenant",
        "apply limitranges shop/tenant",
        "apply rolebindings shop/tenant",
        "apply networkpolicies shop/tenant",
        "apply configmaps shop/settings",
        "patch tenants/status shop",
    ]
    assert done.undeclared == []  # `reconcile manifests` allows all that it wrote
    assert done.conditions["Ready"]["status"] == "True"
    assert (await run_once(tenants, SHOP, client)).writes == []


async def test_changed_settings_are_copied_and_a_copy_outlives_its_source() -> None:
    client = FakeClient(settings("proxy-1"), SHOP)
    await run_once(tenants, SHOP, client)
    source = await client.get(ConfigMap, SETTINGS.name, SETTINGS.namespace)
    await client.raw.merge(source, {"data": {"proxy": "proxy-2"}})
    assert (await run_once(tenants, SHOP, client)).writes == ["apply configmaps shop/settings"]
    await client.delete(await client.get(ConfigMap, SETTINGS.name, SETTINGS.namespace))
    done = await run_once(tenants, SHOP, client)
    assert done.conditions["Ready"]["reason"] == "NoSettings"
    assert await copy_of_settings(client) == {"proxy": "proxy-2"}


async def test_a_value_that_is_removed_from_the_spec_is_removed_from_the_children() -> None:
    client = FakeClient(settings("proxy-1"), SHOP.replace(spec=TenantSpec(admins=("ada", "grace"))))
    await run_once(tenants, SHOP, client)
    await client.modify(Tenant, "shop", "", lambda shop: shop.replace(spec=TenantSpec(admins=("grace",))))
    done = await run_once(tenants, SHOP, client)
    assert done.writes == ["apply rolebindings shop/tenant", "patch tenants/status shop"]
    binding = await client.get(RoleBinding, "tenant", "shop")
    assert [subject.name for subject in binding.subjects] == ["grace"]


async def test_a_foreign_namespace_is_not_taken_over() -> None:
    system = SHOP.with_metadata(name="kube-system")
    client = FakeClient(settings("proxy-1"), system)  # every cluster has that namespace
    done = await run_once(tenants, system, client)
    assert done.writes == ["patch tenants/status kube-system"]
    assert done.conditions["Ready"]["reason"] == "Taken"
    assert done.result.requeue_after == 60


async def test_a_tenant_cannot_have_the_namespace_of_the_shared_settings() -> None:
    with pytest.raises(Invalid, match="tenants"):
        FakeClient(SHOP.with_metadata(name=SETTINGS.namespace))


async def test_a_namespace_that_is_being_deleted_is_left_alone() -> None:
    client = FakeClient(settings("proxy-1"), SHOP)
    await run_once(tenants, SHOP, client)
    client.add(held_in("shop"))
    await client.delete(await client.get(Namespace, "shop"))
    done = await run_once(tenants, SHOP, client)
    assert done.error is None
    assert done.conditions["Ready"]["reason"] == "Terminating"


async def test_everything_of_a_tenant_is_deleted_with_it() -> None:
    client = FakeClient(settings("proxy-1"), SHOP)
    await run_once(tenants, SHOP, client)
    await client.delete(await client.get(Tenant, "shop"))
    assert await client.find(Namespace, "shop") is None
    assert await client.find(ConfigMap, SETTINGS.name, "shop") is None


def held_in(namespace: str) -> ConfigMap:
    """An object that delays the removal of its namespace."""
    return ConfigMap(metadata=ObjectMeta("held", namespace, finalizers=("example.com/hold",)))


def every_tenant_has_the_settings(world: World) -> None:
    (source,) = [one for one in world.objects(ConfigMap) if one.namespace == SETTINGS.namespace]
    copies = {
        one.namespace: one.data for one in world.objects(ConfigMap) if one.namespace != SETTINGS.namespace
    }
    assert copies == {tenant.name: source.data for tenant in world.objects(Tenant)}


def test_a_tenant_survives_every_fault() -> None:
    scenario = Scenario(
        controllers=lambda: tenants,
        objects=[settings("proxy-1")],
        steps=[
            Apply(SHOP),
            Apply(settings("proxy-2")),
            Edit(SHOP, {"spec": {"cpu": "8"}}),
            Delete((ConfigMap, "shop/settings")),
            Delete((Namespace, "shop")),
            Delete(SHOP),
        ],
        invariants=[every_tenant_has_the_settings],
    )
    print(sweep(scenario, most=RUNS))

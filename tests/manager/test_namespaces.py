"""A manager of some namespaces: it asks for nothing beyond them, so that Roles are enough."""

from typing import Any

import pytest

from reconcile import Context, Controller, Manager, ObjectMeta, Watch
from reconcile.controller.permissions import permissions_of
from reconcile.embedded import service_account
from reconcile.errors import ConfigurationError
from reconcile.kinds import ConfigMap, Namespace, Secret
from reconcile.testing import FakeClient, eventually, simulate
from tests.helpers.managers import idle
from tests.helpers.scenarios import simulated

SHOP_AND_BLOG = ("shop", "blog")
DISCOVERY = ("/api/v1",)
ACCOUNT = service_account("default", "copier")


async def copy_to_secret(ctx: Context[ConfigMap]) -> None:
    await ctx.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": ctx.object.name}})


copier = Controller(ConfigMap, copy_to_secret, owns=[Secret], name="copier", operator="example.com")


def role_in(namespace: str) -> list[dict[str, Any]]:
    """The rights of the controller in one namespace."""
    group = "rbac.authorization.k8s.io"
    metadata = {"name": "copier", "namespace": namespace}
    rules = [right.rule() for right in permissions_of([copier])]
    account = {"kind": "ServiceAccount", "name": "copier", "namespace": "default"}
    return [
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "copier"},
            "subjects": [account],
        },
    ]


@pytest.mark.rule("declared-namespaces")
def test_a_manager_of_two_namespaces_reconciles_only_those_and_needs_only_roles() -> None:
    configs = [ConfigMap(metadata=ObjectMeta("c", namespace)) for namespace in (*SHOP_AND_BLOG, "else")]
    roles = [part for namespace in SHOP_AND_BLOG for part in role_in(namespace)]
    client = FakeClient(*configs, *roles, user=ACCOUNT)

    async def story() -> list[str]:
        manager = Manager(
            copier, transport=client.transport, clock=client.clock, namespaces=SHOP_AND_BLOG, environ={}
        )
        async with manager:
            await eventually(lambda: len(made()) == 2)
            seen = await manager.client.list(ConfigMap)
            return [one.namespace for one in seen]

    def made() -> list[str]:
        stored = client.server.log.snapshot(("", "secrets"))
        return sorted(one.key.namespace for one in stored)

    assert sorted(simulate(story)) == sorted(SHOP_AND_BLOG)
    assert made() == sorted(SHOP_AND_BLOG)
    requests = client.transport.requests
    assert [str(one) for one in requests if one.server_status == 403] == []
    asked = {one.path for one in requests if one.path not in DISCOVERY}
    assert all("/namespaces/shop/" in path or "/namespaces/blog/" in path for path in asked)


@pytest.mark.rule("declared-namespaces")
@pytest.mark.parametrize(
    ("controller", "said"),
    [
        (Controller(Namespace, idle), r"Controller\(Namespace\) is of a kind without namespaces"),
        (
            Controller(ConfigMap, idle, watches=[Watch(Secret, by=str, everywhere=True)]),
            r"Watch\(Secret, everywhere=True\) follows all namespaces",
        ),
    ],
)
@simulated
async def test_a_controller_that_needs_cluster_wide_rights_is_refused_at_the_start_and_later(
    controller: Controller[Any], said: str
) -> None:
    client = FakeClient()
    way: dict[str, Any] = {"transport": client.transport, "clock": client.clock, "environ": {}}
    with pytest.raises(ConfigurationError, match=said):
        Manager(controller, namespaces=SHOP_AND_BLOG, **way).configure()
    Manager(controller, namespace="shop", **way).configure()
    async with Manager(namespaces=SHOP_AND_BLOG, **way) as running:
        with pytest.raises(ConfigurationError, match=said):
            await running.add(controller)


def test_namespace_and_namespaces_exclude_each_other_but_a_variable_replaces_either() -> None:
    with pytest.raises(ConfigurationError, match="exclude each other"):
        Manager(namespace="a", namespaces=["b"], environ={}).configure()
    manager = Manager(namespace="a", environ={"RECONCILE_NAMESPACES": "b, c"})
    manager.configure()
    assert manager.namespaces == ("b", "c")
    manager = Manager(namespaces=["b"], environ={"RECONCILE_NAMESPACE": "a"})
    manager.configure()
    assert manager.namespaces == ("a",)


@pytest.mark.parametrize("names", [[""], ["A"], ["a/b"]])
def test_an_invalid_name_of_a_namespace_is_refused(names: list[str]) -> None:
    with pytest.raises(ValueError, match="expected a name of a namespace"):
        Manager(namespaces=names)

"""An operator's own test, under the role that its manifests give it."""

import pytest

from reconcile import Context, Controller, ObjectMeta
from reconcile.embedded import service_account
from reconcile.errors import Forbidden
from reconcile.kinds import ConfigMap, Secret
from reconcile.testing import FakeClient, run_once

RBAC = "rbac.authorization.k8s.io/v1"
NAME = {"name": "copier", "namespace": "default"}
ROLE = {
    "apiVersion": RBAC,
    "kind": "Role",
    "metadata": NAME,
    "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch"]}
    ],
}
BINDING = {
    "apiVersion": RBAC,
    "kind": "RoleBinding",
    "metadata": NAME,
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "copier"},
    "subjects": [{"kind": "ServiceAccount", "name": "copier"}],
}
SOURCE = ConfigMap(metadata=ObjectMeta("source", "default"), data={"k": "v"})
COPIER = service_account("default", "copier")


async def copy_to_config_map(ctx: Context[ConfigMap]) -> None:
    await ctx.apply(ConfigMap(metadata=ObjectMeta("copy", "default"), data=ctx.object.data))


async def copy_to_secret(ctx: Context[ConfigMap]) -> None:
    await ctx.apply(Secret(metadata=ObjectMeta("copy", "default")))


async def test_writes_that_the_role_allows_succeed() -> None:
    client = FakeClient(ROLE, BINDING, SOURCE, user=COPIER)
    outcome = await run_once(
        Controller(ConfigMap, copy_to_config_map, writes=[ConfigMap], operator="example.com"), SOURCE, client
    )
    assert outcome.error is None
    assert len(outcome.writes) == 1
    assert (await client.get(ConfigMap, "copy", "default")).data == {"k": "v"}


async def test_a_missing_permission_is_an_error_that_names_it() -> None:
    client = FakeClient(ROLE, BINDING, SOURCE, user=COPIER)
    with pytest.raises(Forbidden, match='cannot patch resource "secrets" in API group ""'):
        await client.apply(Secret(metadata=ObjectMeta("copy", "default")))
    outcome = await run_once(
        Controller(ConfigMap, copy_to_secret, writes=[Secret], operator="example.com"), SOURCE, client
    )
    assert isinstance(outcome.error, Forbidden)

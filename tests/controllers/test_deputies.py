"""What the author of an object may not have a bundled controller do for them."""

from typing import Any

import anyio
import pytest
from attrs import evolve

from controllers.nodegroups import NodeGroupSettings
from controllers.workergroups import RayCluster
from reconcile import ObjectMeta
from reconcile.blocks import Grant
from reconcile.kinds import Service, ServiceAccount
from reconcile.models import encode, unstructured_kind
from reconcile.testing import FakeClient
from tests.controllers.nodegroups import OFFER, condition, group, size_of
from tests.controllers.nodegroups_running import at_work
from tests.controllers.ray_features import annotated, change, with_group
from tests.controllers.ray_runs import cluster, once
from tests.controllers.ray_specs import faults, head
from tests.helpers.scenarios import simulated

pytestmark = pytest.mark.rule("tenant-09")

Role = unstructured_kind("rbac.authorization.k8s.io/v1", "Role")
RoleBinding = unstructured_kind("rbac.authorization.k8s.io/v1", "RoleBinding")
Ingress = unstructured_kind("networking.k8s.io/v1", "Ingress", plural="ingresses")


def theirs(kind: str, name: str) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    meta = {"metadata": {"name": name, "namespace": "default"}}
    if kind == "Role":
        rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
        return {"apiVersion": f"{group}/v1", "kind": "Role", **meta, "rules": rules}
    if kind == "RoleBinding":
        ref = {"apiGroup": group, "kind": "Role", "name": "other"}
        return {"apiVersion": f"{group}/v1", "kind": "RoleBinding", **meta, "roleRef": ref, "subjects": []}
    return {"apiVersion": "v1", "kind": kind, **meta}


@pytest.mark.parametrize("kind", ["Role", "RoleBinding", "ServiceAccount"])
async def test_a_ray_cluster_does_not_take_over_a_foreign_role_or_account_of_its_name(kind: str) -> None:
    client = FakeClient(cluster(1), theirs(kind, "ray"))
    await change(client, enable_in_tree_autoscaling=True)
    model = {"Role": Role, "RoleBinding": RoleBinding, "ServiceAccount": ServiceAccount}[kind]
    before = encode(await client.get(model, "ray", "default"))
    done = await once(client)
    assert encode(await client.get(model, "ray", "default")) == before
    assert done.conditions["ReplicaFailure"]["reason"] == f"FailedApply{kind}"


async def test_a_ray_cluster_does_not_take_over_a_foreign_service() -> None:
    service = theirs("Service", "ray-head-svc") | {
        "spec": {"ports": [{"port": 80}], "selector": {"app": "x"}}
    }
    client = FakeClient(cluster(1), service)
    before = encode(await client.get(Service, "ray-head-svc", "default"))
    await once(client)
    assert encode(await client.get(Service, "ray-head-svc", "default")) == before


def test_a_head_service_that_would_intercept_foreign_traffic_is_refused() -> None:
    (fault,) = faults(**head(headService={"spec": {"externalIPs": ["10.0.0.1"]}}))
    assert "externalIPs" in fault


async def test_an_annotation_that_the_ingress_controller_would_execute_is_not_passed_on() -> None:
    made = annotated(with_group(replicas=1))
    snippets = {
        "nginx.ingress.kubernetes.io/server-snippet": "return 200;",
        "nginx.ingress.kubernetes.io/rewrite-target": "/$1",
    }
    made = RayCluster(metadata=ObjectMeta(made.name, made.namespace, annotations=snippets), spec=made.spec)
    client = FakeClient(made)
    await change(client, head_group_spec=evolve(made.spec.head_group_spec, enable_ingress=True))
    await once(client)
    (ingress,) = await client.list(Ingress, "default")
    assert dict(ingress.metadata.annotations) == {"nginx.ingress.kubernetes.io/rewrite-target": "/$1"}


def test_an_autoscaler_of_nodes_sizes_groups_of_another_namespace_only_if_allowed() -> None:
    allowed = NodeGroupSettings(namespaces=(Grant.parse("ops:prod-*"),))
    assert allowed.allows("ops", "prod-1")
    assert not allowed.allows("team", "prod-1")
    assert not allowed.allows("ops", "*")
    assert NodeGroupSettings(namespaces=(Grant.parse("ops:*"),)).allows("ops", "*")
    assert NodeGroupSettings().allows("ops", "ops")


@simulated
async def test_a_discovery_of_another_namespace_is_a_condition_and_nothing_is_sized() -> None:
    discovery = ("clusterapi:namespace=*",)
    async with at_work(group("g", 0, ("1", "3"), **OFFER), discovery=discovery) as (here, _):
        await anyio.sleep(60)
        assert "NODE_GROUPS_NAMESPACES" in (await condition(here, "Ready"))[1]
        assert await size_of(here.user, "g") == 0

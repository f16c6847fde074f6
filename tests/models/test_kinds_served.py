"""Every built-in kind with a model is served, and an apply of one that changes nothing is not sent."""

from typing import Any

import pytest

from reconcile import LabelSelector, Object, ObjectMeta, Quantity, kinds
from reconcile.kinds import (
    ClusterRole,
    ClusterRoleBinding,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    LimitRange,
    LimitRangeItem,
    LimitRangeSpec,
    NetworkPolicy,
    NetworkPolicySpec,
    PersistentVolume,
    PersistentVolumeSpec,
    PolicyRule,
    PriorityClass,
    ReplicaSet,
    ReplicaSetSpec,
    ResourceQuota,
    ResourceQuotaSpec,
    Role,
    RoleBinding,
    RoleRef,
    ScaleTargetRef,
    StorageClass,
    Subject,
)
from reconcile.models import Intent, kind_of
from reconcile.testing import FakeClient

META = ObjectMeta("a", "default")
ALONE = ObjectMeta("a")
READ = PolicyRule(("get",), api_groups=("",), resources=("pods",), resource_names=("b",))
PAGES = PolicyRule(("get",), non_resource_urls=("/metrics",))
POD = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
KINDS = [cls for name in kinds.__all__ if hasattr(cls := getattr(kinds, name), "__kind__")]

MADE: dict[str, Object] = {
    "role": Role(metadata=META, rules=(READ,)),
    "role binding": RoleBinding(
        metadata=META,
        role_ref=RoleRef("Role", "a"),
        subjects=(Subject("ServiceAccount", "s", namespace="default"),),
    ),
    "cluster role": ClusterRole(metadata=ALONE, rules=(READ, PAGES)),
    "aggregated cluster role": ClusterRole(
        metadata=ALONE, extra={"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    ),
    "cluster role binding": ClusterRoleBinding(
        metadata=ALONE,
        role_ref=RoleRef("ClusterRole", "view"),
        subjects=(Subject("Group", "g", api_group="rbac.authorization.k8s.io"),),
    ),
    "quota": ResourceQuota(metadata=META, spec=ResourceQuotaSpec(hard={"pods": Quantity("5")})),
    "limit range": LimitRange(
        metadata=META,
        spec=LimitRangeSpec(
            (LimitRangeItem("Container", max={"cpu": Quantity("1")}, default={"cpu": Quantity("1")}),)
        ),
    ),
    "network policy": NetworkPolicy(
        metadata=META,
        spec=NetworkPolicySpec(LabelSelector({"a": "b"}), policy_types=("Ingress",), ingress=({},)),
    ),
    "autoscaler": HorizontalPodAutoscaler(
        metadata=META,
        spec=HorizontalPodAutoscalerSpec(
            ScaleTargetRef("Deployment", "web", "apps/v1"), max_replicas=3, min_replicas=1
        ),
    ),
    "replica set": ReplicaSet(
        metadata=META, spec=ReplicaSetSpec(LabelSelector({"a": "b"}), template=POD, replicas=2)
    ),
    "volume": PersistentVolume(
        metadata=ALONE,
        spec=PersistentVolumeSpec(
            capacity={"storage": Quantity("1Gi")},
            access_modes=("ReadWriteOnce",),
            extra={"hostPath": {"path": "/data"}},
        ),
    ),
    "storage class": StorageClass(metadata=ALONE, provisioner="example.com/disks", reclaim_policy="Delete"),
    "endpoint slice": EndpointSlice(
        metadata=META,
        address_type="IPv4",
        endpoints=(Endpoint(("10.0.0.1",), EndpointConditions(ready=True), node_name="n"),),
        ports=(EndpointPort(80, "web", "TCP"),),
    ),
    "priority class": PriorityClass(metadata=ALONE, value=1000, description="first"),
}


@pytest.mark.parametrize("case", MADE)
async def test_a_kind_is_applied_read_and_not_sent_again(case: str) -> None:
    made: Any = MADE[case]
    client = FakeClient()
    intent = Intent(lambda: made)
    await client.apply(intent)
    read: Any = await client.get(type(made), "a", made.namespace)
    for name in ("spec", "rules", "role_ref", "endpoints", "ports", "value", "provisioner"):
        if name != "spec" and hasattr(made, name) and getattr(made, name) is not None:
            assert getattr(read, name) == getattr(made, name)
    before = read.metadata.resource_version
    await client.apply(intent)
    assert (await client.get(type(made), "a", made.namespace)).metadata.resource_version == before


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_with_a_model_is_served_under_its_names(kind: type[Object]) -> None:
    resource = kind_of(kind).resource
    served = FakeClient().server.resources.get(resource.group, resource.version, resource.plural)
    assert served is not None
    assert (served.kind, served.namespaced) == (resource.kind, resource.namespaced)

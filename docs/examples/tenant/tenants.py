"""An operator that keeps tenants: a namespace each, with limits, rights and settings that all share."""

from typing import Annotated

from attrs import frozen

from reconcile import (
    Condition,
    Context,
    Controller,
    Intent,
    Key,
    Manager,
    Object,
    ObjectMeta,
    Quantity,
    Result,
    Watch,
    Write,
    resource,
)
from reconcile.errors import AlreadyExists
from reconcile.kinds import (
    ClusterRole,
    ConfigMap,
    LimitRange,
    LimitRangeItem,
    LimitRangeSpec,
    Namespace,
    NetworkPolicy,
    NetworkPolicySpec,
    ResourceQuota,
    ResourceQuotaSpec,
    RoleBinding,
    RoleRef,
    Subject,
)
from reconcile.models import Schema

RBAC = "rbac.authorization.k8s.io"
SETTINGS = Key("tenants", "settings")
"""The ConfigMap of which every tenant has a copy."""


@frozen
class TenantSpec:
    admins: Annotated[tuple[str, ...], Schema(min_items=1)]
    """Users who may do in its namespace what the ClusterRole `admin` allows."""
    cpu: Quantity = Quantity("4")
    memory: Quantity = Quantity("8Gi")


@frozen
class TenantStatus:
    conditions: tuple[Condition, ...] = ()


@resource(
    "example.com/v1",
    namespaced=False,  # so that it may own a Namespace and what is in it
    rules=(f"self.metadata.name != '{SETTINGS.namespace}'",),  # its admins could edit what all tenants share
)
class Tenant(Object):
    spec: TenantSpec
    status: TenantStatus = TenantStatus()


def namespace_for(tenant: Tenant) -> Intent[Namespace]:
    return Intent(Namespace, metadata=ObjectMeta(tenant.name, labels={"tenant": tenant.name}))


def contents_of(tenant: Tenant) -> list[Intent[Object]]:
    """Its quota, default requests of containers, rights of its admins, and which traffic reaches its pods."""
    here = ObjectMeta("tenant", tenant.name)
    hard = {"requests.cpu": tenant.spec.cpu, "requests.memory": tenant.spec.memory, "pods": Quantity("100")}
    default = LimitRangeItem(
        "Container", default_request={"cpu": Quantity("100m"), "memory": Quantity("128Mi")}
    )
    users = tuple(Subject("User", name, api_group=RBAC) for name in tenant.spec.admins)
    own_pods = NetworkPolicySpec(policy_types=("Ingress",), ingress=({"from": [{"podSelector": {}}]},))
    return [
        Intent(ResourceQuota, metadata=here, spec=ResourceQuotaSpec(hard=hard)),
        Intent(LimitRange, metadata=here, spec=LimitRangeSpec(limits=(default,))),
        Intent(RoleBinding, metadata=here, role_ref=RoleRef("ClusterRole", "admin"), subjects=users),
        Intent(NetworkPolicy, metadata=here, spec=own_pods),
    ]


def settings_for(tenant: Tenant, source: ConfigMap) -> Intent[ConfigMap]:
    return Intent(ConfigMap, metadata=ObjectMeta(source.name, tenant.name), data=source.data)


async def keep_tenant(ctx: Context[Tenant]) -> Result | None:
    tenant = ctx.object
    try:
        namespace = await ctx.apply(namespace_for(tenant), adopt=False)
    except AlreadyExists:  # not a tenant's: `kube-system`, say
        ctx.condition("Ready", False, reason="Taken", message="a namespace of its name is not a tenant's")
        return Result(requeue_after=60)  # the deletion of a foreign namespace does not wake this tenant
    if namespace.terminating:  # it accepts no new objects
        ctx.condition("Ready", False, reason="Terminating", message="its namespace is being deleted")
        return None  # its removal wakes this tenant, which then creates it again
    for child in contents_of(tenant):
        await ctx.apply(child)
    source = await ctx.client.find(ConfigMap, SETTINGS.name, SETTINGS.namespace)
    if source is None:  # an existing copy stays: yesterday's settings are better than none
        ctx.condition("Ready", False, reason="NoSettings", message=f"{SETTINGS} is missing")
        return None
    await ctx.apply(settings_for(tenant, source))
    ctx.condition("Ready", True, reason="Applied")
    return None


tenants = Controller(
    Tenant,
    keep_tenant,
    owns=[Namespace, ResourceQuota, LimitRange, RoleBinding, NetworkPolicy, ConfigMap],
    watches=[Watch(ConfigMap, by=lambda _: SETTINGS)],
    writes=[Write(ClusterRole, "bind")],  # without it a role can be bound only by one that has all its rights
)
manager = Manager(tenants)

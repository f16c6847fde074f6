"""Gathers the facts: the only part that asks the cluster, at the edge of the pure checks."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

import anyio
from attrs import frozen

from informers import Clock, Transport
from reconcile.doctor.clocks import ServerTime, server_time
from reconcile.doctor.declared import Declared
from reconcile.doctor.facts import Facts, Leading, WebhookFacts
from reconcile.doctor.fairness import Flows
from reconcile.doctor.finalizers import (
    FinalizerFacts,
    Stuck,
    held_resources,
    owners_of,
    stuck_among,
    stuck_namespaces,
)
from reconcile.doctor.findings import Unread
from reconcile.doctor.leases import is_suspect
from reconcile.doctor.managers import ManagerState
from reconcile.doctor.objects import (
    Binding,
    Definition,
    Deployment,
    EndpointSlice,
    FlowSchema,
    Lease,
    Namespace,
    Pod,
    PriorityLevel,
    Role,
    Service,
    WebhookConfiguration,
)
from reconcile.doctor.reading import Reader, attempted
from reconcile.doctor.rights import Access, Bound, Grant, grants_of
from reconcile.doctor.webhooks import Backend, calls_of, services_of
from reconcile.sharding.member_lease import RING_LABEL
from reconcile.shipping.finalizers import NAME
from reconcile.shipping.installation import PORT
from reconcile.shipping.service_version import OWN_NAMESPACE

Managers: TypeAlias = Callable[[], Awaitable[Sequence[ManagerState] | Unread]]
"""Asks managers at addresses that a person gave."""

SECOND_LOOK: Final = 5.0
"""Seconds: longer than the time in which a holder renews, 2 by default."""

_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_FLOWS: Final = "/apis/flowcontrol.apiserver.k8s.io/v1"
_T = TypeVar("_T")


@frozen
class Installed:
    """The Deployment of the operator, read first: what else is read depends on it."""

    deployment: Deployment | Unread | None

    @property
    def arguments(self) -> Sequence[str]:
        """Those of the container that runs the manager."""
        if not isinstance(self.deployment, Deployment):
            return ()
        containers = self.deployment.spec.template.spec.containers
        found = next((one.args or () for one in containers if "run" in (one.args or ())), ())
        # Kubernetes fills in variables; a bundle of OLM has this one, since it may go into any namespace.
        return [text.replace(OWN_NAMESPACE, self.deployment.metadata.namespace) for text in found]

    def account(self, default: str) -> str:
        if not isinstance(self.deployment, Deployment):
            return default
        return self.deployment.spec.template.spec.service_account_name or "default"


async def installed(transport: Transport, namespace: str, name: str) -> Installed:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    what = f"Deployment {namespace}/{name}"
    return Installed(await attempted(what, Reader(transport).get(path, Deployment)))


async def gather(
    transport: Transport,
    clock: Clock,
    declared: Declared,
    there: Installed,
    managers: Managers | None = None,
) -> Facts:
    """Read all facts, each within a time; one that cannot be read is `Unread`, and the others are read."""
    reader, account = Reader(transport), there.account(declared.name)
    pods = await attempted("pods of the operator", _pods(reader, declared, there))
    definitions = await attempted("definitions", _definitions(reader, declared))
    webhooks = await attempted("webhooks", _webhooks(reader, declared, definitions))
    time = await attempted("time of the API server", _time(reader, clock))
    if isinstance(time, ServerTime | Unread):
        server = time
    else:
        server = Unread("time of the API server", "its answers have no Date", "compare the clocks by hand")
    return Facts(
        now=clock.now(),
        account=account,
        deployment=there.deployment,
        pods=pods,
        access=await attempted("roles and bindings", _access(reader, declared.namespace, account)),
        definitions=definitions,
        webhooks=webhooks,
        finalizers=await attempted("objects that are being deleted", _finalizers(reader, clock, declared)),
        leading=await attempted("Lease of the leader", _leading(reader, clock, declared)),
        members=await attempted("Leases of the ring", _members(reader, declared)),
        managers=_unasked(declared) if managers is None else await managers(),
        time=server,
        flows=await attempted("FlowSchemas", _flows(reader)),
    )


async def _pods(reader: Reader, declared: Declared, there: Installed) -> Sequence[Pod]:
    if not isinstance(there.deployment, Deployment):
        return []
    chosen = there.deployment.spec.selector.match_labels or {}
    labels = ",".join(f"{name}={value}" for name, value in sorted(chosen.items()))
    found = await reader.list(f"/api/v1/namespaces/{declared.namespace}/pods", Pod, labels)
    return [pod for pod in found if pod.lives]


# --- rights -----------------------------------------------------------------------------------------------


async def _access(reader: Reader, namespace: str, account: str) -> Access:
    bindings = [
        *await reader.list(f"{_RBAC}/clusterrolebindings", Binding),
        *await reader.list(f"{_RBAC}/rolebindings", Binding),
    ]
    granted: dict[Bound, Sequence[Grant]] = {}
    general: list[Grant] = []
    dangling: list[str] = []
    for binding in bindings:
        is_own = _binds(binding, namespace, account)
        if not is_own and not _binds_all(binding, namespace):
            continue
        where, role = binding.metadata.namespace, await _role(reader, binding)
        bound = _bound(binding)
        if role is None:
            dangling += [bound.binding] * is_own
        elif is_own:
            granted[bound] = grants_of(role.rules or (), where)
        else:
            general += grants_of(role.rules or (), where)
    return Access(granted, general, dangling)


def _bound(binding: Binding) -> Bound:
    ref, where = binding.role_ref, binding.metadata.namespace
    sort, place = ("RoleBinding", f"{where}/") if where else ("ClusterRoleBinding", "")
    role = f"{ref.kind} {place if ref.kind == 'Role' else ''}{ref.name}"
    return Bound(role, f"{sort} {place}{binding.metadata.name}")


async def _role(reader: Reader, binding: Binding) -> Role | None:
    ref, where = binding.role_ref, binding.metadata.namespace
    path = f"/namespaces/{where}/roles/" if ref.kind == "Role" else "/clusterroles/"
    return await reader.get(f"{_RBAC}{path}{ref.name}", Role)


def _binds(binding: Binding, namespace: str, account: str) -> bool:
    user = f"system:serviceaccount:{namespace}:{account}"
    return any(
        (one.kind, one.namespace or binding.metadata.namespace, one.name)
        == ("ServiceAccount", namespace, account)
        or (one.kind, one.name) == ("User", user)
        for one in binding.subjects or ()
    )


def _binds_all(binding: Binding, namespace: str) -> bool:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return any(one.kind == "Group" and one.name in groups for one in binding.subjects or ())


# --- definitions and webhooks -----------------------------------------------------------------------------


async def _definitions(reader: Reader, declared: Declared) -> Mapping[str, Definition | None]:
    """Those of its code; without code those that its manifests have labelled."""
    if not declared.module:
        labelled = await reader.list(_DEFINITIONS, Definition, f"{NAME}={declared.name}")
        return {one.metadata.name: one for one in labelled}
    return {name: await reader.get(f"{_DEFINITIONS}/{name}", Definition) for name in declared.definitions}


async def _webhooks(
    reader: Reader, declared: Declared, definitions: Mapping[str, Definition | None] | Unread
) -> WebhookFacts:
    configurations: list[WebhookConfiguration] = []
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        found = await reader.list(f"{_ADMISSION}/{kind.lower()}s", WebhookConfiguration)
        configurations += [WebhookConfiguration(one.metadata, kind, one.webhooks) for one in found]
    known = {} if isinstance(definitions, Unread) else definitions
    there = [one for one in known.values() if one is not None]
    written = [(one.group, one.plural) for one in declared.resources]
    written += [(one.spec.group, one.spec.names.plural) for one in there]
    calls = calls_of(declared, written, configurations, there)
    return WebhookFacts(calls, {place: await _backend(reader, *place) for place in services_of(calls)})


async def _backend(reader: Reader, namespace: str, name: str) -> Backend:
    service = await reader.get(f"/api/v1/namespaces/{namespace}/services/{name}", Service)
    if service is None:
        return Backend(None)
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    return Backend(service, await reader.list(slices, EndpointSlice, f"kubernetes.io/service-name={name}"))


async def _finalizers(reader: Reader, clock: Clock, declared: Declared) -> FinalizerFacts:
    definitions = await reader.heads(_DEFINITIONS)
    deployments = await reader.heads("/apis/apps/v1/deployments")
    stuck: list[Stuck] = []
    for group, version, plural in held_resources(declared, [*definitions, *deployments]):
        path = f"/apis/{group}/{version}/{plural}" if group else f"/api/{version}/{plural}"
        stuck += stuck_among(group, plural, await reader.heads(path), clock.now())
    namespaces = stuck_namespaces(await reader.list("/api/v1/namespaces", Namespace), clock.now())
    return FinalizerFacts(stuck, namespaces, owners_of(definitions, deployments))


# --- Leases, clocks and load ------------------------------------------------------------------------------


async def _leading(reader: Reader, clock: Clock, declared: Declared) -> Leading:
    if declared.lease is None:
        return Leading()
    namespace, name = declared.lease
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
    first = await reader.get(path, Lease)
    if first is None or not is_suspect(first, clock.now()):
        return Leading(first, first)
    await anyio.sleep(SECOND_LOOK)
    return Leading(first, await reader.get(path, Lease))


async def _members(reader: Reader, declared: Declared) -> Sequence[Lease]:
    if declared.ring is None:
        return []
    namespace, name = declared.ring
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    return await reader.list(path, Lease, f"{RING_LABEL}={name}")


async def _time(reader: Reader, clock: Clock) -> ServerTime | None:
    sent = clock.now()
    response = await reader.answer("/version")
    return server_time(response.headers.get("date", ""), sent, clock.now())


async def _flows(reader: Reader) -> Flows:
    return Flows(
        await reader.list(f"{_FLOWS}/flowschemas", FlowSchema),
        await reader.list(f"{_FLOWS}/prioritylevelconfigurations", PriorityLevel),
    )


def _unasked(declared: Declared) -> Unread:
    """Not through the API server, which passes no token on: /debug is for its own machine, or for a token."""
    forward = (
        f"kubectl -n {declared.namespace} port-forward deployment/{declared.name} 8080:{PORT}, "
        "then add --manager http://127.0.0.1:8080"
    )
    return Unread("state of the managers", "no address of one was given", forward)

"""Each fault that is planted in a healthy installation makes its own finding appear, and no other."""

import base64
import datetime
import itertools
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anyio
import msgspec
import pytest

from reconcile import Context, Controller, Intent, Manager, ObjectMeta
from reconcile.doctor.findings import Severity
from reconcile.doctor.managers import DebugState, InformerState, ManagerState, manager_state
from reconcile.kinds import ConfigMap, Namespace, Secret
from reconcile.testing import eventually
from reconcile.webhooks.certificate_authority import AUTHORITY_LIFE, new_authority
from tests.doctor.clinic import OTHER_POD, POD, Clinic, clinic
from tests.helpers.scenarios import simulated

Fault: TypeAlias = Callable[[Clinic], Awaitable[None]]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/sites.example.com"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/sites-system/leases/sites"
DEPLOYMENT = "/apis/apps/v1/namespaces/sites-system/deployments/sites"

PLANTED: dict[str, tuple[Fault, str, Severity, str]] = {}
"""By what is wrong: how it is planted, and the check, severity and words of its finding."""


def planted(check: str, severity: Severity, words: str) -> Callable[[Fault], Fault]:
    def note(fault: Fault) -> Fault:
        PLANTED[fault.__name__] = (fault, check, severity, words)
        return fault

    return note


# --- the operator -----------------------------------------------------------------------------------------


@planted("operator", "error", "Deployment sites-system/sites is scaled to 0")
async def scaled_to_nothing(ward: Clinic) -> None:
    ward.change("PATCH", DEPLOYMENT, {"spec": {"replicas": 0}})


@planted("operator", "warning", "has 1 of 2 pods ready")
async def a_pod_that_is_not_ready(ward: Clinic) -> None:
    path = f"/api/v1/namespaces/sites-system/pods/{OTHER_POD}/status"
    ward.change("PATCH", path, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})


# --- rights -----------------------------------------------------------------------------------------------


async def without_verb(ward: Clinic, verb: str, resource: str) -> None:
    role = ward.change("GET", f"{RBAC}/clusterroles/sites")
    for rule in role["rules"]:
        if rule["resources"] == [resource]:
            rule["verbs"].remove(verb)
    ward.change("PUT", f"{RBAC}/clusterroles/sites", role)


@planted("rights", "error", "may not patch sites/status of example.com in the whole cluster")
async def a_missing_right(ward: Clinic) -> None:
    role = ward.change("GET", f"{RBAC}/clusterroles/sites")
    role["rules"] = [rule for rule in role["rules"] if rule["resources"] != ["sites/status"]]
    ward.change("PUT", f"{RBAC}/clusterroles/sites", role)


@planted("rights", "error", "may not delete deployments of apps")
async def a_missing_verb(ward: Clinic) -> None:
    await without_verb(ward, "delete", "deployments")


@planted("rights", "warning", "ClusterRole sites lets it * * of *")
async def a_wildcard(ward: Clinic) -> None:
    role = ward.change("GET", f"{RBAC}/clusterroles/sites")
    role["rules"].append({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})
    ward.change("PUT", f"{RBAC}/clusterroles/sites", role)


@planted("rights", "warning", "Role shop/extra lets it update secrets named login in the namespace shop")
async def a_role_of_its_own_in_another_namespace(ward: Clinic) -> None:
    ward.change("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
    rules = [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]},  # declared for the whole cluster
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "update"], "resourceNames": ["login"]},
    ]
    ward.change("POST", f"{RBAC}/namespaces/shop/roles", {"metadata": {"name": "extra"}, "rules": rules})
    ward.change("POST", f"{RBAC}/namespaces/shop/rolebindings", binding("extra", "Role", "extra"))


def binding(name: str, kind: str, role: str) -> dict[str, object]:
    """Of a role to the operator's account."""
    account = {"kind": "ServiceAccount", "name": "sites", "namespace": "sites-system"}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
    return {"metadata": {"name": name}, "roleRef": ref, "subjects": [account]}


@planted("rights", "warning", "no declaration needs; delete the ClusterRoleBinding boss, unless it is meant")
async def a_role_of_others_that_allows_everything(ward: Clinic) -> None:
    ward.change("POST", f"{RBAC}/clusterrolebindings", binding("boss", "ClusterRole", "cluster-admin"))


@planted("rights", "error", "ClusterRoleBinding lost names a role that does not exist")
async def a_binding_of_a_role_that_does_not_exist(ward: Clinic) -> None:
    ward.change("POST", f"{RBAC}/clusterrolebindings", binding("lost", "ClusterRole", "lost"))


# --- definitions ------------------------------------------------------------------------------------------


def changed_definition(ward: Clinic, change: Callable[[dict[str, Any]], None]) -> None:
    definition = ward.change("GET", DEFINITION)
    change(definition)
    ward.change("PUT", DEFINITION, definition)


@planted("definitions", "error", "is older than the code: v1 lacks .spec.pullSecret")
async def a_definition_without_a_field(ward: Clinic) -> None:
    def older(definition: dict[str, Any]) -> None:
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        del schema["properties"]["spec"]["properties"]["pullSecret"]

    changed_definition(ward, older)


@planted("definitions", "error", "does not serve the version v1")
async def a_version_that_is_not_served(ward: Clinic) -> None:
    def renamed(definition: dict[str, Any]) -> None:
        (version,) = definition["spec"]["versions"]
        newer = {**version, "name": "v2", "storage": False}
        definition["spec"]["versions"] = [{**version, "served": False}, newer]

    changed_definition(ward, renamed)


@planted("stored-versions", "warning", "may have objects stored as v1alpha1, which it does not serve")
async def objects_stored_of_old(ward: Clinic) -> None:
    def former(definition: dict[str, Any]) -> None:
        (version,) = definition["spec"]["versions"]
        definition["spec"]["versions"].append(
            {**version, "name": "v1alpha1", "served": False, "storage": False}
        )

    changed_definition(ward, former)
    definition = ward.change("GET", DEFINITION)
    definition["status"]["storedVersions"] = ["v1alpha1", "v1"]
    ward.change("PUT", f"{DEFINITION}/status", definition)


# --- webhooks ---------------------------------------------------------------------------------------------


def authority(ward: Clinic, days: float) -> str:
    """A `caBundle` that ends in `days`."""
    ends = ward.client.clock.now() + datetime.timedelta(days=days)
    return base64.b64encode(new_authority(ends - AUTHORITY_LIFE).certificate.encode()).decode()


def hook(ward: Clinic, *, days: float = 300.0, policy: str = "Fail", **config: Any) -> None:
    """A webhook for Sites at the Service shop/checks, port 443."""
    called = {"service": {"namespace": "shop", "name": "checks"}, "caBundle": authority(ward, days)}
    rule = {
        "apiGroups": ["example.com"],
        "apiVersions": ["*"],
        "operations": ["CREATE"],
        "resources": ["sites"],
    }
    webhook = {
        "name": "checks.shop.example.com",
        "clientConfig": {**called, **config},
        "rules": [rule],
        "failurePolicy": policy,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    ward.change("POST", HOOKS, {"metadata": {"name": "checks"}, "webhooks": [webhook]})


def service(ward: Clinic, port: int = 443, ready: bool = True) -> None:
    ward.change("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
    spec = {"ports": [{"port": port}], "selector": {}}
    ward.change("POST", "/api/v1/namespaces/shop/services", {"metadata": {"name": "checks"}, "spec": spec})
    part = {
        "metadata": {"name": "checks-1", "labels": {"kubernetes.io/service-name": "checks"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.7"], "conditions": {"ready": ready}}],
        "ports": [{"port": 9443}],
    }
    ward.change("POST", "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", part)


@planted("webhooks", "error", "calls the Service shop/checks, which does not exist: writes are refused")
async def a_webhook_without_a_service(ward: Clinic) -> None:
    hook(ward)


@planted("webhooks", "error", "which has no port 443")
async def a_webhook_at_a_port_that_is_not_there(ward: Clinic) -> None:
    service(ward, port=8443)
    hook(ward)


@planted("webhooks", "warning", "which has no ready pod: its checks are skipped")
async def a_webhook_without_ready_pods_that_may_be_skipped(ward: Clinic) -> None:
    service(ward, ready=False)
    hook(ward, policy="Ignore")


@planted("webhooks", "error", "has no certificate in its caBundle")
async def a_webhook_that_trusts_no_certificate(ward: Clinic) -> None:
    service(ward)
    hook(ward, caBundle="")


@planted("webhooks", "error", "has a caBundle that expired on ")
async def a_webhook_whose_authority_has_expired(ward: Clinic) -> None:
    service(ward)
    hook(ward, days=-1)


@planted("webhooks", "warning", "has a caBundle that expires on ")
async def a_webhook_whose_authority_ends_this_week(ward: Clinic) -> None:
    service(ward)
    hook(ward, days=3)


@planted(
    "webhooks", "error", "CustomResourceDefinition sites.example.com calls the Service shop/convert, which"
)
async def a_conversion_that_nothing_answers(ward: Clinic) -> None:
    def converted(definition: dict[str, Any]) -> None:
        (version,) = definition["spec"]["versions"]
        definition["spec"]["versions"].append({**version, "name": "v1beta1", "storage": False})
        called = {"service": {"namespace": "shop", "name": "convert"}, "caBundle": authority(ward, 300)}
        webhook = {"clientConfig": called, "conversionReviewVersions": ["v1"]}
        definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}

    changed_definition(ward, converted)


# --- finalizers -------------------------------------------------------------------------------------------


async def terminating(ward: Clinic, finalizer: str, definition: dict[str, Any] | None = None) -> None:
    """A ConfigMap-like kind of another operator, one of whose objects is deleted and stays."""
    other = definition or {}
    annotations = {"reconcile-runtime/finalizers": f"example.org/v1/doors={finalizer}"} if other else {}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    body = {
        "metadata": {
            "name": "doors.example.org",
            "labels": {"app.kubernetes.io/name": "doors"},
            "annotations": annotations,
        },
        "spec": {
            "group": "example.org",
            "names": {"kind": "Door", "plural": "doors", "singular": "door", "listKind": "DoorList"},
            "scope": "Namespaced",
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
    ward.change("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    await anyio.sleep(1)
    path = "/apis/example.org/v1/namespaces/default/doors"
    ward.change(
        "POST",
        path,
        {
            "apiVersion": "example.org/v1",
            "kind": "Door",
            "metadata": {"name": "front", "finalizers": [finalizer]},
        },
    )
    ward.change("DELETE", f"{path}/front")
    await anyio.sleep(600)


@planted("finalizers", "error", "waits for the finalizer example.org/doors of doors, which is gone")
async def an_object_that_waits_for_an_operator_that_is_gone(ward: Clinic) -> None:
    await terminating(ward, "example.org/doors", {"annotated": True})


@planted("finalizers", "warning", "waits for the finalizer other.io/hold, whose operator is not known")
async def a_child_that_waits_for_an_unknown_operator(ward: Clinic) -> None:
    labels = {"a": "b"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "web", "image": "nginx"}]},
    }
    body = {
        "metadata": {"name": "web", "finalizers": ["other.io/hold"]},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    ward.change("POST", "/apis/apps/v1/namespaces/default/deployments", body)
    ward.change("DELETE", "/apis/apps/v1/namespaces/default/deployments/web")
    await anyio.sleep(600)


@planted("finalizers", "warning", "namespace shop does not end: Some content in the namespace has finalizers")
async def a_namespace_that_does_not_end(ward: Clinic) -> None:
    ward.change("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
    metadata = {"name": "kept", "finalizers": ["other.io/hold"]}
    ward.change("POST", "/api/v1/namespaces/shop/configmaps", {"metadata": metadata})
    await ward.admin.delete(await ward.admin.get(Namespace, "shop"))
    # The namespace controller of a real cluster says so; that of the embedded server keeps it to itself.
    message = "Some content in the namespace has finalizers remaining: other.io/hold in 1 resource instances"
    condition = {"type": "NamespaceFinalizersRemaining", "status": "True", "message": message}
    status = {"status": {"conditions": [condition]}}
    ward.change("PATCH", "/api/v1/namespaces/shop/status", status)
    await anyio.sleep(600)


# --- Leases and clocks ------------------------------------------------------------------------------------


async def leave(ward: Clinic) -> None:
    """The manager ends; its pods stay."""
    await ward.stop()


@planted("leases", "error", "Lease sites-system/sites has 2 managers that lead: ")
async def two_managers_that_lead(ward: Clinic) -> None:
    ward.states.append(ManagerState(OTHER_POD, DebugState(leading=True)))


@planted("leases", "error", "was not renewed in time by ")
async def a_lease_that_is_not_renewed(ward: Clinic) -> None:
    await leave(ward)
    ward.change("PATCH", LEASE, {"spec": {"holderIdentity": f"{POD}_1", "leaseDurationSeconds": 15}})
    await anyio.sleep(60)


@planted("leases", "error", "is held by laptop_1, which is not a pod of this operator")
async def a_lease_that_a_stranger_holds(ward: Clinic) -> None:
    await leave(ward)
    time = ward.client.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "laptop_1", "leaseDurationSeconds": 15, "renewTime": time}
    ward.change("PATCH", LEASE, {"spec": spec})


@planted("leases", "error", "passes to and fro: it changed hands 2 times")
async def a_lease_that_two_pods_take_in_turns(ward: Clinic) -> None:
    await leave(ward)
    ward.rivals = (f"{POD}_1", f"{OTHER_POD}_1")


@planted("leases", "error", "does not exist, though pods run")
async def a_lease_that_is_missing(ward: Clinic) -> None:
    await leave(ward)
    ward.change("DELETE", LEASE)


@planted("clock", "warning", "the clock of this machine is 20 s behind the API server's")
async def a_clock_that_is_behind(ward: Clinic) -> None:
    ward.skew = 20.0


@planted("clock", "error", f"the clock of {POD}_1 is ")
async def a_holder_whose_clock_is_far_ahead(ward: Clinic) -> None:
    await leave(ward)
    ahead = ward.client.clock.now() + datetime.timedelta(minutes=5)
    time = ahead.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": f"{POD}_1", "leaseDurationSeconds": 15, "renewTime": time}
    ward.change("PATCH", LEASE, {"spec": spec})


# --- managers and load ------------------------------------------------------------------------------------


@planted("storms", "warning", "churn default/web is in a storm and slowed down in sites-2: woken by its own")
async def a_key_that_wakes_itself(ward: Clinic) -> None:
    numbers = itertools.count()

    async def churn(ctx: Context[Secret]) -> None:
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data={"number": str(next(numbers))}))

    ward.change("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "web"}})
    controller = Controller(Secret, churn, owns=[ConfigMap], name="churn", operator="shop.example.com")
    manager = Manager(controller, environ={}, clock=ward.client.clock).on(ward.admin.transport)
    async with manager:
        await eventually(lambda: bool(manager.state()["controllers"]["churn"]["storms"]))
        state = {**manager.state(), "leading": False}  # it has no Lease, as that of the operator has
        ward.states.append(manager_state("sites-2", msgspec.json.encode(state)))


@planted("caches", "error", "secrets in sites-2 has heard nothing from the server for 300 s (refused)")
async def a_cache_that_is_far_behind(ward: Clinic) -> None:
    ward.states.append(
        ManagerState("sites-2", DebugState(informers=[InformerState("secrets", error="refused", lag=300.0)]))
    )


@planted("api-priority", "warning", f"{POD} was answered 429 for 30 of 130 requests")
async def requests_over_the_quota(ward: Clinic) -> None:
    ward.metrics = (
        'rest_client_requests_total{code="200",host="a",method="GET"} 100.0\n'
        'rest_client_requests_total{code="429",host="a",method="GET"} 30.0\n'
        'rest_client_requests_created{code="429"} 1.7e+09\n'
    )


@planted("api-priority", "warning", "FlowSchema catch-all leads to the PriorityLevelConfiguration catch-all")
async def requests_that_no_schema_takes(ward: Clinic) -> None:
    serve_flows(ward)
    rule = {
        "subjects": [{"kind": "Group", "group": {"name": "system:authenticated"}}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}],
    }
    level = {"metadata": {"name": "catch-all"}, "spec": {"type": "Limited", "limited": {}}}
    ward.change("POST", f"{FLOWS}/prioritylevelconfigurations", told(level, "PriorityLevelConfiguration"))
    spec = {
        "matchingPrecedence": 10000,
        "priorityLevelConfiguration": {"name": "catch-all"},
        "rules": [rule],
    }
    ward.change(
        "POST", f"{FLOWS}/flowschemas", told({"metadata": {"name": "catch-all"}, "spec": spec}, "FlowSchema")
    )


FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"


def told(body: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": kind, **body}


def serve_flows(ward: Clinic) -> None:
    """The embedded server has no priority and fairness: its objects alone are served here."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for kind in ("FlowSchema", "PriorityLevelConfiguration"):
        plural = f"{kind.lower()}s"
        body = {
            "metadata": {
                "name": f"{plural}.flowcontrol.apiserver.k8s.io",
                "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
            },
            "spec": {
                "group": "flowcontrol.apiserver.k8s.io",
                "names": {
                    "kind": kind,
                    "plural": plural,
                    "singular": kind.lower(),
                    "listKind": f"{kind}List",
                },
                "scope": "Cluster",
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
                ],
            },
        }
        ward.change("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)


# --- the law ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(PLANTED))
@simulated
async def test_a_planted_fault_makes_exactly_its_finding_appear(name: str) -> None:
    plant, check, severity, words = PLANTED[name]
    async with clinic() as ward:
        await plant(ward)
        findings = await ward.findings()
    lines = [finding.line() for finding in findings]
    assert len(lines) == 1, lines
    (found,) = findings
    assert (found.check, found.severity) == (check, severity)
    assert words in lines[0]
    assert found.next_step

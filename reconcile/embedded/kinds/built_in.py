"""The resources that every server has."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from reconcile.embedded.schema import Node, Steps, compile_schema
from reconcile.embedded.schema.builtin_schemas import schema_for
from reconcile.embedded.schema.json_schema import JSON_SCHEMA
from reconcile.embedded.served import ScalePaths, ServedResource

_APPS_SCALE = ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector")
_EVENT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_RBAC = "rbac.authorization.k8s.io"


@cache
def built_in_resources() -> tuple[ServedResource, ...]:
    """All built-in resources; the same values for every server, since they never change."""
    return tuple(
        sorted(
            (*_core(), *_workloads(), *_others(), *_policies(), *_rbac(), *_reviews()), key=_discovery_order
        )
    )


def _discovery_order(resource: ServedResource) -> tuple[bool, str, str]:
    return (bool(resource.group), resource.group, resource.plural)


def _core() -> tuple[ServedResource, ...]:
    return (
        _built_in(
            "", "v1", "Namespace", short_names=("ns",), namespaced=False, has_status=True,
            answers_object_on_delete=True, collection_deletable=False, selectable_fields=(".status.phase",),
        ),
        _built_in(
            "", "v1", "Pod", short_names=("po",), categories=("all",), has_status=True, has_generation=True,
            answers_object_on_delete=True,
            selectable_fields=(
                ".spec.nodeName", ".spec.restartPolicy", ".spec.schedulerName", ".spec.serviceAccountName",
                ".spec.hostNetwork", ".status.phase", ".status.podIP", ".status.nominatedNodeName",
            ),
        ),
        _built_in(
            "", "v1", "Node", short_names=("no",), namespaced=False, has_status=True,
            selectable_fields=(".spec.unschedulable",),
        ),
        _built_in("", "v1", "Secret", selectable_fields=(".type",)),
        _built_in("", "v1", "ConfigMap", short_names=("cm",)),
        _built_in(
            "", "v1", "Service", short_names=("svc",), categories=("all",), has_status=True,
            answers_object_on_delete=True, create_on_update=True,
            selectable_fields=(".spec.clusterIP", ".spec.type"),
        ),
        _built_in("", "v1", "ServiceAccount", short_names=("sa",), answers_object_on_delete=True),
        _built_in(
            "", "v1", "PersistentVolumeClaim", short_names=("pvc",), has_status=True,
            answers_object_on_delete=True,
        ),
        _built_in(
            "", "v1", "PersistentVolume", short_names=("pv",), namespaced=False, has_status=True,
            answers_object_on_delete=True,
        ),
        _built_in(
            "", "v1", "ResourceQuota", short_names=("quota",), has_status=True, answers_object_on_delete=True
        ),
        _built_in("", "v1", "LimitRange", short_names=("limits",), create_on_update=True),
        _built_in(
            "", "v1", "Endpoints", plural="endpoints", short_names=("ep",), create_on_update=True,
            deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        ),
        _built_in(
            "", "v1", "Event", short_names=("ev",), create_on_update=True,
            selectable_fields=(
                *(f".involvedObject.{field}" for field in _EVENT_FIELDS), ".reason", ".type", ".source",
                ".reportingComponent",
            ),
        ),
        _built_in(
            "events.k8s.io", "v1", "Event", short_names=("ev",), create_on_update=True,
            stored_as=("", "events"),
            selectable_fields=(*(f".regarding.{field}" for field in _EVENT_FIELDS), ".reason", ".type"),
        ),
    )  # fmt: skip


def _workloads() -> tuple[ServedResource, ...]:
    common: dict[str, Any] = {"categories": ("all",), "has_status": True, "has_generation": True}
    return (
        _built_in("apps", "v1", "Deployment", short_names=("deploy",), scale=_APPS_SCALE, **common),
        _built_in(
            "apps", "v1", "ReplicaSet", short_names=("rs",), scale=_APPS_SCALE,
            selectable_fields=(".status.replicas",), **common,
        ),
        _built_in("apps", "v1", "StatefulSet", short_names=("sts",), scale=_APPS_SCALE, **common),
        _built_in("apps", "v1", "DaemonSet", short_names=("ds",), **common),
        _built_in("apps", "v1", "ControllerRevision"),
        _built_in("batch", "v1", "CronJob", short_names=("cj",), **common),
        _built_in("batch", "v1", "Job", selectable_fields=(".status.successful",), **common),
    )  # fmt: skip


def _others() -> tuple[ServedResource, ...]:
    return (
        _built_in(
            "coordination.k8s.io", "v1", "Lease", create_on_update=True, unconditional_update=False
        ),
        _built_in(
            "networking.k8s.io", "v1", "Ingress", plural="ingresses", short_names=("ing",), has_status=True,
            has_generation=True,
        ),
        _built_in(
            "networking.k8s.io", "v1", "IngressClass", plural="ingressclasses", namespaced=False,
            has_generation=True,
        ),
        _built_in(
            "networking.k8s.io", "v1", "NetworkPolicy", plural="networkpolicies", short_names=("netpol",),
            has_generation=True,
        ),
        _built_in(
            "discovery.k8s.io", "v1", "EndpointSlice", has_generation=True,
        ),
        *(
            _built_in(
                "autoscaling", version, "HorizontalPodAutoscaler", short_names=("hpa",), categories=("all",),
                has_status=True,
            )
            for version in ("v2", "v1")
        ),
        _built_in(
            "apiextensions.k8s.io", "v1", "CustomResourceDefinition", short_names=("crd", "crds"),
            categories=("api-extensions",), namespaced=False, has_status=True, has_generation=True,
            answers_object_on_delete=True, unconditional_update=False,
        ),
    )  # fmt: skip


def _policies() -> tuple[ServedResource, ...]:
    webhooks: dict[str, Any] = {
        "categories": ("api-extensions",), "namespaced": False, "has_generation": True,
        "unconditional_update": False,
    }  # fmt: skip
    group = "admissionregistration.k8s.io"
    return (
        _built_in(
            "policy", "v1", "PodDisruptionBudget", short_names=("pdb",), has_status=True, has_generation=True,
            unconditional_update=False,
        ),
        _built_in(
            "scheduling.k8s.io", "v1", "PriorityClass", plural="priorityclasses", short_names=("pc",),
            namespaced=False, has_generation=True,
        ),
        _built_in(
            "storage.k8s.io", "v1", "StorageClass", plural="storageclasses", short_names=("sc",),
            namespaced=False, answers_object_on_delete=True,
        ),
        _built_in(group, "v1", "MutatingWebhookConfiguration", **webhooks),
        _built_in(group, "v1", "ValidatingWebhookConfiguration", **webhooks),
    )  # fmt: skip


def _reviews() -> tuple[ServedResource, ...]:
    authentication, authorization = "authentication.k8s.io", "authorization.k8s.io"
    review: dict[str, Any] = {"namespaced": False, "create_only": True}
    return (
        _built_in(authentication, "v1", "SelfSubjectReview", **review),
        _built_in(authentication, "v1", "TokenReview", **review),
        _built_in(authorization, "v1", "LocalSubjectAccessReview", create_only=True),
        _built_in(authorization, "v1", "SelfSubjectAccessReview", **review),
        _built_in(authorization, "v1", "SelfSubjectRulesReview", **review),
        _built_in(authorization, "v1", "SubjectAccessReview", **review),
    )


def _rbac() -> tuple[ServedResource, ...]:
    return (
        _built_in(_RBAC, "v1", "Role", create_on_update=True),
        _built_in(_RBAC, "v1", "RoleBinding", create_on_update=True),
        _built_in(_RBAC, "v1", "ClusterRole", namespaced=False, create_on_update=True),
        _built_in(_RBAC, "v1", "ClusterRoleBinding", namespaced=False, create_on_update=True),
    )


_GRAFTS: Mapping[str, Mapping[Steps, Node]] = {
    "CustomResourceDefinition": {("spec", "versions", "", "schema", "openAPIV3Schema"): JSON_SCHEMA},
}


def _built_in(
    group: str,
    version: str,
    kind: str,
    *,
    plural: str = "",
    has_generation: bool = False,
    unconditional_update: bool = True,
    **more: Any,
) -> ServedResource:
    openapi = schema_for(group, version, kind)
    return ServedResource(
        group=group,
        version=version,
        kind=kind,
        plural=plural or f"{kind.lower()}s",
        singular=kind.lower(),
        list_kind=f"{kind}List",
        schema=compile_schema(openapi, unique_lists=False, grafts=_GRAFTS.get(kind)),
        has_generation=has_generation,
        unconditional_update=unconditional_update,
        openapi=openapi,
        description=openapi.get("description", ""),
        **more,
    )

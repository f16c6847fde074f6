"""Write reconcile/embedded/schema/builtin_types.json: the shapes of the built-in kinds.

The fields come from the models of kubernetes_asyncio. How lists and maps merge, which the models do not
say, comes from the tables below, and how Go writes a field from go_fields.py. Run it with
`python tools/builtin_types.py` after any of them has changed.
"""

import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

from go_fields import NOT_WRITTEN, POINTERS, WRITTEN
from kubernetes_asyncio.client import models

TARGET = Path(__file__).parent.parent / "reconcile" / "embedded" / "schema" / "builtin_types.json"

KINDS = {
    "v1 ConfigMap": "V1ConfigMap",
    "v1 Endpoints": "V1Endpoints",
    "v1 Event": "CoreV1Event",
    "v1 LimitRange": "V1LimitRange",
    "v1 Namespace": "V1Namespace",
    "v1 Node": "V1Node",
    "v1 PersistentVolume": "V1PersistentVolume",
    "v1 PersistentVolumeClaim": "V1PersistentVolumeClaim",
    "v1 Pod": "V1Pod",
    "v1 PodTemplate": "V1PodTemplate",
    "v1 ReplicationController": "V1ReplicationController",
    "v1 ResourceQuota": "V1ResourceQuota",
    "v1 Secret": "V1Secret",
    "v1 Service": "V1Service",
    "v1 ServiceAccount": "V1ServiceAccount",
    "admissionregistration.k8s.io/v1 MutatingAdmissionPolicy": "V1MutatingAdmissionPolicy",
    "admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding": "V1MutatingAdmissionPolicyBinding",
    "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration": "V1MutatingWebhookConfiguration",
    "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy": "V1ValidatingAdmissionPolicy",
    "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding": "V1ValidatingAdmissionPolicyBinding",
    "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration": "V1ValidatingWebhookConfiguration",
    "apiextensions.k8s.io/v1 CustomResourceDefinition": "V1CustomResourceDefinition",
    "apiregistration.k8s.io/v1 APIService": "V1APIService",
    "apps/v1 ControllerRevision": "V1ControllerRevision",
    "apps/v1 DaemonSet": "V1DaemonSet",
    "apps/v1 Deployment": "V1Deployment",
    "apps/v1 ReplicaSet": "V1ReplicaSet",
    "apps/v1 StatefulSet": "V1StatefulSet",
    "authentication.k8s.io/v1 SelfSubjectReview": "V1SelfSubjectReview",
    "authentication.k8s.io/v1 TokenReview": "V1TokenReview",
    "authorization.k8s.io/v1 LocalSubjectAccessReview": "V1LocalSubjectAccessReview",
    "authorization.k8s.io/v1 SelfSubjectAccessReview": "V1SelfSubjectAccessReview",
    "authorization.k8s.io/v1 SelfSubjectRulesReview": "V1SelfSubjectRulesReview",
    "authorization.k8s.io/v1 SubjectAccessReview": "V1SubjectAccessReview",
    "autoscaling/v1 HorizontalPodAutoscaler": "V1HorizontalPodAutoscaler",
    "autoscaling/v1 Scale": "V1Scale",
    "autoscaling/v2 HorizontalPodAutoscaler": "V2HorizontalPodAutoscaler",
    "batch/v1 CronJob": "V1CronJob",
    "batch/v1 Job": "V1Job",
    "coordination.k8s.io/v1 Lease": "V1Lease",
    "discovery.k8s.io/v1 EndpointSlice": "V1EndpointSlice",
    "events.k8s.io/v1 Event": "EventsV1Event",
    "networking.k8s.io/v1 Ingress": "V1Ingress",
    "networking.k8s.io/v1 IngressClass": "V1IngressClass",
    "networking.k8s.io/v1 NetworkPolicy": "V1NetworkPolicy",
    "policy/v1 PodDisruptionBudget": "V1PodDisruptionBudget",
    "rbac.authorization.k8s.io/v1 ClusterRole": "V1ClusterRole",
    "rbac.authorization.k8s.io/v1 ClusterRoleBinding": "V1ClusterRoleBinding",
    "rbac.authorization.k8s.io/v1 Role": "V1Role",
    "rbac.authorization.k8s.io/v1 RoleBinding": "V1RoleBinding",
    "scheduling.k8s.io/v1 PriorityClass": "V1PriorityClass",
    "storage.k8s.io/v1 StorageClass": "V1StorageClass",
}

STRUCTS_OF_KINDS = {"metadata", "spec", "status"}

OPAQUE_TYPES = {"V1JSONSchemaProps"}
"""Types that are kept unchanged; JSONSchemaProps refers to itself."""

KEYED_LISTS = {
    "V1APIServiceStatus.conditions": ["type"],
    "V1Container.env": ["name"],
    "V1Container.ports": ["containerPort", "protocol"],
    "V1Container.volumeDevices": ["devicePath"],
    "V1Container.volumeMounts": ["mountPath"],
    "V1ContainerStatus.allocatedResourcesStatus": ["name"],
    "V1ContainerStatus.volumeMounts": ["mountPath"],
    "V1CustomResourceDefinitionStatus.conditions": ["type"],
    "V1DaemonSetStatus.conditions": ["type"],
    "V1DeploymentStatus.conditions": ["type"],
    "V1EphemeralContainer.env": ["name"],
    "V1EphemeralContainer.ports": ["containerPort", "protocol"],
    "V1EphemeralContainer.volumeDevices": ["devicePath"],
    "V1EphemeralContainer.volumeMounts": ["mountPath"],
    "V1MutatingAdmissionPolicySpec.matchConditions": ["name"],
    "V1MutatingWebhook.matchConditions": ["name"],
    "V1MutatingWebhookConfiguration.webhooks": ["name"],
    "V1NamespaceStatus.conditions": ["type"],
    "V1NodeStatus.addresses": ["type"],
    "V1NodeStatus.conditions": ["type"],
    "V1PersistentVolumeClaimStatus.conditions": ["type"],
    "V1PodDisruptionBudgetStatus.conditions": ["type"],
    "V1PodSpec.containers": ["name"],
    "V1PodSpec.ephemeralContainers": ["name"],
    "V1PodSpec.hostAliases": ["ip"],
    "V1PodSpec.imagePullSecrets": ["name"],
    "V1PodSpec.initContainers": ["name"],
    "V1PodSpec.resourceClaims": ["name"],
    "V1PodSpec.schedulingGates": ["name"],
    "V1PodSpec.topologySpreadConstraints": ["topologyKey", "whenUnsatisfiable"],
    "V1PodSpec.volumes": ["name"],
    "V1PodStatus.conditions": ["type"],
    "V1PodStatus.podIPs": ["ip"],
    "V1PodStatus.resourceClaimStatuses": ["name"],
    "V1ReplicaSetStatus.conditions": ["type"],
    "V1ReplicationControllerStatus.conditions": ["type"],
    "V1ResourceRequirements.claims": ["name"],
    "V1ResourceStatus.resources": ["resourceID"],
    "V1ServiceAccount.secrets": ["name"],
    "V1ServiceSpec.ports": ["port", "protocol"],
    "V1ServiceStatus.conditions": ["type"],
    "V1StatefulSetStatus.conditions": ["type"],
    "V1ValidatingAdmissionPolicySpec.matchConditions": ["name"],
    "V1ValidatingAdmissionPolicySpec.variables": ["name"],
    "V1ValidatingAdmissionPolicyStatus.conditions": ["type"],
    "V1ValidatingWebhook.matchConditions": ["name"],
    "V1ValidatingWebhookConfiguration.webhooks": ["name"],
    "V2HorizontalPodAutoscalerStatus.conditions": ["type"],
}
"""Lists of type map, with their keys, for server-side apply. Lists in none of the tables are atomic."""

SETS = {
    "V1ContainerRestartRuleOnExitCodes.values",
    "V1Endpoint.addresses",
    "V1NodeAllocatableResourceClaimStatus.containers",
    "V1NodeSpec.podCIDRs",
    "V1PodFailurePolicyOnExitCodesRequirement.values",
    "V1UncountedTerminatedPods.failed",
    "V1UncountedTerminatedPods.succeeded",
    "V1ValidatingAdmissionPolicyBindingSpec.validationActions",
}

MERGE_KEYS = {
    "V1JobStatus.conditions": "type",
    "V1PodStatus.hostIPs": "ip",
}
"""Merge keys of strategic patches for lists that are atomic for apply."""

STRATEGIES = {
    "V1DeploymentSpec.strategy": "retainKeys",
    "V1NodeSpec.podCIDRs": "merge",
    "V1PodDisruptionBudgetSpec.selector": "replace",
    "V1PodSpec.resourceClaims": "merge,retainKeys",
    "V1PodSpec.volumes": "merge,retainKeys",
    "V1PodStatus.resourceClaimStatuses": "merge,retainKeys",
}
"""Strategies of strategic patches other than `merge` for keyed lists."""

REPLACED_BY_PATCHES = {
    "V1CustomResourceDefinitionStatus.conditions",
    "V1ResourceRequirements.claims",
    "V1ValidatingAdmissionPolicyStatus.conditions",
    "V1ResourceStatus.resources",
}
"""Lists with keys for apply that a strategic patch nevertheless replaces."""

GRANULAR_MAPS = {"V1PersistentVolumeSpec.claimRef"}
"""Members that are owned part by part although their type is atomic elsewhere."""

ATOMIC_MAPS = {
    "V1ConfigMapKeySelector",
    "V1CrossVersionObjectReference",
    "V1EndpointAddress",
    "V1FileKeySelector",
    "V1LabelSelector",
    "V1LocalObjectReference",
    "V1MatchResources",
    "V1NamedRuleWithOperations",
    "V1NodeSelector",
    "V1NodeSelectorTerm",
    "V1ObjectFieldSelector",
    "V1ObjectReference",
    "V1ParamKind",
    "V1ParamRef",
    "V1PodSpec.nodeSelector",
    "V1ReplicationControllerSpec.selector",
    "V1ResourceFieldSelector",
    "V1RoleRef",
    "V1ScopeSelector",
    "V1SecretKeySelector",
    "V1SecretReference",
    "V1ServiceBackendPort",
    "V1ServiceSpec.selector",
    "V1TypedLocalObjectReference",
    "V1TopologySelectorTerm",
    "V1Variable",
    "CoreV1EndpointPort",
    "DiscoveryV1EndpointPort",
    "RbacV1Subject",
}

DEFAULTS = {
    "V1AzureDiskVolumeSource.cachingMode": "ReadWrite",
    "V1AzureDiskVolumeSource.fsType": "ext4",
    "V1AzureDiskVolumeSource.kind": "Shared",
    "V1AzureDiskVolumeSource.readOnly": False,
    "V1ContainerPort.protocol": "TCP",
    "V1FileKeySelector.optional": False,
    "V1GRPCAction.service": "",
    "V1ISCSIPersistentVolumeSource.iscsiInterface": "default",
    "V1ISCSIVolumeSource.iscsiInterface": "default",
    "V1LocalObjectReference.name": "",
    "V1RBDPersistentVolumeSource.keyring": "/etc/ceph/keyring",
    "V1RBDPersistentVolumeSource.pool": "rbd",
    "V1RBDPersistentVolumeSource.user": "admin",
    "V1RBDVolumeSource.keyring": "/etc/ceph/keyring",
    "V1RBDVolumeSource.pool": "rbd",
    "V1RBDVolumeSource.user": "admin",
    "V1ScaleIOPersistentVolumeSource.fsType": "xfs",
    "V1ScaleIOPersistentVolumeSource.storageMode": "ThinProvisioned",
    "V1ScaleIOVolumeSource.fsType": "xfs",
    "V1ScaleIOVolumeSource.storageMode": "ThinProvisioned",
    "V1ServicePort.protocol": "TCP",
}
"""The `+default` markers; those of protocols are part of a list's key."""

INT_OR_STRING = {
    "V1HTTPGetAction.port",
    "V1NetworkPolicyPort.port",
    "V1PodDisruptionBudgetSpec.maxUnavailable",
    "V1PodDisruptionBudgetSpec.minAvailable",
    "V1RollingUpdateDaemonSet.maxSurge",
    "V1RollingUpdateDaemonSet.maxUnavailable",
    "V1RollingUpdateDeployment.maxSurge",
    "V1RollingUpdateDeployment.maxUnavailable",
    "V1RollingUpdateStatefulSetStrategy.maxUnavailable",
    "V1ServicePort.targetPort",
    "V1TCPSocketAction.port",
}

MICRO_TIMES = {
    "CoreV1Event.eventTime",
    "CoreV1EventSeries.lastObservedTime",
    "EventsV1Event.eventTime",
    "EventsV1EventSeries.lastObservedTime",
    "V1LeaseSpec.acquireTime",
    "V1LeaseSpec.renewTime",
}

QUANTITIES = {
    "V1EmptyDirVolumeSource.sizeLimit",
    "V1PodSpec.overhead",
    "V1ResourceFieldSelector.divisor",
    "V2HPAScalingRules.tolerance",
    "V2MetricTarget.averageValue",
    "V2MetricTarget.value",
    "V2MetricValueStatus.averageValue",
    "V2MetricValueStatus.value",
}
QUANTITY_MAPS = {
    "allocatable",
    "allocatedResources",
    "capacity",
    "default",
    "defaultRequest",
    "hard",
    "limits",
    "max",
    "maxLimitRequestRatio",
    "min",
    "requests",
    "used",
}

BYTES = {
    "V1APIServiceSpec.caBundle",
    "V1ConfigMap.binaryData",
    "AdmissionregistrationV1WebhookClientConfig.caBundle",
    "ApiextensionsV1WebhookClientConfig.caBundle",
    "V1Secret.data",
}

LONG_INTEGERS = {
    "activeDeadlineSeconds",
    "deletionGracePeriodSeconds",
    "expirationSeconds",
    "fsGroup",
    "generation",
    "observedGeneration",
    "revision",
    "runAsGroup",
    "runAsUser",
    "sizeBytes",
    "startingDeadlineSeconds",
    "supplementalGroups",
    "terminationGracePeriodSeconds",
    "tolerationSeconds",
}

NOT_REQUIRED = {
    "CoreV1Event.involvedObject",
    "CoreV1Event.metadata",
    "EventsV1Event.eventTime",
    "V1ControllerRevision.revision",
    "V1CustomResourceDefinitionVersion.served",
    "V1CustomResourceDefinitionVersion.storage",
    "V1EndpointSlice.endpoints",
    "V1HTTPHeader.value",
    "V1ISCSIPersistentVolumeSource.lun",
    "V1ISCSIVolumeSource.lun",
    "V1LimitRangeSpec.limits",
    "V1PreferredSchedulingTerm.preference",
    "V1RoleRef.apiGroup",
    "V1SleepAction.seconds",
    "V1Sysctl.value",
}
"""Fields that the published types require but the server does not: it uses the zero value."""


def main() -> None:
    """Write the file; with `--check` only compare it with what would be written."""
    types: dict[str, Any] = {}
    for model in KINDS.values():
        collect(model, types, in_status=False)
    check_tables(types)
    document = {"kinds": KINDS, "types": dict(sorted(types.items()))}
    text = json.dumps(document, separators=(",", ":")) + "\n"
    if sys.argv[1:] != ["--check"]:
        TARGET.write_text(text)
    elif TARGET.read_text() != text:
        raise SystemExit(f"{TARGET.name} is out of date: run tools/builtin_types.py")


def collect(name: str, types: dict[str, Any], *, in_status: bool) -> None:
    """Add a type and those it refers to. What is only ever part of a status requires nothing."""
    model = getattr(models, name)
    known = types.get(name)
    required = [] if in_status else required_fields(name, model)
    if known is not None and (in_status or "required" in known or not required):
        return
    fields = {
        model.attribute_map[attribute]: expression(name, model.attribute_map[attribute], kind)
        for attribute, kind in sorted(model.openapi_types.items())
    }
    entry: dict[str, Any] = {"fields": fields}
    if required:
        entry["required"] = required
    extras = {field: found for field in fields if (found := extensions(f"{name}.{field}"))}
    if extras:
        entry["extensions"] = extras
    if name in ATOMIC_MAPS:
        entry["atomic"] = True
    if written := written_fields(name, model):
        entry["written"] = written
    if name in POINTERS:
        entry["pointers"] = POINTERS[name].split()
    types[name] = entry
    for attribute, kind in model.openapi_types.items():
        for part in re.findall(r"\w+", kind):
            if hasattr(models, part) and part not in OPAQUE_TYPES and part != "V1ObjectMeta":
                collect(part, types, in_status=in_status or attribute == "status")


def required_fields(name: str, model: Any) -> list[str]:
    """The members that the server requires."""
    return [field for field in required_by_model(model) if f"{name}.{field}" not in NOT_REQUIRED]


def required_by_model(model: Any) -> list[str]:
    """The members that the model's setters require."""
    pattern = r"client_side_validation and (\w+) is None"
    attributes = dict.fromkeys(re.findall(pattern, inspect.getsource(model)))
    return sorted(model.attribute_map[attribute] for attribute in attributes)


def written_fields(name: str, model: Any) -> list[str]:
    """The members that Go writes even if they are absent."""
    fields = {*required_by_model(model), *WRITTEN.get(name, "").split()}
    if "metadata" in model.attribute_map.values():
        fields |= STRUCTS_OF_KINDS & set(model.attribute_map.values())
    return sorted(fields - set(NOT_WRITTEN.get(name, "").split()))


def expression(owner: str, field: str, kind: str) -> str:
    """A field's type: a name, `[name]` for a list of it, `{name}` for a map to it."""
    if match := re.fullmatch(r"list\[(.*)\]", kind):
        return f"[{expression(owner, field, match[1])}]"
    if match := re.fullmatch(r"dict\(str, (.*)\)", kind):
        inner = "quantity" if field in QUANTITY_MAPS else expression(owner, field, match[1])
        return f"{{{inner}}}"
    place = f"{owner}.{field}"
    match kind:
        case "str":
            return "quantity" if place in QUANTITIES else "byte" if place in BYTES else "string"
        case "int":
            return "int64" if field in LONG_INTEGERS else "int32"
        case "float":
            return "number"
        case "bool":
            return "boolean"
        case "datetime":
            return "micro-time" if place in MICRO_TIMES else "date-time"
        case "object":
            return "int-or-string" if place in INT_OR_STRING else "any"
        case _:
            return "any" if kind in OPAQUE_TYPES else kind


def extensions(place: str) -> dict[str, Any]:
    """The x-kubernetes-* of a field, without that prefix, and its default."""
    found: dict[str, Any] = {}
    keys = KEYED_LISTS.get(place)
    if keys:
        found |= {"list-type": "map", "list-map-keys": keys}
    if place in SETS:
        found["list-type"] = "set"
    if place in ATOMIC_MAPS:
        found["map-type"] = "atomic"
    if place in GRANULAR_MAPS:
        found["map-type"] = "granular"
    merge_key = MERGE_KEYS.get(place) or (keys[0] if keys else "")
    if merge_key and place not in REPLACED_BY_PATCHES:
        found |= {"patch-strategy": "merge", "patch-merge-key": merge_key}
    if place in STRATEGIES:
        found["patch-strategy"] = STRATEGIES[place]
    if place in DEFAULTS:
        found["default"] = DEFAULTS[place]
    return found


def check_tables(types: dict[str, Any]) -> None:
    """Every field that the tables name must exist."""
    tables = (
        KEYED_LISTS,
        SETS,
        MERGE_KEYS,
        STRATEGIES,
        DEFAULTS,
        INT_OR_STRING,
        MICRO_TIMES,
        QUANTITIES,
        BYTES,
    )
    places = {place for table in (*tables, ATOMIC_MAPS, GRANULAR_MAPS, NOT_REQUIRED) for place in table}
    places |= {
        f"{name}.{field}"
        for table in (WRITTEN, NOT_WRITTEN, POINTERS)
        for name in table.keys() & types.keys()
        for field in table[name].split()
    }
    known = set(types) | {f"{name}.{field}" for name, entry in types.items() for field in entry["fields"]}
    if unknown := sorted(places - known):
        raise SystemExit(f"not in the models: {', '.join(unknown)}")


if __name__ == "__main__":
    main()

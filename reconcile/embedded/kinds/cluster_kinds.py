"""What is particular to the kinds around the workloads: roles, policies, networking, storage, webhooks."""

from reconcile.embedded.kinds.kind_rules import Object, default, fixed
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
)

RBAC = "rbac.authorization.k8s.io"
MAX_USER_PRIORITY = 1_000_000_000

_WEBHOOKS_UNCALLED = "webhook configurations are stored and not called by the embedded server"
_SYSTEM_PRIORITY = "system-"


# --- roles ------------------------------------------------------------------------------------


def prepare_binding(binding: Object, old: Object | None) -> None:
    """Fill in the API groups that a binding may leave out."""
    reference = binding.get("roleRef")
    if isinstance(reference, dict) and not reference.get("apiGroup"):
        reference["apiGroup"] = RBAC
    for subject in binding.get("subjects") or ():
        if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
            subject["apiGroup"] = RBAC


def validate_binding(binding: Object, old: Object | None) -> list[FieldCause]:
    """The faults of a binding; which role it binds never changes."""
    reference = binding.get("roleRef") or {}
    roles = ("Role", "ClusterRole") if binding["kind"] == "RoleBinding" else ("ClusterRole",)
    causes: list[FieldCause] = []
    if reference.get("kind") not in roles:
        causes.append(value_not_supported("roleRef.kind", reference.get("kind", ""), roles))
    if not reference.get("name"):
        causes.append(value_required("roleRef.name"))
    for index, subject in enumerate(binding.get("subjects") or ()):
        causes += _subject_causes(subject, f"subjects[{index}]", clusterwide=len(roles) == 1)
    if old is not None and old.get("roleRef") != binding.get("roleRef"):
        causes.append(value_invalid("roleRef", "", "cannot change roleRef"))
    return causes


def _subject_causes(subject: Object, path: str, *, clusterwide: bool) -> list[FieldCause]:
    kinds = ("ServiceAccount", "User", "Group")
    causes: list[FieldCause] = []
    if not subject.get("name"):
        causes.append(value_required(f"{path}.name"))
    if subject.get("kind") not in kinds:
        causes.append(value_not_supported(f"{path}.kind", subject.get("kind", ""), kinds))
    if subject.get("kind") == "ServiceAccount" and clusterwide and not subject.get("namespace"):
        causes.append(value_required(f"{path}.namespace"))
    return causes


def validate_role(role: Object, old: Object | None) -> list[FieldCause]:
    """The faults of a role: each rule names verbs, and resources with groups or URLs."""
    causes: list[FieldCause] = []
    for index, rule in enumerate(role.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            causes.append(value_required(f"{path}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            if role["kind"] == "Role":
                why = "namespaced rules cannot apply to non-resource URLs"
                causes.append(value_invalid(f"{path}.nonResourceURLs", rule["nonResourceURLs"], why))
            continue
        if not rule.get("apiGroups"):
            why = "resource rules must supply at least one api group"
            causes.append(value_required(f"{path}.apiGroups", why))
        if not rule.get("resources"):
            why = "resource rules must supply at least one resource"
            causes.append(value_required(f"{path}.resources", why))
    return causes


# --- policies ---------------------------------------------------------------------------------


def prepare_budget(budget: Object, old: Object | None) -> None:
    """Complete a PodDisruptionBudget."""
    if old is None:
        budget["status"] = {
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "disruptionsAllowed": 0,
            "expectedPods": 0,
        }


def validate_budget(budget: Object, old: Object | None) -> list[FieldCause]:
    """The faults of a PodDisruptionBudget."""
    spec = budget.get("spec") or {}
    causes: list[FieldCause] = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        causes.append(value_invalid("spec", "", "minAvailable and maxUnavailable cannot be both set"))
    for field in ("minAvailable", "maxUnavailable"):
        causes += _amount_causes(spec.get(field), f"spec.{field}")
    return causes


def _amount_causes(value: object, path: str) -> list[FieldCause]:
    if isinstance(value, int) and value < 0:
        return [value_invalid(path, value, "must be greater than or equal to 0")]
    percent = value.removesuffix("%") if isinstance(value, str) else "0"
    if not (percent.isascii() and percent.isdigit()) or (isinstance(value, str) and not value.endswith("%")):
        why = "must be an integer or percentage (e.g '5%%')"
        return [value_invalid(path, value, why)]
    percent = percent.lstrip("0")
    too_many = len(percent) > 3 or int(percent or "0") > 100
    return [value_invalid(path, value, "must not be greater than 100%")] if too_many else []


def prepare_quota(quota: Object, old: Object | None) -> None:
    """Complete a ResourceQuota."""
    if old is None:
        quota["status"] = {}


def validate_priority_class(priority: Object, old: Object | None) -> list[FieldCause]:
    """The faults of a PriorityClass, whose value never changes."""
    value, name = priority.get("value") or 0, priority["metadata"].get("name", "")
    causes = fixed(priority, old, "value", "preemptionPolicy")
    if value > MAX_USER_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}"
        causes.append(value_forbidden("value", why))
    if name.startswith(_SYSTEM_PRIORITY) and old is None:
        why = "priority class names with 'system-' prefix are reserved for system use only"
        causes.append(value_forbidden("metadata.name", why))
    return causes


def prepare_priority_class(priority: Object, old: Object | None) -> None:
    """Complete a PriorityClass."""
    default(priority, preemptionPolicy="PreemptLowerPriority")


# --- networking, storage ----------------------------------------------------------------------


def prepare_ingress(ingress: Object, old: Object | None) -> None:
    """Complete an Ingress."""
    if old is None:
        ingress["status"] = {"loadBalancer": {}}


def validate_ingress(ingress: Object, old: Object | None) -> list[FieldCause]:
    """The faults of an Ingress."""
    spec = ingress.get("spec") or {}
    if not spec.get("rules") and not spec.get("defaultBackend"):
        why = "either `defaultBackend` or `rules` must be specified"
        return [value_invalid("spec", "", why)]
    causes: list[FieldCause] = []
    for index, rule in enumerate(spec.get("rules") or ()):
        for at, path in enumerate((rule.get("http") or {}).get("paths") or ()):
            causes += _path_causes(path, f"spec.rules[{index}].http.paths[{at}]")
    return causes


def _path_causes(path: Object, place: str) -> list[FieldCause]:
    kinds = ("Exact", "ImplementationSpecific", "Prefix")
    kind, value = path.get("pathType"), path.get("path") or ""
    if kind not in kinds:
        return [value_not_supported(f"{place}.pathType", kind or "", kinds)]
    if kind in ("Exact", "Prefix") and not value.startswith("/"):
        return [value_invalid(f"{place}.path", value, "must be an absolute path")]
    return []


def prepare_network_policy(policy: Object, old: Object | None) -> None:
    """Complete a NetworkPolicy."""
    spec = policy.setdefault("spec", {})
    default(spec, policyTypes=["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])
    default(spec, podSelector={})
    for rule in [*(spec.get("ingress") or ()), *(spec.get("egress") or ())]:
        for port in rule.get("ports") or ():
            default(port, protocol="TCP")


def prepare_endpoint_slice(endpoints: Object, old: Object | None) -> None:
    """Complete an EndpointSlice."""
    for port in endpoints.get("ports") or ():
        default(port, name="", protocol="TCP")


def validate_endpoint_slice(endpoints: Object, old: Object | None) -> list[FieldCause]:
    """The faults of an EndpointSlice."""
    kinds = ("IPv4", "IPv6", "FQDN")
    causes = fixed(endpoints, old, "addressType")
    if not endpoints.get("addressType"):
        causes.append(value_required("addressType"))
    elif endpoints["addressType"] not in kinds:
        causes.append(value_not_supported("addressType", endpoints["addressType"], kinds))
    return causes


def prepare_storage_class(storage: Object, old: Object | None) -> None:
    """Complete a StorageClass."""
    default(storage, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def validate_storage_class(storage: Object, old: Object | None) -> list[FieldCause]:
    """The faults of a StorageClass, of which hardly anything ever changes."""
    causes = [] if storage.get("provisioner") else [value_required("provisioner")]
    names = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
    return causes + [
        value_forbidden(name, "updates to this field are forbidden.")
        for name in names
        if old is not None and storage.get(name) != old.get(name)
    ]


def prepare_volume(volume: Object, old: Object | None) -> None:
    """Complete a PersistentVolume."""
    default(volume.setdefault("spec", {}), persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    if old is None:
        volume["status"] = {"phase": "Pending"}


def prepare_claim(claim: Object, old: Object | None) -> None:
    """Complete a PersistentVolumeClaim."""
    claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    if old is None:
        claim["status"] = {"phase": "Pending"}


def prepare_endpoints(endpoints: Object, old: Object | None) -> None:
    """Complete the Endpoints of a service."""
    for subset in endpoints.get("subsets") or ():
        for port in subset.get("ports") or ():
            default(port, protocol="TCP")


# --- webhooks ---------------------------------------------------------------------------------


def prepare_webhooks(configuration: Object, old: Object | None) -> None:
    """Complete a Mutating- or ValidatingWebhookConfiguration."""
    for webhook in configuration.get("webhooks") or ():
        default(
            webhook,
            failurePolicy="Fail",
            matchPolicy="Equivalent",
            namespaceSelector={},
            objectSelector={},
            timeoutSeconds=10,
        )
        if configuration["kind"] == "MutatingWebhookConfiguration":
            default(webhook, reinvocationPolicy="Never")
        for rule in webhook.get("rules") or ():
            default(rule, scope="*")
        service = (webhook.get("clientConfig") or {}).get("service")
        if service:
            default(service, port=443)


def validate_webhooks(configuration: Object, old: Object | None) -> list[FieldCause]:
    """The faults of a webhook configuration."""
    causes: list[FieldCause] = []
    seen: set[str] = set()
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        path, name = f"webhooks[{index}]", webhook.get("name") or ""
        if name.count(".") < 2:
            why = "should be a domain with at least three segments separated by dots"
            causes.append(value_invalid(f"{path}.name", name, why))
        if name in seen:
            causes.append(FieldCause("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{path}.name"))
        seen.add(name)
        config = webhook.get("clientConfig") or {}
        if bool(config.get("url")) == bool(config.get("service")):
            why = "exactly one of url or service is required"
            causes.append(value_required(f"{path}.clientConfig", why))
        effects = webhook.get("sideEffects")
        if effects not in ("None", "NoneOnDryRun"):
            supported = ("None", "NoneOnDryRun")
            causes.append(value_not_supported(f"{path}.sideEffects", effects or "", supported))
    return causes


def warn_of_webhooks(configuration: Object) -> list[str]:
    """Say loudly that nobody calls."""
    return [f"{configuration['metadata'].get('name', '')}: {_WEBHOOKS_UNCALLED}"]

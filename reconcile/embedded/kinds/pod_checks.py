"""What pods and pod templates must satisfy: pkg/apis/core/validation, from the spec down."""

from collections.abc import Iterator
from typing import Final

from informers.apimachinery.name_rules import (
    label_faults,
    label_key_faults,
    label_value_faults,
    subdomain_faults,
)
from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.kinds.pod_annotations import annotation_rule_causes, profile_annotation_causes
from reconcile.embedded.kinds.pod_containers import Surroundings, container_list_causes, image_causes
from reconcile.embedded.kinds.pod_operating_systems import system_causes
from reconcile.embedded.kinds.pod_parts import each, part
from reconcile.embedded.kinds.pod_placement import (
    affinity_causes,
    gate_causes,
    spread_causes,
    toleration_causes,
)
from reconcile.embedded.kinds.pod_resource_rules import pod_claim_causes, pod_resource_causes, resource_causes
from reconcile.embedded.kinds.pod_security_contexts import pod_context_causes
from reconcile.embedded.kinds.pod_volumes import volume_causes
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    all_invalid,
    value_forbidden,
    value_invalid,
    value_not_found,
    value_not_supported,
    value_required,
)
from reconcile.embedded.protocol.ip_rules import ip_causes

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTIONS: Final = ("PreemptLowerPriority", "Never")
_NAMES: Final = (
    ("serviceAccountName", subdomain_faults),
    ("nodeName", subdomain_faults),
    ("priorityClassName", subdomain_faults),
    ("hostname", label_faults),
    ("subdomain", label_faults),
)
_MAX_SECONDS: Final = 2**31 - 1
# MaxDNSNameservers, MaxDNSSearchPaths and MaxDNSSearchListChars: the limits of libc's resolver.
_MAX_NAMESERVERS: Final = 3
_MAX_SEARCHES: Final = 32
_MAX_SEARCH_TEXT: Final = 2048
_LONGEST_HOSTNAME: Final = 64  # of the kernel's host names

Causes = Iterator[FieldCause]


def pod_causes(pod: Object) -> Causes:
    """The faults of a pod, new or changed (validatePodMetadataAndSpec)."""
    spec, metadata = pod["spec"], pod["metadata"]
    yield from annotation_rule_causes(part(metadata, "annotations"), spec, "metadata.annotations")
    yield from pod_spec_causes(spec, "spec", metadata.get("name") or "")
    if not spec.get("serviceAccountName"):
        yield from _token_causes(spec)
    for name in ("containers", "initContainers"):
        for index, container in enumerate(each(spec, name)):
            yield from image_causes(container, f"spec.{name}[{index}]")


def new_pod_causes(pod: Object) -> Causes:
    """The faults of a pod that only a new one can have (ValidatePodCreate)."""
    spec = pod["spec"]
    if spec.get("ephemeralContainers"):
        yield value_forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        why = "cannot be set until all schedulingGates have been cleared"
        yield value_forbidden("spec.nodeName", why)
    yield from profile_annotation_causes(part(pod, "metadata", "annotations"), spec, "spec")


def _token_causes(spec: Object) -> Causes:
    for index, volume in enumerate(each(spec, "volumes")):
        for number, source in enumerate(each(part(volume, "projected"), "sources")):
            if source.get("serviceAccountToken") is not None:
                path = f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                yield value_forbidden(path, "must not be specified when serviceAccountName is not set")


def pod_spec_causes(spec: Object, path: str, pod_name: str | None = None) -> Causes:
    """The faults of a pod spec; `pod_name` is None in a template, and empty while a name is missing."""
    volumes, causes = volume_causes(spec, path, pod_name)
    yield from causes
    claims = {claim.get("name") or "" for claim in each(spec, "resourceClaims")} - {""}
    yield from pod_claim_causes(spec, path)
    surroundings = Surroundings(
        volumes,
        claims,
        spec.get("restartPolicy") or "",
        spec.get("terminationGracePeriodSeconds") or 0,
        host_users=spec.get("hostUsers") is not False,
    )
    yield from container_list_causes(spec, path, surroundings)
    yield from _file_volume_causes(spec, path, volumes)
    yield from pod_resource_causes(spec, path, claims)
    yield from _host_network_causes(spec, path, whole=pod_name is not None)
    yield from _choice_causes(spec, path)
    yield from _selector_causes(part(spec, "nodeSelector"), f"{path}.nodeSelector")
    yield from pod_context_causes(spec, path)
    yield from affinity_causes(spec, path)
    yield from _dns_causes(spec, f"{path}.dnsConfig")
    yield from gate_causes(spec, path)
    yield from spread_causes(spec, path)
    yield from toleration_causes(each(spec, "tolerations"), f"{path}.tolerations")
    yield from _name_causes(spec, path)
    yield from _host_name_causes(spec, path)
    yield from _alias_causes(spec, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_SECONDS:
        why = f"must be between 1 and {_MAX_SECONDS}, inclusive"
        yield value_invalid(f"{path}.activeDeadlineSeconds", deadline, why)
    if spec.get("overhead"):
        yield from resource_causes({"limits": spec["overhead"]}, f"{path}.overhead", ())
    yield from system_causes(spec, path)


def _choice_causes(spec: Object, path: str) -> Causes:
    for name, known in (("restartPolicy", _RESTART_POLICIES), ("dnsPolicy", _DNS_POLICIES)):
        if spec.get(name) not in known:
            yield value_not_supported(f"{path}.{name}", spec.get(name) or "", known)
    preemption = spec.get("preemptionPolicy")
    if preemption == "":
        yield value_required(f"{path}.preemptionPolicy")
    elif preemption is not None and preemption not in _PREEMPTIONS:
        yield value_not_supported(f"{path}.preemptionPolicy", preemption, _PREEMPTIONS)


def _selector_causes(selector: Object, path: str) -> Causes:
    for key, value in selector.items():
        yield from all_invalid(path, key, label_key_faults(key))
        yield from all_invalid(path, value, label_value_faults(value))


def _name_causes(spec: Object, path: str) -> Causes:
    for field, faults in _NAMES:
        if spec.get(field):
            yield from all_invalid(f"{path}.{field}", spec[field], faults(spec[field]))
    runtime = spec.get("runtimeClassName")
    if runtime is not None:
        yield from all_invalid(f"{path}.runtimeClassName", runtime, subdomain_faults(runtime))


def _host_name_causes(spec: Object, path: str) -> Causes:
    name, path = spec.get("hostnameOverride"), f"{path}.hostnameOverride"
    if name is None:
        return
    yield from all_invalid(path, name, subdomain_faults(name))
    if len(name) > _LONGEST_HOSTNAME:
        yield value_invalid(path, name, f"must be no more than {_LONGEST_HOSTNAME} characters")
    for field in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(field):
            yield value_forbidden(path, f"may not be specified when {field} is true")


def _alias_causes(spec: Object, path: str) -> Causes:
    for index, alias in enumerate(each(spec, "hostAliases")):
        place = f"{path}.hostAliases[{index}]"
        yield from ip_causes(f"{place}.ip", alias.get("ip") or "")
        for number, name in enumerate(alias.get("hostnames") or ()):
            yield from all_invalid(f"{place}.hostnames[{number}]", name, subdomain_faults(name))


def _host_network_causes(spec: Object, path: str, *, whole: bool) -> Causes:
    """The faults of ports on the host network; a template may leave them to its pods."""
    if not spec.get("hostNetwork"):
        return
    for index, container in enumerate(each(spec, "containers")):
        for number, port in enumerate(each(container, "ports")):
            own, inner = port.get("hostPort") or 0, port.get("containerPort") or 0
            if (whole or own) and own != inner:
                place = f"{path}.containers[{index}].ports[{number}].hostPort"
                yield value_invalid(place, own, "must match `containerPort` when `hostNetwork` is true")


def _file_volume_causes(spec: Object, path: str, volumes: Object) -> Causes:
    """The faults of variables that are read from a file, which has to be in an emptyDir."""
    for kind in ("initContainers", "containers"):
        for index, container in enumerate(each(spec, kind)):
            for number, variable in enumerate(each(container, "env")):
                name = part(variable, "valueFrom", "fileKeyRef").get("volumeName")
                if not name:
                    continue
                place = f"{path}.{kind}[{index}].env[{number}].valueFrom.fileKeyRef.volumeName"
                if name not in volumes:
                    yield value_not_found(place, name)
                elif volumes[name].get("emptyDir") is None:
                    yield value_invalid(place, name, "referenced volume must be of type emptyDir")


# --- DNS --------------------------------------------------------------------------------------


def _dns_causes(spec: Object, path: str) -> Causes:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield value_required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            why = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield value_required(f"{path}.nameservers", why)
            return
    if config is None:
        return
    servers, searches = config.get("nameservers") or (), config.get("searches") or ()
    if len(servers) > _MAX_NAMESERVERS:
        why = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        yield value_invalid(f"{path}.nameservers", "", why)
    for index, server in enumerate(servers):
        yield from ip_causes(f"{path}.nameservers[{index}]", server)
    if len(searches) > _MAX_SEARCHES:
        yield value_invalid(f"{path}.searches", "", f"must not have more than {_MAX_SEARCHES} search paths")
    if len(" ".join(searches)) > _MAX_SEARCH_TEXT:
        why = f"must not have more than {_MAX_SEARCH_TEXT} characters (including spaces) in the search list"
        yield value_invalid(f"{path}.searches", "", why)
    for index, search in enumerate(searches):
        # As names of domains, which may have underscores here; the dot alone is the root.
        faults = [] if search == "." else subdomain_faults(search.removesuffix(".").replace("_", "a"))
        yield from all_invalid(f"{path}.searches[{index}]", search, faults)
    for index, option in enumerate(each(config, "options")):
        if not option.get("name"):
            yield value_required(f"{path}.options[{index}]", "must not be empty")

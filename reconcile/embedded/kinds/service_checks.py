"""The faults of Services, and what their writers are warned of."""

from collections.abc import Iterator
from typing import Final

from informers.apimachinery.name_rules import label_key_faults, subdomain_faults
from reconcile.embedded.kinds.balancer_points import point_causes
from reconcile.embedded.kinds.built_in_kind import Object, one_of
from reconcile.embedded.kinds.port_rules import (
    PROTOCOLS,
    app_protocol_causes,
    label_name_causes,
    port_causes,
    port_number_causes,
)
from reconcile.embedded.kinds.service_addresses import address_causes, address_change_causes
from reconcile.embedded.kinds.service_defaults import (
    TRAFFIC_POLICIES,
    balanced_points,
    externally_accessible,
    is_headless,
    needs_health_check,
)
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_duplicate,
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
)
from reconcile.embedded.protocol.ip_rules import (
    cidr_causes,
    cidr_warnings,
    endpoint_ip_causes,
    ip_causes,
    ip_warnings,
)
from reconcile.embedded.protocol.object_metadata import label_causes

# maxClientIPServiceAffinitySeconds in pkg/apis/core: a day.
MAX_AFFINITY_SECONDS: Final = 86_400
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES: Final = ("ClientIP", "None")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameNode", "PreferSameZone")
_TOPOLOGY_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
_TOPOLOGY_MODE: Final = "service.kubernetes.io/topology-mode"
_SOURCE_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_FOR_BALANCERS: Final = "may only be used when `type` is 'LoadBalancer'"


def validate_service(service: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of a service beside those of its metadata."""
    spec, before = service["spec"], {} if old is None else old["spec"]
    if old is not None:
        yield from address_change_causes(spec, before)
        yield from _balancer_change_causes(spec, before)
    yield from _annotation_causes(service)
    yield from _type_causes(spec)
    yield from _port_list_causes(spec)
    yield from label_causes(spec.get("selector") or {}, "spec.selector")
    yield from _affinity_causes(spec)
    yield from address_causes(spec, before)
    yield from _external_ip_causes(spec, before)
    yield from _source_range_causes(service, old)
    yield from _balancer_causes(spec)
    yield from _traffic_causes(spec)


def _balancer_change_causes(spec: Object, before: Object) -> Iterator[FieldCause]:
    if spec["type"] == "LoadBalancer" == before["type"]:
        name = spec.get("loadBalancerClass")
        if name != before.get("loadBalancerClass"):
            yield value_invalid("spec.loadBalancerClass", name, "may not change once set")
    port_changed = spec.get("healthCheckNodePort") != before.get("healthCheckNodePort")
    if port_changed and needs_health_check(spec) and needs_health_check(before):
        yield value_forbidden("spec.healthCheckNodePort", "field is immutable")


def _annotation_causes(service: Object) -> Iterator[FieldCause]:
    annotations = service["metadata"].get("annotations") or {}
    hints, mode = annotations.get(_TOPOLOGY_HINTS), annotations.get(_TOPOLOGY_MODE)
    if hints is not None and mode is not None and hints != mode:
        why = f"must match annotations[{_TOPOLOGY_HINTS}] when both are specified"
        yield value_invalid(f"metadata.annotations[{_TOPOLOGY_MODE}]", mode, why)


def _type_causes(spec: Object) -> Iterator[FieldCause]:
    kind = spec["type"]
    yield from one_of(spec, "spec.type", _TYPES)
    if not spec.get("ports") and not is_headless(spec) and kind != "ExternalName":
        yield value_required("spec.ports")
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        yield value_invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        yield from _external_name_causes(spec)


def _external_name_causes(spec: Object) -> Iterator[FieldCause]:
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            yield value_forbidden(f"spec.{name}", "may not be set for ExternalName services")
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        yield value_required("spec.externalName")
    else:
        for fault in subdomain_faults(name):
            yield value_invalid("spec.externalName", name, fault)


def _port_list_causes(spec: Object) -> Iterator[FieldCause]:
    ports = spec.get("ports") or []
    names: set[str] = set()
    for index, port in enumerate(ports):
        yield from _port_causes(port, f"spec.ports[{index}]", names, named=len(ports) > 1)
    if spec["type"] == "ClusterIP":
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                why = "may not be used when `type` is 'ClusterIP'"
                yield value_forbidden(f"spec.ports[{index}].nodePort", why)
    yield from _duplicate_causes(ports, "nodePort", ".nodePort")
    yield from _duplicate_causes(ports, "port", "")


def _port_causes(port: Object, path: str, names: set[str], *, named: bool) -> Iterator[FieldCause]:
    name = port.get("name") or ""
    if named and not name:
        yield value_required(f"{path}.name")
    elif name:
        yield from label_name_causes(f"{path}.name", name)
        if name in names:
            yield value_duplicate(f"{path}.name", name)
        names.add(name)
    yield from port_number_causes(f"{path}.port", port.get("port") or 0)
    yield from one_of(port, f"{path}.protocol", PROTOCOLS)
    yield from port_causes(f"{path}.targetPort", port.get("targetPort") or 0)
    yield from app_protocol_causes(port, path)


def _duplicate_causes(ports: list[Object], name: str, place: str) -> Iterator[FieldCause]:
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        key = port.get("protocol") or "", port.get(name) or 0
        if key in seen:
            yield value_duplicate(f"spec.ports[{index}]{place}", key[1])
        if key[1] or name == "port":
            seen.add(key)


def _affinity_causes(spec: Object) -> Iterator[FieldCause]:
    yield from one_of(spec, "spec.sessionAffinity", _AFFINITIES)
    if spec["sessionAffinity"] != "ClientIP":
        return
    seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
    if not 0 < seconds <= MAX_AFFINITY_SECONDS:
        path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
        yield value_invalid(path, seconds, f"must be greater than 0 and less than {MAX_AFFINITY_SECONDS}")


def _external_ip_causes(spec: Object, before: Object) -> Iterator[FieldCause]:
    for index, address in enumerate(spec.get("externalIPs") or ()):
        path = f"spec.externalIPs[{index}]"
        malformed = [*ip_causes(path, address, before.get("externalIPs") or ())]
        yield from malformed or endpoint_ip_causes(path, address)


def _source_range_causes(service: Object, old: Object | None) -> Iterator[FieldCause]:
    spec, ranges = service["spec"], service["spec"].get("loadBalancerSourceRanges") or []
    noted = _noted_ranges(service)
    if ranges:
        path = "spec.LoadBalancerSourceRanges"
        places = [f"{path}[{index}]" for index in range(len(ranges))]
        kept = () if old is None else old["spec"].get("loadBalancerSourceRanges") or ()
    elif noted is not None:
        path = f"metadata.annotations[{_SOURCE_RANGES}]"
        ranges, places = noted, [path] * len(noted)
        kept = () if old is None else _noted_ranges(old) or ()
    else:
        return
    if spec["type"] != "LoadBalancer":
        yield value_forbidden(path, _FOR_BALANCERS)
    for place, text in zip(places, ranges, strict=True):
        # They may be padded with spaces, as they could be in the annotation that came first.
        yield from cidr_causes(place, text.strip(), [value.strip() for value in kept])


def _noted_ranges(service: Object) -> list[str] | None:
    text = (service["metadata"].get("annotations") or {}).get(_SOURCE_RANGES)
    if text is None:
        return None
    return text.strip().split(",") if text.strip() else []


def _balancer_causes(spec: Object) -> Iterator[FieldCause]:
    is_balancer, name = spec["type"] == "LoadBalancer", spec.get("loadBalancerClass")
    if spec.get("allocateLoadBalancerNodePorts") is not None and not is_balancer:
        yield value_forbidden("spec.allocateLoadBalancerNodePorts", _FOR_BALANCERS)
    if name is None:
        return
    if not is_balancer:
        yield value_forbidden("spec.loadBalancerClass", _FOR_BALANCERS)
        return
    for fault in label_key_faults(name):
        yield value_invalid("spec.loadBalancerClass", name, fault)


def _traffic_causes(spec: Object) -> Iterator[FieldCause]:
    policy, port = spec.get("externalTrafficPolicy") or "", spec.get("healthCheckNodePort") or 0
    if externally_accessible(spec):
        yield from one_of(spec, "spec.externalTrafficPolicy", TRAFFIC_POLICIES)
    elif policy:
        why = "may only be set for externally-accessible services"
        yield value_invalid("spec.externalTrafficPolicy", policy, why)
    if needs_health_check(spec):
        yield from port_number_causes("spec.healthCheckNodePort", port)
    elif port:
        why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield value_invalid("spec.healthCheckNodePort", port, why)
    for name, supported in (
        ("internalTrafficPolicy", TRAFFIC_POLICIES),
        ("trafficDistribution", _DISTRIBUTIONS),
    ):
        if spec.get(name) is not None:
            yield from one_of(spec, f"spec.{name}", supported)


# --- status -----------------------------------------------------------------------------------


def validate_service_status(service: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of the points at which a load balancer listens."""
    points = balanced_points(service)
    if points and service["spec"]["type"] != "LoadBalancer":
        why = 'may only be used when `spec.type` is "LoadBalancer"'
        yield value_forbidden("status.loadBalancer.ingress", why)
        return
    kept = [] if old is None else [point.get("ip") for point in balanced_points(old)]
    for index, point in enumerate(points):
        path = f"status.loadBalancer.ingress[{index}]"
        yield from point_causes(point, path, kept)
        yield from _mode_causes(point, path)


def _mode_causes(point: Object, path: str) -> Iterator[FieldCause]:
    mode = point.get("ipMode")
    if mode is None:
        return
    if not point.get("ip"):
        yield value_forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set")
    elif mode not in ("Proxy", "VIP"):
        yield value_not_supported(f"{path}.ipMode", mode, ("Proxy", "VIP"))


# --- warnings ---------------------------------------------------------------------------------


def service_warnings(service: Object, old: Object | None) -> list[str]:
    """What is deprecated, ignored or oddly written."""
    spec = service["spec"]
    warnings = [*_ignored(service)]
    if spec["type"] != "ExternalName" and not is_headless(spec):
        for index, address in enumerate(spec.get("clusterIPs") or ()):
            warnings += ip_warnings(f"spec.clusterIPs[{index}]", address)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        warnings += ip_warnings(f"spec.externalIPs[{index}]", address)
    warnings += ip_warnings("spec.loadBalancerIP", spec.get("loadBalancerIP") or "")
    for index, text in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        warnings += cidr_warnings(f"spec.loadBalancerSourceRanges[{index}]", text)
    return warnings


def _ignored(service: Object) -> Iterator[str]:
    spec = service["spec"]
    headless = spec["type"] == "ClusterIP" and spec.get("clusterIP") == "None"
    external = spec["type"] == "ExternalName"
    if _TOPOLOGY_HINTS in (service["metadata"].get("annotations") or {}):
        yield f"annotation {_TOPOLOGY_HINTS} is deprecated, please use {_TOPOLOGY_MODE} instead"
    if headless and spec.get("loadBalancerIP"):
        yield "spec.loadBalancerIP is ignored for headless services"
    if headless and spec["sessionAffinity"] != "None":
        yield "spec.SessionAffinity is ignored for headless services"
    if spec.get("externalIPs"):
        if headless:
            yield "spec.externalIPs is ignored for headless services"
        elif external:
            yield 'spec.externalIPs is ignored when spec.type is "ExternalName"'
        else:
            yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if spec.get("externalName") and not external:
        yield 'spec.externalName is ignored when spec.type is not "ExternalName"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def service_status_warnings(service: Object, old: Object | None) -> list[str]:
    """Addresses of the load balancer that are oddly written."""
    return [
        warning
        for index, point in enumerate(balanced_points(service))
        if point.get("ip")
        for warning in ip_warnings(f"status.loadBalancer.ingress[{index}]", point["ip"])
    ]

"""What admission sets in Ingresses, the faults of Ingresses and IngressClasses, and their warnings."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from informers.apimachinery.name_rules import (
    label_faults,
    path_segment_faults,
    port_name_faults,
    subdomain_faults,
    wildcard_subdomain_faults,
)
from reconcile.embedded.kinds.balancer_points import point_causes
from reconcile.embedded.kinds.built_in_kind import Object, Others, one_of
from reconcile.embedded.kinds.default_classes import default_class
from reconcile.embedded.kinds.path_rules import domain_path_causes
from reconcile.embedded.kinds.port_rules import label_name_causes, port_number_causes
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_required,
    value_too_long,
)
from reconcile.embedded.protocol.ip_rules import ip_warnings, parse_ip

# maxLenIngressClassController in pkg/apis/networking/validation.
MAX_CONTROLLER: Final = 250
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_SEQUENCES: Final = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS: Final = ("/..", "/.")
_CLASS_NOTE: Final = "kubernetes.io/ingress.class"
_DEFAULT_NOTE: Final = "ingressclass.kubernetes.io/is-default-class"


def admit_ingress(ingress: Object, old: Object | None, others: Others) -> None:
    """Give a new ingress the default class, if there is one (plugin DefaultIngressClass)."""
    if old is not None or _annotations(ingress).get(_CLASS_NOTE) is not None:
        return
    spec = ingress.get("spec") or {}
    if spec.get("ingressClassName") is not None:
        return
    name = default_class(others.every("networking.k8s.io", "ingressclasses"), _DEFAULT_NOTE)
    if name is not None:
        ingress["spec"] = {**spec, "ingressClassName": name}


def _annotations(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or {}


# --- Ingresses --------------------------------------------------------------------------------


def validate_ingress(ingress: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of an ingress beside those of its metadata."""
    spec = ingress.get("spec") or {}
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        yield value_invalid("spec", "", "either `defaultBackend` or `rules` must be specified")
    if spec.get("defaultBackend") is not None:
        yield from _backend_causes(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules") or ()):
        yield from _rule_causes(rule, f"spec.rules[{index}]")
    for index, secured in enumerate(spec.get("tls") or ()):
        yield from _tls_causes(secured, f"spec.tls[{index}]")
    yield from _class_causes(ingress, spec.get("ingressClassName"), new=old is None)


def _class_causes(ingress: Object, name: str | None, *, new: bool) -> Iterator[FieldCause]:
    if name is None:
        return
    for fault in subdomain_faults(name):
        yield value_invalid("spec.ingressClassName", name, fault)
    noted = _annotations(ingress).get(_CLASS_NOTE)
    if new and noted is not None and noted != name:
        why = "must match `ingressClassName` when both are specified"
        yield value_invalid(f"annotations.{_CLASS_NOTE}", noted, why)


def _rule_causes(rule: Object, path: str) -> Iterator[FieldCause]:
    if host := rule.get("host") or "":
        if parse_ip(host) is not None:
            yield value_invalid(f"{path}.host", host, "must be a DNS name, not an IP address")
        yield from _host_causes(host, f"{path}.host")
    if rule.get("http") is None:
        return
    paths = rule["http"].get("paths") or []
    if not paths:
        yield value_required(f"{path}.http.paths")
    for index, one in enumerate(paths):
        yield from _path_causes(one, f"{path}.http.paths[{index}]")


def _host_causes(host: str, path: str) -> Iterator[FieldCause]:
    faults = wildcard_subdomain_faults(host) if "*" in host else subdomain_faults(host)
    for fault in faults:
        yield value_invalid(path, host, fault)


def _path_causes(path: Object, place: str) -> Iterator[FieldCause]:
    value, kind = path.get("path") or "", path.get("pathType")
    if kind is None:
        yield value_required(f"{place}.pathType", "pathType must be specified")
        return
    yield from one_of(path, f"{place}.pathType", _PATH_TYPES)
    exact = kind in ("Exact", "Prefix")
    if kind in _PATH_TYPES and not value.startswith("/") and (value or exact):
        yield value_invalid(f"{place}.path", value, "must be an absolute path")
    if exact:
        for sequence in _BAD_SEQUENCES:
            if sequence in value:
                yield value_invalid(f"{place}.path", value, f"must not contain '{sequence}'")
        for end in _BAD_ENDS:
            if value.endswith(end):
                yield value_invalid(f"{place}.path", value, f"cannot end with '{end}'")
    yield from _backend_causes(path.get("backend") or {}, f"{place}.backend")


def _backend_causes(backend: Object, path: str) -> Iterator[FieldCause]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        yield value_invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _reference_causes(resource, f"{path}.resource")
    elif service is not None:
        yield from _service_causes(service, path)
    else:
        yield value_invalid(path, "", "resource or service backend is required")


def _service_causes(service: Object, path: str) -> Iterator[FieldCause]:
    name, port = service.get("name") or "", service.get("port") or {}
    if name:
        yield from label_name_causes(f"{path}.service.name", name)
    else:
        yield value_required(f"{path}.service.name")
    by_name, by_number = port.get("name") or "", port.get("number") or 0
    if by_name and by_number:
        yield value_invalid(path, "", "cannot set both port name & port number")
    elif by_name:
        for fault in port_name_faults(by_name):
            yield value_invalid(f"{path}.service.port.name", by_name, fault)
    elif by_number:
        yield from port_number_causes(f"{path}.service.port.number", by_number)
    else:
        yield value_required(path, "port name or number is required")


def _reference_causes(reference: Object, path: str) -> Iterator[FieldCause]:
    group = reference.get("apiGroup")
    if group is not None:
        for fault in subdomain_faults(group):
            yield value_invalid(f"{path}.apiGroup", group, fault)
    for name in ("kind", "name"):
        value = reference.get(name) or ""
        if not value:
            yield value_required(f"{path}.{name}")
        for fault in path_segment_faults(value):
            yield value_invalid(f"{path}.{name}", value, fault)


def _tls_causes(secured: Object, path: str) -> Iterator[FieldCause]:
    for index, host in enumerate(secured.get("hosts") or ()):
        yield from _host_causes(host, f"{path}.hosts[{index}]")
    if name := secured.get("secretName"):
        for fault in subdomain_faults(name):
            yield value_invalid(f"{path}.secretName", name, fault)


def validate_ingress_status(ingress: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of the points at which a load balancer listens."""
    kept = [] if old is None else [point.get("ip") for _, point in _points(old)]
    for path, point in _points(ingress):
        yield from point_causes(point, path, kept)


def _points(ingress: Object) -> Iterator[tuple[str, Object]]:
    balancer: Mapping[str, Any] = (ingress.get("status") or {}).get("loadBalancer") or {}
    for index, point in enumerate(balancer.get("ingress") or ()):
        yield f"status.loadBalancer.ingress[{index}]", point


def ingress_warnings(ingress: Object, old: Object | None) -> list[str]:
    """The annotation that came before `ingressClassName`, if a new ingress has it alone."""
    named = (ingress.get("spec") or {}).get("ingressClassName") is not None
    if old is not None or named or _CLASS_NOTE not in _annotations(ingress):
        return []
    return [f"annotation \"{_CLASS_NOTE}\" is deprecated, please use 'spec.ingressClassName' instead"]


def ingress_status_warnings(ingress: Object, old: Object | None) -> list[str]:
    """Addresses of the load balancer that are oddly written."""
    points = _points(ingress)
    return [text for path, point in points for text in ip_warnings(f"{path}.ip", point.get("ip") or "")]


# --- IngressClasses ---------------------------------------------------------------------------


def default_ingress_class(ingress_class: Object) -> None:
    """Parameters are those of the cluster unless they say otherwise."""
    parameters = (ingress_class.get("spec") or {}).get("parameters")
    if parameters is not None and parameters.get("scope") is None:
        parameters["scope"] = "Cluster"


def validate_ingress_class(ingress_class: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of a class beside those of its metadata."""
    spec = ingress_class.get("spec") or {}
    controller = spec.get("controller") or ""
    if old is not None and controller != old["spec"]["controller"]:
        yield value_invalid("spec.controller", controller, "field is immutable")
    if len(controller.encode()) > MAX_CONTROLLER:
        yield value_too_long("spec.controller", MAX_CONTROLLER)
    yield from domain_path_causes(controller, "spec.controller")
    if spec.get("parameters") is not None:
        yield from _reference_causes(spec["parameters"], "spec.parameters")
        yield from _scope_causes(spec["parameters"], "spec.parameters")


def _scope_causes(parameters: Object, path: str) -> Iterator[FieldCause]:
    namespace, scope = parameters.get("namespace"), parameters["scope"]
    yield from one_of(parameters, f"{path}.scope", ("Cluster", "Namespace"))
    if scope == "Cluster" and namespace is not None:
        yield value_forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'")
    if scope != "Namespace":
        return
    if namespace is None:
        yield value_required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'")
    else:
        for fault in label_faults(namespace):
            yield value_invalid(f"{path}.namespace", namespace, fault)

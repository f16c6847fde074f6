"""Ingresses, IngressClasses and NetworkPolicies."""

import datetime
from collections.abc import Iterator
from typing import Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, fill, one_of, spec_and_status
from reconcile.embedded.kubectl.printing import AGE, NAMES, NONE, View, at, first_three, labels, pick
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid
from reconcile.embedded.served import CellColumn


def _validate_ingress(ingress: Object, old: Object | None) -> Iterator[FieldCause]:
    spec = ingress.get("spec") or {}
    if not spec.get("rules") and not spec.get("defaultBackend"):
        yield value_invalid("spec", "", "either `defaultBackend` or `rules` must be specified")
    for index, rule in enumerate(spec.get("rules") or ()):
        for number, path in enumerate((rule.get("http") or {}).get("paths") or ()):
            yield from _path_causes(path, f"spec.rules[{index}].http.paths[{number}]")


def _path_causes(path: Object, place: str) -> Iterator[FieldCause]:
    value = path.get("path") or ""
    yield from one_of(path, f"{place}.pathType", ("Exact", "ImplementationSpecific", "Prefix"))
    if path.get("pathType") in ("Exact", "Prefix") and not value.startswith("/"):
        yield value_invalid(f"{place}.path", value, "must be an absolute path")


def _default_network_policy(policy: Object) -> None:
    spec = policy.setdefault("spec", {})
    if spec.get("policyTypes") is None:
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    fill(spec, {"podSelector": {}})
    for rule in [*(spec.get("ingress") or ()), *(spec.get("egress") or ())]:
        for port in rule.get("ports") or ():
            fill(port, {"protocol": "TCP"})


def _hosts(obj: View, _now: datetime.datetime) -> str:
    hosts = [rule.get("host") for rule in pick(obj, "spec", "rules") or () if rule.get("host")]
    return first_three(hosts, "*")


def _ingress_address(obj: View, _now: datetime.datetime) -> str:
    points = pick(obj, "status", "loadBalancer", "ingress") or ()
    return ",".join(str(point.get("ip") or point.get("hostname")) for point in points)


KINDS: Final = (
    BuiltInKind(
        "networking.k8s.io", "Ingress", plural="ingresses", short_names=("ing",), has_status=True,
        has_generation=True,
        first_status={"loadBalancer": {}},
        checks=_validate_ingress,
        columns=(
            NAMES,
            CellColumn("Class", at("spec", "ingressClassName", default=NONE)),
            CellColumn("Hosts", _hosts),
            CellColumn("Address", _ingress_address),
            CellColumn("Ports", lambda obj, _now: "80, 443" if pick(obj, "spec", "tls") else "80"),
            AGE,
        ),
        messages={
            **spec_and_status("Ingress"),
            "IngressSpec": {
                1: "defaultBackend:*IngressBackend", 2: "tls:[IngressTLS]", 3: "rules:[IngressRule]",
                4: "ingressClassName:*string",
            },
            "IngressBackend": {
                3: "resource:*TypedLocalObjectReference", 4: "service:*IngressServiceBackend",
            },
            "TypedLocalObjectReference": {1: "apiGroup:*string", 2: "kind:string", 3: "name:string"},
            "IngressServiceBackend": {1: "name:string", 2: "port:ServiceBackendPort"},
            "ServiceBackendPort": {1: "name:string", 2: "number:int"},
            "IngressTLS": {1: "hosts:[string]", 2: "secretName:string"},
            "IngressRule": {1: "host:string", 2: ":IngressRuleValue"},
            "IngressRuleValue": {1: "http:*HTTPIngressRuleValue"},
            "HTTPIngressRuleValue": {1: "paths:[HTTPIngressPath]"},
            "HTTPIngressPath": {1: "path:string", 2: "backend:IngressBackend", 3: "pathType:*string"},
            "IngressStatus": {1: "loadBalancer:Nothing"},
        },
        viewed=("", "status"),
        edited=("",),
    ),
    BuiltInKind(
        "networking.k8s.io", "IngressClass", plural="ingressclasses", namespaced=False, has_generation=True,
        columns=(
            NAMES,
            CellColumn("Controller", at("spec", "controller")),
            CellColumn("Parameters", at("spec", "parameters", "name", default=NONE)),
            AGE,
        ),
    ),
    BuiltInKind(
        "networking.k8s.io", "NetworkPolicy", plural="networkpolicies", short_names=("netpol",),
        has_generation=True,
        defaults=_default_network_policy,
        columns=(NAMES, CellColumn("Pod-Selector", labels("spec", "podSelector", "matchLabels")), AGE),
        viewed=("",),
        edited=("",),
    ),
)  # fmt: skip

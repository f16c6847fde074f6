"""Ingresses, IngressClasses and NetworkPolicies."""

import datetime
from typing import Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, spec_and_status
from reconcile.embedded.kinds.ingress_checks import (
    admit_ingress,
    default_ingress_class,
    ingress_status_warnings,
    ingress_warnings,
    validate_ingress,
    validate_ingress_class,
    validate_ingress_status,
)
from reconcile.embedded.kinds.network_policy_checks import (
    default_network_policy,
    network_policy_warnings,
    validate_network_policy,
)
from reconcile.embedded.kubectl.printing import AGE, NAMES, NONE, View, at, first_three, labels, pick
from reconcile.embedded.served import CellColumn


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
        admit=admit_ingress,
        first_status={"loadBalancer": {}},
        checks=validate_ingress,
        metadata_fault_copies=4,
        status_checks=validate_ingress_status,
        names_missing_fields=True,
        warnings=ingress_warnings,
        status_warnings=ingress_status_warnings,
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
        defaults=default_ingress_class,
        checks=validate_ingress_class,
        metadata_fault_copies=4,
        names_missing_fields=True,
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
        defaults=default_network_policy,
        checks=validate_network_policy,
        names_missing_fields=True,
        warnings=network_policy_warnings,
        columns=(NAMES, CellColumn("Pod-Selector", labels("spec", "podSelector", "matchLabels")), AGE),
        viewed=("",),
        edited=("",),
    ),
)  # fmt: skip

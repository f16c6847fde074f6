"""Services, Endpoints and EndpointSlices."""

import datetime
from typing import Final

from informers.apimachinery.name_rules import label_faults
from reconcile.embedded.kinds.built_in_kind import BuiltInKind, spec_and_status
from reconcile.embedded.kinds.endpoint_checks import (
    endpoints_warnings,
    prepare_endpoint_slice,
    slice_warnings,
    validate_endpoint_slice,
    validate_endpoints,
)
from reconcile.embedded.kinds.service_checks import (
    service_status_warnings,
    service_warnings,
    validate_service,
    validate_service_status,
)
from reconcile.embedded.kinds.service_defaults import default_service, prepare_service
from reconcile.embedded.kinds.service_pools import ServicePools
from reconcile.embedded.kubectl.printing import (
    AGE,
    NAMES,
    NONE,
    UNSET,
    View,
    at,
    first_three,
    joined,
    labels,
    pick,
)
from reconcile.embedded.served import CellColumn


def _external_ip(obj: View, _now: datetime.datetime) -> str:
    if pick(obj, "spec", "type") == "ExternalName":
        return pick(obj, "spec", "externalName") or NONE
    external = list(pick(obj, "spec", "externalIPs") or ())
    if pick(obj, "spec", "type") != "LoadBalancer":
        return joined(external)
    balanced = pick(obj, "status", "loadBalancer", "ingress") or ()
    shown = [item.get("ip") or item.get("hostname") for item in balanced] + external
    return joined(shown) if shown else "<pending>"


def _ports(obj: View, _now: datetime.datetime) -> str:
    def shown(port: View) -> str:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        return f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}"

    return joined(shown(port) for port in pick(obj, "spec", "ports") or ())


def _endpoints(obj: View, _now: datetime.datetime) -> str:
    found = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in pick(obj, "subsets") or ()
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or ()
    ]
    return first_three(found, NONE)


def _slice_ports(obj: View, _now: datetime.datetime) -> str:
    return first_three([str(port.get("port", "*")) for port in pick(obj, "ports") or ()], UNSET)


def _slice_endpoints(obj: View, _now: datetime.datetime) -> str:
    found = [address for one in pick(obj, "endpoints") or () for address in one.get("addresses") or ()]
    return first_three(found, UNSET)


KINDS: Final = (
    BuiltInKind(
        "", "Service", short_names=("svc",), categories=("all",), has_status=True,
        answers_object_on_delete=True, create_on_update=True,
        selectable_fields=(".spec.clusterIP", ".spec.type"),
        defaults=default_service,
        allocate_with_state=lambda: ServicePools().allocate,
        prepare=prepare_service,
        first_status={"loadBalancer": {}},
        checks=validate_service,
        status_checks=validate_service_status,
        names_missing_fields=True,
        check_name=label_faults,
        warnings=service_warnings,
        status_warnings=service_status_warnings,
        metadata_fault_copies=4,
        columns=(
            NAMES,
            CellColumn("Type", at("spec", "type")),
            CellColumn("Cluster-IP", at("spec", "clusterIP", default=NONE)),
            CellColumn("External-IP", _external_ip),
            CellColumn("Port(s)", _ports),
            AGE,
            CellColumn("Selector", labels("spec", "selector"), wide=True),
        ),
        messages={
            **spec_and_status("Service"),
            "ServiceSpec": {
                1: "ports:[ServicePort]", 2: "selector:{string}", 3: "clusterIP:string", 4: "type:string",
                5: "externalIPs:[string]", 7: "sessionAffinity:string", 8: "loadBalancerIP:string",
                9: "loadBalancerSourceRanges:[string]", 10: "externalName:string",
                11: "externalTrafficPolicy:string", 12: "healthCheckNodePort:int",
                13: "publishNotReadyAddresses:bool", 17: "ipFamilyPolicy:*string",
                18: "clusterIPs:[string]", 19: "ipFamilies:[string]",
                20: "allocateLoadBalancerNodePorts:*bool", 21: "loadBalancerClass:*string",
                22: "internalTrafficPolicy:*string", 23: "trafficDistribution:*string",
            },
            "ServicePort": {
                1: "name:string", 2: "protocol:string", 3: "port:int", 4: "targetPort:int-or-string",
                5: "nodePort:int", 6: "appProtocol:*string",
            },
            "ServiceStatus": {1: "loadBalancer:Nothing"},
        },
        viewed=("", "status"),
        edited=("",),
    ),
    BuiltInKind(
        "", "Endpoints", plural="endpoints", short_names=("ep",), create_on_update=True,
        deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        fills={"subsets": [{"ports": [{"protocol": "TCP"}]}]},
        checks=validate_endpoints,
        metadata_fault_copies=4,
        names_missing_fields=True,
        warnings=endpoints_warnings,
        columns=(NAMES, CellColumn("Endpoints", _endpoints), AGE),
        viewed=("",),
        edited=("",),
    ),
    BuiltInKind(
        "discovery.k8s.io", "EndpointSlice", has_generation=True,
        fills={"ports": [{"name": "", "protocol": "TCP"}]},
        prepare=prepare_endpoint_slice,
        checks=validate_endpoint_slice,
        names_missing_fields=True,
        warnings=slice_warnings,
        columns=(
            NAMES,
            CellColumn("AddressType", at("addressType")),
            CellColumn("Ports", _slice_ports),
            CellColumn("Endpoints", _slice_endpoints),
            AGE,
        ),
        viewed=("",),
    ),
)  # fmt: skip

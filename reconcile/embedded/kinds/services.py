"""Services, Endpoints and EndpointSlices."""

import datetime
from collections.abc import Iterator
from typing import Final

from informers.apimachinery.name_rules import service_name_faults
from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, fill, fixed, one_of, spec_and_status
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
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_required
from reconcile.embedded.served import CellColumn


class ClusterIPs:
    """Hands out the addresses of services, 10.96.0.0/12, in order. An address never changes."""

    def __init__(self) -> None:
        self._given = 0

    def prepare(self, service: Object, old: Object | None) -> None:
        spec = service["spec"]
        if old is not None and (old.get("spec") or {}).get("clusterIP"):
            spec.setdefault("clusterIP", old["spec"]["clusterIP"])
        if spec["type"] == "ExternalName":
            return
        if not spec.get("clusterIP"):
            spec["clusterIP"] = self._next()
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        spec.setdefault("ipFamilies", ["IPv4"])
        fill(spec, {"ipFamilyPolicy": "SingleStack"})

    def _next(self) -> str:
        # The last number is never 0 or 255, which are reserved in a network.
        self._given += 1
        high, low = divmod(self._given, 254)
        return f"10.{96 + high // 256}.{high % 256}.{low + 1}"


def _default_service(service: Object) -> None:
    spec = service.setdefault("spec", {})
    fill(spec, {"type": "ClusterIP", "sessionAffinity": "None"})
    for port in spec.get("ports") or ():
        fill(port, {"protocol": "TCP", "targetPort": port.get("port")})
    if spec["type"] != "ExternalName":
        fill(spec, {"internalTrafficPolicy": "Cluster"})


def _validate_endpoint_slice(endpoints: Object, old: Object | None) -> Iterator[FieldCause]:
    yield from fixed(endpoints, old, "addressType")
    if endpoints.get("addressType"):
        yield from one_of(endpoints, "addressType", ("IPv4", "IPv6", "FQDN"))
    else:
        yield value_required("addressType")


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
        defaults=_default_service,
        prepare_with_state=lambda: ClusterIPs().prepare,
        first_status={"loadBalancer": {}},
        check_name=service_name_faults,
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
        columns=(NAMES, CellColumn("Endpoints", _endpoints), AGE),
        viewed=("",),
        edited=("",),
    ),
    BuiltInKind(
        "discovery.k8s.io", "EndpointSlice", has_generation=True,
        fills={"ports": [{"name": "", "protocol": "TCP"}]},
        checks=_validate_endpoint_slice,
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

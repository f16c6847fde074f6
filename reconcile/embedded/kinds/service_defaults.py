"""What decoding a Service sets, and what an update of its type drops."""

from typing import Any, Final

from reconcile.embedded.kinds.built_in_kind import Object

WITH_ADDRESS: Final = ("ClusterIP", "LoadBalancer", "NodePort")
TRAFFIC_POLICIES: Final = ("Cluster", "Local")
WITH_NODE_PORTS: Final = ("LoadBalancer", "NodePort")
# DefaultClientIPServiceAffinitySeconds in k8s.io/api/core/v1: three hours.
AFFINITY_SECONDS: Final = 10_800


def default_service(service: Object) -> None:
    """Set in place what SetDefaults_Service sets."""
    spec = service["spec"] = service.get("spec") or {}
    spec["type"] = spec.get("type") or "ClusterIP"
    _default_affinity(spec)
    for port in spec.get("ports") or ():
        port["protocol"] = port.get("protocol") or "TCP"
        port["targetPort"] = port.get("targetPort") or port.get("port") or 0
    if externally_accessible(spec):
        spec["externalTrafficPolicy"] = spec.get("externalTrafficPolicy") or "Cluster"
    if spec["type"] in WITH_ADDRESS and spec.get("internalTrafficPolicy") is None:
        spec["internalTrafficPolicy"] = "Cluster"
    if spec["type"] != "LoadBalancer":
        return
    if spec.get("allocateLoadBalancerNodePorts") is None:
        spec["allocateLoadBalancerNodePorts"] = True
    for point in balanced_points(service):
        if point.get("ip") and point.get("ipMode") is None:
            point["ipMode"] = "VIP"


def _default_affinity(spec: Object) -> None:
    spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if client.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}}


def balanced_points(service: Object) -> list[Object]:
    """Where the load balancer of its status listens."""
    return ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []


def externally_accessible(spec: Object) -> bool:
    """Whether traffic from outside of the cluster is meant to reach it."""
    return spec["type"] in WITH_NODE_PORTS or (spec["type"] == "ClusterIP" and bool(spec.get("externalIPs")))


def needs_health_check(spec: Object) -> bool:
    """Whether load balancers ask its nodes if they have an endpoint."""
    return spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def is_headless(spec: Object) -> bool:
    """Whether it has no address of its own, because its writer wants none."""
    return spec.get("clusterIPs") == ["None"]


def node_ports(spec: Object) -> list[int]:
    """Those of its ports that have one."""
    return [port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")]


def prepare_service(service: Object, old: Object | None) -> None:
    """Drop what the type of a service has no use for, after a change of it if the writer left it as it was.

    What was changed as well is left, and refused by the checks.
    """
    if service["spec"]["type"] == "ExternalName":
        _hide_internal_policy(service["spec"])
    if old is None:
        return
    spec, before = service["spec"], old["spec"]
    if spec["type"] == "ExternalName" != before["type"]:
        _drop_unchanged(spec, before, "clusterIP", "clusterIPs")
        _drop_unchanged(spec, before, "ipFamilies")
        _drop_unchanged(spec, before, "ipFamilyPolicy")
    if before["type"] in WITH_NODE_PORTS and spec["type"] not in WITH_NODE_PORTS:
        _drop_node_ports(spec, before)
    if needs_health_check(before) and not needs_health_check(spec):
        _drop_unchanged(spec, before, "healthCheckNodePort")
    if before["type"] == "LoadBalancer" != spec["type"]:
        _drop_unchanged(spec, before, "allocateLoadBalancerNodePorts")
        _drop_unchanged(spec, before, "loadBalancerClass")
        service["status"] = {**(service.get("status") or {}), "loadBalancer": {}}
    if externally_accessible(before) and not externally_accessible(spec):
        _drop_unchanged(spec, before, "externalTrafficPolicy")


def _hide_internal_policy(spec: Object) -> None:
    # A real server keeps it and never shows it; a value that there is not is left for the checks.
    if spec.get("internalTrafficPolicy") in TRAFFIC_POLICIES:
        del spec["internalTrafficPolicy"]


def _drop_unchanged(spec: Object, before: Object, *names: str) -> None:
    """Drop these fields together, unless one of them has changed."""
    if any(_value(spec, name) != _value(before, name) for name in names):
        return
    for name in names:
        spec.pop(name, None)


def _value(spec: Object, name: str) -> Any:
    value = spec.get(name)
    return None if value in ("", 0, []) and not isinstance(value, bool) else value


def _drop_node_ports(spec: Object, before: Object) -> None:
    if set(node_ports(spec)) <= set(node_ports(before)):
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)

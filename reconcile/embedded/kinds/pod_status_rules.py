"""The rules for a pod's status that is written through its subresource (ValidatePodStatusUpdate)."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from informers.apimachinery.name_rules import label_key_faults, subdomain_faults
from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.kinds.pod_changes import annotation_causes
from reconcile.embedded.kinds.pod_parts import each, is_sidecar, part
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    all_invalid,
    value_duplicate,
    value_forbidden,
    value_invalid,
    value_not_supported,
)
from reconcile.embedded.protocol.ip_rules import ip_causes, is_ipv6

_SYSTEM_CONDITIONS: Final = ("PodScheduled", "Ready", "Initialized")
_HEALTH: Final = ("Healthy", "Unhealthy", "Unknown")
_MAX_ID: Final = 2**31 - 1

Causes = Iterator[FieldCause]


def status_causes(pod: Object, old: Object | None) -> Causes:
    """The faults of the status of a pod."""
    before = old or {}
    spec, status, former = part(before, "spec"), part(pod, "status"), part(before, "status")
    yield from annotation_causes(pod, before)
    yield from _condition_causes(status)
    node = status.get("nominatedNodeName")
    if node and node != former.get("nominatedNodeName"):
        yield from all_invalid("status.nominatedNodeName", node, subdomain_faults(node))
    if status.get("qosClass") != former.get("qosClass"):
        yield value_invalid("status.qosClass", status.get("qosClass"), "field is immutable")
    yield from _restart_causes(status, former, spec)
    yield from _claim_causes(status, spec)
    yield from _address_causes(status, former, "podIPs")
    yield from _host_causes(status, former)
    for name, containers in (
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ):
        for index, one in enumerate(each(status, name)):
            yield from _user_causes(
                one, f"status.{name}[{index}].linux", part(spec, "os").get("name") or "linux"
            )
            yield from _device_causes(one, f"status.{name}[{index}]", each(spec, containers))


def _condition_causes(status: Object) -> Causes:
    # The real server looks for conditions in the metadata.
    for index, condition in enumerate(each(status, "conditions")):
        kind = condition.get("type") or ""
        if kind not in _SYSTEM_CONDITIONS:
            yield from all_invalid(f"metadata.conditions[{index}].Type", kind, label_key_faults(kind))


def _restart_causes(status: Object, former: Object, spec: Object) -> Causes:
    """Containers that have ended for good may not run again."""
    policy = spec.get("restartPolicy")
    sidecars = {one.get("name") for one in each(spec, "initContainers") if is_sidecar(one)}
    for name, policy_here in (
        ("containerStatuses", policy),
        ("initContainerStatuses", policy),
        ("ephemeralContainerStatuses", "Never"),
    ):
        if policy_here == "Always":
            continue
        for index, one in enumerate(each(former, name)):
            ended = part(one, "state").get("terminated")
            may_restart = ended is None or (ended.get("exitCode") and policy_here == "OnFailure")
            if may_restart or (name == "initContainerStatuses" and one.get("name") in sidecars):
                continue
            for now in each(status, name):
                if now.get("name") == one.get("name") and part(now, "state").get("terminated") is None:
                    why = "may not be transitioned to non-terminated state"
                    yield value_forbidden(f"status.{name}[{index}].state", why)


def _claim_causes(status: Object, spec: Object) -> Causes:
    known = {claim.get("name") for claim in each(spec, "resourceClaims")}
    seen: set[str] = set()
    for index, one in enumerate(each(status, "resourceClaimStatuses")):
        path, name = f"status.resourceClaimStatuses[{index}].name", one.get("name") or ""
        if name not in known:
            why = "must match the name of an entry in `spec.resourceClaims`"
            yield value_invalid(path, name, why)
        if name in seen:
            yield value_duplicate(path, name)
        seen.add(name)
        claim = one.get("resourceClaimName")
        if claim is not None:
            yield from all_invalid(path, claim, subdomain_faults(claim))


# --- addresses --------------------------------------------------------------------------------


def _address_causes(status: Object, former: Object, name: str) -> Causes:
    path = f"status.{name}"
    ips = [one.get("ip") or "" for one in each(status, name)]
    kept = {one.get("ip") or "" for one in each(former, name)}
    for index, ip in enumerate(ips):
        yield from ip_causes(f"{path}[{index}]", ip, kept)
    if len(ips) < 2:
        return
    families = Counter(map(is_ipv6, ips))
    if len(families) < 2 or len(ips) > 2:
        yield value_invalid(path, ", ".join(ips), "may specify no more than one IP for each IP family")
    for index, ip in enumerate(ips):
        if ip in ips[:index]:
            yield value_duplicate(f"{path}[{index}]", ip)


def _host_causes(status: Object, former: Object) -> Causes:
    ips = [one.get("ip") or "" for one in each(status, "hostIPs")]
    if ips and ips[0] != (status.get("hostIP") or ""):
        yield value_invalid("status.hostIPs[0].ip", ips[0], "must be equal to `hostIP`")
    yield from _address_causes(status, former, "hostIPs")


# --- containers -------------------------------------------------------------------------------


def _user_causes(status: Object, path: str, system: str) -> Causes:
    user = part(status, "user").get("linux")
    if user is None:
        return
    if system == "windows":
        yield value_forbidden(path, "cannot be set for a windows pod")
        return
    for name in ("uid", "gid"):
        yield from _id_causes(user.get(name) or 0, f"{path}.{name}")
    for index, group in enumerate(user.get("supplementalGroups") or ()):
        yield from _id_causes(group, f"{path}.supplementalGroups[{index}]")


def _id_causes(number: int, path: str) -> Causes:
    if not 0 <= number <= _MAX_ID:
        yield value_invalid(path, number, f"must be between 0 and {_MAX_ID}, inclusive")


def _device_causes(status: Object, path: str, containers: list[Object]) -> Causes:
    """The faults of devices that a container is said to have; ephemeral ones have none."""
    path = f"{path}.allocatedResourcesStatus"
    given = each(status, "allocatedResourcesStatus")
    if given and path.startswith("status.ephemeral"):
        yield value_forbidden(path, "must not be specified in container status")
        return
    container = next((one for one in containers if one.get("name") == status.get("name")), None)
    for index, device in enumerate(given):
        if container is not None and device.get("name") not in _devices_of(container):
            why = "must match one of the container's resource requests or claims"
            yield value_invalid(f"{path}[{index}].name", device.get("name"), why)
        seen: set[str] = set()
        for number, resource in enumerate(each(device, "resources")):
            place, known = f"{path}[{index}].resources[{number}]", resource.get("resourceID") or ""
            if resource.get("health") not in _HEALTH:
                yield value_not_supported(f"{place}.health", resource.get("health") or "", _HEALTH)
            if known in seen:
                yield value_duplicate(f"{place}.resourceID", known)
            seen.add(known)


def _devices_of(container: Object) -> set[str]:
    resources = part(container, "resources")
    claims = {
        f"claim:{claim.get('name')}" + (f"/{claim['request']}" if claim.get("request") else "")
        for claim in each(resources, "claims")
    }
    return claims | set(resources.get("requests") or ())

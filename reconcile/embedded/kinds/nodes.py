"""Nodes."""

import datetime
import ipaddress
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from informers.apimachinery.name_rules import label_value_faults
from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, Others, one_of
from reconcile.embedded.kinds.node_selectors import label_key_causes
from reconcile.embedded.kinds.resource_rules import amount_causes
from reconcile.embedded.kubectl.ages import UNKNOWN
from reconcile.embedded.kubectl.printing import AGE, NAMES, NONE, Cell, View, at, joined, pick
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_duplicate,
    value_forbidden,
    value_invalid,
    value_required,
)
from reconcile.embedded.served import CellColumn

_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_TAINTS_ANNOTATION: Final = "scheduler.alpha.kubernetes.io/taints"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _default_node(node: Object) -> None:
    """Keep the one CIDR and the list of them alike, and let a node offer all that it has."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    one, every = spec.get("podCIDR"), spec.get("podCIDRs")
    if one and (not every or every[0] != one):
        spec["podCIDRs"] = [one]
    elif every:
        spec["podCIDR"] = every[0]
    if status.get("allocatable") is None and status.get("capacity"):
        status["allocatable"] = {**status["capacity"]}


def _admit_node(node: Object, old: Object | None, _others: Others) -> None:
    """Keep pods away from a new node until it is ready (the admission plugin TaintNodesByCondition)."""
    if old is not None:
        return
    spec = node["spec"] = node.get("spec") or {}
    taints = spec.get("taints") or []
    if not any(all(taint.get(name) == _NOT_READY[name] for name in _NOT_READY) for taint in taints):
        spec["taints"] = [*taints, {**_NOT_READY}]


def _prepare_node(node: Object, old: Object | None) -> None:
    # The feature DynamicKubeletConfig is gone; what it stored may stay.
    for part, field in (("spec", "configSource"), ("status", "config")):
        if ((old or {}).get(part) or {}).get(field) is None and node.get(part):
            node[part].pop(field, None)


# --- rules ------------------------------------------------------------------------------------


def _node_causes(node: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of a node.

    The strategy validates an updated node by itself and with its predecessor, and both name some faults.
    """
    spec = node.get("spec") or {}
    yield from _annotation_causes(node)
    yield from _taint_causes(spec.get("taints") or [], "metadata.taints")
    yield from _amount_causes(node)
    yield from _cidr_causes(spec.get("podCIDRs") or [], (old or {}).get("spec") or {})
    if old is not None:
        yield from _change_causes(node, old)


def _change_causes(node: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of an updated node, or of one whose status was written."""
    spec, before = node.get("spec") or {}, (old or {}).get("spec") or {}
    yield from _annotation_causes(node)
    yield from _amount_causes(node)
    seen: list[Any] = []
    for index, address in enumerate((node.get("status") or {}).get("addresses") or ()):
        if address in seen:
            yield value_duplicate(f"status.addresses[{index}]", f"{address}")
        seen.append(address)
    yield from _cidr_change_causes(spec.get("podCIDRs") or [], before.get("podCIDRs") or [])
    if before.get("providerID") and spec.get("providerID") != before["providerID"]:
        why = 'node updates may not change providerID except from "" to valid'
        yield value_forbidden("spec.providerID", why)
    yield from _taint_causes(spec.get("taints") or [], "metadata.taints")
    if (spec.get("externalID") or "") != (before.get("externalID") or ""):
        yield value_forbidden("spec.externalID", "may not be updated")


def _cidr_change_causes(cidrs: list[str], before: list[str]) -> Iterator[FieldCause]:
    why = 'node updates may not change podCIDR except from "" to valid'
    if not before:
        return
    if len(cidrs) != len(before):
        yield value_forbidden("spec.podCIDRs", why)
        return
    for cidr, former in zip(cidrs, before, strict=True):
        if cidr != former:
            yield value_forbidden("spec.podCIDRs", why)


def _amount_causes(node: Object) -> Iterator[FieldCause]:
    for part in ("capacity", "allocatable"):
        for name, quantity in ((node.get("status") or {}).get(part) or {}).items():
            yield from amount_causes(name, quantity, f"status.{part}.{name}")


def _annotation_causes(node: Object) -> Iterator[FieldCause]:
    text = (node["metadata"].get("annotations") or {}).get(_TAINTS_ANNOTATION)
    if not text:
        return
    try:
        taints = msgspec.json.decode(text, type=list[dict[str, Any]])
    except (msgspec.MsgspecError, RecursionError) as error:
        yield value_invalid("metadata.annotations", _TAINTS_ANNOTATION, f"{error}")
        return
    yield from _taint_causes(taints, f"metadata.annotations.{_TAINTS_ANNOTATION}")


def _taint_causes(taints: list[Object], path: str) -> Iterator[FieldCause]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        place, key, effect = f"{path}[{index}]", taint.get("key") or "", taint.get("effect") or ""
        yield from label_key_causes(key, f"{place}.key")
        if faults := label_value_faults(taint.get("value") or ""):
            yield value_invalid(f"{place}.value", taint.get("value"), ";".join(faults))
        if effect:
            yield from one_of(taint, f"{place}.effect", _EFFECTS)
        else:
            yield value_required(f"{place}.effect")
        if (key, effect) in seen:
            yield value_duplicate(place, f"{taint}: taints must be unique by key and effect pair")
        seen.add((key, effect))


def _cidr_causes(cidrs: list[str], old: Object) -> Iterator[FieldCause]:
    path, families = "spec.podCIDRs", [_family(cidr) for cidr in cidrs]
    for index, (cidr, family) in enumerate(zip(cidrs, families, strict=True)):
        if not family and cidr not in (old.get("podCIDRs") or ()):
            why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            yield value_invalid(f"{path}[{index}]", cidr, why)
    if len(cidrs) < 2:
        return
    if 0 in families:
        why = "invalid PodCIDRs. failed to check with dual stack"
        yield FieldCause("InternalError", f"Internal error: {why}", path)
    if len(cidrs) > 2 or 0 in families or families[0] == families[1]:
        yield value_invalid(path, f"{cidrs}", "may specify no more than one CIDR for each IP family")


def _family(cidr: str) -> int:
    """4 or 6, or 0 if the text is no CIDR."""
    address, slash, _ = cidr.partition("/")
    try:
        return ipaddress.ip_network(cidr).version if slash and "%" not in address else 0
    except ValueError:
        return 0


def _node_warnings(node: Object, _old: Object | None) -> list[str]:
    spec, warnings = node.get("spec") or {}, []
    if spec.get("configSource") is not None:
        warnings.append("spec.configSource: the feature is removed")
    if spec.get("externalID"):
        warnings.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
    for index, cidr in enumerate(spec.get("podCIDRs") or ()):
        if _family(cidr) == 6 and str(ipaddress.ip_network(cidr)) != cidr:
            warnings.append(f"spec.podCIDRs[{index}]: {cidr} is not in the canonical form of IPv6")
    return warnings


# --- columns ----------------------------------------------------------------------------------


def _node_status(obj: View, _now: datetime.datetime) -> str:
    conditions = {item.get("type"): item.get("status") for item in pick(obj, "status", "conditions") or ()}
    ready = {"True": "Ready", None: "Unknown"}.get(conditions.get("Ready"), "NotReady")
    return f"{ready},SchedulingDisabled" if pick(obj, "spec", "unschedulable") else ready


def _node_roles(obj: View, _now: datetime.datetime) -> str:
    labels = pick(obj, "metadata", "labels") or {}
    prefix = "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
    if role := labels.get("kubernetes.io/role"):
        roles.add(role)
    return joined(sorted(roles))


def _node_address(kind: str) -> Cell:
    def cell(obj: View, _now: datetime.datetime) -> str:
        for address in pick(obj, "status", "addresses") or ():
            if address.get("type") == kind:
                return str(address.get("address", NONE))
        return NONE

    return cell


def _node_info(name: str) -> Cell:
    return at("status", "nodeInfo", name, default=UNKNOWN)


KINDS: Final = (
    BuiltInKind(
        "", "Node", short_names=("no",), namespaced=False, has_status=True,
        selectable_fields=(".spec.unschedulable",),
        keeps_first_status=True,
        metadata_fault_copies=4,
        defaults=_default_node,
        admit=_admit_node,
        prepare=_prepare_node,
        checks=_node_causes,
        status_checks=_change_causes,
        names_missing_fields=True,
        warnings=_node_warnings,
        columns=(
            NAMES,
            CellColumn("Status", _node_status),
            CellColumn("Roles", _node_roles),
            AGE,
            CellColumn("Version", at("status", "nodeInfo", "kubeletVersion")),
            CellColumn("Internal-IP", _node_address("InternalIP"), wide=True),
            CellColumn("External-IP", _node_address("ExternalIP"), wide=True),
            CellColumn("OS-Image", _node_info("osImage"), wide=True),
            CellColumn("Kernel-Version", _node_info("kernelVersion"), wide=True),
            CellColumn("Container-Runtime", _node_info("containerRuntimeVersion"), wide=True),
        ),
    ),
)  # fmt: skip

"""Which cluster IPs and IP families a Service asks for, in a cluster with IPv4 services alone."""

from collections.abc import Collection, Iterator
from typing import Final

from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_duplicate,
    value_invalid,
    value_not_supported,
    value_required,
)
from reconcile.embedded.protocol.ip_rules import ip_causes, is_ipv6

CLUSTER_FAMILY: Final = "IPv4"
_FAMILIES: Final = ("IPv4", "IPv6")
_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")


def patch_addresses(spec: Object, before: Object) -> None:
    """Put back the cluster IPs that an update left out."""
    if "ExternalName" in (spec["type"], before["type"]):
        return
    for name in ("clusterIP", "clusterIPs"):
        if not spec.get(name) and before.get(name):
            spec[name] = before[name]


def align_addresses(spec: Object, before: Object | None) -> None:
    """Make `clusterIPs` follow `clusterIP` for clients that know only the latter (normalizeClusterIPs)."""
    one, several = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if before is None:
        if one and not several:
            spec["clusterIPs"] = [one]
        return
    old_one, old_several = before.get("clusterIP") or "", before.get("clusterIPs") or []
    if old_several and not several and one == old_one:
        spec["clusterIPs"] = several = old_several
    if one != old_one and several == old_several:
        spec["clusterIPs"] = [one] if one else []


def choose_families(spec: Object, before: Object | None) -> list[FieldCause]:
    """Set the IP families and their policy in place; the causes for which nothing can be allocated."""
    if spec["type"] == "ExternalName" or _prefers_as_before(spec, before):
        return []
    selectorless = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        earlier = (before or {}).get("ipFamilyPolicy")
        spec["ipFamilyPolicy"] = earlier or ("RequireDualStack" if selectorless else "SingleStack")
    causes = [*address_causes(spec, before or {})]
    if causes:
        return causes
    _shrink_to_single_stack(spec, before)
    causes = [*_reduction_causes(spec, before), *_single_stack_causes(spec), *_infer_families(spec)]
    if causes:
        return causes
    if selectorless:
        _complete_selectorless(spec)
        return []
    causes = [*_cluster_causes(spec)]
    if not causes:
        spec["ipFamilies"] = spec.get("ipFamilies") or [CLUSTER_FAMILY]
    return causes


def _prefers_as_before(spec: Object, before: Object | None) -> bool:
    if before is None or spec["type"] != before["type"]:
        return False
    same = all((spec.get(name) or []) == (before.get(name) or []) for name in ("clusterIPs", "ipFamilies"))
    prefers = spec.get("ipFamilyPolicy") == "PreferDualStack"
    return same and prefers and before.get("ipFamilyPolicy") in (None, "PreferDualStack")


def _shrink_to_single_stack(spec: Object, before: Object | None) -> None:
    if before is None or spec["ipFamilyPolicy"] != "SingleStack":
        return
    for name in ("clusterIPs", "ipFamilies"):
        if spec.get(name) and spec[name] == before.get(name):
            spec[name] = spec[name][:1]


def _reduction_causes(spec: Object, before: Object | None) -> Iterator[FieldCause]:
    if before is None or spec["ipFamilyPolicy"] == "SingleStack":
        return
    for name, what in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        if spec.get(name) and len(spec[name]) < len(before.get(name) or ()):
            why = f"must be 'SingleStack' to release the secondary {what}"
            yield value_invalid("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], why)


def _single_stack_causes(spec: Object) -> Iterator[FieldCause]:
    if spec["ipFamilyPolicy"] != "SingleStack":
        return
    for name, what in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
        if len(spec.get(name) or ()) == 2:
            why = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            yield value_invalid("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], why)


def _infer_families(spec: Object) -> Iterator[FieldCause]:
    for index, address in enumerate(spec.get("clusterIPs") or ()):
        if address == "None":
            return
        if index < len(spec.get("ipFamilies") or ()):
            continue
        family = "IPv6" if is_ipv6(address) else "IPv4"
        if family != CLUSTER_FAMILY:
            why = f"{family} is not configured on this cluster"
            yield value_invalid(f"spec.clusterIPs[{index}]", spec["clusterIPs"], why)
        else:
            spec["ipFamilies"] = [*(spec.get("ipFamilies") or ()), family]


def _complete_selectorless(spec: Object) -> None:
    """Without a selector nothing is known about the endpoints, so that any family may come."""
    families = spec.get("ipFamilies") or [CLUSTER_FAMILY]
    if len(families) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
        families = [*families, *(family for family in _FAMILIES if family not in families)]
    spec["ipFamilies"] = families


def _cluster_causes(spec: Object) -> Iterator[FieldCause]:
    if spec["ipFamilyPolicy"] == "RequireDualStack":
        why = "this cluster is not configured for dual-stack services"
        yield value_invalid("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], why)
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family != CLUSTER_FAMILY:
            yield value_invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")


def address_causes(spec: Object, before: Object) -> Iterator[FieldCause]:
    """The faults of cluster IPs, families and policy (ValidateServiceClusterIPsRelatedFields)."""
    if spec["type"] == "ExternalName":
        return
    addresses, families = spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    yield from _agreement_causes(spec.get("clusterIP") or "", addresses)
    yield from _family_causes(families)
    if spec.get("ipFamilyPolicy") is not None and spec["ipFamilyPolicy"] not in _POLICIES:
        yield value_not_supported("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], _POLICIES)
    malformed = [*_form_causes(addresses, before.get("clusterIPs") or ())]
    yield from malformed
    if len(addresses) > 2:
        yield value_invalid("spec.clusterIPs", addresses, "may only hold up to 2 values")
    if malformed:
        return
    if len(addresses) > 1 and len({is_ipv6(address) for address in addresses}) != len(addresses):
        why = "may specify no more than one IP for each IP family"
        yield value_invalid("spec.clusterIPs", addresses, why)
    if addresses != ["None"]:
        yield from _match_causes(addresses, families)


def _agreement_causes(address: str, addresses: list[str]) -> Iterator[FieldCause]:
    if not address:
        if addresses:
            why = "must be empty when `clusterIP` is not specified"
            yield value_invalid("spec.clusterIPs", addresses, why)
    elif not addresses:
        yield value_required("spec.clusterIPs")
    elif addresses[0] != address:
        yield value_invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")


def _family_causes(families: list[str]) -> Iterator[FieldCause]:
    for index, family in enumerate(families):
        if family not in _FAMILIES:
            yield value_not_supported(f"spec.ipFamilies[{index}]", family, _FAMILIES)
        if family in families[:index]:
            yield value_duplicate(f"spec.ipFamilies[{index}]", family)


def _form_causes(addresses: list[str], kept: Collection[str]) -> Iterator[FieldCause]:
    for index, address in enumerate(addresses):
        if index == 0 and address == "None":
            if len(addresses) > 1:
                yield value_invalid("spec.clusterIPs", addresses, "'None' must be the first and only value")
            continue
        yield from ip_causes(f"spec.clusterIPs[{index}]", address, kept)


def _match_causes(addresses: list[str], families: list[str]) -> Iterator[FieldCause]:
    # An update may bring fewer families than addresses.
    for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if family in _FAMILIES and is_ipv6(address) != (family == "IPv6"):
            why = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield value_invalid(f"spec.clusterIPs[{index}]", address, why)


def address_change_causes(spec: Object, before: Object) -> Iterator[FieldCause]:
    """What may not change between two types that have addresses."""
    if "ExternalName" in (spec["type"], before["type"]):
        return
    headless, was_headless = spec.get("clusterIPs") == ["None"], before.get("clusterIPs") == ["None"]
    if not (headless and was_headless):
        yield from _changed(spec, before, "clusterIPs", "clusterIP")
    if not headless and not was_headless:
        yield from _changed(spec, before, "ipFamilies", "ipFamily")


def _changed(spec: Object, before: Object, name: str, single: str) -> Iterator[FieldCause]:
    now, earlier = spec.get(name) or [], before.get(name) or []
    if len(now) == len(earlier):
        for index, (one, other) in enumerate(zip(now, earlier, strict=True)):
            if one != other:
                # Of families the real server names the first one whichever has changed.
                place = index if name == "clusterIPs" else 0
                yield value_invalid(f"spec.{name}[{place}]", now, "may not change once set")
        return
    if len(now) < len(earlier) and not spec.get("clusterIPs"):
        yield value_invalid(f"spec.{name}[0]", now, f"primary {single} can not be unset")
    if now and earlier and now[0] != earlier[0]:
        yield value_invalid(f"spec.{name}[0]", now, "may not change once set")
    if len(now) == 1 and len(earlier) > 1 and spec.get("ipFamilyPolicy") != "SingleStack":
        why = f"must be set to 'SingleStack' when releasing the secondary {single}"
        yield value_invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), why)

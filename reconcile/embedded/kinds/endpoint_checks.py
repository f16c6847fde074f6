"""The faults of Endpoints and EndpointSlices, and what their writers are warned of."""

import datetime
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from informers.apimachinery.name_rules import label_faults, label_value_faults, subdomain_faults
from reconcile.embedded.kinds.built_in_kind import Object, fixed, one_of
from reconcile.embedded.kinds.port_rules import (
    PROTOCOLS,
    app_protocol_causes,
    label_name_causes,
    port_number_causes,
)
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_duplicate,
    value_invalid,
    value_required,
    value_too_many,
)
from reconcile.embedded.protocol.ip_rules import endpoint_ip_causes, ip_causes, ip_warnings, is_ipv6, parse_ip

# pkg/apis/discovery/validation.
MAX_ENDPOINTS: Final = 1000
MAX_ADDRESSES: Final = 100
MAX_PORTS: Final = 100
MAX_HINTS: Final = 8

_TRIGGER_TIME: Final = "endpoints.kubernetes.io/last-change-trigger-time"
_MANAGED_ENDPOINTS: Final = ("endpoints.kubernetes.io/managed-by", ("endpoint-controller",))
_MANAGED_SLICES: Final = (
    "endpointslice.kubernetes.io/managed-by",
    ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"),
)


# --- Endpoints --------------------------------------------------------------------------------


def validate_endpoints(endpoints: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of an Endpoints beside those of its metadata."""
    yield from _trigger_time_causes(endpoints)
    kept = [] if old is None else [address.get("ip") for _, address in _addresses(old)]
    for index, subset in enumerate(endpoints.get("subsets") or ()):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield value_required(path, "must specify `addresses` or `notReadyAddresses`")
        for place, address in _addresses_of(subset, path):
            yield from _address_causes(address, place, kept)
        ports = subset.get("ports") or []
        for number, port in enumerate(ports):
            yield from _port_causes(port, f"{path}.ports[{number}]", named=len(ports) > 1)


def _trigger_time_causes(endpoints: Object) -> Iterator[FieldCause]:
    text = (endpoints["metadata"].get("annotations") or {}).get(_TRIGGER_TIME)
    if text is None:
        return
    try:
        if datetime.datetime.fromisoformat(text).tzinfo is not None and "T" in text:
            return
    except ValueError:
        pass
    yield value_invalid(f"annotations[{_TRIGGER_TIME}]", text, "must be a valid RFC3339 timestamp")


def _addresses(endpoints: Object) -> Iterator[tuple[str, Object]]:
    for index, subset in enumerate(endpoints.get("subsets") or ()):
        yield from _addresses_of(subset, f"subsets[{index}]")


def _addresses_of(subset: Object, path: str) -> Iterator[tuple[str, Object]]:
    for name in ("addresses", "notReadyAddresses"):
        for index, address in enumerate(subset.get(name) or ()):
            yield f"{path}.{name}[{index}]", address


def _address_causes(address: Object, path: str, kept: Collection[Any]) -> Iterator[FieldCause]:
    text = address.get("ip") or ""
    yield from ip_causes(f"{path}.ip", text, kept)
    if address.get("hostname"):
        yield from label_name_causes(f"{path}.hostname", address["hostname"])
    yield from _node_name_causes(address, path)
    yield from endpoint_ip_causes(f"{path}.ip", text)


def _node_name_causes(place: Object, path: str) -> Iterator[FieldCause]:
    name = place.get("nodeName")
    if name is not None:
        for fault in subdomain_faults(name):
            yield value_invalid(f"{path}.nodeName", name, fault)


def _port_causes(port: Object, path: str, *, named: bool) -> Iterator[FieldCause]:
    name = port.get("name") or ""
    if named and not name:
        yield value_required(f"{path}.name")
    elif name:
        yield from label_name_causes(f"{path}.name", name)
    yield from port_number_causes(f"{path}.port", port.get("port") or 0)
    yield from one_of(port, f"{path}.protocol", PROTOCOLS)
    yield from app_protocol_causes(port, path)


def endpoints_warnings(endpoints: Object, old: Object | None) -> list[str]:
    """Addresses that are oddly written, unless a controller of Kubernetes wrote them."""
    if _is_managed(endpoints, *_MANAGED_ENDPOINTS):
        return []
    found = _addresses(endpoints)
    return [text for path, address in found for text in ip_warnings(f"{path}.ip", address.get("ip") or "")]


def _is_managed(obj: Object, label: str, managers: Collection[str]) -> bool:
    return (obj["metadata"].get("labels") or {}).get(label) in managers


# --- EndpointSlices ---------------------------------------------------------------------------


def prepare_endpoint_slice(endpoints: Object, old: Object | None) -> None:
    """Drop topology, which cannot be written any more, and count changes of labels as a generation."""
    if old is not None:
        labels, before = endpoints["metadata"].get("labels") or {}, old["metadata"].get("labels") or {}
        if labels != before or {**endpoints, "metadata": None} != {**old, "metadata": None}:
            endpoints["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1
    for endpoint in endpoints.get("endpoints") or ():
        endpoint.pop("deprecatedTopology", None)


def validate_endpoint_slice(endpoints: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of an EndpointSlice beside those of its metadata."""
    yield from fixed(endpoints, old, "addressType")
    if endpoints.get("addressType"):
        yield from one_of(endpoints, "addressType", ("FQDN", "IPv4", "IPv6"))
    else:
        yield value_required("addressType")
    yield from _endpoint_causes(endpoints, old)
    yield from _slice_port_causes(endpoints.get("ports") or [])


def _endpoint_causes(endpoints: Object, old: Object | None) -> Iterator[FieldCause]:
    found = endpoints.get("endpoints") or []
    if len(found) > MAX_ENDPOINTS:
        yield value_too_many("endpoints", len(found), MAX_ENDPOINTS)
        return
    before = (old or {}).get("endpoints") or ()
    kept = {address for endpoint in before for address in endpoint.get("addresses") or ()}
    for index, endpoint in enumerate(found):
        path = f"endpoints[{index}]"
        yield from _slice_address_causes(endpoint, endpoints.get("addressType") or "", path, kept)
        yield from _node_name_causes(endpoint, path)
        if endpoint.get("hostname") is not None:
            yield from label_name_causes(f"{path}.hostname", endpoint["hostname"])
        hints = endpoint.get("hints") or {}
        yield from _hint_causes(hints.get("forZones") or [], f"{path}.hints.forZones", label_value_faults)
        yield from _hint_causes(hints.get("forNodes") or [], f"{path}.hints.forNodes", subdomain_faults)


def _slice_address_causes(
    endpoint: Object, family: str, path: str, kept: Collection[str]
) -> Iterator[FieldCause]:
    addresses, place = endpoint.get("addresses") or [], f"{path}.addresses"
    if not addresses:
        yield value_required(place, "must contain at least 1 address")
    elif len(addresses) > MAX_ADDRESSES:
        yield value_too_many(place, len(addresses), MAX_ADDRESSES)
    for index, address in enumerate(addresses):
        if family == "FQDN":
            yield from _domain_causes(address, f"{place}[{index}]")
        elif family in ("IPv4", "IPv6"):
            yield from _family_address_causes(address, family, place, index, kept)


def _family_address_causes(
    address: str, family: str, place: str, index: int, kept: Collection[str]
) -> Iterator[FieldCause]:
    malformed = [*ip_causes(f"{place}[{index}]", address, kept)]
    if malformed:
        yield from malformed
        return
    if parse_ip(address) is not None and is_ipv6(address) != (family == "IPv6"):
        yield value_invalid(place, address, f"must be an {family} address")
    yield from endpoint_ip_causes(f"{place}[{index}]", address)


def _domain_causes(name: str, path: str) -> Iterator[FieldCause]:
    short = name.removesuffix(".")
    labels = short.split(".")
    if not name:
        yield value_required(path)
    elif faults := subdomain_faults(short):
        yield value_invalid(path, short, ",".join(faults))
    elif len(labels) < 2:
        why = "should be a domain with at least two segments separated by dots"
        yield value_invalid(path, short, why)
    else:
        for label in labels:
            if faults := label_faults(label):
                yield value_invalid(path, label, ",".join(faults))
                return


def _hint_causes(
    hints: list[Object], path: str, name_faults: Callable[[str], list[str]]
) -> Iterator[FieldCause]:
    if len(hints) > MAX_HINTS:
        yield value_too_many(path, len(hints), MAX_HINTS)
        return
    seen: set[str] = set()
    for index, hint in enumerate(hints):
        name = hint.get("name") or ""
        if name in seen:
            yield value_duplicate(f"{path}[{index}].name", name)
        seen.add(name)
        for fault in name_faults(name):
            yield value_invalid(f"{path}[{index}].name", name, fault)


def _slice_port_causes(ports: list[Object]) -> Iterator[FieldCause]:
    if len(ports) > MAX_PORTS:
        yield value_too_many("ports", len(ports), MAX_PORTS)
        return
    names: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"ports[{index}]", port.get("name") or ""
        if name:
            yield from label_name_causes(f"{path}.name", name)
        if name in names:
            yield value_duplicate(f"{path}.name", name)
        names.add(name)
        yield from one_of(port, f"{path}.protocol", PROTOCOLS)
        yield from app_protocol_causes(port, path)


def slice_warnings(endpoints: Object, old: Object | None) -> list[str]:
    """A deprecated type of addresses, and those that are oddly written."""
    is_fqdn = old is None and endpoints.get("addressType") == "FQDN"
    warnings = ["spec.addressType: FQDN endpoints are deprecated"] if is_fqdn else []
    if _is_managed(endpoints, *_MANAGED_SLICES):
        return warnings
    for index, endpoint in enumerate(endpoints.get("endpoints") or ()):
        for number, address in enumerate(endpoint.get("addresses") or ()):
            warnings += ip_warnings(f"endpoints[{index}].addresses[{number}]", address)
    return warnings

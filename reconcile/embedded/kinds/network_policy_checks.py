"""Defaults and faults of NetworkPolicies."""

from collections.abc import Collection, Iterator
from typing import Final

from reconcile.embedded.kinds.built_in_kind import Object, fill, one_of
from reconcile.embedded.kinds.label_selectors import selector_causes
from reconcile.embedded.kinds.port_rules import PROTOCOLS, port_causes, port_number_causes
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
)
from reconcile.embedded.protocol.ip_rules import cidr_causes, cidr_warnings, parse_cidr

_TYPES: Final = ("Ingress", "Egress")
_PEERS: Final = {"ingress": "from", "egress": "to"}
"""The two kinds of rules, and what each calls the other side."""


def default_network_policy(policy: Object) -> None:
    """Set in place what SetDefaults_NetworkPolicy sets."""
    spec = policy["spec"] = policy.get("spec") or {}
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    fill(spec, {"podSelector": {}})
    for name in _PEERS:
        for rule in spec.get(name) or ():
            for port in rule.get("ports") or ():
                fill(port, {"protocol": "TCP"})


def validate_network_policy(policy: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of a policy beside those of its metadata."""
    spec = policy["spec"]
    kept = set() if old is None else {text for _, text in _cidrs(old)}
    yield from selector_causes(spec["podSelector"], "spec.podSelector")
    for name, peers in _PEERS.items():
        for index, rule in enumerate(spec.get(name) or ()):
            path = f"spec.{name}[{index}]"
            for number, port in enumerate(rule.get("ports") or ()):
                yield from _port_causes(port, f"{path}.ports[{number}]")
            for number, peer in enumerate(rule.get(peers) or ()):
                yield from _peer_causes(peer, f"{path}.{peers}[{number}]", kept)
    yield from _type_causes(spec["policyTypes"])


def _port_causes(port: Object, path: str) -> Iterator[FieldCause]:
    yield from one_of(port, f"{path}.protocol", PROTOCOLS)
    first, last = port.get("port"), port.get("endPort")
    if isinstance(first, int):
        yield from port_causes(f"{path}.port", first)
        if last is not None:
            if last < first:
                yield value_invalid(f"{path}.endPort", last, "must be greater than or equal to `port`")
            yield from port_number_causes(f"{path}.endPort", last)
        return
    if last is not None:
        why = "is not specified" if first is None else "is non-numeric"
        yield value_invalid(f"{path}.endPort", last, f"may not be specified when `port` {why}")
    if first is not None:
        yield from port_causes(f"{path}.port", first)


def _peer_causes(peer: Object, path: str, kept: Collection[str]) -> Iterator[FieldCause]:
    selectors = [name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None]
    for name in selectors:
        yield from selector_causes(peer[name], f"{path}.{name}")
    block = peer.get("ipBlock")
    if block is not None:
        yield from _block_causes(block, f"{path}.ipBlock", kept)
        if selectors:
            yield value_forbidden(path, "may not specify both ipBlock and another peer")
    elif not selectors:
        yield value_required(path, "must specify a peer")


def _block_causes(block: Object, path: str, kept: Collection[str]) -> Iterator[FieldCause]:
    text = block.get("cidr") or ""
    if not text:
        yield value_required(f"{path}.cidr")
        return
    yield from cidr_causes(f"{path}.cidr", text, kept)
    whole = parse_cidr(text)
    if whole is None:
        return
    for index, exception in enumerate(block.get("except") or ()):
        place = f"{path}.except[{index}]"
        yield from cidr_causes(place, exception, kept)
        part = parse_cidr(exception)
        if part is None:
            continue
        inside = part.version == whole.version and part.network.network_address in whole.network
        if not inside or part.network.prefixlen <= whole.network.prefixlen:
            yield value_invalid(place, exception, "must be a strict subset of `cidr`")


def _type_causes(types: list[str]) -> Iterator[FieldCause]:
    if len(types) > len(_TYPES):
        yield value_invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for index, name in enumerate(types):
        if name not in _TYPES:
            yield value_not_supported(f"spec.policyTypes[{index}]", name, _TYPES)


def network_policy_warnings(policy: Object, old: Object | None) -> list[str]:
    """CIDR values that are oddly written."""
    return [warning for path, text in _cidrs(policy) for warning in cidr_warnings(path, text)]


def _cidrs(policy: Object) -> Iterator[tuple[str, str]]:
    for name, peers in _PEERS.items():
        for index, rule in enumerate(policy["spec"].get(name) or ()):
            for number, peer in enumerate(rule.get(peers) or ()):
                block, path = peer.get("ipBlock") or {}, f"spec.{name}[{index}].{peers}[{number}].ipBlock"
                if block.get("cidr"):
                    yield f"{path}.cidr", block["cidr"]
                for place, text in enumerate(block.get("except") or ()):
                    yield f"{path}.except[{place}]", text

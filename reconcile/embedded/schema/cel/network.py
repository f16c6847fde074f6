"""Kubernetes' CEL functions for IP addresses, networks and URLs."""

import ipaddress
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

Opaque = dict[str, Any]
"""A value of one of Kubernetes' own types, such as an IP address, in CEL."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _address(text: str) -> _Address:
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address.scope_id):
        raise ValueError(f"{text!r}: addresses mapped from IPv4 and zones are not allowed")
    return address


def _network(text: str) -> _Network:
    if "/" not in text:
        raise ValueError(f"{text!r} is not a CIDR")
    return ipaddress.ip_network(text, strict=False)


def held_address(ip: Opaque) -> _Address:
    return ipaddress.ip_address(ip["ip"])


def held_network(cidr: Opaque) -> _Network:
    return _network(cidr["cidr"])


def held_url(url: Opaque) -> SplitResult:
    return urlsplit(url["url"])


def ip(text: str) -> Opaque:
    """`ip(text)`. Raises ValueError unless it is an address."""
    return {"ip": str(_address(text))}


def is_link_local_multicast(value: Opaque) -> bool:
    address = held_address(value)
    if isinstance(address, ipaddress.IPv4Address):
        return address in ipaddress.IPv4Network("224.0.0.0/24")
    return address.is_multicast and address.packed[1] & 0x0F == 0x02


def is_global_unicast(value: Opaque) -> bool:
    address = held_address(value)
    others = (address.is_unspecified, address.is_loopback, address.is_multicast, address.is_link_local)
    return not any(others) and str(address) != "255.255.255.255"


def cidr(text: str) -> Opaque:
    """`cidr(text)`, with its host bits. Raises ValueError unless it is a network."""
    network = _network(text)
    host, _, _ = text.partition("/")
    return {"cidr": f"{_address(host)}/{network.prefixlen}"}


def contains_ip(value: Opaque, other: Opaque | str) -> bool:
    return held_address(ip(other) if isinstance(other, str) else other) in held_network(value)


def contains_cidr(value: Opaque, other: Opaque | str) -> bool:
    outer, inner = held_network(value), held_network(cidr(other) if isinstance(other, str) else other)
    same_family = outer.version == inner.version
    return same_family and inner.prefixlen >= outer.prefixlen and inner.network_address in outer


def url(text: str) -> Opaque:
    """`url(text)`. Raises ValueError unless it is absolute or begins with a slash."""
    parts = urlsplit(text)
    _ = parts.port
    if not parts.scheme and not text.startswith("/"):
        raise ValueError(f"URL parse error: {text!r}: invalid URI for request")
    if any(sign in text for sign in " \t\r\n"):
        raise ValueError(f"URL parse error: {text!r}: invalid character")
    return {"url": text}


def port(value: Opaque) -> str:
    found = held_url(value).port
    return "" if found is None else str(found)


def query(value: Opaque) -> dict[str, list[str]]:
    return parse_qs(held_url(value).query, keep_blank_values=True)

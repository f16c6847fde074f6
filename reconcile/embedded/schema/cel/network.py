"""What Kubernetes' CEL functions for IP addresses, networks and URLs answer."""

import ipaddress
from typing import Any
from urllib.parse import parse_qs, urlsplit

Opaque = dict[str, Any]
"""A value of a type of Kubernetes' own, such as an IP address, as CEL carries it."""

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


def _held_address(ip: Opaque) -> _Address:
    return ipaddress.ip_address(ip["ip"])


def _held_network(cidr: Opaque) -> _Network:
    return _network(cidr["cidr"])


def ip(text: str) -> Opaque:
    """`ip(text)`; raises ValueError unless it is an address."""
    return {"ip": str(_address(text))}


def is_ip(text: str) -> bool:
    """`isIP(text)`."""
    return _succeeds(ip, text)


def ip_is_canonical(text: str) -> bool:
    """`ip.isCanonical(text)`."""
    return str(_address(text)) == text


def family(value: Opaque) -> int:
    """`ip.family()`: 4 or 6."""
    return _held_address(value).version


def is_unspecified(value: Opaque) -> bool:
    """`ip.isUnspecified()`."""
    return _held_address(value).is_unspecified


def is_loopback(value: Opaque) -> bool:
    """`ip.isLoopback()`."""
    return _held_address(value).is_loopback


def is_link_local_multicast(value: Opaque) -> bool:
    """`ip.isLinkLocalMulticast()`."""
    address = _held_address(value)
    if isinstance(address, ipaddress.IPv4Address):
        return address in ipaddress.IPv4Network("224.0.0.0/24")
    return address.is_multicast and address.packed[1] & 0x0F == 0x02


def is_link_local_unicast(value: Opaque) -> bool:
    """`ip.isLinkLocalUnicast()`."""
    return _held_address(value).is_link_local


def is_global_unicast(value: Opaque) -> bool:
    """`ip.isGlobalUnicast()`."""
    address = _held_address(value)
    others = (address.is_unspecified, address.is_loopback, address.is_multicast, address.is_link_local)
    return not any(others) and str(address) != "255.255.255.255"


def cidr(text: str) -> Opaque:
    """`cidr(text)`; raises ValueError unless it is a network. Host bits are kept."""
    network = _network(text)
    host, _, _ = text.partition("/")
    return {"cidr": f"{_address(host)}/{network.prefixlen}"}


def is_cidr(text: str) -> bool:
    """`isCIDR(text)`."""
    return _succeeds(cidr, text)


def contains_ip(value: Opaque, other: Opaque) -> bool:
    """`cidr.containsIP(ip)`."""
    return _held_address(other) in _held_network(value)


def contains_ip_text(value: Opaque, other: str) -> bool:
    """`cidr.containsIP(text)`."""
    return contains_ip(value, ip(other))


def contains_cidr(value: Opaque, other: Opaque) -> bool:
    """`cidr.containsCIDR(cidr)`."""
    outer, inner = _held_network(value), _held_network(other)
    same_family = outer.version == inner.version
    return same_family and inner.prefixlen >= outer.prefixlen and inner.network_address in outer


def contains_cidr_text(value: Opaque, other: str) -> bool:
    """`cidr.containsCIDR(text)`."""
    return contains_cidr(value, cidr(other))


def cidr_ip(value: Opaque) -> Opaque:
    """`cidr.ip()`."""
    return ip(value["cidr"].partition("/")[0])


def masked(value: Opaque) -> Opaque:
    """`cidr.masked()`."""
    return {"cidr": str(_held_network(value))}


def prefix_length(value: Opaque) -> int:
    """`cidr.prefixLength()`."""
    return _held_network(value).prefixlen


def url(text: str) -> Opaque:
    """`url(text)`; raises ValueError unless it is absolute or begins with a slash."""
    parts = urlsplit(text)
    _ = parts.port
    if not parts.scheme and not text.startswith("/"):
        raise ValueError(f"URL parse error: {text!r}: invalid URI for request")
    if any(sign in text for sign in " \t\r\n"):
        raise ValueError(f"URL parse error: {text!r}: invalid character")
    return {"url": text}


def is_url(text: str) -> bool:
    """`isURL(text)`."""
    return _succeeds(url, text)


def scheme(value: Opaque) -> str:
    """`url.getScheme()`."""
    return urlsplit(value["url"]).scheme


def host(value: Opaque) -> str:
    """`url.getHost()`: with the port."""
    return urlsplit(value["url"]).netloc.rpartition("@")[2]


def hostname(value: Opaque) -> str:
    """`url.getHostname()`: without the port and without brackets."""
    return urlsplit(value["url"]).hostname or ""


def port(value: Opaque) -> str:
    """`url.getPort()`: empty where there is none."""
    found = urlsplit(value["url"]).port
    return "" if found is None else str(found)


def escaped_path(value: Opaque) -> str:
    """`url.getEscapedPath()`."""
    return urlsplit(value["url"]).path


def query(value: Opaque) -> dict[str, list[str]]:
    """`url.getQuery()`."""
    return parse_qs(urlsplit(value["url"]).query, keep_blank_values=True)


def _succeeds(parse: Any, text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True

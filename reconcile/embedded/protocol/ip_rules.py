"""The rules for IP addresses and CIDR values in built-in kinds: the strict ones, the default since 1.36.

`kept` are values that the old object had: they may stay even if they break the rules for new ones.
"""

from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface

from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid

Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface

_LINK_LOCAL_MULTICAST_4 = ip_interface("224.0.0.0/24").network


def parse_ip(text: str) -> Address | None:
    """The address as the lenient parser of Kubernetes reads it: IPv4 numbers may have leading zeros."""
    if "%" in text or "/" in text:
        return None
    try:
        return ip_address(_without_leading_zeros(text) if "." in text else text)
    except ValueError:
        return None


def _without_leading_zeros(text: str) -> str:
    head, colon, quad = text.rpartition(":")
    return head + colon + ".".join(number.lstrip("0") or number[:1] for number in quad.split("."))


def parse_cidr(text: str) -> Interface | None:
    """The address and its prefix, as the lenient parser of Kubernetes reads them."""
    base, slash, length = text.partition("/")
    address = parse_ip(base)
    if address is None or not slash or not (length.isascii() and length.isdigit()):
        return None
    bits = int(length[-4:])
    return None if bits > address.max_prefixlen else ip_interface(f"{address}/{bits}")


def plain(address: Address) -> Address:
    """The IPv4 address behind an IPv4-mapped IPv6 address; any other as it is."""
    return getattr(address, "ipv4_mapped", None) or address


def _is_mapped(address: Address) -> bool:
    return getattr(address, "ipv4_mapped", None) is not None


def is_ipv6(text: str) -> bool:
    """Whether it is an IPv6 address, and not a mapped IPv4 one."""
    address = parse_ip(text)
    return address is not None and plain(address).version == 6


def ip_causes(path: str, text: str, kept: Collection[str] = ()) -> Iterator[FieldCause]:
    """IsValidIPForLegacyField: it may be written in other ways than the canonical one."""
    if text in kept:
        return
    address = parse_ip(text)
    if address is None:
        yield value_invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
    elif not _is_strict(text):
        yield value_invalid(path, text, "must not have leading 0s")
    elif _is_mapped(address):
        yield value_invalid(path, text, "must not be an IPv4-mapped IPv6 address")


def cidr_causes(path: str, text: str, kept: Collection[str] = ()) -> Iterator[FieldCause]:
    """IsValidCIDRForLegacyField: a network, perhaps not in canonical form."""
    if text in kept:
        return
    interface = parse_cidr(text)
    if interface is None:
        yield value_invalid(path, text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")
    elif not _is_strict_cidr(text):
        yield value_invalid(path, text, "must not have leading 0s in IP or prefix length")
    elif _is_mapped(interface.ip):
        yield value_invalid(path, text, "must not have an IPv4-mapped IPv6 address")
    elif interface.ip != interface.network.network_address:
        yield value_invalid(path, text, "must not have bits set beyond the prefix length")


def endpoint_ip_causes(path: str, text: str) -> Iterator[FieldCause]:
    """The addresses that make no sense as endpoints or external IPs (ValidateEndpointIP)."""
    parsed = parse_ip(text)
    if parsed is None:
        yield value_invalid(path, text, "must be a valid IP address")
        return
    address = plain(parsed)
    if address.is_unspecified:
        yield value_invalid(path, text, f"may not be unspecified ({text})")
    if address.is_loopback:
        yield value_invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        yield value_invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if _is_link_local_multicast(address):
        why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        yield value_invalid(path, text, why)


def ip_warnings(path: str, text: str) -> list[str]:
    """What the writer of an accepted address is warned of; nothing for what is no address."""
    address = parse_ip(text)
    if address is None:
        return []
    if not _is_strict(text) or _is_mapped(address):
        what = f'non-standard IP address "{text}" will be considered invalid in a future Kubernetes release'
        return [f'{path}: {what}: use "{plain(address)}"']
    if address.version == 6 and str(address) != text:
        return [f'{path}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{address}")']
    return []


def cidr_warnings(path: str, text: str) -> list[str]:
    """What the writer of an accepted CIDR value is warned of; nothing for any other text."""
    interface = parse_cidr(text)
    if interface is None:
        return []
    warnings = []
    if interface.ip != interface.network.network_address:
        ways = f'"{interface.network}" or "{interface.ip}/{interface.max_prefixlen}"'
        warnings.append(f'{path}: CIDR value "{text}" is ambiguous in this context (should be {ways}?)')
    if not _is_strict_cidr(text) or _is_mapped(interface.ip):
        what = f'non-standard CIDR value "{text}" will be considered invalid in a future Kubernetes release'
        warnings.append(f'{path}: {what}: use "{interface.network}"')
    if not warnings and interface.version == 6 and str(interface) != text:
        canonical = f'should be in RFC 5952 canonical format ("{interface}")'
        warnings.append(f'{path}: IPv6 CIDR value "{text}" {canonical}')
    return warnings


def _is_strict(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_strict_cidr(text: str) -> bool:
    base, _, length = text.partition("/")
    return _is_strict(base) and (length == "0" or not length.startswith("0"))


def _is_link_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address in _LINK_LOCAL_MULTICAST_4
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02

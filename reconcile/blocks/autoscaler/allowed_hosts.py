"""Which addresses may be asked for a page: an object's author chooses, and the manager's network answers.

A name is compared with what the operator allows. An address is judged when the connection is made, so a name
that resolves differently the second time gets no further than a literal address.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from attrs import field, frozen

Address: TypeAlias = IPv4Address | IPv6Address

# Metadata services of clouds that are not link-local: AWS and Google over IPv6, Alibaba, Oracle, Azure.
_METADATA = frozenset(
    map(ip_address, ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192", "168.63.129.16"))
)
_THIS_NETWORK = ip_network("0.0.0.0/8")
_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))


@frozen
class _HostPattern:
    pattern: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> "_HostPattern":
        host, port = split_host(text.strip().lower())
        return cls(host.rstrip("."), port)

    def covers(self, host: str, port: int) -> bool:
        if self.port not in (None, port):
            return False
        return fnmatchcase(host, self.pattern) or self.covers_address(host)

    def covers_address(self, text: str) -> bool:
        try:
            return ip_address(text) in ip_network(self.pattern, strict=False)
        except ValueError:
            return False


def _entries(given: "Iterable[str | _HostPattern]") -> tuple[_HostPattern, ...]:
    return tuple(one if isinstance(one, _HostPattern) else _HostPattern.parse(one) for one in given)


@frozen
class AllowedHosts:
    """The hosts that may be asked: names, where `*` stands for any text, addresses and networks.

    Each may have a port: `*.monitoring.svc:9090`, `10.0.0.0/8`, `[fd00::1]:80`; without one it means every
    port. A loopback, link-local or multicast address, or a cloud's metadata service, is never asked, whatever
    name leads to it, unless an entry names its address or network. Raises ValueError.
    """

    entries: tuple[_HostPattern, ...] = field(default=(), converter=_entries)

    def allows(self, host: str, port: int) -> bool:
        """Whether a host may be asked at a port, by its name as written."""
        name = host.strip("[]").lower().rstrip(".")
        return any(entry.covers(name, port) for entry in self.entries)

    def allows_address(self, text: str) -> bool:
        """Whether a connection to an address may be opened; False for text that is not an address."""
        try:
            address = ip_address(text)
        except ValueError:
            return False
        if any(entry.covers_address(text) for entry in self.entries):
            return True
        return not any(_is_special(one) for one in (address, *_within(address)))


def split_host(text: str) -> tuple[str, int | None]:
    """Raises ValueError."""
    host, port = text, ""
    if text.startswith("["):
        host, closing, rest = text[1:].partition("]")
        if not closing or (rest and not rest.startswith(":")):
            raise ValueError(f"expected HOST or HOST:PORT, got {text!r}")
        port = rest[1:]
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if not host or (port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        raise ValueError(f"expected HOST or HOST:PORT, got {text!r}")
    return host, int(port) if port else None


def _is_special(address: Address) -> bool:
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_reserved
        or address in _METADATA
        or (isinstance(address, IPv4Address) and address in _THIS_NETWORK)
        or (isinstance(address, IPv6Address) and address.is_site_local)
    )


def _within(address: Address) -> Iterable[Address]:
    if isinstance(address, IPv4Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if any(address in network for network in _NAT64):
        yield IPv4Address(int(address) & 0xFFFFFFFF)

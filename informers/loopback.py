"""Whether an address is on this machine."""

import ipaddress


def is_loopback(host: str | None) -> bool:
    """Whether a host is `localhost` or a loopback address; no name is looked up.

    Brackets around an IPv6 address and its zone are ignored.
    """
    if not host:
        return False
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]").partition("%")[0]).is_loopback
    except ValueError:
        return False

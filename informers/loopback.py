"""Whether an address is on this machine."""

import ipaddress


def is_loopback(host: str | None) -> bool:
    """Whether a host, brackets and zone aside, is `localhost` or a loopback address; looks up no name."""
    if not host:
        return False
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]").partition("%")[0]).is_loopback
    except ValueError:
        return False

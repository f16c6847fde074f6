"""Which requests come from this machine itself, and not through a proxy or a web page."""

from collections.abc import Iterable

from informers.loopback import is_loopback

# No other address of 127.0.0.0/8: sidecars such as Istio's forward from 127.0.0.6.
_THIS_MACHINE = ("127.0.0.1", "::1")
_PROXY_HEADERS = ("forwarded", "x-forwarded-", "x-real-ip", "x-envoy-", "l5d-", "via")


def refusal_of(remote: str | None, host: str, headers: Iterable[str]) -> str:
    """Why a request from `remote` is not one of this machine itself; empty if it is.

    It has no header of a proxy, and its Host is a name of loopback.
    """
    if remote not in _THIS_MACHINE:
        return "this page is for this machine only: use kubectl port-forward"
    for name in headers:
        if name.lower().startswith(_PROXY_HEADERS):
            return f"this page is for this machine only, and a proxy forwarded the request: header {name}"
    # A web page whose name resolves to 127.0.0.1 (DNS rebinding) asks from here, but by its own name.
    return "" if is_local_name(host) else "this page is for this machine only: ask for 127.0.0.1"


def is_local_name(host: str) -> bool:
    """Whether a Host header names this machine: localhost, or an address of loopback."""
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    return is_loopback(name)

"""Whether a browser sends a request for one of our own pages, or for another site's."""

from collections.abc import Mapping


def foreign_origin(headers: Mapping[str, str], scheme: str, host: str) -> str:
    """Why a request to `scheme`://`host` is another site's; empty if it is ours, or not a browser's.

    Browsers say where a request comes from, and a page cannot change that: `Origin` in all that may change
    something, `Sec-Fetch-Site` in everything over TLS or to this machine.
    """
    own, origin = f"{scheme}://{host}", headers.get("Origin")
    if origin is not None and origin != own:
        return f"this request is of another site: expected no Origin, or {own}"
    if headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
        return "this request is of another site: expected no Sec-Fetch-Site, or same-origin"
    return ""

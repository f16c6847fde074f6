"""The verb and the place of a request, from method, path and query alone.

Authorisation and dispatch use the same value, so only what was allowed is done. As in kube-apiserver's
RequestInfo, whether the resource exists is looked up later, so that a 403 does not reveal it.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from attrs import frozen

from informers.apimachinery.field_selectors import parse_field_selector

REFUSED: Final = ""  # the verb of unknown HTTP methods, which no role allows
_VERBS: Final = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_PREFIXES: Final = ("watch", "proxy")
_NAMESPACE_PARTS: Final = frozenset({"finalize", "status"})


@frozen
class RequestPlace:
    """What a path names, whether it is served or not."""

    group: str
    version: str
    namespace: str  # as in roles: also set for the path of the namespace itself, `/api/v1/namespaces/a`
    resource: str
    name: str = ""
    subresource: str = ""
    rest: tuple[str, ...] = ()  # the path after the subresource
    prefix: str = ""  # `watch` or `proxy`, which old paths begin with
    within: str = ""  # the namespace of the collection; empty for namespaces themselves


@frozen
class RequestInfo:
    """The verb and place of a request; the place is None for paths outside all resources."""

    verb: str  # as in roles, or `REFUSED`
    place: RequestPlace | None = None
    name: str = ""  # the name in the path, or the only one that the field selector of a list or watch allows


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean of a query: present, with or without a value, and neither `false` nor `0`."""
    value = query.get(name)
    return value is not None and value.lower() not in ("false", "0")


def request_info(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """What a request asks for; any method and path is accepted."""
    place = place_of(path)
    if place is None:
        return RequestInfo(method.lower())
    if place.prefix:
        # Only reads were ever served there, so that `watch` cannot open the way to a write.
        return RequestInfo(place.prefix if method in ("GET", "HEAD") else REFUSED, place, place.name)
    verb = _VERBS.get(method, REFUSED)
    if place.name or verb not in ("get", "delete"):
        return RequestInfo(verb, place, place.name)
    if verb == "delete":
        return RequestInfo("deletecollection", place)
    verb = "watch" if flag(query, "watch") else "list"
    return RequestInfo(verb, place, _selected_name(query.get("fieldSelector", "")))


def _selected_name(selector: str) -> str:
    """The only name that a field selector allows, since a role may be limited to it."""
    if "metadata.name" not in selector:
        return ""
    try:
        terms = parse_field_selector(selector)
    except ValueError:
        return ""
    names = [term.value for term in terms if term.path == "metadata.name" and term.equal]
    is_segment = names and names[0] not in (".", "..") and "/" not in names[0] and "%" not in names[0]
    return names[0] if is_segment else ""


@lru_cache(maxsize=512)
def place_of(path: str) -> RequestPlace | None:
    """What a path names; None outside all resources. Cached, since the same few paths recur."""
    match [part for part in path.split("/") if part]:
        case ["api", version, *rest] if rest:
            group = ""
        case ["apis", group, version, *rest] if rest:
            pass
        case _:
            return None
    prefix = rest[0] if rest[0] in _PREFIXES and len(rest) > 1 else ""
    rest = rest[1:] if prefix else rest
    namespace = rest[1] if rest[0] == "namespaces" and len(rest) > 1 else ""
    within = namespace if len(rest) > 2 and rest[2] not in _NAMESPACE_PARTS else ""
    if within:
        rest = rest[2:]
    resource, name, subresource = rest[0], "".join(rest[1:2]), "".join(rest[2:3])
    return RequestPlace(
        group, version, namespace, resource, name, subresource, tuple(rest[3:]), prefix, within
    )

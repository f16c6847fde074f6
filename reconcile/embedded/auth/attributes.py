"""What a request asks to do, in the words of roles: read from its method and path alone.

As in a real server this happens before it is known whether there is such a resource, so that who may not
look does not learn it either.
"""

import re
from collections.abc import Mapping

from attrs import frozen

from reconcile.embedded.auth.users import User
from reconcile.embedded.queries import flag

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_NAMESPACE_PARTS = frozenset({"finalize", "status"})
_NAME_SELECTOR = re.compile(r"(?:^|,)metadata\.name={1,2}([^,=!]+)(?:,|$)")


@frozen
class Attributes:
    """One act: who does what to which resource, or to which path where that is no resource."""

    user: User
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        """With its subresource, as roles write it: `pods/log`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def attributes_of(user: User, method: str, path: str, query: Mapping[str, str]) -> Attributes:
    """What a request on `path` asks to do."""
    match [part for part in path.split("/") if part]:
        case ["api", version, *rest] if rest:
            return _resource_attributes(user, method, path, query, "", version, rest)
        case ["apis", group, version, *rest] if rest:
            return _resource_attributes(user, method, path, query, group, version, rest)
        case _:
            return Attributes(user, method.lower(), path=path)


def _resource_attributes(
    user: User, method: str, path: str, query: Mapping[str, str], group: str, version: str, rest: list[str]
) -> Attributes:
    verb = _VERBS.get(method, method.lower())
    if rest[0] == "watch" and len(rest) > 1:
        verb, rest = "watch", rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_PARTS:
            rest = rest[2:]
    resource, name, subresource = rest[0], "".join(rest[1:2]), "".join(rest[2:3])
    if verb == "delete" and not name:
        verb = "deletecollection"
    if verb == "get" and not name:
        verb = "watch" if flag(query, "watch") else "list"
    if verb in ("list", "watch", "deletecollection") and not name:
        name = _selected_name(query.get("fieldSelector", ""))
    return Attributes(user, verb, group, version, resource, subresource, namespace, name, path)


def _selected_name(selector: str) -> str:
    """The one name that a field selector leaves, which a role by name may allow."""
    found = _NAME_SELECTOR.search(selector)
    return found[1] if found else ""

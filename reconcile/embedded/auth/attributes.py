"""A request in the terms of roles: user, verb and resource; and the 401 and 403 that refuse it."""

from attrs import frozen

from reconcile.embedded.auth.users import User
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.protocol.request_info import RequestInfo


@frozen
class Attributes:
    """One act of a user: a verb, and the resource or the other path that it is about."""

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


def attributes_of(user: User, info: RequestInfo, path: str) -> Attributes:
    """The attributes of a request on `path`, which was parsed as `info`."""
    place = info.place
    if place is None:
        return Attributes(user, info.verb, path=path)
    where = (place.group, place.version, place.resource, place.subresource, place.namespace)
    return Attributes(user, info.verb, *where, info.name, path)


def unauthorized() -> ApiFailure:
    """401: the request has no known user."""
    return ApiFailure(401, "Unauthorized", "Unauthorized")


def access_denied(attributes: Attributes, reason: str = "") -> ApiFailure:
    """403: the user is known, but may not do this."""
    why = _described(attributes) + (f": {reason}" if reason else "")
    resource, name = attributes.resource, attributes.name
    qualified = f"{resource}.{attributes.group}" if attributes.group else resource
    quoted = f' "{name}"' if name else ""
    message = f"{qualified}{quoted} is forbidden: {why}" if resource else f"forbidden: {why}"
    details = {"name": name, "group": attributes.group, "kind": resource}
    return ApiFailure(403, "Forbidden", message, {field: value for field, value in details.items() if value})


def _described(attributes: Attributes) -> str:
    who, verb = attributes.user.name, attributes.verb
    if not attributes.resource:
        return f'User "{who}" cannot {verb} path "{attributes.path}"'
    what = f'resource "{attributes.full_resource}" in API group "{attributes.group}"'
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    return f'User "{who}" cannot {verb} {what} {where}'

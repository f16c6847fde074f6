"""A request in the terms of roles: user, verb and resource."""

from attrs import frozen

from reconcile.embedded.auth.users import User
from reconcile.embedded.protocol.request_info import RequestInfo


@frozen
class Attributes:
    """One act: a user, a verb, and a resource or a path outside the resources."""

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
    """What the request on `path`, read as `info`, asks to do."""
    place = info.place
    if place is None:
        return Attributes(user, info.verb, path=path)
    where = (place.group, place.version, place.resource, place.subresource, place.namespace)
    return Attributes(user, info.verb, *where, info.name, path)

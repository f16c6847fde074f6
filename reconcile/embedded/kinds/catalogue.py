"""The kinds of one server, and what is derived from all of them."""

from collections.abc import Iterable
from functools import cache
from typing import Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind
from reconcile.embedded.kubectl.protobuf import Messages, Protobuf
from reconcile.embedded.served import ServedResource

_CUSTOM: Final = BuiltInKind("", "")
"""The empty record of a custom resource, which has nothing beyond its schema."""


class Catalogue:
    """The kinds of one server, in the order of discovery."""

    def __init__(self, kinds: Iterable[BuiltInKind]) -> None:
        self.kinds = tuple(sorted(kinds, key=lambda kind: (kind.group, kind.plural_name)))
        self._by_name = {(kind.group, kind.name): kind.for_one_server() for kind in self.kinds}

    @property
    def resources(self) -> tuple[ServedResource, ...]:
        """Every version of every kind, in the order of discovery."""
        return tuple(resource for kind in self.kinds for resource in kind.resources)

    @property
    def protobuf(self) -> Protobuf:
        """Reads bodies of these kinds."""
        return _protobuf(self.kinds)

    def of(self, resource: ServedResource) -> BuiltInKind:
        """The record of a resource's kind; an empty one for a custom resource."""
        return _CUSTOM if resource.custom else self._by_name[resource.group, resource.kind]


@cache
def _protobuf(kinds: tuple[BuiltInKind, ...]) -> Protobuf:
    # Cached, since nearly all servers have the same kinds.
    messages: Messages = {}
    bodies: dict[tuple[str, str], str] = {}
    for kind in kinds:
        messages |= kind.messages
        for version in kind.versions:
            api_version = f"{kind.group}/{version}" if kind.group else version
            for name in (kind.name, f"{version}.{kind.name}"):
                if name in kind.messages:
                    bodies[api_version, kind.name] = name
        bodies |= {body: body[1] for body in kind.subresource_bodies}
    return Protobuf(messages, bodies)

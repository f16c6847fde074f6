"""What people do to a cluster, and controllers that are not under test: as values that can be replayed.

The steps of a scenario are acts, and so is what `Meanwhile` lets happen just before a request arrives.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from attrs import field, frozen, validators

from reconcile.models import Object, encode, kind_of

_NOT_NEGATIVE = validators.ge(0)
DEFAULT_NAMESPACE = "default"


def manifest_of(given: Object | Mapping[str, Any]) -> dict[str, Any]:
    """An object as JSON with its kind; a mapping is one already."""
    if not isinstance(given, Object):
        return dict(given)
    resource = kind_of(given).resource
    metadata: dict[str, Any] = {"name": given.name}
    if resource.namespaced:
        metadata["namespace"] = given.namespace or DEFAULT_NAMESPACE
    for name, values in (("labels", given.metadata.labels), ("annotations", given.metadata.annotations)):
        if values:
            metadata[name] = dict(values)
    if given.metadata.finalizers:
        metadata["finalizers"] = list(given.metadata.finalizers)
    body = {name: value for name, value in encode(given).items() if name not in ("metadata", "status")}
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body, "metadata": metadata}


Target: TypeAlias = Object | tuple[type[Object], str] | str
"""An object of a model, or its model and name (`shop`, `namespace/shop`), or a path."""


def path_of(given: Target) -> str:
    """The path of an object; without a namespace it is in `default`. A text is a path already."""
    if isinstance(given, str):
        return given
    if isinstance(given, tuple):
        kind, named = given
        namespace, _, name = named.rpartition("/")
        return kind_of(kind).resource.path(namespace or DEFAULT_NAMESPACE, name)
    return kind_of(given).resource.path(given.namespace or DEFAULT_NAMESPACE, given.name)


@frozen
class Apply:
    """The object is made, or is to be as `manifest` says: a server-side apply that wins every conflict.

    What an earlier apply had and this one has not is taken away. `manifest` is an object of a model, or
    a mapping.
    """

    manifest: Mapping[str, Any] = field(converter=manifest_of)


@frozen
class Edit:
    """A merge patch to an object, or with `subresource` to that part of it (`status`, `scale`).

    Here and below, `what` is an object of a model, its model and name (`(Deployment, "web")`), or a path;
    of several objects that match a path with `*` in it, it is the oldest. Empty, in a `Meanwhile`, it is
    the object of the request. Where there is no such object nothing happens.
    """

    what: str = field(converter=path_of)
    patch: Mapping[str, Any]
    subresource: str = ""


@frozen
class Touch:
    """An annotation of the object changes, so that its version does."""

    what: str = field(default="", converter=path_of)


@frozen
class Delete:
    """The object is deleted, as far as its finalizers let it."""

    what: str = field(default="", converter=path_of)


@frozen
class Release:
    """All finalizers of the object are taken away."""

    what: str = field(default="", converter=path_of)


@frozen
class Recreate:
    """The object goes at once, whatever its finalizers, and one of the same content takes its name."""

    what: str = field(default="", converter=path_of)


@frozen
class Wait:
    """So many seconds pass, in which the world need not come to rest."""

    seconds: float = field(validator=_NOT_NEGATIVE)


@frozen
class JumpClock:
    """The wall clock jumps ahead by so many seconds; timers are not told."""

    seconds: float = field(validator=_NOT_NEGATIVE)


@frozen
class DelayGarbage:
    """From now on the server's own controllers (garbage, namespaces, accounts) act so much later."""

    seconds: float = field(validator=_NOT_NEGATIVE)


@frozen
class Kill:
    """The process of the `process`th manager dies at once, and is started anew."""

    process: int = field(default=1, validator=validators.ge(1))


Act = Apply | Edit | Touch | Delete | Release | Recreate | Wait | JumpClock | DelayGarbage | Kill
"""One step of a scenario."""

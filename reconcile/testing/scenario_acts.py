"""What users and other controllers do to a cluster, as values that can be replayed."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from attrs import field, frozen, validators

from reconcile.models import Object, encode, kind_of

_NOT_NEGATIVE = validators.ge(0.0)
DEFAULT_NAMESPACE = "default"


def manifest_of(given: Object | Mapping[str, Any]) -> dict[str, Any]:
    """An object as JSON with its kind; a mapping is a manifest already."""
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


ActTarget: TypeAlias = Object | tuple[type[Object], str] | str
"""An object of a model, or its model and name (`shop`, `namespace/shop`), or a path."""


def path_of(given: ActTarget) -> str:
    """The path of an object, in `default` if it has no namespace; a string is a path already."""
    if isinstance(given, str):
        return given
    if isinstance(given, tuple):
        kind, named = given
        namespace, _, name = named.rpartition("/")
        return kind_of(kind).resource.path(namespace or DEFAULT_NAMESPACE, name)
    return kind_of(given).resource.path(given.namespace or DEFAULT_NAMESPACE, given.name)


@frozen
class Apply:
    """Create or change an object by a server-side apply that wins every conflict.

    Fields that only an earlier apply had are removed. `manifest` is an object of a model, or a mapping.
    """

    manifest: Mapping[str, Any] = field(converter=manifest_of)


EditPatch: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A merge patch, or the operations of a JSON patch."""


@frozen
class Edit:
    """Send a merge patch to an object, or to its `subresource` (`status`, `scale`).

    A `patch` that is a list is a JSON patch, which can set a field to null.

    Here and below, `what` is an object of a model, its model and name (`(Deployment, "web")`), or a path.
    A path with `*` means the oldest object that matches. In a `Meanwhile` it may be empty, for the object of
    the request. If there is no such object, nothing happens.
    """

    what: str = field(converter=path_of)
    patch: EditPatch
    subresource: str = ""


@frozen
class Touch:
    """Change an annotation of the object, and with it its version."""

    what: str = field(default="", converter=path_of)


@frozen
class Delete:
    """Delete the object; its finalizers may hold it."""

    what: str = field(default="", converter=path_of)


@frozen
class Release:
    """Remove all finalizers of the object."""

    what: str = field(default="", converter=path_of)


@frozen
class Recreate:
    """Replace the object by one of the same name and content, at once and whatever its finalizers."""

    what: str = field(default="", converter=path_of)


@frozen
class Wait:
    """Let so many seconds pass; the world need not come to rest before the next act."""

    seconds: float = field(validator=_NOT_NEGATIVE)


@frozen
class JumpClock:
    """Move the wall clock ahead by so many seconds, without moving timers."""

    seconds: float = field(validator=_NOT_NEGATIVE)


@frozen
class DelayGarbage:
    """Delay the server's own controllers (garbage, namespaces, accounts) by so many seconds from now on."""

    seconds: float = field(validator=_NOT_NEGATIVE)


@frozen
class Kill:
    """End the process of manager number `process` at once; it is started again."""

    process: int = field(default=1, validator=validators.ge(1))


@frozen
class Freeze:
    """Have the process of manager number `process` stand still for so many seconds, its timers too.

    What it sent before arrives. Afterwards it goes on as if no time had passed, as after a SIGSTOP.
    """

    process: int = field(default=1, validator=validators.ge(1))
    seconds: float = field(default=5.0, validator=_NOT_NEGATIVE)


@frozen
class CutOff:
    """Have nothing pass between manager number `process` and its server for so many seconds.

    Requests and answers arrive later, unless the caller gives up first.
    """

    process: int = field(default=1, validator=validators.ge(1))
    seconds: float = field(default=5.0, validator=_NOT_NEGATIVE)


@frozen
class Stop:
    """Stop manager number `process` as a rollout does; it is started again so many seconds after its end."""

    process: int = field(default=1, validator=validators.ge(1))
    seconds: float = field(default=5.0, validator=_NOT_NEGATIVE)


ProcessAct = Kill | Freeze | CutOff | Stop
"""What happens to the process of a manager."""

ScenarioAct = (
    Apply
    | Edit
    | Touch
    | Delete
    | Release
    | Recreate
    | Wait
    | JumpClock
    | DelayGarbage
    | Kill
    | Freeze
    | CutOff
    | Stop
)
"""One step of a scenario."""

"""One request as admission sees it."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from attrs import define, field, frozen

from reconcile.embedded.auth import User
from reconcile.embedded.served import ServedResource

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@frozen
class Kind:
    """Group, version and kind."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        """As errors of a real server name it: `apps/v1, Kind=Deployment`."""
        return f"{self.group}/{self.version}, Kind={self.kind}"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @classmethod
    def of(cls, resource: ServedResource) -> "Kind":
        return cls(resource.group, resource.version, resource.kind)


@define(eq=False)
class AdmissionAttributes:
    """What is known of one request (`admission.Attributes` of a real server)."""

    operation: Operation
    resource: ServedResource
    """The resource in the request's version."""
    kind: Kind
    """The kind of `object`, which is that of the resource or, of some subresources, their own (Scale)."""
    subresource: str
    namespace: str
    """Empty for objects of the cluster; that of a namespace is its own name."""
    name: str
    """Empty while a name is still to be generated, and for each object of a deletecollection."""
    user: User
    options: Mapping[str, Any] | None
    """CreateOptions, UpdateOptions or DeleteOptions, with apiVersion and kind; None for CONNECT."""
    dry_run: bool
    object: dict[str, Any] | None
    """What is to be stored; None for DELETE. Mutating plugins put another object here, and leave this one."""
    old: Mapping[str, Any] | None
    """What is stored; None for CREATE and CONNECT. Must not be changed."""
    warnings: list[str] = field(factory=list)
    """Texts added here reach the client as Warning headers."""
    decode: Callable[[dict[str, Any]], dict[str, Any]] = lambda obj: obj
    """A changed object as the server reads it: known fields alone, with defaults; the argument may change.

    Raises ApiFailure for what cannot be read.
    """

"""Admission in process: functions that complete or refuse what is about to be written.

They stand where a cluster calls webhooks: after defaults, before validation. An operator's own webhook
logic runs here as the plain function that it is.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from attrs import field, frozen

from reconcile.embedded.auth import User
from reconcile.embedded.refusals import forbidden
from reconcile.embedded.served import ServedResource

Operation = Literal["CREATE", "UPDATE", "DELETE"]


class Denied(Exception):
    """Raised by an admission to refuse a request; the text reaches the client in a 403."""


@frozen
class AdmissionRequest:
    """One write that asks to be let in."""

    operation: Operation
    resource: ServedResource
    user: User
    namespace: str
    name: str
    """Empty while a name is still to be generated."""
    subresource: str
    dry_run: bool
    object: dict[str, Any] | None
    """What is about to be stored, to be changed in place; None for DELETE."""
    old: Mapping[str, Any] | None
    """What is stored, to be read only; None for CREATE."""
    warnings: list[str] = field(factory=list)
    """Texts added here reach the client as Warning headers, except those of a DELETE."""


class Admission(Protocol):
    """Sees every write in turn. Changes `request.object`, or raises Denied, or does nothing."""

    def __call__(self, request: AdmissionRequest) -> None: ...


@frozen
class AdmissionFor:
    """An admission for one resource, `widgets.example.com`, and some of its operations."""

    resource: str
    function: Callable[[AdmissionRequest], None]
    operations: tuple[Operation, ...] = ("CREATE", "UPDATE")
    subresources: tuple[str, ...] = ("",)

    def __call__(self, request: AdmissionRequest) -> None:
        """Call the function for what it is meant for."""
        if (
            request.resource.name == self.resource
            and request.operation in self.operations
            and request.subresource in self.subresources
        ):
            self.function(request)


class Guard(Admission, Protocol):
    """An admission of the server's own, asked after all others and only about what it is for."""

    def concerns(self, resource: ServedResource) -> bool:
        """Whether it wants to see writes of this resource now."""
        ...


def admit(admissions: Sequence[Admission], request: AdmissionRequest) -> None:
    """Ask all of them, in order; what they leave behind has unknown fields pruned and defaults filled in.

    Raises ApiFailure (403) when one refuses.
    """
    if not admissions:
        return
    try:
        for admission in admissions:
            admission(request)
    except Denied as denied:
        raise forbidden(request.resource, request.name, str(denied)) from None
    if request.object is not None:
        request.resource.schema.prune(request.object)
        request.resource.schema.default(request.object)

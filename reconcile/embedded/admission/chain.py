"""Admission in process: functions that complete or refuse what is about to be written.

They stand where a cluster calls webhooks: after defaults, before validation. An operator's own webhook
logic runs here as the plain function that it is. One that has to wait for its answer returns an awaitable:
the server holds nothing meanwhile and answers other requests, and begins the write again if the object has
changed.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

from attrs import field, frozen

from reconcile.embedded.auth import User
from reconcile.embedded.refusals import forbidden, must_wait
from reconcile.embedded.served import ServedResource

T = TypeVar("T")
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
    """Sees every write in turn. Changes `request.object`, or raises Denied, or does nothing.

    What it returns is awaited before the next one is asked. It is asked again about a newer state of the
    object if another write came between.
    """

    def __call__(self, request: AdmissionRequest) -> Awaitable[None] | None: ...


@frozen
class AdmissionFor:
    """An admission for one resource, `widgets.example.com`, and some of its operations."""

    resource: str
    function: Callable[[AdmissionRequest], Awaitable[None] | None]
    operations: tuple[Operation, ...] = ("CREATE", "UPDATE")
    subresources: tuple[str, ...] = ("",)

    def __call__(self, request: AdmissionRequest) -> Awaitable[None] | None:
        """Call the function for its resource, operations and subresources."""
        if (
            request.resource.name == self.resource
            and request.operation in self.operations
            and request.subresource in self.subresources
        ):
            return self.function(request)
        return None


class Guard(Protocol):
    """An admission of the server's own, asked last, and only about resources that concern it.

    It never waits: a quota that was judged before a wait might be exceeded after it.
    """

    def __call__(self, request: AdmissionRequest) -> None: ...

    def concerns(self, resource: ServedResource) -> bool:
        """Whether writes of this resource have to be checked now."""
        ...


async def admit(admissions: Sequence[Admission], guards: Sequence[Guard], request: AdmissionRequest) -> None:
    """Ask all of them, in order; what they leave behind has unknown fields pruned and defaults filled in.

    Raises ApiFailure (403) when one refuses.
    """
    try:
        for admission in admissions:
            waiting = admission(request)
            if waiting is not None:
                await waiting
        for guard in guards:
            if guard.concerns(request.resource):
                guard(request)
    except Denied as denied:
        raise forbidden(request.resource, request.name, str(denied)) from None
    if request.object is not None:
        request.resource.schema.prune(request.object)
        request.resource.schema.default(request.object)


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that never has to wait.

    Raises ApiFailure: 500 for one that would have to: it is ended where it waits, and has written nothing.
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    # Closing raises GeneratorExit at the await, so that the admission can release what it holds.
    coroutine.close()
    raise must_wait()

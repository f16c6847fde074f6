"""Admission in process: functions that complete or refuse a write, where a cluster calls webhooks."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, Protocol, TypeVar

from attrs import field, frozen

from reconcile.embedded.auth import User
from reconcile.embedded.protocol.api_failure import Denied
from reconcile.embedded.refusals import forbidden, must_wait
from reconcile.embedded.served import ServedResource

T = TypeVar("T")
Operation = Literal["CREATE", "UPDATE", "DELETE"]


@frozen
class AdmittedWrite:
    """One write to be admitted."""

    operation: Operation
    resource: ServedResource
    user: User
    namespace: str
    name: str
    """Empty while a name is still to be generated."""
    subresource: str
    dry_run: bool
    object: dict[str, Any] | None
    """What will be stored, which may be changed in place; None for DELETE."""
    old: Mapping[str, Any] | None
    """What is stored, which must not be changed; None for CREATE."""
    warnings: list[str] = field(factory=list)
    """Texts added here reach the client as Warning headers, except those of a DELETE."""


class AdmissionFunction(Protocol):
    """Sees every write, after defaults and before validation; may change `request.object` or raise Denied.

    An awaitable that it returns is awaited before the next admission is called, and the server answers other
    requests meanwhile. If another write changes the object in between, admission begins again.
    """

    def __call__(self, request: AdmittedWrite) -> Awaitable[None] | None: ...


@frozen
class AdmissionFunctionFor:
    """An admission for one resource, `widgets.example.com`, and some of its operations."""

    resource: str
    function: Callable[[AdmittedWrite], Awaitable[None] | None]
    operations: tuple[Operation, ...] = ("CREATE", "UPDATE")
    subresources: tuple[str, ...] = ("",)

    def __call__(self, request: AdmittedWrite) -> Awaitable[None] | None:
        """Call the function for its resource, operations and subresources."""
        if (
            request.resource.name == self.resource
            and request.operation in self.operations
            and request.subresource in self.subresources
        ):
            return self.function(request)
        return None


class Guard(Protocol):
    """An admission of the server's own, called right before the commit, for resources that concern it."""

    # It never waits: a quota that was checked before a wait might be exceeded after it.

    def __call__(self, request: AdmittedWrite) -> None: ...

    def concerns(self, resource: ServedResource) -> bool: ...


async def call_functions(functions: Sequence[AdmissionFunction], request: AdmittedWrite) -> None:
    """Call all of them in order, then prune and default the object. Raises ApiFailure (403) if refused."""
    try:
        for function in functions:
            waiting = function(request)
            if waiting is not None:
                await waiting
    except Denied as denied:
        raise forbidden(request.resource, request.name, str(denied)) from None
    if request.object is not None:
        request.resource.schema.prune(request.object)
        request.resource.schema.default(request.object)


def call_guards(guards: Sequence[Guard], request: AdmittedWrite) -> None:
    """Call those that the resource concerns. Raises ApiFailure (403) if refused."""
    try:
        for guard in guards:
            if guard.concerns(request.resource):
                guard(request)
    except Denied as denied:
        raise forbidden(request.resource, request.name, str(denied)) from None


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that must not wait; ApiFailure (500) if it does, with nothing written."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    # Closing raises GeneratorExit at the await, so that the admission can release what it holds; it is a
    # RuntimeError if that waits too.
    with suppress(RuntimeError):
        coroutine.close()
    raise must_wait()

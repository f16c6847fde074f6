"""A write in progress: what it was asked, what it has found so far, and its answer."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any

from attrs import define, evolve, field, frozen

from informers.resource import Key
from informers.transport import Response
from reconcile.embedded.admission.attributes import Kind
from reconcile.embedded.api import ApiRequest, Form, RequestTarget, wanted_form
from reconcile.embedded.engine import Engine
from reconcile.embedded.log import NAMESPACES, Stored
from reconcile.embedded.protocol.api_failure import ApiFailure, FieldCause
from reconcile.embedded.refusals import bare_server_error, forbidden, unreadable_patch
from reconcile.embedded.served import ServedResource
from reconcile.embedded.stored_forms import Unconverted, encode, from_storage, shown, shown_object, to_storage
from reconcile.embedded.verbs.bodies import WriteOptions, warning_headers
from reconcile.embedded.verbs.rendering import JSON, render_object
from reconcile.embedded.verbs.version_views import VersionViews


@define
class WriteRequest:
    engine: Engine
    request: ApiRequest
    target: RequestTarget
    options: WriteOptions
    warnings: list[str] = field(factory=list)
    shape: list[FieldCause] | None = None
    """Required fields that were missing in the object of a built-in kind; None until it has been checked."""
    patching: bool = False  # whether the object is the result of a patch other than an apply
    applying: bool = False  # whether it is the result of an apply
    stored: Stored | None = None  # the object that it changes; None for a create
    has_whole_floats: bool = False  # whether a custom object said 1.0, which is stored as 1
    beside: dict[str, Any] | None = None  # what the client sent of members that this endpoint keeps
    empty_metadata: Mapping[str, Any] | None = None  # see Stored.empty_metadata
    upserting: bool = False  # whether it creates an object only because there was none to change
    sent_name: str = ""  # the name that a new object came with; empty if it is generated
    sent_status: Any = None  # the status that came with it and is not written here
    form_shown: "ShownForm | None" = None  # what admission is shown of the object, if not the object itself
    seen: int = field(init=False)  # the version of the log up to which the object is known to be current
    resource: ServedResource = field(init=False)  # kept, since every step needs it
    form: Form = field(init=False)  # the form of the answer, checked before anything is written

    @resource.default
    def _written(self) -> ServedResource:
        return self.target.resource

    @seen.default
    def _current(self) -> int:
        return self.engine.log.version

    @form.default
    def _wanted_form(self) -> Form:
        return wanted_form(self.request, self.resource, listing=False)

    @cached_property
    def time(self) -> str:
        return self.engine.now()

    @cached_property
    def versions(self) -> VersionViews:
        return VersionViews(self.resource)

    def reading(self) -> "_DecodeScope":
        """Turn a 400 about an object into a 422 if a patch made it, and into a 500 if an apply did."""
        return _DecodeScope(self.patching, self.applying)

    def answer(self, status: int, obj: Mapping[str, Any]) -> Response:
        version = obj["metadata"].get("resourceVersion", "")
        if self.resource.storage_schema is not None and self.resource.conversion is None:
            obj = from_storage(self.resource, to_storage(self.resource, dict(obj)))
        body = render_object(self.engine.table, self.resource, encode(obj), self.form, version)
        return self._respond(status, body)

    async def warned(self, writing: Awaitable[Response]) -> Response:
        """The answer of a write, whose refusal has the warnings up to then too."""
        try:
            return await writing
        except ApiFailure as failure:
            if not self.warnings or isinstance(failure, Unconverted):
                raise
            raise evolve(failure, warnings=self.warnings) from failure.__cause__

    async def commit(self, status: int, kept: "KeptForm") -> Response:
        """Write the object unless it is a dry run, and answer with the result."""
        if self.options.dry_run:
            converts = kept.resource is not self.resource
            return self.answer(status, await shown_object(self.resource, kept.obj) if converts else kept.obj)
        self.stored = stored = self.engine.put(kept.resource, kept.obj)
        stored.empty_metadata = self.empty_metadata
        body = await shown(stored, self.resource)
        return self._respond(
            status, render_object(self.engine.table, self.resource, body, self.form, str(stored.version))
        )

    def _respond(self, status: int, body: bytes) -> Response:
        return Response(status, {"content-type": JSON, **warning_headers(self.warnings)}, body)


@frozen
class _DecodeScope:
    """A class, since every write enters several of these, and a generator's context costs more."""

    patching: bool
    applying: bool

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, failure: BaseException | None, __: object) -> None:
        if not isinstance(failure, ApiFailure) or failure.code != 400:
            return
        if self.patching:
            raise unreadable_patch(failure.message) from failure
        if self.applying:
            raise bare_server_error(failure.message) from failure


@frozen
class ShownForm:
    """How a subresource shows an object: as a Scale."""

    kind: Kind
    form: Callable[[Mapping[str, Any]], dict[str, Any]]


@frozen
class KeptForm:
    resource: ServedResource
    obj: dict[str, Any]


class Outdated(Exception):
    """The object changed while its write waited: the write has to begin again.

    As in a real server (GuaranteedUpdate), a write that names its version then gets 409, and another one is
    made of the new state, which admission sees again.
    """


def require_place(write: WriteRequest, name: str) -> None:
    """Refuse a new object if its namespace is missing (404) or ends (403), or its definition ends (403)."""
    resource, place = write.resource, write.target.namespace
    if resource.namespaced:
        namespace = write.engine.log.get(NAMESPACES, Key("", place))
        if namespace is None:
            details = {"name": place, "kind": "namespaces"}
            raise ApiFailure(404, "NotFound", f'namespaces "{place}" not found', details)
        if namespace.deleting:
            why = f"unable to create new content in namespace {place} because it is being terminated"
            text = f"namespace {place} is being terminated"
            cause = FieldCause("NamespaceTerminating", text, "metadata.namespace")
            raise forbidden(resource, name, why, [cause])
    definition = write.engine.definition_of(resource) if resource.custom else None
    if definition is not None and definition.deleting:
        raise forbidden(resource, name, "create not allowed while custom resource definition is terminating")

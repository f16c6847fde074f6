"""The steps of a write: place, complete, check, and commit an object."""

import re
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from attrs import define, evolve, field, frozen

from informers.resource import Key
from informers.transport import Response
from reconcile.embedded.admission.chain import Admission, AdmissionRequest, admit
from reconcile.embedded.api import ApiRequest, Form, RequestTarget, wanted_form
from reconcile.embedded.engine import NAMESPACES, Engine
from reconcile.embedded.kinds.built_in_kind import Admit, Allocate, Siblings
from reconcile.embedded.log import Stored
from reconcile.embedded.ownership.server_side_apply import apply, track_update
from reconcile.embedded.protocol.api_failure import ApiFailure, Denied, FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid
from reconcile.embedded.protocol.object_metadata import check, check_change, drop_duplicate_owners, drop_empty
from reconcile.embedded.refusals import bad_request, bare_server_error, forbidden, invalid, unreadable_patch
from reconcile.embedded.schema import SchemaNode
from reconcile.embedded.schema.json_values import holds_whole_floats, whole_numbers
from reconcile.embedded.served import ServedResource
from reconcile.embedded.stored_forms import (
    Unconverted,
    converted,
    encode,
    from_storage,
    shown,
    shown_object,
    to_storage,
)
from reconcile.embedded.verbs.bodies import WriteOptions, warning_headers
from reconcile.embedded.verbs.rendering import JSON, render_object

_FLOATS = re.compile(rb"\d[.eE]")
_TYPE_FAULT = "FieldValueTypeInvalid"
_MISSING = "FieldValueRequired"


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
    upserting: bool = False  # whether it creates an object only because there was none to change
    resource: ServedResource = field(init=False)  # kept, since every step needs it
    form: Form = field(init=False)  # the form of the answer, checked before anything is written

    @resource.default
    def _written(self) -> ServedResource:
        return self.target.resource

    @form.default
    def _wanted_form(self) -> Form:
        return wanted_form(self.request, self.resource, listing=False)

    @cached_property
    def time(self) -> str:
        return self.engine.now()

    def node_of(self, api_version: str) -> SchemaNode | None:
        """The schema of another version of a custom resource that is not converted."""
        resource = self.resource
        version = api_version.removeprefix(f"{resource.group}/")
        other = self.engine.registry.get(resource.group, version, resource.plural)
        plain = other is not None and other.custom and other.conversion is None
        return other.schema.whole if other is not None and plain else None

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


class Outdated(Exception):
    """The object changed while its write waited: the write has to begin again.

    As in a real server (GuaranteedUpdate), a write that names its version then gets 409, and another one is
    made of the new state, which admission sees again.
    """


# --- where it goes ----------------------------------------------------------------------------


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


# --- completing -------------------------------------------------------------------------------


async def complete_new(write: WriteRequest, obj: dict[str, Any], *, tracked: bool = False) -> None:
    """Complete a new object, without the fields that clients may not set."""
    engine, resource, metadata = write.engine, write.resource, obj["metadata"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
        metadata.pop(name, None)
    metadata["uid"] = str(engine.clock.uuid())
    metadata["creationTimestamp"] = write.time
    if resource.has_generation:
        metadata["generation"] = 1
    if resource.has_status and not engine.kinds.of(resource).keeps_first_status:
        obj.pop("status", None)
    await complete(write, obj, None, None if tracked else "")


async def complete(
    write: WriteRequest, obj: dict[str, Any], old: dict[str, Any] | None, tracked_as: str | None = ""
) -> None:
    """Set defaults, managedFields, what admission changes, and derived fields, in the real server's order.

    `tracked_as` is the subresource that managedFields name; None if they are final. Raises ApiFailure: 400
    for a built-in kind that does not decode.
    """
    kind = write.engine.kinds.of(write.resource)
    with write.reading():
        if write.shape is None and not write.resource.custom:
            write.shape = checked_shape(write.resource, obj, old)
        empty = write.resource.schema.default(obj, keep_nulls=write.applying)
        kind.set_defaults(obj)
    warn_of_duplicate_owners(write, obj)
    if tracked_as is not None:
        _track(write, obj, old, tracked_as)
    for struct, name in empty:
        struct[name] = struct.get(name) or None
    if kind.admit is not None and not write.target.subresource:
        _admit_by_kind(write, kind.admit, obj, old)
    if write.engine.is_guarded(write.resource):
        # Any write may have come while admission waited; none can between here and the commit.
        seen = write.engine.log.version
        await _admit(write, obj, old, write.engine.admission)
        if write.engine.log.version != seen:
            _require_current(write, obj["metadata"].get("name", ""))
        if write.engine.admission:
            kind.set_defaults(obj)  # again, as after the webhooks of a real server
        warn_of_duplicate_owners(write, obj)
    if kind.allocate is not None and not write.target.subresource:
        _allocate(write, kind.allocate, obj, old)
    if old is not None and write.target.subresource in kind.parts:
        kind.parts[write.target.subresource].prepare(obj, old)
    else:
        kind.complete(obj, old, write.time)
    drop_empty(obj["metadata"])


def warn_of_duplicate_owners(write: WriteRequest, obj: dict[str, Any]) -> None:
    """Drop owners that are named twice, with a warning."""
    if warning := drop_duplicate_owners(obj["metadata"]):
        write.warnings.append(warning)


def _admit_by_kind(
    write: WriteRequest, admit: Admit, obj: dict[str, Any], old: dict[str, Any] | None
) -> None:
    def others(group: str, plural: str) -> Iterator[dict[str, Any]]:
        return (stored.decode() for stored in write.engine.log.snapshot((group, plural)))

    try:
        write.warnings.extend(admit(obj, old, others) or ())
    except Denied as denied:
        raise forbidden(write.resource, obj["metadata"].get("name", ""), str(denied)) from None


def _allocate(
    write: WriteRequest, allocate: Allocate, obj: dict[str, Any], old: dict[str, Any] | None
) -> None:
    log, key = write.engine.log, write.resource.storage_key

    def named(namespace: str, name: str) -> dict[str, Any] | None:
        stored = log.get(key, Key(namespace, name))
        return None if stored is None else stored.decode()

    siblings = Siblings(lambda: (stored.decode() for stored in log.snapshot(key)), named)
    if causes := list(allocate(obj, old, siblings)):
        raise invalid(write.resource, obj["metadata"].get("name", ""), causes)


async def _admit(
    write: WriteRequest, obj: dict[str, Any], old: dict[str, Any] | None, admissions: Sequence[Admission]
) -> None:
    request = AdmissionRequest(
        "CREATE" if old is None else "UPDATE",
        write.resource,
        write.request.user,
        namespace=write.target.namespace,
        name=obj["metadata"].get("name", ""),
        subresource=write.target.subresource,
        dry_run=write.options.dry_run,
        object=obj,
        old=old,
        warnings=write.warnings,
    )
    await admit(admissions, write.engine.guards, request)


def _require_current(write: WriteRequest, name: str) -> None:
    """Check that the object, its namespace and its definition have not changed while it waited.

    Raises Outdated, or ApiFailure if the namespace or the definition is ending.
    """
    engine, resource, namespace = write.engine, write.resource, write.target.namespace
    if engine.registry.get(resource.group, resource.version, resource.plural) is not resource:
        raise Outdated
    if write.stored is None:
        require_place(write, name)
    if (write.stored is not None or write.upserting) and engine.get(
        resource, namespace, name
    ) is not write.stored:
        raise Outdated


def restore_system_fields(obj: dict[str, Any], old: dict[str, Any]) -> None:
    """Put back fields that an update may omit, or cannot change."""
    metadata, before = obj["metadata"], old["metadata"]
    for name in ("creationTimestamp", "generation", "selfLink"):
        metadata.pop(name, None)
        if name in before:
            metadata[name] = before[name]
    if "deletionTimestamp" in before:
        metadata["deletionTimestamp"] = before["deletionTimestamp"]
    for name in ("uid", "deletionGracePeriodSeconds"):
        if not metadata.get(name) and name in before:
            metadata[name] = before[name]
    if not metadata.get("managedFields"):
        metadata.pop("managedFields", None)
        if "managedFields" in before:
            metadata["managedFields"] = before["managedFields"]


# --- checking ---------------------------------------------------------------------------------


def validate(
    write: WriteRequest, obj: dict[str, Any], old: dict[str, Any] | None, *, subresource: str = ""
) -> None:
    """Refuse an object that breaks a rule of metadata, its schema or its kind."""
    resource = write.resource
    kind = write.engine.kinds.of(resource)
    times = 1 if old is None else kind.metadata_fault_copies
    if subresource == "status":
        times = min(times, 3)  # the checks of the whole object, which repeat them in some kinds, are left out
    causes, warnings = check(obj["metadata"], kind.check_name, custom=resource.custom, times=times)
    if old is not None:
        causes += check_change(obj["metadata"], old["metadata"], kind.change_fault_copies)
    if resource.custom:
        causes += _scale_causes(obj, resource) + resource.schema.validate(obj, old)
    elif subresource == "status":
        causes += kind.status_checks(obj, old)
    elif old is not None and subresource in kind.parts:
        causes += kind.parts[subresource].checks(obj, old)
    else:
        with write.reading():
            causes += kind.checks(obj, old)
        named = {cause.field for cause in causes}
        missing = () if kind.names_missing_fields else write.shape or ()
        causes += [cause for cause in missing if cause.field not in named]
    if causes:
        raise invalid(resource, obj["metadata"].get("name", ""), causes)
    write.warnings.extend(warnings)
    if resource.custom and _FLOATS.search(write.request.body):
        write.has_whole_floats = holds_whole_floats(obj)
        whole_numbers(obj)
    warn = kind.status_warnings if subresource == "status" else kind.warnings
    write.warnings.extend(warn(obj, old))


def checked_shape(
    resource: ServedResource, obj: dict[str, Any], old: dict[str, Any] | None
) -> list[FieldCause]:
    """The missing fields of a built-in kind. Raises ApiFailure (400) for fields of a wrong type.

    What Go cannot decode is of a wrong type too, as a number that is out of the range of its field.
    """
    causes = resource.schema.validate(obj, old)
    typed = resource.schema.root.go is not None
    for cause in causes:
        if cause.reason == _TYPE_FAULT or (typed and cause.reason != _MISSING):
            raise bad_request(f"json: cannot unmarshal {cause.field}: {cause.message}")
    return [cause for cause in causes if not cause.field.startswith("status")]


def _scale_causes(obj: Mapping[str, Any], resource: ServedResource) -> list[FieldCause]:
    if resource.scale is None:
        return []
    paths = (resource.scale.spec_replicas, resource.scale.status_replicas)
    faults = [(path, *_scale_fault(obj, path)) for path in paths]
    return [value_invalid(path, value, fault) for path, fault, value in faults if fault]


def _scale_fault(obj: Mapping[str, Any], path: str) -> tuple[str, Any]:
    value: Any = obj
    for step in path.strip(".").split("."):
        if not isinstance(value, Mapping):
            return (
                f"{path} accessor error: {value} is of the type {type(value).__name__}, expected map",
                value,
            )
        value = value.get(step)
        if value is None:
            return "", None
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{path} accessor error: {value} is of the type {type(value).__name__}, expected int64", value
    return ("should be a non-negative integer" if value < 0 else ""), value


# --- committing -------------------------------------------------------------------------------


@frozen
class KeptForm:
    resource: ServedResource
    obj: dict[str, Any]


async def kept_form(write: WriteRequest, obj: dict[str, Any], old: dict[str, Any] | None) -> KeptForm:
    """The object in the storage version, after awaiting a converter if it has one.

    Raises Outdated, or ApiFailure if the write is no longer allowed after the wait.
    """
    resource, log = write.resource, write.engine.log
    if resource.conversion is None or resource.storage_schema is None:
        return KeptForm(resource, obj)
    seen = log.version
    kept = await converted(resource, obj, resource.storage_api_version)
    if log.version != seen:
        _require_current(write, obj["metadata"]["name"])
        await _admit(write, obj, old, ())
    return KeptForm(resource.conversion.kept, kept)


def _track(write: WriteRequest, obj: dict[str, Any], old: dict[str, Any] | None, subresource: str) -> None:
    track_update(
        old,
        obj,
        schema=write.resource.schema,
        manager=write.options.manager,
        subresource=subresource,
        api_version=write.resource.api_version,
        time=write.time,
        node_of=write.node_of,
        beside=write.beside,
    )


def applied(
    write: WriteRequest,
    live: dict[str, Any] | None,
    intent: dict[str, Any],
    subresource: str,
    reset: Sequence[str] = (),
) -> dict[str, Any]:
    return apply(
        live,
        intent,
        schema=write.resource.schema,
        manager=write.options.manager,
        force=write.options.force,
        subresource=subresource,
        api_version=write.resource.api_version,
        time=write.time,
        reset=reset,
        node_of=write.node_of,
    )


def changes_nothing(
    resource: ServedResource, stored: Stored, obj: dict[str, Any], old: Mapping[str, Any]
) -> bool:
    """Whether `obj` equals what is stored, which this version shows as `old`.

    For custom resources the stored forms are compared: a write without changes still drops fields that only
    the storage version has, and moves the object to a new storage version or schema.
    """
    if not resource.custom or (stored.encoded_by is resource and resource.storage_schema is None):
        return same_but_for_times(obj, old)
    return same_but_for_times(to_storage(resource, obj), stored.decode())


def same_but_for_times(obj: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether at most times of managedFields differ."""
    if obj == old:
        return True
    if {**obj, "metadata": None} != {**old, "metadata": None}:
        return False
    return _timeless(obj["metadata"]) == _timeless(old["metadata"])


def _timeless(metadata: Mapping[str, Any]) -> dict[str, Any]:
    entries = [
        {name: value for name, value in entry.items() if name != "time"}
        for entry in metadata.get("managedFields") or ()
    ]
    kept = {
        name: value for name, value in metadata.items() if name not in ("managedFields", "resourceVersion")
    }
    return {**kept, "managedFields": entries}


def bump_generation(
    resource: ServedResource,
    obj: dict[str, Any],
    old: Mapping[str, Any],
    subresource: str,
    *,
    by_form: bool = False,
) -> None:
    """Increase the generation if anything but metadata (and a separate status) has changed.

    `by_form` says that something has, if only from 1 to 1.0.
    """
    if not resource.has_generation:
        return
    hidden = {"metadata": None, "status": None} if resource.has_status else {"metadata": None}
    followed = () if subresource == "status" else resource.generation_follows
    if (
        by_form
        or {**obj, **hidden} != {**old, **hidden}
        or any(obj["metadata"].get(name) != old["metadata"].get(name) for name in followed)
    ):
        obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

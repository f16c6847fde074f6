"""The phases of admission for one write: what plugins, functions and guards see and change."""

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from reconcile.embedded.admission.attributes import AdmissionAttributes, Kind, Operation
from reconcile.embedded.admission.chain import AdmittedWrite, call_functions, call_guards
from reconcile.embedded.api import ApiRequest, RequestTarget
from reconcile.embedded.engine import Engine
from reconcile.embedded.log import NAMESPACES
from reconcile.embedded.ownership import managed_fields
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.protocol.object_metadata import drop_empty, drop_unknown_fields
from reconcile.embedded.refusals import internal
from reconcile.embedded.served import ServedResource
from reconcile.embedded.verbs.bodies import check_type, place
from reconcile.embedded.verbs.validation import checked_shape, decode_fault
from reconcile.embedded.verbs.write_request import Outdated, WriteRequest, require_place

_OPTIONS = ("dryRun", "fieldManager", "fieldValidation")
_OPTIONS_OF = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions"}


async def mutate(write: WriteRequest, obj: dict[str, Any], old: dict[str, Any] | None) -> bool:
    """Run the mutating plugins and then the functions of the server, which change `obj` in place.

    Returns whether a plugin changed it. Raises ApiFailure if one refuses, Outdated if another write came.
    """
    engine, changed = write.engine, False
    if write.form_shown is None and engine.phases.mutates:
        attributes = attributes_of(write, _sent(write, obj), old)
        changed = await engine.phases.mutate(attributes)
        if changed and attributes.object is not None:
            managers = obj["metadata"].get("managedFields")
            obj.clear()
            obj.update(attributes.object)
            place(obj, write.target)
            _keep_readable_managers(write, obj["metadata"], managers)
    if engine.admission:
        await call_functions(engine.admission, _request_of(write, obj, old))
        engine.kinds.of(write.resource).set_defaults(obj)  # again, as after the webhooks of a real server
    require_current(write, obj["metadata"].get("name", ""))
    return changed


def _keep_readable_managers(write: WriteRequest, metadata: dict[str, Any], before: Any) -> None:
    """Put managedFields back that a plugin has spoilt, with a warning."""
    try:
        managed_fields.decode(metadata.get("managedFields") or [])
    except (ValueError, TypeError, AttributeError) as error:
        metadata["managedFields"] = before
        write.warnings.append(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an "
            f"outdated mutating admission controller; please fix your requests: {error}"
        )


async def admit(write: WriteRequest, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
    """Run the validating plugins for an object that is valid. Raises ApiFailure, or Outdated as `mutate`."""
    if not write.engine.phases.validates:
        return
    show = write.form_shown
    shown = obj if show is None else show.form(obj)
    before = old if show is None or old is None else show.form(old)
    await write.engine.phases.validate(attributes_of(write, shown, before))
    require_current(write, obj["metadata"]["name"])


def guard(write: WriteRequest, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
    """Ask the server's own guards, which must see what is committed now. Raises ApiFailure (403)."""
    if any(one.concerns(write.resource) for one in write.engine.guards):
        call_guards(write.engine.guards, _request_of(write, obj, old))


async def mutate_shown(write: WriteRequest, shown: dict[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """The form that a subresource writes (a Scale), after the mutating plugins. Raises as `mutate`."""
    if not write.engine.phases.mutates:
        return shown
    attributes = attributes_of(write, shown, old)
    attributes.decode = lambda made: made
    await write.engine.phases.mutate(attributes)
    return attributes.object or shown


async def admit_request(
    engine: Engine,
    request: ApiRequest,
    target: RequestTarget,
    operation: Operation,
    kind: Kind,
    obj: dict[str, Any],
    *,
    old: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The object of a request that is not stored (Eviction, Binding, a review), after both phases.

    Raises ApiFailure if it is refused.
    """
    if not (engine.phases.mutates or engine.phases.validates):
        return obj
    attributes = AdmissionAttributes(
        operation,
        target.resource,
        kind,
        target.subresource.partition("/")[0],
        target.name if target.resource.storage_key == NAMESPACES else target.namespace,
        target.name,
        request.user,
        None if operation == "CONNECT" else _options(request.query, _OPTIONS_OF[operation]),
        request.query.get("dryRun") == "All",
        obj,
        old,
    )
    try:
        await engine.phases.mutate(attributes)
        await engine.phases.validate(attributes)
    except ApiFailure as failure:
        raise evolve(failure, warnings=attributes.warnings) from failure.__cause__
    return attributes.object or obj


async def admit_deletion(
    engine: Engine,
    request: ApiRequest,
    resource: ServedResource,
    old: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    named: bool,
) -> list[str]:
    """Run both phases and the functions for the deletion of one object, and return their warnings.

    Raises ApiFailure if it is refused.
    """
    attributes = deletion_attributes(request, resource, old, options, named=named)
    try:
        await engine.phases.mutate(attributes)
        if engine.admission:
            await call_functions(engine.admission, _request_to_delete(attributes, old["metadata"]))
        await engine.phases.validate(attributes)
    except ApiFailure as failure:
        raise evolve(failure, warnings=attributes.warnings) from failure.__cause__
    return attributes.warnings


def deletion_attributes(
    request: ApiRequest,
    resource: ServedResource,
    old: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    named: bool,
) -> AdmissionAttributes:
    """What plugins are shown of the deletion of one object."""
    namespace, name = old["metadata"].get("namespace", ""), old["metadata"]["name"]
    return AdmissionAttributes(
        "DELETE",
        resource,
        Kind.of(resource),
        "",
        name if resource.storage_key == NAMESPACES else namespace,
        name if named else "",
        request.user,
        options,
        "dryRun" in options,
        None,
        old,
    )


def _request_to_delete(attributes: AdmissionAttributes, metadata: Mapping[str, Any]) -> AdmittedWrite:
    return AdmittedWrite(
        "DELETE",
        attributes.resource,
        attributes.user,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        subresource="",
        dry_run=attributes.dry_run,
        object=None,
        old=attributes.old,
    )


def require_current(write: WriteRequest, name: str) -> None:
    """Check that the object, its namespace and its definition have not changed while admission waited.

    Raises Outdated, or ApiFailure if the namespace or the definition is ending.
    """
    engine, resource, namespace = write.engine, write.resource, write.target.namespace
    if engine.log.version == write.seen:
        return
    write.seen = engine.log.version
    if engine.registry.get(resource.group, resource.version, resource.plural) is not resource:
        raise Outdated
    if write.stored is None:
        require_place(write, name)
    if (write.stored is not None or write.upserting) and engine.get(
        resource, namespace, name
    ) is not write.stored:
        raise Outdated


def attributes_of(
    write: WriteRequest, obj: dict[str, Any], old: Mapping[str, Any] | None
) -> AdmissionAttributes:
    """What plugins are shown of a create or an update."""
    operation: Operation = "CREATE" if old is None else "UPDATE"
    target, form = write.target, write.form_shown
    name = target.name or write.sent_name or obj["metadata"].get("name", "")
    return AdmissionAttributes(
        operation,
        write.resource,
        Kind.of(write.resource) if form is None else form.kind,
        target.subresource,
        name if write.resource.storage_key == NAMESPACES else target.namespace,
        name,
        write.request.user,
        _options(write.request.query, _OPTIONS_OF[operation]),
        write.options.dry_run,
        obj,
        old,
        write.warnings,
        lambda made: decoded(write, made),
    )


def _options(query: Mapping[str, str], kind: str) -> dict[str, Any]:
    options: dict[str, Any] = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    options |= {name: query[name] for name in _OPTIONS if query.get(name)}
    if "dryRun" in options:
        options["dryRun"] = [options["dryRun"]]
    return options


def _sent(write: WriteRequest, obj: dict[str, Any]) -> dict[str, Any]:
    """The object as mutating plugins see it: with the status that was sent, which is not written here."""
    return obj if write.sent_status is None else {**obj, "status": write.sent_status}


def decoded(write: WriteRequest, made: dict[str, Any]) -> dict[str, Any]:
    """An object that a plugin made, as this server reads it. Raises ApiFailure (500) if it cannot."""
    resource = write.resource
    _require_readable(write, made)
    try:
        obj = check_type(made, write.target)
        drop_unknown_fields(obj["metadata"])
        resource.schema.prune(obj)
        if not resource.custom:
            write.shape = checked_shape(resource, obj, None)
    except ApiFailure as failure:
        raise internal(failure.message) from failure
    drop_empty(obj["metadata"])
    resource.schema.default(obj)
    write.engine.kinds.of(resource).set_defaults(obj)
    return obj


def _require_readable(write: WriteRequest, made: dict[str, Any]) -> None:
    """500 if Go cannot decode what became of a built-in kind, which may be another kind now."""
    resource = write.resource
    if resource.custom:
        return
    group, _, version = str(made.get("apiVersion") or resource.api_version).rpartition("/")
    found = write.engine.registry.by_kind(group, str(made.get("kind") or resource.kind), version)
    if found is not None and (fault := decode_fault(found, made)):
        raise internal(fault)


def _request_of(write: WriteRequest, obj: dict[str, Any], old: dict[str, Any] | None) -> AdmittedWrite:
    return AdmittedWrite(
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

"""Complete an object: defaults, managed fields, admission, derived fields, the form to store."""

from collections.abc import Sequence
from typing import Any

from reconcile.embedded.admission.chain import Admission, AdmissionRequest, admit
from reconcile.embedded.kinds.built_in_kind import Admit, Allocate
from reconcile.embedded.ownership.server_side_apply import track_update
from reconcile.embedded.protocol.api_failure import Denied
from reconcile.embedded.protocol.object_metadata import drop_duplicate_owners, drop_empty
from reconcile.embedded.refusals import forbidden, invalid
from reconcile.embedded.stored_forms import converted
from reconcile.embedded.verbs.validation import checked_shape
from reconcile.embedded.verbs.write_request import KeptForm, Outdated, WriteRequest, require_place


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


def _admit_by_kind(
    write: WriteRequest, admit: Admit, obj: dict[str, Any], old: dict[str, Any] | None
) -> None:
    try:
        write.warnings.extend(admit(obj, old, write.engine.others) or ())
    except Denied as denied:
        raise forbidden(write.resource, obj["metadata"].get("name", ""), str(denied)) from None


def _allocate(
    write: WriteRequest, allocate: Allocate, obj: dict[str, Any], old: dict[str, Any] | None
) -> None:
    if causes := list(allocate(obj, old, write.engine.others)):
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

"""Complete an object: defaults, managed fields, admission, derived fields, the form to store."""

from collections.abc import Mapping
from typing import Any

from reconcile.embedded.kinds.built_in_kind import Admit, Allocate
from reconcile.embedded.ownership.server_side_apply import track_update
from reconcile.embedded.protocol.api_failure import ApiFailure, Denied
from reconcile.embedded.protocol.object_metadata import drop_duplicate_owners, drop_empty
from reconcile.embedded.refusals import forbidden, invalid
from reconcile.embedded.stored_forms import converted
from reconcile.embedded.verbs.admitting import mutate, require_current
from reconcile.embedded.verbs.generated_names import generate_name
from reconcile.embedded.verbs.validation import checked_shape
from reconcile.embedded.verbs.write_request import KeptForm, WriteRequest


async def complete_new(write: WriteRequest, obj: dict[str, Any], *, tracked: bool = False) -> None:
    """Complete a new object, without the fields that clients may not set."""
    write.sent_name = obj["metadata"].get("name") or ""
    _reset_new(write, obj)
    if await prepare(write, obj, None, None if tracked else ""):
        _reset_new(write, obj)
    _begin(write, obj)
    derive(write, obj, None)


_NOT_OF_CLIENTS = ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation")


def _reset_new(write: WriteRequest, obj: dict[str, Any]) -> None:
    """Drop what clients may not set; the status is kept aside for admission."""
    for name in _NOT_OF_CLIENTS:
        obj["metadata"].pop(name, None)
    if write.resource.has_status and not write.engine.kinds.of(write.resource).keeps_first_status:
        write.sent_status = obj.pop("status", None)


def _begin(write: WriteRequest, obj: dict[str, Any]) -> None:
    """Give a new object what the server alone sets."""
    metadata = obj["metadata"]
    if not metadata.get("name"):
        metadata["name"] = generate_name(write, metadata.get("generateName") or "")
    metadata["uid"] = str(write.engine.clock.uuid())
    metadata["creationTimestamp"] = write.time
    if write.resource.has_generation:
        metadata["generation"] = 1


async def prepare(
    write: WriteRequest, obj: dict[str, Any], old: dict[str, Any] | None, tracked_as: str | None = ""
) -> bool:
    """Set defaults, managedFields, and what admission changes, in the real server's order.

    `tracked_as` is the subresource that managedFields name; None if they are final. Returns whether admission
    may have changed the object. Raises ApiFailure: 400 for a built-in kind that does not decode; Outdated.
    """
    kind = write.engine.kinds.of(write.resource)
    with write.reading():
        if write.shape is None and not write.resource.custom:
            write.shape = checked_shape(write.resource, obj, old)
        empty = write.resource.schema.default(obj, keep_nulls=write.applying)
        kind.set_defaults(obj)
    warn_of_duplicate_owners(write, obj)
    if tracked_as is not None:
        await _track(write, obj, old, tracked_as)
    for struct, name in empty:
        struct[name] = struct.get(name) or None
    admits = kind.admit if not write.target.subresource else None
    if admits is not None:
        _admit_by_kind(write, admits, obj, old)
    if not (write.engine.phases.mutates or write.engine.admission):
        return False
    if await mutate(write, obj, old) and admits is not None:
        _admit_by_kind(write, admits, obj, old)  # a real server runs these plugins again too
    warn_of_duplicate_owners(write, obj)
    return True


def derive(write: WriteRequest, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
    """Set what follows from the rest of the object: allocated values and those of its kind."""
    kind = write.engine.kinds.of(write.resource)
    if kind.allocate is not None and not write.target.subresource:
        _allocate(write, kind.allocate, obj, old)
    if old is not None and write.target.subresource in kind.parts:
        kind.parts[write.target.subresource].prepare(obj, old)
    else:
        kind.complete(obj, old, write.time)
    empty_metadata = drop_empty(obj["metadata"])
    if write.applying and write.resource.custom:
        write.empty_metadata = empty_metadata or None


def warn_of_duplicate_owners(write: WriteRequest, obj: dict[str, Any]) -> None:
    """Drop owners that are named twice, with a warning."""
    if warning := drop_duplicate_owners(obj["metadata"]):
        write.warnings.append(warning)


async def _track(
    write: WriteRequest, obj: dict[str, Any], old: dict[str, Any] | None, subresource: str
) -> None:
    def metadata() -> dict[str, Any]:
        new = {**obj, "metadata": dict(obj["metadata"])}
        track_update(
            old,
            new,
            schema=write.resource.schema,
            manager=write.options.manager,
            subresource=subresource,
            api_version=write.resource.api_version,
            time=write.time,
            versions=write.versions,
            beside=write.beside,
        )
        tracked: dict[str, Any] = new["metadata"]
        return tracked

    try:
        obj["metadata"] = await write.versions.complete(metadata)
    except ApiFailure:  # as a real server, which then goes on without them (UpdateNoErrors)
        obj["metadata"].pop("managedFields", None)
    require_current(write, obj["metadata"].get("name", ""))


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


def restore_system_fields(obj: dict[str, Any], old: dict[str, Any]) -> None:
    """Put back fields that an update may omit, or cannot change."""
    metadata, before = obj["metadata"], old["metadata"]
    restore_times(metadata, before)
    for name in ("uid", "deletionGracePeriodSeconds"):
        if not metadata.get(name) and name in before:
            metadata[name] = before[name]
    if not metadata.get("managedFields"):
        metadata.pop("managedFields", None)
        if "managedFields" in before:
            metadata["managedFields"] = before["managedFields"]


def restore_times(metadata: dict[str, Any], before: Mapping[str, Any]) -> None:
    """Put back what no update can change: the times of the object, and its generation."""
    for name in ("creationTimestamp", "generation", "selfLink"):
        metadata.pop(name, None)
        if name in before:
            metadata[name] = before[name]
    if "deletionTimestamp" in before:
        metadata["deletionTimestamp"] = before["deletionTimestamp"]


async def kept_form(write: WriteRequest, obj: dict[str, Any]) -> KeptForm:
    """The object in the storage version, after awaiting a converter if it has one.

    Raises Outdated, or ApiFailure if the write is no longer allowed after the wait.
    """
    resource = write.resource
    if resource.conversion is None or resource.storage_schema is None:
        return KeptForm(resource, obj)
    kept = await converted(resource, obj, resource.storage_api_version)
    require_current(write, obj["metadata"]["name"])
    return KeptForm(resource.conversion.kept, kept)

"""Create and update."""

from collections.abc import Mapping
from typing import Any

from informers.transport import Response
from reconcile.embedded.api import ApiRequest, RequestTarget
from reconcile.embedded.auth import Attributes
from reconcile.embedded.engine import Engine
from reconcile.embedded.log import Stored
from reconcile.embedded.protocol.object_metadata import drop_empty, drop_unknown_fields
from reconcile.embedded.refusals import (
    already_exists,
    bad_request,
    bare_server_error,
    missing_version,
    not_found,
    stale,
    wrong_uid,
)
from reconcile.embedded.stored_forms import object_in
from reconcile.embedded.verbs.admitting import admit, guard
from reconcile.embedded.verbs.bodies import (
    check_type,
    judge_strictly,
    place,
    read_body,
    require_object_name,
    strict_problems,
    write_options,
)
from reconcile.embedded.verbs.change_detection import bump_generation, changes_nothing
from reconcile.embedded.verbs.completion import (
    complete_new,
    derive,
    kept_form,
    prepare,
    restore_system_fields,
    restore_times,
    warn_of_duplicate_owners,
)
from reconcile.embedded.verbs.deletion import remove_finished
from reconcile.embedded.verbs.validation import checked_shape, validate
from reconcile.embedded.verbs.write_request import WriteRequest, require_place

_METADATA_OF_STATUS = frozenset({"managedFields", "resourceVersion"})


async def create(engine: Engine, request: ApiRequest, target: RequestTarget) -> Response:
    write = WriteRequest(engine, request, target, write_options(request, "CreateOptions"))
    return await write.warned(_create(write))


async def _create(write: WriteRequest) -> Response:
    target, obj = write.target, _read_object(write)
    if target.name:
        obj["metadata"].setdefault("name", target.name)
        if obj["metadata"]["name"] != target.name:
            raise bad_request("the name of the object does not match the name on the URL")
    return await create_object(write, obj)


async def create_object(write: WriteRequest, obj: dict[str, Any]) -> Response:
    """Create an object that has been read and checked to be of the right kind."""
    require_place(write, obj["metadata"].get("name", ""))
    obj["metadata"].pop("managedFields", None)
    await complete_new(write, obj)
    validate(write, obj, None)
    metadata, resource = obj["metadata"], write.resource
    if write.upserting:
        metadata.pop("resourceVersion", None)
    await admit(write, obj, None)
    if _names_a_version(metadata.get("resourceVersion")) and not write.options.dry_run:
        raise bare_server_error("resourceVersion should not be set on objects to be created")
    kept = await kept_form(write, obj)
    taken = write.engine.get(resource, write.target.namespace, metadata["name"])
    if taken is not None:
        raise already_exists(resource, metadata["name"], deleting=taken.deleting)
    guard(write, obj, None)
    return await write.commit(201, kept)


def _names_a_version(text: str | None) -> bool:
    """Whether storage reads a version other than 0 from it; what it cannot read (`v1`) it overlooks."""
    return text is not None and text.isascii() and text.isdigit() and 0 < int(text) < 1 << 64


def require_create(write: WriteRequest) -> None:
    """403 for users who may update or patch but not create, if the object is missing."""
    target, resource, request = write.target, write.resource, write.request
    where = (resource.group, resource.version, resource.plural, target.subresource, target.namespace)
    act = Attributes(request.user, "create", *where, target.name, request.path)
    write.engine.access.require(act)


def _read_object(write: WriteRequest) -> dict[str, Any]:
    duplicates: list[str] = []
    obj = check_type(read_body(write.request, duplicates), write.target)
    place(obj, write.target)
    problems = strict_problems(duplicates, prune(write, obj))
    if not write.resource.custom:
        write.shape = checked_shape(write.resource, obj, None)
    judge_strictly(problems, write.options, write.warnings)
    return obj


def prune(write: WriteRequest, obj: dict[str, Any]) -> list[str]:
    unknown = drop_unknown_fields(obj["metadata"])
    if not write.resource.custom and obj["metadata"].get("managedFields") == []:
        obj["metadata"]["managedFields"] = [{}]  # not null, which resets them as this does
    drop_empty(obj["metadata"])
    return write.resource.schema.prune(obj) + unknown


async def update(engine: Engine, request: ApiRequest, target: RequestTarget) -> Response:
    write = WriteRequest(engine, request, target, write_options(request, "UpdateOptions"))
    return await write.warned(_update(write))


async def _update(write: WriteRequest) -> Response:
    engine, target, obj = write.engine, write.target, _read_object(write)
    require_object_name(obj, target)
    warn_of_duplicate_owners(write, obj)
    stored = engine.get(target.resource, target.namespace, target.name)
    if stored is None:
        if target.resource.create_on_update and not target.subresource:
            if uid := obj["metadata"].get("uid"):  # it was deleted: another object must not take its place
                raise wrong_uid(target.resource, target.name, uid, "")
            require_create(write)
            write.upserting = True
            return await create_object(write, obj)
        raise not_found(target.resource, target.name)
    uid = obj["metadata"].get("uid")
    if uid and uid != stored.uid:
        raise wrong_uid(target.resource, target.name, uid, stored.uid)
    return await replace(write, stored, obj)


def check_version(write: WriteRequest, obj: dict[str, Any], stored: Stored) -> None:
    resource, name = write.resource, write.target.name
    version = obj["metadata"].get("resourceVersion") or ""
    if not version:
        if resource.unconditional_update:
            return
        raise missing_version(resource, name)
    if not (version.isascii() and version.isdigit()):
        raise bare_server_error(f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if version.lstrip("0") != str(stored.version):  # it may have more digits than a number can be read from
        raise stale(resource, name)


async def replace(
    write: WriteRequest,
    stored: Stored,
    obj: dict[str, Any],
    *,
    tracked: bool = False,
    subresource: str | None = None,
    through: str = "",
) -> Response:
    """Write `obj` over the stored object; `tracked` says that its managedFields are final.

    `through` is the subresource that managedFields name, if it is not the one that is written.
    """
    resource, engine = write.resource, write.engine
    part = write.target.subresource if subresource is None else subresource
    old = object_in(stored, resource)
    if not part and resource.has_status:
        write.sent_status = obj.get("status")
        if resource.custom:
            write.beside = {"status": write.sent_status}
    _keep_other_parts(write, obj, old, part)
    restore_system_fields(obj, old)
    write.stored = stored
    changed = await prepare(write, obj, old, None if tracked else through or part)
    check_version(write, obj, stored)
    if changed:
        _keep_other_parts(write, obj, old, part)
        restore_times(obj["metadata"], old["metadata"])
    derive(write, obj, old)
    validate(write, obj, old, subresource=part)
    bump_generation(resource, obj, old, part, by_form=write.has_whole_floats)
    obj["metadata"]["resourceVersion"] = str(stored.version)
    await admit(write, obj, old)
    kept = await kept_form(write, obj)
    guard(write, obj, old)
    if changes_nothing(kept.resource, stored, kept.obj, old, write.empty_metadata):
        return write.answer(200, old)
    if not write.options.dry_run and engine.is_finished(resource, obj):
        remove_finished(engine, resource, stored.key)
        return write.answer(200, obj)
    return await write.commit(200, kept)


def _keep_other_parts(write: WriteRequest, obj: dict[str, Any], old: dict[str, Any], part: str) -> None:
    """The main endpoint leaves the status alone; the status endpoint leaves all else alone."""
    if part == "status":
        status, metadata = obj.get("status"), _metadata_beside_status(write, obj["metadata"], old["metadata"])
        obj.clear()
        obj.update(old)
        obj["metadata"] = metadata
        _set_or_drop(obj, "status", status)
    elif write.resource.has_status:
        _set_or_drop(obj, "status", old.get("status"))


def _metadata_beside_status(
    write: WriteRequest, metadata: dict[str, Any], old: Mapping[str, Any]
) -> dict[str, Any]:
    """A built-in kind takes metadata from a write of its status, apart from what its strategy resets."""
    if write.resource.custom:
        kept = {name: value for name, value in old.items() if name != "resourceVersion"}
        return {**kept, **{name: metadata[name] for name in _METADATA_OF_STATUS if name in metadata}}
    reset = write.engine.kinds.of(write.resource).status_keeps
    return {
        **{name: value for name, value in metadata.items() if name not in reset},
        **{name: old[name] for name in reset if name in old},
    }


def _set_or_drop(obj: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        obj.pop(name, None)
    else:
        obj[name] = value

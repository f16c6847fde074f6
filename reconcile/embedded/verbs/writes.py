"""Create, update and patch."""

from collections.abc import Mapping
from typing import Any

from informers.transport import Response
from reconcile.embedded.api import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, ApiRequest, RequestTarget
from reconcile.embedded.auth import Attributes
from reconcile.embedded.engine import Engine
from reconcile.embedded.log import Stored
from reconcile.embedded.protocol.field_causes import value_invalid
from reconcile.embedded.protocol.object_metadata import drop_empty, drop_unknown_fields
from reconcile.embedded.refusals import (
    already_exists,
    bad_request,
    bare_server_error,
    conflict,
    invalid,
    invalid_kind,
    missing_version,
    name_collision,
    not_found,
    stale,
    unreadable_patch,
    wrong_uid,
)
from reconcile.embedded.stored_forms import object_in
from reconcile.embedded.verbs.bodies import (
    check_depth,
    check_type,
    judge_strictly,
    parse_json,
    parse_yaml,
    patch_type,
    place,
    read_body,
    require_object_name,
    strict_problems,
    write_options,
)
from reconcile.embedded.verbs.object_selection import require
from reconcile.embedded.verbs.patches import json_patch, merge_into, strategic_merge
from reconcile.embedded.verbs.write_request import (
    WriteRequest,
    applied,
    bump_generation,
    changes_nothing,
    checked_shape,
    complete,
    complete_new,
    kept_form,
    require_place,
    restore_system_fields,
    validate,
    warn_of_duplicate_owners,
)

# names.go of kube-apiserver: 58 characters of the base and 5 random ones fill a label of 63.
GENERATED_LENGTH = 5
MAX_GENERATED_BASE = 58
# maxNameGenerationCreateAttempts in kube-apiserver's store.go.
NAME_ATTEMPTS = 8

# apimachinery's util/rand: without vowels, and without 0, 1 and 3, so that no words come out.
_NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_METADATA_OF_STATUS = frozenset({"managedFields", "resourceVersion"})


# --- create -----------------------------------------------------------------------------------


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
    metadata, resource = obj["metadata"], write.resource
    require_place(write, metadata.get("name", ""))
    metadata.pop("managedFields", None)
    if not metadata.get("name"):
        metadata["name"] = _generate_name(write, metadata.get("generateName") or "")
    await complete_new(write, obj)
    validate(write, obj, None)
    if write.upserting:
        metadata.pop("resourceVersion", None)
    if _names_a_version(metadata.get("resourceVersion")) and not write.options.dry_run:
        raise bare_server_error("resourceVersion should not be set on objects to be created")
    kept = await kept_form(write, obj, None)
    taken = write.engine.get(resource, write.target.namespace, metadata["name"])
    if taken is not None:
        raise already_exists(resource, metadata["name"], deleting=taken.deleting)
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
    problems = strict_problems(duplicates, _prune(write, obj))
    if not write.resource.custom:
        write.shape = checked_shape(write.resource, obj, None)
    judge_strictly(problems, write.options, write.warnings)
    return obj


def _prune(write: WriteRequest, obj: dict[str, Any]) -> list[str]:
    unknown = drop_unknown_fields(obj["metadata"])
    if not write.resource.custom and obj["metadata"].get("managedFields") == []:
        obj["metadata"]["managedFields"] = [{}]  # not null, which resets them as this does
    drop_empty(obj["metadata"])
    return write.resource.schema.prune(obj) + unknown


def _generate_name(write: WriteRequest, base: str) -> str:
    if not base:
        return ""
    for _ in range(NAME_ATTEMPTS):
        letters = (
            _NAME_LETTERS[int(write.engine.clock.random() * len(_NAME_LETTERS))]
            for _ in range(GENERATED_LENGTH)
        )
        name = base[:MAX_GENERATED_BASE] + "".join(letters)
        if write.engine.get(write.resource, write.target.namespace, name) is None:
            return name
    raise name_collision(write.resource, base)


# --- update -----------------------------------------------------------------------------------


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
            require_create(write)
            write.upserting = True
            return await create_object(write, obj)
        raise not_found(target.resource, target.name)
    uid = obj["metadata"].get("uid")
    if uid and uid != stored.uid:
        raise wrong_uid(target.resource, target.name, uid, stored.uid)
    _check_version(write, obj, stored)
    return await replace(write, stored, obj)


def _check_version(write: WriteRequest, obj: dict[str, Any], stored: Stored) -> None:
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
    if not part and resource.custom and resource.has_status:
        write.beside = {"status": obj.get("status")}
    _keep_other_parts(write, obj, old, part)
    restore_system_fields(obj, old)
    write.stored = stored
    await complete(write, obj, old, None if tracked else through or part)
    validate(write, obj, old, subresource=part)
    bump_generation(resource, obj, old, part, by_form=write.has_whole_floats)
    obj["metadata"]["resourceVersion"] = str(stored.version)
    kept = await kept_form(write, obj, old)
    if changes_nothing(kept.resource, stored, kept.obj, old):
        return write.answer(200, old)
    if not write.options.dry_run and engine.is_finished(resource, obj):
        engine.remove(resource.storage_key, stored.key)
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
    elif write.resource.has_status and part != "finalize":
        _set_or_drop(obj, "status", old.get("status"))


def _metadata_beside_status(
    write: WriteRequest, metadata: dict[str, Any], old: Mapping[str, Any]
) -> dict[str, Any]:
    """A built-in kind takes metadata from a write of its status, apart from what its strategy resets."""
    if write.resource.custom:
        return {**old, **{name: metadata[name] for name in _METADATA_OF_STATUS if name in metadata}}
    kept = write.engine.kinds.of(write.resource).status_keeps
    return {
        **{name: value for name, value in metadata.items() if name not in kept},
        **{name: old[name] for name in kept if name in old},
    }


def _set_or_drop(obj: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        obj.pop(name, None)
    else:
        obj[name] = value


# --- patch ------------------------------------------------------------------------------------


async def patch(engine: Engine, request: ApiRequest, target: RequestTarget) -> Response:
    kind = patch_type(request, target.resource)
    write = WriteRequest(engine, request, target, write_options(request, "PatchOptions"))
    return await write.warned(_apply(write) if kind == APPLY_PATCH else _patch(write, kind))


async def _patch(write: WriteRequest, kind: str) -> Response:
    write.patching = True
    stored = require(write.engine, write.target)
    obj = patched(write, object_in(stored, write.resource), kind)
    return await replace_patched(write, stored, obj)


def patched(write: WriteRequest, old: dict[str, Any], kind: str) -> dict[str, Any]:
    """The result of the patch in the body; may change `old`."""
    duplicates: list[str] = []
    body = parse_json(write.request.body, duplicates)
    _judge_patch(write, strict_problems(duplicates, ()))
    if kind == JSON_PATCH:
        made = check_depth(json_patch(old, body))
    elif kind == MERGE_PATCH:
        made = merge_into(old, _mapping(body))
    else:
        made = strategic_merge(old, _mapping(body), write.resource.schema)
        made |= {"apiVersion": write.resource.api_version, "kind": write.resource.kind}
    if not isinstance(made, dict):
        raise bad_request("the patch does not make an object")
    return made


def _mapping(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise bad_request("json: cannot unmarshal the patch: expected an object")
    return body


async def replace_patched(write: WriteRequest, stored: Stored, obj: dict[str, Any]) -> Response:
    """Write the result of a patch, with the checks for patches."""
    target = write.target
    with write.reading():
        _check_kept_type(write, obj)
        check_type(obj, target)
        unknown = _prune(write, obj)
        if not write.resource.custom:
            write.shape = checked_shape(write.resource, obj, None)
    place(obj, target)
    require_object_name(obj, target)
    warn_of_duplicate_owners(write, obj)
    _check_version(write, obj, stored)
    _judge_patch(write, strict_problems((), unknown))
    return await replace(write, stored, obj)


def _check_kept_type(write: WriteRequest, obj: dict[str, Any]) -> None:
    """422 if a patch changes the type of a custom resource."""
    resource = write.resource
    if not resource.custom:
        return
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    if not isinstance(kind, str) or not kind or not isinstance(api_version, str) or not api_version:
        raise bad_request("Object 'Kind' or 'apiVersion' is missing")
    if kind != resource.kind:
        details = {"name": write.target.name, "group": resource.group, "kind": str(kind)}
        cause = value_invalid("kind", kind, f"must be {resource.kind}")
        raise invalid_kind(f"{kind}.{resource.group}", write.target.name, [cause], details)
    if api_version != resource.api_version:
        cause = value_invalid("apiVersion", api_version, f"must be {resource.api_version}")
        raise invalid(resource, write.target.name, [cause])


def _judge_patch(write: WriteRequest, problems: list[str]) -> None:
    if problems and write.options.validation == "Strict":
        raise unreadable_patch(f"strict decoding error: {', '.join(problems)}")
    judge_strictly(problems, write.options, write.warnings)


# --- apply ------------------------------------------------------------------------------------


async def _apply(write: WriteRequest) -> Response:
    target, resource = write.target, write.resource
    stored = write.engine.get(resource, target.namespace, target.name)
    if stored is None and target.subresource:
        raise not_found(resource, target.name)
    intent = _read_intent(write, named=stored is not None)
    if stored is None and intent["metadata"].get("uid"):
        raise _missing_for_apply(write, intent)
    version = intent["metadata"].pop("resourceVersion", None)
    live = object_in(stored, resource) if stored is not None else None
    obj = applied(write, live, intent, target.subresource, _reset_by_apply(write))
    write.applying = True
    if stored is not None and version:
        _check_version(write, {"metadata": {"resourceVersion": version}}, stored)
    place(obj, target)
    require_object_name(obj, target)
    if not resource.custom:
        resource.schema.prune(obj)  # nulls of the intent, which managedFields name
    if stored is None:
        require_create(write)
        return await _create_applied(write, obj)
    return await replace(write, stored, obj, tracked=True)


def _reset_by_apply(write: WriteRequest) -> tuple[str, ...]:
    """What the strategy takes back from an apply (GetResetFields)."""
    resource = write.resource
    if write.target.subresource != "status":
        return ("status",) if resource.has_status and not write.target.subresource else ()
    if resource.custom:
        return ("metadata",)
    return tuple(f"metadata.{name}" for name in write.engine.kinds.of(resource).status_keeps)


def _missing_for_apply(write: WriteRequest, intent: Mapping[str, Any]) -> Exception:
    uid = intent["metadata"]["uid"]
    why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
    return conflict(write.resource, write.target.name, why)


def _read_intent(write: WriteRequest, *, named: bool) -> dict[str, Any]:
    """The object to apply; it may omit its name if it exists."""
    target = write.target
    duplicates: list[str] = []
    body = parse_yaml(write.request.body, duplicates)
    if (
        target.resource.custom
        and isinstance(body, dict)
        and body.get("kind") not in (None, target.resource.kind)
    ):
        raise bad_request(f"the kind in the data ({body['kind']}) is not {target.resource.kind}")
    intent = check_type(body, target)
    judge_strictly(strict_problems(duplicates, ()), write.options, write.warnings)
    if not named:
        place(intent, target)  # else what it conflicts with is told first
    metadata = intent["metadata"]
    if named:
        metadata.setdefault("name", target.name)
    else:
        require_object_name(intent, target)
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    return intent


async def _create_applied(write: WriteRequest, obj: dict[str, Any]) -> Response:
    metadata = obj["metadata"]
    require_place(write, metadata["name"])
    write.upserting = True
    await complete_new(write, obj, tracked=True)
    validate(write, obj, None)
    return await write.commit(201, await kept_form(write, obj, None))

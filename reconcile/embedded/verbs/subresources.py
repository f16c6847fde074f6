"""Subresources that are not just a part of their object: scale and binding."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from informers.transport import Response
from reconcile.embedded.admission.attributes import Kind
from reconcile.embedded.api import APPLY_PATCH, JSON_PATCH, ApiRequest, RequestTarget
from reconcile.embedded.engine import Engine
from reconcile.embedded.kubectl.printing import pick
from reconcile.embedded.log import Stored
from reconcile.embedded.ownership.managed_fields import disowned, is_owned
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.protocol.field_causes import value_invalid
from reconcile.embedded.refusals import (
    bad_request,
    bare_server_error,
    conflict,
    internal,
    invalid,
    stale,
    wrong_uid,
)
from reconcile.embedded.served import ScalePaths
from reconcile.embedded.stored_forms import object_in
from reconcile.embedded.verbs.admitting import admit_request, mutate_shown
from reconcile.embedded.verbs.apply_requests import applied
from reconcile.embedded.verbs.bodies import (
    parse_json,
    parse_yaml,
    patch_type,
    read_body,
    read_kind,
    write_options,
)
from reconcile.embedded.verbs.object_selection import require
from reconcile.embedded.verbs.patches import json_patch, merge_patch
from reconcile.embedded.verbs.rendering import SUCCESS, json_response
from reconcile.embedded.verbs.write_request import ShownForm, WriteRequest
from reconcile.embedded.verbs.writes import replace

_SCALE = Kind("autoscaling", "v1", "Scale")
_SCALE_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


# --- scale ------------------------------------------------------------------------------------


def get_scale(engine: Engine, request: ApiRequest, target: RequestTarget) -> Response:
    """GET the Scale of an object; 500 if its replicas are unset, as on the real server."""
    obj = object_in(require(engine, target), target.resource)
    paths = _paths(target)
    if _at(obj, paths.spec_replicas) is None:
        raise internal(f"the spec replicas field {paths.spec_replicas!r} does not exist")
    return json_response(200, _scale_of(obj, paths))


async def put_scale(engine: Engine, request: ApiRequest, target: RequestTarget) -> Response:
    """PUT a Scale: only its replicas count."""
    write = WriteRequest(engine, request, target, write_options(request, "UpdateOptions"))
    scale = read_body(request, [])
    _check_scale_types(scale)
    return await _write_scale(write, require(engine, target), scale)


async def patch_scale(engine: Engine, request: ApiRequest, target: RequestTarget) -> Response:
    """PATCH the Scale: only the resulting replicas count."""
    write = WriteRequest(engine, request, target, write_options(request, "PatchOptions"))
    kind = patch_type(request, target.resource)
    stored = require(engine, target)
    if kind == APPLY_PATCH:
        return await _apply_scale(write, stored)
    scale = _scale_of(object_in(stored, target.resource), _paths(target))
    body = parse_json(request.body)
    patched = json_patch(scale, body) if kind == JSON_PATCH else merge_patch(scale, body)
    write.patching = True
    return await _write_scale(write, stored, patched)


async def _apply_scale(write: WriteRequest, stored: Stored) -> Response:
    """Apply the one field for replicas, as a manager of the subresource scale."""
    target, resource, paths = write.target, write.resource, _paths(write.target)
    live = object_in(stored, resource)
    scale = parse_yaml(write.request.body, [])
    try:
        _check_scale(target, stored, scale, resource.custom)
    except ApiFailure as failure:
        if resource.custom and failure.code in (400, 422):
            raise bare_server_error(failure.message) from failure
        raise
    uid = (scale.get("metadata") or {}).get("uid")
    if uid and uid != stored.uid:
        raise wrong_uid(resource, target.name, uid, stored.uid)
    intent = {name: live[name] for name in ("apiVersion", "kind")}
    intent["metadata"] = {name: live["metadata"][name] for name in ("name", "namespace")}
    _put_at(intent, paths.spec_replicas, (scale.get("spec") or {}).get("replicas") or 0)
    write.form_shown = ShownForm(_SCALE, partial(_scale_of, paths=paths))
    obj = await applied(write, live, intent, "scale")
    if resource.custom:  # as on a real server, which finds conflicts and then fails
        raise bare_server_error(f"server-side apply of {resource.name}/scale is not supported")
    await replace(write, stored, obj, tracked=True, subresource="")
    return _scale_after(write, obj)


async def _write_scale(write: WriteRequest, stored: Stored, scale: Any) -> Response:
    target, paths = write.target, _paths(write.target)
    with write.reading():
        _check_scale_types(scale)
    obj = object_in(stored, target.resource)
    write.form_shown = ShownForm(_SCALE, partial(_scale_of, paths=paths))
    scale = await mutate_shown(write, _scale_sent(obj, scale, paths), _scale_of(obj, paths))
    with write.reading():
        _check_scale(target, stored, scale, target.resource.custom)
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    _put_at(obj, paths.spec_replicas, replicas)
    # As in ScaleHandler: it tracks what a manager owns, and begins no tracking. A Scale does not write 0,
    # which therefore has no owner.
    path = [f"f:{step}" for step in paths.spec_replicas.strip(".").split(".")]
    managed = obj["metadata"].get("managedFields")
    tracked = is_owned(managed, path)
    if tracked and not replicas and write.resource.custom:
        obj["metadata"]["managedFields"] = disowned(managed, path)
        tracked = False
    await replace(write, stored, obj, tracked=not tracked, subresource="", through="scale")
    return _scale_after(write, obj)


def _scale_sent(obj: Mapping[str, Any], scale: Mapping[str, Any], paths: ScalePaths) -> dict[str, Any]:
    """The Scale that a client sent, with what it left out."""
    before = _scale_of(obj, paths)
    metadata, replicas = scale.get("metadata") or {}, (scale.get("spec") or {}).get("replicas") or 0
    return {
        **before,
        "metadata": {**before["metadata"], **metadata},
        "spec": {"replicas": replicas} if replicas else {},
    }


def _check_scale_types(scale: Any) -> None:
    if not isinstance(scale, dict) or scale.get("kind") != "Scale":
        raise bad_request("the object provided is unrecognized (must be of type Scale)")
    metadata, spec = ({} if (part := scale.get(name)) is None else part for name in ("metadata", "spec"))
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise bad_request("json: cannot unmarshal the Scale: metadata and spec must be objects")
    replicas = spec.get("replicas") or 0
    if isinstance(replicas, bool) or not isinstance(replicas, int) or not -(2**31) <= replicas < 2**31:
        raise bad_request("json: cannot unmarshal spec.replicas: expected an integer")


def _check_scale(target: RequestTarget, stored: Stored, scale: Any, custom: bool) -> None:
    _check_scale_types(scale)
    metadata, spec = scale.get("metadata") or {}, scale.get("spec") or {}
    if metadata.get("name", target.name) != target.name:
        raise bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL")
    version = metadata.get("resourceVersion")
    if version and version != str(stored.version):
        raise stale(target.resource, target.name)
    replicas = spec.get("replicas") or 0
    if replicas < 0:
        why = "must be greater than or equal to 0"
        fields = (_paths(target).spec_replicas, "spec.replicas") if custom else ("spec.replicas",)
        causes = [value_invalid(field, replicas, why) for field in fields]
        raise invalid(target.resource, target.name, causes)


def _scale_after(write: WriteRequest, obj: dict[str, Any]) -> Response:
    target, removed = write.target, write.engine.is_finished(write.resource, obj)
    if write.stored is not None and not removed and not write.options.dry_run:
        obj = object_in(write.stored, target.resource)
    return json_response(200, _scale_of(obj, _paths(target)))


def _paths(target: RequestTarget) -> ScalePaths:
    paths = target.resource.scale
    assert paths is not None  # else /scale is not served
    return paths


def _scale_of(obj: Mapping[str, Any], paths: ScalePaths) -> dict[str, Any]:
    metadata = obj["metadata"]
    spec_replicas = _at(obj, paths.spec_replicas) or 0
    status: dict[str, Any] = {"replicas": _at(obj, paths.status_replicas) or 0}
    selector = _selector_text(_at(obj, paths.selector)) if paths.selector else ""
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in _SCALE_METADATA if name in metadata},
        "spec": {"replicas": spec_replicas} if spec_replicas else {},
        "status": status,
    }


def _selector_text(selector: Any) -> str:
    """Custom resources store text, built-in ones a label selector or, the oldest, plain labels."""
    if not isinstance(selector, Mapping):
        return selector if isinstance(selector, str) else ""
    if all(isinstance(value, str) for value in selector.values()):
        selector = {"matchLabels": selector}
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, operator = expression["key"], expression["operator"]
        values = ",".join(sorted(expression.get("values") or ()))
        match operator:
            case "In" | "NotIn":
                terms.append(f"{key} {operator.lower()} ({values})")
            case "Exists":
                terms.append(key)
            case _:
                terms.append(f"!{key}")
    return ",".join(sorted(terms))


def _at(obj: Mapping[str, Any], path: str) -> Any:
    return pick(obj, *path.strip(".").split("."))


def _put_at(obj: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.strip(".").split(".")
    for step in parents:
        child = obj.get(step)
        if not isinstance(child, dict):
            child = obj[step] = {}
        obj = child
    obj[last] = value


# --- binding ----------------------------------------------------------------------------------


async def bind(engine: Engine, request: ApiRequest, target: RequestTarget) -> Response:
    """POST pods/NAME/binding, as a scheduler does."""
    options = write_options(request, "CreateOptions")
    shown = {"kind": "Binding", "apiVersion": "v1", **read_kind(request, "Binding")}
    binding = await admit_request(engine, request, target, "CREATE", Kind("", "v1", "Binding"), shown)
    chosen = binding.get("target")
    node = chosen.get("name") if isinstance(chosen, dict) else None
    if not isinstance(node, str) or not node:
        raise bad_request("a binding needs target.name")
    stored = require(engine, target)
    pod = object_in(stored, target.resource)
    if stored.deleting:
        raise conflict(
            target.resource, target.name, f"pod {target.name} is being deleted, cannot be assigned to a host"
        )
    if pod["spec"].get("nodeName"):
        why = f'pod {target.name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        raise conflict(target.resource, target.name, why)
    if pod["spec"].get("schedulingGates"):
        why = f"pod {target.name} has non-empty .spec.schedulingGates"
        raise conflict(target.resource, target.name, why)
    pod["spec"]["nodeName"] = node
    _set_condition(pod, {"type": "PodScheduled", "status": "True", "lastTransitionTime": engine.now()})
    pod["metadata"]["generation"] = pod["metadata"].get("generation", 0) + 1
    if not options.dry_run:
        engine.put(target.resource, pod)
    return json_response(201, {**SUCCESS, "code": 201})


def _set_condition(obj: dict[str, Any], condition: dict[str, Any]) -> None:
    status = obj.setdefault("status", {})
    others = [one for one in status.get("conditions") or () if one.get("type") != condition["type"]]
    status["conditions"] = [*others, {"lastProbeTime": None, **condition}]

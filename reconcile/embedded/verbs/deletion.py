"""Deletion of one object or a collection: preconditions, finalizers, grace periods, propagation."""

import datetime
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from attrs import evolve, frozen

from informers.resource import Key
from informers.transport import Response
from reconcile.embedded.api import ApiRequest, RequestTarget, wanted_form
from reconcile.embedded.engine import Engine, timestamp
from reconcile.embedded.log import DEFINITIONS, NAMESPACES, Stored, StoredChange
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid, value_not_supported
from reconcile.embedded.protocol.request_info import flag
from reconcile.embedded.refusals import (
    bad_request,
    conflict,
    details_by_kind,
    details_of,
    forbidden,
    invalid_options,
    not_found,
    wrong_uid,
)
from reconcile.embedded.served import ServedResource
from reconcile.embedded.stored_forms import converted_now, encode, object_in, shown, shown_object
from reconcile.embedded.verbs.admitting import admit_deletion
from reconcile.embedded.verbs.bodies import dry_run_causes, read_body, warning_headers
from reconcile.embedded.verbs.object_selection import require, selection
from reconcile.embedded.verbs.reads import check_list_options, page_of
from reconcile.embedded.verbs.rendering import JSON, SUCCESS, json_response, render_list, render_object

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
# Those of kube-apiserver's NamespaceLifecycle admission; kube-node-lease is not among them.
IMMORTAL_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})
POLICIES = ("Background", "Foreground", "Orphan")
JOBS = ("batch", "jobs")
SERVICES = ("", "services")
ENDPOINTS = ("", "endpoints")
_ORPHANING = frozenset({JOBS, ("", "replicationcontrollers")})
_JOB_WARNING = (
    "the pods of a deleted job are kept by default; set propagationPolicy to Background to delete them, or "
    "to Orphan to keep them without this warning"
)

Propagation = Literal["Background", "Foreground", "Orphan"]


@frozen
class DeleteOptions:
    """How to delete an object; without `grace` its own grace period applies."""

    dry_run: bool = False
    grace: int | None = None
    propagation: Propagation | None = None
    uid: str = ""
    version: str = ""
    cascading: bool = False
    """The old orphanDependents=false: the answer is 202 if the object is not deleted at once."""
    orphaning: bool | None = None
    """orphanDependents, where it was used in place of a policy."""

    def document(self) -> dict[str, Any]:
        """The DeleteOptions as admission is shown them."""
        conditions = {"uid": self.uid, "resourceVersion": self.version}
        policy = self.propagation if self.orphaning is None else None
        made = {
            "gracePeriodSeconds": self.grace,
            "preconditions": {name: value for name, value in conditions.items() if value} or None,
            "orphanDependents": self.orphaning,
            "propagationPolicy": policy,
            "dryRun": ["All"] if self.dry_run else None,
        }
        sent = {name: value for name, value in made.items() if value is not None}
        return {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", **sent}


def delete_options(request: ApiRequest) -> DeleteOptions:
    """From the body, or from the query if there is none."""
    options = _from_body(request) if request.body.strip() else _from_query(request.query)
    causes: list[FieldCause] = []
    policy, orphan = options.get("propagationPolicy"), options.get("orphanDependents")
    if policy is not None and orphan is not None:
        why = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(value_invalid("propagationPolicy", policy, why))
    if policy is not None and policy not in POLICIES:
        causes.append(
            value_not_supported("propagationPolicy", policy, ("Foreground", "Background", "Orphan", ""))
        )
    dry_run = options.get("dryRun") or []
    causes += dry_run_causes(dry_run)
    if causes:
        raise invalid_options("DeleteOptions", causes)
    if policy is None and orphan is not None:
        policy = "Orphan" if orphan else "Background"
    conditions = options.get("preconditions") or {}
    grace = options.get("gracePeriodSeconds")
    return DeleteOptions(
        dry_run=bool(dry_run),
        # A negative period counts as a second (BeforeDelete in kube-apiserver's rest/delete.go).
        grace=None if grace is None else 1 if grace < 0 else grace,
        propagation=policy,
        uid=conditions.get("uid") or "",
        version=conditions.get("resourceVersion") or "",
        cascading=orphan is False,
        orphaning=orphan,
    )


def _from_body(request: ApiRequest) -> dict[str, Any]:
    options = read_body(request, [])
    if not isinstance(options, dict):
        raise bad_request("the object provided is unrecognized (must be of type DeleteOptions)")
    if options.get("kind", "DeleteOptions") != "DeleteOptions":
        raise bad_request(f"{options['kind']} cannot be handled as DeleteOptions")
    for name, fits in _OPTION_TYPES.items():
        value = options.get(name)
        if value is not None and not fits(value):
            raise bad_request(
                f"json: cannot unmarshal DeleteOptions.{name}: unexpected {type(value).__name__}"
            )
    return options


def _are_preconditions(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(value.get(name) or "", str) for name in ("uid", "resourceVersion")
    )


_OPTION_TYPES: Mapping[str, Callable[[object], bool]] = {
    "dryRun": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    "gracePeriodSeconds": lambda value: type(value) is int and -(2**63) <= value < 2**63,
    "orphanDependents": lambda value: isinstance(value, bool),
    "preconditions": _are_preconditions,
    "propagationPolicy": lambda value: isinstance(value, str),
}


def _from_query(query: Mapping[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if query.get("dryRun"):
        options["dryRun"] = [query["dryRun"]]
    if query.get("propagationPolicy"):
        options["propagationPolicy"] = query["propagationPolicy"]
    if "orphanDependents" in query:
        options["orphanDependents"] = flag(query, "orphanDependents")
    if query.get("gracePeriodSeconds"):
        try:
            options["gracePeriodSeconds"] = int(query["gracePeriodSeconds"])
        except ValueError as error:
            raise bad_request(f"gracePeriodSeconds: {error}") from error
    return options


# --- one object -------------------------------------------------------------------------------


async def delete(engine: Engine, request: ApiRequest, target: RequestTarget) -> Response:
    """DELETE an object: it is removed, or marked as terminating while finalizers or grace hold it."""
    resource = target.resource
    form = wanted_form(request, resource, listing=False)
    options = delete_options(request)
    found = require(engine, target)
    if resource.storage_key == NAMESPACES and target.name in IMMORTAL_NAMESPACES:
        raise forbidden(resource, target.name, "this namespace may not be deleted")
    warnings: list[str] = []
    stored = await _admitted(engine, request, resource, found, options, warnings)
    if stored is None:
        raise not_found(resource, target.name)
    if resource.storage_key == JOBS and options.propagation is None:
        warnings.append(_JOB_WARNING)
    headers = {"content-type": JSON, **warning_headers(warnings)}
    obj, gone = remove(engine, _keeper(resource, stored), stored, _with_default(resource, stored, options))
    if gone and not resource.answers_object_on_delete:
        details = details_of(resource, target.name) | {"uid": stored.uid}
        return json_response(200, {**SUCCESS, "details": details}, headers)
    if resource.conversion is not None:
        obj = await shown_object(resource, obj)
    version = obj["metadata"].get("resourceVersion", "")
    body = render_object(engine.table, resource, encode(obj), form, version)
    return Response(202 if options.cascading and not gone else 200, headers, body)


def _keeper(resource: ServedResource, stored: Stored) -> ServedResource:
    """The version to mark a deletion in, which must not need a converter."""
    return resource if resource.conversion is None else stored.encoded_by


def _with_default(resource: ServedResource, stored: Stored, options: DeleteOptions) -> DeleteOptions:
    # These keep the default of their first version, for compatibility (DefaultGarbageCollectionPolicy).
    decided = options.propagation is not None or {ORPHAN, FOREGROUND} & set(stored.finalizers)
    if decided or resource.storage_key not in _ORPHANING:
        return options
    return evolve(options, propagation="Orphan")


async def _admitted(
    engine: Engine,
    request: ApiRequest,
    resource: ServedResource,
    stored: Stored,
    options: DeleteOptions,
    warnings: list[str],
    *,
    named: bool = True,
) -> Stored | None:
    """The newest state once admission allows its deletion; None if it was deleted meanwhile.

    `warnings` receives those of admission. With `named` it is shown the name, as of all deletions but those
    of a collection.
    """
    waits = bool(engine.admission) or engine.phases.mutates or engine.phases.validates
    if not waits and resource.conversion is None:
        return stored
    uid = stored.uid
    while True:  # one turn for each state that admission has to see
        old = msgspec.json.decode(await converted_now(stored, resource))
        if waits:
            _check_preconditions(resource, stored, options)
            asked = options.document()
            warnings += await admit_deletion(engine, request, resource, old, asked, named=named)
        newest = engine.log.get(resource.storage_key, stored.key)
        if newest is stored:
            return stored
        if newest is None or newest.uid != uid:
            return None
        stored = newest


def remove(
    engine: Engine, resource: ServedResource, stored: Stored, options: DeleteOptions
) -> tuple[dict[str, Any], bool]:
    """Delete, as far as finalizers and grace allow; returns the object, and whether it is gone."""
    _check_preconditions(resource, stored, options)
    old = object_in(stored, resource)
    obj = object_in(stored, resource)
    _add_finalizers(resource, obj, options)
    grace = _grace_period(resource, obj, options)
    held = bool(obj["metadata"].get("finalizers")) or grace > 0
    held = held or (resource.storage_key == NAMESPACES and bool((obj.get("spec") or {}).get("finalizers")))
    if not held:
        return _removed(engine, resource, obj, stored, options), True
    _mark(engine, resource, obj, grace)
    if obj != old and not options.dry_run:
        engine.put(resource, obj)
    return obj, False


def _removed(
    engine: Engine, resource: ServedResource, obj: dict[str, Any], stored: Stored, options: DeleteOptions
) -> dict[str, Any]:
    """The object after its removal, with the version of that; a Pod is marked first, as on a real server."""
    if is_graceful(resource):
        _mark(engine, resource, obj, 0)
    if options.dry_run:
        return obj
    if is_graceful(resource):
        engine.put(resource, obj)
    change = remove_finished(engine, resource, stored.key)
    obj["metadata"]["resourceVersion"] = str(change.version)
    return obj


def remove_finished(engine: Engine, resource: ServedResource, key: Key) -> StoredChange:
    """Remove what nothing holds any longer, and with a Service its Endpoints (afterDelete of its storage)."""
    change = engine.remove(resource.storage_key, key)
    endpoints = engine.log.get(ENDPOINTS, key) if resource.storage_key == SERVICES else None
    if endpoints is not None:
        remove(engine, endpoints.encoded_by, endpoints, DeleteOptions())
    return change


def is_graceful(resource: ServedResource) -> bool:
    """Whether a grace period counts (RESTGracefulDeleteStrategy)."""
    return (resource.group, resource.kind) == ("", "Pod")


def _check_preconditions(resource: ServedResource, stored: Stored, options: DeleteOptions) -> None:
    name = stored.key.name
    if options.uid and options.uid != stored.uid:
        failure = wrong_uid(resource, name, options.uid, stored.uid)
    elif options.version and options.version != str(stored.version):
        why = (
            f"Precondition failed: ResourceVersion in precondition: {options.version}, "
            f"ResourceVersion in object meta: {stored.version}"
        )
        failure = conflict(resource, name, why)
    else:
        return
    raise evolve(failure, details=details_by_kind(resource, name))


def _add_finalizers(resource: ServedResource, obj: dict[str, Any], options: DeleteOptions) -> None:
    metadata = obj["metadata"]
    finalizers = list(metadata.get("finalizers") or ())
    if options.propagation is not None:
        wanted = {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(options.propagation)
        finalizers = [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
        if wanted:
            finalizers.append(wanted)
    if resource.storage_key == DEFINITIONS and not metadata.get("deletionTimestamp"):
        finalizers.append(CLEANUP)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _grace_period(resource: ServedResource, obj: Mapping[str, Any], options: DeleteOptions) -> int:
    """Seconds for which the object stays: 0 except for pods that run on a node."""
    spec = obj.get("spec") or {}
    if not is_graceful(resource) or not spec.get("nodeName"):
        return 0
    if (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    default = spec.get("terminationGracePeriodSeconds")
    grace: int = options.grace if options.grace is not None else 30 if default is None else default
    running = obj["metadata"].get("deletionGracePeriodSeconds")
    return grace if running is None else min(grace, running)


def _mark(engine: Engine, resource: ServedResource, obj: dict[str, Any], grace: int) -> None:
    metadata = obj["metadata"]
    marked = metadata.get("deletionTimestamp")
    if marked and metadata.get("deletionGracePeriodSeconds", 0) <= grace:
        return
    due = engine.clock.now() + datetime.timedelta(seconds=grace)
    metadata["deletionTimestamp"] = timestamp(due)
    metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation") and not marked:
        metadata["generation"] += 1
    if resource.storage_key == NAMESPACES:
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}


# --- a collection -----------------------------------------------------------------------------


async def delete_collection(engine: Engine, request: ApiRequest, target: RequestTarget) -> Response:
    """DELETE the selected objects one by one; answers with what was there."""
    resource = target.resource
    check_list_options(request.query)
    chosen = selection(resource, target.namespace, request.query)
    page = page_of(engine, request, target, chosen)
    options = delete_options(request)
    form = wanted_form(request, resource, listing=True)
    warnings: list[str] = []
    for stored in page.items:
        await shown(stored, resource)
    for stored in page.items:
        now = engine.log.get(resource.storage_key, stored.key)
        if now is not None and now.uid == stored.uid:
            now = await _admitted(engine, request, resource, now, options, warnings, named=False)
        if now is not None and now.uid == stored.uid:
            remove(engine, _keeper(resource, now), now, _with_default(resource, now, options))
    body = render_list(engine.table, resource, page.items, page.metadata(resource.custom), form)
    return Response(200, {"content-type": JSON, **warning_headers(warnings)}, body)

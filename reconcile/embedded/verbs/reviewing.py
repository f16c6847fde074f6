"""POST of reviews and of token requests."""

from typing import Any

from informers.transport import Response
from reconcile.embedded.admission.attributes import Kind
from reconcile.embedded.api import ApiRequest, RequestTarget
from reconcile.embedded.auth.subject_reviews import AccessReviewer
from reconcile.embedded.auth.tokens import ISSUER
from reconcile.embedded.engine import Engine, timestamp
from reconcile.embedded.protocol.field_causes import value_invalid
from reconcile.embedded.refusals import bad_request, conflict, invalid, invalid_kind
from reconcile.embedded.verbs.admitting import admit_request
from reconcile.embedded.verbs.bodies import check_type, place, read_body, read_kind, write_options
from reconcile.embedded.verbs.object_selection import require
from reconcile.embedded.verbs.rendering import json_response
from reconcile.embedded.verbs.validation import checked_shape

# Bounds and default of a TokenRequest in pkg/apis/authentication.
MIN_SECONDS = 600
MAX_SECONDS = 1 << 32

_TOKEN_GROUP = "authentication.k8s.io"
_DEFAULT_SECONDS = 3600
# The status of a review before it is decided, as Go writes it.
_UNDECIDED: dict[str, Any] = {"allowed": False}
_NO_STATUS: dict[str, dict[str, Any]] = {
    "SelfSubjectReview": {"userInfo": {}},
    "SelfSubjectRulesReview": {"resourceRules": None, "nonResourceRules": None, "incomplete": False},
    "TokenReview": {"user": {}},
}
_BINDABLE = {"Pod": "pods", "Secret": "secrets"}


async def review(engine: Engine, request: ApiRequest, target: RequestTarget) -> Response:
    """POST a review: answers with the same object and its status."""
    write_options(request, "CreateOptions")
    resource = target.resource
    reviewer = AccessReviewer(engine.access, engine.tokens)
    obj = _checked(read_body(request, []), target, reviewer)
    shown = {**obj, "status": obj.get("status") or _NO_STATUS.get(resource.kind, _UNDECIDED)}
    obj = await admit_request(engine, request, target, "CREATE", Kind.of(resource), shown)
    if obj is not shown:
        obj = _checked(obj, target, reviewer)
    obj["status"] = reviewer.status(resource.kind, request.user, obj.get("spec") or {})
    return json_response(201, obj)


def _checked(sent: Any, target: RequestTarget, reviewer: AccessReviewer) -> dict[str, Any]:
    """The review. Raises ApiFailure if it is none, or not valid."""
    resource = target.resource
    obj = check_type(sent, target)
    place(obj, target)
    resource.schema.prune(obj)
    checked_shape(resource, obj, None)
    if causes := reviewer.faults(resource.kind, obj.get("spec") or {}, target.namespace):
        raise invalid(resource, "", causes)
    return obj


# --- serviceaccounts/token --------------------------------------------------------------------


async def request_token(engine: Engine, request: ApiRequest, target: RequestTarget) -> Response:
    """POST serviceaccounts/NAME/token: answers with a TokenRequest that has the token."""
    options = write_options(request, "CreateOptions")
    asked = {"kind": "TokenRequest", "apiVersion": f"{_TOKEN_GROUP}/v1", **read_kind(request, "TokenRequest")}
    kind = Kind(_TOKEN_GROUP, "v1", "TokenRequest")
    spec = (await admit_request(engine, request, target, "CREATE", kind, asked)).get("spec") or {}
    seconds, audiences, bound = _checked_spec(spec)
    stored = require(engine, target)
    if bound:
        bound = _bound_object(engine, target, bound)
    token, expires = "", engine.clock.now()
    if not options.dry_run:
        token, expires = engine.tokens.issue(
            target.namespace, target.name, stored.uid, audiences, seconds, bound
        )
    answer = {
        "kind": "TokenRequest",
        "apiVersion": f"{_TOKEN_GROUP}/v1",
        "metadata": {
            "name": target.name,
            "namespace": target.namespace,
            "creationTimestamp": engine.now(),
        },
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": spec.get("boundObjectRef"),
        },
        "status": {"token": token, "expirationTimestamp": timestamp(expires)},
    }
    return json_response(201, answer)


def _checked_spec(spec: Any) -> tuple[int, list[str], dict[str, Any]]:
    if not isinstance(spec, dict):
        raise bad_request("json: cannot unmarshal spec: expected an object")
    seconds = spec.get("expirationSeconds")
    seconds = _DEFAULT_SECONDS if seconds is None else seconds
    audiences, bound = spec.get("audiences") or [ISSUER], spec.get("boundObjectRef") or {}
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        raise bad_request("json: cannot unmarshal spec.expirationSeconds: expected an integer")
    if not isinstance(audiences, list) or not all(isinstance(one, str) for one in audiences):
        raise bad_request("json: cannot unmarshal spec.audiences: expected a list of strings")
    if not isinstance(bound, dict) or not all(isinstance(value, str) for value in bound.values()):
        raise bad_request("json: cannot unmarshal spec.boundObjectRef: expected an object")
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        limit = "less than 10 minutes" if seconds < MIN_SECONDS else "larger than 2^32 seconds"
        why = f"may not specify a duration {limit}"
        cause = value_invalid("spec.expirationSeconds", seconds, why)
        details = {"group": _TOKEN_GROUP, "kind": "TokenRequest"}
        raise invalid_kind(f"TokenRequest.{_TOKEN_GROUP}", "", [cause], details)
    return seconds, audiences, bound


def _bound_object(engine: Engine, target: RequestTarget, reference: dict[str, Any]) -> dict[str, Any]:
    kind, name = reference.get("kind", ""), reference.get("name", "")
    plural = _BINDABLE.get(kind)
    if plural is None:
        raise bad_request(f"cannot bind token to object of type {reference.get('apiVersion', '')} {kind}")
    resource = engine.registry.get("", "v1", plural)
    assert resource is not None  # both are always served
    stored = require(engine, RequestTarget(resource, target.namespace, name))
    if reference.get("uid", stored.uid) != stored.uid:
        why = f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record"
        raise conflict(resource, name, why)
    return {"kind": kind, "name": name, "uid": stored.uid}

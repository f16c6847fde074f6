"""AdmissionReviews: what an admission webhook is sent, and how its answer is read.

The rules and texts are those of apiserver's webhook/request package.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from attrs import frozen

from reconcile.embedded.admission.attributes import AdmissionAttributes, Kind
from reconcile.embedded.admission.request_matching import MatchedResource
from reconcile.embedded.auth import User
from reconcile.embedded.protocol.base64_faults import base64_fault
from reconcile.embedded.served import ServedResource

VERSIONS: Final = ("v1", "v1beta1")
"""The versions of reviews that the server knows."""

_GROUP: Final = "admission.k8s.io"
_KIND: Final = "AdmissionReview"


class UnreadableAnswer(Exception):
    """The answer is no review at all: the call has failed."""


class InvalidAnswer(Exception):
    """The answer is a review that breaks a rule."""


# --- the request --------------------------------------------------------------------------------


def review_version(accepted: Sequence[str]) -> str:
    """The first version that a webhook accepts and the server knows; stored webhooks have one."""
    return next((version for version in accepted if version in VERSIONS), VERSIONS[0])


def review_of(
    attributes: AdmissionAttributes,
    matched: MatchedResource,
    obj: Mapping[str, Any] | None,
    old: Mapping[str, Any] | None,
    version: str,
    uid: str,
) -> bytes:
    """The body of a call; `obj` and `old` are in the version that the webhook matched."""
    request = {"uid": uid} | request_of(attributes, matched)
    request |= {"object": obj, "oldObject": old, "options": attributes.options}
    review = {"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "request": request}
    return msgspec.json.encode(review)


def request_of(attributes: AdmissionAttributes, matched: MatchedResource) -> dict[str, Any]:
    """The request of a review without its objects, and without what is empty."""
    made = {
        "kind": _kind(matched.kind),
        "resource": _resource(matched.resource),
        "subResource": attributes.subresource,
        "requestKind": _kind(attributes.kind),
        "requestResource": _resource(attributes.resource),
        "requestSubResource": attributes.subresource,
        "name": attributes.name,
        "namespace": attributes.namespace,
        "operation": attributes.operation,
        "userInfo": _user(attributes.user),
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    return {name: value for name, value in made.items() if value not in ("", None)}


def _kind(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(resource: ServedResource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _user(user: User) -> dict[str, Any]:
    who = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {name: list(values) for name, values in user.extra.items()},
    }
    return {name: value for name, value in who.items() if value}


# --- the answer ---------------------------------------------------------------------------------


class StatusCause(msgspec.Struct):
    reason: str | None = None
    message: str | None = None
    field: str | None = None


class StatusDetails(msgspec.Struct, rename="camel"):
    name: str | None = None
    group: str | None = None
    kind: str | None = None
    uid: str | None = None
    causes: list[StatusCause] | None = None
    retry_after_seconds: int | None = None


class StatusMeta(msgspec.Struct, rename="camel"):
    self_link: str | None = None
    resource_version: str | None = None
    remaining_item_count: int | None = None


class Status(msgspec.Struct):
    """The `status` of a refusal, as far as it counts."""

    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: StatusDetails | None = None
    metadata: StatusMeta | None = None


class _Response(msgspec.Struct, rename="camel"):
    uid: str | None = None
    allowed: bool | None = None
    status: Status | None = None
    patch: str | None = None
    patch_type: str | None = None
    audit_annotations: dict[str, str | None] | None = None
    warnings: list[str | None] | None = None


class _Review(msgspec.Struct, rename="camel"):
    kind: str | None = None
    api_version: str | None = None
    response: _Response | None = None


@frozen
class Answer:
    """What a webhook decided."""

    allowed: bool
    status: Status | None
    patch: bytes
    """A JSON patch; empty without one."""
    patch_type: str
    warnings: Sequence[str]


_DECODER: Final = msgspec.json.Decoder(_Review)


def read_answer(body: bytes, version: str, uid: str, *, mutating: bool) -> Answer:
    """The answer to a review of this version and uid. Raises UnreadableAnswer or InvalidAnswer."""
    try:
        review = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableAnswer(f"couldn't get version/kind; json parse error: {error}") from None
    kind, api_version, expected = review.kind or "", review.api_version or "", f"{_GROUP}/{version}"
    if (kind and kind != _KIND) or (api_version and api_version != expected):
        raise UnreadableAnswer(f'no kind "{kind}" is registered for version "{api_version}" in scheme')
    if review.response is None:
        raise InvalidAnswer("webhook response was absent")
    patch = _patch_of(review.response)
    if version == "v1":
        _check(review.response, patch, uid, Kind(*_group_version(api_version), kind), mutating=mutating)
    patch_type = review.response.patch_type if version == "v1" else "JSONPatch"
    return Answer(
        bool(review.response.allowed),
        review.response.status,
        patch if mutating else b"",
        patch_type or "",
        [text or "" for text in review.response.warnings or ()],
    )


def _group_version(api_version: str) -> tuple[str, str]:
    group, _, version = api_version.rpartition("/")
    return group, version


def _patch_of(response: _Response) -> bytes:
    text = response.patch or ""
    if fault := base64_fault(text):
        raise UnreadableAnswer(fault)
    return base64.b64decode(text)


def _check(response: _Response, patch: bytes, uid: str, kind: Kind, *, mutating: bool) -> None:
    """The rules of v1, which v1beta1 did not have."""
    if (response.uid or "") != uid:
        raise InvalidAnswer(f'expected response.uid="{uid}", got "{response.uid or ""}"')
    expected = Kind(_GROUP, "v1", _KIND)
    if kind != expected:
        raise InvalidAnswer(f"expected webhook response of {expected}, got {kind}")
    typed = response.patch_type is not None
    if not mutating:
        for returned, field in ((bool(patch), "patch"), (typed, "patchType")):
            if returned:
                raise InvalidAnswer(f"validating webhook may not return response.{field}")
    elif patch and not typed:
        raise InvalidAnswer("webhook returned response.patch but not response.patchType")
    elif typed and not patch:
        raise InvalidAnswer("webhook returned response.patchType but not response.patch")
    elif typed and not response.patch_type:
        raise InvalidAnswer('webhook returned invalid response.patchType of ""')

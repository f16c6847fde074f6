"""AdmissionReview (admission.k8s.io/v1): what an API server posts to a webhook, and reads of its answer."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from reconcile.client.json_patch import json_patch
from reconcile.controller.admission import AdmissionRequest, Operation, Refusal, UserInfo

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
MAX_WARNING: Final = 256
"""Characters; an API server cuts each to this once all of them together exceed 4,096."""


class ReviewError(ValueError):
    """A body that is not a review; the text says what was expected and has nothing of its values."""


class GroupKind(msgspec.Struct, frozen=True):
    """The kind of the object under review."""

    group: str = ""
    version: str = ""
    kind: str = ""


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = ()
    extra: dict[str, tuple[str, ...]] | None = None


class ReviewedWrite(msgspec.Struct, rename="camel"):
    """The request of a review."""

    uid: str
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    kind: GroupKind = GroupKind()
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: _User = msgspec.field(default_factory=_User)
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool | None = None

    def for_author(self) -> AdmissionRequest:
        """What the functions of an author get of it."""
        user = self.user_info
        operation: Operation = "UPDATE" if self.operation == "CONNECT" else self.operation
        return AdmissionRequest(
            operation,
            UserInfo(user.username, user.uid, user.groups or (), user.extra or {}),
            self.namespace,
            self.name,
            self.sub_resource,
            bool(self.dry_run),
        )


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: ReviewedWrite | None = None


_decoder = msgspec.json.Decoder(_Review)


def read_review(body: bytes) -> ReviewedWrite:
    """The request of a review. Raises ReviewError."""
    try:
        review = _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        # The message of a ValidationError names a path and types; that of malformed JSON an offset.
        raise ReviewError(f"expected an {KIND} of {API_VERSION}: {error}") from None
    if review.api_version != API_VERSION or review.kind != KIND:
        raise ReviewError(f"expected an {KIND} of {API_VERSION}: apiVersion or kind is another")
    if review.request is None or not review.request.uid:
        raise ReviewError(f"expected an {KIND} with a request that has a uid")
    if review.request.operation == "CONNECT":
        raise ReviewError("expected the operation CREATE, UPDATE or DELETE, got CONNECT")
    return review.request


# --- answers ----------------------------------------------------------------------------------------


def allowed(uid: str, before: Any = None, after: Any = None, warnings: Iterable[str] = ()) -> bytes:
    """The write may go on, with the changes from `before` to `after`."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if operations := json_patch(before, after):
        response |= {"patchType": "JSONPatch", "patch": _base64(operations)}
    return _answer(response, warnings)


def refused(write: ReviewedWrite, refusals: Iterable[Refusal], warnings: Iterable[str] = ()) -> bytes:
    """The write fails with 422 Invalid, and a cause for each refusal, as for a schema."""
    refusals = list(refusals)
    name = write.name or _name_of(write.object or write.old_object or {})
    texts = [
        f"{refusal.field}: {refusal.message}" if refusal.field else refusal.message for refusal in refusals
    ]
    kind, group = write.kind.kind, write.kind.group
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    status = {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": f'{kind}{"." if group else ""}{group} "{name}" is invalid: {listed}',
        "details": {
            "name": name,
            "group": group,
            "kind": kind,
            "causes": [
                {"reason": "FieldValueInvalid", "message": refusal.message, "field": refusal.field}
                for refusal in refusals
            ],
        },
    }
    return _answer({"uid": write.uid, "allowed": False, "status": status}, warnings)


def _name_of(obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata")
    return (
        str(metadata.get("name") or metadata.get("generateName") or "") if isinstance(metadata, dict) else ""
    )


def _base64(operations: list[dict[str, Any]]) -> str:
    encoded: str = msgspec.to_builtins(msgspec.json.encode(operations))
    return encoded


def _answer(response: dict[str, Any], warnings: Iterable[str]) -> bytes:
    texts = list(dict.fromkeys(line for text in warnings if (line := _one_line(text))))
    if texts:
        response["warnings"] = texts
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _one_line(text: str) -> str:
    """A warning as API servers pass it on: they drop one with a line break or a control character."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= MAX_WARNING else f"{line[: MAX_WARNING - 1]}…"

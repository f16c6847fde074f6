"""AdmissionReview (admission.k8s.io/v1): what an API server posts to a webhook, and reads of its answer."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from reconcile.client.json_patch import json_patch
from reconcile.controller.admission import AdmissionRequest, Operation, Refusal, UserInfo
from reconcile.webhooks.reviews import Review, Uid, read_request

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
MAX_WARNING: Final = 256
"""Characters; an API server cuts each to this once all of them together exceed 4,096."""


class GroupKind(msgspec.Struct, frozen=True):
    """The kind of the object under review."""

    group: str = ""
    version: str = ""
    kind: str = ""


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = ()
    extra: dict[str, tuple[str, ...] | None] | None = None


class ReviewedWrite(msgspec.Struct, rename="camel"):
    """The request of a review."""

    uid: Uid
    operation: Operation
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
        return AdmissionRequest(
            self.operation,
            UserInfo(
                user.username,
                user.uid,
                user.groups or (),
                {name: values or () for name, values in (user.extra or {}).items()},
            ),
            self.namespace,
            self.name,
            self.sub_resource,
            bool(self.dry_run),
        )


_decoder = msgspec.json.Decoder(Review[ReviewedWrite])


def read_review(body: bytes) -> ReviewedWrite:
    """The request of a review. Raises ReviewError."""
    return read_request(_decoder, API_VERSION, KIND, body)


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

"""Calls the functions of an Admission for one review. Pure: bytes in, bytes out."""

from collections.abc import Mapping
from typing import Any, Final

from reconcile.client.diff import overlaid, same
from reconcile.controller.admission import Admission, Refusal, Warn
from reconcile.models import DecodeError, Object
from reconcile.models.codec import decode_parsed, encode_body, encode_with
from reconcile.models.writing import SharedJson
from reconcile.webhooks.admission_reviews import ReviewedWrite, allowed, read_review, refused

_IDENTITY: Final = ("name", "generateName", "namespace", "uid")
_SIGNIFICANT_METADATA: Final = ("labels", "annotations")
"""Any other change of metadata must always be possible: finalizers, owner references, managed fields."""


class FunctionError(Exception):
    """A function of an author raised, or returned what it must not; its text has nothing of the object."""


def admit_defaults(admission: Admission[Any], body: bytes) -> bytes:
    """The answer to a review for `defaults`: a patch by difference.

    An object that does not decode is left as it is: the checks of the server, which come later, refuse it
    with the right paths. Raises ReviewError, FunctionError.
    """
    write = read_review(body)
    if admission.defaults is None or write.object is None or write.operation == "DELETE":
        return allowed(write.uid)
    try:
        obj = decode_parsed(admission.kind, write.object)
    except DecodeError:
        return allowed(write.uid)
    try:
        result = admission.defaults(obj, write.for_author())
    except (Exception, SystemExit) as error:
        raise FunctionError(f"{admission}: defaults= raised {type(error).__name__}") from error
    if result is obj:
        return allowed(write.uid)
    if type(result) is not type(obj):
        got = type(result).__name__
        raise FunctionError(f"{admission}: defaults= expected to return a {type(obj).__name__}, got {got}")
    # Metadata takes long to write, and a function rarely changes it.
    encoded = encode_body if result.metadata is obj.metadata else encode_with
    shared = SharedJson()
    before, after = encoded(obj, shared), encoded(result, shared)
    _check_result(admission, before, after)
    return allowed(write.uid, write.object, overlaid(before, after, write.object))


def _check_result(admission: Admission[Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    for name in _IDENTITY:
        if before.get("metadata", {}).get(name) != after.get("metadata", {}).get(name):
            raise FunctionError(f"{admission}: defaults= must not change metadata.{name}")
    if not same(before.get("status"), after.get("status")):
        raise FunctionError(f"{admission}: defaults= must not change the status")


def admit_refuses(admission: Admission[Any], body: bytes) -> bytes:
    """The answer to a review for `refuses`. Raises ReviewError, FunctionError."""
    write = read_review(body)
    if admission.refuses is None or write.operation not in admission.operations or is_no_op(write):
        return allowed(write.uid)
    try:
        old = None if write.old_object is None else decode_parsed(admission.kind, write.old_object)
    except DecodeError:
        old = None  # stored under older rules, and to be mended by this write
    try:
        obj = old if write.operation == "DELETE" else decode_parsed(admission.kind, write.object or {})
    except DecodeError as error:
        return refused(
            write, [Refusal(fault.problem, fault.path.removeprefix(".")) for fault in error.errors]
        )
    if obj is None:
        return allowed(write.uid)
    refusals, warnings = _verdict(admission, obj, old, write)
    return refused(write, refusals, warnings) if refusals else allowed(write.uid, warnings=warnings)


def _verdict(
    admission: Admission[Any], obj: Object, old: Object | None, write: ReviewedWrite
) -> tuple[list[Refusal], list[str]]:
    assert admission.refuses is not None
    try:
        verdicts: list[object] = list(admission.refuses(obj, old, write.for_author()))
    except (Exception, SystemExit) as error:
        raise FunctionError(f"{admission}: refuses= raised {type(error).__name__}") from error
    for verdict in verdicts:
        if not isinstance(verdict, Refusal | Warn):
            got = type(verdict).__name__
            raise FunctionError(f"{admission}: refuses= expected a Refusal or a Warn, got {got}")
    refusals = [verdict for verdict in verdicts if isinstance(verdict, Refusal)]
    return refusals, [verdict.text for verdict in verdicts if isinstance(verdict, Warn)]


def is_no_op(write: ReviewedWrite) -> bool:
    """Whether an update changes nothing that an author may judge, as when a finalizer is removed."""
    if write.operation != "UPDATE" or write.object is None or write.old_object is None:
        return False
    return same(_judged(write.object), _judged(write.old_object))


def _judged(obj: Mapping[str, Any]) -> dict[str, Any]:
    metadata = obj.get("metadata")
    kept = metadata if isinstance(metadata, Mapping) else {}
    judged = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
    return {**judged, "metadata": {name: kept.get(name) or {} for name in _SIGNIFICANT_METADATA}}

"""Check an object against the rules of metadata, its schema and its kind."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.base64_faults import base64_fault
from reconcile.embedded.protocol.field_causes import value_invalid
from reconcile.embedded.protocol.object_metadata import check, check_change
from reconcile.embedded.refusals import bad_request, invalid
from reconcile.embedded.schema.json_values import holds_whole_floats, whole_numbers
from reconcile.embedded.served import ServedResource
from reconcile.embedded.verbs.write_request import WriteRequest

# A table, since it is three times as fast as `\d[.eE]`, for which most bodies are searched in vain.
_SHAPE_OF_NUMBERS: Final = bytes.maketrans(b"123456789eE", b"000000000..")
_NO_BYTES: Final = re.compile(
    r'Invalid value: ("(?:[^"\\]|\\.)*+"): .* in body must be of type byte: \1', re.DOTALL
)
"""The message for a text that is not base64."""
_TYPE_FAULT = "FieldValueTypeInvalid"
_MISSING = "FieldValueRequired"


def validate(
    write: WriteRequest, obj: dict[str, Any], old: dict[str, Any] | None, *, subresource: str = ""
) -> None:
    """Refuse an object that breaks a rule of metadata, its schema or its kind."""
    resource = write.resource
    kind = write.engine.kinds.of(resource)
    times = 1 if old is None else kind.metadata_fault_copies
    if subresource == "status":
        times = min(times, 3)  # the checks of the whole object, which repeat them in some kinds, are left out
    causes, warnings = check(obj["metadata"], kind.check_name, custom=resource.custom, times=times)
    if old is not None:
        causes += check_change(obj["metadata"], old["metadata"], kind.change_fault_copies)
    if resource.custom:
        causes += _scale_causes(obj, resource) + resource.schema.validate(obj, old)
    elif subresource == "status":
        causes += kind.status_checks(obj, old)
    elif old is not None and subresource in kind.parts:
        causes += kind.parts[subresource].checks(obj, old)
    else:
        with write.reading():
            causes += kind.checks(obj, old)
        named = {cause.field for cause in causes}
        missing = () if kind.names_missing_fields else write.shape or ()
        causes += [cause for cause in missing if cause.field not in named]
    if causes:
        raise invalid(resource, obj["metadata"].get("name", ""), causes)
    write.warnings.extend(warnings)
    if resource.custom and b"0." in write.request.body.translate(_SHAPE_OF_NUMBERS):
        write.has_whole_floats = holds_whole_floats(obj)
        whole_numbers(obj)
    warn = kind.status_warnings if subresource == "status" else kind.warnings
    write.warnings.extend(warn(obj, old))


def checked_shape(
    resource: ServedResource, obj: dict[str, Any], old: dict[str, Any] | None
) -> list[FieldCause]:
    """The missing fields of a built-in kind. Raises ApiFailure (400) for fields of a wrong type.

    What Go cannot decode is of a wrong type too, as a number that is out of the range of its field.
    """
    causes = resource.schema.validate(obj, old)
    fault = _unreadable(resource, causes)
    if fault.startswith("illegal base64"):
        kind = resource.kind
        raise bad_request(f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {fault}')
    if fault:
        raise bad_request(fault)
    return [cause for cause in causes if not cause.field.startswith("status")]


def decode_fault(resource: ServedResource, obj: dict[str, Any]) -> str:
    """Why Go cannot decode an object of a built-in kind; empty if it can."""
    return _unreadable(resource, resource.schema.validate(obj))


def _unreadable(resource: ServedResource, causes: Sequence[FieldCause]) -> str:
    typed = resource.schema.root.go is not None
    for cause in causes:
        if cause.reason == _TYPE_FAULT or (typed and cause.reason != _MISSING):
            found = _NO_BYTES.fullmatch(cause.message)
            fault = base64_fault(json.loads(found[1])) if found else ""
            return fault or f"json: cannot unmarshal {cause.field}: {cause.message}"
    return ""


def _scale_causes(obj: Mapping[str, Any], resource: ServedResource) -> list[FieldCause]:
    if resource.scale is None:
        return []
    paths = (resource.scale.spec_replicas, resource.scale.status_replicas)
    faults = [(path, *_scale_fault(obj, path)) for path in paths]
    return [value_invalid(path, value, fault) for path, fault, value in faults if fault]


def _scale_fault(obj: Mapping[str, Any], path: str) -> tuple[str, Any]:
    value: Any = obj
    for step in path.strip(".").split("."):
        if not isinstance(value, Mapping):
            return (
                f"{path} accessor error: {value} is of the type {type(value).__name__}, expected map",
                value,
            )
        value = value.get(step)
        if value is None:
            return "", None
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{path} accessor error: {value} is of the type {type(value).__name__}, expected int64", value
    return ("should be a non-negative integer" if value < 0 else ""), value

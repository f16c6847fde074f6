"""Faults of fields, worded as in kube-apiserver."""

import json
from collections.abc import Iterable, Sequence

import msgspec

from reconcile.embedded.protocol.api_failure import FieldCause


def value_invalid(field: str, value: object, why: str) -> FieldCause:
    return FieldCause("FieldValueInvalid", f"Invalid value: {_quoted(value)}: {why}", field)


def all_invalid(field: str, value: object, faults: Iterable[str]) -> list[FieldCause]:
    """A cause for each thing that is wrong with a value."""
    return [value_invalid(field, value, fault) for fault in faults]


def value_not_found(field: str, value: object) -> FieldCause:
    return FieldCause("FieldValueNotFound", f"Not found: {_quoted(value)}", field)


def value_required(field: str, why: str = "") -> FieldCause:
    return FieldCause("FieldValueRequired", f"Required value: {why}" if why else "Required value", field)


def value_forbidden(field: str, why: str) -> FieldCause:
    return FieldCause("FieldValueForbidden", f"Forbidden: {why}", field)


def value_too_long(field: str, limit: int) -> FieldCause:
    """`limit` is in bytes."""
    return FieldCause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)


def value_too_many(field: str, count: int, limit: int) -> FieldCause:
    message = f"Too many: {count}: must have at most {limit} items"
    return FieldCause("FieldValueTooMany", message, field)


def value_duplicate(field: str, value: object) -> FieldCause:
    return FieldCause("FieldValueDuplicate", f"Duplicate value: {_quoted(value)}", field)


def value_not_supported(field: str, value: object, supported: Sequence[str]) -> FieldCause:
    listed = ", ".join(f'"{item}"' for item in supported)
    message = f"Unsupported value: {_quoted(value)}: supported values: {listed}"
    return FieldCause("FieldValueNotSupported", message, field)


def _quoted(value: object) -> str:
    if isinstance(value, str | list | tuple | dict):
        return msgspec.json.encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, separators=(",", ":"))
    return "null" if value is None else str(value)

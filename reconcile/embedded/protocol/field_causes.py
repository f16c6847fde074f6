"""The faults of fields, worded as kube-apiserver words them."""

from collections.abc import Sequence

from reconcile.embedded.protocol.api_failure import FieldCause


def value_invalid(field: str, value: object, why: str) -> FieldCause:
    """A value that breaks a rule."""
    return FieldCause("FieldValueInvalid", f"Invalid value: {_quoted(value)}: {why}", field)


def value_required(field: str, why: str = "") -> FieldCause:
    """A value that is missing."""
    return FieldCause("FieldValueRequired", f"Required value: {why}" if why else "Required value", field)


def value_forbidden(field: str, why: str) -> FieldCause:
    """A value that may not be there."""
    return FieldCause("FieldValueForbidden", f"Forbidden: {why}", field)


def value_too_long(field: str, limit: int) -> FieldCause:
    """A value of too many bytes."""
    return FieldCause("FieldValueTooLong", f"Too long: may not be more than {limit} bytes", field)


def value_too_many(field: str, count: int, limit: int) -> FieldCause:
    """A list of too many items."""
    message = f"Too many: {count}: must have at most {limit} items"
    return FieldCause("FieldValueTooMany", message, field)


def value_duplicate(field: str, value: object) -> FieldCause:
    """A value that is there already."""
    return FieldCause("FieldValueDuplicate", f"Duplicate value: {_quoted(value)}", field)


def value_not_supported(field: str, value: object, supported: Sequence[str]) -> FieldCause:
    """A value outside a fixed set."""
    listed = ", ".join(f'"{item}"' for item in supported)
    message = f"Unsupported value: {_quoted(value)}: supported values: {listed}"
    return FieldCause("FieldValueNotSupported", message, field)


def _quoted(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)

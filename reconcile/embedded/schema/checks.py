"""The rules for single values: bounds, lengths, patterns, enumerations, formats."""

from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Any

from informers.apimachinery.quantities import quantity_value
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_too_long, value_too_many
from reconcile.embedded.schema.formats import has_format, succeeds
from reconcile.embedded.schema.json_values import NESTED, is_number, quoted, same
from reconcile.embedded.schema.patterns import compile_pattern, search_cost, searcher
from reconcile.embedded.schema.steps import Causes

Check = Callable[[Any, str, Causes], None]
"""Adds a cause for each rule that the value at the path breaks."""

_WHOLE_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1), "": (-(2**63), 2**63 - 1)}
_PLAIN_FORMATS = frozenset({"int-or-string", "quantity", "double", "float", "password"})


def invalid(path: str, value: Any, why: str) -> FieldCause:
    return FieldCause("FieldValueInvalid", f"Invalid value: {quoted(value)}: {why}", path or "<nil>")


def not_supported(path: str, value: Any, supported: str) -> FieldCause:
    message = f"Unsupported value: {quoted(value)}: supported values: {supported}"
    return FieldCause("FieldValueNotSupported", message, path or "<nil>")


def listed(values: Iterable[Any]) -> str:
    return ", ".join(map(quoted, values))


def enum_check(schema: Mapping[str, Any]) -> Check:
    """The check that a value is one of `enum`."""
    scalars = frozenset(_scalar_key(value) for value in schema["enum"] if not isinstance(value, NESTED))
    nested = tuple(value for value in schema["enum"] if isinstance(value, NESTED))
    supported = listed(schema["enum"])

    def check(value: Any, path: str, causes: Causes) -> None:
        if isinstance(value, NESTED):
            causes.spend(len(nested))
            held = any(same(value, option) for option in nested)
        else:
            held = _scalar_key(value) in scalars
        if not held:
            causes.spend(len(supported) // 1000)
            causes.append(not_supported(path, value, supported))

    return check


def _scalar_key(value: Any) -> tuple[bool, Any]:
    # Otherwise `true` would equal 1. 1 equals 1.0, as it should.
    return isinstance(value, bool), value


def _lengths(schema: Mapping[str, Any]) -> Check:
    least, most = schema.get("minLength"), schema.get("maxLength")

    def check(value: Any, path: str, causes: Causes) -> None:
        if not isinstance(value, str):
            return
        if most is not None and len(value) > most:
            causes.append(value_too_long(path or "<nil>", most))
        if least is not None and len(value) < least:
            causes.append(invalid(path, value, f"{path} in body should be at least {least} chars long"))

    return check


def _pattern(schema: Mapping[str, Any]) -> Check | None:
    pattern: str = schema["pattern"]
    compiled = compile_pattern(pattern)
    if compiled is None:
        return None
    occurs = searcher(compiled)

    def check(value: Any, path: str, causes: Causes) -> None:
        if not isinstance(value, str):
            return
        causes.spend(search_cost(compiled, value))
        if not occurs(value):
            causes.append(invalid(path, value, f"{path} in body should match '{pattern}'"))

    return check


def _format(schema: Mapping[str, Any]) -> Check | None:
    if is_quantity(schema):
        return _check_quantity
    name = schema["format"]
    if name in _PLAIN_FORMATS or schema.get("type") in ("integer", "number"):
        return None

    def check(value: Any, path: str, causes: Causes) -> None:
        if isinstance(value, str) and not has_format(value, name):
            message = (
                f"Invalid value: {quoted(value)}: {path} in body must be of type {name}: {quoted(value)}"
            )
            causes.append(FieldCause("FieldValueTypeInvalid", message, path or "<nil>"))

    return check


def is_quantity(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is that of a Quantity of a built-in kind; those of custom resources differ."""
    return schema.get("format") == "quantity" and "oneOf" in schema


def _check_quantity(value: Any, path: str, causes: Causes) -> None:
    if isinstance(value, str) and not succeeds(quantity_value, value):
        rule = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
        why = f"quantities must match the regular expression '{rule}'"
        causes.append(FieldCause("FieldValueTypeInvalid", why, path or "<nil>"))


def _bounds(schema: Mapping[str, Any]) -> Check:
    least, most = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum", False), schema.get("exclusiveMaximum", False)

    def check(value: Any, path: str, causes: Causes) -> None:
        if not is_number(value):
            return
        if least is not None and (value <= least if above else value < least):
            than = "greater than" if above else "greater than or equal to"
            causes.append(invalid(path, value, f"{path} in body should be {than} {quoted(least)}"))
        if most is not None and (value >= most if below else value > most):
            than = "less than" if below else "less than or equal to"
            causes.append(invalid(path, value, f"{path} in body should be {than} {quoted(most)}"))

    return check


def _multiple(schema: Mapping[str, Any]) -> Check:
    factor = schema["multipleOf"]

    def check(value: Any, path: str, causes: Causes) -> None:
        if is_number(value) and not _is_multiple(value, factor):
            causes.append(invalid(path, value, f"{path} in body should be a multiple of {quoted(factor)}"))

    return check


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int):
        # As in kube-openapi, the factor of a whole number is cut to one, and none is left of 0.5.
        return int(factor) != 0 and value % int(factor) == 0
    try:
        return (value / factor) % 1 == 0
    except OverflowError:  # a whole number that no float holds; schemas in code may have one
        return False


def _whole(schema: Mapping[str, Any]) -> Check | None:
    if schema["type"] != "integer":
        return None
    name = schema.get("format", "")
    least, most = _WHOLE_RANGES.get(name, _WHOLE_RANGES[""])
    kind = f"integer with format {name}" if name else "integer (default format)"

    def check(value: Any, path: str, causes: Causes) -> None:
        if is_number(value) and (value % 1 != 0 or not least <= value <= most):
            # As in the API server, the fault has no path.
            causes.append(invalid("", "", f"Checked value must be of type {kind}"))

    return check


def go_range(schema: Mapping[str, Any]) -> Check | None:
    """The check that a whole number fits the Go type of a field; None if the field holds none."""
    if schema.get("x-kubernetes-int-or-string"):
        kind = "int32"  # IntOrString has an IntVal of that type
    elif schema.get("type") == "integer":
        kind = schema.get("format", "int64")
    else:
        return None
    least, most = _WHOLE_RANGES[kind]

    def check(value: Any, path: str, causes: Causes) -> None:
        if isinstance(value, int) and not least <= value <= most:
            why = f"number {value} into Go value of type {kind}"
            causes.append(FieldCause("FieldValueTypeInvalid", why, path))

    return check


def _items(schema: Mapping[str, Any]) -> Check:
    return _size_check(list, schema.get("minItems"), schema.get("maxItems"), "items")


def _properties(schema: Mapping[str, Any]) -> Check:
    return _size_check(dict, schema.get("minProperties"), schema.get("maxProperties"), "properties")


def _size_check(kind: type[Sized], least: int | None, most: int | None, noun: str) -> Check:
    def check(value: Any, path: str, causes: Causes) -> None:
        if not isinstance(value, kind):
            return
        size = len(value)
        if most is not None and size > most:
            causes.append(value_too_many(path or "<nil>", size, most))
        if least is not None and size < least:
            causes.append(invalid(path, size, f"{path} in body should have at least {least} {noun}"))

    return check


_MAKERS: Mapping[Callable[[Mapping[str, Any]], Check | None], tuple[str, ...]] = {
    enum_check: ("enum",),
    _lengths: ("minLength", "maxLength"),
    _pattern: ("pattern",),
    _format: ("format",),
    _bounds: ("minimum", "maximum"),
    _multiple: ("multipleOf",),
    _whole: ("type",),
    _items: ("minItems", "maxItems"),
    _properties: ("minProperties", "maxProperties"),
}
"""What makes the check for keywords, in the order of the faults."""


def value_checks(schema: Mapping[str, Any]) -> tuple[Check, ...]:
    """The checks of a schema, besides those of type, members and items."""
    makers = (make for make, keywords in _MAKERS.items() if not schema.keys().isdisjoint(keywords))
    return tuple(check for make in makers if (check := make(schema)) is not None)

"""The rules for single values: bounds, lengths, patterns, enumerations, formats."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
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
_SIZES: Mapping[str, tuple[type[Sized], str]] = {"Items": (list, "items"), "Properties": (dict, "properties")}
_CHECKED = frozenset({"enum", "pattern", "multipleOf", "format", "minimum", "maximum"}) | {
    f"{bound}{noun}" for bound in ("min", "max") for noun in ("Length", *_SIZES)
}
_PLAIN_FORMATS = frozenset({"int-or-string", "quantity", "double", "float", "password"})


def value_checks(schema: Mapping[str, Any]) -> tuple[Check, ...]:
    """The checks that a schema asks for, beside type, members and items."""
    if _CHECKED.isdisjoint(schema) and schema.get("type") != "integer":
        return ()
    makers = (_enum, _lengths, _pattern, _format, _quantity, _bounds, _multiple, _whole, _sizes)
    return tuple(check for maker in makers for check in maker(schema))


def invalid(path: str, value: Any, why: str) -> FieldCause:
    """A FieldValueInvalid; `path` is empty for the whole object."""
    return FieldCause("FieldValueInvalid", f"Invalid value: {quoted(value)}: {why}", path or "<nil>")


def not_supported(path: str, value: Any, supported: str) -> FieldCause:
    """A FieldValueNotSupported; `path` is empty for the whole object."""
    message = f"Unsupported value: {quoted(value)}: supported values: {supported}"
    return FieldCause("FieldValueNotSupported", message, path or "<nil>")


def listed(values: Iterable[Any]) -> str:
    """Values as messages list them."""
    return ", ".join(map(quoted, values))


def _enum(schema: Mapping[str, Any]) -> Sequence[Check]:
    if "enum" not in schema:
        return ()
    scalars = frozenset(_told_apart(value) for value in schema["enum"] if not isinstance(value, NESTED))
    nested = tuple(value for value in schema["enum"] if isinstance(value, NESTED))
    supported = listed(schema["enum"])

    def check(value: Any, path: str, causes: Causes) -> None:
        if isinstance(value, NESTED):
            causes.spend(len(nested))
            held = any(same(value, option) for option in nested)
        else:
            held = _told_apart(value) in scalars
        if not held:
            causes.spend(len(supported) // 1000)
            causes.append(not_supported(path, value, supported))

    return (check,)


def _told_apart(value: Any) -> tuple[bool, Any]:
    """A scalar as a key of its own: `true` is not 1, and 1 is 1.0."""
    return isinstance(value, bool), value


def _lengths(schema: Mapping[str, Any]) -> Sequence[Check]:
    least, most = schema.get("minLength"), schema.get("maxLength")
    if least is None and most is None:
        return ()

    def check(value: Any, path: str, causes: Causes) -> None:
        if not isinstance(value, str):
            return
        if most is not None and len(value) > most:
            causes.append(value_too_long(path or "<nil>", most))
        if least is not None and len(value) < least:
            causes.append(invalid(path, value, f"{path} in body should be at least {least} chars long"))

    return (check,)


def _pattern(schema: Mapping[str, Any]) -> Sequence[Check]:
    if "pattern" not in schema:
        return ()
    pattern: str = schema["pattern"]
    compiled = compile_pattern(pattern)
    if compiled is None:
        return ()
    occurs = searcher(compiled)

    def check(value: Any, path: str, causes: Causes) -> None:
        if not isinstance(value, str):
            return
        causes.spend(search_cost(compiled, value))
        if not occurs(value):
            causes.append(invalid(path, value, f"{path} in body should match '{pattern}'"))

    return (check,)


def _format(schema: Mapping[str, Any]) -> Sequence[Check]:
    name = schema.get("format")
    if name is None or name in _PLAIN_FORMATS or schema.get("type") in ("integer", "number"):
        return ()

    def check(value: Any, path: str, causes: Causes) -> None:
        if isinstance(value, str) and not has_format(value, name):
            message = (
                f"Invalid value: {quoted(value)}: {path} in body must be of type {name}: {quoted(value)}"
            )
            causes.append(FieldCause("FieldValueTypeInvalid", message, path or "<nil>"))

    return (check,)


def is_quantity(schema: Mapping[str, Any]) -> bool:
    """Whether a place of a built-in kind is a Quantity: no schema of a custom resource looks like that."""
    return schema.get("format") == "quantity" and "oneOf" in schema


def _quantity(schema: Mapping[str, Any]) -> Sequence[Check]:
    if not is_quantity(schema):
        return ()

    def check(value: Any, path: str, causes: Causes) -> None:
        if isinstance(value, str) and not succeeds(quantity_value, value):
            rule = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
            why = f"quantities must match the regular expression '{rule}'"
            causes.append(FieldCause("FieldValueTypeInvalid", why, path or "<nil>"))

    return (check,)


def _bounds(schema: Mapping[str, Any]) -> Sequence[Check]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is None and most is None:
        return ()
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

    return (check,)


def _multiple(schema: Mapping[str, Any]) -> Sequence[Check]:
    if "multipleOf" not in schema:
        return ()
    factor = schema["multipleOf"]

    def check(value: Any, path: str, causes: Causes) -> None:
        if is_number(value) and not _is_multiple(value, factor):
            causes.append(invalid(path, value, f"{path} in body should be a multiple of {quoted(factor)}"))

    return (check,)


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int) and isinstance(factor, int):
        return value % factor == 0
    try:
        return (value / factor) % 1 == 0
    except OverflowError:  # a whole number that no float holds; schemas in code may have one
        return False


def _whole(schema: Mapping[str, Any]) -> Sequence[Check]:
    """The range of an integer. As in the API server, a fault has no path."""
    if schema.get("type") != "integer":
        return ()
    name = schema.get("format", "")
    least, most = _WHOLE_RANGES.get(name, _WHOLE_RANGES[""])
    kind = f"integer with format {name}" if name else "integer (default format)"

    def check(value: Any, path: str, causes: Causes) -> None:
        if is_number(value) and (value % 1 != 0 or not least <= value <= most):
            causes.append(invalid("", "", f"Checked value must be of type {kind}"))

    return (check,)


def _sizes(schema: Mapping[str, Any]) -> Sequence[Check]:
    return tuple(
        _size_check(kind, schema.get(f"min{keyword}"), schema.get(f"max{keyword}"), noun)
        for keyword, (kind, noun) in _SIZES.items()
        if f"min{keyword}" in schema or f"max{keyword}" in schema
    )


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

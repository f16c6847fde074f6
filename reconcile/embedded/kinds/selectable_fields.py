"""The fields of custom resources by which clients may select: what a definition may name."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_duplicate,
    value_invalid,
    value_required,
    value_too_many,
)
from reconcile.embedded.schema.field_paths import PathFault, field_at

# MaxSelectableFields in apiextensions' validation.
MAX_SELECTABLE = 8


def selectable_causes(
    fields: Sequence[Mapping[str, Any]], openapi: Mapping[str, Any], place: str
) -> Iterator[FieldCause]:
    seen: set[tuple[str, ...]] = set()
    for index, field in enumerate(fields):
        path, where = field.get("jsonPath") or "", f"{place}[{index}].jsonPath"
        if not path:
            yield value_required(where)
            continue
        try:
            steps, found = field_at(path, openapi, brackets=False)
        except PathFault as fault:
            yield value_invalid(where, path, f"is an invalid path: {fault}")
            continue
        if steps[0] == "metadata":
            yield value_invalid(where, path, "must not point to fields in metadata")
        if not isinstance(found, Mapping) or found.get("type") not in ("string", "boolean", "integer"):
            why = "must point to a field of type string, boolean or integer"
            yield value_invalid(where, path, why)
        if tuple(steps) in seen:
            yield value_duplicate(where, path)
        seen.add(tuple(steps))
    if len(seen) > MAX_SELECTABLE:
        yield value_too_many(place, len(seen), MAX_SELECTABLE)

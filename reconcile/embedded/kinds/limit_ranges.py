"""LimitRanges."""

from collections.abc import Iterator
from decimal import ROUND_UP, Decimal
from typing import Final

from informers.apimachinery.name_rules import label_key_faults
from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object
from reconcile.embedded.kinds.resource_amounts import may_overcommit
from reconcile.embedded.kinds.resource_rules import (
    amount,
    container_resource_causes,
    resource_name_causes,
)
from reconcile.embedded.kubectl.printing import CREATED, NAMES
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_duplicate,
    value_forbidden,
    value_invalid,
    value_required,
)

_CLAIM: Final = "PersistentVolumeClaim"
_TYPES: Final = ("Pod", "Container", _CLAIM)
_DEFAULTS: Final = ("default", "defaultRequest")
_BOUNDS: Final = ("max", "min")
_RATIO: Final = "maxLimitRequestRatio"
_MILLI: Final = Decimal("0.001")
# MaxMilliValue in apimachinery's resource.Quantity: the largest value whose thousandfold fits into an int64.
_MAX_MILLI: Final = (2**63 - 1) // 1000


def _prepare_limit_range(limit_range: Object, _old: Object | None) -> None:
    metadata = limit_range["metadata"]
    metadata["name"] = metadata.get("name") or metadata.get("uid") or ""  # a made up one is a UUID


def _default_limit_range(limit_range: Object) -> None:
    """Derive the defaults of containers from the bounds, and those of requests from those of limits."""
    for limit in (limit_range.get("spec") or {}).get("limits") or ():
        if limit.get("type") != "Container":
            continue
        default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
        request = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
        if default:
            limit["default"] = default
        if request:
            limit["defaultRequest"] = request


# --- rules ------------------------------------------------------------------------------------


def _limit_range_causes(limit_range: Object, _old: Object | None) -> Iterator[FieldCause]:
    seen: set[str] = set()
    for index, limit in enumerate((limit_range.get("spec") or {}).get("limits") or ()):
        path, kind = f"spec.limits[{index}]", limit.get("type") or ""
        yield from _type_causes(kind, f"{path}.type")
        if kind in seen:
            yield value_duplicate(f"{path}.type", kind)
        seen.add(kind)
        yield from _name_causes(limit, kind, path)
        if kind == _CLAIM and not any("storage" in (limit.get(part) or {}) for part in _BOUNDS):
            why = "either minimum or maximum storage value is required, but neither was provided"
            yield value_required(f"{path}.limits", why)
        checked = (*_BOUNDS, *(() if kind == "Pod" else _DEFAULTS), _RATIO)
        for name in {name: None for part in checked for name in limit.get(part) or ()}:
            values = {part: amount(limit[part][name]) for part in checked if name in (limit.get(part) or {})}
            yield from _order_causes(name, values, path)
            yield from _ratio_causes(name, values, path)


def _type_causes(kind: str, path: str) -> Iterator[FieldCause]:
    faults = label_key_faults(kind)
    if not faults and "/" not in kind and kind not in _TYPES:
        faults = ["must be a standard limit type or fully qualified"]
    yield from (value_invalid(path, kind, fault) for fault in faults)


def _name_causes(limit: Object, kind: str, path: str) -> Iterator[FieldCause]:
    causes = container_resource_causes if kind in ("Pod", "Container") else resource_name_causes
    for part in (*_BOUNDS, *_DEFAULTS, _RATIO):
        if kind == "Pod" and part in _DEFAULTS:
            if limit.get(part):
                yield value_forbidden(f"{path}.{part}", "may not be specified when `type` is 'Pod'")
            continue
        for name in limit.get(part) or ():
            yield from causes(name, f"{path}.{part}[{name}]")


_ORDER: Final = (
    ("min", "max", "min"),
    ("min", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest"),
    ("min", "default", "default"),
    ("default", "max", "default"),
)
"""What may not be greater than what, and which of the two the fault names."""


def _order_causes(name: str, values: dict[str, Decimal], path: str) -> Iterator[FieldCause]:
    for lower, upper, named in _ORDER:
        if lower in values and upper in values and values[lower] > values[upper]:
            why = f"{lower} value {values[lower]} is greater than {upper} value {values[upper]}"
            yield value_invalid(f"{path}.{named}[{name}]", str(values[named]), why)
    limit, request = values.get("default"), values.get("defaultRequest")
    if None not in (limit, request) and limit != request and not may_overcommit(name):
        why = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        yield value_invalid(f"{path}.defaultRequest[{name}]", str(request), why)


def _ratio_causes(name: str, values: dict[str, Decimal], path: str) -> Iterator[FieldCause]:
    ratio = values.get(_RATIO)
    if ratio is None:
        return
    place = f"{path}.{_RATIO}[{name}]"
    if ratio < 1:
        yield value_invalid(place, str(ratio), f"ratio {ratio} is less than 1")
    if "min" not in values or "max" not in values:
        return
    precise = all(value < _MAX_MILLI for value in (ratio, values["min"], values["max"]))
    unit = _MILLI if precise else Decimal(1)
    least, most = (_rounded_up(values[part], unit) for part in _BOUNDS[::-1])
    greatest = most / least if least else Decimal("Infinity") if most > 0 else None
    if greatest is not None and _rounded_up(ratio, unit) > greatest:
        yield value_invalid(place, str(ratio), f"ratio {ratio} is greater than max/min = {greatest:f}")


def _rounded_up(value: Decimal, unit: Decimal) -> Decimal:
    return value.quantize(unit, rounding=ROUND_UP)


KINDS: Final = (
    BuiltInKind(
        "", "LimitRange", short_names=("limits",), create_on_update=True,
        defaults=_default_limit_range,
        prepare=_prepare_limit_range,
        checks=_limit_range_causes,
        names_missing_fields=True,
        change_fault_copies=1,
        columns=(NAMES, CREATED),
        viewed=("",),
    ),
)  # fmt: skip

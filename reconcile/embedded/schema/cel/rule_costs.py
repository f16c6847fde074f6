"""Where a schema has rules, how often each may run for one object, and whether all of them cost too much."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import define, field, frozen

from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden
from reconcile.embedded.schema.cel.declared import MAX_REQUEST, Declared
from reconcile.embedded.schema.cel.sizes import added, multiplied
from reconcile.embedded.schema.wellformed import subschemas

# StaticEstimatedCostLimit and StaticEstimatedCRDCostLimit in apiextensions' validation.
MAX_COST: Final = 10_000_000
MAX_TOTAL_COST: Final = 100_000_000
# TotalCost of apiextensions names the rules that cost most, if they cost one percent of the limit.
_NAMED: Final = 4
_WORTH_NAMING: Final = MAX_TOTAL_COST // 100
_CHEAPER: Final = (
    "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and "
    "strings are declared"
)


@frozen
class RulePlace:
    """A part of a schema that has rules."""

    path: str
    schema: Mapping[str, Any]
    comparable: bool
    """Whether a value there can be compared with its old value."""
    count: int | None
    """How many values may be there in one object; None without a bound."""


def places(
    schema: Mapping[str, Any], path: str = "", *, comparable: bool = True, count: int | None = 1
) -> Iterator[RulePlace]:
    """The parts of a schema that have rules."""
    if schema.get("x-kubernetes-validations"):
        yield RulePlace(path, schema, comparable, count)
    more = _most_values(schema)
    below = None if count is None or more is None else multiplied(count, more)
    for step, member in subschemas(schema):
        if step == ".items":
            matched = schema.get("x-kubernetes-list-type") == "map"
        else:
            matched = step == ".additionalProperties" or schema.get("x-kubernetes-map-type") != "atomic"
        yield from places(member, path + step, comparable=comparable and matched, count=below)


def _most_values(schema: Mapping[str, Any]) -> int | None:
    """How many values of each member there may be below one of a schema; None without a bound."""
    if schema.get("type") == "array":
        keyword = "maxItems"
    elif schema.get("type") == "object" and "additionalProperties" in schema:
        keyword = "maxProperties"
    else:
        return 1
    return max(0, int(schema[keyword])) if keyword in schema else None


@frozen
class Checked:
    """A rule, or its message, that compiles."""

    cost: int
    """Units of one evaluation at most, by the schema."""
    declared: Declared


@define
class TotalCost:
    """The estimated cost of all rules of a schema."""

    _each: bool
    """Whether a single rule may be too costly."""
    _total: int = 0
    _highest: list[tuple[int, str]] = field(factory=list)

    def add(
        self, where: str, checked: Checked, place: RulePlace, *, repeats: bool = True
    ) -> Iterator[FieldCause]:
        """Count a rule, or a message, which is made for one value only; yields the fault of a costly one."""
        units = checked.cost
        if repeats:
            count = MAX_REQUEST // (checked.declared.least + 1) if place.count is None else place.count
            units = multiplied(units, count)
        self._total = added(self._total, units)
        if units >= _WORTH_NAMING:
            self._highest = sorted([*self._highest, (units, where)], reverse=True)[:_NAMED]
        if self._each and units > MAX_COST:
            yield value_forbidden(where, f"estimated cost {units} exceeds {MAX_COST} ({_CHEAPER})")

    def causes(self) -> Iterator[FieldCause]:
        if self._total > MAX_TOTAL_COST:
            for _, where in self._highest:
                yield value_forbidden(where, "contributed to the estimated cost of all rules of the schema")
            why = f"estimated cost of all rules exceeds {MAX_TOTAL_COST} ({_CHEAPER})"
            yield value_forbidden("", why)

"""How large values may be by their schema, for the cost of rules without an object.

Where a schema has no bound, the limit is what fits into a request, as in a real server.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from attrs import frozen

from reconcile.embedded.schema.cel.cel_rules import (
    FORMER,
    CelRule,
    RuleError,
    compiled,
    places,
    running_environment,
)
from reconcile.embedded.schema.cel.cost import SCALAR, Bound, cost, text_of
from reconcile.embedded.schema.cel.rewriting import runnable
from reconcile.embedded.schema.cel.syntax import tree

MAX_ESTIMATE: Final = 100_000_000
"""Units above which a rule is reported: ten times a real server's limit, as costs here are upper bounds."""

_REQUEST: Final = 3 * 1024 * 1024
_BYTES_OF_A_CHARACTER: Final = 4


@frozen(slots=False, eq=False)
class Declared(Bound):
    schema: Mapping[str, Any]

    @cached_property
    def size(self) -> int:  # type: ignore[override]
        match self.schema.get("type"):
            case "string":
                return self.text
            case "array":
                return int(self.schema.get("maxItems", _REQUEST // (_least(self.schema.get("items")) + 1)))
            case "object" if isinstance(self.schema.get("additionalProperties"), Mapping):
                least = _least(self.schema["additionalProperties"])
                return int(self.schema.get("maxProperties", _REQUEST // (least + 6)))
            case _:
                return 1

    @cached_property
    def text(self) -> int:  # type: ignore[override]
        if self.schema.get("type") != "string":
            return 0
        if "enum" in self.schema:
            return max((len(str(value)) for value in self.schema["enum"]), default=0)
        return min(_REQUEST, int(self.schema.get("maxLength", _REQUEST)) * _BYTES_OF_A_CHARACTER)

    @cached_property
    def whole(self) -> int:  # type: ignore[override]
        if self.schema.get("type") == "string":
            return text_of(self.text).whole
        members = sum(Declared(member).whole for member in self.schema.get("properties", {}).values())
        return min(_REQUEST, 1 + members + (self.size * self.item.whole if self.item is not SCALAR else 0))

    @cached_property
    def item(self) -> Bound:
        inner = self.schema.get("items") or self.schema.get("additionalProperties")
        return Declared(inner) if isinstance(inner, Mapping) else SCALAR

    @cached_property
    def key(self) -> Bound:
        return text_of(_REQUEST // max(1, self.size)) if self.schema.get("additionalProperties") else SCALAR

    def member(self, name: str) -> Bound:
        inner = self.schema.get("properties", {}).get(name)
        return Declared(inner) if isinstance(inner, Mapping) else self.item


def _least(schema: Any) -> int:
    """The fewest bytes of a value of a schema."""
    if not isinstance(schema, Mapping):
        return 1
    if schema.get("type") == "object":
        members, required = schema.get("properties", {}), schema.get("required", ())
        return 2 + sum(len(name) + 4 + _least(members.get(name)) for name in required)
    return {"string": 2, "array": 2, "boolean": 4}.get(schema.get("type", ""), 1)


def costly_rules(openapi: Mapping[str, Any]) -> Iterator[str]:
    """The places of rules that a real server is likely to refuse as too costly."""
    for place, schema, _ in places(openapi, ""):
        bound = Declared(schema)
        for index, entry in enumerate(schema["x-kubernetes-validations"]):
            if "(" in entry.get("rule", "") and _estimate(CelRule.read(entry), bound) > MAX_ESTIMATE:
                yield f"{place}.x-kubernetes-validations[{index}]".lstrip(".")


def _estimate(rule: CelRule, bound: Bound) -> int:
    try:
        program = compiled(running_environment(), rule.wrapped(runnable(rule.text)))
    except RuleError:
        return 0
    return cost(tree(program), {"self": bound, "oldSelf": bound, FORMER: bound})

"""The evaluation of rules for an object."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import define, frozen
from cel_expr_python import cel

from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.schema.cel.cel_rules import FORMER, BoundRule, CelRule, field_steps
from reconcile.embedded.schema.cel.cel_values import Convert, aligned, converter
from reconcile.embedded.schema.cel.error_words import in_words_of_go
from reconcile.embedded.schema.cel.library import BUDGET_EXCEEDED, reset_meter
from reconcile.embedded.schema.json_values import list_key, quoted, same
from reconcile.embedded.schema.schema_nodes import ABSENT

MAX_RULE_COST: Final = 1_000_000
"""Units that the evaluation of one rule may cost, as in a real server."""

MAX_COST: Final = 2_000_000
"""Units of all rules for one object, which take less than a second; a real server has ten million."""

A_RULE: Final = 100
"""Units that every evaluation costs, however simple the rule."""

_MAX_MESSAGE: Final = 5 * 1024
_OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
_KINDS: Final = {"FieldValueForbidden": "Forbidden", "FieldValueRequired": "Required value"}


@frozen
class RuleNode:
    """The rules at and below a place of a schema; places without rules have no node."""

    schema: Mapping[str, Any]
    rules: tuple[BoundRule, ...]
    convert: Convert | None
    members: Mapping[str, "RuleNode"]
    additional: "RuleNode | None"
    items: "RuleNode | None"


class OutOfBudget(Exception):
    """The rules would take too long for an object."""


@define
class Budget:
    left: int = MAX_COST

    def take(self, units: int) -> None:
        """Count an evaluation before it runs. Raises OutOfBudget if it costs too much."""
        self.left -= A_RULE + units
        if self.left < 0 or units > MAX_RULE_COST:
            raise OutOfBudget


def rule_tree(openapi: Mapping[str, Any]) -> RuleNode | None:
    """The rules of a valid `openAPIV3Schema`; None if it has none."""
    return _tree(openapi, is_object=True)


def tree_of(schema: Mapping[str, Any]) -> RuleNode | None:
    """The rules of a part of such a schema."""
    return _tree(schema, is_object=bool(schema.get("x-kubernetes-embedded-resource")))


def _tree(schema: Mapping[str, Any], *, is_object: bool = False) -> RuleNode | None:
    members = {
        name: node
        for name, member in schema.get("properties", {}).items()
        if (node := _tree(member)) is not None
    }
    additional, items = schema.get("additionalProperties"), schema.get("items")
    below = _tree(additional) if isinstance(additional, Mapping) else None
    within = _tree(items) if isinstance(items, Mapping) else None
    rules = tuple(BoundRule(CelRule.read(entry)) for entry in schema.get("x-kubernetes-validations", ()))
    if not (rules or members or below or within):
        return None
    convert = converter(schema, is_object=is_object) if rules else None
    return RuleNode(schema, rules, convert, members, below, within)


def evaluate(node: RuleNode, value: Any, old: Any) -> list[FieldCause]:
    """The rules that an object breaks; `old` is ABSENT on create.

    A rule that does not use `oldSelf` is not evaluated for an unchanged value.
    """
    causes: list[FieldCause] = []
    try:
        for cause in _broken(node, value, old, "", Budget()):
            causes.append(cause)
    except OutOfBudget:
        causes.append(FieldCause("FieldValueInvalid", f'Invalid value: "": {_OUT_OF_BUDGET}', "<nil>"))
    return causes


def _broken(node: RuleNode, value: Any, old: Any, path: str, budget: Budget) -> Iterator[FieldCause]:
    if value is None:
        return
    if node.rules:
        yield from _broken_at(node, value, ABSENT if old is None else old, path, budget)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, member in value.items():
            below = node.members.get(name) or node.additional
            if below is not None:
                where = f"{path}.{name}" if path else name
                yield from _broken(below, member, before.get(name, ABSENT), where, budget)
    elif isinstance(value, list) and node.items is not None:
        # Only items of lists of type map, which have keys, can be matched with their old values.
        keys = node.schema.get("x-kubernetes-list-map-keys", ())
        earlier = {list_key(keys, item): item for item in old} if keys and isinstance(old, list) else {}
        for index, item in enumerate(value):
            former = earlier.get(list_key(keys, item), ABSENT) if earlier else ABSENT
            yield from _broken(node.items, item, former, f"{path}[{index}]", budget)


def _broken_at(node: RuleNode, value: Any, old: Any, path: str, budget: Budget) -> Iterator[FieldCause]:
    held = old is not ABSENT
    unchanged = held and same(value, old)
    shown = former = None
    for bound in node.rules:
        if unchanged and not bound.rule.uses_old:
            continue
        if bound.rule.uses_old and not bound.rule.optional_old and not held:
            continue
        if shown is None:
            shown = value if node.convert is None else node.convert(value)
        if former is None and held and bound.rule.uses_old:
            matched = aligned(node.schema, old, value)
            former = matched if node.convert is None else node.convert(matched)
        budget.take(bound.condition.cost(value, None if old is ABSENT else old))
        cause = _judge(node, bound, bound.variables(shown, former, held=held), path, budget)
        if cause is not None:
            yield cause


def _judge(
    node: RuleNode, bound: BoundRule, variables: dict[str, Any], path: str, budget: Budget
) -> FieldCause | None:
    rule = bound.rule
    where = path + "".join(f".{step}" for step in field_steps(rule.field_path) or ())
    where = where.lstrip(".") or "<nil>"
    try:
        held = _answer(bound.condition.program, variables)
    except ValueError as error:
        if BUDGET_EXCEEDED in str(error):
            raise OutOfBudget from None
        why = f"{error} evaluating rule: {rule.message.strip() or rule.text.strip()}"
        return FieldCause("FieldValueInvalid", _fault(node, why), path or "<nil>")
    if held is True:
        return None
    former = variables.get("oldSelf", variables.get(FORMER))
    budget.take(0 if bound.message is None else bound.message.cost(variables["self"], former))
    why = _message(bound, variables)
    if rule.reason == "FieldValueInvalid":
        return FieldCause(rule.reason, _fault(node, why), where)
    if rule.reason == "FieldValueDuplicate":
        return FieldCause(rule.reason, f"Duplicate value: {quoted(_type(node))}", where)
    return FieldCause(rule.reason, f"{_KINDS[rule.reason]}: {why}", where)


def _message(bound: BoundRule, variables: dict[str, Any]) -> str:
    """The result of the message expression if it is one line of text, else the message, else the rule."""
    rule = bound.rule
    if bound.message is not None:
        try:
            text = _answer(bound.message.program, variables)
        except ValueError:
            text = ""
        if isinstance(text, str) and text.strip() and "\n" not in text and len(text) <= _MAX_MESSAGE:
            return text.strip()
    return rule.message.strip() or f"failed rule: {rule.text.strip()}"


def _answer(program: cel.Expression, variables: dict[str, Any]) -> Any:
    """The value of an expression. Raises ValueError if it fails."""
    reset_meter()
    try:
        result = program.eval(data=variables)
        if result.type() == cel.Type.ERROR:
            raise ValueError(in_words_of_go(str(result.value()).partition(": ")[2]))
        return result.value()
    except (RuntimeError, TypeError) as error:
        raise ValueError(str(error).partition(": ")[2].partition(" [")[0]) from None


def _fault(node: RuleNode, why: str) -> str:
    return f"Invalid value: {quoted(_type(node))}: {why}"


def _type(node: RuleNode) -> str:
    return str(node.schema.get("type") or "")

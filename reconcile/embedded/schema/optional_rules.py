"""The way from schemas to CEL, whose library is imported only for a schema with rules."""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.schema.schema_nodes import ABSENT
from reconcile.embedded.schema.wellformed import subschemas

if TYPE_CHECKING:
    from reconcile.embedded.schema.cel import RuleNode

_BLOCKING: Final = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
_NOT_CHECKED: Final = FieldCause(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
    "<nil>",
)


def rule_causes(
    tree: "RuleNode", obj: Mapping[str, Any], old: Mapping[str, Any] | None, faults: Sequence[FieldCause]
) -> list[FieldCause]:
    """The rules that an object breaks; with other `faults` none are evaluated, which is a fault too."""
    if any(fault.reason in _BLOCKING for fault in faults):
        return [_NOT_CHECKED]
    from reconcile.embedded.schema.cel import evaluate

    return evaluate(tree, obj, ABSENT if old is None else old)


def cel_for(openapi: Mapping[str, Any]) -> ModuleType | None:
    """The package for the rules of a schema; None without rules, or without the extra `embedded`."""
    if not has_rules(openapi):
        return None
    try:
        import reconcile.embedded.schema.cel as cel
    except ImportError:
        return None
    return cel


def has_rules(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    return bool(schema.get("x-kubernetes-validations")) or any(
        has_rules(member) for _, member in subschemas(schema)
    )


def admission_expressions() -> ModuleType | None:
    """The compiler of the expressions of admission; None without the extra `embedded`."""
    try:
        import reconcile.embedded.schema.cel.admission_expressions as expressions
    except ImportError:
        return None
    return expressions


def admission_evaluation() -> ModuleType | None:
    """The evaluation of these expressions; None without the extra `embedded`."""
    try:
        import reconcile.embedded.schema.cel.admission_evaluation as evaluation
    except ImportError:
        return None
    return evaluation

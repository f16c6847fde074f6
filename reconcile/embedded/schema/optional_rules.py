"""Where schemas meet CEL: the library behind it is imported only when a schema has rules."""

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.schema.schema_nodes import ABSENT

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
_KEYWORD: Final = "x-kubernetes-validations"


@frozen
class Rules:
    """The rules of one schema."""

    tree: "RuleNode"

    def causes(
        self, obj: Mapping[str, Any], old: Mapping[str, Any] | None, faults: Sequence[FieldCause]
    ) -> list[FieldCause]:
        """The rules that an object breaks; with other `faults` none are evaluated, which is a fault too."""
        if any(fault.reason in _BLOCKING for fault in faults):
            return [_NOT_CHECKED]
        from reconcile.embedded.schema.cel import evaluate

        return evaluate(self.tree, obj, ABSENT if old is None else old)


def compile_rules(openapi: Mapping[str, Any]) -> Rules | None:
    """The rules of a schema that was found right."""
    cel = _cel_for(openapi)
    tree = None if cel is None else cel.rule_tree(openapi)
    return None if tree is None else Rules(tree)


def rule_faults(openapi: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    """What is wrong about the rules of a schema whose own path is `path`."""
    cel = _cel_for(openapi)
    if cel is not None:
        yield from cel.check_rules(openapi, path)


def unevaluated_rules(openapi: Mapping[str, Any]) -> Iterator[str]:
    """Rules that are kept and not evaluated: all of them where the CEL library is missing, none elsewhere."""
    if has_rules(openapi) and not can_evaluate():
        yield f"any {_KEYWORD}: the extra `embedded` is not installed"


def costly_rules(openapi: Mapping[str, Any]) -> Iterator[str]:
    """The places of rules that a real server is likely to refuse as too costly."""
    cel = _cel_for(openapi)
    if cel is not None:
        yield from cel.costly_rules(openapi)


def _cel_for(openapi: Mapping[str, Any]) -> ModuleType | None:
    """What evaluates the rules of a schema; None for one without any, and where the library is missing."""
    return _cel() if has_rules(openapi) else None


def _cel() -> ModuleType | None:
    try:
        import reconcile.embedded.schema.cel as cel
    except ImportError:
        return None
    return cel


def can_evaluate() -> bool:
    """Whether the library for CEL, of the extra `embedded`, is installed."""
    return _cel() is not None


def has_rules(schema: Any) -> bool:
    """Whether there is any rule in a schema."""
    if not isinstance(schema, Mapping):
        return False
    return (
        bool(schema.get(_KEYWORD))
        or any(has_rules(member) for member in schema.get("properties", {}).values())
        or has_rules(schema.get("items"))
        or has_rules(schema.get("additionalProperties"))
    )

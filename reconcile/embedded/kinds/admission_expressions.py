"""The CEL expressions in the objects of admission: match conditions, variables, validations, mutations."""

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from attrs import frozen

from informers.apimachinery.name_rules import label_key_faults
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_duplicate,
    value_invalid,
    value_required,
    value_too_many,
)
from reconcile.embedded.schema.optional_rules import admission_expressions

if TYPE_CHECKING:
    from reconcile.embedded.schema.cel.admission_expressions import Expressions, Result

# validateMatchConditions in pkg/apis/admissionregistration/validation.
MAX_MATCH_CONDITIONS = 64


@frozen
class ExpressionRules:
    """What the expressions of one webhook or policy may read, and the faults of each.

    Without the extra `embedded` there is no CEL, and every expression is accepted.
    """

    params: bool = False
    composes: bool = False
    _known: "Expressions | None" = None

    def fault(self, text: str, result: "Result", *, authorizer: bool = True) -> str:
        """Why an expression is refused; empty if it is not."""
        cel = admission_expressions()
        if cel is None:
            return ""
        try:
            self._compiler(cel).check(text, result, authorizer=authorizer)
        except cel.RuleError as error:
            return str(error)
        return ""

    def after(self, variables: Sequence[Mapping[str, Any]]) -> "ExpressionRules":
        """The same, for expressions that come after these variables."""
        cel = admission_expressions()
        if cel is None:
            return self
        known = self._compiler(cel)
        for variable in variables:
            known = known.with_variable(variable.get("name") or "", variable.get("expression") or "")
        return ExpressionRules(self.params, self.composes, known)

    def _compiler(self, cel: ModuleType) -> "Expressions":
        made: Expressions = self._known or cel.Expressions(self.params, self.composes)
        return made


def match_condition_causes(
    conditions: Sequence[Mapping[str, Any]], path: str, rules: ExpressionRules
) -> Iterator[FieldCause]:
    if len(conditions) > MAX_MATCH_CONDITIONS:
        yield value_too_many(path, len(conditions), MAX_MATCH_CONDITIONS)
    names: set[str] = set()
    for index, condition in enumerate(conditions):
        where, name = f"{path}[{index}]", condition.get("name") or ""
        yield from expression_causes(condition, f"{where}.expression", rules, "condition")
        if not name:
            yield value_required(f"{where}.name")
            continue
        yield from (value_invalid(f"{where}.name", name, fault) for fault in label_key_faults(name))
        if name in names:
            yield value_duplicate(f"{where}.name", name)
        names.add(name)


def expression_causes(
    holder: Mapping[str, Any], path: str, rules: ExpressionRules, result: "Result"
) -> Iterator[FieldCause]:
    """The faults of a required expression; `holder` has the last field of `path`."""
    field = path.rpartition(".")[2]
    text = holder.get(field) or ""
    if not text.strip():
        # Of match conditions and mutations a real server does not say what is missing.
        said = not any(part in path for part in ("matchConditions[", "mutations["))
        yield value_required(path, f"{field} is not specified" if said else "")
    elif fault := rules.fault(text, result):
        yield value_invalid(path, text, fault)

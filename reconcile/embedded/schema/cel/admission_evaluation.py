"""The evaluation of the expressions of admission webhooks and policies for one request."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import define, field, frozen
from cel_expr_python import cel

from informers.apimachinery.name_rules import label_faults, subdomain_faults
from reconcile.embedded.schema.cel.admission_programs import (
    AdmissionProgram,
    Callbacks,
    missing_member,
)
from reconcile.embedded.schema.cel.cel_rules import RuleError
from reconcile.embedded.schema.cel.cost import (
    READS_VARIABLE,
    Actual,
    Bound,
    cost,
    depends_on_sizes,
    result_bound,
)
from reconcile.embedded.schema.cel.error_words import in_words_of_go
from reconcile.embedded.schema.cel.library import BUDGET_EXCEEDED, handed_back, reset_meter

MAX_CALL: Final = 1_000_000
"""Units that one expression may cost (PerCallLimit of k8s.io/apiserver)."""

MAX_POLICY: Final = 10_000_000
"""Units of all expressions of a policy for one binding and parameter (RuntimeCELCostBudget)."""

MAX_CONDITIONS: Final = 2_500_000
"""Units of all match conditions of a webhook or policy (RuntimeCELCostBudgetMatchConditions)."""

MAX_NESTING: Final = 64
"""Variables of which each reads the next one; a real server has no limit, and a larger stack."""

_NOTHING: Final = Actual([None])
_AN_EXPRESSION: Final = 100
_EXHAUSTED: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
_TOO_LONG: Final = "operation cancelled: actual cost limit exceeded"
_NO_MEMBER: Final = "Applying SELECT to non-message type"


class ExpressionFailed(Exception):
    """An expression has no value; the text is that of a real server."""


class BudgetSpent(Exception):
    """The expressions would take too long; the text is that of a real server."""

    def __init__(self) -> None:
        super().__init__(_EXHAUSTED)


@frozen
class Decision:
    """Whether a user may do what an expression asks about."""

    allowed: bool
    reason: str = ""


Decide = Callable[[Mapping[str, str], str], Decision]
"""Called with what `authorizer` stands for and a verb; see `authorizer_of`."""


@define
class Evaluation:
    """One request as the expressions of one webhook or policy see it; variables keep their values."""

    values: Mapping[str, Any]
    """What expressions may read, by name; `authorizer` is added here."""
    decide: Decide
    variables: Mapping[str, AdmissionProgram] = field(factory=dict)
    left: int = MAX_POLICY
    _made: dict[str, Any] = field(factory=dict)
    _making: list[str] = field(factory=list)
    _bounds: dict[str, Bound] = field(factory=dict)

    def value(self, program: AdmissionProgram) -> Any:
        """The value of an expression, as in JSON but for times, bytes and values of Kubernetes' own types.

        Raises ExpressionFailed if it has none, and BudgetSpent if there are no units left.
        """
        outer, _CURRENT.evaluation = _CURRENT.evaluation, self
        try:
            return self._run(program)
        except ValueError as error:
            raise ExpressionFailed(f"expression '{program.text}' resulted in error: {error}") from None
        finally:
            _CURRENT.evaluation = outer

    def read(self, name: str) -> Any:
        """The value of a variable, computed once. Raises ValueError if it fails."""
        if name not in self._made:
            self._made[name] = self._computed(name)
        made = self._made[name]
        if isinstance(made, ValueError):
            raise made
        return made

    def _computed(self, name: str) -> Any:
        if name in self._making:
            return _failed(name, "it reads itself")
        if len(self._making) >= MAX_NESTING:
            return _failed(name, f"variables may read one another {MAX_NESTING} deep here")
        self._making.append(name)
        try:
            return handed_back(self._run(self.variables[name]))
        except (ValueError, BudgetSpent) as error:
            return _failed(name, str(error))
        finally:
            self._making.pop()

    def _run(self, program: AdmissionProgram) -> Any:
        try:
            expression, tree = program.program, program.tree
        except RuleError as error:
            raise ValueError(str(error)) from None
        self._take(cost(tree, self._known(program)) if depends_on_sizes(tree) else 0)
        if not self._making:
            reset_meter()
        try:
            result = expression.eval(data=self.values)
            if result.type() == cel.Type.ERROR:
                raise ValueError(self._said(program, str(result.value())))
            return result.plain_value()
        except (RuntimeError, TypeError, SystemError) as error:
            raise ValueError(self._said(program, str(error).partition(" [")[0])) from None

    def _take(self, units: int) -> None:
        self.left -= _AN_EXPRESSION + min(units, MAX_CALL)
        if self.left < 0:
            raise BudgetSpent
        if units > MAX_CALL:
            raise ValueError(_TOO_LONG)

    def _known(self, program: AdmissionProgram) -> dict[str, Bound]:
        known: dict[str, Bound] = {name: Actual([value]) for name, value in self.values.items()}
        for name in program.variables:
            known[f"{READS_VARIABLE}{name}"] = self._bound(name, ())
        return known

    def _bound(self, name: str, reading: tuple[str, ...]) -> Bound:
        """How large a variable may be that has not been computed yet."""
        if name in self._bounds:
            return self._bounds[name]
        program = self.variables.get(name)
        if program is None or name in reading or len(reading) > MAX_NESTING:
            return _NOTHING
        try:
            inside = program.variables
        except RuleError:
            return _NOTHING  # it fails when it is read
        known: dict[str, Bound] = {key: Actual([value]) for key, value in self.values.items()}
        for inner in inside:
            known[f"{READS_VARIABLE}{inner}"] = self._bound(inner, (*reading, name))
        self._bounds[name] = found = result_bound(program.tree, known)
        return found

    def _said(self, program: AdmissionProgram, text: str) -> str:
        why = text.partition(": ")[2] or text
        if self.left < 0:
            raise BudgetSpent
        if BUDGET_EXCEEDED in why:
            return _TOO_LONG
        if why.startswith(_NO_MEMBER):
            name = missing_member(program.tree, self.values)
            return "no such overload" if name is None else f"no such key: {name}"
        return in_words_of_go(why)


def _failed(name: str, why: str) -> ValueError:
    return ValueError(f'composited variable "{name}" fails to evaluate: {why}')


# --- what expressions call ----------------------------------------------------------------------


class _CelCurrent(threading.local):
    # Each thread evaluates one expression at a time.
    evaluation: Evaluation | None = None


_CURRENT: Final = _CelCurrent()


def _evaluating() -> Evaluation:
    if _CURRENT.evaluation is None:
        raise ValueError("no request is being evaluated")
    return _CURRENT.evaluation


def authorizer_of(**members: str) -> dict[str, str]:
    """A value of `authorizer`: what is asked about so far, by the names of Attributes.

    `account` is `namespace/name` of a service account, if it is asked about one.
    """
    return {"authorizer": "", **members}


def _with(member: str, required: bool = False) -> Callable[[dict[str, str], str], dict[str, str]]:
    def extended(held: dict[str, str], text: str) -> dict[str, str]:
        if required and not text.strip():
            raise ValueError(f"{member} must not be empty")
        return {**held, member: text}

    return extended


def _account(held: dict[str, str], namespace: str, name: str) -> dict[str, str]:
    if subdomain_faults(name):
        raise ValueError("Invalid service account name")
    if label_faults(namespace):
        raise ValueError("Invalid service account namespace")
    return {**held, "account": f"{namespace}/{name}"}


def _check(held: dict[str, str], verb: str) -> dict[str, Any]:
    decision = _evaluating().decide(held, verb)
    return {"allowed": decision.allowed, "reason": decision.reason}


CALLBACKS: Final = Callbacks(
    lambda name: _evaluating().read(name),
    (
        ("path", "map", ("text",), "map", _with("path", required=True)),
        ("group", "map", ("text",), "map", _with("group")),
        ("serviceAccount", "map", ("text", "text"), "map", _account),
        ("resource", "map", ("text",), "map", _with("resource", required=True)),
        *(
            (name, "map", ("text",), "map", _with(name))
            for name in ("subresource", "namespace", "name", "fieldSelector", "labelSelector")
        ),
        ("check", "map", ("text",), "map", _check),
        ("allowed", "map", (), "flag", lambda decision: decision["allowed"]),
        ("errored", "map", (), "flag", lambda decision: False),
        ("error", "map", (), "text", lambda decision: ""),
        ("reason", "map", (), "text", lambda decision: decision["reason"]),
        ("jsonpatch.escapeKey", "", ("text",), "text", lambda key: key.replace("~", "~0").replace("/", "~1")),
    ),
)


def program_for(
    text: str, optional: frozenset[str] = frozenset(), *, lists: bool = False
) -> AdmissionProgram:
    """An expression that may read these optional variables; `lists` says that its value is optional too."""
    return AdmissionProgram(text, CALLBACKS, optional, lists)

"""The expressions of stored webhooks and policies: compiled once, evaluated for each request."""

import re
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, field, frozen

from reconcile.embedded.auth import Access, Attributes, User
from reconcile.embedded.auth.users import service_account, service_account_groups
from reconcile.embedded.schema.optional_rules import admission_evaluation, admission_expressions

if TYPE_CHECKING:
    from reconcile.embedded.schema.cel.admission_evaluation import Decision, Evaluation
    from reconcile.embedded.schema.cel.admission_programs import AdmissionProgram

# What makes optional values: without it no types have to be found, which takes a compilation each.
_OPTIONAL: Final = re.compile(r"\?|optional|\b(?:validate|named|first|last)\b")
_OF_NAMESPACE: Final = (
    *("name", "generateName", "namespace", "labels", "annotations", "uid", "creationTimestamp"),
    *("deletionGracePeriodSeconds", "deletionTimestamp", "generation", "resourceVersion", "finalizers"),
)


@cache
def evaluates() -> bool:
    """Whether there is CEL: without the extra `embedded` no expression is evaluated."""
    return admission_evaluation() is not None


class ExpressionError(Exception):
    """An expression failed, or all of them took too long; the text is that of a real server."""


class Exhausted(ExpressionError):
    """The expressions of one webhook or policy took too long, and no further ones are evaluated."""


@frozen
class ExpressionInput:
    """What expressions may read of one request."""

    request: Mapping[str, Any]
    """The request of an AdmissionReview; its `object` and `oldObject` are not read."""
    object: Mapping[str, Any] | None
    old: Mapping[str, Any] | None
    user: User
    access: Access
    namespace: Mapping[str, Any] | None = None
    """The Namespace of the object; None for webhooks, and where there is none."""
    params: Mapping[str, Any] | None = None

    def values(self) -> dict[str, Any]:
        """The variables of CEL, by name."""
        hidden = ("uid", "object", "oldObject")
        request = {name: value for name, value in self.request.items() if name not in hidden}
        return {
            "object": self.object,
            "oldObject": self.old,
            "params": self.params,
            "request": {name: value for name, value in request.items() if value not in ("", None)},
            "namespaceObject": None if self.namespace is None else _shown_namespace(self.namespace),
            "authorizer": {"authorizer": ""},
            "authorizer.requestResource": _request_resource(self.request),
        }

    def decide(self, asked: Mapping[str, str], verb: str) -> "Decision":
        """Whether the user, or the service account that is asked about, may do this."""
        from reconcile.embedded.schema.cel.admission_evaluation import Decision

        namespace, slash, name = asked.get("account", "").partition("/")
        user = self.user
        if slash:  # with the groups of its own alone, as a real server asks for it
            user = evolve(service_account(namespace, name), groups=service_account_groups(namespace))
        where = {name: asked.get(name, "") for name in ("group", "resource", "subresource", "namespace")}
        act = Attributes(
            user, verb, **where, version="*", name=asked.get("name", ""), path=asked.get("path", "")
        )
        found = self.access.decide(act)
        return Decision(found.allowed, found.reason)


def _shown_namespace(namespace: Mapping[str, Any]) -> dict[str, Any]:
    metadata = namespace.get("metadata") or {}
    shown = {name: namespace[name] for name in ("spec", "status") if name in namespace}
    return {"metadata": {name: metadata[name] for name in _OF_NAMESPACE if name in metadata}, **shown}


def _request_resource(request: Mapping[str, Any]) -> dict[str, str]:
    resource = request.get("requestResource") or request.get("resource") or {}
    return {
        "authorizer": "",
        "group": resource.get("group", ""),
        "resource": resource.get("resource", ""),
        "subresource": request.get("requestSubResource") or "",
        "namespace": request.get("namespace") or "",
        "name": request.get("name") or "",
    }


@frozen(slots=False)
class ExpressionSet:
    """The expressions of one stored webhook or policy; each is compiled when it first runs."""

    variables: tuple[tuple[str, str], ...] = ()
    """Names and expressions, in order."""
    _programs: dict[str, "AdmissionProgram"] = field(factory=dict, eq=False, repr=False)

    def begin(self, given: ExpressionInput, budget: int | None = None) -> "Evaluated":
        """Begin to evaluate for one request, with a budget in units of cost, by default that of a policy."""
        from reconcile.embedded.schema.cel.admission_evaluation import MAX_POLICY, Evaluation

        units = MAX_POLICY if budget is None else budget
        return Evaluated(self, Evaluation(given.values(), given.decide, self._variables, units))

    def program(self, text: str) -> "AdmissionProgram":
        """The compiled form of an expression of the set."""
        from reconcile.embedded.schema.cel.admission_evaluation import program_for

        known = self._programs.get(text)
        if known is None:
            known = self._programs[text] = program_for(text, self._optional)
        return known

    @cached_property
    def _variables(self) -> dict[str, "AdmissionProgram"]:
        from reconcile.embedded.schema.cel.admission_evaluation import program_for

        return {
            name: program_for(text, self._optional, lists=name in self._optional)
            for name, text in self.variables
        }

    @cached_property
    def _optional(self) -> frozenset[str]:
        cel = admission_expressions()
        if cel is None or not any(_OPTIONAL.search(text) for _, text in self.variables):
            return frozenset()
        known = cel.Expressions(params=True, composes=True)
        for name, text in self.variables:
            known = known.with_variable(name, text)
        found: frozenset[str] = known.optional
        return found


@frozen
class Evaluated:
    """The expressions of a set for one request; variables keep their values."""

    expressions: ExpressionSet
    _evaluation: "Evaluation"

    def value(self, text: str) -> Any:
        """The value of an expression. Raises ExpressionError; Exhausted if no cost is left."""
        from reconcile.embedded.schema.cel.admission_evaluation import BudgetSpent, ExpressionFailed

        try:
            return self._evaluation.value(self.expressions.program(text))
        except ExpressionFailed as error:
            raise ExpressionError(str(error)) from None
        except BudgetSpent as error:
            raise Exhausted(str(error)) from None


# --- match conditions ---------------------------------------------------------------------------


@frozen(slots=False)
class MatchConditions:
    """The matchConditions of a stored webhook or policy."""

    texts: tuple[str, ...]
    _expressions: ExpressionSet = field(factory=ExpressionSet, eq=False, repr=False)

    @classmethod
    def of(cls, entries: Sequence[Mapping[str, Any]] | None) -> "MatchConditions":
        """Those of a field `matchConditions`; None is none."""
        return cls(tuple(entry.get("expression") or "" for entry in entries or ()))

    def hold(self, given: ExpressionInput) -> bool:
        """Whether all of them hold; true without CEL.

        One that is false decides, whatever else fails. Raises ExpressionError, with all errors in its text.
        """
        if not self.texts or not evaluates():
            return True
        from reconcile.embedded.schema.cel.admission_evaluation import MAX_CONDITIONS

        evaluated = self._expressions.begin(given, MAX_CONDITIONS)
        errors: dict[str, None] = {}
        for text in self.texts:
            try:
                if evaluated.value(text) is False:
                    return False
            except Exhausted:
                raise
            except ExpressionError as error:
                errors[str(error)] = None
        if errors:
            raise ExpressionError(f"[{', '.join(errors)}]" if len(errors) > 1 else next(iter(errors)))
        return True

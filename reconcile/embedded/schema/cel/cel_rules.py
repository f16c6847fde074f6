"""The rules of a schema (`x-kubernetes-validations`): read, checked against the types, and compiled."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final

import msgspec
from attrs import evolve, field, frozen
from cel_expr_python import cel
from google.protobuf.descriptor_pool import DescriptorPool

from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.schema.cel.cel_types import KEYED_LIST, CelShape, Types, cel_type
from reconcile.embedded.schema.cel.checked_tree import checked_tree
from reconcile.embedded.schema.cel.cost import Actual, cost, depends_on_sizes
from reconcile.embedded.schema.cel.declared import Declared, declared
from reconcile.embedded.schema.cel.library import checking_config, extensions, running_functions
from reconcile.embedded.schema.cel.rewriting import adds, checkable, literal_calls, runnable
from reconcile.embedded.schema.cel.rule_costs import Checked, RulePlace, TotalCost, places
from reconcile.embedded.schema.cel.static_cost import static_cost
from reconcile.embedded.schema.cel.syntax import Expr, tree
from reconcile.embedded.schema.checks import invalid
from reconcile.embedded.schema.schema_error import SchemaError

MAX_RULES: Final = 1000
"""How many rules a schema may have; each takes about a millisecond to compile."""

_HELD, FORMER = "__old_held", "__old_value"
_OLD = re.compile(r"\boldSelf\b")
_ADDED_TO = re.compile(rf"for '(?:_\+_|_\?_:_|orValue|or)' applied to '[^']*{re.escape(KEYED_LIST)}")
_OWN_NAME = re.compile(r"\b(indexOf|lastIndexOf)_")
_ADDS_LISTS: Final = (
    "this server cannot evaluate '+' on lists of type set or map, where it would append and Kubernetes merges"
)


class RuleError(SchemaError):
    """A rule that does not compile; the text says where and why."""


@frozen(slots=False)
class CelRule:
    """One entry of `x-kubernetes-validations`."""

    text: str
    message: str = ""
    message_expression: str = ""
    reason: str = "FieldValueInvalid"
    field_path: str = ""
    optional_old: bool = False

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> "CelRule":
        return cls(
            entry.get("rule", ""),
            entry.get("message", ""),
            entry.get("messageExpression", ""),
            entry.get("reason") or "FieldValueInvalid",
            entry.get("fieldPath", ""),
            bool(entry.get("optionalOldSelf")),
        )

    @property
    def uses_old(self) -> bool:
        return _OLD.search(self.text) is not None

    def wrapped(self, text: str) -> str:
        """The expression, with `oldSelf` bound to an optional value where the rule asks for one."""
        if not self.optional_old:
            return text
        held = f"{_HELD} ? optional.of({FORMER}) : optional.none()"
        return f"cel.bind(oldSelf, {held}, {text}\n)"


@frozen
class Checker:
    """The type checker for the rules about one place."""

    pool: DescriptorPool
    shape: CelShape
    declared: Declared
    marked: "Checker | None" = None
    """The same, where lists of type set and map have a type without operations."""
    _environments: dict[tuple[str, ...], cel.Env] = field(factory=dict)

    def check(self, rule: CelRule) -> Checked:
        """The compiled rule. Raises RuleError if it does not compile or is not a bool."""
        return self._expect(rule, rule.text, cel.Type.BOOL, "cel expression must evaluate to a bool")

    def check_message(self, rule: CelRule) -> Checked:
        """Its compiled `messageExpression`. Raises RuleError if it does not compile or is not a string."""
        why = "messageExpression must evaluate to a string"
        return self._expect(rule, rule.message_expression, cel.Type.STRING, why)

    def _expect(self, rule: CelRule, text: str, wanted: cel.Type, why: str) -> Checked:
        words = rule.wrapped(checkable(text))
        expression = compiled(self._environment(rule), words)
        if expression.return_type() != wanted:
            raise RuleError(why)
        compiled(running_environment(), rule.wrapped(runnable(text)))
        check_literals(text)
        if self.marked is not None and adds(text):
            self.marked.refuse_additions(rule, words)
        tree = checked_tree(expression)
        # The rule is the result of the binding that holds its old value.
        held = tree.parts[-1] if rule.optional_old else tree
        return Checked(static_cost(held, self.declared), self.declared)

    def refuse_additions(self, rule: CelRule, words: str) -> None:
        """Raises RuleError if a rule adds to a list of type set or map; the types must be marked."""
        try:
            self._environment(rule).compile(words)
        except RuntimeError as error:
            if _ADDED_TO.search(str(error)):
                raise RuleError(_ADDS_LISTS) from None

    def _environment(self, rule: CelRule) -> cel.Env:
        kind = cel_type(self.shape)
        variables = {"self": kind}
        if rule.optional_old:
            variables |= {_HELD: cel.Type.BOOL, FORMER: kind}
        elif rule.uses_old:
            variables["oldSelf"] = kind
        names = tuple(variables)
        if names not in self._environments:
            self._environments[names] = cel.NewEnv(
                descriptor_pool=self.pool,
                config=_checking_config(binds=rule.optional_old),
                variables=variables,
            )
        return self._environments[names]


@lru_cache(maxsize=2)
def _checking_config(*, binds: bool) -> cel.EnvConfig:
    return cel.NewEnvConfigFromYaml(checking_config(binds=binds))


def check_literals(text: str) -> None:
    """Raises RuleError if a time or a pattern that is a literal is malformed."""
    for name, literal in literal_calls(text):
        pattern = name not in ("duration", "timestamp")
        program = compiled(
            running_environment(), f"''.matches({literal})" if pattern else f"{name}({literal})"
        )
        result = program.eval(data={})
        if result.type() == cel.Type.ERROR:
            why = str(result.value()).partition(": ")[2]
            raise RuleError(f"compilation failed: invalid {'matches' if pattern else name} argument: {why}")


@lru_cache(maxsize=1)
def running_environment() -> cel.Env:
    """The environment that rules run in, without types: those were checked before."""
    names = ("self", "oldSelf", FORMER)
    variables = dict.fromkeys(names, cel.Type.DYN) | {_HELD: cel.Type.BOOL}
    config = msgspec.json.encode({"name": "kubernetes", "extensions": extensions(binds=True)})
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(config.decode()), variables=variables, functions=running_functions()
    )


def compiled(environment: cel.Env, text: str) -> cel.Expression:
    """Raises RuleError if the expression does not compile."""
    try:
        return environment.compile(text)
    except RuntimeError as error:
        first = str(error).partition("\n")[0].removeprefix("INVALID_ARGUMENT: ")
        message = _OWN_NAME.sub(r"\1", first)
        raise RuleError(f"compilation failed: {message}") from None


@frozen(slots=False)
class RuleProgram:
    rule: CelRule
    text: str

    @cached_property
    def program(self) -> cel.Expression:
        return compiled(running_environment(), self.rule.wrapped(runnable(self.text)))

    @cached_property
    def _sized(self) -> Expr | None:
        """The tree of an expression whose cost depends on values; None for others, which are most."""
        found = tree(self.program)
        return found if depends_on_sizes(found) else None

    def cost(self, value: Any, old: Any) -> int:
        """The most units that it costs for a value, beyond the cost of every evaluation."""
        if self._sized is None:
            return 0
        now, before = Actual([value]), Actual([old])
        return cost(self._sized, {"self": now, "oldSelf": before, FORMER: before})


@frozen(slots=False)
class BoundRule:
    rule: CelRule

    @cached_property
    def condition(self) -> RuleProgram:
        return RuleProgram(self.rule, self.rule.text)

    @cached_property
    def message(self) -> RuleProgram | None:
        text = self.rule.message_expression
        return RuleProgram(self.rule, text) if text else None

    def variables(self, value: Any, old: Any, *, held: bool) -> dict[str, Any]:
        if self.rule.optional_old:
            return {"self": value, _HELD: held, FORMER: old}
        return {"self": value, "oldSelf": old}


# --- when a schema is defined -----------------------------------------------------------------


def check_rules(
    openapi: Mapping[str, Any], path: str, blocked: Sequence[str] = (), *, costs: bool = True
) -> Iterator[FieldCause]:
    """The faults of the rules of a schema; `path` is its place, with which the causes begin.

    Rules are not compiled where something at or below their place is `blocked`, which has other faults.
    A rule that a real server accepts and this one cannot evaluate is a fault too, whose message says so.
    """
    below = tuple(place.removeprefix(path) for place in blocked if place.startswith(path))
    for cause in _faults_of(msgspec.json.encode(openapi), below, costs):
        yield evolve(cause, field=path + cause.field)


@lru_cache(maxsize=16)
def _faults_of(encoded: bytes, blocked: tuple[str, ...], costs: bool) -> tuple[FieldCause, ...]:
    # Cached, since a definition is checked several times for one write, and compiling takes time.
    openapi = msgspec.json.decode(encoded)
    found = [place for place in places(openapi) if not any(_is_at(place.path, at) for at in blocked)]
    count = sum(len(place.schema["x-kubernetes-validations"]) for place in found)
    if count > MAX_RULES:
        why = f"Too many: {count}: a schema may have at most {MAX_RULES} rules"
        return (FieldCause("FieldValueTooMany", why, ""),)
    checkers = _checkers(openapi, [place.schema for place in found])
    total = TotalCost(each=costs)
    faults = [
        cause
        for place, checker in zip(found, checkers, strict=True)
        for cause in _place_faults(checker, place, total)
    ]
    return (*faults, *total.causes())


def _is_at(place: str, blocked: str) -> bool:
    """Whether a fault is at a place or below."""
    return blocked == place or blocked.startswith((f"{place}.", f"{place}["))


def _checkers(openapi: Mapping[str, Any], ruled: Sequence[Mapping[str, Any]]) -> list[Checker | None]:
    plain = _typed(openapi, ruled, marked=False)
    entries = (entry for schema in ruled for entry in schema["x-kubernetes-validations"])
    if not any(adds(entry.get("rule", "") + entry.get("messageExpression", "")) for entry in entries):
        return plain
    return [
        None if checker is None else evolve(checker, marked=other)
        for checker, other in zip(plain, _typed(openapi, ruled, marked=True), strict=True)
    ]


def _typed(
    openapi: Mapping[str, Any], ruled: Sequence[Mapping[str, Any]], *, marked: bool
) -> list[Checker | None]:
    types = Types(marked=marked)
    shapes = [types.shape(schema, is_object=schema is openapi) for schema in ruled]
    pool = types.pool()
    kinds = [declared(schema, is_object=schema is openapi) for schema in ruled]
    return [
        None if shape is None or kind is None else Checker(pool, shape, kind)
        for shape, kind in zip(shapes, kinds, strict=True)
    ]


def _place_faults(checker: Checker | None, place: RulePlace, total: TotalCost) -> Iterator[FieldCause]:
    if checker is None:
        why = "Internal error: failed to construct type information for x-kubernetes-validations rules"
        yield FieldCause("InternalError", why, f"{place.path}.x-kubernetes-validations")
        return
    for index, entry in enumerate(place.schema["x-kubernetes-validations"]):
        where = f"{place.path}.x-kubernetes-validations[{index}]"
        yield from _rule_faults(checker, entry, where, place, total)


def _rule_faults(
    checker: Checker, entry: Mapping[str, Any], where: str, place: RulePlace, total: TotalCost
) -> Iterator[FieldCause]:
    rule, field, text, compiles = CelRule.read(entry), f"{where}.rule", entry.get("rule", ""), True
    try:
        yield from total.add(field, checker.check(rule), place)
        if rule.message_expression.strip():
            field, text = f"{where}.messageExpression", rule.message_expression
            yield from total.add(field, checker.check_message(rule), place, repeats=False)
    except RuleError as error:
        # A message of a rule that does not compile is not looked at.
        compiles = field.endswith("messageExpression")
        yield invalid(field, text, str(error))
    if compiles and rule.uses_old:
        if not place.comparable:
            why = "oldSelf cannot be used on the uncorrelatable portion of the schema"
            yield invalid(f"{where}.rule", rule.text, why)
    elif entry.get("optionalOldSelf") is not None:
        why = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{where}.optionalOldSelf", entry["optionalOldSelf"], why)


_FIELD_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\['([^']+)'\]|\[\"([^\"]+)\"\]")


def field_steps(path: str) -> list[str] | None:
    """The names in a `fieldPath`; None if it is malformed."""
    steps: list[str] = []
    at = 0
    while at < len(path):
        found = _FIELD_STEP.match(path, at)
        if found is None:
            return None
        steps.append(found[1] or found[2] or found[3])
        at = found.end()
    return steps

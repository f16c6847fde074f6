"""The rules of a schema (`x-kubernetes-validations`): read, checked against the types, and made to run."""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final

import msgspec
from attrs import evolve, field, frozen
from cel_expr_python import cel
from google.protobuf.descriptor_pool import DescriptorPool

from reconcile.embedded.schema.cel.library import NOT_EVALUATED, declarations
from reconcile.embedded.schema.cel.types import Shape, Types, cel_type
from reconcile.embedded.schema.values import quoted
from reconcile.embedded.status import FieldCause

REASONS: Final = (
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
)
MAX_STEPS: Final = 10_000
"""The iterations of loops that the evaluation of one rule may take; the library enforces it."""

_HELD, _FORMER = "__old_held", "__old_value"
_OLD = re.compile(r"\boldSelf\b")
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'")
_INDEX_IN_LIST = re.compile(r"no matching overload for '(?:lastI|i)ndexOf' applied to '\(list")
_LOOP = re.compile(r"\.(?:all|exists|exists_?[oO]ne|map|filter|sortBy|transform\w+)\s*\(")
_MAP_MADE = re.compile(r"\.transformMap(?:Entry)?\s*\(")
_EXTENSIONS: Final = ("strings", "sets", "optional", "two-var-comprehensions")


class RuleError(Exception):
    """A rule that does not compile; the text says where and why."""


class NotEvaluated(RuleError):
    """A rule that a real server takes and this one cannot evaluate."""


@frozen
class Rule:
    """One entry of `x-kubernetes-validations`."""

    text: str
    message: str = ""
    message_expression: str = ""
    reason: str = "FieldValueInvalid"
    field_path: str = ""
    optional_old: bool = False

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> "Rule":
        """From its JSON."""
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
        """Whether it compares with the value before."""
        return _OLD.search(self.text) is not None

    @property
    def loops(self) -> int:
        """How many loops there are, and so how deep they may be nested."""
        return len(_LOOP.findall(self.text)) + len(_LOOP.findall(self.message_expression))

    def wrapped(self, text: str) -> str:
        """The expression with what `oldSelf` stands for."""
        if not self.optional_old:
            return text
        held = f"{_HELD} ? optional.of({_FORMER}) : optional.none()"
        return f"cel.bind(oldSelf, {held}, {text}\n)"


@frozen
class Checker:
    """The type checker for the rules about one place."""

    pool: DescriptorPool
    shape: Shape
    _environments: dict[tuple[str, ...], cel.Env] = field(factory=dict)

    def check(self, rule: Rule) -> None:
        """See that the rule answers true or false.

        Raises:
            RuleError: It does not compile.
        """
        self._expect(rule, rule.text, cel.Type.BOOL, "cel expression must evaluate to a bool")

    def check_message(self, rule: Rule) -> None:
        """See that its `messageExpression` gives a text.

        Raises:
            RuleError: It does not compile.
        """
        why = "messageExpression must evaluate to a string"
        self._expect(rule, rule.message_expression, cel.Type.STRING, why)

    def _expect(self, rule: Rule, text: str, wanted: cel.Type, why: str) -> None:
        kind = cel_type(self.shape)
        variables = {"self": kind}
        if rule.optional_old:
            variables |= {_HELD: cel.Type.BOOL, _FORMER: kind}
        elif rule.uses_old:
            variables["oldSelf"] = kind
        names = tuple(variables)
        if names not in self._environments:
            self._environments[names] = _environment(
                variables, self.pool, opaque=True, binds=rule.optional_old
            )
        if compiled(self._environments[names], rule.wrapped(text)).return_type() != wanted:
            raise RuleError(why)
        if _MAP_MADE.search(text):
            raise NotEvaluated("transformMap and transformMapEntry cannot be evaluated")
        compiled(running_environment(), rule.wrapped(text))


def _environment(
    variables: Mapping[str, cel.Type], pool: DescriptorPool | None, *, opaque: bool, binds: bool
) -> cel.Env:
    extensions = (*_EXTENSIONS, "bindings") if binds else _EXTENSIONS
    lines = "".join(f"- name: {name}\n" for name in extensions)
    return cel.NewEnv(
        descriptor_pool=pool,
        config=cel.NewEnvConfigFromYaml(f"name: kubernetes\nextensions:\n{lines}"),
        variables=variables,
        functions=declarations(opaque=opaque),
    )


@lru_cache(maxsize=1)
def running_environment() -> cel.Env:
    """Where rules run: the types were checked before, values are what they are."""
    names = ("self", "oldSelf", _FORMER)
    variables = dict.fromkeys(names, cel.Type.DYN) | {_HELD: cel.Type.BOOL}
    return _environment(variables, None, opaque=False, binds=True)


def compiled(environment: cel.Env, text: str) -> cel.Expression:
    """The expression.

    Raises:
        RuleError: It does not compile.
    """
    try:
        return environment.compile(text)
    except RuntimeError as error:
        first = str(error).partition("\n")[0].removeprefix("INVALID_ARGUMENT: ")
        unknown = _UNDECLARED.search(first)
        missing = (unknown and unknown[1] in NOT_EVALUATED) or _INDEX_IN_LIST.search(first)
        kind = NotEvaluated if missing else RuleError
        raise kind(f"compilation failed: {first}") from None


@frozen(slots=False)
class BoundRule:
    """A rule with what it takes to run it."""

    rule: Rule

    @cached_property
    def program(self) -> cel.Expression:
        """The rule, compiled when it first runs."""
        return compiled(running_environment(), self.rule.wrapped(self.rule.text))

    @cached_property
    def message_program(self) -> cel.Expression | None:
        """Its message, where that is an expression."""
        if not self.rule.message_expression:
            return None
        return compiled(running_environment(), self.rule.wrapped(self.rule.message_expression))

    def variables(self, value: Any, old: Any, *, held: bool) -> dict[str, Any]:
        """What the rule sees."""
        if self.rule.optional_old:
            return {"self": value, _HELD: held, _FORMER: old}
        return {"self": value, "oldSelf": old}


# --- when a schema is defined -----------------------------------------------------------------


def check_rules(openapi: Mapping[str, Any], path: str) -> Iterator[FieldCause]:
    """What is wrong about the rules of a schema; `path` is its own, as causes begin with it."""
    for _, cause in _judged(msgspec.json.encode(openapi)):
        if cause is not None:
            yield evolve(cause, field=path + cause.field)


def unevaluated(openapi: Mapping[str, Any]) -> Iterator[str]:
    """Where there are rules that this server cannot evaluate: `spec.x-kubernetes-validations[0].rule`."""
    for place, cause in _judged(msgspec.json.encode(openapi)):
        if cause is None:
            yield place.lstrip(".")


@lru_cache(maxsize=16)
def _judged(encoded: bytes) -> tuple[tuple[str, FieldCause | None], ...]:
    """The faults of rules by place; None for a rule that is right and cannot be evaluated.

    A definition is looked at several times on its way, and compiling is what takes time.
    """
    openapi = msgspec.json.decode(encoded)
    types = Types()
    found = list(places(openapi, ""))
    shapes = [types.shape(schema, is_object=schema is openapi) for _, schema, _ in found]
    pool = types.pool()
    return tuple(
        judgement
        for (place, schema, comparable), shape in zip(found, shapes, strict=True)
        if shape is not None
        for judgement in _judged_place(Checker(pool, shape), schema, place, comparable=comparable)
    )


def _judged_place(
    checker: Checker, schema: Mapping[str, Any], place: str, *, comparable: bool
) -> Iterator[tuple[str, FieldCause | None]]:
    for index, entry in enumerate(schema["x-kubernetes-validations"]):
        where = f"{place}.x-kubernetes-validations[{index}]"
        yield from _judged_rule(checker, entry, where, comparable=comparable)


def places(
    schema: Mapping[str, Any], path: str, *, comparable: bool = True
) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """The parts of a schema that have rules, and whether a value there can be told from one update on."""
    if schema.get("x-kubernetes-validations"):
        yield path, schema, comparable
    for name, member in schema.get("properties", {}).items():
        yield from places(member, f"{path}.properties[{name}]", comparable=comparable)
    if isinstance(schema.get("additionalProperties"), Mapping):
        inner = schema["additionalProperties"]
        yield from places(inner, f"{path}.additionalProperties", comparable=comparable)
    if isinstance(schema.get("items"), Mapping):
        keyed = schema.get("x-kubernetes-list-type") == "map"
        yield from places(schema["items"], f"{path}.items", comparable=comparable and keyed)


def _judged_rule(
    checker: Checker, entry: Mapping[str, Any], where: str, *, comparable: bool
) -> Iterator[tuple[str, FieldCause | None]]:
    rule = Rule.read(entry)
    for cause in _faults(rule, entry, where, comparable=comparable):
        yield where, cause
    if not rule.text.strip():
        return
    try:
        checker.check(rule)
    except NotEvaluated:
        yield f"{where}.rule", None
    except RuleError as error:
        yield where, _invalid(f"{where}.rule", rule.text, str(error))
    if not rule.message_expression.strip():
        return
    try:
        checker.check_message(rule)
    except NotEvaluated:
        yield f"{where}.messageExpression", None
    except RuleError as error:
        yield where, _invalid(f"{where}.messageExpression", rule.message_expression, str(error))


def _faults(rule: Rule, entry: Mapping[str, Any], where: str, *, comparable: bool) -> Iterator[FieldCause]:
    if not rule.text.strip():
        yield FieldCause("FieldValueRequired", "Required value: rule is not specified", f"{where}.rule")
    if "\n" in rule.text.strip() and not rule.message.strip():
        why = "Required value: message must be specified if rule contains line breaks"
        yield FieldCause("FieldValueRequired", why, f"{where}.message")
    if "message" in entry and not rule.message.strip():
        why = "message must be non-empty if specified"
        yield _invalid(f"{where}.message", rule.message, why)
    if "\n" in rule.message.strip():
        yield _invalid(f"{where}.message", rule.message, "message must not contain line breaks")
    if "messageExpression" in entry and not rule.message_expression.strip():
        why = "Required value: messageExpression must be non-empty if specified"
        yield FieldCause("FieldValueRequired", why, f"{where}.messageExpression")
    if rule.reason not in REASONS:
        listed = ", ".join(quoted(reason) for reason in REASONS)
        message = f"Unsupported value: {quoted(rule.reason)}: supported values: {listed}"
        yield FieldCause("FieldValueNotSupported", message, f"{where}.reason")
    if rule.field_path and field_steps(rule.field_path) is None:
        yield _invalid(f"{where}.fieldPath", rule.field_path, "fieldPath must be a valid path")
    if rule.uses_old and not comparable:
        why = "oldSelf cannot be used on the uncorrelatable portion of the schema"
        yield _invalid(f"{where}.rule", rule.text, why)
    if rule.optional_old and not rule.uses_old:
        why = "may not be set unless the rule uses oldSelf"
        yield _invalid(f"{where}.optionalOldSelf", True, why)


_FIELD_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\['([^']+)'\]|\[\"([^\"]+)\"\]")


def field_steps(path: str) -> list[str] | None:
    """The names that a `fieldPath` leads through; None for what is no such path."""
    steps: list[str] = []
    at = 0
    while at < len(path):
        found = _FIELD_STEP.match(path, at)
        if found is None:
            return None
        steps.append(found[1] or found[2] or found[3])
        at = found.end()
    return steps


def _invalid(place: str, value: Any, why: str) -> FieldCause:
    return FieldCause("FieldValueInvalid", f"Invalid value: {quoted(value)}: {why}", place)

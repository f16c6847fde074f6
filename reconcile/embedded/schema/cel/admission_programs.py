"""The expressions of admission as they run, in the words of this server's CEL library.

A variable becomes a call, so that it is computed when it is first read. An object or a patch that an
expression makes becomes a map, which has the name of its type under `TYPE`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final

import msgspec
from attrs import frozen
from cel_expr_python import cel

from reconcile.embedded.schema.cel.cel_rules import compiled
from reconcile.embedded.schema.cel.cel_types import escaped
from reconcile.embedded.schema.cel.cost import READS_VARIABLE
from reconcile.embedded.schema.cel.library import extensions, running_functions
from reconcile.embedded.schema.cel.rewriting import runnable, tokens
from reconcile.embedded.schema.cel.syntax import CelCall, CelLoop, Const, Expr, Made, Select, tree

TYPE: Final = ""
"""The member of a made object with the name of its type; no field has this name."""

_READ: Final = ("object", "oldObject", "params", "request", "namespaceObject", "authorizer")
_REQUEST_RESOURCE: Final = "authorizer.requestResource"
_NULLABLE: Final = frozenset({"object", "oldObject", "params", "namespaceObject"})
_OBJECT, _PATCH = "Object", "JSONPatch"
_OPEN, _CLOSE = "([{", ")]}"
_WHOLE: Final = re.compile(r"\d\w*(?:\.\w*)?(?:(?<=[eE])[+-]\w*)?|[=!<>]=|&&|\|\|")

Callback = tuple[str, str, tuple[str, ...], str, Callable[..., Any]]


@frozen(slots=False)
class AdmissionProgram:
    """One expression of a webhook or policy, compiled when it first runs."""

    text: str
    callbacks: "Callbacks"
    optional: frozenset[str] = frozenset()
    """The variables whose values are optional; they are passed as lists of at most one."""
    lists: bool = False
    """Whether the result is such a value."""

    @cached_property
    def program(self) -> cel.Expression:
        """Raises RuleError if it does not compile."""
        words = _rewritten(self.text, self.optional)
        if self.lists:
            words = f"({words}\n).optMap(found_, [dyn(found_)]).orValue([])"
        return compiled(_environment(self.callbacks), words)

    @cached_property
    def tree(self) -> Expr:
        return tree(self.program)

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names of the variables that it reads."""
        return frozenset(_variables_in(self.tree))


@frozen
class Callbacks:
    """Functions in Python that expressions call: the one for variables, and those of `authorizer`."""

    variable: Callable[[str], Any]
    others: tuple[Callback, ...] = ()
    """Name, kind of the target, kinds of the arguments, kind of the result, function."""


@lru_cache(maxsize=4)
def _environment(callbacks: Callbacks) -> cel.Env:
    variables = dict.fromkeys((*_READ, _REQUEST_RESOURCE), cel.Type.DYN)
    config = msgspec.json.encode({"name": "kubernetes", "extensions": extensions(binds=True)})
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(config.decode()),
        variables=variables,
        functions=[*running_functions(), *_declared(callbacks)],
    )


_KINDS: Final = {
    "map": cel.Type.Map(cel.Type.DYN, cel.Type.DYN),
    "text": cel.Type.STRING,
    "flag": cel.Type.BOOL,
}


def _declared(callbacks: Callbacks) -> Iterator[cel.FunctionDecl]:
    one = cel.Overload(
        f"{READS_VARIABLE}text",
        return_type=cel.Type.DYN,
        parameters=[cel.Type.STRING],
        is_member=False,
        impl=callbacks.variable,
    )
    yield cel.FunctionDecl(READS_VARIABLE, [one])
    for name, target, arguments, result, run in callbacks.others:
        kinds = [_KINDS[kind] for kind in (target, *arguments) if kind]
        overload = cel.Overload(
            f"admission_{name}",
            return_type=_KINDS[result],
            parameters=kinds,
            is_member=bool(target),
            impl=run,
        )
        yield cel.FunctionDecl(name, [overload])


# --- rewriting ----------------------------------------------------------------------------------


def _rewritten(text: str, optional: frozenset[str]) -> str:
    return runnable(" ".join(_with_calls(_with_maps(_words(text)), optional)))


def _words(text: str) -> list[str]:
    """The words and signs of an expression without spaces; a number or an operator is one word."""
    words: list[str] = []
    apart = True
    for token in tokens(text):
        if token.isspace():
            apart = True
            continue
        if not apart and _WHOLE.fullmatch(words[-1] + token):
            words[-1] += token
        else:
            words.append(token)
        apart = False
    return words


def _with_calls(words: Sequence[str], optional: frozenset[str]) -> Iterator[str]:
    """The words with calls for variables, and with `has` that is false for a field of null, as in cel-go."""
    at, end = 0, len(words)
    words = [*words, "", "", ""]  # an expression may end too early
    while at < end:
        if _is_has_of_variable(words, at):
            yield "true"
            at += 6
        elif tuple(words[at : at + 2]) == ("has", "(") and _is_nullable(words, at + 2):
            yield from ("(", words[at + 2], "!=", "null", "&&", *words[at : at + 6], ")")
            at += 6
        elif _is_variable(words, at):
            yield from (READS_VARIABLE, "(", f'"{words[at + 2]}"', ")")
            yield "[?0]" if words[at + 2] in optional else ""
            at += 3
        else:
            yield words[at]
            at += 1


def _is_variable(words: Sequence[str], at: int) -> bool:
    named = words[at] == "variables" and words[at + 1] == "." and words[at + 2].isidentifier()
    return named and not _follows_dot(words, at)


def _is_has_of_variable(words: Sequence[str], at: int) -> bool:
    return tuple(words[at : at + 4]) == ("has", "(", "variables", ".") and words[at + 5 : at + 6] == [")"]


def _is_nullable(words: Sequence[str], at: int) -> bool:
    return words[at] in _NULLABLE and words[at + 1] == "." and words[at + 3 : at + 4] == [")"]


def _follows_dot(words: Sequence[str], at: int) -> bool:
    return list(words[at - 1 : at]) == ["."] or list(words[max(0, at - 2) : at]) == [".", "?"]


def _with_maps(words: Sequence[str]) -> list[str]:
    """The words with a map in place of each `Object.spec{name: value}` and each `JSONPatch{…}`."""
    made: list[str] = []
    brackets: list[bool] = []  # of each open bracket, whether it is that of a made object
    naming = False  # whether the next word may be the name of a field
    at = 0
    while at < len(words):
        end = _end_of_type(words, at)
        if end > at:
            made.extend(("dyn", "(", "{", f'"{TYPE}"', ":", f'"{"".join(words[at:end])}"'))
            if words[end + 1 : end + 2] != ["}"]:
                made.append(",")
            brackets.append(True)
            naming, at = True, end + 1
            continue
        word = words[at]
        if word in _OPEN:
            brackets.append(False)
        made.append(_quoted_name(word) if naming and _is_name(words, at) else word)
        if word in _CLOSE and brackets and brackets.pop():
            made.append(")")
        naming = (word == "," and bool(brackets) and brackets[-1]) or (naming and word == "?")
        at += 1
    return made


def _end_of_type(words: Sequence[str], at: int) -> int:
    """Where the name of a type ends that a brace follows; `at` if none begins there."""
    if words[at] not in (_OBJECT, _PATCH) or _follows_dot(words, at):
        return at
    end = at + 1
    while words[end : end + 1] == ["."] and end + 1 < len(words):
        end += 2
    return end if words[end : end + 1] == ["{"] else at


def _is_name(words: Sequence[str], at: int) -> bool:
    return words[at + 1 : at + 2] == [":"] and words[at] not in (*_OPEN, "?")


def _quoted_name(word: str) -> str:
    return f'"{unescaped(word)}"'


def unescaped(name: str) -> str:
    """The field that a name in an expression stands for."""
    plain = name
    for word, sign in (("__dash__", "-"), ("__dot__", "."), ("__slash__", "/"), ("__underscores__", "__")):
        plain = plain.replace(word, sign)
    if escaped(plain) == name:
        return plain
    keyword = name.removeprefix("__").removesuffix("__")
    return keyword if escaped(keyword) == name else name


# --- reading trees ------------------------------------------------------------------------------


def _variables_in(expr: Expr) -> Iterator[str]:
    if isinstance(expr, CelCall) and expr.function == READS_VARIABLE and isinstance(expr.arguments[0], Const):
        yield str(expr.arguments[0].value)
    for part in _parts(expr):
        yield from _variables_in(part)


def _parts(expr: Expr) -> tuple[Expr, ...]:
    if isinstance(expr, CelCall):
        return expr.arguments
    if isinstance(expr, Select):
        return (expr.operand,)
    if isinstance(expr, Made):
        return expr.members
    if isinstance(expr, CelLoop):
        return (expr.items, expr.start, expr.condition, expr.step, expr.result)
    return ()


def missing_member(expr: Expr, values: Mapping[str, Any]) -> str | None:
    """The first field that is read of a value that has none, such as null; None if it is not known."""
    for part in _parts(expr):
        if (found := missing_member(part, values)) is not None:
            return found
    if isinstance(expr, Select) and not expr.test:
        held, value = _resolved(expr.operand, values)
        if held and not isinstance(value, Mapping):
            return expr.field
    return None


def _resolved(expr: Expr, values: Mapping[str, Any]) -> tuple[bool, Any]:
    if isinstance(expr, Select) and not expr.test:
        held, value = _resolved(expr.operand, values)
        inside = held and isinstance(value, Mapping) and expr.field in value
        return (True, value[expr.field]) if inside else (False, None)
    name = getattr(expr, "name", None)
    return (True, values[name]) if isinstance(name, str) and name in values else (False, None)

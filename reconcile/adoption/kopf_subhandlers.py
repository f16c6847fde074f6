"""The sub-handlers that the source of a handler registers: by decorator, by `register` and by `execute`.

An id counts as known if it is a literal, or the name of a function.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from attrs import field, frozen

Resolve: TypeAlias = Callable[[ast.expr], str]
"""The name of the function of kopf that an expression stands for; empty if it is none of kopf's."""

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@frozen
class SubHandlers:
    """`ids` are those that are known, each once, by the names that a person gave them: kopf's are longer for
    functions inside of others. `others`: some are known to a call alone.
    """

    ids: Mapping[str, str] = field(factory=dict)
    others: bool = False


def subhandlers_in(
    tree: ast.FunctionDef | ast.AsyncFunctionDef, resolve: Resolve, qualified: str
) -> SubHandlers:
    """The sub-handlers of a function of that qualified name, in the order of its lines."""
    inner = [node for node in ast.walk(tree) if isinstance(node, (*FUNCTIONS, ast.Call)) and node is not tree]
    local = {node.name for node in inner if isinstance(node, FUNCTIONS)}
    found = [one for node in sorted(inner, key=_position) for one in _registered(node, resolve)]
    ids: dict[str, str] = {}
    for one in found:
        if one is not None:
            nested = one.is_function and one.name in local
            ids.setdefault(one.name, f"{qualified}.<locals>.{one.name}" if nested else one.name)
    return SubHandlers(ids, None in found)


@frozen
class _Id:
    """An id that was given, or the name of a function in its place."""

    name: str
    is_function: bool = False


def _position(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Call) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _registered(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Call, resolve: Resolve
) -> Iterator[_Id | None]:
    """The ids that a function or a call registers; None for those that only a call knows."""
    if isinstance(node, ast.Call):
        name = resolve(node.func)
        if name == "register":
            yield _id_of(node, _argument(node, "fn", 0))
        elif name == "execute":
            yield from _executed(node)
        return
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        if resolve(decorator if call is None else call.func) == "subhandler":
            yield _Id(node.name, True) if call is None else _id_of(call, ast.Name(node.name))


def _id_of(call: ast.Call, function: ast.expr | None) -> _Id | None:
    given = _argument(call, "id")
    if given is None or (isinstance(given, ast.Constant) and given.value is None):
        return _by_name(function)
    return _text(given)


def _by_name(function: ast.expr | None) -> _Id | None:
    return _Id(function.id, True) if isinstance(function, ast.Name) else None


def _executed(call: ast.Call) -> Iterator[_Id | None]:
    """Those of `execute(fns={"id": function})` and `execute(fns=[function])`; none without arguments."""
    functions = _argument(call, "fns")
    if functions is None:
        yield from (None for one in call.keywords if one.arg in ("handlers", "registry", None))
    elif isinstance(functions, ast.Dict):
        yield from (_text(key) for key in functions.keys)
    elif isinstance(functions, ast.List | ast.Tuple | ast.Set):
        yield from map(_by_name, functions.elts)
    else:
        yield None


def _argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[position] if position is not None and position < len(call.args) else None


def _text(node: ast.expr | None) -> _Id | None:
    return _Id(node.value) if isinstance(node, ast.Constant) and isinstance(node.value, str) else None

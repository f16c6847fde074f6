"""The sub-handlers that the source of a handler registers: by decorator, by `register` and by `execute`.

An id counts as known if it is a literal, or the name of a function.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from attrs import frozen

Resolve: TypeAlias = Callable[[ast.expr], str]
"""The name of the function of kopf that an expression stands for; empty if it is none of kopf's."""

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@frozen
class SubHandlers:
    """`ids` are those that are known, each once; `others`: some are known to a call alone."""

    ids: Sequence[str] = ()
    others: bool = False


def subhandlers_in(tree: ast.AST, resolve: Resolve) -> SubHandlers:
    """The sub-handlers of a function, in the order of its lines."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, (*FUNCTIONS, ast.Call)) and node is not tree]
    found = [one for node in sorted(nodes, key=_position) for one in _registered(node, resolve)]
    return SubHandlers(
        list(dict.fromkeys(one for one in found if one is not None)), any(one is None for one in found)
    )


def _position(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Call) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _registered(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Call, resolve: Resolve
) -> Iterator[str | None]:
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
            yield node.name if call is None else _id_of(call, ast.Name(node.name))


def _id_of(call: ast.Call, function: ast.expr | None) -> str | None:
    given = _argument(call, "id")
    if given is None or (isinstance(given, ast.Constant) and given.value is None):
        return function.id if isinstance(function, ast.Name) else None
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else None


def _executed(call: ast.Call) -> Iterator[str | None]:
    """Those of `execute(fns={"id": function})` and `execute(fns=[function])`; none without arguments."""
    functions = _argument(call, "fns")
    if functions is None:
        yield from (None for one in call.keywords if one.arg in ("handlers", "registry", None))
    elif isinstance(functions, ast.Dict):
        yield from (_text(key) for key in functions.keys)
    elif isinstance(functions, ast.List | ast.Tuple | ast.Set):
        yield from (one.id if isinstance(one, ast.Name) else None for one in functions.elts)
    else:
        yield None


def _argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[position] if position is not None and position < len(call.args) else None


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None

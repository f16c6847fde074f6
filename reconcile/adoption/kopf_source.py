"""What the source of a handler says: what it returns, remembers and uses of kopf.

The lines of the function are read, and no code is executed. Names are looked up in the module of the
function, so `import kopf as k` and `from kopf import adopt` are understood.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

from attrs import define, field

from reconcile.adoption.kopf_handlers import BodyFacts
from reconcile.adoption.kopf_subhandlers import subhandlers_in

_WRITES: Final = re.compile(r"(?:create|patch|replace)_(?:namespaced_)?([a-z0-9_]+?)(?:_status|_scale)?$")
_GENERIC: Final = frozenset({"custom_object", "custom_object_status", "namespaced_custom_object"})
_CHANGES: Final = frozenset(
    {"add", "append", "clear", "discard", "extend", "pop", "remove", "setdefault", "update"}
)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


def facts_of(function: Any) -> BodyFacts | None:
    """What the source of a function says; None where there is none, as for a lambda."""
    tree = _tree(function)
    if tree is None:
        return None
    reader = _Reader(getattr(function, "__globals__", {}), _bound(tree))
    for statement in tree.body:
        reader.read(statement)
    qualified = getattr(function, "__qualname__", tree.name)
    arguments, inner = tree.args, subhandlers_in(tree, reader.function_of_kopf, qualified)
    return BodyFacts(
        returns_value=any(_is_value(node.value) for node in _own(tree) if isinstance(node, ast.Return)),
        keywords=[one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)],
        names=sorted(reader.names),
        status_fields=list(reader.status),
        patches=list(reader.patched),
        creates=list(reader.creates),
        remembers=list(reader.remembers),
        sleeps=reader.sleeps,
        subhandlers=inner.ids,
        makes_subhandlers=inner.others,
    )


def _tree(function: Any) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    try:
        source = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError, IndentationError):
        return None
    found = tree.body[0] if tree.body else None
    return found if isinstance(found, _FUNCTIONS) else None


def _is_value(node: ast.expr | None) -> bool:
    return node is not None and not (isinstance(node, ast.Constant) and node.value is None)


def _own(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside."""
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)):
            yield child
            yield from _own(child)


def _bound(tree: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names that are the function's own, so that no name of its module is meant."""
    outer = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    stored = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    arguments = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    return (stored | arguments) - outer


@define
class _Reader:
    outer: dict[str, Any]
    bound: set[str]
    names: set[str] = field(factory=set)
    status: dict[str, None] = field(factory=dict)
    patched: dict[str, None] = field(factory=dict)
    creates: dict[str, None] = field(factory=dict)
    remembers: dict[str, None] = field(factory=dict)
    sleeps: bool = False

    def read(self, tree: ast.AST) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name | ast.Attribute):
                self._name(node)
            if isinstance(node, ast.Call):
                self._call(node)
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
                for target in node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]:
                    self._write(target)
            if isinstance(node, ast.Global):
                self.remembers.update(dict.fromkeys(node.names))

    def function_of_kopf(self, node: ast.expr) -> str:
        """The name of the function of kopf that an expression stands for; empty if it is none."""
        value = self._value(node)
        return str(getattr(value, "__name__", "")) if _is_of_kopf(value) else ""

    def _name(self, node: ast.Name | ast.Attribute) -> None:
        value = self._value(node)
        if _is_of_kopf(value):
            name = getattr(value, "__name__", "")
            self.names.update({f"kopf.on.{name}" if name in _ON else f"kopf.{name}"} if name else ())

    def _value(self, node: ast.expr) -> Any:
        """The value of a dotted name, through modules alone: attributes of other objects may execute code."""
        if isinstance(node, ast.Name):
            return None if node.id in self.bound else self.outer.get(node.id)
        if isinstance(node, ast.Attribute):
            inner = self._value(node.value)
            return vars(inner).get(node.attr) if isinstance(inner, ModuleType) else None
        return None

    def _call(self, node: ast.Call) -> None:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        written = _WRITES.match(name)
        if written and written[1] not in _GENERIC:
            self.creates[written[1]] = None
        self.sleeps = self.sleeps or name == "sleep"
        if isinstance(function, ast.Attribute) and name in _CHANGES:
            if self._is_memory(function.value):
                self.remembers[ast.unparse(function.value)] = None
            if name in ("update", "setdefault"):
                self._patch(function.value, _keys(node))

    def _write(self, target: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for inner in target.elts:
                self._write(inner)
        if isinstance(target, ast.Subscript):
            if self._is_memory(target.value):
                self.remembers[ast.unparse(target.value)] = None
            self._patch(target.value, (_text(target.slice),))

    def _is_memory(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and isinstance(self._value(node), dict | list | set)

    def _patch(self, container: ast.expr, keys: tuple[str, ...]) -> None:
        """`container[key] = ...`, where the container is `patch` or a part of it."""
        path = _patch_path(container)
        if path is None:
            return
        for key in keys:
            where = (*path, key)
            if where[0] == "status" and len(where) > 1:
                self.status[where[1]] = None
            elif len(where) > 1:
                self.patched[".".join(where[:2])] = None
            elif where[0] not in ("status", "metadata"):
                self.patched[where[0]] = None


def _is_of_kopf(value: object) -> bool:
    """Whether a function or a class is kopf's."""
    module = getattr(value, "__module__", None)
    if isinstance(value, ModuleType) or not isinstance(module, str):
        return False
    return module == "kopf" or module.startswith("kopf.")


def _patch_path(node: ast.expr) -> tuple[str, ...] | None:
    """`patch.status["x"]` as ("status", "x"); None for anything outside of `patch`."""
    if isinstance(node, ast.Name):
        return () if node.id == "patch" else None
    if isinstance(node, ast.Attribute):
        inner = _patch_path(node.value)
        return None if inner is None else (*inner, {"meta": "metadata"}.get(node.attr, node.attr))
    if isinstance(node, ast.Subscript):
        inner = _patch_path(node.value)
        return None if inner is None else (*inner, _text(node.slice))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setdefault":
        inner = _patch_path(node.func.value)
        return None if inner is None or not node.args else (*inner, _text(node.args[0]))
    return None


def _keys(node: ast.Call) -> tuple[str, ...]:
    """The keys of `update({...}, a=...)` and `setdefault("key", ...)`."""
    named = [keyword.arg for keyword in node.keywords if keyword.arg]
    for argument in node.args[:1]:
        if isinstance(argument, ast.Dict):
            named += [_text(key) for key in argument.keys if key is not None]
        elif isinstance(argument, ast.Constant):
            named.append(_text(argument))
    return tuple(named)


def _text(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else "*"


_ON: Final = frozenset(
    {
        "startup",
        "cleanup",
        "login",
        "probe",
        "validate",
        "mutate",
        "resume",
        "create",
        "update",
        "delete",
        "field",
        "event",
    }
)

"""Settings of kopf that the source assigns: `settings.persistence.finalizer = "example.com/done"`.

Startup handlers make them, which are not called here. Only literals are shown as they are; of a call the
name of what is called, and the `prefix` and `name` of a storage: other arguments may be credentials.
"""

import ast
from collections.abc import Iterator
from typing import Any, Final

from reconcile.adoption.kopf_handlers import Code, Setting

SECTIONS: Final = frozenset(
    {
        "admission", "background", "batching", "execution", "networking", "peering", "persistence", "posting",
        "process", "queueing", "scanning", "watching",
    }
)  # fmt: skip
STORAGES: Final = ("progress_storage", "diffbase_storage")
_SHOWN: Final = ("prefix", "name", "field", "touch_field")
_HIDDEN: Final = ("password", "token", "secret", "key")


def settings_of(source: str, file: str) -> Iterator[Setting]:
    """The assignments to settings in a source, in the order of their lines. Raises SyntaxError."""
    tree = ast.parse(source)
    assignments = [node for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AnnAssign)]
    for node in sorted(assignments, key=lambda node: node.lineno):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            name = _name(target)
            if name and node.value is not None:
                yield Setting(name, _value(name, node.value), f"{file}:{node.lineno}")


def _name(target: ast.expr) -> str:
    """`persistence.finalizer` of `settings.persistence.finalizer`; empty for anything else."""
    if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Attribute):
        return ""
    section = target.value
    if section.attr not in SECTIONS or "settings" not in ast.unparse(section.value).lower():
        return ""
    return f"{section.attr}.{target.attr}"


def _value(name: str, node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return Code(_outline(node))
    if any(word in name.lower() for word in _HIDDEN):
        return Code(type(value).__name__)
    return value


def _outline(node: ast.expr) -> str:
    if not isinstance(node, ast.Call):
        return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else "..."
    shown = [
        f"{keyword.arg}={ast.unparse(keyword.value)}"
        for keyword in node.keywords
        if keyword.arg in _SHOWN and isinstance(keyword.value, ast.Constant)
    ]
    inner = [_outline(one) for one in _storages(node)]
    rest = "..." if len(shown) + len(inner) < len(node.keywords) + len(node.args) else ""
    return f"{ast.unparse(node.func)}({', '.join([*inner, *shown, *filter(None, [rest])])})"


def _storages(node: ast.Call) -> Iterator[ast.Call]:
    """The storages that a storage of several is made of."""
    for argument in node.args:
        for one in argument.elts if isinstance(argument, ast.List | ast.Tuple) else [argument]:
            if isinstance(one, ast.Call) and ast.unparse(one.func).endswith("Storage"):
                yield one


def prefixes_of(source: str) -> tuple[str, ...]:
    """The prefixes of annotations that storages in a source are made with. Raises SyntaxError."""
    found = {
        keyword.value.value: None
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Storage")
        for keyword in node.keywords
        if keyword.arg == "prefix"
        and isinstance(keyword.value, ast.Constant)
        and isinstance(keyword.value.value, str)
    }
    return tuple(found)

"""A package's face that costs nothing until one of its names is used (PEP 562)."""

import ast
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def on_demand(package: str) -> Callable[[str], Any]:
    """A `__getattr__` for a package whose imports stand under `if TYPE_CHECKING:`.

    Each name is imported when it is first used, from where those imports say: a type checker, a reader and
    the interpreter go by the same lines. A name that is not among them raises AttributeError.
    """

    def imported(name: str) -> Any:
        home = _homes(package).get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = import_module(f"{package}.{name}") if home == package else getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return imported


@cache
def _homes(package: str) -> Mapping[str, str]:
    """The module that each name of a face is imported from."""
    face = ast.parse(Path(str(sys.modules[package].__file__)).read_text(encoding="utf-8"))
    blocks = [
        node for node in face.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}

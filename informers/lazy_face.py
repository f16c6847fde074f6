"""A package face that costs nothing until one of its names is used (PEP 562)."""

import ast
import linecache
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from informers.extras import extras_named


def on_demand(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module whose imports are under `if TYPE_CHECKING:`.

    Each name is imported at its first use, from where those imports say, so type checkers, readers and the
    interpreter follow the same lines. A library of an extra that is not installed is a ModuleNotFoundError
    which says how to install it. A name of `__all__` without an import is a module of the package. Any
    other name raises AttributeError.
    """

    def imported(name: str) -> Any:
        home = _homes(module).get(name)
        if home is not None:
            with extras_named():
                value = getattr(import_module(home), name)
        elif name in vars(sys.modules[module])["__all__"]:
            with extras_named():
                value = import_module(f"{module}.{name}")
        else:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *vars(sys.modules[module])["__all__"]})

    return imported, names


@cache
def _homes(module: str) -> Mapping[str, str]:
    """The module that each name of a face is imported from."""
    # linecache asks the module's loader where no file is: so faces work from a zip file too.
    variables = vars(sys.modules[module])
    face = ast.parse("".join(linecache.getlines(variables["__file__"], variables)))
    blocks = [
        node for node in face.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}

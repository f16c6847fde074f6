"""Faces of packages: names that are imported when they are first used, from the floors that came with us."""

import ast
import linecache
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FLOORS_BELOW = ("workqueue", "informers")


def on_demand(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module whose imports stand under `if TYPE_CHECKING:`.

    Each name is imported when it is first used, from where those imports say: a type checker, a reader and
    the interpreter go by the same lines. A name that is not among them raises AttributeError.
    """

    def imported(name: str) -> Any:
        home = _homes(module).get(name)
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = import_module(f"{module}.{name}") if home == module else getattr(import_module(home), name)
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *_homes(module)})

    return imported, names


@cache
def _homes(module: str) -> Mapping[str, str]:
    """The module that each name of a face is imported from."""
    # The loader has the source of a module in a zip file too, where no path leads to it.
    # linecache asks the module's loader where no file is: so faces work from a zip file too.
    variables = vars(sys.modules[module])
    face = ast.parse("".join(linecache.getlines(variables["__file__"], variables)))
    blocks = [
        node for node in face.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def require_own_floors() -> None:
    """Raise ImportError where another package stands in the place of `workqueue` or `informers`."""
    home = Path(__file__).resolve().parent.parent
    for name in FLOORS_BELOW:
        spec = find_spec(name)
        found = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if found != home / name / "__init__.py":
            raise ImportError(
                f"reconcile-runtime has a package {name!r} of its own, and "
                f"{found or 'nothing'} is found in its place: rename yours, or install reconcile-runtime anew"
            )

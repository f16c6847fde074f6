"""The operator that a module of the user's is: its manager, and how `reconcile run` is told of it."""

import re
from collections.abc import Sequence
from typing import Any

from attrs import frozen

from reconcile.bundled import CONTROLLERS, entries
from reconcile.commands.errors import Problem
from reconcile.commands.targets import load_manager, load_module
from reconcile.controller import Controller
from reconcile.manager import Manager

_UNNAMED = "reconcile"


@frozen
class Operator:
    """A manager, the name that its objects go by, and the targets that `reconcile run` takes for it."""

    name: str
    targets: Sequence[str]
    manager: Manager


def load_operator(module: str, name: str = "") -> Operator:
    """The operator that MODULE names: a module, my_module:manager, or a bundled controller.

    In a module it is its one Manager, or else its Controllers. Its name is `name`, the manager's, or else the
    module's. Raises Problem.
    """
    targets = _targets(module)
    manager = load_manager(targets)
    own = manager.options.name
    last = module.partition(":")[0].rpartition(".")[2]
    return Operator(_checked_name(name or (own if own != _UNNAMED else _label(last))), targets, manager)


def _targets(module: str) -> Sequence[str]:
    if ":" in module or any(entry.name == module for entry in entries(CONTROLLERS)):
        return (module,)
    loaded = load_module(module)
    managers = _named(loaded, Manager)
    if len(managers) > 1:
        raise Problem(
            f"the module {module} has {len(managers)} managers", f"name one: {module}:{managers[0]}"
        )
    found = managers or _named(loaded, Controller)
    if not found:
        raise Problem(
            f"the module {module} has no Manager and no Controller", "wanted: manager = Manager(controller)"
        )
    return tuple(f"{module}:{name}" for name in found)


def _named(module: Any, of: type[Any]) -> Sequence[str]:
    """The first name of each such value of a module."""
    names: dict[int, str] = {}
    for name, value in vars(module).items():
        if isinstance(value, of):
            names.setdefault(id(value), name)
    return tuple(names.values())


def _label(word: str) -> str:
    return word.lower().replace("_", "-").strip("-")


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", name):
        raise Problem(
            f"{name!r} is no name for an operator",
            "name it with --name: at most 40 of a-z, 0-9 and dashes, a letter first",
        )
    return name

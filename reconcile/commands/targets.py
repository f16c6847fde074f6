"""The targets of `reconcile run`: bundled controllers, managers and controllers of modules, and operators."""

import importlib
import os
import re
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from attrs import frozen

from reconcile.commands.problems import Problem
from reconcile.controller.declaration import Controller
from reconcile.controller.entry_points import CONTROLLERS, entries, load
from reconcile.manager.manager import Manager
from reconcile.runs.frames import is_library, place_of_error


def load_manager(targets: Sequence[str]) -> Manager:
    """The manager that `targets` describe: one that a target names, or a new one of all controllers.

    Modules are looked for in the current directory first; for bundled controllers alone, nothing is imported
    from there. Raises Problem.
    """
    controllers: list[Controller[Any]] = []
    targets = [resolved for target in targets for resolved in targets_of(target)]
    for target in targets:
        value = _load(target)
        if not isinstance(value, Manager):
            controllers.extend(value)
        elif len(targets) == 1:
            return value
        else:
            raise Problem(f"{target} is a Manager, which runs by itself", "name it alone")
    try:
        return Manager(*controllers)
    except ValueError as error:
        raise Problem(str(error)) from None


def targets_of(target: str) -> Sequence[str]:
    """The target itself; for a module, its one Manager, or else its Controllers. Raises Problem."""
    bundled = [entry.name for entry in entries(CONTROLLERS)]
    if ":" in target or target in bundled:
        return (target,)
    known = ", ".join(bundled) or "none"
    module = load_module(target, f"check the name; the bundled controllers are {known}")
    managers = _named(module, Manager)
    if len(managers) > 1:
        raise Problem(
            f"the module {target} has {len(managers)} managers", f"name one: {target}:{managers[0]}"
        )
    names = managers or _named(module, Controller)
    if not names:
        raise Problem(
            f"the module {target} has no Manager and no Controller", "expected: manager = Manager(controller)"
        )
    return tuple(f"{target}:{name}" for name in names)


def _named(module: ModuleType, of: type[object]) -> Sequence[str]:
    names: dict[int, str] = {}
    for name, value in vars(module).items():
        if isinstance(value, of):
            names.setdefault(id(value), name)
    return tuple(names.values())


def bundled_controllers() -> Sequence[Controller[Any]]:
    """Every controller that an installed distribution brings. Raises Problem."""
    return load_manager([entry.name for entry in entries(CONTROLLERS)]).controllers


def _load(target: str) -> Manager | Sequence[Controller[Any]]:
    module, colon, attribute = target.partition(":")
    if not colon:
        try:
            value = load({entry.name: entry for entry in entries(CONTROLLERS)}[target])
        except Exception as error:
            reason = _reason(error)
            raise Problem(f"the bundled controller {target} cannot be imported", reason) from error
        return _checked(target, value)
    if not module or not attribute:
        raise Problem(f"{target} is not a target", "write my_module:manager")
    return _checked(target, _attribute(target, load_module(module), attribute))


def load_module(name: str, advice: str = "check the name") -> ModuleType:
    """A module of the user, from the current directory if it is there. Raises Problem."""
    try:
        here = os.getcwd()
    except OSError:
        raise Problem("the current directory was deleted", "change to another, and back") from None
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            hint = "name the module, not its file" if name.endswith(".py") else advice
            where = f"neither in {os.getcwd()} nor installed"
            raise Problem(f"there is no module {error.name}, {where}", hint) from None
        raise Problem(f"the module {name} cannot be imported", _reason(error)) from error
    except (Exception, SystemExit) as error:
        raise Problem(f"the module {name} cannot be imported", _reason(error)) from error


def _attribute(target: str, module: ModuleType, path: str) -> object:
    value: object = module
    for name in path.split("."):
        if not hasattr(value, name):
            usable = [name for name, one in vars(module).items() if isinstance(one, Manager | Controller)]
            offer = ", ".join(usable) or "no Manager and no Controller"
            raise Problem(f"{target}: the module has no {path}", f"it has {offer}")
        value = getattr(value, name)
    return value


def _checked(target: str, value: object) -> Manager | Sequence[Controller[Any]]:
    if isinstance(value, Manager):
        return value
    if isinstance(value, Controller):
        return (value,)
    if isinstance(value, list | tuple) and value and all(isinstance(one, Controller) for one in value):
        return tuple(value)
    name = type(value).__name__
    named = f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"
    raise Problem(f"{target} is {named}", "expected a Manager, a Controller or a list of Controllers")


def _reason(error: BaseException) -> str:
    """The error, and the line of the user's code that it came from, even if a library raised it."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    place = place_of_error(error)
    if isinstance(error, SyntaxError) or place is None or is_library(place.file):
        return text
    return f"{text} ({place.file}, line {place.line})"


# --- operators ----------------------------------------------------------------------------------------

_UNNAMED = "reconcile"


@frozen
class Operator:
    name: str
    targets: Sequence[str]
    manager: Manager


def load_operator(module: str, name: str = "") -> Operator:
    """The operator of a target; its name is `name`, the manager's, or else the module's. Raises Problem."""
    targets = targets_of(module)
    manager = load_manager(targets)
    own, last = manager.options["name"], module.partition(":")[0].rpartition(".")[2]
    name = name or (own if own != _UNNAMED else last.lower().replace("_", "-").strip("-"))
    if not re.fullmatch(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", name):
        raise Problem(
            f"{name!r} is not a valid operator name",
            "name it with --name: use at most 40 of a-z, 0-9 and dashes, starting with a letter",
        )
    return Operator(name, targets, manager)

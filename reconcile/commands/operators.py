"""The operator in a module of the user: its manager, its name, and its targets for `reconcile run`."""

import re
from collections.abc import Sequence

from attrs import frozen

from reconcile.commands.problems import Problem
from reconcile.commands.targets import load_manager, targets_of
from reconcile.manager.manager import Manager

_UNNAMED = "reconcile"


@frozen
class Operator:
    """A manager, the name of its objects, and the targets that `reconcile run` takes for it."""

    name: str
    targets: Sequence[str]
    manager: Manager


def load_operator(module: str, name: str = "") -> Operator:
    """The operator that MODULE names: a module, my_module:manager, or a bundled controller.

    In a module it is its one Manager, or else its Controllers. Its name is `name`, the manager's, or else the
    module's. Raises Problem.
    """
    targets = targets_of(module)
    manager = load_manager(targets)
    own = manager.options["name"]
    last = module.partition(":")[0].rpartition(".")[2]
    return Operator(_checked_name(name or (own if own != _UNNAMED else _label(last))), targets, manager)


def _label(word: str) -> str:
    return word.lower().replace("_", "-").strip("-")


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", name):
        raise Problem(
            f"{name!r} is not a valid operator name",
            "name it with --name: use at most 40 of a-z, 0-9 and dashes, starting with a letter",
        )
    return name

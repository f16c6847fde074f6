"""The model classes of a module of the user's."""

import inspect
from collections.abc import Sequence
from typing import Any

from reconcile.commands.problems import Problem
from reconcile.models import Object


def models_in(module: Any) -> Sequence[type[Object]]:
    """The kinds that a module defines, or a package in its `__init__`; not those that it only imports.

    Raises Problem if there are none.
    """
    models = [
        value
        for value in dict.fromkeys(v for v in vars(module).values() if inspect.isclass(v))
        if issubclass(value, Object) and "__kind__" in vars(value) and _is_of(value, module)
    ]
    if not models:
        raise Problem(
            f"the module {module.__name__} defines no kinds", 'expected @resource("group/version") class ...'
        )
    return models


def _is_of(cls: type[Any], module: Any) -> bool:
    return cls.__module__ == module.__name__ or cls.__module__.startswith(f"{module.__name__}.")

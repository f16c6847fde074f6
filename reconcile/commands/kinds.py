"""The model classes of a module of the user's, and which versions of one kind they are."""

import inspect
import re
from collections.abc import Sequence
from typing import Any, Final

from reconcile.commands.errors import Problem
from reconcile.models import Object, kind_of

_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STABILITY: Final = {None: 2, "beta": 1, "alpha": 0}


def models_in(module: Any) -> Sequence[type[Object]]:
    """The kinds that a module, or a package on its face, defines: not those that it only imports.

    Raises Problem if there are none.
    """
    found = [
        value
        for value in dict.fromkeys(v for v in vars(module).values() if inspect.isclass(v))
        if issubclass(value, Object) and "__kind__" in vars(value) and _is_of(value, module)
    ]
    if not found:
        raise Problem(
            f"the module {module.__name__} defines no kinds", 'wanted: @resource("group/version") class ...'
        )
    return found


def _is_of(cls: type[Any], module: Any) -> bool:
    return cls.__module__ == module.__name__ or cls.__module__.startswith(f"{module.__name__}.")


def by_kind(models: Sequence[type[Object]]) -> Sequence[Sequence[type[Object]]]:
    """The classes of each kind together, the version that is to be stored first.

    It is the one that Kubernetes prefers: general availability before beta before alpha, newer before
    older.
    """
    groups: dict[tuple[str, str], list[type[Object]]] = {}
    for model in models:
        resource = kind_of(model).resource
        groups.setdefault((resource.group, resource.kind), []).append(model)
    return [sorted(group, key=_preference, reverse=True) for group in groups.values()]


def _preference(model: type[Object]) -> tuple[int, int, int]:
    found = _VERSION.fullmatch(kind_of(model).resource.version)
    if found is None:
        return (-1, 0, 0)
    return (_STABILITY[found[2]], int(found[1]), int(found[3] or 0))

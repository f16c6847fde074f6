"""Checks that controllers of one manager do not share names that must be their own."""

from collections.abc import Iterable
from typing import Any

from informers import APIResource
from reconcile.controller.declaration import Controller


def check_unique_names(controllers: Iterable[Controller[Any]]) -> None:
    """Raises ValueError if two controllers share a name, a field manager or a finalizer of one kind."""
    names: set[str] = set()
    managers: dict[str, str] = {}
    finalizers: dict[tuple[APIResource, str], str] = {}
    for controller in controllers:
        name = controller.name
        if name in names:
            raise ValueError(f"two controllers are named {name!r}: give one of them another name=")
        names.add(name)
        for manager in (controller.field_manager, *controller.former_field_managers):
            if (other := managers.setdefault(manager, name)) != name:
                raise ValueError(
                    f"controllers {other} and {name} have the field manager {manager!r}, so each would drop "
                    "the fields that the other applied: give one of them another field_manager="
                )
        resource = controller.resource
        for finalizer in controller.finalizers:
            if (other := finalizers.setdefault((resource, finalizer), name)) != name:
                raise ValueError(
                    f"controllers {other} and {name} have the finalizer {finalizer!r} on {resource.name}, so "
                    "the first to clean up would release for both: give one of them another finalizer="
                )

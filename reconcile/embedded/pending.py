"""Stands in for server-side apply until its room is built: it is refused, and managedFields stay unset."""

from importlib import import_module
from types import ModuleType
from typing import Any

from reconcile.embedded.status import Failure


def _room() -> ModuleType | None:
    try:
        return import_module("reconcile.embedded.apply")
    except ModuleNotFoundError:
        return None


_APPLY = _room()


def apply(live: dict[str, Any] | None, intent: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The live object with the intent of one manager merged into it."""
    if _APPLY is None:
        message = "server-side apply is not supported by the embedded server yet"
        raise Failure(501, "NotImplemented", message)
    made: dict[str, Any] = _APPLY.apply(live, intent, **options)
    return made


def track_update(old: dict[str, Any] | None, new: dict[str, Any], **options: Any) -> None:
    """Note in managedFields what a plain write set."""
    if _APPLY is not None:
        _APPLY.track_update(old, new, **options)

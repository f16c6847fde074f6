"""Handlers out of a registry of kopf, of any version from 1.37 on.

Only attributes of kopf's objects are read, and none of the author's functions is called.
"""

import enum
import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from attrs import evolve

from reconcile.adoption.kopf_handlers import EVERYTHING, Code, KopfHandler, Place, ResourceSelector
from reconcile.adoption.kopf_source import facts_of

REGISTRIES: Final = ("_activities", "_indexing", "_watching", "_changing", "_spawning", "_webhooks")
"""The parts of a registry, in the order in which handlers are listed."""
ACTIVITIES: Final = {"startup": "startup", "cleanup": "cleanup", "authentication": "login", "probe": "probe"}
WEBHOOKS: Final = {"validating": "validate", "mutating": "mutate"}
OPTIONS: Final = (
    "labels", "annotations", "when", "field", "value", "old", "new", "deleted",
    "operations", "subresource", "persistent", "side_effects", "ignore_failures",
    "interval", "idle", "sharp", "initial_delay",
    "cancellation_backoff", "cancellation_timeout", "cancellation_polling",
    "errors", "timeout", "retries", "backoff", "param",
)  # fmt: skip
"""Arguments of decorators, in the order in which they are shown."""
_SELECTOR: Final = ("group", "version", "kind", "plural", "singular", "shortcut", "category", "any_name")


class NotARegistry(Exception):
    """An object does not have what the registries of kopf have."""


def handlers_of(registry: Any) -> tuple[KopfHandler, ...]:
    """The handlers of a registry in the order of their lines; those that kopf adds itself are left out.

    Raises NotARegistry.
    """
    found: list[KopfHandler] = []
    for part in REGISTRIES:
        try:
            handlers = getattr(registry, part).get_all_handlers()
        except AttributeError as error:
            raise NotARegistry(f"{type(registry).__name__} has no {error.name}") from None
        found.extend(_handler(part, one) for one in handlers if not getattr(one, "_fallback", False))
    return tuple(sorted(found, key=lambda handler: (handler.place.file, handler.place.line)))


def _handler(part: str, handler: Any) -> KopfHandler:
    decorator = _decorator(part, handler)
    function = _function(handler.fn)
    made = KopfHandler(
        decorator=decorator,
        id=str(handler.id),
        place=_place(function, handler.fn),
        selector=_selector(getattr(handler, "selector", None)),
        arguments=dict(_arguments(handler)),
        facts=facts_of(function),
    )
    if decorator == "kopf.on.delete" and not handler.requires_finalizer:
        return evolve(made, arguments={**made.arguments, "optional": True})
    return made


def _decorator(part: str, handler: Any) -> str:
    match part:
        case "_activities":
            return f"kopf.on.{ACTIVITIES[_word(handler.activity)]}"
        case "_webhooks":
            return f"kopf.on.{WEBHOOKS[_word(handler.reason)]}"
        case "_indexing":
            return "kopf.index"
        case "_watching":
            return "kopf.on.event"
        case "_spawning":
            return "kopf.timer" if hasattr(handler, "interval") else "kopf.daemon"
    if handler.reason is not None:
        return f"kopf.on.{_word(handler.reason)}"
    return "kopf.on.resume" if handler.initial else "kopf.on.field"


def _word(value: Any) -> str:
    return str(value.value if isinstance(value, enum.Enum) else value)


def _selector(selector: Any) -> ResourceSelector | None:
    if selector is None:
        return None
    words = {name: getattr(selector, name, None) for name in _SELECTOR}
    if isinstance(words["any_name"], enum.Enum):
        words["any_name"] = EVERYTHING
    chosen = getattr(selector, "fn", None)
    return ResourceSelector(**words, function=str(_value(chosen)) if chosen is not None else "")


def _arguments(handler: Any) -> Iterator[tuple[str, Any]]:
    for name in OPTIONS:
        value = getattr(handler, name, None)
        if value is None:
            continue
        if name == "param":  # of any kind, and a place where credentials are handed over
            yield name, Code(type(value).__name__)
        elif name == "field":
            yield name, ".".join(map(str, value))
        else:
            yield name, _value(value)


def _value(value: Any) -> Any:
    """A value that can be shown and compared: plain data, or else the name of the object."""
    if isinstance(value, enum.Enum):
        return Code(f"kopf.{value.name}") if value.name in ("PRESENT", "ABSENT") else Code(str(value))
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {str(name): _value(inner) for name, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, list | tuple):
        return [_value(inner) for inner in value]
    if callable(value):
        return Code(_name(_function(value)))
    return Code(type(value).__name__)


def _function(value: Callable[..., Any]) -> Any:
    """What stands in the author's source: without partials and decorators that keep what they wrap."""
    while isinstance(value, functools.partial):
        value = value.func
    try:
        value = inspect.unwrap(value)
    except ValueError:  # it wraps itself
        return value
    return _function(value) if isinstance(value, functools.partial) else getattr(value, "__func__", value)


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__name__)


def _place(function: Any, registered: Any) -> Place:
    code = getattr(function, "__code__", None)
    return Place(
        name=_name(function),
        file=_relative(code.co_filename) if code is not None else "",
        line=code.co_firstlineno if code is not None else 0,
        doc=inspect.cleandoc(getattr(function, "__doc__", None) or "") if code is not None else "",
        is_async=inspect.iscoroutinefunction(registered) or inspect.iscoroutinefunction(function),
    )


def _relative(file: str) -> str:
    """A path as a person would write it here."""
    relative = os.path.relpath(file) if os.path.isabs(file) else file
    return file if relative.startswith(os.pardir) else relative

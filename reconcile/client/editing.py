"""A mutable copy of an immutable object, whose fields can be set."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

import attrs

from reconcile.models import FrozenList, FrozenMapping, Object, thaw

T = TypeVar("T")
O = TypeVar("O", bound=Object)  # noqa: E741


class Draft(Generic[T]):
    """A mutable copy of a model with its nested models. Raises AttributeError for fields that it lacks."""

    __slots__ = ("_of", "_parts")

    def __init__(self, of: T) -> None:
        object.__setattr__(self, "_of", of)
        object.__setattr__(self, "_parts", {})

    def __getattr__(self, name: str) -> Any:
        of, parts = _inside(self)
        if name not in parts:
            if name not in _fields(of):
                return getattr(of, name)
            parts[name] = _opened(getattr(of, name))
        return parts[name]

    def __setattr__(self, name: str, value: Any) -> None:
        of, parts = _inside(self)
        if name not in _fields(of):
            raise AttributeError(f"{type(of).__name__} has no field {name!r}")
        parts[name] = value

    def __repr__(self) -> str:
        return f"Draft({finished(self)!r})"


def finished(draft: Draft[T]) -> T:
    """The object with the changes of a draft, converted and validated by its class."""
    of, parts = _inside(draft)
    changes = {name: _closed(value, getattr(of, name)) for name, value in parts.items()}
    this: Any = of
    return cast(T, attrs.evolve(this, **changes)) if changes else of


def _inside(draft: Draft[T]) -> tuple[T, dict[str, Any]]:
    return object.__getattribute__(draft, "_of"), object.__getattribute__(draft, "_parts")


def _fields(of: Any) -> frozenset[str]:
    return frozenset(attribute.name for attribute in attrs.fields(type(of)))


def _opened(value: Any) -> Any:
    if attrs.has(type(value)):
        return Draft(value)
    if type(value) in (FrozenMapping, FrozenList):
        return thaw(value)
    if isinstance(value, Mapping):
        return {key: _opened(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_opened(inner) for inner in value]
    return value


def _closed(value: Any, before: Any) -> Any:
    if isinstance(value, Draft):
        return finished(value)
    if isinstance(value, Mapping):
        return {key: _closed(inner, None) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        inner = [_closed(element, None) for element in value]
        return inner if isinstance(before, list) else tuple(inner)
    return value

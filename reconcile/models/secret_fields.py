"""The fields of a kind that are declared secret, by their paths in JSON."""

import functools
import inspect
from collections.abc import Iterator
from typing import Any

import attrs

from reconcile.models.fields import fields_of, split_annotated, union_parts
from reconcile.models.objects import Object

_DEEPEST = 12


def secret_fields(kind: type[Object]) -> frozenset[tuple[str, ...]]:
    """The paths of the fields of a kind with `field(secret=True)`: `("spec", "password")`, lists left out."""
    model: Any = kind  # classes are hashable, whatever their objects are
    return _known_paths(model)


@functools.lru_cache(maxsize=256)
def _known_paths(model: Any) -> frozenset[tuple[str, ...]]:
    return frozenset(_secret_paths(model, (), _DEEPEST))


def _secret_paths(model: Any, above: tuple[str, ...], deepest: int) -> Iterator[tuple[str, ...]]:
    if deepest == 0:
        return
    for field in fields_of(model):
        path = (*above, field.wire)
        if field.secret:
            yield path
            continue
        for inner in _models_in(field.type):
            yield from _secret_paths(inner, path, deepest - 1)


def _models_in(annotation: Any) -> Iterator[Any]:
    plain, _ = split_annotated(annotation)
    parts = union_parts(plain)
    for part in parts if len(parts) > 1 else (plain,):
        if inspect.isclass(part) and attrs.has(part):
            yield part
        else:
            for argument in getattr(part, "__args__", ()):
                yield from _models_in(argument)

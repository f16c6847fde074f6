"""The fields of a kind that are declared secret, by their paths in JSON.

A path leaves out lists and the keys of mappings: `("spec", "users", "password")` leads to the password of
each user, in a list or by name.
"""

import functools
import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from reconcile.models.fields import fields_of, split_annotated, union_parts
from reconcile.models.objects import Object

_DEEPEST = 12


def secret_fields(kind: type[Object]) -> frozenset[tuple[str, ...]]:
    """The paths of the fields of a kind with `field(secret=True)`: `("spec", "password")`."""
    model: Any = kind  # classes are hashable, whatever their objects are
    return _known_paths(model)


def fields_at(value: Any, path: Sequence[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Where the fields at a path are in a JSON value: each as its object and its name there.

    A key may be named like the field, so the search goes on beside it too: rather hide too much than guess
    which object is a mapping.
    """
    waiting = [(value, path)]
    while waiting:
        here, rest = waiting.pop()
        if isinstance(here, list):
            waiting += [(item, rest) for item in here]
        elif isinstance(here, dict):
            for name, part in here.items():
                if name != rest[0]:
                    waiting.append((part, rest))
                elif len(rest) > 1:
                    waiting.append((part, rest[1:]))
                else:
                    yield here, name


def is_within(names: Iterable[str], path: Sequence[str]) -> bool:
    """Whether a place, by the names on the way to it, may be at a path or below it; as `fields_at` does."""
    passed = iter(names)
    return all(step in passed for step in path)


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

"""The fields of a kind that are declared secret, by their paths in JSON.

A path leaves out lists, and has `ANY_KEY` for the keys of a mapping: `("spec", "users", "*", "password")`
leads to the password of each user by name.
"""

import functools
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import msgspec

from reconcile.models.fields import fields_of, split_annotated, union_parts
from reconcile.models.objects import Object

ANY_KEY: Final = "*"

_DEEPEST = 12
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list = msgspec.json.Decoder(list[msgspec.Raw])


def secret_fields(kind: type[Object]) -> frozenset[tuple[str, ...]]:
    """The paths of the fields of a kind with `field(secret=True)`: `("spec", "password")`."""
    model: Any = kind  # classes are hashable, whatever their objects are
    return _known_paths(model)


def fields_at(value: Any, path: Sequence[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Where the fields at a path are in a JSON value: each as its object and its name there."""
    waiting = [(value, path)]
    while waiting:
        here, (step, *rest) = waiting.pop()
        if isinstance(here, list):
            waiting += [(item, (step, *rest)) for item in here]
        elif isinstance(here, dict):
            for name in here if step == ANY_KEY else (step,) if step in here else ():
                if rest:
                    waiting.append((here[name], rest))
                else:
                    yield here, name


def parts_at(body: bytes | msgspec.Raw, paths: Iterable[Sequence[str]]) -> Iterator[msgspec.Raw]:
    """The fields at several paths in JSON, which is decoded on the way to them alone: it may be large.

    Raises msgspec.DecodeError.
    """
    below: dict[str, list[Sequence[str]]] = {}
    for step, *rest in paths:
        below.setdefault(step, []).append(rest)
    for here in _objects_in(body):
        for step, rests in below.items():
            for part in here.values() if step == ANY_KEY else (here[step],) if step in here else ():
                if not all(rests):
                    yield part
                if further := [rest for rest in rests if rest]:
                    yield from parts_at(part, further)


def _objects_in(body: bytes | msgspec.Raw, deepest: int = _DEEPEST) -> Iterator[dict[str, msgspec.Raw]]:
    """The object, or those of a list; none for another value. Each list within a list is read once more."""
    try:
        yield _object.decode(body)
    except msgspec.ValidationError:
        try:
            items = _list.decode(body) if deepest else ()
        except msgspec.ValidationError:
            return
        for item in items:
            yield from _objects_in(item, deepest - 1)


def is_within(names: Sequence[str], path: Sequence[str]) -> bool:
    """Whether a place, by the names on the way to it, is at a path or below it."""
    return len(names) >= len(path) and all(
        step in (ANY_KEY, name) for step, name in zip(path, names, strict=False)
    )


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
        for inner, keys in _models_in(field.type):
            yield from _secret_paths(inner, (*path, *keys), deepest - 1)


def _models_in(annotation: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """The models in a type, each with the steps that lead through the mappings around it."""
    plain, _ = split_annotated(annotation)
    parts = union_parts(plain)
    for part in parts if len(parts) > 1 else (plain,):
        if inspect.isclass(part) and attrs.has(part):
            yield part, keys
            continue
        arguments = getattr(part, "__args__", ())
        origin = getattr(part, "__origin__", None)
        if inspect.isclass(origin) and issubclass(origin, Mapping):
            for argument in arguments[1:]:
                yield from _models_in(argument, (*keys, ANY_KEY))
        else:
            for argument in arguments:
                yield from _models_in(argument, keys)

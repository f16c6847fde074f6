"""What a trace must not show: the data of Secrets, and secret fields of models."""

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from reconcile.models import Object, kind_of
from reconcile.models.fields import fields_of, split_annotated, union_parts

_SECRETS = "secrets"
_HELD = ("data", "stringData")
_DEEPEST = 12


class Redactor:
    """Knows the secret fields by plural and path."""

    def __init__(self, kinds: Iterable[type[Object]]) -> None:
        self._paths: dict[str, set[tuple[str, ...]]] = {}
        for kind in kinds:
            paths = self._paths.setdefault(kind_of(kind).resource.plural, set())
            paths.update(_secret_paths(kind, (), _DEEPEST))

    def hides(self, plural: str, path: str) -> bool:
        """Whether the field at a path such as `.spec.password` (`[]` for elements of a list) is secret."""
        names = tuple(name.removesuffix("[]") for name in path.strip(".").split("."))
        if plural == _SECRETS:
            return bool(names) and names[0] in _HELD
        return any(names[: len(hidden)] == hidden for hidden in self._paths.get(plural, ()))


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

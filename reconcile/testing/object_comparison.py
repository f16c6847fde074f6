"""Explains a failed comparison of two objects: each field that differs, without secrets."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import attrs

from reconcile.client.redaction import HIDDEN
from reconcile.models import Object
from reconcile.models.fields import fields_of

_NONE = object()
_LONGEST = 100


def explain(left: object, right: object) -> list[str] | None:
    """A line such as `.spec.replicas: 3 != 2` for each difference of two objects; None for other values."""
    if not isinstance(left, Object) or type(left) is not type(right):
        return None
    name = type(left).__name__
    return [f"two {name}s differ:", *_differences("", left, right)]


def _differences(path: str, left: Any, right: Any) -> Iterator[str]:
    if left == right:
        return
    if attrs.has(type(left)) and type(left) is type(right):
        for field in fields_of(type(left)):
            pair = getattr(left, field.name), getattr(right, field.name)
            if not field.secret:
                yield from _differences(f"{path}.{field.wire}", *pair)
            elif pair[0] != pair[1]:
                yield f"  {path}.{field.wire}: {HIDDEN} != another"
    elif isinstance(left, Mapping) and isinstance(right, Mapping):
        for name in sorted({*left, *right}, key=str):
            yield from _differences(f"{path}[{name!r}]", left.get(name, _NONE), right.get(name, _NONE))
    elif isinstance(left, tuple) and isinstance(right, tuple):
        for index, pair in enumerate(zip_longest(left, right, fillvalue=_NONE)):
            yield from _differences(f"{path}[{index}]", *pair)
    else:
        yield f"  {path}: {_shown(left)} != {_shown(right)}"


def _shown(value: Any) -> str:
    text = "nothing" if value is _NONE else repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"

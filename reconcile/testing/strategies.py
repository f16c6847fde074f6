"""Hypothesis strategies from model classes: any object that the class's own definition allows.

Needs hypothesis: `pip install reconcile-runtime[testing]`.
"""

import datetime
import enum
import inspect
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

import attrs

from informers.extras import extras_named
from reconcile.models import UNSET, Object, ObjectMeta, Quantity, Schema, UnsetType
from reconcile.models.fields import ModelField, fields_of, split_annotated, union_parts

with extras_named():
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy

__all__ = ["field_values", "objects", "values"]

T = TypeVar("T")
O = TypeVar("O", bound=Object)  # noqa: E741

_LONGEST = 3
_SMALLEST, _LARGEST = -(2**53), 2**53


def objects(model: type[O], *, namespace: str = "default") -> SearchStrategy[O]:
    """Objects of a kind: any values that its types and the keywords of its fields allow, any name.

    CEL rules and validators are not known to it: narrow with `.filter` where a class has them. Raises
    TypeError for a type that has no strategy.
    """
    names = st.from_regex(r"\A[a-z]([a-z0-9-]{0,20}[a-z0-9])?\Z")
    metadata = st.builds(ObjectMeta, name=names, namespace=st.just(namespace))
    return values(model).flatmap(lambda obj: metadata.map(lambda given: obj.replace(metadata=given)))


def values(model: type[T]) -> SearchStrategy[T]:
    """Values of a class of a model: required fields always, the others in any combination."""
    given = [f for f in fields_of(model) if f.type is not ObjectMeta]
    needed = {f.argument: field_values(f) for f in given if f.needed}
    optional = {f.argument: field_values(f) for f in given if not f.needed}
    return st.fixed_dictionaries(needed, optional=optional).map(lambda arguments: model(**arguments))


def field_values(field: ModelField) -> SearchStrategy[Any]:
    """Values of a field of a model, None and UNSET among them where it has them. Raises TypeError."""
    if isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
        raise TypeError(f"{field.name}: a default that takes the object has no strategy")
    strategy = _of(field.type, field.schema)
    if field.nullable and field.type is not Any:
        strategy = st.none() | strategy
    return st.just(UNSET) | strategy if field.unset else strategy


def _of(annotation: Any, schema: Schema) -> SearchStrategy[Any]:
    plain, extras = split_annotated(annotation)
    if plain is not annotation:
        inner = [one for one in extras if isinstance(one, Schema)]
        return _of(plain, inner[-1] if inner else schema)
    parts = [part for part in union_parts(annotation) if part not in (type(None), UnsetType)]
    if len(parts) > 1:
        return st.one_of([_of(part, schema) for part in parts])
    if len(parts) == 1 and parts[0] is not annotation:
        return st.none() | _of(parts[0], schema)
    if inspect.isclass(annotation) and issubclass(annotation, enum.Enum):
        return st.sampled_from(annotation)
    if inspect.isclass(annotation) and attrs.has(annotation) and annotation is not Quantity:
        return st.deferred(lambda: values(annotation))
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        return _tuples(_of(arguments[0], Schema()), schema)
    if origin is Mapping:
        least, most = schema.min_properties or 0, _most(schema.max_properties)
        return st.dictionaries(_words(), _of(arguments[1], Schema()), min_size=least, max_size=most)
    return _scalar(annotation, schema)


def _tuples(items: SearchStrategy[Any], schema: Schema) -> SearchStrategy[Any]:
    def identity(item: Any) -> Any:
        return tuple(map(str, _keys(item, schema.list_map_keys))) if schema.list_type == "map" else repr(item)

    unique = identity if schema.list_type in ("set", "map") else None
    return st.lists(
        items, min_size=schema.min_items or 0, max_size=_most(schema.max_items), unique_by=unique
    ).map(tuple)


def _keys(item: Any, keys: tuple[str, ...]) -> list[Any]:
    return [getattr(item, f.name) for f in fields_of(type(item)) if f.wire in keys]


def _most(limit: int | None) -> int:
    return _LONGEST if limit is None else min(limit, _LONGEST)


def _words() -> SearchStrategy[str]:
    return st.text("abcxyz09-", min_size=1, max_size=8)


def _scalar(annotation: Any, schema: Schema) -> SearchStrategy[Any]:
    if annotation is str:
        return _text(schema)
    if annotation is int:
        return _integers(schema)
    if annotation is float:
        return st.floats(schema.minimum, schema.maximum, allow_nan=False, allow_infinity=False)
    known: Mapping[Any, Any] = {
        bool: st.booleans(),
        datetime.timedelta: st.timedeltas(datetime.timedelta(), datetime.timedelta(days=30)),
        datetime.datetime: st.datetimes(
            datetime.datetime(2000, 1, 1),  # noqa: DTZ001
            datetime.datetime(2100, 1, 1),  # noqa: DTZ001
            timezones=st.just(datetime.UTC),
        ).map(lambda time: time.replace(microsecond=0)),
        Quantity: st.integers(0, 10_000).map(lambda amount: Quantity(f"{amount}m")),
        Any: st.none() | st.booleans() | st.integers(_SMALLEST, _LARGEST) | _words(),
    }
    if annotation not in known:
        raise TypeError(f"{annotation!r} has no strategy")
    strategy: SearchStrategy[Any] = known[annotation]
    return strategy


def _text(schema: Schema) -> SearchStrategy[str]:
    least, most = schema.min_length or 0, schema.max_length
    if schema.pattern is None:
        return st.text(
            "abcxyz09-", min_size=least, max_size=max(least, 12 if most is None else min(most, 12))
        )
    found = st.from_regex(
        schema.pattern, fullmatch=False, alphabet=st.characters(min_codepoint=32, max_codepoint=126)
    )
    return found.filter(
        lambda text: "\n" not in text and least <= len(text) and (most is None or len(text) <= most)
    )


def _integers(schema: Schema) -> SearchStrategy[int]:
    wide = 31 if schema.format == "int32" else 53
    least = -(2**wide) if schema.minimum is None else int(schema.minimum) + bool(schema.exclusive_minimum)
    most = 2**wide - 1 if schema.maximum is None else int(schema.maximum) - bool(schema.exclusive_maximum)
    return st.integers(least, most)

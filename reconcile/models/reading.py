"""From JSON to values: one reader per type, which may keep its input; DecodeError has all errors at once."""

import datetime
import enum
import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import attrs
from attrs import frozen

from informers.apimachinery.go_durations import parse_duration
from reconcile.models.extra_fields import extra_of, heading_of
from reconcile.models.fields import ModelField, UnsetType, fields_of, split_annotated, union_parts
from reconcile.models.frozen import EMPTY, FrozenList, FrozenMapping, FrozenRecords, FrozenValues, freeze
from reconcile.models.values import Quantity, parse_time, read_quantity

Reader = Callable[[Any], Any]

_SHOWN: Final = 40
LAZY: Final = "lazy"
"""Marks a list, `Annotated[tuple[X, ...], LAZY]`, whose items are read when first accessed."""


@frozen
class FieldError:
    """A problem at a path such as `.spec.ports[1].number`."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem


class DecodeError(ValueError):
    """JSON that does not fit a class. `errors` are the paths and the problems there.

    Values are shown, except for those of secret fields and of what is below these.
    """

    def __init__(self, message: str, errors: tuple[FieldError, ...] = ()) -> None:
        super().__init__(message)
        self.errors = errors

    @classmethod
    def at(cls, *errors: FieldError) -> "DecodeError":
        """An error of these parts; their paths start at what was read."""
        return cls("; ".join(map(str, errors)), errors)

    def below(self, step: str) -> tuple[FieldError, ...]:
        """The errors as seen from one level above."""
        return tuple(FieldError(step + error.path, error.problem) for error in self.errors)


def wrong(value: Any, expected: str) -> DecodeError:
    return DecodeError.at(FieldError("", f"expected {expected}, got {_shown(value)}"))


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple | FrozenList):
        return "a list"
    if value is None:
        return "null"
    text = repr(value) if not isinstance(value, bool) else str(value).lower()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


@functools.cache
def reader_of(annotation: Any) -> Reader:
    """The reader of a type. Raises TypeError for a type that JSON has no form for."""
    if annotation in _READERS:
        return _READERS[annotation]
    plain, _ = split_annotated(annotation)
    if plain is not annotation:
        return reader_of(plain)
    if inspect.isclass(annotation) and attrs.has(annotation):
        return _ObjectReader(annotation)
    if inspect.isclass(annotation) and issubclass(annotation, enum.Enum):
        return _choice(annotation, tuple(member.value for member in annotation))
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return _choice(lambda value: value, arguments)
    if len(union_parts(annotation)) > 1:
        return _union(union_parts(annotation))
    if origin in (tuple, Sequence) and arguments:
        return _sequence(annotation, arguments)
    if origin is Mapping and arguments:
        return _mapping(arguments[1])
    raise TypeError(f"{_name(annotation)} has no place in a model{_instead(annotation)}")


def _instead(annotation: Any) -> str:
    origin = typing.get_origin(annotation) or annotation
    better = {list: "tuple[X, ...]", dict: "Mapping[str, X]", set: "tuple[X, ...]", tuple: "tuple[X, ...]"}
    if origin in better:
        return f": objects are immutable, write {better[origin]}"
    return ""


def _name(annotation: Any) -> str:
    return annotation.__name__ if inspect.isclass(annotation) else str(annotation).replace("typing.", "")


class _Slot(NamedTuple):
    """How one field is read; a tuple to unpack, because decoding spends its time here."""

    argument: str
    exact: Any
    nullable: bool
    read: Reader
    secret: bool


class _ObjectReader:
    """Reads an attrs class by its constructor, so that converters and validators apply."""

    def __init__(self, cls: type[Any]) -> None:
        if not attrs.inspect(cls).is_frozen:
            raise TypeError(f"{cls.__name__} can be changed, and what is decoded cannot: make it @frozen")
        self._cls = cls
        self._plan: dict[str, _Slot] | None = None
        self._needed: frozenset[str] = frozenset()
        self._empty: dict[str, Any] = {}
        self._extra: str | None = None
        self._known: frozenset[str] = frozenset()

    def __call__(self, value: Any) -> Any:
        if type(value) is not dict:
            if not isinstance(value, Mapping):
                raise wrong(value, "an object")
            value = value._of if isinstance(value, FrozenMapping) else value
        plan = self._plan or self._prepare()
        arguments = self._empty.copy()
        faults: list[FieldError] = []
        further: dict[str, Any] = {}
        for wire, found in value.items():
            slot = plan.get(wire)
            if slot is None:
                further[wire] = found
                continue
            argument, exact, nullable, read, secret = slot
            if type(found) is exact:
                arguments[argument] = found
            elif found is not None or nullable:
                try:
                    arguments[argument] = read(found)
                except DecodeError as error:
                    faults += _hidden(wire) if secret else error.below(f".{wire}")
        if self._extra is not None:
            arguments[self._extra] = self._kept(further)
        if not faults:
            try:
                return self._cls(**arguments)
            except (ValueError, TypeError) as error:
                faults = self._missing(value) or [self._refused(error)]
        elif not self._needed <= arguments.keys():
            faults += self._missing(value)
        raise DecodeError.at(*faults)

    def _prepare(self) -> dict[str, _Slot]:
        fields = fields_of(self._cls)
        self._needed = frozenset(f.argument for f in fields if f.needed and not (f.nullable and f.unset))
        self._empty = {f.argument: EMPTY for f in fields if _is_empty_mapping(f.default)}
        self._extra = extra_of(self._cls)
        self._known = heading_of(self._cls)
        self._plan = {f.wire: _slot(f) for f in fields}
        return self._plan

    def _kept(self, further: dict[str, Any]) -> FrozenMapping:
        for wire in self._known & further.keys():
            del further[wire]
        return FrozenMapping(further) if further else EMPTY

    def _missing(self, value: Mapping[str, Any]) -> list[FieldError]:
        return [
            FieldError(f".{f.wire}", "required, but missing")
            for f in fields_of(self._cls)
            if f.argument in self._needed
            and (value.get(f.wire) is None and not (f.nullable and f.wire in value))
        ]

    def _refused(self, error: Exception) -> FieldError:
        """The message of a converter or validator, unless the object has a secret field."""
        if any(f.secret for f in fields_of(self._cls)):
            return FieldError("", f"{self._cls.__name__} refuses its values")
        return FieldError(
            "", f"{self._cls.__name__} refuses its values: {error.args[0] if error.args else error}"
        )


def _hidden(wire: str) -> tuple[FieldError, ...]:
    return (FieldError(f".{wire}", "the secret value does not fit"),)


def _is_empty_mapping(default: Any) -> bool:
    return isinstance(default, dict) and not default


_EXACT: Final = (str, int, bool)


def _slot(field: ModelField) -> _Slot:
    read = reader_of(field.type)
    if LAZY in split_annotated(field.type)[1]:
        read = _when_needed(read)
    if field.nullable:
        read = _or_none(read)
    exact = field.type if field.type in _EXACT else None
    return _Slot(field.argument, exact, field.nullable, read, field.secret)


def _when_needed(read: Reader) -> Reader:
    """The reader of a list whose items are read when first accessed."""

    def read_later(value: Any) -> Any:
        if not isinstance(value, list):
            return read(value)
        return FrozenRecords(value, read) if value else ()

    return read_later


def _or_none(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _scalar(kinds: tuple[type, ...], expected: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) not in kinds:
            raise wrong(value, expected)
        return value

    return read


def _parsed(parse: Callable[[Any], Any], kinds: tuple[type, ...], made: type, expected: str) -> Reader:
    def read(value: Any) -> Any:
        if isinstance(value, made):
            return value
        if type(value) not in kinds:
            raise wrong(value, expected)
        try:
            return parse(value)
        except ValueError:
            raise wrong(value, expected) from None

    return read


def _choice(make: Callable[[Any], Any], values: tuple[Any, ...]) -> Reader:
    allowed = {(type(value), value): make(value) for value in values}

    def read(value: Any) -> Any:
        if isinstance(value, enum.Enum):
            value = value.value
        try:
            return allowed[type(value), value]
        except (KeyError, TypeError):
            raise wrong(value, f"one of {', '.join(map(str, values))}") from None

    return read


def _sequence(annotation: Any, arguments: tuple[Any, ...]) -> Reader:
    if typing.get_origin(annotation) is tuple and (len(arguments) != 2 or arguments[1] is not Ellipsis):
        raise TypeError(f"{annotation} has no place in a model: write tuple[X, ...]")
    read = reader_of(arguments[0])
    exact = {arguments[0]} if arguments[0] in _EXACT else set()

    def read_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple | FrozenList):
            raise wrong(value, "a list")
        if exact and exact.issuperset(map(type, value)):
            return tuple(value)
        try:
            return tuple([read(one) for one in value])
        except DecodeError:
            raise DecodeError.at(*_faults_of(read, enumerate(value), "[{}]")) from None

    return read_all


def _mapping(item: Any) -> Reader:
    if item is Any:
        return _read_anything_in_mapping
    read = reader_of(item)
    exact = {item} if item in _EXACT else set()

    def read_all(value: Any) -> FrozenMapping:
        if not isinstance(value, Mapping):
            raise wrong(value, "an object")
        if type(value) is dict and exact.issuperset(map(type, value.values())):
            return FrozenMapping(value)
        try:
            made = {name: read(one) for name, one in value.items()}
        except DecodeError:
            raise DecodeError.at(*_faults_of(read, value.items(), ".{}")) from None
        return FrozenMapping(made) if exact else FrozenValues(made)

    return read_all


def _faults_of(read: Reader, values: Any, step: str) -> list[FieldError]:
    faults: list[FieldError] = []
    for place, value in values:
        try:
            read(value)
        except DecodeError as error:
            faults += error.below(step.format(place))
    return faults


def _read_anything_in_mapping(value: Any) -> Any:
    if type(value) is dict:
        return FrozenMapping(value)
    if not isinstance(value, Mapping):
        raise wrong(value, "an object")
    return value if isinstance(value, FrozenMapping) else FrozenMapping(dict(value))


def _union(parts: tuple[Any, ...]) -> Reader:
    kept = tuple(part for part in parts if part not in (type(None), UnsetType))
    optional = type(None) in parts
    if len(kept) == 1:
        return _or_none(reader_of(kept[0])) if optional else reader_of(kept[0])
    if all(part in (str, int, float, bool) for part in kept):
        kinds = (*kept, int) if float in kept else kept
        read = _scalar(kinds, f"one of {', '.join(part.__name__ for part in kept)}")
    else:
        read = _tagged(kept)
    return _or_none(read) if optional else read


def tag_of(classes: tuple[Any, ...]) -> tuple[str, dict[str, Any]]:
    """The JSON name of the common Literal field, and each value's class. Raises TypeError without one."""
    if not all(inspect.isclass(one) and attrs.has(one) for one in classes):
        names = " | ".join(map(_name, classes))
        raise TypeError(
            f"{names}: a union is `X | None`, of scalars (`int | str`), or of classes told apart by a tag"
        )
    choices = [{f.wire: typing.get_args(f.type) for f in _literals(one)} for one in classes]
    for wire in choices[0]:
        values = [choice.get(wire, ()) for choice in choices]
        flat = [value for group in values for value in group]
        if all(values) and len(set(flat)) == len(flat):
            return wire, {v: one for one, group in zip(classes, values, strict=True) for v in group}
    names = " | ".join(map(_name, classes))
    raise TypeError(f"{names}: no tag: give each a field of one name, `type: Literal['one value'] = ...`")


def _literals(cls: type[Any]) -> list[ModelField]:
    return [f for f in fields_of(cls) if typing.get_origin(f.type) is Literal]


def _tagged(classes: tuple[Any, ...]) -> Reader:
    wire, by_value = tag_of(classes)

    def read(value: Any) -> Any:
        if isinstance(value, classes):
            return value
        if not isinstance(value, Mapping):
            raise wrong(value, "an object")
        found = value.get(wire)
        cls = by_value.get(found) if isinstance(found, str) else None
        if cls is None:
            said = (
                "required, but missing"
                if found is None
                else str(wrong(found, f"one of {', '.join(by_value)}"))
            )
            raise DecodeError.at(FieldError(f".{wire}", said))
        return reader_of(cls)(value)

    return read


_READERS: Final[dict[Any, Reader]] = {
    Any: freeze,
    str: _scalar((str,), "a string"),
    int: _scalar((int,), "an integer"),
    bool: _scalar((bool,), "true or false"),
    float: _scalar((float, int), "a number"),
    type(None): _scalar((type(None),), "null"),
    datetime.datetime: _parsed(parse_time, (str,), datetime.datetime, "a time with a time zone"),
    datetime.timedelta: _parsed(parse_duration, (str,), datetime.timedelta, "a duration such as 1h30m"),
    Quantity: _parsed(read_quantity, (str, int, float), Quantity, "a quantity such as 500m"),
}


def check_model(cls: type[Any]) -> None:
    """Raise TypeError for a field, at any depth, that cannot be read; undefined names wait until read."""
    seen: set[Any] = set()

    def look(annotation: Any) -> None:
        plain, _ = split_annotated(annotation)
        if inspect.isclass(plain) and attrs.has(plain) and plain is not Quantity:
            if plain not in seen:
                seen.add(plain)
                extra_of(plain)
                for one in fields_of(plain):
                    _checked(plain, one)
                    look(one.type)
            return
        for part in typing.get_args(plain):
            if not isinstance(part, str | int):
                look(part)

    try:
        look(cls)
    except NameError:
        return


def _checked(cls: type[Any], field: ModelField) -> None:
    try:
        reader_of(field.type)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}.{field.name}: {error}") from None

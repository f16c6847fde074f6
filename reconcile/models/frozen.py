"""Immutable JSON: views of decoded objects, which wrap inner values only when they are read."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, Self, overload

import msgspec


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError("a decoded object cannot be changed; copy it first: thaw(...) gives dicts and lists")


class _FrozenJson:
    __slots__ = ("_of",)

    def __init__(self, of: Any) -> None:
        self._of = of

    def __len__(self) -> int:
        return len(self._of)

    def __hash__(self) -> int:
        return hash(msgspec.json.encode(self._of, order="deterministic"))

    def __repr__(self) -> str:
        return repr(self._of)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Any:
        return thaw(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._of,)


class FrozenMapping(_FrozenJson, Mapping[str, Any]):
    """An immutable JSON object, at any depth. Equal to a dict of the same content."""

    __slots__ = ()
    _of: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return freeze(self._of[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __contains__(self, name: object) -> bool:
        return name in self._of

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrozenMapping):
            return self._of == other._of
        if isinstance(other, Mapping):
            return dict(self.items()) == dict(other.items())
        return NotImplemented

    __hash__ = _FrozenJson.__hash__
    __setitem__ = __delitem__ = pop = popitem = clear = update = setdefault = _refuse


class FrozenValues(FrozenMapping):
    """An immutable mapping of typed values, themselves immutable."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Any:
        return self._of[name]

    def __hash__(self) -> int:
        return hash(frozenset(self._of.items()))

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)


class FrozenList(_FrozenJson, Sequence[Any]):
    """An immutable JSON array, at any depth. Equal to a list or tuple of the same content."""

    __slots__ = ()
    _of: list[Any]

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> "FrozenList": ...
    def __getitem__(self, index: int | slice) -> Any:
        return freeze(self._of[index])

    def __iter__(self) -> Iterator[Any]:
        return map(freeze, self._of)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrozenList):
            return self._of == other._of
        if isinstance(other, list | tuple):
            return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))
        return NotImplemented

    def __add__(self, other: Sequence[Any]) -> list[Any]:
        return [*self, *other]

    def __radd__(self, other: Sequence[Any]) -> list[Any]:
        return [*other, *self]

    __hash__ = _FrozenJson.__hash__
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse


class FrozenRecords(Sequence[Any]):
    """Typed items of a list, read from JSON when first accessed. Equal to a tuple of the same items."""

    __slots__ = ("_items", "_read", "_texts")

    def __init__(self, texts: Sequence[Any], read: Callable[[Any], tuple[Any, ...]]) -> None:
        self._texts = texts
        self._read = read
        self._items: tuple[Any, ...] | None = None

    @property
    def items(self) -> tuple[Any, ...]:
        """Raises DecodeError if an item does not fit its class."""
        if self._items is None:
            self._items = self._read(self._texts)
        return self._items

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self._texts)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrozenRecords):
            return self._texts == other._texts or self.items == other.items
        return self.items == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.items)

    def __repr__(self) -> str:
        return repr(self.items)

    def __add__(self, other: Sequence[Any]) -> tuple[Any, ...]:
        return (*self.items, *other)

    def __radd__(self, other: Sequence[Any]) -> tuple[Any, ...]:
        return (*other, *self.items)

    def __copy__(self) -> "FrozenRecords":
        return self

    def __deepcopy__(self, _: object) -> "FrozenRecords":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self.items,)


def freeze(value: Any) -> Any:
    """An immutable view of decoded JSON; scalars are returned as they are."""
    kind = type(value)
    if kind is dict:
        return FrozenMapping(value)
    return FrozenList(value) if kind is list else value


def thaw(value: Any) -> Any:
    """A copy of frozen JSON as dicts and lists; other values are returned as they are."""
    if isinstance(value, FrozenValues):
        return dict(value._of)
    if isinstance(value, FrozenMapping | FrozenList):
        return msgspec.to_builtins(value._of, enc_hook=_inside)
    return value


def _inside(value: Any) -> Any:
    if isinstance(value, FrozenMapping | FrozenList):
        return value._of
    raise TypeError(f"a {type(value).__name__} is not JSON")


EMPTY: Final = FrozenMapping({})

"""Values by namespace and name."""

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

T = TypeVar("T")


class ByPlace(Generic[T]):
    """A dict by name for each namespace: a store needs no key for each object, nor an index of namespaces.

    Where a namespace has one or two objects alone, it takes more than a dict by both.
    """

    __slots__ = ("_names",)

    def __init__(self, items: Iterable[tuple[str, str, T]] = ()) -> None:
        self._names: dict[str, dict[str, T]] = {}
        for namespace, name, value in items:
            self.set(namespace, name, value)

    def get(self, namespace: str, name: str) -> T | None:
        names = self._names.get(namespace)
        return None if names is None else names.get(name)

    def set(self, namespace: str, name: str, value: T) -> T | None:
        """Returns the former value."""
        names = self._names.get(namespace)
        if names is None:
            self._names[namespace] = {name: value}
            return None
        former = names.get(name)
        names[name] = value
        return former

    def pop(self, namespace: str, name: str) -> T | None:
        names = self._names.get(namespace)
        if names is None:
            return None
        value = names.pop(name, None)
        if not names:
            del self._names[namespace]
        return value

    def namespaces(self) -> Collection[str]:
        return self._names.keys()

    def of(self, namespace: str) -> Iterable[T]:
        """The values of one namespace."""
        names = self._names.get(namespace)
        return () if names is None else names.values()

    def values(self) -> Iterator[T]:
        return chain.from_iterable(names.values() for names in self._names.values())

    def items(self) -> Iterator[tuple[str, str, T]]:
        for namespace, names in self._names.items():
            for name, value in names.items():
                yield namespace, name, value

    def __len__(self) -> int:
        return sum(map(len, self._names.values()))

    def __bool__(self) -> bool:
        return bool(self._names)

"""Sets of field paths, and their FieldsV1 form in managedFields."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final

import msgspec
from attrs import field, frozen

_SELF: Final = "."
_RANKS: Final = {"f": 0, "k": 1, "v": 2, "i": 3}


@frozen
class FieldSet:
    """A set of paths, as a tree: `owned` says whether the path to this node is in the set.

    The keys of `children` are path elements as in FieldsV1: `f:name` for a member, `k:{"name":"x"}` for an
    item with these keys, `v:"x"` for an item of a set. No child is empty.
    """

    LEAF: ClassVar["FieldSet"]
    """One shared object for an owned path with nothing below it, as most fields are."""

    owned: bool = False
    children: Mapping[str, "FieldSet"] = field(factory=dict)

    def __bool__(self) -> bool:
        return self.owned or bool(self.children)

    def union(self, other: "FieldSet") -> "FieldSet":
        if not other.children:
            return FieldSet(True, self.children) if other.owned and not self.owned else self
        children = dict(self.children)
        for element, child in other.children.items():
            mine = children.get(element)
            children[element] = child if mine is None else mine.union(child)
        return FieldSet(self.owned or other.owned, children)

    def intersection(self, other: "FieldSet") -> "FieldSet":
        children: dict[str, FieldSet] = {}
        for element, child in self.children.items():
            theirs = other.children.get(element)
            if theirs is not None and (shared := child.intersection(theirs)):
                children[element] = shared
        return FieldSet(self.owned and other.owned, children)

    def difference(self, other: "FieldSet") -> "FieldSet":
        """The paths that `other` lacks, also if it has one above them; `self` if those are all."""
        children: dict[str, FieldSet] | None = None
        for element, taken in other.children.items():
            child = self.children.get(element)
            if child is None:
                continue
            left = child.difference(taken)
            if left is child:
                continue
            if children is None:
                children = dict(self.children)
            if left:
                children[element] = left
            else:
                del children[element]
        owned = self.owned and not other.owned
        if children is None and owned is self.owned:
            return self
        return FieldSet(owned, self.children if children is None else children)

    def paths(self) -> Iterator[tuple[str, ...]]:
        for element in sorted(self.children, key=_order):
            child = self.children[element]
            if child.owned:
                yield (element,)
            for rest in child.paths():
                yield (element, *rest)

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for element in sorted(self.children):
            child = self.children[element]
            if not child.children:
                fields[element] = {}
                continue
            below = child.to_json()
            fields[element] = {_SELF: {}, **below} if child.owned else below
        return fields

    @classmethod
    def from_json(cls, fields: Any) -> "FieldSet":
        """Read FieldsV1. Raises ValueError if `fields` has another form."""
        return cls(False, _read(fields).children)

    @classmethod
    def of(cls, *paths: Sequence[str]) -> "FieldSet":
        result = NO_FIELDS
        for path in paths:
            branch = cls(owned=True)
            for element in reversed(path):
                branch = cls(children={element: branch})
            result = result.union(branch)
        return result


FieldSet.LEAF = FieldSet(owned=True)
NO_FIELDS: Final = FieldSet()


def field_element(name: str) -> str:
    return f"f:{name}"


def key_element(keys: Mapping[str, Any]) -> str:
    """The path element for an item of a list of type map."""
    if len(keys) == 1:
        (name, value), *_ = keys.items()
        if type(value) is str:
            return _named_element(name, value)
    return f"k:{_canonical(keys)}"


@lru_cache(maxsize=4096)
def _named_element(key: str, value: str) -> str:
    """Cached, since most keyed lists have the same few names as keys in many objects."""
    return f"k:{_canonical({key: value})}"


def value_element(value: Any) -> str:
    """The path element for an item of a list of type set."""
    return f"v:{_canonical(value)}"


def path_text(path: Sequence[str]) -> str:
    """A path as in messages: `.spec.ports[port=80,protocol="TCP"].name`."""
    return "".join(_element_text(element) for element in path)


def _element_text(element: str) -> str:
    kind, text = element[0], element[2:]
    if kind == "f":
        return f".{text}"
    if kind == "k":
        keys = msgspec.json.decode(text)
        return f"[{','.join(f'{name}={_canonical(value)}' for name, value in keys.items())}]"
    return f"[={text}]" if kind == "v" else f"[{text}]"


def _canonical(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _order(element: str) -> tuple[int, str]:
    return (_RANKS[element[0]], element)


def _read(fields: Any) -> FieldSet:
    if not isinstance(fields, dict):
        raise ValueError("FieldsV1 must consist of objects")
    children = {_element(name): _read(below) for name, below in fields.items() if name != _SELF}
    return FieldSet(_SELF in fields or not children, children)


@lru_cache(maxsize=4096)
def _element(text: str) -> str:
    """The element in canonical spelling."""
    kind, separator, rest = text.partition(":")
    if not separator or kind not in _RANKS:
        raise ValueError(f"not an element of a path: {text}")
    if kind in ("k", "v"):
        try:
            return f"{kind}:{_canonical(msgspec.json.decode(rest))}"
        except msgspec.DecodeError:
            raise ValueError(f"not an element of a path: {text}") from None
    return text

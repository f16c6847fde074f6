"""What the code of an author remembers between two runs: closures, attributes and globals that can change.

A reconciler that keeps a dict of what it has done acts on that dict, so it is a part of the state of the
world, and two runs that share it do not commute if one changes it.
"""

import sysconfig
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from reconcile.models import Object
from reconcile.testing.exploration.content_digests import digest_of

_DEEPEST = 6
_MOST = 2_000
"""Values that are looked at, at most: a table of a million entries would take longer than the run."""
_PLAIN = (str, bytes, int, float, bool, type(None), complex, frozenset, Object)
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
_OWN = ("reconcile", "informers", "workqueue", "asyncio", "anyio", "attrs", "attr", "structlog", "msgspec")


def memory_of(roots: Iterable[object]) -> bytes:
    """The digest of all that the functions and objects of an author can change and read again."""
    return digest_of(list(_Walk().values(roots)))


class _Walk:
    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._left = _MOST

    def values(self, roots: Iterable[object]) -> Iterator[str]:
        for root in roots:
            yield from self._value(root, 0)

    def _value(self, value: object, depth: int) -> Iterator[str]:
        if isinstance(value, _PLAIN):
            if depth:
                yield repr(value) if not isinstance(value, Object) else repr(value.metadata)
            return
        if depth > _DEEPEST or self._left <= 0 or id(value) in self._seen:
            return
        self._left -= 1
        self._seen.add(id(value))
        match value:
            case ModuleType() | type():
                return
            case FunctionType():
                yield from self._function(value, depth)
            case MethodType():
                yield from self._value(value.__func__, depth)
                yield from self._value(value.__self__, depth)
            case partial():
                yield from self._each((value.func, *value.args, *value.keywords.values()), depth)
            case Mapping():
                yield f"{{{len(value)}"
                yield from self._each((part for entry in value.items() for part in entry), depth)
            case list() | tuple() | deque():
                yield f"[{len(value)}"
                yield from self._each(value, depth)
            case set():
                yield repr(sorted(map(repr, value)))
            case _:
                yield from self._object(value, depth)

    def _each(self, values: Iterable[object], depth: int) -> Iterator[str]:
        for value in values:
            yield from self._value(value, depth + 1)

    def _function(self, function: FunctionType, depth: int) -> Iterator[str]:
        if not _is_authors(function.__code__.co_filename, function.__module__ or ""):
            return
        for cell in function.__closure__ or ():
            try:
                held = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            yield from self._value(held, depth + 1)
        yield from self._each(function.__defaults__ or (), depth)
        for name in _globals_of(function.__code__):
            held = function.__globals__.get(name)
            if isinstance(held, dict | list | set | deque | Counter | FunctionType) or _is_state(held):
                yield from self._value(held, depth + 1)

    def _object(self, value: object, depth: int) -> Iterator[str]:
        if not _is_state(value):
            return
        yield type(value).__qualname__
        held: dict[str, Any] = dict(getattr(value, "__dict__", {}))
        slots = [name for one in type(value).__mro__ for name in getattr(one, "__slots__", ())]
        held |= {name: getattr(value, name) for name in slots if hasattr(value, name)}
        for name, part in sorted(held.items()):
            yield name
            yield from self._value(part, depth + 1)


def _is_state(value: object) -> bool:
    """Whether it is an object of a class of the author's."""
    module = type(value).__module__ or ""
    return module.partition(".")[0] not in (*_OWN, "builtins", "functools", "typing", "collections", "re")


@lru_cache(maxsize=4_096)
def _is_authors(filename: str, module: str) -> bool:
    return not filename.startswith(_LIBRARIES) and module.partition(".")[0] not in _OWN


@lru_cache(maxsize=4_096)
def _globals_of(code: CodeType) -> tuple[str, ...]:
    """The globals that a function may use, also in functions inside."""
    inner = [name for part in code.co_consts if isinstance(part, CodeType) for name in _globals_of(part)]
    return tuple(dict.fromkeys((*code.co_names, *inner)))

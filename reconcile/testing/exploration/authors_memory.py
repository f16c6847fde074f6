"""What the code of an author remembers between two runs: closures, attributes and globals that can change.

A reconciler that keeps a dict of what it has done acts on that dict, so it is a part of the state of the
world, and two runs that share it do not commute if one changes it.
"""

import sys
import sysconfig
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from dis import get_instructions
from enum import Enum
from functools import lru_cache, partial
from itertools import count
from pathlib import PurePath
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple
from uuid import UUID
from weakref import WeakKeyDictionary

from attrs import define, field, frozen

from reconcile.controller.declaration import Controller
from reconcile.models import Object
from reconcile.testing.world import World

_DEEPEST = 100
MOST_VALUES = 20_000
"""Values that are looked at, at most: a table of a million entries would take longer than the run."""
_PLAIN = (
    str, bytes, bytearray, int, type(None), complex, range, date, time, timedelta, Decimal, UUID, PurePath,
    count,
)  # fmt: skip
_CAN_CHANGE = (dict, list, set, deque)
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
_GENERATED = "<attrs generated"
_OWN = ("reconcile", "informers", "workqueue", "asyncio", "anyio", "attrs", "attr", "structlog", "msgspec")
_BUILDING_BLOCKS = ("reconcile.blocks.", "reconcile.simulation.")
"""Of this library, but used as an author's own code is: an autoscaler remembers what it has read."""


@frozen
class Memory:
    """All that the functions and objects of an author can change and read again."""

    text: str
    """The same for the same content, apart from uids and generated names; times to the millisecond."""
    has_times: bool
    """Whether there is something that may be a time, so that what is done with it depends on the time now."""
    is_whole: bool = True
    """Whether all of it was looked at, not only `MOST_VALUES`."""


def memory_of(roots: Iterable[object]) -> Memory:
    """What these functions and objects remember."""
    walk = _Walk()
    text = "\n".join(walk.values(roots))
    return Memory(text, walk.has_times, walk.is_whole)


def functions_of(controllers: Iterable[Controller[Any]]) -> Sequence[object]:
    """The functions of controllers, from which all that these remember is reached."""
    return [
        function
        for controller in controllers
        for function in (controller.reconcile, controller.cleanup, controller.on_deleted)
        if function is not None
    ]


def remembers_times(world: World) -> bool:
    """Whether the code of a world remembers something that may be a time."""
    functions = [functions_of(process.controllers) for process in world.processes]
    return memory_of([*functions, [world.outside]]).has_times


@define
class _Walk:
    """Goes through all that can be reached; with `looks` also through functions without state."""

    looks: bool = False
    has_times: bool = field(default=False, init=False)
    is_whole: bool = field(default=True, init=False)
    _seen: set[int] = field(factory=set, init=False)
    _left: int = field(default=MOST_VALUES, init=False)

    def values(self, roots: Iterable[object]) -> Iterator[str]:
        for root in roots:
            yield from self._value(root, 0)

    def _value(self, value: object, depth: int) -> Iterator[str]:
        if self._left <= 0 or depth > _DEEPEST:
            self.is_whole = False
            return
        self._left -= 1
        if isinstance(value, (float, *_PLAIN)):
            if depth:
                yield self._plain(value)
            return
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        match value:
            case ModuleType():
                return
            case type():
                yield from self._class(value, depth)
            case Object():
                yield repr(value.metadata)  # its version tells its content
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
            case set() | frozenset():
                yield repr(sorted(map(repr, value)))
            case _:
                yield from self._object(value, depth)

    def _plain(self, value: object) -> str:
        match value:
            case float():
                self.has_times = True
                return repr(round(value, 3))
            case datetime():
                self.has_times = True
                return value.isoformat(timespec="milliseconds")
            case _:
                return repr(value)

    def _each(self, values: Iterable[object], depth: int) -> Iterator[str]:
        for value in values:
            if self._left <= 0:
                self.is_whole = False
                return
            yield from self._value(value, depth + 1)

    def _function(self, function: FunctionType, depth: int) -> Iterator[str]:
        if not _is_authors(function.__code__.co_filename, function.__module__ or ""):
            return
        if not self.looks and not function.__closure__ and _is_stateless(function):
            return
        for cell in function.__closure__ or ():
            try:
                held = cell.cell_contents
            except ValueError:  # not assigned yet
                continue
            yield from self._value(held, depth + 1)
        yield from self._each(function.__defaults__ or (), depth)
        yield from self._each((function.__kwdefaults__ or {}).values(), depth)
        yield from self._each(vars(function).values(), depth)
        named = _globals_of(function.__code__)
        for name in named.read:
            held = function.__globals__.get(name)
            if isinstance(held, ModuleType):
                yield from self._each(_parts_of(held, named), depth)
            elif _can_hold_state(held):
                yield from self._value(held, depth + 1)
        for name in named.assigned:
            yield name
            yield from self._value(function.__globals__.get(name), depth + 1)

    def _class(self, kind: type, depth: int) -> Iterator[str]:
        """What its attributes hold, and what its methods use."""
        if not _is_authors_class(kind):
            return
        for one in filter(_is_authors_class, kind.__mro__):
            for name, part in vars(one).items():
                part = part.fget if isinstance(part, property) else getattr(part, "__func__", part)
                if isinstance(part, FunctionType) or (not name.startswith("__") and _can_differ(part)):
                    yield from self._value(part, depth + 1)

    def _object(self, value: object, depth: int) -> Iterator[str]:
        if not _is_state(value):
            return
        yield type(value).__qualname__
        yield from self._value(type(value), depth)
        held: dict[str, Any] = dict(getattr(value, "__dict__", {}))
        slots = [name for one in type(value).__mro__ for name in _slots_of(one)]
        held |= {name: getattr(value, name) for name in slots if hasattr(value, name)}
        for name, part in sorted(held.items()):
            yield name
            yield from self._value(part, depth + 1)


def _slots_of(kind: type) -> Iterator[str]:
    slots = kind.__dict__.get("__slots__", ())
    return (name for name in ((slots,) if isinstance(slots, str) else slots) if name != "__weakref__")


def _is_state(value: object) -> bool:
    """Whether it is an object of a class of the author's."""
    module = type(value).__module__ or ""
    root = module.partition(".")[0]
    return root not in ("builtins", "functools", "typing", "collections", "re") and not _is_own(module)


def _can_hold_state(value: object) -> bool:
    """Whether something that is bound once can change, or leads to what can."""
    return isinstance(value, (*_CAN_CHANGE, FunctionType, type)) or _is_state(value)


def _is_own(module: str) -> bool:
    """Whether it belongs to the runtime, which keeps nothing for an author."""
    return module.partition(".")[0] in _OWN and not module.startswith(_BUILDING_BLOCKS)


def _can_differ(part: object) -> bool:
    """Whether an attribute of a class can be a state: `Site.count += 1` sets a number there."""
    return isinstance(part, (*_CAN_CHANGE, int, float, str, type(None)))


@lru_cache(maxsize=4_096)
def _is_authors_class(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None) or ""
    known = _is_own(kind.__module__) or kind.__module__ == "builtins" or file.startswith(_LIBRARIES)
    return not known and not issubclass(kind, (Object, Enum, BaseException))


@lru_cache(maxsize=4_096)
def _is_authors(filename: str, module: str) -> bool:
    return not filename.startswith((*_LIBRARIES, _GENERATED)) and not _is_own(module)


_stateless: WeakKeyDictionary[FunctionType, bool] = WeakKeyDictionary()


def _is_stateless(function: FunctionType) -> bool:
    """Whether nothing that can change is reached from a function; decided once.

    What its globals are bound to is taken not to change, unless a function declares them `global`.
    """
    found = _stateless.get(function)
    if found is None:
        found = _stateless[function] = not any(_Walk(looks=True).values([function]))
    return found


class _Globals(NamedTuple):
    """The globals that a function may use, also in functions inside."""

    read: tuple[str, ...]
    assigned: tuple[str, ...]
    """Those that it declares `global`, and binds: their values count even if these cannot change."""
    attributes: tuple[str, ...]
    """The attributes that it reads, of anything."""
    bound: tuple[str, ...]
    """The attributes that it binds."""


def _parts_of(module: ModuleType, used: _Globals) -> Iterator[object]:
    """What code finds in a module of the author's that can change: `plan.table["east"] = 1`."""
    if _is_authors(getattr(module, "__file__", None) or "", module.__name__):
        parts = vars(module)
        yield from (parts[name] for name in used.bound if name in parts)
        yield from (parts[name] for name in used.attributes if _can_hold_state(parts.get(name)))


@lru_cache(maxsize=4_096)
def _globals_of(code: CodeType) -> _Globals:
    """Decided once for each code object."""
    inner = [_globals_of(part) for part in code.co_consts if isinstance(part, CodeType)]
    read, assigned, attributes, bound = (
        dict.fromkeys(name for one in inner for name in one[column]) for column in range(4)
    )
    for step in get_instructions(code):
        match step.opname:
            case "LOAD_GLOBAL" | "LOAD_NAME":
                read[step.argval] = None
            case "STORE_GLOBAL" | "DELETE_GLOBAL":
                assigned[step.argval] = None
            case "LOAD_ATTR" | "LOAD_METHOD":
                attributes[step.argval] = None
            case "STORE_ATTR":
                bound[step.argval] = None
    for name in assigned:
        read.pop(name, None)
    return _Globals(tuple(read), tuple(assigned), tuple(attributes), tuple(bound))

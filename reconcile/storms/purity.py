"""Whether one state is always rendered to the same desired state: neither time, chance nor order shows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from informers import Key, Resource
from reconcile.requests import TerminalError
from reconcile.run_record import Sent
from reconcile.storms.changes import differing

Rendered: TypeAlias = Mapping[tuple[Resource, Key, str], Any]
"""What a run wanted, by object and subresource: the bodies of its creates and applies, and its status."""

REMEDY = (
    "the same state has to give the same desired state: leave the time out, sort what comes from a set or a "
    "list of objects, and take passwords and salts from ctx.generate_once"
)

_OF_THE_SERVER = ".metadata.managedFields"


class Impure(TerminalError):
    """One state was rendered to two desired states. `paths` are where they differ."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(f"desired state is not a function of what is there: {', '.join(paths)}: {REMEDY}")
        self.paths = tuple(paths)


def impurities(one: Rendered, other: Rendered) -> Sequence[str]:
    """Where two renderings of one state differ: `ConfigMap default/web: .data.stamp`."""
    found: list[str] = []
    for place in {**one, **other}:
        where = _name(*place)
        if place not in one or place not in other:
            found.append(f"{where}: is wanted in one of two renderings only")
        else:
            found += [f"{where}: {path or 'all of it'}" for path, _, _ in differing(one[place], other[place])]
    return found


def reordered(sent: Sequence[Sent]) -> Sequence[str]:
    """Which writes changed nothing about a list but its order: as of a set, which differs by process."""
    return [
        f"{_name(one.resource, one.key, one.subresource)}: {path}, which has another order only"
        for one in sent
        if one.base is not None and one.written is not None
        for path in _reordered(one)
    ]


def _reordered(sent: Sent) -> Iterator[str]:
    assert sent.base is not None
    assert sent.written is not None
    if sent.base.version != sent.written.version:
        found = _permuted(sent.base.to_dict(), sent.written.to_dict(), "")
        yield from (path for path in found if not path.startswith(_OF_THE_SERVER))


def _permuted(old: Any, new: Any, path: str) -> Iterator[str]:
    """The lists of two values that have the same elements, in another order."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted(old.keys() & new.keys()):
            yield from _permuted(old[name], new[name], f"{path}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and old != new and len(old) == len(new):
        if sorted(map(_text, old)) == sorted(map(_text, new)):
            yield path
            return
        for number, one in enumerate(old):
            yield from _permuted(one, new[number], f"{path}[{number}]")


def _text(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _name(resource: Resource, key: Key, subresource: str) -> str:
    return f"{resource.kind} {key}{f'/{subresource}' if subresource else ''}"

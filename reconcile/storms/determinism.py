"""Checks that a reconciler derives the same desired state from the same state, whatever time and chance."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from informers import APIResource, Key, Snapshot
from reconcile.client.diff import value_differences
from reconcile.runs.run_request import TerminalError
from reconcile.runs.write_events import EndedWrite

Rendered: TypeAlias = Mapping[tuple[APIResource, Key, str], Any]
"""The desired state of a run, by object and subresource: its creates, applies and status."""

Rendering: TypeAlias = tuple[Rendered, Sequence[EndedWrite]]
"""The desired state of a run, and its writes with the answers."""

REMEDY = (
    "the same state has to give the same desired state: leave the time out, sort what comes from a set or a "
    "list of objects, and take passwords and salts from ctx.generate_once"
)

_OF_THE_SERVER = ".metadata.managedFields"
_VERSION = "<resourceVersion of "


class NondeterministicRun(TerminalError):
    """A run derived a different desired state from the same state. `paths` are where the two differ."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(f"desired state is not a function of what is there: {', '.join(paths)}: {REMEDY}")
        self.paths = tuple(paths)


def check_renderings(one: Rendering, other: Rendering) -> None:
    """Raises NondeterministicRun for two runs on one state whose desired states differ.

    Also where the other has written a list again in another order.
    """
    paths = [*rendering_differences(*without_server_set(one, other)), *reordered_lists(other[1])]
    if paths:
        raise NondeterministicRun(paths)


def rendering_differences(one: Rendered, other: Rendered) -> Sequence[str]:
    """Where two renderings of one state differ: `ConfigMap default/web: .data.stamp`."""
    lines: list[str] = []
    for place in {**one, **other}:
        where = _name(*place)
        if place not in one or place not in other:
            lines.append(f"{where}: appears in only one of two renderings")
        else:
            lines += [
                f"{where}: {path or 'all of it'}"
                for path, before, after in value_differences(one[place], other[place])
                if not (_is_version(before) or _is_version(after))
            ]
    return lines


def without_server_set(one: Rendering, other: Rendering) -> tuple[Rendered, Rendered]:
    """Two renderings with names in place of the values that the server chose for them.

    A uid, a version, a generated name and the time of creation differ with every create, although the part of
    a record that holds them is still a function of the state. A version is replaced only where it stands
    alone: within a text it could be any number.
    """
    exact: dict[str, str] = {}
    within: dict[str, str] = {}
    for _, sent in (one, other):
        generated: Counter[tuple[APIResource, str, str]] = Counter()
        for write in sent:
            if write.written is not None:
                _name_values(write, write.written, generated, exact, within)
    return _named(one[0], exact, within), _named(other[0], exact, within)


def _named(rendered: Rendered, exact: Mapping[str, str], within: Mapping[str, str]) -> Rendered:
    return {place: _replaced(body, exact, within) for place, body in rendered.items()}


def _name_values(
    sent: EndedWrite,
    written: Snapshot,
    generated: Counter[tuple[APIResource, str, str]],
    exact: dict[str, str],
    within: dict[str, str],
) -> None:
    key, prefix = written.key, _generated_from(sent.body)
    if prefix:
        # by its number among those of one prefix: the order of creates is the same in the other run
        count = generated[sent.resource, key.namespace, prefix]
        generated[sent.resource, key.namespace, prefix] += 1
        key = Key(key.namespace, f"{prefix}*{count}")
    where = _name(sent.resource, key, "")
    within[written.uid] = f"<uid of {where}>"
    if prefix:
        within[written.key.name] = f"<name of {where}>"
    if written.version:
        exact[str(written.version)] = f"{_VERSION}{where}>"
    created = written.to_dict()["metadata"].get("creationTimestamp")
    if sent.fresh and created:
        within[created] = f"<creationTimestamp of {where}>"


def _generated_from(body: Any) -> str:
    """The `generateName` of a create without a name; else empty."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    if not isinstance(metadata, Mapping) or metadata.get("name"):
        return ""
    return str(metadata.get("generateName") or "")


def _replaced(value: Any, exact: Mapping[str, str], within: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        if value in exact:
            return exact[value]
        for text, name in within.items():
            value = value.replace(text, name)
        return value
    if isinstance(value, Mapping):
        return {name: _replaced(part, exact, within) for name, part in value.items()}
    return [_replaced(part, exact, within) for part in value] if isinstance(value, list | tuple) else value


def _is_version(value: Any) -> bool:
    """Whether a value names a version of the server's: a rehearsed write has none, or the former one."""
    return isinstance(value, str) and value.startswith(_VERSION)


def reordered_lists(sent: Sequence[EndedWrite]) -> Sequence[str]:
    """Writes that changed only the order of a list, as with a set, whose order differs between processes."""
    return [
        f"{_name(write.resource, write.key, write.subresource)}: {path}, which has another order only"
        for write in sent
        if write.base is not None
        and write.written is not None
        and write.base.version != write.written.version
        for path in _permuted(write.base.to_dict(), write.written.to_dict(), "")
        if not path.startswith(_OF_THE_SERVER)
    ]


def _permuted(old: Any, new: Any, path: str) -> Iterator[str]:
    """The paths of lists with the same elements in another order."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted(old.keys() & new.keys()):
            yield from _permuted(old[name], new[name], f"{path}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and old != new and len(old) == len(new):
        if sorted(map(_text, old)) == sorted(map(_text, new)):
            yield path
            return
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _permuted(before, after, f"{path}[{number}]")


def _text(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _name(resource: APIResource, key: Key, subresource: str) -> str:
    return f"{resource.kind} {key}{f'/{subresource}' if subresource else ''}"

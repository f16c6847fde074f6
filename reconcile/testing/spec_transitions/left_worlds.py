"""What a world at rest looks like, and how it differs from what a new object with the same spec leaves."""

import fnmatch
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from attrs import frozen

from reconcile.client.redaction import HIDDEN
from reconcile.testing.end_state import EndStateSubject, differences

LeftObjects: TypeAlias = Mapping[EndStateSubject, Sequence[Any]]
"""The objects of a world, by what names them, without uids, versions, times and generated names."""

Hides: TypeAlias = Callable[[str, str], bool]
"""Whether the field at a path of the objects of a plural is secret."""

_LONGEST = 600
_REPEATED = re.compile(r"([^\s-])\1{39,}")


@frozen
class ExpectedObjects:
    """What new objects with one spec leave, under several seeds; where those differ, nothing is expected."""

    objects: LeftObjects
    differing: frozenset[str]
    """Fields, as `plural.path`, in which the worlds differ."""
    unnamed: frozenset[str]
    """Plurals whose objects have other names under each seed: they are compared without their names."""


def expected_objects(worlds: Sequence[LeftObjects]) -> ExpectedObjects:
    """What several worlds have in common; the first of them is shown in messages."""
    first = worlds[0]
    unnamed = {subject[0] for world in worlds[1:] for subject in first.keys() ^ world.keys()}
    plain = [_without_names(world, unnamed) for world in worlds]
    differing = {
        f"{subject[0]}{path}"
        for world in plain[1:]
        for subject in plain[0]
        for one, other in zip(plain[0][subject], world.get(subject, ()), strict=False)
        for path, _, _ in differences(one, other)
    }
    return ExpectedObjects(plain[0], frozenset(differing), frozenset(unnamed))


def _without_names(world: LeftObjects, unnamed: "set[str] | frozenset[str]") -> LeftObjects:
    """The same objects, those of `unnamed` plurals under one subject for each namespace."""
    found: dict[EndStateSubject, list[Any]] = {}
    for subject, bodies in world.items():
        if subject[0] not in unnamed:
            found[subject] = list(bodies)
            continue
        plural, namespace, _ = subject
        found.setdefault((plural, namespace, "*"), []).extend(map(_nameless, bodies))
    return {
        subject: sorted(bodies, key=_text) if len(bodies) > 1 else bodies for subject, bodies in found.items()
    }


def _nameless(body: Any) -> Any:
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    if not isinstance(metadata, Mapping):
        return body  # what exists outside the cluster
    return {**body, "metadata": {name: value for name, value in metadata.items() if name != "name"}}


def unlike(
    expected: ExpectedObjects, found: LeftObjects, *, one_way: Sequence[str], hides: Hides
) -> Iterator[str]:
    """A text for each difference: the object, the field, what is there and what a new object has there.

    `one_way` has patterns of what may differ: `plural`, or `plural.path` with `[]` for any item of a list.
    """
    plain = _without_names(found, expected.unnamed)
    for subject in sorted(expected.objects.keys() | plain.keys()):
        if may_differ(subject[0], one_way):
            continue
        here, there = plain.get(subject, ()), expected.objects.get(subject, ())
        if len(here) != len(there):
            yield _other_number(subject, len(here), len(there))
            continue
        for one, other in zip(there, here, strict=True):
            for path, left, right in differences(one, other):
                place = f"{subject[0]}{path}"
                if place in expected.differing or may_differ(place, one_way):
                    continue
                is_hidden = hides(subject[0], path)
                shown = [HIDDEN if is_hidden else shown_value(value) for value in (right, left)]
                field = path.lstrip(".")
                yield f"{name_of(subject)}: {field} is {shown[0]}; with a new object it is {shown[1]}"


def left_over(before: LeftObjects, found: LeftObjects, one_way: Sequence[str]) -> Iterator[str]:
    """A text for each object that is there now and was not before."""
    for subject in sorted(found.keys() - before.keys()):
        if not may_differ(subject[0], one_way):
            yield f"{name_of(subject)} is left"


def may_differ(place: str, one_way: Sequence[str]) -> bool:
    """Whether a plural, or a field as `plural.path`, is declared to be one-way."""
    return any(fnmatch.fnmatchcase(place, pattern) or _is_in(place, pattern) for pattern in one_way)


def _is_in(place: str, pattern: str) -> bool:
    """Whether it is a part of what the pattern names: `jobs.spec` names `jobs.spec.template` too."""
    parts = place.split(".")
    above = itertools.accumulate(parts, lambda path, part: f"{path}.{part}")
    return any(fnmatch.fnmatchcase(one, pattern) for one in above)


def _other_number(subject: EndStateSubject, here: int, there: int) -> str:
    name = name_of(subject)
    if subject[2] != "*" and here + there == 1:
        return f"{name} exists; with a new object it does not" if here else f"{name} is missing"
    return f"{name}: there are {here}; with a new object there are {there}"


def name_of(subject: EndStateSubject) -> str:
    plural, namespace, name = subject
    return f"{plural} {namespace}/{name}" if namespace else f"{plural} {name}"


def shortened(text: str) -> str:
    """The text without its many equal characters in a row, which long values consist of."""
    return _REPEATED.sub(lambda found: f"{found[1] * 3}… ({len(found[0])} times {found[1]})", text)


def shown_value(value: Any) -> str:
    """A JSON value in a line; a long one is cut."""
    text = value if value == "<nothing>" else _text(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _text(value: Any) -> str:
    return msgspec.json.encode(value, order="deterministic").decode()

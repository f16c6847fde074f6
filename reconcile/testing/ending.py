"""How a run ended, so that it can be laid beside another: what is left, what was made and what deleted."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from attrs import frozen

from reconcile.client.redaction import HIDDEN
from reconcile.embedded.log import StorageKey, Stored, StoredChange
from reconcile.models import kind_of
from reconcile.simulation.workloads import KINDS
from reconcile.testing.stage import TOUCHED

if TYPE_CHECKING:
    from reconcile.testing.world import World

Subject = tuple[str, str, str]
"""What is counted: plural, namespace and name; of a generated name the part that was given, and `*`."""

_VOLATILE = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "generation",
    "deletionTimestamp",
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
_PASSING = frozenset({"observedGeneration", "nodeName"})
_UNCOUNTED = frozenset({"leases", "events"})
_MISSING = "<nothing>"
_PODS: StorageKey = ("", "pods")
_WORKLOADS = frozenset(
    (resource.api_version, resource.kind) for resource in (kind_of(kind).resource for kind in KINDS)
)


@frozen
class Ending:
    """What a run left: objects by subject (several, where names are generated), and the counts on the way.

    What is another one each time is taken out: uids, versions, times, addresses, generated names.
    """

    objects: Mapping[Subject, Sequence[Any]]
    creates: Mapping[Subject, int]
    deletes: Mapping[Subject, int]


@frozen
class Expected:
    """What fault-free runs have in common: their ending, and the places in which they differ."""

    ending: Ending
    differing: frozenset[str]
    uncertain: frozenset[str]
    """Plurals of which the fault-free runs leave different names: only their number is compared."""


def ending_of(world: "World") -> Ending:
    """The ending of a run."""
    names = dict(_generated(world))
    objects: dict[Subject, list[Any]] = defaultdict(list)
    creates: Counter[Subject] = Counter()
    deletes: Counter[Subject] = Counter()
    places: dict[tuple[StorageKey, Any], None] = {}
    gone: set[str] = set()
    stillborn: set[str] = set()
    for happened in world.changes:
        change = happened.change
        if change.new is None and change.old is not None:
            gone.add(change.old.uid)
        if change.resource[1] in _UNCOUNTED or (world.scenario.workloads and _is_played(change)):
            continue
        places[change.resource, change.key] = None
        if _is_stillborn(change, gone):
            stillborn.add(_uid(change))
        if _uid(change) not in stillborn:
            subject = _subject(change.resource, change.key, names)
            if change.old is None:
                creates[subject] += 1
            if _is_deletion(change):
                deletes[subject] += 1
    for resource, key in places:
        stored = world.server.log.get(resource, key)
        if stored is not None:
            objects[_subject(resource, key, names)].append(_plain(stored, names))
    ordered = {subject: _ordered(found) for subject, found in sorted(objects.items())}
    return Ending(ordered, creates, deletes)


def _is_played(change: StoredChange) -> bool:
    """Whether it is a pod that simulated workloads keep: how they got there is not the operator's doing."""
    stored = change.new or change.old
    if stored is None or change.resource != _PODS:
        return False
    return any((owner.api_version, owner.kind) in _WORKLOADS for owner in stored.owners)


def _ordered(found: list[Any]) -> list[Any]:
    return found if len(found) < 2 else sorted(found, key=_text)


def expected_of(endings: Sequence[Ending]) -> Expected:
    """What to expect of a run under faults; the first is the reference."""
    first = endings[0]
    differing: set[str] = set()
    uncertain: set[str] = set()
    for other in endings[1:]:
        for subject in first.objects.keys() ^ other.objects.keys():
            uncertain.add(subject[0])
        for subject, found in first.objects.items():
            for one, another in zip(found, other.objects.get(subject, found), strict=False):
                differing |= {f"{subject[0]}{path}" for path, _, _ in differences(one, another)}
    creates = {s: max(e.creates.get(s, 0) for e in endings) for e in endings for s in e.creates}
    deletes = {s: max(e.deletes.get(s, 0) for e in endings) for e in endings for s in e.deletes}
    return Expected(Ending(first.objects, creates, deletes), frozenset(differing), frozenset(uncertain))


def compare(world: "World", expected: Expected) -> None:
    """Note where a run ended otherwise than it should, or made or deleted more on its way."""
    ending = ending_of(world)
    for subject, text in _unlike(ending, expected, world.veil.covers):
        world.violate("end-state", f"{_name(subject)}: {text}")
    for rule, found, known in (
        ("creates", ending.creates, expected.ending.creates),
        ("deletes", ending.deletes, expected.ending.deletes),
    ):
        for subject, count in found.items():
            if subject[0] not in expected.uncertain and count > known.get(subject, 0):
                world.violate(
                    rule, f"{_name(subject)}: {count} times, without faults {known.get(subject, 0)}"
                )


def differences(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two JSON values differ: a path (places in lists are not told apart), and both values."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in sorted(one.keys() | other.keys()):
            yield from differences(one.get(name, _MISSING), other.get(name, _MISSING), f"{path}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for left, right in zip(one, other, strict=True):
            yield from differences(left, right, f"{path}[]")
    elif one != other:
        yield path, one, other


def _unlike(
    ending: Ending, expected: Expected, hidden: Callable[[str, str], bool]
) -> Iterator[tuple[Subject, str]]:
    known = expected.ending.objects
    for subject in sorted(known.keys() | ending.objects.keys()):
        there, wanted = ending.objects.get(subject, ()), known.get(subject, ())
        if subject[0] in expected.uncertain:
            continue
        if len(there) != len(wanted):
            yield subject, f"{len(there)} of them are left, without faults {len(wanted)}"
            continue
        if there == wanted:
            continue
        for one, other in zip(wanted, there, strict=True):
            for path, left, right in differences(one, other):
                if f"{subject[0]}{path}" not in expected.differing:
                    shown = [HIDDEN if hidden(subject[0], path) else _text(value) for value in (right, left)]
                    yield subject, f"{path.lstrip('.')} is {shown[0]}, without faults {shown[1]}"
    for plural in sorted(expected.uncertain):
        left, right = _number(known, plural), _number(ending.objects, plural)
        if left != right:
            yield (plural, "", "*"), f"{right} of them are left, without faults {left}"


def _number(objects: Mapping[Subject, Sequence[Any]], plural: str) -> int:
    return sum(len(found) for subject, found in objects.items() if subject[0] == plural)


def _generated(world: "World") -> Iterator[tuple[str, str]]:
    """Names that a server made up, and what stands for them."""
    for happened in world.changes:
        change = happened.change
        if change.old is None and change.new is not None and b'"generateName"' in change.new.body:
            lead = change.new.decode()["metadata"].get("generateName", "")
            if lead and change.key.name.startswith(lead):
                yield change.key.name, f"{lead}*"


def _subject(resource: StorageKey, key: Any, names: Mapping[str, str]) -> Subject:
    return resource[1], key.namespace, _replaced(key.name, names)


def _is_stillborn(change: StoredChange, gone: Collection[str]) -> bool:
    """Whether an object was made for owners that had gone already: the news was late, and it goes at once."""
    if change.old is not None or change.new is None or not change.new.owners:
        return False
    return all(owner.uid in gone for owner in change.new.owners)


def _uid(change: StoredChange) -> str:
    stored = change.new or change.old
    return "" if stored is None else stored.uid


def _is_deletion(change: StoredChange) -> bool:
    if change.old is None or change.old.deleting:
        return False
    return change.new is None or change.new.deleting


def _plain(stored: Stored, names: Mapping[str, str]) -> Any:
    body = stored.decode()
    metadata = {name: value for name, value in body["metadata"].items() if name not in _VOLATILE}
    metadata.get("annotations", {}).pop(TOUCHED, None)
    if not metadata.get("annotations", True):
        del metadata["annotations"]
    for owner in metadata.get("ownerReferences") or ():
        owner.pop("uid", None)
    return _without({**body, "metadata": metadata}, names)


def _without(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(item, names) for name, item in value.items() if name not in _PASSING}
    if isinstance(value, list):
        return [_without(item, names) for item in value]
    if isinstance(value, str):
        if value[:1].isdigit():
            value = _ADDRESS.sub("<address>", _TIME.sub("<time>", value))
        return _replaced(value, names)
    return value


def _replaced(text: str, names: Mapping[str, str]) -> str:
    for name, alias in names.items():
        if name in text:
            text = text.replace(name, alias)
    return text


def _text(value: Any) -> str:
    return value if value is _MISSING else msgspec.json.encode(value, order="deterministic").decode()


def _name(subject: Subject) -> str:
    plural, namespace, name = subject
    return f"{plural} {namespace}/{name}" if namespace else f"{plural} {name}"

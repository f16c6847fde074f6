"""What a run left, created and deleted, in a form that can be compared between runs."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from attrs import field, frozen

from informers.apimachinery.server_fields import SET_BY_SERVER
from reconcile.client.buckets import BUCKET_LABEL
from reconcile.client.redaction import HIDDEN
from reconcile.embedded.log import StorageKey, Stored, StoredChange
from reconcile.models import kind_of
from reconcile.simulation.workloads import KINDS
from reconcile.testing.cluster_actor import TOUCHED
from reconcile.testing.recorded_requests import UNCOUNTED
from reconcile.testing.redactor import Redactor
from reconcile.testing.service_invariants import places_outside, writes_outside
from reconcile.testing.world import World

EndStateSubject = tuple[str, str, str]
"""Plural, namespace and name; a generated name is its prefix and `*`.

For what a service outside the cluster has: service and collection, nothing, and its identity.
"""

# The grace period stays: it tells an object that is being deleted from one that is not.
_VOLATILE = frozenset(SET_BY_SERVER) - {"deletionGracePeriodSeconds"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
_VERSION = re.compile(r"^\d{16}$")
"""As the embedded server gives them: their first is the time of its start, in microseconds."""
_PASSING = frozenset({"observedGeneration", "nodeName"})
_MISSING = "<nothing>"
_PODS: StorageKey = ("", "pods")
_WORKLOADS = frozenset(
    (resource.api_version, resource.kind) for resource in (kind_of(kind).resource for kind in KINDS)
)


COMPARED = ("end-state", "creates", "deletes", "lost")
"""The rules that `compare` finds broken."""


@frozen
class EndState:
    """What a run left, created and deleted, without uids, versions, times, addresses and generated names."""

    objects: Mapping[EndStateSubject, Sequence[Any]]
    creates: Mapping[EndStateSubject, int]
    deletes: Mapping[EndStateSubject, int]
    lost: Mapping[EndStateSubject, int] = field(factory=dict)
    """What was there when a process was killed, and was removed before the next act."""


@frozen
class ExpectedEndState:
    """What runs without faults have in common, and the fields in which they differ."""

    end: EndState
    differing: frozenset[str]
    uncertain: frozenset[str]
    """Plurals of which fault-free runs leave different names: only their number is compared."""


def end_state_of(world: World, *, workloads: bool = False) -> EndState:
    """The end state of a run. With `workloads`, pods that simulated workloads made are not counted."""
    names = dict(_generated(world))
    objects: dict[EndStateSubject, list[Any]] = defaultdict(list)
    creates: Counter[EndStateSubject] = Counter()
    deletes: Counter[EndStateSubject] = Counter()
    changed: dict[tuple[StorageKey, Any], None] = {}
    deleted: set[str] = set()
    stillborn: set[str] = set()
    for one in world.changes:
        change = one.change
        if change.new is None and change.old is not None:
            deleted.add(change.old.uid)
        if change.resource in UNCOUNTED or (workloads and _is_of_workload(change)):
            continue
        changed[change.resource, change.key] = None
        if is_stillborn(change, deleted):
            stillborn.add(_uid(change))
        if _uid(change) not in stillborn:
            subject = _subject(change.resource, change.key, names)
            if change.old is None:
                creates[subject] += 1
            if is_deletion(change):
                deletes[subject] += 1
    for resource, key in changed:
        stored = world.server.log.get(resource, key)
        if stored is not None:
            objects[_subject(resource, key, names)].append(plain_object(stored, names))
    for place, value in places_outside(world):
        objects[place].append(_without(value, names))
    creates_outside, deletes_outside = writes_outside(world)
    creates.update(creates_outside)
    deletes.update(deletes_outside)
    ordered = {subject: _ordered(left) for subject, left in sorted(objects.items())}
    return EndState(ordered, creates, deletes, _lost(world, names))


def _lost(world: World, names: Mapping[str, str]) -> Counter[EndStateSubject]:
    deaths = [death.at for process in world.processes for death in process.deaths if death.why == "killed"]
    lost: Counter[EndStateSubject] = Counter()
    for died in deaths:
        until = min((act.at for act in world.acts if act.at > died), default=float("inf"))
        there: set[str] = set()
        for one in world.changes:
            change = one.change
            if one.at <= died and change.new is not None:
                there.add(change.new.uid)
            if change.new is not None or change.old is None or change.resource in UNCOUNTED:
                continue
            if died < one.at < until and change.old.uid in there:
                lost[_subject(change.resource, change.key, names)] += 1
    return lost


def _is_of_workload(change: StoredChange) -> bool:
    """Whether it is a pod of a workload, which the operator neither creates nor deletes itself."""
    stored = change.new or change.old
    if stored is None or change.resource != _PODS:
        return False
    return any((owner.api_version, owner.kind) in _WORKLOADS for owner in stored.owners)


def _ordered(objects: list[Any]) -> list[Any]:
    return objects if len(objects) < 2 else sorted(objects, key=_text)


def expected_of(endings: Sequence[EndState]) -> ExpectedEndState:
    """What to expect under faults, given several runs without; the first of them is the reference."""
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
    lost = {s: max(e.lost.get(s, 0) for e in endings) for e in endings for s in e.lost}
    end = EndState(first.objects, creates, deletes, lost)
    return ExpectedEndState(end, frozenset(differing), frozenset(uncertain))


def compare(
    world: World, end: EndState, expected: ExpectedEndState, redactor: Redactor, *, saw_past: bool = False
) -> None:
    """Record as violations what differs from `expected`, or was created or deleted more often.

    With `saw_past` a process may have seen an old state at its start: then nothing may be lost after it.
    """
    for subject, text in _unlike(end, expected, redactor.hides):
        world.violate("end-state", f"{_name(subject)}: {text}")
    for rule, counts, reference in (
        ("creates", end.creates, expected.end.creates),
        ("deletes", end.deletes, expected.end.deletes),
        ("lost", end.lost if saw_past else {}, expected.end.lost),
    ):
        for subject, count in counts.items():
            most = reference.get(subject, 0)
            if subject[0] not in expected.uncertain and count > most:
                world.violate(rule, f"{_name(subject)}: {count} times, without faults {most}")


def differences(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Where two JSON values differ: a path with `[]` for any element of a list, and both values."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in sorted(one.keys() | other.keys()):
            yield from differences(one.get(name, _MISSING), other.get(name, _MISSING), f"{path}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for left, right in zip(one, other, strict=True):
            yield from differences(left, right, f"{path}[]")
    elif one != other:
        yield path, one, other


def _unlike(
    end: EndState, expected: ExpectedEndState, hides: Callable[[str, str], bool]
) -> Iterator[tuple[EndStateSubject, str]]:
    reference = expected.end.objects
    for subject in sorted(reference.keys() | end.objects.keys()):
        left_here, left_there = end.objects.get(subject, ()), reference.get(subject, ())
        if subject[0] in expected.uncertain or left_here == left_there:
            continue
        if len(left_here) != len(left_there):
            yield subject, f"{len(left_here)} of them are left, without faults {len(left_there)}"
            continue
        for one, other in zip(left_there, left_here, strict=True):
            for path, left, right in differences(one, other):
                if f"{subject[0]}{path}" not in expected.differing:
                    shown = [HIDDEN if hides(subject[0], path) else _text(value) for value in (right, left)]
                    yield subject, f"{path.lstrip('.')} is {shown[0]}, without faults {shown[1]}"
    for plural in sorted(expected.uncertain):
        count, usual = _number(end.objects, plural), _number(reference, plural)
        if count != usual:
            yield (plural, "", "*"), f"{count} of them are left, without faults {usual}"


def _number(objects: Mapping[EndStateSubject, Sequence[Any]], plural: str) -> int:
    return sum(len(left) for subject, left in objects.items() if subject[0] == plural)


def _generated(world: World) -> Iterator[tuple[str, str]]:
    """Names that the server generated, and what replaces them."""
    for one in world.changes:
        change = one.change
        if change.old is None and change.new is not None and b'"generateName"' in change.new.body:
            lead = change.new.decode()["metadata"].get("generateName", "")
            if lead and change.key.name.startswith(lead):
                yield change.key.name, f"{lead}*"


def _subject(resource: StorageKey, key: Any, names: Mapping[str, str]) -> EndStateSubject:
    return resource[1], key.namespace, _replaced(key.name, names)


def is_stillborn(change: StoredChange, deleted: Collection[str]) -> bool:
    """Whether its owners were deleted before it was made, which no controller with late watches can avoid."""
    if change.old is not None or change.new is None or not change.new.owners:
        return False
    return all(owner.uid in deleted for owner in change.new.owners)


def _uid(change: StoredChange) -> str:
    stored = change.new or change.old
    return "" if stored is None else stored.uid


def is_deletion(change: StoredChange) -> bool:
    """Whether the deletion of an object begins or happens with it."""
    if change.old is None or change.old.deleting:
        return False
    return change.new is None or change.new.deleting


def plain_object(stored: Stored, names: Mapping[str, str]) -> Any:
    """The object as JSON, without what differs between runs; `names` are generated ones and their aliases."""
    body = stored.decode()
    metadata = {name: value for name, value in body["metadata"].items() if name not in _VOLATILE}
    for part, passing in (("annotations", TOUCHED), ("labels", BUCKET_LABEL)):  # a bucket follows from a uid
        metadata.get(part, {}).pop(passing, None)
        if not metadata.get(part, True):
            del metadata[part]
    for owner in metadata.get("ownerReferences") or ():
        owner.pop("uid", None)
    return _without(_in_order({**body, "metadata": metadata}), names)


def _in_order(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object with its conditions by type: they are a map, whose order depends on the past."""
    status = body.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    if not isinstance(conditions, list) or not all(isinstance(one, Mapping) for one in conditions):
        return body
    by_type = sorted(conditions, key=lambda one: str(one.get("type")))
    return {**body, "status": {**body["status"], "conditions": by_type}}


def _without(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(item, names) for name, item in value.items() if name not in _PASSING}
    if isinstance(value, list):
        return [_without(item, names) for item in value]
    if isinstance(value, str):
        if value[:1].isdigit():
            value = _ADDRESS.sub("<address>", _TIME.sub("<time>", value))
            value = _VERSION.sub("<version>", value)
        return _replaced(value, names)
    return value


def _replaced(text: str, names: Mapping[str, str]) -> str:
    for name, alias in names.items():
        if name in text:
            text = text.replace(name, alias)
    return text


def _text(value: Any) -> str:
    return value if value is _MISSING else msgspec.json.encode(value, order="deterministic").decode()


def _name(subject: EndStateSubject) -> str:
    plural, namespace, name = subject
    return f"{plural} {namespace}/{name}" if namespace else f"{plural} {name}"

"""A part of a recording as a scenario has it: the first objects, what others did next, and what failed."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from attrs import define, field, frozen

from informers import APIResource
from informers.apimachinery.server_fields import SET_BY_SERVER
from reconcile.client.diff import merge_diff
from reconcile.recording.recorded_events import Answered, Changed, Sent, Stored, TimedEvent, resource_of
from reconcile.testing.faults import Drop, Fault, FaultPlan, LoseReply, Refuse, RefuseAsStale, What, When
from reconcile.testing.recorded_requests import RecordedRequest
from reconcile.testing.scenario_acts import Apply, Delete, Edit, ScenarioAct, Wait

MOST_OBJECTS = 500
MOST_STEPS = 500
LONGEST_WAIT = 60.0
_Place = tuple[str, str, str]
_THERE = {
    ("/v1/Namespace/namespaces*", name)
    for name in ("default", "kube-system", "kube-public", "kube-node-lease")
}
"""What a new server has."""


class TooLarge(ValueError):
    """There is too much in a part of a recording for a scenario."""


@frozen
class IncidentCut:
    """The `objects`, owners before what they own, the `steps` of others, and the `plan` of faults."""

    objects: Sequence[dict[str, Any]]
    steps: Sequence[ScenarioAct]
    plan: FaultPlan


@frozen
class _Foreign:
    """A change in a cache; `before` and `after` are the states of the object, None where there is none."""

    at: int
    resource: APIResource
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def cut(
    events: Iterator[TimedEvent], begins: float, ends: float, *, cluster: str = "", namespace: str = ""
) -> IncidentCut:
    """The part of a recording between two times, in its seconds; of a `namespace`, with what has none.

    Raises TooLarge.
    """
    world = _Cut(int(begins * 1e6), cluster, namespace)
    for event in events:
        if event.at > ends * 1e6:
            break
        world.take(event)
    return world.result()


@define(eq=False)
class _Cut:
    begins: int
    cluster: str
    namespace: str
    _now: dict[_Place, dict[str, Any]] = field(factory=dict, init=False)
    _then: dict[_Place, dict[str, Any]] | None = field(default=None, init=False)
    _staged: dict[tuple[str, str], dict[_Place, dict[str, Any]]] = field(factory=dict, init=False)
    _changes: list[_Foreign] = field(factory=list, init=False)
    _own: set[tuple[str, str]] = field(factory=set, init=False)
    """The uid and version of each answer to a write of the recorded runs."""
    _sent: dict[tuple[int, int], Sent] = field(factory=dict, init=False)
    _faults: list[Fault] = field(factory=list, init=False)
    _counts: Counter[tuple[str, str]] = field(factory=Counter, init=False)

    def take(self, event: TimedEvent) -> None:
        if self._then is None and event.at > self.begins:
            self._then = dict(self._now)
        match event:
            case Changed() if event.cluster == self.cluster:
                self._change(event)
            case Stored() if event.cluster == self.cluster:
                for body, _, _ in event.objects:
                    self._set(event.at, event.resource, _object(body))
            case Sent() if event.cluster == self.cluster:
                self._sent[event.run, event.number] = event
            case Answered() if (sent := self._sent.pop((event.run, event.number), None)) is not None:
                self._answer(sent, event)

    def _change(self, event: Changed) -> None:
        part = event.resource, event.part
        objects = [_object(body) for body in event.objects]
        if event.op in ("put", "merge"):
            for obj in objects:
                self._set(event.at, event.resource, obj)
        elif event.op in ("leave", "left", "lose"):
            for place in [_place(event.resource, obj) for obj in objects] or [_named(event)]:
                self._leave(event, place)
        elif event.op == "remove":
            for obj in objects:
                self._remove(event.at, _place(event.resource, obj))
        elif event.op == "stage":
            staged = self._staged.setdefault(part, {})
            staged.update({_place(event.resource, obj): obj for obj in objects})
        elif event.op == "drop":
            self._staged.pop(part, None)
        elif event.op in ("commit", "clear"):
            staged = self._staged.pop(part, {}) if event.op == "commit" else {}
            known = [place for place in self._now if place[0] == event.resource]
            for place in known:
                if place not in staged and event.part in ("", place[1]):
                    self._remove(event.at, place)
            for obj in staged.values():
                self._set(event.at, event.resource, obj)

    def _set(self, at: int, resource: str, obj: dict[str, Any]) -> None:
        place = _place(resource, obj)
        before = self._now.get(place)
        self._now[place] = obj
        if self._then is not None and before != obj:
            self._changes.append(_Foreign(at, resource_of(resource), before, obj))

    def _remove(self, at: int, place: _Place) -> None:
        before = self._now.pop(place, None)
        if self._then is not None and before is not None:
            self._changes.append(_Foreign(at, resource_of(place[0]), before, None))

    def _leave(self, event: Changed, place: _Place) -> None:
        """Another replica has the object from now on, unless a list did not have it."""
        if event.op == "lose" and event.version:
            self._remove(event.at, place)
        else:
            self._now.pop(place, None)

    def _answer(self, sent: Sent, answered: Answered) -> None:
        if sent.method != "GET" and 200 <= answered.status < 300:
            metadata = _object(answered.body).get("metadata", {})
            self._own.add((str(metadata.get("uid")), str(metadata.get("resourceVersion"))))
            if sent.method == "DELETE":
                self._own.add((sent.path, "deleted"))
        if self._then is None:
            return
        verb = RecordedRequest(sent.method, sent.path, sent.query).verb
        self._counts[verb, sent.path] += 1
        fault = _fault_of(sent, answered)
        if fault is not None:
            nth = self._counts[verb, sent.path]
            self._faults.append(Fault(When(verb, sent.path, nth, process=1), fault))

    # --- the scenario -----------------------------------------------------------------------------

    def result(self) -> IncidentCut:
        then = self._now if self._then is None else self._then
        chosen = [(place, obj) for place, obj in then.items() if place[1] in ("", self.namespace or place[1])]
        if len(chosen) > MOST_OBJECTS:
            raise TooLarge(
                f"{len(chosen)} objects are there at that moment, and a scenario has {MOST_OBJECTS}"
            )
        # Those without a namespace first: a namespace has to be there before the kit makes it for others.
        chosen.sort(key=lambda one: one[0][1] != "")
        made = [(place, obj) for place, obj in chosen if (place[0], place[2]) not in _THERE]
        objects = [_manifest(resource_of(place[0]), obj) for place, obj in made]
        return IncidentCut(_owners_first(objects), tuple(self._steps(chosen)), FaultPlan(self._faults))

    def _steps(self, chosen: Sequence[tuple[_Place, dict[str, Any]]]) -> Iterator[ScenarioAct]:
        for place, obj in chosen:
            if (obj.get("metadata") or {}).get("deletionTimestamp"):
                yield Delete(_path(resource_of(place[0]), obj))
        count, last = 0, self.begins
        for change in self._changes:
            state = change.after or change.before or {}
            metadata = state.get("metadata") or {}
            if self.namespace and metadata.get("namespace", self.namespace) != self.namespace:
                continue
            acts = () if self._is_own(change, state) else [*_acts(change)]
            if not acts:
                continue
            count += len(acts)
            if count > MOST_STEPS:
                raise TooLarge(f"others changed more than {MOST_STEPS} things in that time")
            yield Wait(min(LONGEST_WAIT, round((change.at - last) / 1e6, 3)))
            yield from acts
            last = change.at

    def _is_own(self, change: _Foreign, state: Mapping[str, Any]) -> bool:
        metadata = state.get("metadata") or {}
        if change.after is None:
            return (_path(change.resource, state), "deleted") in self._own
        return (str(metadata.get("uid")), str(metadata.get("resourceVersion"))) in self._own


def _acts(change: _Foreign) -> Iterator[ScenarioAct]:
    before, after = change.before, change.after
    path = _path(change.resource, after or before or {})
    if after is None:
        if before is not None and not (before.get("metadata") or {}).get("deletionTimestamp"):
            yield Delete(path)
        return
    if before is None or (before.get("metadata") or {}).get("uid") != (after.get("metadata") or {}).get(
        "uid"
    ):
        yield Apply(_new(_manifest(change.resource, after)))
        if after.get("status"):
            yield Edit(path, {"status": after["status"]}, "status")
        return
    was, is_now = _manifest(change.resource, before), _manifest(change.resource, after)
    patch = merge_diff(was, is_now)
    status = patch.pop("status", None)
    if patch:
        yield Edit(path, patch)
    if status is not None:
        yield Edit(path, {"status": status}, "status")
    deleting = [bool((state.get("metadata") or {}).get("deletionTimestamp")) for state in (before, after)]
    if deleting == [False, True]:
        yield Delete(path)


def _new(manifest: dict[str, Any]) -> dict[str, Any]:
    """An object that others create later: without owners, whose uids are only known when it is played."""
    metadata = {
        name: value for name, value in manifest["metadata"].items() if name not in ("uid", "ownerReferences")
    }
    return {**{name: value for name, value in manifest.items() if name != "status"}, "metadata": metadata}


def _fault_of(sent: Sent, answered: Answered) -> What | None:
    if answered.error == "Unreachable":
        return Drop()
    if answered.error == "OutcomeUnknown":
        return LoseReply()
    if answered.status == 409 and sent.method in ("PATCH", "PUT"):
        return RefuseAsStale()
    if answered.status == 429 or 500 <= answered.status < 600:
        return Refuse(answered.status)
    return None


def _object(body: bytes) -> dict[str, Any]:
    """The JSON of an object; whatever is not of the shape that metadata has is left out."""
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return {}
    if not isinstance(decoded, dict):
        return {}
    metadata = decoded.get("metadata")
    metadata = dict(metadata) if isinstance(metadata, dict) else {}
    owners = metadata.get("ownerReferences")
    if owners is not None:
        metadata["ownerReferences"] = [
            one for one in (owners if isinstance(owners, list) else ()) if isinstance(one, dict)
        ]
    return {**decoded, "metadata": metadata}


def _place(resource: str, obj: Mapping[str, Any]) -> _Place:
    metadata = obj.get("metadata") or {}
    return resource, str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _named(event: Changed) -> _Place:
    return event.resource, event.namespace, event.name


def _path(resource: APIResource, obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata") or {}
    return resource.path(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))


def _manifest(resource: APIResource, obj: Mapping[str, Any]) -> dict[str, Any]:
    """An object as it is made again: with its uid, by which its children name it."""
    metadata = {
        name: value
        for name, value in (obj.get("metadata") or {}).items()
        if name == "uid" or (name not in SET_BY_SERVER and name != "deletionGracePeriodSeconds")
    }
    rest = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **rest}


def _owners_first(objects: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """The same objects; those that own others before these."""
    left, placed, done = list(objects), set[str](), list[dict[str, Any]]()
    uids = {str(one["metadata"].get("uid")) for one in objects}
    while left:
        ready = [
            one
            for one in left
            if all(
                owner.get("uid") in placed or owner.get("uid") not in uids
                for owner in one["metadata"].get("ownerReferences") or ()
            )
        ] or left
        done += ready
        placed |= {str(one["metadata"].get("uid")) for one in ready}
        left = [one for one in left if one not in ready]
    return done

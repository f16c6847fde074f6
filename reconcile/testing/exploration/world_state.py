"""The state of a simulated world, as a value in which nothing of its history is left.

Two worlds are in one state if the same can happen in both. So a state has the content of all objects, without
uids, versions and times; the changes that each cache has not received yet; the keys in each queue, but not
when they are due; the runs under way, with what they can have seen; and what lives outside. Leases and Events
are left out.

What a process keeps in memory beside its caches and its queues is not visible from here: variables of the
author, and times until something happens. Code that treats equal states as one has to say why these make no
difference.

Names that the server generated, and uids, are numbered in the order in which they came into being: two
schedules in which the third pod got another name are in one state. The owners of fields are content too,
since an apply decides by them. With `alike=True` neither counts, so that a world is back where it was when it
has deleted a pod and created another one, or has set a field back.
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec
from attrs import define, field, frozen

from informers import APIResource, Informer, Key, Snapshot
from reconcile.controller.runner import Runner
from reconcile.embedded.log import StorageKey, Stored, StoredChange
from reconcile.embedded.protocol.request_info import RequestPlace
from reconcile.manager.assembly import Assembly
from reconcile.manager.manager import Manager
from reconcile.runs.run_request import Request
from reconcile.testing.recorded_requests import UNCOUNTED, RecordedRequest
from reconcile.testing.runs_under_way import RunUnderWay
from reconcile.testing.world import ProcessView, World

Part: TypeAlias = tuple[Any, ...]
"""A part of a state: names first, then what holds of them."""

_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_ADDRESS = re.compile(rb'"\d{1,3}(\.\d{1,3}){3}"')
_UID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_STRING = re.compile(rb'"([^"\\]*)"')
_COUNTED = re.compile(rb'"resourceVersion":"\d+"|"generation":\d+')
_OBSERVED = re.compile(rb'"observedGeneration":(\d+)')
_COUNTERS = ("resourceVersion", "creationTimestamp", "selfLink")
_SUM = 1 << 128
_NOTHING = "-"
_NEW = b"<new>"
_MOST_KEYS = 10_000


@frozen
class WorldState:
    """What a world is at one moment. Equal states have equal digests, in every process."""

    objects: Sequence[Part]
    """Resource, name and content of the objects that are not as they were when the run began."""
    caches: Sequence[Part]
    """Process, resource, and how far behind its cache is: what it shows instead, and the lines to come."""
    queues: Sequence[Part]
    """Process, controller and key: `ready`, `delayed`, `failing` or at `rest`."""
    runs: Sequence[Part]
    """Process, controller and key, and a digest of what the run can have seen and has sent."""
    processes: Sequence[Part]
    """Number of each process; whether it lives, leads, is cut off; and the buckets that it holds."""
    outside: str = ""

    @property
    def digest(self) -> str:
        """32 hexadecimal digits."""
        parts = (self.objects, self.caches, self.queues, self.runs, self.processes, self.outside)
        return _digest(repr(parts).encode())


def digest(world: World) -> str:
    """The digest of the state of a world now. Keep a `WorldStates` to ask often: it is cheaper."""
    return WorldStates(world).state().digest


class WorldStates:
    """Tells the state of one world again and again; each change of the server is looked at once.

    With `known`, all strings in objects that are not among these are alike. The states tell what has happened
    since the change with index `since`: what is as it was then is left out, and costs nothing.
    """

    def __init__(
        self,
        world: World,
        *,
        alike: bool = False,
        known: Collection[bytes] | None = None,
        since: int = 0,
    ) -> None:
        self._world = world
        self._since = since
        self._names = _Names(alike, known)
        self._seen = 0
        self._first: dict[tuple[StorageKey, Key], str] = {}
        self._now: dict[tuple[StorageKey, Key], str] = {}
        self._contents: dict[int, str] = {}
        self._histories: dict[StorageKey, _History] = {}
        self._snapshots: dict[int, Snapshot] = {}

    def digest(self) -> str:
        """The digest of the state now."""
        return self.state().digest

    def state(self) -> WorldState:
        """The state now. To be called in the loop of the world."""
        self._catch_up()
        world = self._world
        return WorldState(
            objects=sorted(self._objects()),
            caches=sorted(part for process in world.processes for part in self._caches(process)),
            queues=sorted(part for process in world.processes for part in self._queues(process)),
            runs=sorted(part for process in world.processes for part in self._runs(process)),
            processes=[_process(process) for process in world.processes],
            outside=_outside(world),
        )

    def content(self, change: StoredChange) -> str:
        """A digest of the content that a change left; `-` if it removed the object."""
        self._catch_up()
        return self._contents.get(change.version, _NOTHING)

    def name(self, key: Key | Request) -> str:
        """A namespace and name, with what stands for a generated name."""
        self._catch_up()
        return self._names.key(key)

    # --- objects ----------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        changes = self._world.changes
        while self._seen < len(changes):
            change = changes[self._seen].change
            self._seen += 1
            if change.resource in UNCOUNTED:
                continue
            self._names.learn(change)
            if self._seen > self._since:
                self._take(change)
            else:
                self._contents[change.version] = str(change.version)
                self._history(change.resource).append(change.version, 0)

    def _history(self, resource: StorageKey) -> "_History":
        return self._histories.setdefault(resource, _History())

    def _take(self, change: StoredChange) -> None:
        place = change.resource, change.key
        content = _NOTHING if change.new is None else self._names.content(change.new)
        if place not in self._first:
            self._first[place] = _NOTHING if change.old is None else self._names.content(change.old)
        before = self._now.get(place, self._first[place])
        self._now[place] = self._contents[change.version] = content
        name = change.resource, self._names.key(change.key)
        self._history(change.resource).append(change.version, _weight(name, content) - _weight(name, before))

    def _objects(self) -> Iterator[Part]:
        for (resource, key), content in self._now.items():
            if content != self._first[resource, key]:
                yield resource[1], resource[0], self._names.key(key), content

    # --- caches -----------------------------------------------------------------------------------

    def _caches(self, process: ProcessView) -> Iterator[Part]:
        for informer in _informers(process):
            for part in informer._parts.values():
                state, status = part.reflector._state, part.reflector.status
                how = type(state).__name__, status.synced, bool(getattr(state, "failures", 0))
                behind = self._behind(informer, part.namespace)
                if behind or how != ("Watching", True, False):
                    yield process.number, str(informer.resource), part.namespace, how, behind

    def _behind(self, informer: Informer, namespace: str) -> Part:
        """The changes that a part of a cache has not received yet, and what it shows of their objects."""
        pending: list[Part] = []
        shown: dict[Key, str] = {}
        for change in self._lines(informer, namespace):
            held = informer.store.get(change.key)
            shown[change.key] = _NOTHING if held is None else self._contents.get(held.version, "first")
            pending.append((self._names.key(change.key), self._contents.get(change.version, _NOTHING)))
        return (*pending, *sorted((self._names.key(key), content) for key, content in shown.items()))

    def _is_followed(self, informer: Informer, change: StoredChange) -> bool:
        options = informer.options
        if not (options.labels or options.fields or options.shard or informer._share):
            return True
        states = (state for state in (change.old, change.new) if state is not None)
        return any(informer.selects(self._snapshot(state)) for state in states)

    def _snapshot(self, stored: Stored) -> Snapshot:
        snapshot = self._snapshots.get(stored.version)
        if snapshot is None:
            snapshot = self._snapshots[stored.version] = Snapshot.from_json(stored.body)
        return snapshot

    def oldest_line(self) -> float:
        """The version of the oldest change that a cache has not received yet; infinity if there is none."""
        self._catch_up()
        informers = [one for process in self._world.processes for one in _informers(process)]
        lines = (
            change.version
            for informer in informers
            for part in informer.store.parts
            for change in self._lines(informer, part)
        )
        return min(lines, default=math.inf)

    def _lines(self, informer: Informer, namespace: str) -> Iterator[StoredChange]:
        """The changes that a part of a cache has not received yet."""
        resource = _place(informer.resource)
        if resource in self._histories and self._histories[resource].newest > informer.store.version:
            version = informer.store._tables[namespace].version
            for change in self._world.server.log.timeline(resource).after(version):
                if namespace in ("", change.key.namespace) and self._is_followed(informer, change):
                    yield change

    # --- queues and runs --------------------------------------------------------------------------

    def _queues(self, process: ProcessView) -> Iterator[Part]:
        for runner in runners_of(process.manager):
            for item, delay in runner.queue.queued(_MOST_KEYS):
                how = "failing" if item.retries else "delayed" if delay > 0 else "ready"
                yield process.number, runner.name, self._names.key(item.key), how
            for request in runner.resting:
                yield process.number, runner.name, self._names.key(request), "rest"

    def _runs(self, process: ProcessView) -> Iterator[Part]:
        resources = [_place(informer.resource) for informer in _informers(process)]
        for run in process.under_way.values():
            held = self._held_by(run, process.transport.requests, resources)
            yield process.number, run.ref.controller, self._names.key(run.ref.request), held

    def _held_by(
        self, run: RunUnderWay, requests: Sequence[RecordedRequest], resources: Sequence[StorageKey]
    ) -> str:
        """A digest of what a run was woken by, what the caches showed it, and its requests and answers."""
        sent = [self._request(requests[index]) for index in run.sent]
        seen: list[Any] = []
        for index, (version, *reached) in run.moments:
            caches = [self._held_at(*pair) for pair in zip(resources, reached, strict=False)]
            is_read = index >= 0 and not requests[index].mutating
            answer = self._held_at(_place(requests[index].target), version) if is_read else 0
            seen.append((caches, answer))
        woken = sorted({(cause.verb, str(cause.resource), self._key(cause.key)) for cause in run.causes})
        return _digest(repr((woken, sent, seen)).encode())

    def _held_at(self, resource: StorageKey, version: int) -> int:
        history = self._histories.get(resource)
        return 0 if history is None else history.at(version)

    def _request(self, request: RecordedRequest) -> Part:
        content = b"" if request.content is None else _COUNTED.sub(b"", self._names.plain(request.content))
        target = request.target
        name = self._names.key(Key(target.within, target.name)) if target.name else target.within
        chosen = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
        asked = request.method, target.group, target.resource, target.subresource, name, *chosen
        return (*asked, _digest(content), request.status, request.server_status)

    def _key(self, key: Key | None) -> str:
        return "" if key is None else self._names.key(key)


# --- names and content ----------------------------------------------------------------------------


@define(eq=False)
class _Names:
    """What stands for generated names and uids in a state, and the content of objects in these terms."""

    alike: bool
    known: Collection[bytes] | None = None
    _uids: dict[bytes, bytes] = field(factory=dict, init=False)
    _generated: dict[bytes, bytes] = field(factory=dict, init=False)
    _pattern: re.Pattern[bytes] | None = field(default=None, init=False)
    _counts: Counter[str] = field(factory=Counter, init=False)

    def learn(self, change: StoredChange) -> None:
        """Take note of the uid of a new object, and of its name if the server generated it."""
        created = change.new
        if created is None or (change.old is not None and change.old.uid == created.uid):
            return
        if change.old is None and b'"generateName"' in created.body:
            self._note_generated(change.key, created.decode()["metadata"].get("generateName") or "")
        name = f"{change.resource[1]} {self.key(change.key)}"
        self._uids[created.uid.encode()] = self._aliased(f"uid of {name}").encode()

    def _note_generated(self, key: Key, lead: str) -> None:
        name = key.name.encode()
        if lead and key.name.startswith(lead) and name not in self._generated:
            self._generated[name] = self._aliased(f"{lead}*").encode()
            self._pattern = None

    def _aliased(self, name: str) -> str:
        if self.alike:
            return name
        self._counts[name] += 1
        return f"{name}#{self._counts[name]}"

    def key(self, key: Key | Request) -> str:
        name = self._generated.get(key.name.encode(), key.name.encode())
        if self.known is not None and name not in self.known:
            name = _NEW
        return f"{key.namespace}/{name.decode()}"

    def content(self, stored: Stored) -> str:
        """A digest of an object's content."""
        body = stored.decode()
        metadata = body["metadata"]
        generation = metadata.pop("generation", None)
        for name in _COUNTERS:
            metadata.pop(name, None)
        if self.alike:
            metadata.pop("uid", None)
            metadata.pop("managedFields", None)
        text = self.plain(msgspec.json.encode(body, order="sorted"))
        if generation is not None:
            # Only whether it is the present one can matter: no code waits for a certain number.
            text = _OBSERVED.sub(lambda found: b"+" if int(found[1]) >= generation else b"-", text)
        return _digest(text)

    def plain(self, text: bytes) -> bytes:
        """The same text with what stands for times, addresses, uids and generated names."""
        text = _ADDRESS.sub(b"<address>", _TIME.sub(b"<time>", text))
        text = _UID.sub(lambda found: self._uids.get(found[0], found[0]), text)
        if self._generated:
            if self._pattern is None:
                longest_first = sorted(self._generated, key=len, reverse=True)
                self._pattern = re.compile(b"|".join(map(re.escape, longest_first)))
            text = self._pattern.sub(lambda found: self._generated[found[0]], text)
        if self.known is not None:
            text = _STRING.sub(self._blurred, text)
        return text

    def _blurred(self, found: re.Match[bytes]) -> bytes:
        assert self.known is not None
        return found[0] if found[1] in self.known or b"<" in found[1] else b'"%s"' % _NEW


@define(eq=False)
class _History:
    """What one resource held at each version, as the sum of the digests of its objects."""

    _versions: list[int] = field(factory=list, init=False)
    _sums: list[int] = field(factory=list, init=False)

    @property
    def newest(self) -> int:
        return self._versions[-1]

    def append(self, version: int, difference: int) -> None:
        before = self._sums[-1] if self._sums else 0
        self._versions.append(version)
        self._sums.append((before + difference) % _SUM)

    def at(self, version: int) -> int:
        """The sum at a version, 0 before the first change: that is how every run of a scenario begins."""
        index = bisect_right(self._versions, version)
        return self._sums[index - 1] if index else 0


def _weight(name: tuple[StorageKey, str], content: str) -> int:
    if content == _NOTHING:
        return 0
    return int(_digest(repr((name, content)).encode()), 16)


def _digest(text: bytes) -> str:
    return blake2b(text, digest_size=16).hexdigest()


# --- processes ------------------------------------------------------------------------------------


def runners_of(manager: Manager | None) -> Sequence[Runner[Any]]:
    """The controllers at work in a manager."""
    assembly = _assembly(manager)
    return () if assembly is None else assembly.clusters.runners


def _assembly(manager: Manager | None) -> Assembly | None:
    return None if manager is None else manager._assembly


def _informers(process: ProcessView) -> Iterator[Informer]:
    assembly = _assembly(process.manager)
    for cluster in () if assembly is None else assembly.clusters:
        yield from cluster.cache


def _place(named: APIResource | RequestPlace) -> StorageKey:
    return named.group, named.plural if isinstance(named, APIResource) else named.resource


def _process(process: ProcessView) -> Part:
    manager, assembly = process.manager, _assembly(process.manager)
    if manager is None or assembly is None:
        return process.number, process.alive, False, process.transport.cut_off, ()
    held = tuple(sorted(assembly._held.held))
    return process.number, process.alive, manager._leads(), process.transport.cut_off, held


def _outside(world: World) -> str:
    """What exists outside the cluster: in its services, or in what can tell by a method `state`."""
    told: Any = {service.name: service.state() for service in world.services}
    if not told:
        state = getattr(world.outside, "state", None)
        if not callable(state):
            return ""
        told = state()
    return _digest(msgspec.json.encode(told, order="deterministic", enc_hook=repr))

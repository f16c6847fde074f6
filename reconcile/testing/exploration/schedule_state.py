"""The state of a world between two transitions, and what a transition has touched.

Two states with the same digest have the same future: the digest has the objects of the server, the lines on
their way, the caches, the queues, what each run has read so far, what the author's code remembers, and how
often which object was created and deleted.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from attrs import define, field, frozen

from informers import APIResource, Informer, Snapshot
from informers.resource import Key
from informers.transport import Response
from reconcile.client.client import core_of
from reconcile.controller.runner import Runner
from reconcile.embedded.log import NAMESPACES, StorageKey, Stored, StoredChange
from reconcile.embedded.protocol.object_metadata import StoredOwner
from reconcile.testing.end_state import is_deletion, is_stillborn
from reconcile.testing.exploration.authors_memory import functions_of, memory_of
from reconcile.testing.exploration.cache_reads import CacheRead, CacheReads
from reconcile.testing.exploration.content_digests import Content, ContentDigests, digest_of
from reconcile.testing.exploration.schedule_gates import PendingLine, RunName, ScheduleGates, Transition
from reconcile.testing.exploration.version_ages import VersionAges, storage_key_of
from reconcile.testing.manager_process import ManagerProcess
from reconcile.testing.recorded_requests import UNCOUNTED, target_of
from reconcile.testing.world import World

Place: TypeAlias = tuple[object, ...]
"""Something that transitions read and write: an object, a collection, a cache, a queue, a memory."""

Versions: TypeAlias = dict[tuple[StorageKey, Key], dict[int, None]]

_BACKOFF = 0.005


@frozen
class Touched:
    """The places that a transition has read and written."""

    reads: frozenset[Place]
    writes: frozenset[Place]

    def commutes_with(self, other: "Touched") -> bool:
        """Whether both lead to the same state in either order, and neither prevents the other."""
        return (
            self.writes.isdisjoint(other.writes)
            and self.writes.isdisjoint(other.reads)
            and self.reads.isdisjoint(other.writes)
        )


@frozen
class RunInput:
    """What a run under way has seen: a digest, and the versions of which it may depend."""

    digest: bytes
    versions: Mapping[tuple[StorageKey, Key], Sequence[int]] = field(factory=dict)
    uids: tuple[str, ...] = ()

    def with_more(self, seen: Sequence[object], versions: Versions, uids: Iterable[str]) -> "RunInput":
        """The same with what was seen after it."""
        known = {key: dict.fromkeys(old) for key, old in self.versions.items()}
        for key, new in versions.items():
            known.setdefault(key, {}).update(new)
        digest = digest_of(self.digest, seen)
        return RunInput(digest, {key: tuple(all_of) for key, all_of in known.items()}, (*self.uids, *uids))


@define(eq=False)
class ScheduleState:
    """Reads the state of one world; `began` and `ended` are to be called around each transition."""

    world: World
    gates: ScheduleGates
    reads: CacheReads
    has_times: bool = False
    """Whether the author's code remembers, or will remember, what may be a time: then the time now counts."""
    inputs: dict[RunName, RunInput] = field(factory=dict)
    sees_all: bool = field(default=True, init=False)
    """Whether all that the author's code remembers was looked at, so that equal digests are equal states."""
    _digests: ContentDigests = field(init=False)
    _noted: int = field(default=0, init=False)
    _started: int = field(default=0, init=False)
    _requests: dict[int, int] = field(factory=dict, init=False)
    _before: dict[Place, Hashable] = field(factory=dict, init=False)
    _now: dict[Place, Hashable] | None = field(default=None, init=False)
    """What processes hold, if nothing has happened since it was looked at."""
    _waiting: frozenset[tuple[str, RunName]] = field(default=frozenset(), init=False)
    _deleted: set[str] = field(factory=set, init=False)
    _stillborn: set[str] = field(factory=set, init=False)
    _counts: Counter[tuple[str, str, str]] = field(factory=Counter, init=False)

    def __attrs_post_init__(self) -> None:
        self._digests = ContentDigests(self.world.server.log)
        for resource, stored in self._objects():
            self._digests.note(resource, stored)

    # --- transitions ------------------------------------------------------------------------------

    def began(self) -> None:
        """Remember what is there before a transition."""
        self._note_changes()
        self._started = len(self.world.changes)
        self.reads.forget()
        self._before, self._now = self._local(), None
        self._requests = {one.number: len(one.transport.requests) for one in self._processes}
        self._waiting = self._runs_waiting()

    def ended(self, transition: Transition, answer: Response | None) -> Touched:
        """What the transition has touched; `answer` is what reached its run with it."""
        self._note_changes()
        after = self._local()
        local_reads = list(self._local_reads(self.reads.take()))
        self._note_inputs(transition, answer, local_reads)
        reads: set[Place] = {("alive", transition.process), *self._server_reads(transition)}
        writes: set[Place] = set(self._server_writes())
        for place in self._before.keys() | after.keys():
            writes.update(_differing(place, self._before.get(place), after.get(place)))
        for process, resource, read in local_reads:
            reads.add(("cache", process, resource, "all" if read.key is None else read.key))
        reads.update(self._asked())
        if transition.kind in ("run", "answer", "lose", "line"):
            # Code of the author may have run, and what it remembers may have decided.
            reads.update((("memory", transition.process), ("outside", 0)))
            # A deletion waits for a proof that the cache is up to date, unless there was one before.
            reads.add(("freshness", transition.process))
        match transition.kind:
            case "send":
                reads.add(("outside", 0))
            case "crash":
                writes.update((("alive", transition.process), ("crashes",)))
                reads.update(("all of", path) for path in self._watched(transition.process))
            case "lose":
                writes.add(("lost answers",))
            case "act":  # what users find decides what they do
                reads.update(("all of", one.storage_key) for one in self.world.server.resources)
        if transition.run is not None:
            writes.add(("run", transition.run))
        writes.update(("run", run) for _, run in self._waiting ^ self._runs_waiting())
        return Touched(frozenset(reads), frozenset(writes))

    def _asked(self) -> Iterator[Place]:
        """The queues and expected echoes that decided on what became of a change."""
        for process in self._processes:
            for runner in _runners(process):
                if id(runner.queue) in self.reads.queued:
                    yield "queue", process.number, runner.name
                echoes = id(runner._executor.echoes)
                for asked, request in self.reads.asked:
                    if asked == echoes:
                        yield "echoes", process.number, runner.name, request

    def _local_reads(self, reads: Sequence[CacheRead]) -> Iterator[tuple[int, StorageKey, CacheRead]]:
        stores = {
            id(informer.store): (process.number, storage_key_of(informer.resource))
            for process in self._processes
            for informer in self._informers(process.number)
        }
        for read in reads:
            if id(read.store) in stores:
                yield *stores[id(read.store)], read

    def _runs_waiting(self) -> frozenset[tuple[str, RunName]]:
        return frozenset((one.label, one.run) for one in self.gates.waiting if one.run is not None)

    def _note_inputs(
        self,
        transition: Transition,
        answer: Response | None,
        reads: Sequence[tuple[int, StorageKey, CacheRead]],
    ) -> None:
        """Add to what each run has seen: the answer that reached it, and what it read."""
        further: dict[RunName, tuple[list[object], Versions, list[str]]] = {}
        if transition.run is not None and transition.kind != "send":
            answered, versions, uids = ([], {}, []) if answer is None else self._seen_in(answer)
            seen = [transition.kind, *answered]
            if transition.kind == "run":
                seen.append(self._local()["freshness", transition.process])
            further[transition.run] = seen, versions, uids
        for _, resource, read in reads:
            if read.run is not None:
                seen, versions, uids = further.setdefault(read.run, ([], {}, []))
                found = [(self._digests.name(one.key), *self._content(one)) for one in read.found]
                seen.append((resource, sorted((name, digest) for name, digest, _ in found)))
                for snapshot in read.found:
                    versions.setdefault((resource, snapshot.key), {})[snapshot.version] = None
                uids += [uid for _, _, inside in sorted(found) for uid in inside]
        for run, more in further.items():
            self.inputs[run] = self.inputs.get(run, RunInput(b"")).with_more(*more)
        # A run of a key that waits for its beginning has seen nothing: what is known is of the one before.
        active = self._active() - {one.run for one in self.gates.waiting if one.kind == "run"}
        self.inputs = {run: seen for run, seen in self.inputs.items() if run in active}

    def _seen_in(self, answer: Response) -> tuple[list[object], Versions, list[str]]:
        """What a run sees in an answer: its content, and the versions and uids of which it may depend."""
        body = _decoded(answer.body)
        digest, uids = self._digests.content_of(body)
        return [(answer.status, digest)], self._versions_in(body), [*uids]

    def _versions_in(self, body: Any) -> Versions:
        versions: Versions = {}
        items = body.get("items", [body]) if isinstance(body, dict) else ()
        for item in items if isinstance(items, list) else ():
            metadata = item.get("metadata", {})
            version, name = str(metadata.get("resourceVersion", "")), metadata.get("name")
            group, kind = str(item.get("apiVersion", "")).rpartition("/")[0], str(item.get("kind", ""))
            served = self.world.server.resources.by_kind(group, kind)
            if served is not None and name and version.isdecimal():
                key = Key(metadata.get("namespace", ""), name)
                versions.setdefault((served.storage_key, key), {})[int(version)] = None
        return versions

    def _active(self) -> set[RunName]:
        """The runs that have begun and not ended, also those that wait for a cache or a timer."""
        return {
            RunName(process.number, process.lives, runner.controller.name, request)
            for process in self._processes
            for runner in _runners(process)
            for request in runner.queue._working
        }

    def time_passed(self) -> None:
        """Look again at what processes hold: a timer may have changed it."""
        self._now = None

    # --- what a transition touches on the server ----------------------------------------------------

    def _server_writes(self) -> Iterator[Place]:
        for one in self.world.changes[self._started :]:
            if one.change.resource not in UNCOUNTED:
                yield "object", one.change.resource, one.change.key
                yield "all of", one.change.resource

    def _server_reads(self, transition: Transition) -> Iterator[Place]:
        for one in self.world.changes[self._started :]:
            stored = one.change.new or one.change.old
            if stored is not None and one.change.resource not in UNCOUNTED:
                yield "object", NAMESPACES, Key("", stored.key.namespace)
                yield from (self._owner(stored, owner) for owner in stored.owners)
        # A request that waits at its gate reaches the server with a later transition.
        waiting = {(one.process, one.path) for one in self.gates.waiting if one.kind == "send"}
        for process in self._processes:
            for request in process.transport.requests[self._requests.get(process.number, 0) :]:
                if request.counted and not (request.run and (process.number, request.path) in waiting):
                    yield from _place_of(request.path)
        yield from _place_of(transition.path)

    def _owner(self, stored: Stored, owner: StoredOwner) -> Place:
        resource = self.world.server.resources.by_kind(owner.api_version.rpartition("/")[0], owner.kind)
        if resource is None:
            return "object", ("", owner.kind), Key(stored.key.namespace, owner.name)
        return (
            "object",
            resource.storage_key,
            Key(stored.key.namespace if resource.namespaced else "", owner.name),
        )

    def _watched(self, process: int) -> Iterator[StorageKey]:
        return (storage_key_of(informer.resource) for informer in self._informers(process))

    # --- the state --------------------------------------------------------------------------------

    def digest(self, enabled: Sequence[Transition]) -> bytes:
        """The digest of the present state, in which these transitions are possible."""
        self._note_changes()
        ages = {process.number: self._ages(process) for process in self._processes}
        return digest_of(
            sorted(self._digests.text(one.label) for one in enabled),
            self.gates.crashes,
            self.gates.lost_answers,
            len(self.world.acts),
            self._time() if self.has_times else None,
            list(self._server()),
            [(name, part) for name, part in self._local().items() if name[0] != "cache"],
            [list(map(self._cached, self._informers(process.number))) for process in self._processes],
            [
                [process.manager is None, *self._journals(process, ages[process.number])]
                for process in self._processes
            ],
            [
                (lines.process, lines.path, list(self._pending(lines.process, lines.lines)))
                for lines in sorted(self.gates.watches, key=lambda lines: (lines.process, lines.path))
            ],
            sorted(
                (str(run), run.process, self._input(seen, ages[run.process]))
                for run, seen in self.inputs.items()
            ),
            sorted(self._answers(ages)),
            sorted(self._counts.items()),
        )

    def _time(self) -> tuple[float, int]:
        """The time without what transitions take, and the second that code may have counted it to."""
        now = self.world.now()
        return round(now, 3), math.floor(now)

    def _server(self) -> Iterator[tuple[str, str, bytes]]:
        for (_, plural), stored in self._objects():
            yield plural, self._digests.name(stored.key), self._digests.of_stored(stored)

    def _objects(self) -> Iterator[tuple[StorageKey, Stored]]:
        log = self.world.server.log
        for resource in sorted({one.storage_key for one in self.world.server.resources}):
            if resource not in UNCOUNTED:
                for stored in log.snapshot(resource):
                    yield resource, stored

    def _pending(self, process: int, lines: Sequence[PendingLine]) -> Iterator[tuple[object, ...]]:
        life = next(one.lives for one in self._processes if one.number == process)
        for line in lines:
            event = msgspec.json.decode(line.text)
            metadata = event.get("object", {}).get("metadata", {})
            version, uid = metadata.get("resourceVersion", "0"), metadata.get("uid", "")
            own = line.writer is not None and line.writer[:2] == (process, life)
            content = self._digests.of(uid, int(version or 0), msgspec.json.encode(event.get("object")))
            yield event.get("type"), self._digests.exists(uid), content, str(line.writer) if own else ""

    def _input(self, seen: RunInput, ages: VersionAges) -> bytes:
        """What a run has seen, and what of it is still so: a write on an old version will be refused."""
        current = [
            (resource, self._digests.name(key), [ages.age(resource, key, version) for version in versions])
            for (resource, key), versions in seen.versions.items()
        ]
        return digest_of(seen.digest, sorted(current), list(map(self._digests.exists, seen.uids)))

    def _answers(self, ages: Mapping[int, VersionAges]) -> Iterator[tuple[str, bytes]]:
        """What is on its way to runs: a part of what they will have seen."""
        for transition, answer in self.gates.answers:
            seen = RunInput(b"").with_more(*self._seen_in(answer))
            yield self._digests.text(transition.label), self._input(seen, ages[transition.process])

    def _ages(self, process: ManagerProcess) -> VersionAges:
        watches = [lines for lines in self.gates.watches if lines.process == process.number]
        return VersionAges([*self._informers(process.number)], watches, self._digests)

    def _journals(self, process: ManagerProcess, ages: VersionAges) -> Iterator[object]:
        """The keys that wait for their own writes to come back."""
        for runner in _runners(process):
            waits = {request: ages.expected(one) for request, one in runner._executor.journals.items()}
            yield sorted((str(request), waiting) for request, waiting in waits.items() if any(waiting))

    def _cached(self, informer: Informer) -> list[tuple[str, bool, bytes]]:
        return sorted(map(self._shown, _held(informer)))

    def _shown(self, snapshot: Snapshot) -> tuple[str, bool, bytes]:
        name, exists = self._digests.name(snapshot.key), self._digests.exists(snapshot.uid)
        return name, exists, self._digests.of(snapshot.uid, snapshot.version, snapshot.raw)

    def _content(self, snapshot: Snapshot) -> Content:
        return self._digests.content(snapshot.uid, snapshot.version, snapshot.raw)

    def _local(self) -> dict[Place, Hashable]:
        """What processes hold, by place: comparable within this run."""
        if self._now is None:
            self._now = self._held()
        return self._now

    def _held(self) -> dict[Place, Hashable]:
        parts: dict[Place, Hashable] = {}
        # Of echoes that have come, or were cut off with a watch, nothing follows any more.
        coming = {(lines.process, line.version) for lines in self.gates.watches for line in lines.lines}
        for process in self._processes:
            for informer in self._informers(process.number):
                held = frozenset((one.key, one.uid, one.version) for one in _held(informer))
                parts["cache", process.number, storage_key_of(informer.resource)] = held
            for runner in _runners(process):
                parts["queue", process.number, runner.name] = tuple(self._queue(runner))
                for request, expected in runner._executor.echoes._expected.items():
                    echoes = tuple(
                        (
                            resource.plural,
                            self._digests.name(key),
                            one.seen,
                            str(one.origin),
                            one.sent is None,
                        )
                        for (resource, key, version), one in expected.items()
                        if (process.number, version) in coming
                    )
                    if echoes:
                        parts["echoes", process.number, runner.name, request] = echoes
            parts["memory", process.number] = self._remembered(functions_of(process.controllers))
            parts["freshness", process.number] = tuple(
                (runner.name, *_proven(runner)) for runner in _runners(process)
            )
        if self.world.outside is not None:
            services = [service.state() for service in self.world.services]
            parts["outside", 0] = digest_of(self._remembered([[self.world.outside]]), services)
        return parts

    def _remembered(self, roots: Iterable[object]) -> bytes:
        memory = memory_of(roots)
        self.has_times |= memory.has_times
        self.sees_all &= memory.is_whole
        return self._digests.of_memory(memory.text)

    def _queue(self, runner: Runner[Any]) -> Iterator[tuple[object, ...]]:
        queue = runner.queue
        now = self.world.now()
        for place, waiting in (("ready", queue._queued), ("again", queue._again)):
            for request, (priority, ready_at, _) in waiting.items():
                delay = ready_at - now
                late = 0 if delay <= 0 else 1 + math.floor(math.log2(max(1.0, delay / _BACKOFF)) + 0.4)
                yield place, self._digests.text(str(request)), priority, late, bool(queue.retries(request))
        yield from sorted(("at work", self._digests.text(str(request))) for request in queue._working)

    @property
    def _processes(self) -> Sequence[ManagerProcess]:
        return self.world.processes  # type: ignore[return-value]

    def _informers(self, process: int) -> Iterator[Informer]:
        manager = self._processes[process - 1].manager
        assembly = None if manager is None else manager._assembly
        for cluster in () if assembly is None else assembly.clusters:
            yield from cluster.cache

    def _note_changes(self) -> None:
        for one in self.world.changes[self._noted :]:
            change = one.change
            if change.old is None and change.new is not None:
                self._digests.note(change.resource, change.new)
            if change.resource not in UNCOUNTED:
                self._count(change)
        self._noted = len(self.world.changes)

    def _count(self, change: StoredChange) -> None:
        """Count what is created and deleted, as the invariants do: not a child whose owners are gone."""
        if change.new is None and change.old is not None:
            self._deleted.add(change.old.uid)
        stored = change.new or change.old
        assert stored is not None
        if change.old is None and is_stillborn(change, self._deleted):
            self._stillborn.add(stored.uid)
        if stored.uid not in self._stillborn:
            name = self._digests.name(change.key)
            self._counts["created", change.resource[1], name] += change.old is None
            self._counts["deleted", change.resource[1], name] += is_deletion(change)


def _place_of(path: str) -> Iterator[Place]:
    """What the server looks at to answer a request, beside what it writes."""
    target = target_of(path)
    resource = (target.group, target.resource)
    if target.within:  # nothing is created in a namespace that ends
        yield "object", NAMESPACES, Key("", target.within)
    if target.name:
        yield "object", resource, Key(target.within, target.name)
    elif target.resource:
        yield "all of", resource


def _runners(process: ManagerProcess) -> Iterator[Runner[Any]]:
    assembly = None if process.manager is None else process.manager._assembly
    return iter(()) if assembly is None else iter(assembly.clusters.runners)


def _proven(runner: Runner[Any]) -> tuple[Hashable, ...]:
    """The kinds whose cache has proven to be up to date, and those that a run need not prove again."""
    freshness = core_of(runner._executor.client).freshness
    return _names(freshness._confirmed), _names(freshness.certain)


def _names(resources: Iterable[APIResource]) -> tuple[str, ...]:
    return tuple(sorted(map(str, resources)))


def _decoded(body: bytes) -> Any:
    """The JSON of an answer, or its text: logs and probes answer with any."""
    try:
        return msgspec.json.decode(body) if body else None
    except msgspec.DecodeError:
        return body.decode(errors="replace")


def _held(informer: Informer) -> Iterator[Snapshot]:
    """What a cache holds, without a recorded read."""
    for part in informer.store.parts:
        yield from informer.store.held(part)


def _differing(place: Place, before: Hashable, after: Hashable) -> Iterator[Place]:
    """The places that differ: of a cache, those of the objects, and the place of all of them."""
    if before == after:
        return
    if place[0] != "cache":
        yield place
        return
    yield (*place, "all")
    changed = (before or frozenset()) ^ (after or frozenset())  # type: ignore[operator]
    yield from {(*place, key) for key, _, _ in changed}

"""Counts what an operator on kopf left on the objects of one kind, in memory that does not grow with them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import define, field, frozen

from informers import Key
from reconcile.adoption.adopted_kinds import AdoptedKind
from reconcile.client.redaction import is_sensitive
from reconcile.predecessors import HandlerProgress, ObjectTraces, prefixes_in_use, traces_on

NAMED: Final = 20
"""Objects of one sort that are named; all are counted."""
NAMES: Final = 50
"""Names of managers, prefixes and so on that are kept apart: objects may have any number of them."""
TEXT: Final = 253
"""Characters that are kept of a name or a time: an object may have longer ones."""
OTHERS: Final = "(others)"


@frozen
class Sighting:
    """An object, and the handlers that are not through with it; `since` when the first of them began."""

    object: str
    handlers: tuple[str, ...] = ()
    since: str = ""
    attempts: int = 0


@define
class Sightings:
    """How many objects of one sort there are, and the first of them."""

    count: int = 0
    first: list[Sighting] = field(factory=list)

    def add(self, sighting: Sighting) -> None:
        self.count += 1
        if len(self.first) < NAMED:
            self.first.append(sighting)


@define
class Counts:
    """How often each name was counted; names beyond the first NAMES are counted together."""

    by_name: dict[str, int] = field(factory=dict)

    def add(self, name: str, number: int = 1) -> None:
        name = name[:TEXT]
        if name not in self.by_name and len(self.by_name) >= NAMES:
            name = OTHERS
        self.by_name[name] = self.by_name.get(name, 0) + number


@define
class Tally:
    """What was found on the objects of a kind. No value of an annotation is kept.

    `with_traces` is how many objects have something of kopf's that has to go. `half_created`: a handler of
    their creation has begun and not ended. `begun`: kopf holds them and has not handled them to the end once,
    so a handler of their creation may be running: before its first attempt has ended, kopf writes nothing
    about it. `under_way`: handlers of another change are not through. `deleting`: they are being deleted and
    wait for kopf's finalizer. `copies` have an annotation with a copy of a Secret. `finalizers` are those of
    objects with traces, `results` fields of `status` that kopf wrote, `owned` how many fields each field
    manager owns.
    """

    kind: AdoptedKind
    objects: int = 0
    with_traces: int = 0
    held: int = 0
    handled: int = 0
    half_created: Sightings = field(factory=Sightings)
    begun: Sightings = field(factory=Sightings)
    under_way: Sightings = field(factory=Sightings)
    deleting: Sightings = field(factory=Sightings)
    copies: Sightings = field(factory=Sightings)
    finalizers: Counts = field(factory=Counts)
    prefixes: Counts = field(factory=Counts)
    results: Counts = field(factory=Counts)
    owned: Counts = field(factory=Counts)

    def add(self, obj: Mapping[str, Any]) -> None:
        """Count an object, given with its metadata and status at least."""
        metadata = obj["metadata"]
        traces = traces_on(obj, self.kind.names)
        self.objects += 1
        self.with_traces += bool(traces)
        self.held += traces.finalizer
        self.handled += traces.last_handled
        if traces:
            self._sort(str(Key(metadata.get("namespace", ""), metadata["name"])), metadata, traces)
            for name in _listed(metadata.get("finalizers")):
                self.finalizers.add(str(name))
        for prefix in prefixes_in_use(obj):
            self.prefixes.add(prefix)
        for name in traces.results:
            self.results.add(name)
        for entry in _listed(metadata.get("managedFields")):
            if isinstance(entry, Mapping):
                self.owned.add(str(entry.get("manager") or ""), _leaves(entry.get("fieldsV1")))

    @property
    def shows_kopf(self) -> bool:
        """Whether some object has traces of any operator on kopf."""
        return bool(self.with_traces or self.prefixes.by_name or self.results.by_name)

    def _sort(self, name: str, metadata: Mapping[str, Any], traces: ObjectTraces) -> None:
        unfinished = tuple(record for record in traces.progress if record.unfinished)
        if "deletionTimestamp" in metadata:
            if traces.finalizer:
                self.deleting.add(_sighting(name, unfinished))
        elif traces.half_created:
            self.half_created.add(_sighting(name, traces.half_created))
        elif traces.begun:
            self.begun.add(Sighting(name))
        elif unfinished:
            self.under_way.add(_sighting(name, unfinished))
        if traces.last_handled and is_sensitive(self.kind.resource):
            self.copies.add(Sighting(name))


def _sighting(name: str, records: tuple[HandlerProgress, ...]) -> Sighting:
    since = min((record.started for record in records if record.started), default="")
    handlers = tuple(record.handler[:TEXT] for record in records[:NAMED])
    return Sighting(name, handlers, since[:TEXT], max((record.retries for record in records), default=0))


def _listed(value: object) -> Iterator[Any]:
    yield from value if isinstance(value, list) else ()


def _leaves(fields: object) -> int:
    """How many fields a set in its form FieldsV1 has that have no fields of their own; at any depth."""
    leaves, rest = 0, [fields]
    while rest:
        node = rest.pop()
        for name, inner in node.items() if isinstance(node, Mapping) else ():
            if isinstance(inner, Mapping) and inner.keys() - {"."}:
                rest.append(inner)
            elif name != ".":
                leaves += 1
    return leaves

"""Judges the world each time that it comes to rest after a change of a spec."""

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from informers import Key
from reconcile.embedded.log import StorageKey, Stored
from reconcile.models import DecodeError, Object, kind_of
from reconcile.testing.end_state import EndStateSubject, end_state_of, plain_object
from reconcile.testing.recorded_requests import UNCOUNTED
from reconcile.testing.run_records import KeyRun, Violation
from reconcile.testing.spec_transitions.left_worlds import (
    ExpectedObjects,
    Hides,
    LeftObjects,
    left_over,
    unlike,
)
from reconcile.testing.virtual_time import loop_time
from reconcile.testing.world import World

_REFUSED = ": refused, "
_FAILED = ": 500 "
_OF_A_NAMESPACE = (("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt"))
"""What the server makes in each namespace, and what goes with it."""


@frozen
class PlannedStep:
    """What is to hold after one act: after the others nothing is judged.

    `expected` is what a new object with the spec leaves, `is_refused` whether the server must refuse the act,
    in words that have `field` in them. `deletes`: nothing that came since the first step may be left.
    """

    expected: ExpectedObjects | None = None
    is_refused: bool = False
    field: str = ""
    deletes: bool = False


@frozen
class RestingWorld:
    """The world at rest after one act: at what time (s), what it left, and whether the act was refused."""

    at: float
    objects: LeftObjects
    refused: str


@define(eq=False)
class RestJudge:
    """An invariant of one scenario; `begin` says what the acts of the next run are and what must follow."""

    kind: type[Object]
    hides: Hides
    workloads: bool = False
    one_way: Sequence[str] = ()
    without: frozenset[str] = frozenset()
    originals: dict[EndStateSubject, Sequence[Any]] = field(factory=dict, init=False)
    """Objects that existed before the runs, as they were, if any run changed them."""
    rests: list[RestingWorld] = field(factory=list, init=False)
    _steps: Sequence[PlannedStep] = field(default=(), init=False)
    _before: int = field(default=0, init=False)
    _objects_before: LeftObjects = field(factory=dict, init=False)

    def begin(self, steps: Sequence[PlannedStep], before: int) -> None:
        """Expect these steps, after so many acts that prepare the world."""
        self.rests = []
        self._steps, self._before, self._objects_before = steps, before, {}

    def __call__(self, world: World) -> None:
        number = len(world.acts) - self._before - 1
        if number >= len(self._steps):
            return
        objects = self._objects(world)
        if number < 0:
            self._objects_before = objects
            return
        text = world.acts[-1].text
        refused = text.partition(_REFUSED)[2]
        self.rests.append(RestingWorld(loop_time(), objects, refused))
        for rule, found in self._judged(world, self._steps[number], objects, refused):
            if rule not in self.without:
                world.violate(rule, found)

    def _judged(
        self, world: World, step: PlannedStep, objects: LeftObjects, refused: str
    ) -> Iterator[tuple[str, str]]:
        if step.is_refused:
            yield from (("refusals", text) for text in self._of_refusal(step, objects, refused))
            return
        yield from (("fails", text) for text in _failing(world))
        yield from (("reads", text) for text in self._unread(world))
        yield from (("observed", text) for text in self._not_observed(world))
        if step.deletes:
            texts = left_over(self._with_originals(self._objects_before), objects, self.one_way)
            yield from (("leftovers", text) for text in texts)
        if step.expected is not None and not refused:
            yield from (("as-new", text) for text in self._unlike(step.expected, objects))

    def _unlike(self, expected: ExpectedObjects, objects: LeftObjects) -> Iterator[str]:
        whole = evolve(expected, objects=self._with_originals(expected.objects))
        found = self._with_originals(objects)
        return unlike(whole, found, one_way=self.one_way, hides=self.hides)

    def _of_refusal(self, step: PlannedStep, objects: LeftObjects, refused: str) -> Iterator[str]:
        if not refused:
            yield f"the server accepts a value of {step.field} that it refuses in a new object"
        elif _FAILED in refused:
            yield f"the server fails where it should refuse: {refused}"
        elif step.field not in refused:
            yield f"the refusal does not name {step.field}: {refused}"
        if step.expected is not None:
            yield from self._unlike(step.expected, objects)

    def _objects(self, world: World) -> LeftObjects:
        made = {
            ("namespaces", "", key.name) for resource, key in world.actor.made if resource[1] == "namespaces"
        }
        left = dict(end_state_of(world, workloads=self.workloads).objects)
        for subject in self._note_originals(world):
            left.setdefault(subject, [])
        return {
            subject: bodies
            for subject, bodies in left.items()
            if subject not in made and (subject[0], subject[2]) not in _OF_A_NAMESPACE
        }

    def _note_originals(self, world: World) -> Iterator[EndStateSubject]:
        """Remember what objects were like that existed before the run and were changed in it; their names."""
        seen: set[tuple[StorageKey, Key]] = set()
        for one in world.changes:
            change = one.change
            if (change.resource, change.key) in seen or change.resource in UNCOUNTED:
                continue
            seen.add((change.resource, change.key))
            if change.old is not None:
                subject = change.resource[1], change.key.namespace, change.key.name
                self.originals.setdefault(subject, [plain_object(change.old, {})])
                yield subject

    def _with_originals(self, objects: LeftObjects) -> LeftObjects:
        """With the objects that this run did not change, and another one did."""
        return {**self.originals, **objects} if self.originals else objects

    def _unread(self, world: World) -> Iterator[str]:
        """An object that the schema admits and the class of the kind cannot hold: no run sees it."""
        try:
            world.objects(self.kind)
        except DecodeError as error:
            yield f"the schema admits what {self.kind.__name__} cannot read: {error}"

    def _not_observed(self, world: World) -> Iterator[str]:
        """A status at rest that is of an earlier spec, by its own number or by that of each condition.

        A single condition may be out of date: that is what its own observedGeneration says.
        """
        for key, stored in self._stored(world):
            body = stored.decode()
            status = body.get("status")
            if not isinstance(status, dict):
                continue
            generation = body["metadata"].get("generation", 0)
            of_conditions = [one.get("observedGeneration") for one in status.get("conditions") or ()]
            told = {
                "status.observedGeneration": status.get("observedGeneration"),
                "observedGeneration of the newest condition": max(
                    (one for one in of_conditions if isinstance(one, int)), default=None
                ),
            }
            for where, observed in told.items():
                if isinstance(observed, int) and observed < generation:
                    yield f"{key}: at rest {where} is {observed}, and the generation is {generation}"

    def _stored(self, world: World) -> Iterator[tuple[Key, Stored]]:
        resource = kind_of(self.kind).resource
        for stored in world.server.log.snapshot((resource.group, resource.plural)):
            yield stored.key, stored


def _failing(world: World) -> Iterator[str]:
    """Keys whose last run failed; with a TerminalError their reconciler gave up on purpose."""
    last: dict[object, KeyRun] = {}
    for run in world.runs:
        if run.outcome != "cancelled":
            last[run.controller, run.request] = run
    for run in last.values():
        if run.outcome == "error" and not run.given_up:
            yield f"{run.controller} fails for {run.request}: {run.message}"


def written_by_extra_runs(world: World, wake: str) -> Iterator[Violation]:
    """A violation for each write of runs that `wake` caused, and that had nothing to do."""
    for run in world.runs:
        if not any(wake in cause for cause in run.causes):
            continue
        process = world.processes[run.process - 1]
        for request in reversed(process.transport.requests):
            if request.at < run.started:
                break
            if request.mutating and request.counted and request.at <= run.ended:
                text = f"{request}, by a run of {run.controller} for {run.request} with nothing to do"
                yield Violation("idempotent", text, request.at)

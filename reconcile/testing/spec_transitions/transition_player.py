"""Plays specs one after another on the controllers of a scenario, each compared with a new object's world."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from attrs import evolve, frozen

from reconcile.models import Object, kind_of
from reconcile.testing.faults import FaultPlan
from reconcile.testing.run_records import Violation
from reconcile.testing.scenario import Scenario
from reconcile.testing.scenario_acts import Delete, ScenarioAct, Wait
from reconcile.testing.scenario_runner import ScenarioRun, ScenarioRunner
from reconcile.testing.spec_transitions.change_acts import acts_of
from reconcile.testing.spec_transitions.left_worlds import ExpectedObjects, expected_objects
from reconcile.testing.spec_transitions.rest_judge import PlannedStep, RestJudge, written_by_extra_runs
from reconcile.testing.spec_transitions.value_classes import identity_of

SpecManifest: TypeAlias = Mapping[str, Any]
"""A whole object of the kind, as a user applies it."""

_SEEDS = (0, 7_919)
"""A new object is made under each: what differs then follows from chance, not from the spec."""
_WAKE = "once more"


@frozen
class InvalidSpec:
    """A spec that the server refuses, and the field that its answer has to name; empty for any."""

    manifest: SpecManifest
    field: str


PlayedSpec: TypeAlias = "SpecManifest | InvalidSpec"


@frozen
class PlayedChain:
    """A run in which one object had several specs, one after the other, and was then deleted.

    `wrong_at` is the number of the first spec after which something was wrong, their number if it was after
    the deletion, None if nothing was. `refused`: changes that the server did not admit, by number.
    """

    run: ScenarioRun
    wrong_at: int | None
    refused: Mapping[int, str]

    @property
    def rules(self) -> frozenset[str]:
        return frozenset(violation.rule for violation in self.run.violations)


@frozen
class NewObject:
    """What a new object with some spec leaves, and the run that showed that it is wrong by itself, if any."""

    expected: ExpectedObjects
    broken: PlayedChain | None


class TransitionPlayer:
    """Plays objects of one kind; each spec is also played once as that of a new object, and remembered."""

    def __init__(
        self,
        scenario: Scenario,
        kind: type[Object],
        setup: Sequence[ScenarioAct],
        *,
        seed: int,
        one_way: Sequence[str],
        without: frozenset[str],
    ) -> None:
        self._judge = RestJudge(kind, lambda plural, path: False, scenario.workloads, one_way, without)
        played = evolve(
            scenario,
            steps=(),
            invariants=(*scenario.invariants, self._judge),
            # Here a run with nothing to do may read, as long as it writes nothing.
            without=tuple({*scenario.without, "extra-run"}),
        )
        self.runner = ScenarioRunner(played, references=0)
        self._judge.hides = self.runner.redactor.hides
        self._kind = kind
        self._setup = tuple(setup)
        self._seed = seed
        self._without = without
        self._new: dict[bytes, NewObject] = {}
        self.runs = 0

    def new_object(self, manifest: SpecManifest) -> NewObject:
        """The world that a new object with this spec leaves: made under two seeds, deleted in one of them."""
        identity = identity_of(manifest)
        if identity not in self._new:
            self._new[identity] = self._made(manifest)
        return self._new[identity]

    def known(self, manifest: SpecManifest) -> ExpectedObjects | None:
        """What a new object with this spec left, if one was made."""
        new = self._new.get(identity_of(manifest))
        return None if new is None else new.expected

    @property
    def specs(self) -> int:
        """With how many different specs an object was made anew."""
        return len(self._new)

    def _made(self, manifest: SpecManifest) -> NewObject:
        chains = []
        worlds = []
        for number, seed in enumerate(_SEEDS):
            deleted = number > 0
            chains.append(self._played([manifest], [PlannedStep()], seed=self._seed + seed, deleted=deleted))
            if self._judge.rests:
                worlds.append(self._judge.rests[0].objects)
        broken = next((one for one in chains if one.wrong_at is not None), None)
        return NewObject(expected_objects(worlds or [{}]), broken)

    def play(self, specs: Sequence[PlayedSpec]) -> PlayedChain:
        """Apply the specs one after the other to one object, and delete it.

        Each must leave what a new object with it leaves; an invalid one must change nothing.
        """
        steps, manifests, expected = [], [], None
        for spec in specs:
            if isinstance(spec, InvalidSpec):
                steps.append(PlannedStep(expected, is_refused=True, field=spec.field))
                manifests.append(spec.manifest)
                continue
            expected = self.new_object(spec).expected
            steps.append(PlannedStep(expected))
            manifests.append(spec)
        return self._played(manifests, steps, seed=self._seed, deleted=True)

    def _played(
        self, manifests: Sequence[SpecManifest], steps: Sequence[PlannedStep], *, seed: int, deleted: bool
    ) -> PlayedChain:
        self.runs += 1
        path = self._path(manifests[0])
        acts = [*self._setup, *acts_of(path, manifests)]
        if deleted:
            acts.append(Delete(path))
            steps = [*steps, PlannedStep(deletes=True)]
        prepared = sum(not isinstance(act, Wait) for act in self._setup)
        self._judge.begin(steps, prepared)
        run = self.runner.run(FaultPlan((), acts, seed))
        if not deleted and "idempotent" not in self._without:
            run = evolve(run, violations=(*run.violations, *written_by_extra_runs(run.world, _WAKE)))
        rests = self._judge.rests
        refused = {number: rest.refused for number, rest in enumerate(rests) if rest.refused}
        return PlayedChain(run, self._first_wrong(run.violations, len(steps)), refused)

    def _first_wrong(self, violations: Sequence[Violation], steps: int) -> int | None:
        """The number of the act after which the first violation was found."""
        if not violations:
            return None
        times = [rest.at for rest in self._judge.rests]
        return min(bisect_left(times, min(violation.at for violation in violations)), steps - 1)

    def _path(self, manifest: SpecManifest) -> str:
        metadata = manifest["metadata"]
        return kind_of(self._kind).resource.path(metadata.get("namespace", ""), metadata["name"])

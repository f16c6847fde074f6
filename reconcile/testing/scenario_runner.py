"""Runs one scenario under plans, and compares each run with runs without faults."""

import gc
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

from attrs import define, field, frozen

from reconcile.client.client import Client
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.testing import free_invariants
from reconcile.testing.cluster_actor import ClusterActor
from reconcile.testing.end_state import (
    COMPARED,
    EndState,
    ExpectedEndState,
    compare,
    end_state_of,
    expected_of,
)
from reconcile.testing.exploration.planned_schedules import PlannedSchedule
from reconcile.testing.exploration.schedule_gates import ScheduleGates
from reconcile.testing.faults import FaultPlan, Meanwhile
from reconcile.testing.old_views import checked_under, sees_past
from reconcile.testing.redactor import Redactor
from reconcile.testing.run_records import Violation
from reconcile.testing.scenario import Scenario, ScenarioStep
from reconcile.testing.scenario_acts import Touch, Wait
from reconcile.testing.simulated_world import Restless, SimulatedWorld, nodes_of
from reconcile.testing.virtual_clock import VirtualClock
from reconcile.testing.virtual_time import simulate
from reconcile.testing.world import World

REFERENCES = 3
"""Runs without faults, of different seeds, that show how a scenario ends and where its ends differ."""
MOST_REMEMBERED = 300
"""Sequences of acts whose runs without faults are remembered: a long fuzz plays any number of them."""
_LONGEST = 10_000_000.0
_OBJECTS_OF_A_RUN = 50_000
_SEEDS_APART = 7_919
_FIRST_SEED = 1_000_003
"""For the server that all runs are copied from: its names and uids differ from those of every run."""


@frozen
class ScenarioRun:
    """A run that has ended: its plan, the invariants that did not hold, and the world as it was left."""

    plan: FaultPlan
    violations: Sequence[Violation]
    world: World
    redactor: Redactor

    @property
    def failed(self) -> bool:
        """Whether an invariant did not hold."""
        return bool(self.violations)


class Explorer(Protocol):
    """Decides on the order of everything in a run."""

    def gates(self) -> ScheduleGates:
        """The gates of the run, which ask it what is next."""
        ...

    def watch(self, world: World) -> None:
        """Receive the world of the run before it begins."""
        ...


@define
class _References:
    """How the same acts end without faults, under some seeds; `endless` if one of those runs does not."""

    ends: list[EndState] = field(factory=list)
    endless: bool = False
    expected: ExpectedEndState | None = None
    """What they have in common; None if there is nothing to compare with."""

    def has(self, count: int) -> bool:
        """Whether there are so many, or no more are worth it."""
        return self.endless or len(self.ends) >= count

    def add(self, end: EndState | None) -> None:
        """Take one more end in; None for a run that did not end."""
        if end is None:
            self.endless, self.expected = True, None
        else:
            self.ends.append(end)
            self.expected = expected_of(self.ends)


class ScenarioRunner:
    """Runs one scenario many times. Raises the server's error if it refuses definitions or objects."""

    def __init__(self, scenario: Scenario, *, references: int = REFERENCES) -> None:
        self.scenario = scenario
        self._references = references
        self._base = _server_for(scenario)
        self._redactor = Redactor(scenario.served_kinds(), scenario.services())
        self._known_references: dict[str, _References] = {}

    @property
    def server(self) -> ApiServer:
        """The server that those of all runs are copied from: its definitions, objects and webhooks."""
        return self._base

    @property
    def redactor(self) -> Redactor:
        """What must not be shown of the objects of a run."""
        return self._redactor

    def run(
        self,
        plan: FaultPlan,
        *,
        record_events: bool = False,
        explorer: "Explorer | None" = None,
        during: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> ScenarioRun:
        """Run under a plan, and compare its end with fault-free ones if possible. Raises SimulationError.

        An `explorer` decides on the order of everything, unless the plan has a schedule. The run is played
        within the context that `during` makes; the runs that it is compared with are not.
        """
        if plan.schedule is not None:
            explorer = PlannedSchedule(plan.schedule)
        at_once = 1 if explorer is None else self._references  # an explorer plays a run once
        references = self._references_of(plan, at_once)
        world = self._play(plan, record_events, references.expected, explorer, during)
        if explorer is None and _differs(world) and not references.has(self._references):
            # Runs without faults may differ in this too. Several of them allow all that one of them does.
            references = self._references_of(plan, self._references)
            world = self._play(plan, record_events, references.expected, None, during)
        return ScenarioRun(plan, tuple(world.violations), world, self._redactor)

    def _play(
        self,
        plan: FaultPlan,
        record_events: bool = False,
        expected: ExpectedEndState | None = None,
        explorer: "Explorer | None" = None,
        during: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> World:
        steps: Sequence[ScenarioStep] = self.scenario.steps if plan.acts is None else plan.acts

        async def play() -> World:
            gates = None if explorer is None else explorer.gates()
            scenario = checked_under(self.scenario, plan)
            simulated = SimulatedWorld(scenario, self._base, plan, record_events=record_events, gates=gates)
            world = simulated.view
            if explorer is not None:
                explorer.watch(world)
            async with simulated.running():
                try:
                    await simulated.play(steps)
                    if gates is not None:
                        gates.finish()
                    await simulated.stay_at_rest()
                    if expected is not None:
                        end = self._end_state_of(world)
                        compare(world, end, expected, self._redactor, saw_past=sees_past(plan))
                except Restless as restless:
                    world.violate("converges", str(restless))
                except AssertionError as error:
                    world.violate("step", str(error) or "an assertion of a step does not hold")
                free_invariants.check(world, free_invariants.OF_A_RUN)
            return world

        with without_logs(), _few_collections(), during():
            return simulate(play, seed=plan.seed, limit_seconds=_LONGEST)

    def _end_state_of(self, world: World) -> EndState:
        return end_state_of(world, workloads=self.scenario.workloads)

    def _references_of(self, plan: FaultPlan, count: int) -> _References:
        """The runs without faults to compare with, `count` at least; none if the plan is not comparable."""
        if not self._references or not self._is_comparable(plan):
            return _References()
        acts = repr(plan.acts)
        references = self._known_references.pop(acts, None) or _References()
        self._known_references[acts] = references  # the last of those that are remembered
        if len(self._known_references) > MOST_REMEMBERED:
            del self._known_references[next(iter(self._known_references))]
        while not references.has(count):
            world = self._play(FaultPlan((), plan.acts, len(references.ends) * _SEEDS_APART))
            endless = any(violation.rule in ("converges", "step") for violation in world.violations)
            references.add(None if endless else self._end_state_of(world))
        return references

    def _is_comparable(self, plan: FaultPlan) -> bool:
        """Whether only faults can make a difference: no acts race, and no foreign write leaves a trace."""
        acts = self.scenario.steps if plan.acts is None else plan.acts
        foreign = [fault.what.act for fault in plan.faults if isinstance(fault.what, Meanwhile)]
        return not any(isinstance(act, Wait) for act in acts) and all(isinstance(a, Touch) for a in foreign)


def _differs(world: World) -> bool:
    """Whether the end of a run is not that of the runs it was compared with."""
    return any(violation.rule in COMPARED for violation in world.violations)


def _server_for(scenario: Scenario) -> ApiServer:
    """A server with the definitions and objects of a scenario, to be copied for each run."""
    clock = VirtualClock(_FIRST_SEED)
    server = ApiServer(clock=clock)
    actor = ClusterActor(server)
    for definition in scenario.definitions:
        actor.make(definition)
    for kind in scenario.served_kinds():
        actor.serve(kind)
    actor.admit(scenario.make_controllers())
    uids: dict[str, str] = {}
    for manifest in scenario.objects:
        stored = actor.make(_owned_anew(manifest, uids))
        if named := manifest["metadata"].get("uid"):
            uids[named] = stored["metadata"]["uid"]
    if scenario.nodes is not None:
        simulate(nodes_of(scenario.nodes).register, Client(InProcessTransport(server), clock=clock))
    server.settle()
    return server


def _owned_anew(manifest: Mapping[str, Any], uids: Mapping[str, str]) -> Mapping[str, Any]:
    """An object whose owners have the uids that they got in this world."""
    metadata = manifest["metadata"]
    if not (uids and metadata.get("ownerReferences")):
        return manifest
    owners = [{**one, "uid": uids.get(one.get("uid"), one.get("uid"))} for one in metadata["ownerReferences"]]
    return {**manifest, "metadata": {**metadata, "ownerReferences": owners}}


@contextmanager
def _few_collections() -> Iterator[None]:
    """Collect garbage rarely: a world is one large cycle that lives as long as its run."""
    least, *others = gc.get_threshold()
    if least:
        gc.set_threshold(max(least, _OBJECTS_OF_A_RUN), *others)
    try:
        yield
    finally:
        gc.set_threshold(least, *others)


@contextmanager
def without_logs() -> Iterator[None]:
    """Silence what managers and webhooks log of planned faults, which is in the trace."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)

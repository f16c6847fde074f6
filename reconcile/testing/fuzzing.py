"""Random plans, drawn whole before they run, of what users, other controllers and networks may do."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from inspect import isclass
from typing import Any, Literal, get_args, get_origin

import attrs
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from hypothesis.strategies import SearchStrategy

from reconcile.models import UNSET, Object, kind_of
from reconcile.models.fields import ModelField, fields_of, split_annotated, union_parts
from reconcile.models.writing import to_json
from reconcile.testing.fake_services.service_faults import drawn_faults, pattern_of
from reconcile.testing.faults import (
    CallFailure,
    Coalesce,
    CrashAfter,
    CrashBefore,
    Cut,
    Delay,
    Drop,
    EndEarly,
    Expire,
    FailCall,
    Fault,
    FaultPlan,
    Hold,
    LoseReply,
    Meanwhile,
    Pause,
    Refuse,
    Repeat,
    RequestFault,
    SlowReply,
    Stall,
    When,
)
from reconcile.testing.guidance.mutation import FaultKinds
from reconcile.testing.scenario import Scenario
from reconcile.testing.scenario_acts import (
    DEFAULT_NAMESPACE,
    Apply,
    CutOff,
    DelayGarbage,
    Delete,
    Edit,
    Freeze,
    JumpClock,
    Kill,
    Recreate,
    Release,
    ScenarioAct,
    Stop,
    Touch,
    Wait,
    manifest_of,
    path_of,
)
from reconcile.testing.scenario_runner import ScenarioRun, ScenarioRunner
from reconcile.testing.strategies import field_values, objects
from reconcile.webhooks.routes import routes_of

BATCH = 25
"""Plans that one state machine draws before the next seed."""
REFERENCES = 2
"""Runs without faults to compare those under random plans with."""
STEPS = 8
"""The most acts and faults of one plan."""
NAMES = ("one", "two")
_AMONG_REQUESTS: tuple[RequestFault, ...] = (
    CrashBefore(),
    CrashAfter(),
    LoseReply(),
    Drop(),
    Delay(2.0),
    SlowReply(2.0),
    Meanwhile(Touch()),
    Refuse(429, text="too many requests", retry_after=1),
    Refuse(500),
    Refuse(503),
    Refuse(504),
    Refuse(504, applied=True),
)
_AMONG_SERVICES = (CrashBefore(), CrashAfter(), LoseReply(), SlowReply(2.0), Refuse(504, applied=True))
_OFTEN_AT_WRITES = _AMONG_REQUESTS[:3]
_AMONG_STREAMS = (Cut, EndEarly, Expire, Repeat, Hold, Coalesce)
_AMONG_CALLS = tuple(map(FailCall, get_args(CallFailure)))
_MOST_LINES = 8
_WAITS = (Wait(0.0), Wait(0.1), Wait(1.0))
_LATER = (JumpClock(3600.0), DelayGarbage(5.0))
_HUGE = 1_000


@attrs.define(eq=False)
class DrawnPlans:
    """Random plans for a scenario, each drawn without regard to how the others ran."""

    scenario: Scenario
    seed: int
    runner: ScenarioRunner = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.runner = ScenarioRunner(self.scenario, references=REFERENCES)

    @property
    def reached(self) -> None:
        """Nothing is learnt from a run."""

    def least(self) -> Sequence[FaultPlan]:
        """No plan is kept."""
        return ()

    def plans(self) -> Iterator[FaultPlan]:
        """Plans without end; the same `seed` draws the same ones."""
        for seed in itertools.count(self.seed):
            yield from drawn_plans(self.scenario, seed=seed, count=BATCH)

    def run(self, plan: FaultPlan) -> ScenarioRun:
        """Run one of them."""
        return self.runner.run(plan)


def drawn_plans(scenario: Scenario, *, seed: int, count: int) -> Sequence[FaultPlan]:
    """`count` random plans, at most, which all have this seed."""
    without_output = settings(
        max_examples=count,
        stateful_step_count=STEPS,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )
    plans: list[FaultPlan] = []
    machine = _machine(scenario, plans.append, seed)
    run_state_machine_as_test(seeded(seed)(machine), settings=without_output)
    return plans


def _machine(scenario: Scenario, drawn: Callable[[FaultPlan], None], seed: int) -> Any:
    numbers = st.integers(0, 11)
    made, changes = _applies(scenario), _field_edits(scenario)
    edits = [step for step in scenario.steps if isinstance(step, Edit | Delete | Release | Recreate)]
    owned = _owned(scenario)

    class PlanMachine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.acts: list[ScenarioAct] = []
            self.faults: list[Fault] = []
            self.paths: list[str] = []

        @initialize(act=made)
        def first(self, act: Apply) -> None:
            self.apply(act)

        @rule(act=made)
        def apply(self, act: Apply) -> None:
            self.acts.append(act)
            self.paths.append(_path(scenario, act))

        @precondition(lambda self: bool(self.paths and edits))
        @rule(number=numbers)
        def edit(self, number: int) -> None:
            self.acts.append(edits[number % len(edits)])

        @precondition(lambda self: bool(self.paths and changes))
        @rule(act=st.one_of(changes))
        def change_a_field(self, act: Edit) -> None:
            self.acts.append(act)

        @precondition(lambda self: bool(self.paths))
        @rule(number=numbers, kind=st.sampled_from((Delete, Touch, Recreate)))
        def change(self, number: int, kind: type[Delete]) -> None:
            self.acts.append(kind(self.paths[number % len(self.paths)]))

        @precondition(lambda self: bool(owned))
        @rule(number=numbers, kind=st.sampled_from((Delete, Touch, Release)))
        def meddle(self, number: int, kind: type[Delete]) -> None:
            self.acts.append(kind(owned[number % len(owned)]))

        @rule(act=st.sampled_from((*_WAITS, *process_acts(scenario), *_LATER)))
        def pass_time(self, act: ScenarioAct) -> None:
            self.acts.append(act)

        @rule(fault=_faults(scenario))
        def plan_fault(self, fault: Fault) -> None:
            self.faults.append(fault)

        def teardown(self) -> None:
            drawn(FaultPlan(self.faults, self.acts, seed))

    return PlanMachine


def process_acts(scenario: Scenario) -> Sequence[ScenarioAct]:
    """What may happen to one of several managers: for a moment, and for longer than a Lease."""
    if scenario.replicas == 1:
        return [Kill()]
    long = scenario.lease_terms.duration + 2.0
    return [
        act
        for process in range(1, scenario.replicas + 1)
        for act in (
            Kill(process),
            Stop(process, 1.0),
            *(kind(process, seconds) for kind in (Freeze, CutOff) for seconds in (1.0, long)),
        )
    ]


def _applies(scenario: Scenario) -> SearchStrategy[Apply]:
    """Objects that a user may apply: those of the steps, and any that the models allow."""
    known = [step for step in scenario.steps if isinstance(step, Apply)]
    drawn: list[SearchStrategy[Apply]] = [st.sampled_from(known)] if known else []
    for kind in dict.fromkeys(controller.kind for controller in scenario.make_controllers()):
        if kind in scenario.strategies:
            drawn.append(scenario.strategies[kind].map(Apply))
        elif not known:
            named = st.tuples(objects(kind), st.sampled_from(NAMES))
            drawn.append(named.map(lambda pair: Apply(_renamed(*pair))))
    return st.one_of(drawn)


def _renamed(obj: Object, name: str) -> dict[str, Any]:
    manifest = _tamed(manifest_of(obj))
    return {**manifest, "metadata": {**manifest["metadata"], "name": name}}


def _tamed(value: Any) -> Any:
    """The value with small numbers in place of huge ones: no user asks for a trillion replicas."""
    if isinstance(value, dict):
        return {name: _tamed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_tamed(item) for item in value]
    huge = isinstance(value, int) and not isinstance(value, bool) and abs(value) > _HUGE
    return abs(value) % 7 if huge else value


def _field_edits(scenario: Scenario) -> list[SearchStrategy[Edit]]:
    """Edits of one field of a spec that the steps apply, a number or an enum, to any other value."""
    found: list[SearchStrategy[Edit]] = []
    for act in [step for step in scenario.steps if isinstance(step, Apply)]:
        for controller in scenario.make_controllers():
            resource = kind_of(controller.kind).resource
            if resource.kind != act.manifest.get("kind"):
                continue
            spec = next((f.type for f in fields_of(controller.kind) if f.name == "spec"), None)
            for field in fields_of(spec) if isclass(spec) and attrs.has(spec) else ():
                if not field.secret and _is_narrow(field.type):
                    found.append(_edited(_path(scenario, act), field))
    return found


def _edited(path: str, field: ModelField) -> SearchStrategy[Edit]:
    given = field_values(field).filter(lambda value: value is not UNSET)
    return given.map(lambda value: Edit(path, {"spec": {field.wire: _tamed(to_json(value))}}))


def _is_narrow(annotation: Any) -> bool:
    """Whether any value of the type makes sense, unlike any text or mapping."""
    plain, _ = split_annotated(annotation)
    parts = [part for part in union_parts(plain) if part is not type(None)]
    return all(
        part in (int, bool) or get_origin(part) is Literal or (isclass(part) and issubclass(part, Enum))
        for part in parts
    )


def _owned(scenario: Scenario) -> Sequence[str]:
    """Patterns of the objects that controllers make."""
    kinds = [kind for controller in scenario.make_controllers() for kind in controller.owns]
    return [f"{kind_of(kind).resource.path(DEFAULT_NAMESPACE)}/*" for kind in dict.fromkeys(kinds)]


def _path(scenario: Scenario, act: Apply) -> str:
    """The path of an applied object; for a kind without a model, one that matches nothing."""
    manifest = act.manifest
    for kind in scenario.served_kinds():
        resource = kind_of(kind).resource
        if (resource.api_version, resource.kind) == (manifest.get("apiVersion"), manifest.get("kind")):
            metadata = manifest["metadata"]
            return path_of(resource.path(metadata.get("namespace", DEFAULT_NAMESPACE), metadata["name"]))
    return "/nothing"


def fault_kinds(scenario: Scenario) -> FaultKinds:
    """The faults that may strike the requests of a scenario's managers, wherever they do."""
    shared = scenario.sharding is not None
    requests = (*_AMONG_REQUESTS, *_pauses(scenario)) if shared else _AMONG_REQUESTS
    return FaultKinds(
        of_writes=(*requests, *_OFTEN_AT_WRITES),
        of_requests=requests,
        of_watches=(*_AMONG_STREAMS, _stall),
        of_services={one.name: (*_AMONG_SERVICES, *drawn_faults(one)) for one in scenario.services()},
    )


def _stall(after: int) -> Stall:
    return Stall(after, 10.0)


def _pauses(scenario: Scenario) -> Sequence[Pause]:
    return [Pause(1.0), Pause(scenario.lease_terms.duration + 2.0)]


def _faults(scenario: Scenario) -> SearchStrategy[Fault]:
    plurals = sorted({kind_of(k).resource.plural for c in scenario.make_controllers() for k in c.kinds})
    shared = scenario.sharding is not None
    paths = st.sampled_from(["*", *(f"*/{plural}*" for plural in (*plurals, *["leases"] * shared))])
    among = (*_AMONG_REQUESTS, *_pauses(scenario)) if shared else _AMONG_REQUESTS
    nths, times = st.integers(1, 6), st.sampled_from((1, 1, 3))
    verbs = st.sampled_from(("write", "create", "update", "patch", "delete"))
    requests = st.builds(Fault, st.builds(When, verbs, paths, nths, times), st.sampled_from(among))
    watches, lines = st.builds(When, st.just("watch"), paths, st.integers(1, 2)), st.integers(0, _MOST_LINES)
    spoilers = st.tuples(st.sampled_from(_AMONG_STREAMS), lines).map(lambda drawn: drawn[0](drawn[1]))
    stalls = lines.map(lambda after: Stall(after, 10.0))
    streams = st.builds(Fault, watches, spoilers | stalls)
    for service in scenario.services():
        at = st.builds(
            When, st.sampled_from(("*", "write", "get")), st.just(pattern_of(service)), nths, times
        )
        requests |= st.builds(Fault, at, st.sampled_from((*_AMONG_SERVICES, *drawn_faults(service))))
    webhooks = [route.path for route in routes_of(scenario.make_controllers())]
    if not webhooks:
        return requests | streams
    calls = st.builds(When, st.just("*"), st.sampled_from(webhooks), nths, times)
    return requests | streams | st.builds(Fault, calls, st.sampled_from(_AMONG_CALLS))

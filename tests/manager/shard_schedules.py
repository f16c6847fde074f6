"""Schedules of three replicas that share objects: what happens to them, drawn whole from a number.

`python -m tests.manager.shard_schedules --count 100000` plays many, and prints each that breaks an invariant;
`--first N` begins elsewhere, `--seconds S` ends after so long.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from time import perf_counter

from reconcile.client.certainty import LeaseTerms
from reconcile.kinds import ConfigMap, ServiceAccount
from reconcile.sharding import Sharding
from reconcile.testing import (
    Apply,
    CrashAfter,
    CrashBefore,
    Cut,
    CutOff,
    Delay,
    Delete,
    Drop,
    EndEarly,
    Expire,
    Fault,
    FaultPlan,
    Freeze,
    Hold,
    JumpClock,
    Kill,
    LoseReply,
    Pause,
    Recreate,
    Refuse,
    RefuseAsStale,
    Repeat,
    Scenario,
    ScenarioAct,
    ScenarioRun,
    SimulationError,
    SlowReply,
    Stall,
    Stop,
    Touch,
    Wait,
    When,
    World,
)
from reconcile.testing.run_trace import format_trace
from reconcile.testing.scenario_runner import ScenarioRunner
from reconcile.testing.seeded_random import SeededRandom
from tests.simulation.shared_plots import PLOTS, keep_slowly, shared, sown
from tests.simulation.toys import Plot

IN_FULL = 100_000
REPLICAS = 3
MOST_ACTS = 5
MOST_FAULTS = 2
TERMS = LeaseTerms(6, 4.5, 2)
_SHORT, _LONG = 2.0, 11.0
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
_CHILDREN = "/api/v1/namespaces/default/configmaps"
_VERBS = ("write", "create", "update", "patch", "delete", "*", "list")
_PATHS = (
    "*",
    "*/plots*",
    "*/configmaps*",
    "*/leases/*",
    "*/leases/plots-assignment",
    "*/leases/plots-manager*",
)
_AMONG_REQUESTS = (
    CrashBefore(),
    CrashAfter(),
    LoseReply(),
    Drop(),
    Delay(2.0),
    Delay(8.0),
    SlowReply(2.0),
    SlowReply(8.0),
    Pause(3.0),
    Pause(9.0),
    RefuseAsStale(),
    Refuse(409, "AlreadyExists"),
    Refuse(429, text="too many requests", retry_after=1),
    Refuse(500),
    Refuse(504),
    Refuse(504, applied=True),
)
_AMONG_STREAMS = (Cut, EndEarly, Expire, Repeat, Hold)


def each_plot_has_its_beds(world: World) -> None:
    """At rest, so each key has run after its last change, whoever has it."""
    beds = {bed.name: bed for bed in world.objects(ConfigMap)}
    for plot in world.objects(Plot):
        wanted = {f"{plot.name}-{number}" for number in range(plot.spec.size)}
        found = {name for name in beds if name.startswith(f"{plot.name}-")}
        assert found == wanted, f"{plot.name} has {found}, and is to have {wanted}"
        for name in found:
            assert beds[name].data["crop"] == plot.spec.crop, f"{name} is {beds[name].data['crop']}"
        assert plot.status.size == plot.spec.size, f"the status of {plot.name} says {plot.status.size}"


def each_plot_is_told_of(world: World) -> None:
    """By the controller that needs all objects."""
    told = {one.name: one.metadata.annotations.get("crop") for one in world.objects(ServiceAccount)}
    for plot in world.objects(Plot):
        assert told.get(f"of-{plot.name}") == plot.spec.crop, f"of {plot.name} is told {told}"


@cache
def scenarios() -> Mapping[str, ScenarioRunner]:
    """Of one controller, of slow runs, and of a controller beside it that needs all objects."""
    told = {
        "plain": _scenario(),
        "slow": _scenario(reconcile=keep_slowly),
        "beside": _scenario(beside=True, invariants=[each_plot_has_its_beds, each_plot_is_told_of]),
    }
    return {name: ScenarioRunner(one, references=0) for name, one in told.items()}


def _scenario(**options: object) -> Scenario:
    given: dict[str, object] = {
        "sharding": Sharding("plots", buckets=4),
        "lease_terms": TERMS,
        "quiet_seconds": 10,
        "invariants": [each_plot_has_its_beds],
        "most_failures": 60,
        "most_requests": 150,
    }
    return shared(**{**given, **options})


def play(number: int) -> ScenarioRun:
    """Play one schedule."""
    runners = scenarios()
    runner = runners[[*runners][number % len(runners)]]
    return runner.run(schedule(number))


def schedule(number: int) -> FaultPlan:
    """The plan of a schedule: acts that race with each other, and faults."""
    chance = SeededRandom(f"{number}/shards")
    acts: list[ScenarioAct] = [Wait(chance.uniform(0.0, 2.0))]
    for _ in range(_drawn(chance, 1, MOST_ACTS)):
        acts += [_act(chance), Wait(chance.uniform(0.0, 3.0))]
    faults = [_fault(chance) for _ in range(_drawn(chance, 0, MOST_FAULTS))]
    return FaultPlan(faults, [*acts, Touch("*/plots/*")], number)


def _act(chance: SeededRandom) -> ScenarioAct:
    process, plot = _drawn(chance, 1, REPLICAS), _drawn(chance, 1, len(PLOTS) - 1)
    what = f"/apis/toys.example.com/v1/namespaces/default/plots/p{plot}"
    match _drawn(chance, 0, 16):
        case 0 | 1:
            return Kill(process)
        case 2:
            return Freeze(process, chance.uniform(0.1, _SHORT))
        case 3:
            return Freeze(process, chance.uniform(_SHORT, _LONG))
        case 4:
            return CutOff(process, chance.uniform(0.1, _SHORT))
        case 5:
            return CutOff(process, chance.uniform(_SHORT, _LONG))
        case 6 | 7:
            return Stop(process, chance.uniform(0.1, 6.0))
        case 8:
            return JumpClock(3600.0)
        case 9:
            return Delete(f"{_LEASES}/plots-assignment")
        case 10:
            return Delete(f"{_LEASES}/plots-manager-{process}.*")
        case 11:
            return Recreate(what)
        case 12:
            return Delete(what)
        case 13:
            return Apply(PLOTS[plot])
        case 14:
            return Delete(f"{_CHILDREN}/p{plot}-*")
        case _:
            return sown(plot)


def _drawn(chance: SeededRandom, least: int, most: int) -> int:
    return least + int(chance.random() * (most - least + 1))


def _fault(chance: SeededRandom) -> Fault:
    process = _drawn(chance, 0, REPLICAS) or None
    path = _PATHS[_drawn(chance, 0, len(_PATHS) - 1)]
    if _drawn(chance, 0, 3) == 0:
        kind = _AMONG_STREAMS[_drawn(chance, 0, len(_AMONG_STREAMS) - 1)]
        lines = _drawn(chance, 0, 12)
        what = Stall(lines, 8.0) if _drawn(chance, 0, 5) == 0 else kind(lines)
        return Fault(When("watch", path, _drawn(chance, 1, 3), process=process), what)
    times = 3 if _drawn(chance, 0, 4) == 0 else 1
    verb = _VERBS[_drawn(chance, 0, len(_VERBS) - 1)]
    when = When(verb, path, _drawn(chance, 1, 12), times, process)
    return Fault(when, _AMONG_REQUESTS[_drawn(chance, 0, len(_AMONG_REQUESTS) - 1)])


def broken(first: int, count: int, seconds: float = 1e9) -> Iterator[tuple[int, ScenarioRun | None]]:
    """Each schedule that was played by its number, with the run if an invariant does not hold."""
    until = perf_counter() + seconds
    for number in range(first, first + count):
        if perf_counter() >= until:
            return
        try:
            run = play(number)
        except SimulationError as error:
            raise SimulationError(f"schedule {number}: {error}") from error
        yield number, run if run.failed else None


def main() -> int:
    """Play schedules, and say how many were played."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=IN_FULL)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--traces", type=int, default=3, help="print so many traces in full")
    options = parser.parse_args()
    began, played, failed = perf_counter(), 0, 0
    for number, run in broken(options.first, options.count, options.seconds):
        played += 1
        if run is not None:
            failed += 1
            print(f"schedule {number}:", *run.violations, sep="\n  ", flush=True)
            if failed <= options.traces:
                print(format_trace(run), flush=True)
        if played % 500 == 0:
            rate = played / (perf_counter() - began)
            print(f"{played} schedules, {failed} broken, {rate:.1f} a second", flush=True)
    print(f"played {played} schedules of {options.count}: {failed} broken", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

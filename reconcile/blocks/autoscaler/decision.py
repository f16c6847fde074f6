"""From readings to a number of replicas: one pure step, and its memory for the next."""

from collections.abc import Mapping, Sequence
from typing import Literal

from attrs import evolve, field, frozen, validators

from reconcile.blocks.autoscaler.readings import MILLI, Missing, PerPodAverage, Reading, Samples, Sum
from reconcile.blocks.autoscaler.replica_bounds import (
    UNKNOWN,
    Activity,
    ReplicaBounds,
    Schedule,
    ZeroRules,
    activity_after,
)
from reconcile.blocks.autoscaler.sample_windows import AverageWindow, Recommendations
from reconcile.blocks.autoscaler.scaling_rules import (
    DemandRules,
    Estimate,
    Panic,
    Rates,
    Rule,
    by_demand,
    by_ratio,
    estimate,
)


@frozen(kw_only=True)
class Behaviour:
    """How an autoscaler decides; times in ms, shares in thousandths.

    By `rule` "demand" (Knative: totals over a stable and a panic window) or "ratio" (the
    HorizontalPodAutoscaler's, over the stable window). Going up, the lowest desired number of the last
    `up_window` counts; going down, the highest of the last `down_window`. Of 1000 pods asked, `min_known`
    must have answered.
    """

    rule: Rule = "demand"
    bounds: ReplicaBounds = field(factory=ReplicaBounds)
    schedules: tuple[Schedule, ...] = ()
    stable_window: int = field(default=60_000, validator=validators.gt(0))
    panic_window: int = field(default=6_000, validator=validators.gt(0))
    panic_threshold: int = field(default=2 * MILLI, validator=validators.gt(0))
    smoothing: Literal["linear", "weighted"] = "linear"
    rates: Rates = field(factory=lambda: Rates(up=1000 * MILLI))
    up_window: int = field(default=0, validator=validators.ge(0))
    down_window: int = field(default=300_000, validator=validators.ge(0))
    activation_scale: int = 1
    zero: ZeroRules = field(factory=ZeroRules)
    min_known: int = 500


@frozen
class Measured:
    """The reading of a source, and its target for each pod (thousandths)."""

    source: str
    target: int
    reading: Reading


@frozen
class SourceMemory:
    stable: AverageWindow
    panic: AverageWindow
    mode: Panic


@frozen
class Memory:
    """What is remembered from one decision to the next; it belongs to one object, by uid."""

    sources: Mapping[str, SourceMemory] = field(factory=dict)
    seen: Recommendations | None = None
    activity: Activity | None = None


@frozen
class DesiredReplicas:
    """The desired replicas, or `UNKNOWN`; `held`: a source in `missing` prevents scaling down."""

    replicas: int
    missing: Mapping[str, Missing] = field(factory=dict)
    held: bool = False
    panicking: bool = False


@frozen
class TargetState:
    """The replicas by the spec, the Ready pods, and the time (ms)."""

    current: int
    ready: int
    now: int


def decide(
    how: Behaviour, bounds: ReplicaBounds, memory: Memory, measured: Sequence[Measured], there: TargetState
) -> tuple[DesiredReplicas, Memory]:
    """The highest number of all sources; while one is missing, the others only add replicas."""
    wishes: list[int] = []
    missing: dict[str, Missing] = {}
    sources: dict[str, SourceMemory] = {}
    for one in measured:
        before = _memory_of(how, memory.sources.get(one.source), there)
        found, sources[one.source] = _wish_of(how, before, one, there)
        if isinstance(found, Missing):
            missing[one.source] = found
        else:
            wishes.append(found)
    panicking = any(source.mode.since is not None for source in sources.values())
    seen = _fitting(how, memory.seen, there)
    if not wishes:
        wanted = UNKNOWN if there.current == 0 else bounds.within(there.current)
        activity = activity_after(wanted, there.current, there.ready, how.zero, memory.activity, there.now)
        return DesiredReplicas(wanted, missing, bool(missing), panicking), Memory(sources, seen, activity)
    raw = max(wishes)
    held = bool(missing) and raw < there.current
    seen = seen.add(there.now, bounds.within(there.current if held else raw))
    wanted = bounds.within(seen.within(there.current, there.now))
    activity = activity_after(wanted, there.current, there.ready, how.zero, memory.activity, there.now)
    return DesiredReplicas(wanted, missing, held, panicking), Memory(sources, seen, activity)


def _fitting(how: Behaviour, seen: Recommendations | None, there: TargetState) -> Recommendations:
    """The recommendations so far; at first the current replicas, so that a start removes nothing at once."""
    if seen is None:
        return Recommendations.of(up=how.up_window, down=how.down_window).add(there.now - 1, there.current)
    return seen.over(up=how.up_window, down=how.down_window)


def _memory_of(how: Behaviour, memory: SourceMemory | None, there: TargetState) -> SourceMemory:
    if (
        memory is not None
        and memory.stable.length == how.stable_window
        and memory.panic.length == how.panic_window
    ):
        return memory
    mode = Panic() if memory is None else memory.mode
    if memory is None and how.rule == "demand":
        mode = Panic.at_start(there.ready, there.now)
    return SourceMemory(_window(how.stable_window), _window(how.panic_window), mode)


def _window(length: int) -> AverageWindow:
    return AverageWindow(length, min(1000, length), silence="unknown")


def _wish_of(
    how: Behaviour, memory: SourceMemory, one: Measured, there: TargetState
) -> tuple[int | Missing, SourceMemory]:
    found = _estimate(how, one, there)
    if isinstance(found, Missing):
        return found, memory
    if how.rule == "ratio":
        return _by_ratio(how, memory, one, found, there)
    return _by_demand(how, memory, one, found, there)


def _estimate(how: Behaviour, one: Measured, there: TargetState) -> Estimate | Missing:
    match one.reading:
        case Missing() as missing:
            return missing
        case Samples() as samples:
            return estimate(samples, one.target, how.rates, how.min_known)
        case PerPodAverage() as average if there.ready > 0:
            return _of_total(how, average.over(there.ready), one.target, there)
        case PerPodAverage():
            return Missing("NoReadyPods", "there is no Ready pod to have an average")
        case Sum() as total:
            return _of_total(how, total, one.target, there)


def _of_total(how: Behaviour, total: Sum, target: int, there: TargetState) -> Estimate:
    return Estimate(total.milli, there.current, how.rates.close(total.milli, there.current * target))


def _by_ratio(
    how: Behaviour, memory: SourceMemory, one: Measured, found: Estimate, there: TargetState
) -> tuple[int, SourceMemory]:
    """By the average total of the window: averages per pod would count the load of few for many later."""
    memory = evolve(memory, stable=memory.stable.write(there.now, found.total))
    total = _read(how, memory.stable, there.now)
    if there.current == 0:
        return (1 if total > 0 else 0), memory
    hold = found.hold or how.rates.close(total, found.pods * one.target)
    return by_ratio(Estimate(total, found.pods, hold), one.target, there.current, how.rates), memory


def _by_demand(
    how: Behaviour, memory: SourceMemory, one: Measured, found: Estimate, there: TargetState
) -> tuple[int | Missing, SourceMemory]:
    stable, panic = (window.write(there.now, found.total) for window in (memory.stable, memory.panic))
    memory = evolve(memory, stable=stable, panic=panic)
    rules = DemandRules(
        target=one.target,
        stable_window=how.stable_window,
        panic_threshold=how.panic_threshold,
        up=how.rates.up,
        down=how.rates.down,
        activation_scale=how.activation_scale,
    )
    sums = [Sum(_read(how, window, there.now)) for window in (stable, panic)]
    verdict = by_demand(rules, sums[0], sums[1], there.ready, there.now, memory.mode)
    if isinstance(verdict, Missing):
        return verdict, memory
    demand, mode = verdict
    wanted = demand.replicas
    if found.hold and _uncertain(one.reading):
        # Pods that are starting will take the load: to ask for more in each run until then doubles without
        # end.
        wanted = there.current if found.over else min(wanted, there.current)
        mode = evolve(mode, most=min(mode.most, max(wanted, memory.mode.most)))
    return wanted, evolve(memory, mode=mode)


def _uncertain(reading: Reading) -> bool:
    return isinstance(reading, Samples) and (reading.unready > 0 or reading.lost > 0)


def _read(how: Behaviour, window: AverageWindow, now: int) -> int:
    value = window.smoothed(now) if how.smoothing == "weighted" else window.average(now)
    assert value is not None  # It was written to just now.
    return value

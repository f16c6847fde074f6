"""How many replicas the readings ask for: two rules, pure, in integers.

`by_ratio` is that of the HorizontalPodAutoscaler, with the rates of AIBrix's APA; `by_demand` is Knative's.
"""

from typing import Literal, TypeAlias

from attrs import evolve, field, frozen, validators

from reconcile.blocks.autoscaler.readings import MILLI, Missing, Samples, Sum, ceil_div

_positive = validators.gt(0)


@frozen(kw_only=True)
class Rates:
    """How far one step may go, and what is close enough, in thousandths.

    One step goes up to `up` times the replicas, and down to one `down`th. Within `tolerance_up` above the
    target and `tolerance_down` below it nothing changes.
    """

    up: int = field(default=2 * MILLI, validator=_positive)
    down: int = field(default=2 * MILLI, validator=_positive)
    tolerance_up: int = field(default=100, validator=validators.ge(0))
    tolerance_down: int = field(default=100, validator=validators.ge(0))

    def limited(self, replicas: int, current: int) -> int:
        """`replicas`, as far from `current` as the rates allow."""
        highest = ceil_div(current * self.up, MILLI)
        lowest = current * MILLI // self.down
        return max(lowest, min(highest, replicas))

    def close(self, total: int, goal: int) -> bool:
        """Whether a total is within the tolerance of the goal."""
        over = total - goal
        return over * MILLI <= self.tolerance_up * goal and -over * MILLI <= self.tolerance_down * goal


@frozen
class Estimate:
    """The demand of `pods` pods, in thousandths. `hold`: no reason for a change; `over`: above the target."""

    total: int
    pods: int
    hold: bool = False
    over: bool = False


def estimate(samples: Samples, target: int, rates: Rates, min_known: int = 500) -> Estimate | Missing:
    """The total of the pods, by the rule of the HorizontalPodAutoscaler.

    Going down, a pod without a value counts as at its target and an unready one not at all; going up, both
    count as 0. If that changes the direction, or leaves nothing outside the tolerance, it holds. Missing if
    fewer than `min_known` of 1000 pods asked answered.
    """
    known, lost = len(samples.known), samples.lost
    if known == 0:
        return _nothing_known(samples)
    if known * MILLI < min_known * (known + lost):
        return Missing("TooFewKnown", f"too few of the Ready pods gave a value: {_most_frequent(samples)}")
    pods = known + samples.unasked
    total = ceil_div(sum(samples.known) * pods, known)
    if total > pods * target:
        return _going_up(total, pods + lost + samples.unready, target, rates)
    total, pods = total + lost * target, pods + lost
    return Estimate(total, pods, rates.close(total, pods * target))


def _going_up(total: int, pods: int, target: int, rates: Rates) -> Estimate:
    goal = pods * target
    return Estimate(total, pods, (total - goal) * MILLI <= rates.tolerance_up * goal, over=True)


def _nothing_known(samples: Samples) -> Missing:
    if samples.lost:
        return Missing("NoneAnswered", f"no Ready pod gave a value: {_most_frequent(samples)}")
    return Missing("NoReadyPods", "there is no Ready pod with an address to ask")


def _most_frequent(samples: Samples) -> str:
    return min(samples.missing, key=lambda reason: (-samples.missing[reason], reason))


def by_ratio(found: Estimate, target: int, current: int, rates: Rates) -> int:
    """The replicas that bring each to the target, from `current`; 1 for a target of 0, as in AIBrix."""
    if target <= 0:
        return 1
    if found.hold:
        return current
    wanted = rates.limited(ceil_div(found.total, target), current)
    return max(wanted, current) if found.total > found.pods * target else min(wanted, current)


# --- Knative's rule -------------------------------------------------------------------------------------


@frozen(kw_only=True)
class DemandRules:
    """The rules of one autoscaler by demand; numbers in thousandths unless said, times in ms.

    `target` is the desired load of a pod, `capacity` its highest (default: the target over 0.7). Panic begins
    when the panic window asks for `panic_threshold` times the Ready pods. `burst` is the target burst
    capacity; below 0 it is not counted. `activation_scale` is the least number of pods above zero. A target
    that is not `reachable` for users scales down at once.
    """

    target: int = field(validator=_positive)
    capacity: int | None = None
    stable_window: int = field(default=60_000, validator=_positive)
    panic_threshold: int = 2 * MILLI
    up: int = field(default=1000 * MILLI, validator=_positive)
    down: int = field(default=2 * MILLI, validator=_positive)
    burst: int = 211 * MILLI
    activation_scale: int = 1
    reachable: bool = True


@frozen
class Panic:
    """Since when (ms) an autoscaler panics, and the highest number it has asked for meanwhile."""

    since: int | None = None
    most: int = 0

    @classmethod
    def at_start(cls, ready: int, now: int) -> "Panic":
        """With several Ready pods it starts in panic, so that an empty memory removes none."""
        return cls(now, ready) if ready > 1 else cls()


@frozen
class Demand:
    """The desired pods, and the load that they could take beyond it (`excess`, whole units)."""

    replicas: int
    excess: int


DemandVerdict: TypeAlias = tuple[Demand, Panic]


def by_demand(
    rules: DemandRules, stable: Sum | Missing, panic: Sum | Missing, ready: int | None, now: int, state: Panic
) -> DemandVerdict | Missing:
    """The replicas that both windows' totals ask for, and the panic after it; `ready` is None if unknown."""
    if isinstance(stable, Missing):
        return stable
    if isinstance(panic, Missing):
        return panic
    if ready is None:
        return Missing("PodsNotCounted", "how many pods are Ready is not known")
    pods = max(1, ready)
    highest = ceil_div(rules.up * pods, MILLI)
    lowest = pods * MILLI // rules.down if rules.reachable else 0

    def limited(total: int) -> int:
        wanted = min(highest, max(lowest, ceil_div(total, rules.target)))
        return max(wanted, rules.activation_scale) if wanted > 0 else wanted

    state = _panic_after(rules, ceil_div(panic.milli, rules.target), pods, now, state)
    wanted = limited(stable.milli)
    if state.since is not None:
        wanted = max(wanted, limited(panic.milli), state.most)
        state = evolve(state, most=wanted)
    return Demand(wanted, _excess(rules, ready, panic.milli)), state


def _panic_after(rules: DemandRules, wanted: int, pods: int, now: int, state: Panic) -> Panic:
    if wanted * MILLI >= rules.panic_threshold * pods:
        return evolve(state, since=now)
    if state.since is not None and state.since + rules.stable_window < now:
        return Panic()
    return state


def _excess(rules: DemandRules, ready: int, panic: int) -> int:
    if rules.burst < 0:
        return -1
    if rules.burst == 0:
        return 0
    capacity = ceil_div(rules.target * 10, 7) if rules.capacity is None else rules.capacity
    return (capacity * ready - rules.burst - panic) // MILLI


# --- how many pods to ask -------------------------------------------------------------------------------


def sample_size(population: int) -> int:
    """The size of a sample whose mean is good enough: 95 % confidence, as Knative samples."""
    return ceil_div(153_664 * population, 10_000 * population + 143_664)


Rule = Literal["demand", "ratio"]

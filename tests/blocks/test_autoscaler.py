"""From readings to replicas, step by step: what is remembered, what holds, what several metrics ask for."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as some

from reconcile.blocks import (
    Behaviour,
    Missing,
    PerPodAverage,
    Rates,
    Reading,
    ReplicaBounds,
    Samples,
    Sum,
    ZeroRules,
)
from reconcile.blocks.autoscaler.decision import (
    DesiredReplicas,
    Measured,
    Memory,
    SourceMemory,
    TargetState,
    decide,
)
from reconcile.blocks.autoscaler.sample_windows import AverageWindow
from reconcile.blocks.autoscaler.scaling_rules import Panic

WIDE = ReplicaBounds(minimum=1, maximum=100)
GONE = Missing("NoneAnswered")
STEP = 2_000
T = 500


def behaviour(rule: str = "demand", **changed: object) -> Behaviour:
    """Without windows, where not said otherwise."""
    plain = {"stable_window": 1, "panic_window": 1, "down_window": 0, "panic_threshold": 10**9}
    return Behaviour(rule=rule, **{**plain, **changed})  # type: ignore[arg-type]


def once(
    *readings: Reading, current: int = 1, ready: int = 1, rule: str = "demand", bounds: ReplicaBounds = WIDE
) -> DesiredReplicas:
    measured = [Measured(f"m{number}", T, reading) for number, reading in enumerate(readings)]
    return decide(behaviour(rule), bounds, Memory(), measured, TargetState(current, ready, 0))[0]


def told(
    how: Behaviour,
    steps: Sequence[tuple[int, int, Reading]],
    *,
    bounds: ReplicaBounds = WIDE,
    every: int = STEP,
) -> list[int]:
    """The wishes of so many decisions one after the other: of (current, ready, reading) each."""
    memory, wishes = Memory(), []
    for number, (current, ready, reading) in enumerate(steps):
        there = TargetState(current, ready, number * every)
        wish, memory = decide(how, bounds, memory, [Measured("m", T, reading)], there)
        wishes.append(wish.replicas)
    return wishes


# --- several metrics ------------------------------------------------------------------------------------


@pytest.mark.rule("autoscale-max")
@pytest.mark.parametrize("rule", ["demand", "ratio"])
def test_the_highest_proposal_of_several_metrics_wins(rule: str) -> None:
    assert once(Sum(1_000), Sum(4_000), current=6, ready=6, rule=rule).replicas == 8


@pytest.mark.rule("autoscale-max")
@pytest.mark.parametrize("rule", ["demand", "ratio"])
def test_while_a_metric_is_missing_the_others_do_not_scale_down(rule: str) -> None:
    wish = once(Sum(1_000), GONE, current=6, rule=rule)
    assert (wish.replicas, wish.held) == (6, True)
    for more in (3_000, 4_000):
        wish = once(Sum(more), GONE, current=6, ready=6, rule=rule)
        assert (wish.replicas, wish.held, wish.missing) == (more // T, False, {"m1": GONE})


@pytest.mark.rule("autoscale-hold")
def test_without_any_metric_the_current_number_is_kept_within_the_bounds() -> None:
    assert once(GONE, current=6) == DesiredReplicas(6, {"m0": GONE}, held=True)
    assert once(current=6) == DesiredReplicas(6)
    assert once(GONE, current=6, ready=6) == DesiredReplicas(6, {"m0": GONE}, held=True, panicking=True)
    assert once(GONE, current=6, bounds=ReplicaBounds(minimum=1, maximum=4)).replicas == 4
    assert once(GONE, current=1, bounds=ReplicaBounds(minimum=3, maximum=4)).replicas == 3


@pytest.mark.rule("autoscale-hold")
@pytest.mark.parametrize("rule", ["demand", "ratio"])
def test_without_ready_pods_an_average_is_missing(rule: str) -> None:
    missing = Missing("NoReadyPods", "there is no Ready pod to have an average")
    found = once(PerPodAverage(900), current=2, ready=0, rule=rule)
    assert (found.replicas, found.missing) == (2, {"m0": missing})


@pytest.mark.rule("autoscale-min-known")
def test_the_configured_share_of_pods_must_answer() -> None:
    samples = Samples((900,) * 8, {"Refused": 2})
    for least, want in ((800, 15), (801, 10)):
        how, there = behaviour(min_known=least), TargetState(10, 10, 0)
        assert decide(how, WIDE, Memory(), [Measured("m", T, samples)], there)[0].replicas == want


@pytest.mark.rule("kpa-4d-16")
@given(some.integers(1, 50), some.integers(1, 5_000), some.sampled_from(["demand", "ratio"]))
def test_a_total_and_an_average_give_the_same_number(pods: int, each: int, rule: str) -> None:
    average = once(PerPodAverage(each), current=pods, ready=pods, rule=rule)
    total = once(Sum(each * pods), current=pods, ready=pods, rule=rule)
    assert average == total == once(Samples((each,) * pods), current=pods, ready=pods, rule=rule)


# --- the incident, through all of it --------------------------------------------------------------------


@pytest.mark.rule("kpa-4d-11", "kpa-4d-13", "kpa-4d-14", "kpa-4d-15")
@pytest.mark.parametrize("rule", ["demand", "ratio"])
@pytest.mark.parametrize(
    ("samples", "current", "want"),
    [
        (Samples((100,) * 6, unready=4), 10, 2),
        (Samples((100,) * 5, {"ConnectionRefused": 1}, unready=4), 10, 2),
        (Samples((900,) * 6, unready=4), 10, 10),
        (Samples((900,) * 4, {"NoAnswerInTime": 2}), 6, 8),
        (Samples(missing={"ConnectionRefused": 6}, unready=4), 10, 10),
    ],
)
def test_both_rules_decide_alike_in_the_incident(
    rule: str, samples: Samples, current: int, want: int
) -> None:
    how = behaviour(rule, rates=Rates(up=10_000, down=10_000))
    memory = Memory()
    ready = len(samples.known) + samples.lost
    # Panic, with which it starts, has to be over before anything goes down.
    for now in (0, 1_000):
        there = TargetState(current, ready, now)
        wish, memory = decide(how, WIDE, memory, [Measured("m", T, samples)], there)
    assert wish.replicas == want


@pytest.mark.rule("kpa-4d-13")
@pytest.mark.parametrize("rule", ["demand", "ratio"])
def test_slowly_starting_pods_are_not_requested_twice(rule: str) -> None:
    """Two pods are busy all the time: four are right, and not eight while the others start."""
    busy = (1_000, 1_000)
    steps: list[tuple[int, int, Reading]] = [(2, 2, Samples(busy))]
    steps += [(4, 2, Samples(busy, unready=2))] * 10
    assert told(behaviour(rule), steps) == [4] * 11


@pytest.mark.rule("kpa-4d-13")
@pytest.mark.parametrize(
    ("before", "samples", "want"),
    [
        # Little was asked for until now, and what there is now is busy: nothing goes.
        (500, Samples((600,) * 4, unready=1), 5),
        (500, Samples((600,) * 4, {"Late": 1}), 5),
        # Much was asked for until now, and what there is now is just right: nothing more is asked for.
        (9_500, Samples((500,) * 4, unready=1), 5),
        (9_500, Samples((480,) * 4, {"Late": 1}), 5),
        (500, Samples((480,) * 4, unready=1), 3),
        # Where every pod is known, so is what they need.
        (500, Samples((520,) * 5), 4),
        (9_500, Samples((520,) * 5), 13),
    ],
)
def test_by_demand_unknown_pods_can_prevent_a_scale_down(before: int, samples: Samples, want: int) -> None:
    how = behaviour(stable_window=20_000)
    steps: list[tuple[int, int, Reading]] = [(5, 1, Sum(before)), (5, 1, samples)]
    assert told(how, steps)[-1] == want


@pytest.mark.parametrize(("rule", "want"), [("ratio", 10), ("demand", 11)])
def test_only_the_ratio_has_a_tolerance(rule: str, want: int) -> None:
    for reading in (Samples((510,) * 10), Sum(5_100)):
        assert once(reading, current=10, ready=10, rule=rule).replicas == want


@pytest.mark.parametrize(
    "now", [Samples((500,) * 4), Sum(2_000), PerPodAverage(500)], ids=["samples", "total", "average"]
)
def test_by_ratio_nothing_changes_if_the_number_fits_now_or_throughout_the_window(now: Reading) -> None:
    how = behaviour("ratio", stable_window=20_000)
    assert told(how, [(4, 4, Sum(4_000)), (4, 4, now)])[-1] == 4
    assert told(how, [(4, 4, Sum(1_000)), (4, 4, Sum(3_000))])[-1] == 4


def test_by_ratio_one_replica_is_enough_to_compute_the_need() -> None:
    assert once(Sum(700), rule="ratio").replicas == 2
    assert once(Sum(545), rule="ratio").replicas == 1


@pytest.mark.rule("kpa-4d-13")
def test_a_scale_up_held_back_in_panic_is_not_made_up_for_after_the_load_is_gone() -> None:
    steps: list[tuple[int, int, Reading]] = [
        (2, 2, Samples((1_000,) * 2)),
        (4, 2, Samples((1_050,) * 2, unready=2)),
        (4, 4, Samples((100,) * 4)),
    ]
    assert told(behaviour(stable_window=20_000), steps) == [4, 4, 4]


# --- time -----------------------------------------------------------------------------------------------


@pytest.mark.rule("autoscale-stabilise")
def test_the_highest_proposal_within_the_cooldown_is_kept() -> None:
    how = behaviour(down_window=10_000)
    steps: list[tuple[int, int, Reading]] = [(8, 1, Sum(4_000))] + [(8, 1, Sum(500))] * 7
    assert told(how, steps) == [8, 8, 8, 8, 8, 1, 1, 1]


@pytest.mark.rule("autoscale-restart")
def test_after_a_restart_nothing_is_scaled_down_before_the_cooldown_is_over() -> None:
    how = behaviour(down_window=10_000)
    steps: list[tuple[int, int, Reading]] = [(8, 1, Sum(500))] * 7
    assert told(how, steps) == [8, 8, 8, 8, 8, 1, 1]


@pytest.mark.rule("kpa-4d-09")
def test_after_a_restart_it_panics_until_the_stable_window_has_passed() -> None:
    how = behaviour(stable_window=6_000, panic_window=2_000)
    assert told(how, [(8, 8, Sum(500))] * 6) == [8, 8, 8, 8, 4, 4]


@pytest.mark.rule("autoscale-windows")
def test_a_single_reading_does_not_decide_when_there_is_a_window() -> None:
    how = behaviour(stable_window=20_000)
    steps: list[tuple[int, int, Reading]] = [(4, 1, Sum(2_000))] * 4 + [(4, 1, Sum(0))]
    assert told(how, steps)[-1] == 4
    steps += [(4, 1, Sum(0))] * 12
    assert told(how, steps)[-1] == 1


@pytest.mark.rule("autoscale-windows")
@pytest.mark.parametrize("rule", ["demand", "ratio"])
def test_load_carried_by_few_pods_is_not_multiplied_by_many(rule: str) -> None:
    how = behaviour(rule, stable_window=20_000)
    steps: list[tuple[int, int, Reading]] = [(2, 1, Sum(4_000))] + [(8, 1, Sum(4_000))] * 12
    assert told(how, steps) == [8] * 13


def test_a_missing_reading_does_not_count_as_zero_in_the_window() -> None:
    how = behaviour(stable_window=20_000)
    steps: list[tuple[int, int, Reading]] = [(4, 1, Sum(2_000))]
    steps += [(4, 1, GONE)] * 5 + [(4, 1, Sum(2_000))]
    assert told(how, steps) == [4] * 7


@pytest.mark.parametrize("ready", [1, 4])
def test_changed_windows_discard_the_measurements_and_nothing_else(ready: int) -> None:
    memory = Memory()
    for stable, now in ((20_000, 0), (40_000, 5_000)):
        how = behaviour(stable_window=stable)
        wish, memory = decide(how, WIDE, memory, [Measured("m", T, Sum(2_000))], TargetState(4, ready, now))
        assert (wish.replicas, wish.panicking) == (4, ready > 1)
    fresh = AverageWindow(40_000, silence="unknown").write(5_000, 2_000)
    assert memory.sources["m"].stable == fresh
    assert memory.sources["m"].mode == (Panic(0, 4) if ready > 1 else Panic())


@pytest.mark.rule("autoscale-windows")
@pytest.mark.parametrize(("window", "every", "want"), [(500, 250, 1), (2_000, 1_000, 2), (3_000, 1_000, 3)])
def test_readings_older_than_the_window_do_not_count(window: int, every: int, want: int) -> None:
    how = behaviour(stable_window=window, panic_window=window)
    steps: list[tuple[int, int, Reading]] = [(4, 1, Sum(2_000)), (4, 1, Sum(2_000)), (4, 1, Sum(0))]
    assert told(how, steps, every=every) == [4, 4, want]


@pytest.mark.rule("autoscale-windows")
def test_newer_values_weigh_more_if_configured() -> None:
    steps: list[tuple[int, int, Reading]] = [(8, 1, Sum(0)), (8, 1, Sum(4_000))]
    assert told(behaviour(stable_window=4_000), steps)[-1] == 4
    assert told(behaviour(stable_window=4_000, smoothing="weighted"), steps)[-1] == 8


@pytest.mark.rule("autoscale-windows")
def test_a_burst_is_detected_in_the_panic_window_and_held_for_the_stable_window() -> None:
    how = behaviour(stable_window=20_000, panic_window=4_000, panic_threshold=3_000)
    quiet, burst = (2, 1, Sum(1_000)), (2, 1, Sum(3_500))
    memory, seen = Memory(), []
    for number, (current, ready, reading) in enumerate([quiet, burst, *[quiet] * 12]):
        there = TargetState(current, ready, number * STEP)
        wish, memory = decide(how, WIDE, memory, [Measured("m", T, reading)], there)
        seen.append((wish.replicas, wish.panicking))
    assert seen == [(2, False)] + [(5, True)] * 12 + [(2, False)]


def test_by_demand_rates_bound_each_step_and_activation_scale_bounds_the_first() -> None:
    how, calm = behaviour(rates=Rates(up=2_000, down=4_000)), AverageWindow(1, 1)
    for total, current, want in ((50_000, 4, 8), (500, 8, 2), (3_000, 4, 6)):
        memory = Memory({"m": SourceMemory(calm, calm, Panic())})
        there = TargetState(current, current, 0)
        assert decide(how, WIDE, memory, [Measured("m", T, Sum(total))], there)[0].replicas == want
    assert told(behaviour(activation_scale=3), [(1, 1, Sum(500))]) == [3]


@pytest.mark.rule("autoscale-stabilise")
def test_the_scale_up_window_also_delays_the_first_scale_up() -> None:
    assert told(behaviour(up_window=10_000), [(2, 1, Sum(4_000))] * 7) == [2] * 5 + [8] * 2


@pytest.mark.rule("autoscale-stabilise")
def test_a_missing_reading_does_not_restart_the_cooldown() -> None:
    how = behaviour(down_window=10_000)
    steps: list[tuple[int, int, Reading]] = [(8, 1, Sum(4_000)), (8, 1, GONE)] + [(8, 1, Sum(500))] * 5
    assert told(how, steps) == [8, 8, 8, 8, 8, 1, 1]


# --- zero -----------------------------------------------------------------------------------------------


def test_a_total_wakes_a_target_without_replicas() -> None:
    bounds = ReplicaBounds(minimum=0, maximum=5)
    how = behaviour(zero=ZeroRules(allowed=True))
    assert told(how, [(0, 0, Sum(400))], bounds=bounds) == [1]
    assert told(how, [(0, 0, GONE)], bounds=bounds) == [-1]
    assert told(behaviour("ratio"), [(0, 0, Sum(400))], bounds=bounds) == [1]


@pytest.mark.parametrize("reading", [Sum(0), GONE], ids=["nothing", "missing"])
def test_the_start_of_the_current_phase_is_remembered_between_decisions(reading: Reading) -> None:
    how, memory = behaviour(zero=ZeroRules(allowed=True, idle=5_000)), Memory()
    seen = []
    for now in (0, 2_000, 4_000, 6_000):
        bounds = ReplicaBounds(minimum=0, maximum=5)
        _, memory = decide(how, bounds, memory, [Measured("m", T, reading)], TargetState(1, 1, now))
        seen.append((memory.activity.phase, memory.activity.since))
    late = ("inactive", 6_000) if reading == Sum(0) else ("active", 0)
    assert seen == [("active", 0)] * 3 + [late]


@pytest.mark.parametrize(("total", "want"), [(0, 0), (1, 1)])
def test_by_ratio_any_load_wakes_a_target_without_replicas(total: int, want: int) -> None:
    bounds = ReplicaBounds(minimum=0, maximum=5)
    assert once(Sum(total), current=0, ready=0, rule="ratio", bounds=bounds).replicas == want


# --- laws -----------------------------------------------------------------------------------------------

samples = some.builds(
    Samples,
    known=some.lists(some.integers(0, 10**6), max_size=10).map(tuple),
    missing=some.dictionaries(some.sampled_from(["Refused", "Late"]), some.integers(1, 5), max_size=2),
    unasked=some.integers(0, 5),
    unready=some.integers(0, 10),
)
readings = samples | some.builds(Sum, some.integers(0, 10**7)) | some.builds(Missing, some.just("Gone"))


@given(
    some.sampled_from(["demand", "ratio"]),
    some.lists(
        some.tuples(some.integers(0, 30), some.integers(0, 30), some.lists(readings, min_size=1, max_size=3)),
        min_size=1,
        max_size=8,
    ),
    some.integers(0, 5),
    some.integers(1, 30),
    some.integers(0, 30_000),
)
def test_the_proposal_is_within_the_bounds_whatever_is_measured(
    rule: str, steps: list[tuple[int, int, list[Reading]]], least: int, more: int, window: int
) -> None:
    bounds = ReplicaBounds(minimum=least, maximum=least + more)
    how, memory = behaviour(rule, stable_window=window + 1, down_window=window), Memory()
    for number, (current, ready, found) in enumerate(steps):
        measured = [Measured(f"m{place}", T, reading) for place, reading in enumerate(found)]
        wish, memory = decide(how, bounds, memory, measured, TargetState(current, ready, number * STEP))
        assert wish.replicas == -1 or wish.replicas == bounds.within(wish.replicas)
        if wish.missing and bounds.within(current) == current and wish.replicas >= 0:
            assert wish.replicas >= current
        if len(wish.missing) == len(found) and current > 0:
            assert wish.replicas == bounds.within(current)


@given(some.lists(some.tuples(some.integers(1, 20), some.integers(0, 20), readings), min_size=1, max_size=8))
def test_the_same_readings_give_the_same_proposals(steps: list[tuple[int, int, Reading]]) -> None:
    how = behaviour(stable_window=6_000)
    assert told(how, steps) == told(how, steps)

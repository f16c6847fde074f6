"""How many replicas readings ask for: the numeric tables of Knative and AIBrix, the incident, and laws."""

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as some

from reconcile.blocks.autoscaler.readings import Missing, PerPodAverage, Samples, Sum, ceil_div
from reconcile.blocks.autoscaler.scaling_rules import (
    Demand,
    DemandRules,
    Estimate,
    Panic,
    Rates,
    by_demand,
    by_ratio,
    estimate,
    sample_size,
)

CALM = Panic()
HALF = 500


def rules(target: float, **changed: Any) -> DemandRules:
    """Those of Knative's own tests: threshold 2, rates 10, 60 s, a capacity of the target over 0.75."""
    milli = round(target * 1000)
    base = DemandRules(
        target=milli, capacity=ceil_div(milli * 4, 3), stable_window=60_000, up=10_000, down=10_000, burst=0
    )
    return evolve(base, **changed)


def demand(
    how: DemandRules, stable: float, panic: float, ready: int = 1, now: int = 0, state: Panic = CALM
) -> tuple[Demand, Panic]:
    found = by_demand(how, Sum(round(stable * 1000)), Sum(round(panic * 1000)), ready, now, state)
    assert not isinstance(found, Missing)
    return found


def replicas(
    how: DemandRules, stable: float, panic: float, ready: int = 1, now: int = 0, state: Panic = CALM
) -> int:
    return demand(how, stable, panic, ready, now, state)[0].replicas


# --- Knative's table ------------------------------------------------------------------------------------


@pytest.mark.rule("kpa-4d-01")
@pytest.mark.parametrize(
    ("how", "stable", "panic", "ready", "want"),
    [
        (rules(10), 0, 0, 1, 0),
        (rules(10), 50, 10, 1, 5),
        (rules(10), 100, 10, 1, 10),
        (rules(10), 50, 50, 1, 5),
        (rules(10), 50, 50, 5, 5),
        (rules(181), 21, 26, 1, 1),
        (rules(10), 50, 49, 1, 5),
        (rules(1, up=1100), 3, 3.1, 2, 3),
        (rules(10, down=1100), 1, 1, 100, 90),
        (rules(10, down=1100, reachable=False), 1, 1, 100, 1),
        (rules(10, down=1100, reachable=False), 0, 0, 100, 0),
        (rules(10), 50, 100, 1, 10),
        (rules(10), 1, 0, 1, 1),
        (rules(10, activation_scale=2), 1, 0, 1, 2),
        (rules(10, activation_scale=2), 0, 0, 1, 0),
        (rules(10), 1000, 1001, 1, 10),
        (rules(10), 1000, 1001, 10, 100),
        (rules(10), 1, 1, 100, 10),
        (rules(10), 1, 1, 10, 1),
        (rules(10), 1000, 888, 0, 10),
        (rules(10), 100, 100, 8, 10),
        (rules(10), 50, 50, 8, 5),
        (rules(10), 100, 101, 1, 10),
        (rules(1), 100, 101, 10, 100),
    ],
)
def test_totals_need_as_many_pods_as_in_knative(
    how: DemandRules, stable: float, panic: float, ready: int, want: int
) -> None:
    assert replicas(how, stable, panic, ready) == want


@pytest.mark.rule("kpa-4d-02")
@pytest.mark.parametrize(
    ("target", "burst", "panic", "want"),
    [(10, 101, 10, -98), (10, 100, 50, -137), (181, -1, 26, -1), (10, 0, 49, 0)],
)
def test_the_excess_burst_capacity_is_as_in_knative(target: int, burst: int, panic: int, want: int) -> None:
    assert demand(rules(target, burst=burst * 1000), 50, panic)[0].excess == want


def test_without_a_capacity_the_excess_assumes_a_target_utilisation_of_seven_tenths() -> None:
    found = by_demand(DemandRules(target=7_000, burst=1), Sum(0), Sum(2_000), 3, 0, CALM)
    assert found[0].excess == 27  # 3 * 10 - 2, and the thousandth of a burst


@pytest.mark.rule("kpa-4d-03")
@pytest.mark.parametrize(("stable", "want"), [(50, 50), (20, 30)])
def test_in_panic_the_higher_of_both_windows_counts(stable: int, want: int) -> None:
    assert replicas(rules(1), stable, 30, 5, 5_000, Panic(0, 5)) == want


@pytest.mark.rule("kpa-4d-04")
def test_unlimited_growth_is_followed() -> None:
    state, ready = CALM, 1
    for value in (6, 36, 216, 1296, 1296):
        found, state = demand(rules(1), value, value, ready, 0, state)
        assert found.replicas == value
        ready = value


@pytest.mark.rule("kpa-4d-05")
def test_panic_ends_after_a_stable_window_without_a_burst() -> None:
    found, state = demand(rules(1), 11, 25, 10, 0)
    assert (found.replicas, state.since) == (25, 0)
    found, state = demand(rules(1), 30, 41, 40, 30_000, state)
    assert (found.replicas, state.since) == (41, 0)
    found, state = demand(rules(1), 50, 56, 55, 62_000, state)
    assert (found.replicas, state.since) == (50, None)


@pytest.mark.rule("kpa-4d-06")
def test_another_burst_prolongs_panic() -> None:
    _, state = demand(rules(1), 11, 25, 10, 0)
    found, state = demand(rules(1), 30, 80, 40, 30_000, state)
    assert (found.replicas, state.since) == (80, 30_000)


@pytest.mark.rule("kpa-4d-07")
def test_in_panic_nothing_is_scaled_down() -> None:
    how = rules(10)
    found, state = demand(how, 100, 100, 1, 0)
    assert found.replicas == 10
    found, state = demand(how, 1000, 1000, 10, 0, state)
    assert found.replicas == 100
    found, state = demand(how, 1, 1, 10, 30_000, state)
    assert found.replicas == 100
    found, state = demand(how, 1, 1, 10, 61_000, state)
    assert found.replicas == 1


@pytest.mark.rule("kpa-4d-08")
def test_without_data_or_a_pod_count_nothing_is_decided() -> None:
    gone = Missing("NoData")
    assert by_demand(rules(10), gone, Sum(1), 1, 0, CALM) == gone
    assert by_demand(rules(10), Sum(1), gone, 1, 0, CALM) == gone
    uncounted = by_demand(rules(10), Sum(1), Sum(1), None, 0, CALM)
    assert uncounted == Missing("PodsNotCounted", "how many pods are Ready is not known")


@pytest.mark.rule("kpa-4d-09")
def test_an_autoscaler_that_starts_with_several_ready_pods_starts_in_panic() -> None:
    assert Panic.at_start(0, 5) == Panic.at_start(1, 5) == CALM
    assert Panic.at_start(2, 5) == Panic(5, 2)
    assert replicas(rules(10), 0, 0, 3, 5, Panic.at_start(3, 5)) == 3


# --- AIBrix's tables ------------------------------------------------------------------------------------


def by_use(current: int, use: int, rates: Rates, target: int = 30) -> int:
    """As AIBrix's APA is asked: every pod says the same."""
    found = estimate(Samples(known=(use * 1000,) * current), target * 1000, rates)
    assert isinstance(found, Estimate)
    return by_ratio(found, target * 1000, current, rates)


@pytest.mark.rule("apa-4d-01")
@pytest.mark.parametrize(
    ("current", "use", "rates", "want"),
    [
        (2, 45, Rates(), 3),
        (2, 35, Rates(), 3),
        (2, 90, Rates(), 4),
        (2, 90, Rates(up=2500), 5),
        (6, 20, Rates(), 4),
        (6, 18, Rates(), 4),
        (6, 10, Rates(), 3),
        (6, 5, Rates(down=2500), 2),
        (2, 33, Rates(), 2),
        (2, 27, Rates(), 2),
    ],
)
def test_a_ratio_needs_as_many_pods_as_in_aibrix(current: int, use: int, rates: Rates, want: int) -> None:
    assert by_use(current, use, rates) == want


@pytest.mark.rule("apa-4d-02")
def test_a_target_without_load_needs_one_pod() -> None:
    assert by_ratio(Estimate(10_000, 2), 0, 2, Rates()) == 1
    assert by_ratio(Estimate(3, 2), 1, 2, Rates()) == 3


@pytest.mark.rule("apa-4d-01")
@pytest.mark.parametrize(
    ("total", "close"), [(8_999, False), (9_000, True), (10_000, True), (12_000, True), (12_001, False)]
)
def test_a_total_is_close_up_to_and_including_the_tolerance(total: int, close: bool) -> None:
    assert Rates(tolerance_down=100, tolerance_up=200).close(total, 10_000) is close


@pytest.mark.parametrize(
    ("total", "pods", "current", "want"),
    [
        (4_000, 10, 3, 3),  # less than the goal of ten, and more than three would carry
        (5_000, 10, 3, 3),
        (6_000, 10, 3, 6),
        (6_000, 10, 20, 20),  # more than the goal of ten, and less than twenty would carry
        (4_000, 10, 12, 8),
    ],
)
def test_a_ratio_never_scales_against_the_direction_of_the_measurement(
    total: int, pods: int, current: int, want: int
) -> None:
    assert by_ratio(Estimate(total, pods), HALF, current, Rates()) == want


@pytest.mark.rule("kpa-4d-10")
@pytest.mark.parametrize(
    ("current", "stable", "panic", "changed", "state", "want"),
    [
        (2, 20, 20, {}, CALM, 2),
        (2, 30, 40, {}, Panic(0, 2), 4),
        (5, 20, 20, {}, Panic(0, 5), 5),
        (1, 0, 0, {}, CALM, 0),
        (0, 15, 15, {"activation_scale": 3}, CALM, 3),
        (2, 100, 100, {"up": 1500}, CALM, 3),
        (4, 5, 5, {}, CALM, 2),
    ],
)
def test_totals_need_as_many_pods_as_in_aibrix(
    current: int, stable: int, panic: int, changed: dict[str, Any], state: Panic, want: int
) -> None:
    how = evolve(rules(10, up=2000, down=2000), **changed)
    assert replicas(how, stable, panic, current, 1_000, state) == want


# --- the incident ---------------------------------------------------------------------------------------


def of_pods(samples: Samples, current: int = 10) -> int | Missing:
    found = estimate(samples, HALF, Rates(up=10_000, down=10_000))
    if isinstance(found, Missing):
        return found
    return by_ratio(found, HALF, current, Rates(up=10_000, down=10_000))


@pytest.mark.rule("kpa-4d-12")
def test_counting_pending_pods_as_missing_would_scale_too_high_as_in_the_incident() -> None:
    found = estimate(Samples(known=(100,) * 6, missing={"Pending": 4}), HALF, Rates())
    assert isinstance(found, Estimate)
    assert by_ratio(found, HALF, 10, Rates()) == 6


@pytest.mark.rule("kpa-4d-15")
def test_if_no_pod_answers_the_value_is_missing() -> None:
    refused = Missing("NoneAnswered", "no Ready pod gave a value: ConnectionRefused")
    assert of_pods(Samples(missing={"ConnectionRefused": 6}, unready=4)) == refused
    nobody = Missing("NoReadyPods", "there is no Ready pod with an address to ask")
    assert of_pods(Samples(unready=4)) == nobody


@pytest.mark.rule("autoscale-min-known")
def test_if_too_few_pods_answer_the_value_is_missing() -> None:
    few = Samples(known=(100,) * 4, missing={"NoAnswerInTime": 1, "Late": 1, "ConnectionRefused": 4})
    too_few = Missing("TooFewKnown", "too few of the Ready pods gave a value: ConnectionRefused")
    assert estimate(few, HALF, Rates()) == too_few
    assert isinstance(estimate(few, HALF, Rates(), 400), Estimate)
    assert isinstance(estimate(Samples((100, 100), {"Late": 2}), HALF, Rates()), Estimate)
    tie = Samples(missing={"NoAnswerInTime": 2, "Late": 2, "ConnectionRefused": 1})
    assert of_pods(tie) == Missing("NoneAnswered", "no Ready pod gave a value: Late")


@pytest.mark.parametrize(
    ("samples", "want"),
    [
        # Those that were not asked are as those that were.
        (Samples((100, 200), unasked=4), Estimate(900, 6)),
        (Samples((100, 101, 101), unasked=1), Estimate(403, 4)),
        # Going down, what is missing is at the target, and what is on its way is not there.
        (Samples((100, 200), {"Late": 1}, unready=5), Estimate(800, 3)),
        (Samples((460, 460), {"Late": 2}), Estimate(1_920, 4, hold=True)),
        (Samples((500, 500), unready=5), Estimate(1_000, 2, hold=True)),
        # Going up, both are idle.
        (Samples((900, 900), {"Late": 1}), Estimate(1_800, 3, over=True)),
        (Samples((900, 900), {"Late": 1}, unready=1), Estimate(1_800, 4, hold=True, over=True)),
        (Samples((1_100, 1_100), {"Late": 1}, unready=1), Estimate(2_200, 4, hold=True, over=True)),
        (Samples((1_101, 1_100), {"Late": 1}, unready=1), Estimate(2_201, 4, over=True)),
    ],
)
def test_pods_without_a_value_are_filled_in_against_the_direction_of_the_others(
    samples: Samples, want: Estimate
) -> None:
    assert estimate(samples, HALF, Rates()) == want


@pytest.mark.rule("autoscale-milli")
def test_ten_pods_at_nine_tenths_of_a_target_of_a_half_need_eighteen() -> None:
    assert of_pods(Samples(known=(900,) * 10)) == 18


@pytest.mark.rule("kpa-4d-16")
@pytest.mark.parametrize(
    ("pods", "each", "target", "want"), [(6, 900, 500, 11), (10, 950, 500, 19), (4, 70_000, 50_000, 6)]
)
def test_an_average_is_never_mistaken_for_a_total(pods: int, each: int, target: int, want: int) -> None:
    how = DemandRules(target=target)
    total = PerPodAverage(each).over(pods)
    assert by_demand(how, total, total, pods, 0, CALM)[0].replicas == want


# --- sampling -------------------------------------------------------------------------------------------


@pytest.mark.rule("kpa-4d-17")
@pytest.mark.parametrize(
    ("pods", "want"),
    [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 4), (10, 7), (100, 14), (588, 15), (589, 16), (1000, 16)],
)
def test_the_number_of_sampled_pods_is_as_in_knative(pods: int, want: int) -> None:
    assert sample_size(pods) == want


# --- laws -----------------------------------------------------------------------------------------------

loads = some.lists(some.integers(0, 10**9), min_size=1, max_size=30)
targets = some.integers(1, 10**9)
counts = some.integers(0, 30)
rates = some.builds(
    Rates,
    up=some.integers(1001, 20_000),
    down=some.integers(1001, 20_000),
    tolerance_up=some.integers(0, 500),
    tolerance_down=some.integers(0, 500),
)


@given(loads, targets, counts, counts, some.integers(1, 60), rates)
def test_pods_without_a_value_never_reverse_the_direction(
    known: list[int], target: int, lost: int, unready: int, current: int, how: Rates
) -> None:
    found = estimate(Samples(tuple(known), {"lost": lost}, unready=unready), target, how, min_known=0)
    assert isinstance(found, Estimate)
    wanted = by_ratio(found, target, current, how)
    if sum(known) > len(known) * target:
        assert wanted >= current
    else:
        assert wanted <= current


@given(loads, targets, counts, some.integers(1, 60), rates)
def test_more_missing_pods_never_amplify_the_change(
    known: list[int], target: int, lost: int, current: int, how: Rates
) -> None:
    """Going up they are idle, going down they are busy."""
    whole = estimate(Samples(tuple(known)), target, how, min_known=0)
    holed = estimate(Samples(tuple(known), {"lost": lost}), target, how, min_known=0)
    assert isinstance(whole, Estimate)
    assert isinstance(holed, Estimate)
    if sum(known) <= len(known) * target:
        assert holed.total >= whole.total
    else:
        assert holed.total == whole.total
        assert holed.hold or not whole.hold


@given(loads, targets)
def test_a_total_and_an_average_give_the_same_number_of_pods(known: list[int], target: int) -> None:
    pods, each = len(known), sum(known) // len(known)
    how = DemandRules(target=target)
    by_total = by_demand(how, Sum(each * pods), Sum(each * pods), pods, 0, CALM)
    by_average = by_demand(how, PerPodAverage(each).over(pods), PerPodAverage(each).over(pods), pods, 0, CALM)
    assert by_total == by_average


@given(
    some.integers(0, 10**7), some.integers(0, 10**7), targets, some.integers(0, 100), some.integers(0, 10**6)
)
def test_more_load_never_needs_fewer_pods(less: int, more: int, target: int, ready: int, now: int) -> None:
    less, more = sorted((less, more))
    how = DemandRules(target=target)
    found = [by_demand(how, Sum(total), Sum(total), ready, now, CALM) for total in (less, more)]
    low, high = (one[0].replicas for one in found if not isinstance(one, Missing))
    assert low <= high


@given(
    some.lists(
        some.tuples(some.integers(0, 10**6), some.integers(0, 10**6), some.integers(0, 50)), max_size=20
    )
)
def test_in_panic_the_proposal_never_falls(steps: list[tuple[int, int, int]]) -> None:
    how, state, now, before = rules(10), CALM, 0, 0
    for stable, panic, ready in steps:
        now += 2_000
        found = by_demand(how, Sum(stable), Sum(panic), ready, now, state)
        if state.since is not None and found[1].since is not None:
            assert found[0].replicas >= before
        state, before = found[1], found[0].replicas
